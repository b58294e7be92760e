"""Images of a page: contact sheets and pairs as data URIs, small enough to send around."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass
from itertools import islice

import numpy as np
from PIL import Image

from understudy.core.results import Pairs
from understudy.core.types import Images
from understudy.report.record import Sample, Sheet

_LARGEST = 256  # pixels a side; larger images are made smaller
_SMALLEST = 64  # smaller ones are shown as a whole number of times as large, with their pixels
_PAGE_NUMBERS = 8e6  # of all first images together, about: a page is to be sent around
_MOST, _LEAST = 16, 4  # images of a class on a sheet
_WIDE = 96  # images wider than this stand two in a row, others four
_PAIRS, _PAIRS_FIRST = 48, 12
_MARGIN = 2


@dataclass(frozen=True, slots=True)
class PageImage:
    """An image in the page; the address is empty where there is nothing to show."""

    uri: str  # ``data:`` address of a PNG
    count: int  # how many images are on it
    width: int = 0  # pixels of the page that it takes: its own number, or a whole multiple of it
    sharp: bool = False  # whether to show its pixels as squares


@dataclass(frozen=True, slots=True)
class PairImage:
    """A synthetic image beside the private one nearest to it."""

    image: PageImage  # synthetic on the left, private on the right
    distance: str  # how far they are from each other, as text
    synthetic: int  # row of the synthetic image
    real: int  # row of the private one
    same: bool  # whether they are equal


def page_image(images: Images, columns: int | None = None) -> PageImage:
    """A contact sheet of (n, height, width, channels) uint8 images; n may be 0."""
    if len(images) == 0:
        return PageImage("", 0)
    thumbnails = smaller(images, _LARGEST)
    columns = columns or math.ceil(math.sqrt(len(images)))
    data = base64.b64encode(contact_sheet(thumbnails, columns)).decode("ascii")
    times = max(1, _SMALLEST // max(thumbnails.shape[1:3]))
    width = times * (min(columns, len(images)) * (thumbnails.shape[2] + _MARGIN) - _MARGIN)
    return PageImage(f"data:image/png;base64,{data}", len(images), width, times > 1)


def contact_sheet(images: Images, columns: int | None = None) -> bytes:
    """A PNG file of images in rows, with a thin transparent margin between them.

    ``images`` are (n, height, width, 1 or 3) uint8, n of 1 or more; by default they stand in the
    least square that holds them all.
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
    """The (n, height, width, channels) uint8 images with at most so many pixels a side."""
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


@dataclass(frozen=True, slots=True)
class Strip:
    """Images of one class in a page, one sheet beside the other."""

    name: str
    # what is on a sheet, in words, and the sheet; one of no images says that there are none
    sheets: tuple[tuple[str, PageImage], ...]


def gallery(sheets: tuple[Sheet, ...]) -> list[Strip]:
    """Real images, synthetic ones and the worst of those, of every class."""
    return [
        _strip(
            one.name,
            _layout(len(sheets), one.synthetic if len(one.synthetic) else one.real),
            {"real": one.real, "synthetic": one.synthetic},
            ("synthetic, least like any real one", one.worst),
        )
        for one in sheets
    ]


def sample_strips(samples: tuple[Sample, ...]) -> list[Strip]:
    """Synthetic images and the worst of them, of every class."""
    return [
        _strip(
            one.name,
            _layout(len(samples), one.images),
            {"the first": one.images},
            ("least like the others", one.worst),
        )
        for one in samples
    ]


def _strip(
    name: str, layout: tuple[int, int], sections: dict[str, Images], worst: tuple[str, Images]
) -> Strip:
    most, columns = layout
    sheets = [(words, page_image(images[:most], columns)) for words, images in sections.items()]
    if len(worst[1]):
        sheets.append((worst[0], page_image(worst[1][: most // 2], columns // 2)))
    return Strip(name, tuple(sheets))


def sample_images(samples: tuple[Sample, ...]) -> list[tuple[str, PageImage]]:
    """Class and synthetic images, of every class."""
    return [
        (one.name, page_image(one.images[: _layout(len(samples), one.images)[0]]))
        for one in samples
    ]


def _layout(classes: int, images: Images) -> tuple[int, int]:
    """How many images of a class a page can hold, 4, 8 or 16, and how many stand in a row."""
    height, width = (min(side, _LARGEST) for side in images.shape[1:3])
    room = _PAGE_NUMBERS / (2 * max(1, classes) * height * width * images.shape[3])
    most = 1 << int(math.log2(min(max(room, _LEAST), _MOST)))
    return most, 4 if most > _LEAST and width <= _WIDE else 2


def nearest_pairs(pairs: Pairs | None) -> tuple[list[PairImage], list[PairImage]]:
    """The nearest pairs, the first of them and the rest; no more than a page can hold."""
    if pairs is None:
        return [], []
    every = zip(pairs.synthetic, pairs.real, pairs.distances, pairs.rows, strict=True)
    pair_images = [
        PairImage(
            page_image(np.stack([synthetic, real]), 2),
            f"{distance:.4g}",
            int(rows[0]),
            int(rows[1]),
            bool(np.array_equal(synthetic, real)),
        )
        for synthetic, real, distance, rows in islice(every, _PAIRS)
    ]
    return pair_images[:_PAIRS_FIRST], pair_images[_PAIRS_FIRST:]
