"""LPIPS by its formula; weights from files that cannot run anything."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from safetensors.numpy import save_file

from understudy.core.errors import InputError
from understudy.core.types import Images
from understudy.metrics.perceptual_distance import (
    lpips,
    nearest_pair_distances,
    read_weights,
)


def pictures(n: int = 4, seed: int = 0) -> Images:
    return np.random.default_rng(seed).integers(0, 256, (n, 8, 6, 3)).astype(np.uint8)


def maps(images: Images) -> list[NDArray[np.float32]]:
    """Two layers: the colours, and two differences of colours at half the size."""
    first = images.transpose(0, 3, 1, 2).astype(np.float32)
    second = np.stack([first[:, 0] - first[:, 1], first[:, 1] - first[:, 2]], axis=1)
    return [first, second[:, :, ::2, ::2]]


WEIGHTS = (np.array([0.5, 0.0, 2.0]), np.array([1.0, 3.0]))


def test_the_formula_place_by_place() -> None:
    a, b = pictures(), pictures(seed=1)
    expected = np.zeros(4)
    for one, two, weight in zip(maps(a), maps(b), WEIGHTS, strict=True):
        _, _, height, width = one.shape
        for n in range(4):
            for y in range(height):
                for x in range(width):
                    ways = [each[n, :, y, x].astype(float) for each in (one, two)]
                    unit = [way / np.linalg.norm(way) for way in ways]
                    expected[n] += (weight * (unit[0] - unit[1]) ** 2).sum() / (height * width)
    assert lpips(maps, WEIGHTS, a, b) == pytest.approx(expected)


def test_the_same_picture_and_nothing_at_all() -> None:
    a = pictures()
    assert lpips(maps, WEIGHTS, a, a).tolist() == [0] * 4
    black = np.zeros_like(a)
    assert np.isfinite(lpips(maps, WEIGHTS, a, black)).all()


def test_what_does_not_fit() -> None:
    a = pictures()
    with pytest.raises(InputError, match="one shape"):
        lpips(maps, WEIGHTS, a, a[:2])
    with pytest.raises(InputError, match=r"\[3, 2\] channels, the weights are for \[3\]"):
        lpips(maps, WEIGHTS[:1], a, a)


def test_weights_from_files(tmp_path: Path) -> None:
    as_saved = {  # as the authors' own are shaped, in another order
        "lin1": WEIGHTS[1].reshape(1, 2, 1, 1).astype(np.float32),
        "lin0": WEIGHTS[0].reshape(1, 3, 1, 1).astype(np.float32),
    }
    np.savez(tmp_path / "w.npz", **as_saved)
    save_file(as_saved, tmp_path / "w.safetensors")
    for name in ("w.npz", "w.safetensors"):
        found = read_weights(tmp_path / name)
        assert [one.tolist() for one in found] == [one.tolist() for one in WEIGHTS]


def test_weights_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="a pickle"):
        read_weights(tmp_path / "alex.pth")
    for suffix in ("npz", "safetensors"):
        broken = tmp_path / f"broken.{suffix}"
        broken.write_bytes(b"nothing of the kind")
        with pytest.raises(InputError, match="cannot be read"):
            read_weights(broken)
        with pytest.raises(InputError, match="cannot be read"):
            read_weights(tmp_path / f"missing.{suffix}")
    np.savez(tmp_path / "objects.npz", lin0=np.array([{}], dtype=object))
    with pytest.raises(InputError, match="cannot be read"):
        read_weights(tmp_path / "objects.npz")
    for bad in (-WEIGHTS[0], np.ones((2, 2)), np.ones(0), np.array([np.nan])):
        np.savez(tmp_path / "bad.npz", lin0=bad)
        with pytest.raises(InputError, match="one vector"):
            read_weights(tmp_path / "bad.npz")
    np.savez(tmp_path / "empty.npz")
    with pytest.raises(InputError, match="one vector"):
        read_weights(tmp_path / "empty.npz")


def test_a_sample_is_as_far_as_the_nearest_of_the_private_images_that_are_named() -> None:
    samples, private = pictures(5), pictures(7, seed=1)

    def distance(a: Images, b: Images) -> NDArray[np.float64]:
        return lpips(maps, WEIGHTS, a, b)

    every = np.stack([distance(samples, np.stack([one] * 5)) for one in private], axis=1)
    named = np.array([[0, 1], [2, 3], [4, 5], [6, 0], [1, 1]])
    expected = np.take_along_axis(every, named, 1).min(1)
    assert nearest_pair_distances(distance, samples, private, named, block=2) == pytest.approx(
        expected
    )


@pytest.mark.parametrize("shape", [(4, 2), (5, 0), (5,)])
def test_each_sample_needs_private_images_to_compare(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="of 5 samples"):
        nearest_pair_distances(
            lambda a, b: np.zeros(len(a)), pictures(5), pictures(7), np.zeros(shape, np.int64)
        )
