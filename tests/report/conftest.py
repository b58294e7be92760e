import math

import numpy as np
import pytest
from tests.metric_values import metric_value

from understudy.core.results import Curve, Evaluation, Pairs, Verdict
from understudy.core.types import Receipt, StageReceipt
from understudy.report import (
    BudgetState,
    ModelRecord,
    ModelScore,
    OwnerRecord,
    Recall,
    RunRecord,
    Sheet,
)

MU = 0.2680511
SHARES = {"kmeans 1": 0.2, "moments": 0.5, "votes": 0.3}


@pytest.fixture
def receipt() -> Receipt:
    return Receipt(
        unit="image",
        adjacency="add-remove",
        epsilon=0.99999931,
        delta=1e-5,
        slack=2.3e-7,
        stages=tuple(
            StageReceipt(
                stage=stage,
                query=f"query of {stage}",
                share=share,
                sensitivity=1.0,
                sigma=1 / (MU * math.sqrt(share)),
                mu=MU * math.sqrt(share),
                size=100 + index,
            )
            for index, (stage, share) in enumerate(SHARES.items())
        ),
    )


@pytest.fixture
def record(receipt: Receipt) -> RunRecord:
    return RunRecord(
        method="clustering",
        receipt=receipt,
        classes=("Trouser", "Ankle boot"),
        count=60_000,
        format="png",
        version="0.1.0",
        date="2026-11-20",
        params={"clusters": 8, "covariance": "low_rank"},
        image_shape=(4, 6, 1),
        dim=24,
        models=(
            ModelRecord("encoder", "onnx:/somebody/secret-place/enc.onnx?size=128", "MIT, a zoo"),
            ModelRecord("decoder", "embedded:dct", "none"),
        ),
        public_sources=("/somebody/secret-place/photos",),
        facts={"kept clusters": 15},
        how="A mixture of Gaussians.",
    )


@pytest.fixture
def owner() -> OwnerRecord:
    images = np.random.default_rng(0).integers(0, 256, (5, 4, 6, 1), dtype=np.uint8)
    recalls = Recall("Ankle boot", 0.4377, 0.8812), Recall("Trouser", 0.9869, 0.9562)
    figures = (0.7123, 0.9187, 0.9321, 0.9954, 0.5, 0.9146)
    return OwnerRecord(
        dataset="ward-seven-photos",
        rows=48_613,
        skipped=17,
        spending=BudgetState(epsilon=3.25, delta=1e-5, spent=1.6234, remaining=1.4711),
        scores=(
            ModelScore("small CNN", *figures, recalls=recalls),
            ModelScore("ResNet-9", 0.6984),
        ),
        sheets=(
            Sheet("Trouser", images, images[::-1]),
            Sheet("Ankle boot", images[:0], images[:2]),
        ),
        seconds={"reading": 21.37, "moments": 954.81},
    )


@pytest.fixture
def evaluation() -> Evaluation:
    """What an evaluation may look like: every group, classes, curves, verdicts, a confusion."""
    x = tuple(np.linspace(0, 1, 201).tolist())
    rates, roots = ("false positive rate", "true positive rate"), tuple(v**0.5 for v in x)
    dct, part = {"measured": "features embedded:dct"}, {"better": "higher", "unit": "%"}
    limits = {"low": 11.9, "high": 12.8, "baseline": 0.41, "better": "lower"}
    cnn = {"measured": "small CNN", "baseline": 0.79}
    rate = {"better": "lower", "unit": "%"}
    classes, counts = ["Trouser", "Ankle boot"], [[90, 10], [25, 75]]
    confusion = {"name": "small CNN", "classes": classes, "counts": counts}
    return Evaluation(
        values=(
            metric_value("fidelity", "Frechet distance", 12.3456, **limits, **dct),
            metric_value("fidelity", "recall", 0.4031, **dct, **part),
            metric_value("fidelity", "recall", 0.61, label="Trouser", **dct, **part),
            metric_value("fidelity", "recall", 0.2222, label="Ankle boot", **dct, **part),
            metric_value("utility", "accuracy", 0.7481, **cnn, **part),
            metric_value("leakage", "DCR, median", 0.9, baseline=0.91, measured="pixels"),
            metric_value("attack", "AUC of distance", 0.503, low=0.49, high=0.516, better="lower"),
            metric_value("attack", "TPR at 0.1 % FPR of distance", 0.0012, **rate),
            metric_value("audit", "lower bound on epsilon", math.nan, kind="dp"),
        ),
        curves=(
            Curve("attack", "ROC of distance", *rates, x, x),
            Curve("attack", "ROC of DOMIAS", *rates, x, roots),
            Curve("utility", "release", "rows", "accuracy", (100, 1000, 6000), (0.5, 0.7, 0.748)),
        ),
        verdicts=(
            Verdict("fidelity", "fair", "Frechet distance 12.3.", "Close: below 5."),
            Verdict("leakage", "poor", "Copies.", "None found: no copies."),
        ),
        settings={
            "features": "embedded:dct",
            "confusion": [confusion],
        },
        seconds={"fidelity": 3.0},
    )


@pytest.fixture
def pairs() -> Pairs:
    images = np.random.default_rng(1).integers(0, 256, (14, 4, 6, 1), dtype=np.uint8)
    other = images.copy()
    other[1:] //= 2
    rows = np.stack([np.arange(14) * 7, np.arange(14) * 11], axis=1)
    return Pairs(images, other, np.linspace(0, 1, 14), rows.astype(np.float64), "pixels")
