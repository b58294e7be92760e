"""Images of bright shapes on a dark ground: a kind that a classifier tells from drawings."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tests.run.samples import save
from tests.run.stripes import stripes

from understudy.core.types import Images, Labels

SHAPE = (16, 16, 1)
CLASSES = ("cross", "disc")


def shapes(
    sizes: tuple[int, int], seed: int, shape: tuple[int, ...] = SHAPE
) -> tuple[Images, Labels]:
    """So many crosses and discs, in an order of chance, on a ground that falls off to one side."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(2), sizes)).astype(np.int64)
    return np.stack([_shape(label, rng, shape) for label in labels]), labels


def frames(count: int, seed: int, shape: tuple[int, ...] = SHAPE) -> Images:
    """Images of another kind: dark frames about nothing, on a bright ground."""
    rng = np.random.default_rng(seed)
    rows, columns = np.indices(shape[:2])
    images = np.empty((count, *shape), dtype=np.uint8)
    for image in images:
        top, left = rng.integers(1, 4, 2)
        bottom, right = np.array(shape[:2]) - rng.integers(2, 5, 2)
        within = (rows >= top) & (rows <= bottom) & (columns >= left) & (columns <= right)
        core = (rows > top) & (rows < bottom) & (columns > left) & (columns < right)
        light = 220 - 2 * columns - 150 * (within & ~core) + rng.normal(0, 4, shape[:2])
        image[:] = np.clip(light, 0, 255).astype(np.uint8)[..., None]
    return images


def _shape(label: int, rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.uint8]:
    rows, columns = np.indices(shape[:2])
    middle = np.array(shape[:2]) / 2 + rng.normal(0, 1, 2)
    down, across = rows - middle[0], columns - middle[1]
    if label == 0:
        inside = (np.minimum(abs(down), abs(across)) < 1.5) & (np.maximum(down, across) < 6)
    else:
        inside = np.hypot(down, across) < rng.uniform(3.5, 5)
    light = 30 + 3 * rows + 160 * inside + rng.normal(0, 4, shape[:2])
    pixels = np.clip(light, 0, 255).astype(np.uint8)
    return np.repeat(pixels[..., None], shape[2], axis=2)


def folder_of_shapes(
    folder: Path, sizes: tuple[int, int], seed: int, shape: tuple[int, ...] = SHAPE
) -> Path:
    """``folder/CLASS/N.png``."""
    images, labels = shapes(sizes, seed, shape)
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
    for number, (image, label) in enumerate(zip(images, labels, strict=True)):
        save(image, folder / CLASSES[label] / f"{number}.png")
    return folder


def folder_of_frames(folder: Path, count: int, seed: int) -> Path:
    """``folder/N.png``."""
    folder.mkdir(parents=True)
    for number, image in enumerate(frames(count, seed)):
        save(image, folder / f"{number}.png")
    return folder


def file_of_stripes(path: Path) -> Path:
    """Images of a third kind, for a contrast: the 2,000 that are drawn for none take seconds."""
    np.savez(path, images=stripes(150, 7, SHAPE)[0])
    return path
