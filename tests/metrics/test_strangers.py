"""The benchmark of strangers: its sets, the domains, runs that go on, medians and choices."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.domains import Domains, folder_set
from benchmarks.medians import Summary, largest_fall, left_out_medians, print_falls
from PIL import Image

from understudy.core.errors import InputError


def stripes(folder: Path, colour: int, count: int = 30, side: int = 16) -> Path:
    """A folder of two classes, lying and standing stripes, in one of three colours."""
    rng = np.random.default_rng(colour)
    for name, axis in (("lying", 0), ("standing", 1)):
        (folder / name).mkdir(parents=True)
        for number in range(count):
            lines = 90 * (np.arange(side) // 4 % 2)
            image = np.zeros((side, side, 3)) + np.expand_dims(lines, (1 - axis, 2))
            image[:, :, colour] += 100
            image += rng.integers(0, 40, image.shape)
            Image.fromarray(image.astype(np.uint8)).save(folder / name / f"{number:03}.png")
    return folder


@pytest.fixture(scope="module")
def domains(tmp_path_factory: pytest.TempPathFactory) -> Domains:
    folder = tmp_path_factory.mktemp("sets")
    names = ("red", "green")
    return Domains([folder_set(stripes(folder / name, at)) for at, name in enumerate(names)], 12)


# Arithmetic


def test_a_setting_is_chosen_without_the_set_that_it_is_shown_on() -> None:
    ratios = {
        "broad": {"a": 0.8, "b": 0.8, "c": 0.8, "d": 0.8},
        "narrow": {"a": 1.0, "b": 0.5, "c": 0.9, "d": 0.4, "e": 1.0},
    }
    choices = {each.name: each for each in left_out_medians(ratios)}
    assert list(choices) == ["a", "b", "c", "d"]  # "e" has no figure of one setting
    assert (choices["a"].setting, choices["a"].median, choices["a"].ratio) == ("broad", 0.8, 0.8)
    # Without its two bad sets in turn, the narrow one is better by the median: 0.9 of 1, 0.9, 0.4.
    assert (choices["b"].setting, choices["b"].median, choices["b"].ratio) == ("narrow", 0.9, 0.5)
    assert choices["d"].ratio == 0.4
    with pytest.raises(InputError, match="two or more, found 1"):
        left_out_medians({"one": {"a": 0.5}})


def test_a_fall_is_against_the_best_at_a_smaller_epsilon(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert largest_fall([0.5, 0.6, 0.7]) == 0
    assert largest_fall([0.5, 0.7, 0.69, 0.68, 0.71]) == pytest.approx(0.02)
    accuracies = {"steady": (0.5, 0.49, 0.6), "falling": (0.6, 0.59, 0.57)}
    print_falls(
        [
            Summary(name, "default", epsilon, 10, accuracy, 0, 0.9, None, None, 1, 1, {name: 1}, 1)
            for name, along in accuracies.items()
            for epsilon, accuracy in zip((1.0, 2.0, 4.0), along, strict=True)
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].split()[-4:] == ["50.0", "49.0", "60.0", "1.0"]
    assert lines[-1].split()[-2:] == ["3.0", "*"]
