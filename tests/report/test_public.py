"""What may be shared: the card, the statement and privacy.json."""

import inspect
import json
import math
import re
import typing
from dataclasses import fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path

import pytest
import yaml
from PIL import Image

from understudy.report import (
    OwnerRecord,
    RunRecord,
    dataset_card,
    privacy_json,
    public_documents,
    statement_text,
)
from understudy.report import record as record_module
from understudy.report.verdict_table import guarantee_card

HOSTILE = '<script>alert("x")</script> | `code` [a](http://evil) {{ 7*7 }}\n# heading: *b*'


def everything(record: RunRecord) -> str:
    return "\n".join(public_documents(record).values())


report = import_module("understudy.report")  # `understudy.report` is the public function
OWNERS = {"owner_report", "owner_json", "read_owner", "OwnerRecord"}
MEASURED = {"OwnerRecord", "Released", "Comparison", "Sheet", "Score", "Spending", "Recall"}


@pytest.mark.parametrize("name", sorted(set(report._HOMES) - OWNERS))
def test_only_the_owners_report_can_take_an_owners_record(name: str) -> None:
    thing = getattr(report, name)
    hints = (
        {field.name: field.type for field in fields(thing)}
        if inspect.isclass(thing)
        else typing.get_type_hints(thing)
    )
    assert "OwnerRecord" not in str(hints)


@pytest.mark.parametrize(
    "maker", [report.public_report, report.public_json, report.public_documents, privacy_json]
)
def test_what_makes_public_papers_has_no_parameter_for_anything_measured(maker: object) -> None:
    """Nor have the records that it takes, down to the last field."""
    seen: set[str] = set()
    left = [str(hint) for hint in typing.get_type_hints(maker).values()]
    while left:
        names = set(re.findall(r"[A-Z]\w+", left.pop())) - seen
        seen |= names
        for thing in (getattr(record_module, name, None) for name in names):
            if inspect.isclass(thing) and is_dataclass(thing):
                left += [str(field.type) for field in fields(thing)]
    assert "RunRecord" in seen
    assert not seen & (MEASURED | {"Evaluation", "Pairs", "Figure", "Curve", "Verdict"})


def test_no_private_fact_is_in_a_public_document(record: RunRecord, owner: OwnerRecord) -> None:
    assert owner.spending is not None
    private = [owner.dataset, owner.rows, f"{owner.rows:,}", owner.skipped]
    private += [owner.spending.epsilon, owner.spending.spent, owner.spending.remaining]
    private += [score.synthetic for score in owner.scores] + ["71.2", "69.8", "91.9", 0.9187]
    private += ["93.2", "99.5", "43.8", 0.4377, 0.9321]
    private += list(owner.seconds.values())
    words = set(re.findall(r"[\w.,-]+", everything(record)))
    assert not words & {str(fact) for fact in private}
    assert "ward-seven" not in everything(record)


def test_no_folder_of_the_owners_machine_is_in_a_public_document(record: RunRecord) -> None:
    assert "secret-place" not in everything(record)
    assert "onnx:enc.onnx?size=128" in everything(record)
    assert privacy_json(record)["public_data"] == ["photos"]


def test_the_statement_answers_what_nist_asks(record: RunRecord) -> None:
    text = statement_text(record)
    for words in (
        "epsilon 1",
        "delta 1e-5",
        "one image",
        "add-remove: one image added or removed",
        "right at most 55.4 % of the time",
        "discrete Gaussian",
        "central",
        "## Not covered",
        "## Assumed",
        "Other releases from the same images",
        "no weights, a fixed formula",
        "MIT, a zoo",
    ):
        assert words in text
    for stage in record.receipt.stages:
        assert f"| {stage.stage} | {stage.query} | {stage.size} |" in text


def test_what_is_made_of_embeddings_protects_one_embedding(record: RunRecord) -> None:
    length = record_module.Premise.of("embedding length", 24, declared=False)
    own = replace(record, image_shape=None, format="embeddings", premises=(length,))
    for text in (dataset_card(own), statement_text(own)):
        assert "for one embedding" in text
        assert "one image" not in text
        assert "private images" not in text
    assert "whatever the embeddings are: class names, their length, options" in " ".join(
        statement_text(own).split()
    )
    assert "The images that pretrained models were trained on" in statement_text(own)
    card = guarantee_card(own.receipt, (), own.private_samples)
    assert "a guess about one embedding is right" in card.sentence
    assert "one embedding added or removed. The number of embeddings" in statement_text(own)
    encoded = replace(own, premises=())
    assert "for one image" in statement_text(encoded)  # embeddings of private images


def test_the_statement_of_replace_one_and_of_a_persons_rows(record: RunRecord) -> None:
    receipt = replace(record.receipt, adjacency="replace-one", unit="rows sharing 'patient'")
    text = statement_text(replace(record, receipt=receipt))
    assert "replace-one: all records sharing 'patient' replaced by any other" in text
    assert "had that unit been another one" in text
    assert "added or removed" not in text


def test_hostile_names_stay_text(record: RunRecord) -> None:
    hostile = replace(
        record,
        classes=(HOSTILE, "b"),
        title=HOSTILE,
        method=HOSTILE,
        params={HOSTILE: HOSTILE},
        facts={HOSTILE: [HOSTILE]},
        public_sources=(HOSTILE,),
        models=(report.ModelRecord("encoder", HOSTILE, HOSTILE),),
    )
    for text in (dataset_card(hostile).partition("\n---\n")[2], statement_text(hostile)):
        assert "<script" not in text
        assert "\n# heading" not in text
        assert "](http://evil)" not in text.replace("\\]", "")
        assert "{{ 7*7 }}".replace("*", "\\*") in text  # not evaluated
        for line in text.splitlines():
            if line.startswith("|"):  # a table keeps its columns
                assert len(re.findall(r"(?<!\\)\|", line)) in {3, 4, 8}
    front = yaml.safe_load(dataset_card(hostile).split("\n---\n")[0])
    assert front["pretty_name"] == HOSTILE
    assert json.loads(public_documents(hostile)["privacy.json"])["data"]["classes"][0] == HOSTILE


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("door", ["card", "imagefolder"])
def test_a_release_with_its_card_loads(record: RunRecord, tmp_path: Path, door: str) -> None:
    datasets = pytest.importorskip("datasets")
    folder = tmp_path / "release"
    for name in record.classes:
        (folder / name).mkdir(parents=True)
        for index in range(3):
            Image.new("L", (6, 4), index).save(folder / name / f"{index}.png")
    (folder / "embeddings.safetensors").write_bytes(b"")
    for name, text in public_documents(record).items():
        (folder / name).write_text(text, encoding="utf-8")
    where = {"path": str(folder)}
    if door == "imagefolder":
        where = {"path": "imagefolder", "data_dir": str(folder)}
    rows = datasets.load_dataset(**where, split="train", cache_dir=str(tmp_path / "cache"))
    assert len(rows) == 6
    assert rows.features["label"].names == sorted(record.classes)


def test_the_json_can_be_checked_from_itself(record: RunRecord) -> None:
    """Epsilon follows from the stages' mu, by the formula that the file itself gives."""
    read = json.loads(public_documents(record)["privacy.json"])
    mu = math.sqrt(sum((s["sensitivity"] / s["sigma"]) ** 2 for s in read["stages"]))
    assert mu == pytest.approx(read["guarantee"]["mu"])

    def phi(x: float) -> float:
        return math.erfc(-x / math.sqrt(2)) / 2

    epsilon = read["guarantee"]["epsilon"] - read["guarantee"]["slack"]
    delta = phi(-epsilon / mu + mu / 2) - math.exp(epsilon) * phi(-epsilon / mu - mu / 2)
    assert delta == pytest.approx(read["guarantee"]["delta"], rel=1e-3)
    assert sum(stage["share"] for stage in read["stages"]) == pytest.approx(1)
