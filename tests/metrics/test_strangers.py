"""The benchmark of strangers: its sets, the domains, runs that go on, medians and choices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.domains import (
    Domains,
    divided,
    folder_set,
    spread,
)
from benchmarks.medians import Summary, largest_fall, left_out_medians, print_falls
from PIL import Image

from understudy.core.errors import InputError
from understudy.metrics.utility import Labelled


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


def test_a_part_of_a_set_has_every_class_in_its_proportion() -> None:
    labels = np.repeat([0, 1], [90, 30])
    data = Labelled(np.arange(120).reshape(120, 1, 1, 1), labels, ("many", "few"))
    part = spread(data, 40)
    assert np.bincount(part.labels).tolist() == [30, 10]
    assert np.array_equal(part.labels, labels[part.values.ravel()])
    assert spread(data, None) is spread(data, 120) is data
    train, test = divided(data)
    assert np.bincount(test.labels).tolist() == [18, 6]
    assert sorted([*train.values.ravel(), *test.values.ravel()]) == list(range(120))
    assert np.array_equal(divided(data)[1].values, test.values)


def test_a_folder_has_its_own_halves_or_a_fifth_is_set_aside(tmp_path: Path) -> None:
    whole = folder_set(stripes(tmp_path / "whole", 0), records=20)
    assert [len(half.labels) for half in whole.split] == [20, 12]
    stripes(tmp_path / "halves" / "train", 0, side=100)
    stripes(tmp_path / "halves" / "test", 0, count=5, side=80)
    train, test = folder_set(tmp_path / "halves").split
    assert train.values.shape == (60, 64, 64, 3)
    assert test.values.shape == (10, 64, 64, 3)  # of the training images' size, whatever its own
    assert folder_set(tmp_path / "halves", channels=1).split[0].values.shape[3] == 1


def test_images_are_taken_for_the_domain_that_they_look_like(domains: Domains) -> None:
    red, green = (each.split[1].values for each in domains.sets)
    assert domains.shares(red)["red"] > 0.9
    assert domains.shares(green)["green"] > 0.9
    assert domains.shares(np.concatenate([red, green]))["red"] == pytest.approx(0.5, abs=0.1)
    assert min(domains.recalls().values()) > 0.9


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
