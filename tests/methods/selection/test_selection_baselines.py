"""The command that charts PrivSynth's baselines on a generator that memorises."""

import re
from pathlib import Path

import numpy as np
import pytest
from benchmarks import memorisation, perceptual, selection_baselines
from benchmarks.memorisation import (
    World,
    held_out_images,
    non_members,
    private_images,
    training_set,
    without_lookalikes,
)
from benchmarks.tables import DATA

JUDGE = DATA / "models" / "mobilenet_v2_features.onnx"
TINY = World(tiny=True, homes=2)


def test_seeds_have_homes_of_their_own_and_no_part_has_an_image_of_another() -> None:
    parts = [
        part(World(seed, tiny=True, homes=2))[0]
        for seed in (0, 1)
        for part in (private_images, held_out_images, non_members)
    ]
    every = [image.tobytes() for images in parts for image in images]
    assert len(set(every)) == len(every) == 2 * (16 + 16 + 32)


@pytest.mark.slow
def test_repeats_are_what_looks_most_alike() -> None:
    """Dropping as many as there are repeats leaves one of each private image, or nearly."""
    training = training_set(TINY)
    count = len(private_images(TINY)[0])
    assert len(training.labels) > 4 * count
    left = without_lookalikes(training, 1 - count / len(training.labels))
    assert len(left.labels) == count
    assert len(set(left.origin.tolist())) >= count - 1
    chance = np.random.default_rng(0).permutation(training.origin)[:count]
    assert len(set(chance.tolist())) < count - 4


def test_every_baseline_of_the_paper_is_charted_over_its_strength() -> None:
    rows = selection_baselines.releases(selection_baselines.PARTS, tiny=False)
    for name, sweep in selection_baselines.SWEEPS.items():
        assert len([row for row in rows if row.startswith(name)]) == len(sweep.strengths) >= 3
    assert {"DP", "de-duplication", "masking", "filtering", "AMG", "selection"} == set(
        selection_baselines.SWEEPS
    )


@pytest.mark.slow
@pytest.mark.skipif(not JUDGE.is_file(), reason="needs ../shared/data/models")
def test_the_command_judges_a_release_of_every_baseline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memorisation, "FOLDER", tmp_path)
    monkeypatch.setattr(perceptual, "CACHE", tmp_path)
    selection_baselines.main(tiny=True)
    printed = capsys.readouterr().out
    rows = selection_baselines.releases(selection_baselines.PARTS, tiny=True)
    for name in rows:
        (line,) = [line for line in printed.splitlines() if line.startswith(name + " ")]
        figures = [float(one) for one in re.findall(r"([\d.]+) ±", line)]
        assert len(figures) == 5
        accuracy, found, area, distance, looks = figures
        assert 0 <= accuracy <= 100
        assert 0 <= found <= 100
        assert 0 <= area <= 100
        assert distance > 0.5
        assert looks > 0.1
