"""A base set alone: a release that asks nothing private."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.run.samples import class_folders

import understudy

pytest.importorskip("diffusers")
pytest.importorskip("aggdraw")
pytest.importorskip("skimage")

from understudy.data import open_source
from understudy.run import report
from understudy.run.sampled_release import BaseSet, base_set


@pytest.fixture(scope="module")
def model(tiny_studio: Path, one_thread: None) -> str:
    return f"embedded:studio?folder={tiny_studio}&steps=2"


@pytest.fixture(scope="module")
def made(model: str, tmp_path_factory: pytest.TempPathFactory) -> BaseSet:
    out = tmp_path_factory.mktemp("base") / "out"
    return base_set(["cat", "sleeping_dog", "owl"], out=out, count=8, model=model)


def test_a_base_set_is_a_release_with_prompts_and_licences(made: BaseSet) -> None:
    place = made.release
    source = open_source(made.release.parent)
    assert (source.classes, len(source), source.shape) == (
        ("cat", "sleeping_dog", "owl"), 8, (32, 32, 3),
    )  # fmt: skip
    labels = np.concatenate([batch.labels for batch in source.batches(3)])
    assert np.bincount(labels).tolist() == [3, 3, 2]
    with (place / "captions.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == 8
    for line in lines:
        name = line["path"].split("/")[1]
        assert (place / line["path"]).is_file()
        assert line["caption"] == f"a photo of a {name.replace('_', ' ')}"
        assert (
            line["licence"]
            == json.loads((place / "privacy.json").read_text())["models"][0]["licence"]
        )
    assert made.contact_sheet.is_file()


def test_its_papers_say_that_nothing_private_was_used(made: BaseSet, tmp_path: Path) -> None:
    facts = json.loads((made.release / "privacy.json").read_text())
    assert facts["guarantee"]["definition"] == "none: no private data was used"
    assert facts["stages"] == facts["premises"] == facts["assumptions"] == []
    for name in ("README.md", "PRIVACY.md"):
        text = (made.release / name).read_text()
        assert "No private data was used" in text
        assert "differential" not in text
        assert "noisy" not in text
        assert "epsilon 0" not in text
    page = report.write_public_report(made.release.parent, tmp_path / "p.html")
    assert "epsilon 0" not in page.read_text()


@pytest.mark.slow
def test_it_is_compared_and_evaluated_like_any_other(
    model: str, tmp_path: Path, quick_networks: None
) -> None:
    real = class_folders(tmp_path / "real", {"cat": 40, "dog": 40}, (32, 32, 3))
    test = class_folders(tmp_path / "test", {"cat": 40, "dog": 40}, (32, 32, 3), seed=1)
    for seed in (0, 1):
        out = tmp_path / f"base-{seed}"
        base_set(["cat", "dog"], out=out, count=40, model=model, seed=seed)
        found = understudy.evaluate(
            out, real=real, test=test, features="embedded:dct?coefficients=12", attacks=False
        )
        assert any(one.group == "fidelity" for one in found.values)
    compared = report.compare_folders([tmp_path / "base-0", tmp_path / "base-1"])
    facts = dict(compared.facts)
    assert facts["epsilon"] == ("none: no private data",) * 2
    assert compared.shared
    assert not compared.notes


@pytest.mark.slow
def test_the_seed_decides_and_no_two_parts_share_their_noise(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.run.sampled_release._AT_ONCE", 4)
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        base_set(["cat", "dog"], out=tmp_path / name, count=8, model=model, seed=seed)
    images = {
        name: {
            path.name: np.asarray(Image.open(path))
            for path in (tmp_path / name).rglob("train/*/*.png")
        }
        for name in "abc"
    }
    assert all((images["a"][row] == images["b"][row]).all() for row in images["a"])
    assert any((images["a"][row] != images["c"][row]).any() for row in images["a"])
    assert (images["a"]["000000.png"] != images["a"]["000004.png"]).any()
