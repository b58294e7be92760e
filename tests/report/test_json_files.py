"""Records from files: what is read back makes the same documents."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest

from understudy.core.errors import RunError
from understudy.core.results import Evaluation
from understudy.report import (
    OwnerRecord,
    RunRecord,
    owner_report,
    public_documents,
    public_report,
    read_owner,
    read_record,
)
from understudy.report.json_models import EvaluationFile, PrivacyFile


def stored(record: RunRecord) -> dict[str, object]:
    content: dict[str, object] = json.loads(public_documents(record)["privacy.json"])
    return content


def test_a_record_read_back_makes_the_same_documents(record: RunRecord) -> None:
    odd = replace(
        record,
        title="Coats",
        licence="mit",
        facts={"gap": np.float32(0.25), "shape": (1, 2), "top": math.inf, "none": None},
    )
    for one in (record, odd, replace(odd, format="embeddings", image_shape=None)):
        read = read_record(stored(one))
        assert public_documents(read) == public_documents(one)
        assert public_report(read) == public_report(one)
        assert (read.receipt, read.models, read.classes) == (one.receipt, one.models, one.classes)
        assert (read.title, read.licence, read.how) == (one.title, one.licence, one.how)


def test_every_number_of_the_documents_comes_from_the_record(record: RunRecord) -> None:
    """Another record: no number of the old one is left in any document."""
    receipt = replace(
        record.receipt,
        epsilon=2.5,
        delta=3e-7,
        slack=1e-9,
        stages=tuple(
            replace(stage, share=share, sigma=7.7, mu=1 / 7.7, size=909)
            for stage, share in zip(record.receipt.stages, (0.11, 0.22, 0.67), strict=True)
        ),
    )
    other = replace(record, receipt=receipt, count=777, image_shape=(13, 17, 3), dim=19)
    page = public_report(other).partition("</style>")[2]
    for text in [*public_documents(other).values(), page]:
        for number in ("60,000", "60000", "1e-5", "1e-05", "55.4", "50.0 %", "0.0134026", "101"):
            assert f" {number}" not in text.replace("(", " "), number
    for text in list(public_documents(other).values())[:2]:
        assert "2.5" in text
        assert "777" in text


def test_a_file_of_an_earlier_version_lacks_what_it_did_not_say(record: RunRecord) -> None:
    content = stored(record)
    for name in ("how", "title", "licence"):
        del content["data"][name]  # type: ignore[attr-defined]
    assert read_record(content).title == "A synthetic dataset"


def test_every_file_has_the_form_that_is_published(
    record: RunRecord, evaluation: Evaluation
) -> None:
    for model, content in (
        (PrivacyFile, stored(record)),
        (EvaluationFile, json.loads(json.dumps(evaluation.as_dict(), allow_nan=False))),
    ):
        file = model.model_validate(content)
        assert file.model_dump(mode="json", by_alias=True) == content
        told = model.model_json_schema(by_alias=True)
        assert set(content) == set(told["properties"])


def trained(recall: float) -> dict[str, Any]:
    """What ``run.json`` holds of one training: 90 rows of a class are found, of ten others some."""
    return {
        "accuracy": 0.9 + 0.1 * recall,
        "balanced": (1 + recall) / 2,
        "per_class": {"many": 1.0, "few": recall, "none": None},
        "confusion": [[90, 0, 0], [round(10 * (1 - recall)), round(10 * recall), 0], [0, 0, 0]],
    }


def test_the_owners_record_read_back_makes_the_same_page(
    record: RunRecord, owner: OwnerRecord
) -> None:
    run = {
        "dataset": owner.dataset,
        "rows": owner.rows,
        "skipped": owner.skipped,
        "spending": asdict(owner.spending),  # type: ignore[arg-type]
        "accuracy": [
            {"model": name, "synthetic": [trained(0.5), trained(0.7)], "real": [trained(0.9)]}
            for name in ("small CNN", "ResNet-9")
        ],
        "seconds": dict(owner.seconds),
        "settings": {"source": "elsewhere"},
    }
    read = replace(read_owner(json.loads(json.dumps(run))), sheets=owner.sheets)
    again = tuple(replace(read.scores[0], model=name) for name in ("small CNN", "ResNet-9"))
    assert owner_report(record, read) == owner_report(record, replace(owner, scores=again))
    old = {name: part for name, part in run.items() if name not in ("dataset", "accuracy")}
    assert read_owner(old).dataset == "elsewhere"
    with pytest.raises(RunError, match=r"run\.json is not whole"):
        read_owner({**run, "spending": {}})
