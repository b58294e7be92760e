"""Candidates for the selection benchmarks: imitations of what a generator that memorises draws.

Near-copies, blends and degraded images, each drawn from its own seed, so that a set of them is the
same however it is computed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageEnhance, ImageFilter

from understudy.core.types import Images

Drawn = Callable[[Image.Image, np.random.Generator], Image.Image]


def near_copy(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """The image cropped to 75 to 100 % a side, mirrored or not, blurred, recoloured and noisy."""
    image = mirrored(cropped(image, rng.uniform(0.75, 1.0), rng), rng)
    if rng.random() < 0.5:
        image = image.filter(ImageFilter.GaussianBlur(rng.uniform(0.3, 1.2)))
    return noisy(recoloured(image, 0.25, rng), rng.uniform(0, 10), rng)


def degraded(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """The image rotated, cropped, of half as many pixels, with its colours swapped, and noisy."""
    width, height = image.size
    angle = rng.uniform(-25, 25)
    image = image.rotate(angle, Image.Resampling.BICUBIC, fillcolor=(255, 255, 255))
    image = mirrored(cropped(image, rng.uniform(0.6, 0.9), rng), rng)
    factor = rng.uniform(1.2, 2.6)
    small = (round(width / factor), round(height / factor))
    image = image.resize(small, Image.Resampling.BOX).resize(
        (width, height), Image.Resampling.BILINEAR
    )
    swapped = Image.fromarray(np.asarray(image)[:, :, rng.permutation(3)])
    return noisy(recoloured(swapped, 0.5, rng), rng.uniform(5, 15), rng)


def cropped(image: Image.Image, side: float, rng: np.random.Generator) -> Image.Image:
    """A part of the image, enlarged to its size."""
    width, height = image.size
    left, top = rng.uniform(0, 1 - side, 2)
    box = (left * width, top * height, (left + side) * width, (top + side) * height)
    return image.resize((width, height), Image.Resampling.BICUBIC, box=box)


def mirrored(image: Image.Image, rng: np.random.Generator) -> Image.Image:
    """The image or, half of the time, its mirror image."""
    if rng.random() < 0.5:
        return image.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
    return image


def recoloured(image: Image.Image, by: float, rng: np.random.Generator) -> Image.Image:
    """The image with another brightness, contrast and saturation."""
    for enhance in (ImageEnhance.Brightness, ImageEnhance.Contrast, ImageEnhance.Color):
        image = enhance(image).enhance(rng.uniform(1 - by, 1 + by))
    return image


def noisy(image: Image.Image, deviation: float, rng: np.random.Generator) -> Image.Image:
    """The image with Gaussian noise on each colour."""
    values = np.asarray(image, dtype=np.float32)
    values = values + rng.normal(0, deviation, values.shape)
    return Image.fromarray(np.clip(np.rint(values), 0, 255).astype(np.uint8))


def draw(images: Images, how: Drawn, seed: Sequence[int], numbers: NDArray[np.int64]) -> Images:
    """A drawing of each image, by a seed of its number: the same shape."""
    return np.stack(
        [
            np.asarray(how(Image.fromarray(image), np.random.default_rng([*seed, number])))
            for image, number in zip(images, numbers.tolist(), strict=True)
        ]
    )
