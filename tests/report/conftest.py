from __future__ import annotations

import math

import numpy as np
import pytest

from understudy.core.types import Receipt, StageReceipt
from understudy.report import Model, OwnerRecord, RunRecord, Score, Sheet, Spending

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
            Model("encoder", "onnx:/somebody/secret-place/enc.onnx?size=128", "MIT, a zoo"),
            Model("decoder", "embedded:dct", "none"),
        ),
        public_sources=("/somebody/secret-place/photos",),
        facts={"kept clusters": 15},
        how="A mixture of Gaussians.",
    )


@pytest.fixture
def owner() -> OwnerRecord:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (5, 4, 6, 1), dtype=np.uint8)
    return OwnerRecord(
        dataset="ward-seven-photos",
        rows=48_613,
        skipped=17,
        spending=Spending(epsilon=3.25, delta=1e-5, spent=1.6234, remaining=1.4711),
        scores=(Score("small CNN", 0.7123, 0.9187), Score("ResNet-9", 0.6984)),
        sheets=(
            Sheet("Trouser", images, images[::-1]),
            Sheet("Ankle boot", images[:0], images[:2]),
        ),
        seconds={"reading": 21.37, "moments": 954.81},
    )
