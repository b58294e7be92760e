"""Private images and test images of two origins, on purpose: what is a leak, and what is not."""

from dataclasses import replace

import numpy as np
import pytest
from tests.run.blobs import SHAPE, blobs, folder_of

import understudy
from understudy.data import open_source
from understudy.evaluation.evaluate import _Measurement
from understudy.evaluation.inputs import EvaluationOptions, Inputs
from understudy.run.progress import SilentEvents

PRIVATE, RELEASE, TEST = 700, 300, 600


def darkened(pictures):
    return [(name, np.rint(image * 0.8).astype(np.uint8)) for name, image in pictures]


def changed(number, image):
    """Cropped by a pixel a side, with a little noise, or brighter."""
    light = image[..., 0].astype(np.float64)
    if number % 3 == 0:
        light = np.pad(light[1:-1, 1:-1], 1, mode="edge")
    elif number % 3 == 1:
        light += np.random.default_rng(number).normal(0, 4, SHAPE[:2])
    else:
        light *= 1.05
    return np.clip(np.rint(light), 0, 255).astype(np.uint8)[..., None]


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A private half, a fifth darker than the test half, and releases of the private kind."""
    place = tmp_path_factory.mktemp("shift")
    private, others = (darkened(blobs(seed, n)) for seed, n in ((0, PRIVATE), (1, RELEASE)))
    folder_of(place / "real", private)
    folder_of(place / "test", blobs(2, TEST))
    again = [(name, changed(at, image)) for at, (name, image) in enumerate(private)]
    few = 3 * RELEASE // 100
    for name, pictures in {
        "honest": others,
        "exact": [*private[:few], *others[few:]],
        "tenth": [*again[: RELEASE // 10], *others[RELEASE // 10 :]],
        "changed": again[:RELEASE],
    }.items():
        folder_of(place / name, pictures, release=True)
    return place


def evaluate(world, name):
    options = {"real": world / "real", "test": world / "test"}
    found = understudy.evaluate(world / name, features="embedded:dct?coefficients=60", **options)
    return found, {one.group: one for one in found.verdicts}


@pytest.mark.slow
def test_an_honest_release_is_not_accused_of_the_origin_of_the_private_images(world):
    found, verdict = evaluate(world, "honest")
    assert verdict["leakage"].grade == "good"
    assert verdict["attack"].grade in ("good", "unknown")
    blind = found.find("blind classifier: AUC")
    assert blind.low > 0.52  # which never saw the release
    assert "--hold-out 5%" in verdict["attack"].sentence
    assert "--hold-out 5%" in found.settings["advice"]
    for name in ("distance", "calibrated distance", "density ratio (DOMIAS)"):
        assert found.find(f"{name}: AUC").baseline == blind.value
        added = found.find(f"{name}: AUC, added by the release")
        assert added.low <= added.value <= added.high
        assert added.low < 0.01


@pytest.mark.slow
@pytest.mark.parametrize("name", ["exact", "tenth", "changed"])
def test_copies_are_found_whatever_the_origin(world, name):
    _, verdict = evaluate(world, name)
    assert verdict["leakage"].grade == "poor", verdict["leakage"].sentence
    if name == "changed":
        assert verdict["attack"].grade == "poor", verdict["attack"].sentence


@pytest.mark.slow
def test_records_that_the_run_held_out_are_the_non_members(world, tmp_path):
    """Drawn like the private images, so that no difference is left, and nothing is advised."""
    folder_of(tmp_path / "held-out", darkened(blobs(3, 300)))
    asked = EvaluationOptions(features="embedded:dct?coefficients=60")
    sources = str(world / "real"), str(world / "test")
    release = world / "honest" / "release"
    opened = Inputs.open(release, *sources, asked)
    inputs = replace(opened, held_out=open_source(tmp_path / "held-out"))
    found, _ = _Measurement(release, inputs, asked, SilentEvents()).run()
    blind = found.find("blind classifier: AUC")
    assert blind.low < 0.5 < blind.high
    verdict = {one.group: one for one in found.verdicts}["attack"]
    assert (verdict.grade, "hold-out" in verdict.sentence) == ("good", False)
    assert "held out" in found.settings["non_members"]
    assert "advice" not in found.settings
