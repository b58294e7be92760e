"""Drawn images whose classes are directions of stripes, for classifiers of energies."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

CLASSES = ("across", "along", "aslant")
SHAPE = (16, 20, 3)


def stripes(
    count: int, seed: int, shape: tuple[int, int, int] = SHAPE
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """(count, *shape) images and the class of each: stripes of a random phase, width and colour."""
    rng = np.random.default_rng(seed)
    labels = np.arange(count) % len(CLASSES)
    rows, columns = np.indices(shape[:2])
    angles = np.array([0.0, 0.5, 0.25])[labels] * np.pi + rng.normal(0, 0.25, count)
    waves = rng.uniform(0.8, 1.3, count)[:, None, None]
    phases = rng.uniform(0, 2 * np.pi, count)[:, None, None]
    cosine, sine = np.cos(angles)[:, None, None], np.sin(angles)[:, None, None]
    drawn = np.sin(waves * (rows * cosine + columns * sine) + phases)[..., None]
    colours = rng.uniform(30, 90, (count, 1, 1, shape[2]))
    noise = rng.normal(0, 50, (count, *shape))
    return np.clip(128 + drawn * colours + noise, 0, 255).astype(np.uint8), labels


def striped_npz(path: Path, count: int = 300, seed: int = 0) -> Path:
    """An npz of such images with their classes' names."""
    images, labels = stripes(count, seed)
    np.savez(path, images=images, labels=np.array(CLASSES)[labels])
    return path
