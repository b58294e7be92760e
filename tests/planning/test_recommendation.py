"""``understudy plan``: a method with its reasons, what it costs, and what to expect of it."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from tests.backends.tiny_onnx import save as save_onnx
from tests.run.samples import class_folders, embeddings, tree
from typer.testing import CliRunner

from understudy.cli.main import app
from understudy.planning.benchmark_results import benchmark_results, nearest_results
from understudy.planning.dry import dry_run
from understudy.planning.recommendation import Recommendation, recommended_run
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.config import make_config


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    return class_folders(tmp_path / "scans", {"cat": 120, "dog": 30}, (12, 10, 1))


def planned(source: Path, **options: Any) -> Recommendation:
    given = {"epsilon": 1.0, "ledger": str(source.parent / "ledger.db"), "progress": "none"}
    return recommended_run(source, **{**given, **options})


def chosen(result: Recommendation) -> list[str]:
    return [choice.option for choice in result.choices]


def test_without_help_it_is_clustering_and_the_command_is_one_that_runs(
    scans: Path, tmp_path: Path
) -> None:
    before = tree(scans)
    result = planned(scans)
    assert chosen(result)[:2] == ["--method clustering", "--encoder embedded:dct"]
    assert all(choice.reason for choice in result.choices)
    assert result.command is not None
    words = shlex.split(result.command)
    assert words[:3] == ["understudy", "synthesize", str(scans)]
    ended = CliRunner().invoke(app, [*words[1:-1], str(tmp_path / "out"), "--dry-run"])
    assert ended.exit_code == 0, ended.output
    assert result.plan is not None
    names = ("method", "encoder", "classes", "channels", "ledger", "epsilon")
    flags = {name: words[words.index(f"--{name}") + 1] for name in names}
    again = dry_run(make_config({"source": str(scans), "out": tmp_path / "out", **flags}))
    assert again.stages == result.plan.stages
    assert tree(scans) == before
    with Ledger(tmp_path / "ledger.db") as ledger:
        assert list(ledger.rows()) == []


def test_what_was_counted_in_private_records_says_so(scans: Path) -> None:
    facts = {fact.name: fact for fact in planned(scans).facts}
    assert (facts["images"].value, facts["images"].private) == ("150", True)
    assert facts["class sizes"].private
    assert facts["read as"].private
    assert not facts["epsilon asked for"].private
    declared = {fact.name: fact for fact in planned(scans, size=8, channels=1).facts}
    assert (declared["read as"].value, declared["read as"].private) == ("8 x 8 x 1", False)


def test_a_public_set_of_the_same_classes_is_aligned_and_another_one_is_not(
    scans: Path, tmp_path: Path
) -> None:
    stock = class_folders(tmp_path / "stock", {"cat": 10, "dog": 10}, (12, 10, 1), seed=3)
    other = class_folders(tmp_path / "other", {"ant": 10, "bee": 10}, (12, 10, 1), seed=4)
    result = planned(scans, public=str(stock))
    assert chosen(result)[0] == "--method alignment"
    assert f"--base {stock}" in (result.command or "")
    assert "--public" not in (result.command or "")
    assert result.plan is not None
    assert result.plan.method == "alignment"
    assert chosen(planned(scans, public=str(other)))[0] == "--method clustering"


@pytest.mark.parametrize(
    ("generator", "method"),
    [
        ("embedded:studio", "alignment"),
        pytest.param("hf:a/model", "evolution", marks=pytest.mark.slow),
    ],
)
def test_a_generator_that_is_at_hand_is_used(scans: Path, generator: str, method: str) -> None:
    result = planned(scans, generator=generator, base="none")
    assert chosen(result)[0] == f"--method {method}"
    assert {one.method for one in result.expected} == {method}


def test_embeddings_of_large_classes_get_a_classifier_and_images_do_not(
    scans: Path, tmp_path: Path
) -> None:
    vectors = embeddings(tmp_path / "vectors.npz")
    large = planned(vectors, epsilon=90.0)
    assert chosen(large)[-1] == "--set labels=classifier"
    assert large.plan is not None
    assert large.plan.settings["labels"] == "classifier"
    words = shlex.split(large.command or "")
    ended = CliRunner().invoke(app, [*words[1:-1], str(tmp_path / "out"), "--dry-run"])
    assert ended.exit_code == 0, ended.output
    assert "labels=classifier takes about" in ended.output
    assert "--set labels=classifier" not in chosen(planned(vectors, epsilon=1.0))
    assert "--set labels=classifier" in chosen(planned(scans, epsilon=90.0, decoder="none"))
    assert "--set labels=classifier" not in chosen(planned(scans, epsilon=90.0))


@pytest.mark.slow
def test_images_that_nothing_decodes_are_released_as_embeddings(
    scans: Path, tmp_path: Path
) -> None:
    encoder = save_onnx(
        tmp_path / "means.onnx",
        [("ReduceMean", ["images"], ["means"], {"axes": [2, 3], "keepdims": 0})],
        {"images": ["n", 1, "h", "w"]},
        {"means": ["n", 1]},
    )
    result = planned(scans, encoder=f"onnx:{encoder}", epsilon=90.0)
    assert result.obstacle is None
    assert {one.kind for one in result.expected} == {"embeddings"}
    assert "--set labels=classifier" in chosen(result)


@pytest.mark.parametrize(
    "place", ["owner:hunter2@127.0.0.1:1/l", "127.0.0.1:1/l?user=owner&password=hunter2"]
)
def test_a_password_is_not_repeated(scans: Path, place: str) -> None:
    result = planned(scans, ledger=f"postgresql://{place}")
    assert "hunter2" not in json.dumps(result.as_dict(), default=list)
    assert result.obstacle is not None


def test_a_plan_that_would_be_refused_says_when_its_command_runs(scans: Path) -> None:
    words = ["plan", str(scans), "--epsilon=1", "--ledger=postgresql://127.0.0.1:1/l"]
    output = CliRunner().invoke(app, words).output
    assert "as things are, it would be refused" in output
    assert "to run it once that is mended: " in output


def test_the_nearest_benchmarks_come_first() -> None:
    like = {"images": 50_000, "classes": 10, "side": 32}
    first, *_ = nearest_results("clustering", "embedded:dct", "images", **like, epsilon=8.0)
    assert (first.data, first.epsilon) == ("small grey images, a public benchmark", 10.0)
    first, *_ = nearest_results("clustering", "onnx:x.onnx", "images", **like, epsilon=1.0)
    assert (first.data, first.encoder, first.epsilon) == (
        "satellite tiles, a public benchmark",
        "onnx",
        1.0,
    )
    assert nearest_results("another", "", "images", **like, epsilon=1.0) == ()


def test_every_result_stands_in_the_documents(repository: Path) -> None:
    page = " ".join((repository / "docs" / "benchmarks.md").read_text().split())
    for one in benchmark_results():
        first = re.findall(r"\d+\.\d+", one.result)[0]
        assert first in page, one
        if one.command.startswith("python"):
            assert one.command in page
