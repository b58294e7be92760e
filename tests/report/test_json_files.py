"""Records from files: what is read back makes the same documents."""

import json
import math
from dataclasses import replace

import numpy as np

from understudy.core.results import Evaluation
from understudy.report import RunRecord, public_documents, public_report, read_record
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
