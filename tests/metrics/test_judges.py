"""The judges of the benchmarks, the packs in which releases travel, and the private halves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.images import FASHION_PUBLIC, private_files
from benchmarks.judges import HEADS, JUDGES, Panel, verdicts
from benchmarks.packs import packs, read_pack, write_pack
from benchmarks.small_classes import lines

from understudy.core.errors import InputError
from understudy.metrics.utility import Labelled


def labelled(count: int, side: int = 16, channels: int = 3, seed: int = 0) -> Labelled:
    """Two classes of noise: dark images and light ones."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % 2
    noise = rng.integers(0, 100, (count, side, side, channels))
    images = noise + 120 * labels[:, None, None, None]
    return Labelled(images.astype(np.uint8), labels.astype(np.int64), ("dark", "light"))


def test_a_pack_gives_every_pixel_back(tmp_path: Path) -> None:
    for channels, count in ((3, 257), (1, 3)):
        data = labelled(count, 12, channels)
        write_pack(tmp_path / "one.npz", data)
        back = read_pack(tmp_path / "one.npz")
        assert np.array_equal(back.values, data.values)
        assert np.array_equal(back.labels, data.labels)
        assert back.classes == data.classes


def test_a_release_is_tested_on_the_images_of_its_dataset(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no packs"):
        list(packs(tmp_path))
    for name in ("eurosat-1-default", "eurosat-8-photo", "test-eurosat"):
        write_pack(tmp_path / f"{name}.npz", labelled(4))
    pairs = [(file.stem, test.stem) for file, test in packs(tmp_path)]
    assert pairs == [("eurosat-1-default", "test-eurosat"), ("eurosat-8-photo", "test-eurosat")]
    write_pack(tmp_path / "clothing-1-default.npz", labelled(4))
    with pytest.raises(InputError, match=r"test-clothing\.npz, which is not there"):
        list(packs(tmp_path))
    np.savez(tmp_path / "other.npz", embeddings=np.zeros(3))
    with pytest.raises(InputError, match="is no pack: it holds embeddings"):
        read_pack(tmp_path / "other.npz")


@pytest.mark.slow
def test_both_judges_tell_what_a_release_teaches(tmp_path: Path) -> None:
    release, test = labelled(64), labelled(20, seed=1)
    write_pack(tmp_path / "noise-wrong.npz", replace(release, labels=1 - release.labels))
    write_pack(tmp_path / "test-noise.npz", test)
    ((name, _, _, verdict),) = verdicts(tmp_path, Panel(seeds=1, epochs=20))
    assert name == "noise-wrong"
    assert set(verdict.results) == set(JUDGES)
    assert verdict.mean < 0.1  # it has learnt that dark is light
    assert verdict.majority == 0.5
    assert len(verdict.cells()) == len(verdict.recalls("dark")) == len(HEADS)
    table = lines(test, release, verdict)
    assert [row[:3] for row in table] == [("all", 20, 64), ("  dark", 10, 32), ("  light", 10, 32)]


def test_the_private_half_is_what_the_package_has_not_learnt_from() -> None:
    tiles = [Path(f"Forest/{number:05d}.jpg") for number in (3, 4, 6, 7, 9)]
    assert [file.stem for file in private_files("eurosat", tiles)] == ["00003", "00007", "00009"]
    assert private_files("clothing", tiles) == [tiles[1], tiles[3]]
    assert FASHION_PUBLIC == 10_000
