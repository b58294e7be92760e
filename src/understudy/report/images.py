"""Images of a page: contact sheets and pairs as data URIs, small enough to send around."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass

import numpy as np
from PIL import Image

from understudy.core.results import Pairs
from understudy.core.types import Images
from understudy.report.record import Sample, Sheet

_GALLERY_SIDE, _PAIR_SIDE = 96, 160  # pixels; larger images are made smaller
_SHARP_BELOW = 48  # images of fewer pixels a side are shown with their pixels
_MANY_CLASSES, _FEW_IMAGES = 24, 8  # with more classes, so many images of each
_PAIRS, _PAIRS_FIRST = 48, 12
_MARGIN = 2


@dataclass(frozen=True, slots=True)
class PageImage:
    """An image in the page; the address is empty where there is nothing to show.

    Attributes:
        uri: ``data:`` address of a PNG.
        count: How many images are on it.
        sharp: Whether to show its pixels as squares.
    """

    uri: str
    count: int
    sharp: bool = False


@dataclass(frozen=True, slots=True)
class PairImage:
    """A synthetic image beside the private one nearest to it.

    Attributes:
        image: Synthetic on the left, private on the right.
        distance: How far they are from each other, as text.
        synthetic: Row of the synthetic image.
        real: Row of the private one.
        same: Whether they are equal.
    """

    image: PageImage
    distance: str
    synthetic: int
    real: int
    same: bool


def page_image(images: Images, columns: int | None = None, side: int = _GALLERY_SIDE) -> PageImage:
    """A contact sheet.

    Args:
        images: (n, height, width, channels) uint8; n may be 0.
        columns: Images in a row; about as many as there are rows by default.
        side: Most pixels a side of one image; larger ones are made smaller.
    """
    if len(images) == 0:
        return PageImage("", 0)
    data = base64.b64encode(contact_sheet(smaller(images, side), columns)).decode("ascii")
    sharp = max(images.shape[1:3]) < _SHARP_BELOW
    return PageImage(f"data:image/png;base64,{data}", len(images), sharp)


def contact_sheet(images: Images, columns: int | None = None) -> bytes:
    """The images in rows, with a thin transparent margin between them.

    Args:
        images: (n, height, width, channels) uint8, n of 1 or more, channels 1 or 3.
        columns: Images in a row; the least square that holds them all by default.

    Returns:
        A PNG file.
    """
    n, height, width, _ = images.shape
    columns = columns or math.ceil(math.sqrt(n))
    rows = math.ceil(n / columns)
    high, wide = height + _MARGIN, width + _MARGIN
    sheet = np.zeros((rows * high - _MARGIN, columns * wide - _MARGIN, 4), dtype=np.uint8)
    for index, image in enumerate(images):
        top = index // columns * high
        left = index % columns * wide
        sheet[top : top + height, left : left + width, :3] = image
        sheet[top : top + height, left : left + width, 3] = 255
    file = io.BytesIO()
    Image.fromarray(sheet).save(file, format="PNG", optimize=True)
    return file.getvalue()


def smaller(images: Images, side: int) -> Images:
    """The images with at most so many pixels a side.

    Args:
        images: (n, height, width, channels) uint8.
        side: Most pixels a side.
    """
    longest = max(images.shape[1:3])
    if longest <= side:
        return images
    height, width = (max(1, round(n * side / longest)) for n in images.shape[1:3])
    grey = images.shape[3] == 1
    small = [
        np.asarray(
            Image.fromarray(image[:, :, 0] if grey else image).resize(
                (width, height), Image.Resampling.BOX
            )
        )
        for image in images
    ]
    return np.stack(small).reshape(len(images), height, width, images.shape[3])


def gallery(sheets: tuple[Sheet, ...]) -> list[tuple[str, PageImage, PageImage]]:
    """Class, real images and synthetic ones, of every class."""
    most = _most(len(sheets))
    return [(s.name, page_image(s.real[:most]), page_image(s.synthetic[:most])) for s in sheets]


def sample_images(samples: tuple[Sample, ...]) -> list[tuple[str, PageImage]]:
    """Class and synthetic images, of every class."""
    most = _most(len(samples))
    return [(one.name, page_image(one.images[:most])) for one in samples]


def _most(classes: int) -> int:
    return _FEW_IMAGES if classes > _MANY_CLASSES else 16


def nearest_pairs(pairs: Pairs | None) -> tuple[list[PairImage], list[PairImage]]:
    """The nearest pairs, the first of them and the rest; no more than a page can hold."""
    if pairs is None:
        return [], []
    pair_images = [
        PairImage(
            page_image(np.stack([synthetic, real]), 2, _PAIR_SIDE),
            f"{distance:.4g}",
            int(rows[0]),
            int(rows[1]),
            bool(np.array_equal(synthetic, real)),
        )
        for synthetic, real, distance, rows in zip(
            pairs.synthetic[:_PAIRS],
            pairs.real[:_PAIRS],
            pairs.distances[:_PAIRS],
            pairs.rows[:_PAIRS],
            strict=True,
        )
    ]
    return pair_images[:_PAIRS_FIRST], pair_images[_PAIRS_FIRST:]
