"""``understudy compare --real --test``: every release is measured on the same data."""

import shutil
from pathlib import Path

import pytest
from tests.run.samples import embeddings, quick_run
from typer.testing import CliRunner

import understudy
from understudy.cli.main import app
from understudy.core.results import Evaluation
from understudy.run.report import stored_evaluation


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs that nobody has evaluated, one of them a release alone."""
    place = tmp_path_factory.mktemp("site")
    for seed, name in enumerate(("private", "test")):
        embeddings(place / f"{name}.npz", seed=seed)
    for epsilon in (1, 8):
        out = place / f"epsilon-{epsilon}"
        quick_run(place / "private.npz", place, out=out, epsilon=epsilon, count=None)
    shutil.copytree(place / "epsilon-8" / "release", place / "alone")
    return place


def test_all_releases_are_evaluated(site: Path) -> None:
    assert understudy.compare([site / "epsilon-1", site / "alone"]).shared == ()
    compared = understudy.compare(
        [site / "epsilon-1", site / "alone"],
        real=site / "private.npz",
        test=site / "test.npz",
        progress="none",
    )
    keys = {row.value.metric.key for row in compared.shared}
    assert {"precision", "near_copies", "distance_auc"} <= keys
    for row in compared.shared:
        assert len(row.cells) == 2
    evaluations = [one.evaluation for one in compared.releases]
    assert all(isinstance(one, Evaluation) for one in evaluations)
    assert stored_evaluation(site / "epsilon-1") is not None


def test_the_command_line_does_so(site: Path) -> None:
    folders = [str(site / "epsilon-1"), str(site / "alone")]
    data = ["--real", str(site / "private.npz"), "--test", str(site / "test.npz")]
    ended = CliRunner().invoke(app, ["compare", *folders, *data, "--progress", "none"])
    assert ended.exit_code == 0
    assert "near-copies" in ended.stdout
