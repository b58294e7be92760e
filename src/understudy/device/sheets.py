"""Sheets for the owner's eyes: rows of images with a heading over each column and a name a row."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from understudy.core.types import Images, Masks
from understudy.device.corrections import COLUMNS, ROWS

_TILE = 176
"""Pixels a side of an image on a sheet; smaller images are enlarged by whole factors."""
_GAP, _NAME_WIDTH, _HEADING = 8, 76, 36
_FEW, _WIDEST = 6, 1500  # rows under one another before a second block, pixels across
_INK, _PAPER, _WARNING = (24, 24, 24), (250, 250, 247), (176, 24, 24)
_EMPTY = (226, 226, 222)


def sheet_bytes(
    columns: Mapping[str, Sequence[NDArray[np.uint8] | None]],
    names: Sequence[str],
    warnings: Sequence[int] = (),
) -> bytes:
    """A PNG file of the images, row by row.

    Args:
        columns: Heading to images (height, width, 3) uint8, one a row; None leaves it empty.
        names: Of the rows; a line break is one.
        warnings: Rows whose name is red.
    """
    first = next(image for column in columns.values() for image in column if image is not None)
    times = _times(first)
    height, width = first.shape[0] * times, first.shape[1] * times
    across = _NAME_WIDTH + len(columns) * (width + _GAP)
    blocks = max(1, min(_WIDEST // across, math.ceil(len(names) / _FEW)))
    each = math.ceil(len(names) / blocks)
    size = (_GAP + blocks * across, _HEADING + each * (height + _GAP))
    sheet = Image.new("RGB", size, _PAPER)
    pen, font = ImageDraw.Draw(sheet), ImageFont.load_default(14)
    for row, name in enumerate(names):
        left, top = _GAP + row // each * across, _HEADING + row % each * (height + _GAP)
        colour = _WARNING if row in warnings else _INK
        pen.text((left, top), name, fill=colour, font=font)
        for column, (heading, images) in enumerate(columns.items()):
            x = left + _NAME_WIDTH + column * (width + _GAP)
            if top == _HEADING:
                pen.text((x, 10), heading, fill=_INK, font=font)
            image = images[row]
            if image is None:
                pen.rectangle((x, top, x + width - 1, top + height - 1), fill=_EMPTY)
            else:
                tile = Image.fromarray(image).resize((width, height), Image.Resampling.NEAREST)
                sheet.paste(tile, (x, top))
    file = io.BytesIO()
    sheet.save(file, format="PNG")
    return file.getvalue()


def with_cells(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """(h, w, 3) uint8: an image as large as on a sheet, with the names of its cells on it."""
    side = image.shape[0] * _times(image)
    tile = Image.fromarray(image).resize((side, side), Image.Resampling.NEAREST)
    pen, font, cell = ImageDraw.Draw(tile), ImageFont.load_default(10), side // len(COLUMNS)
    for at in range(0, side, cell):
        pen.line((at, 0, at, side), fill=_PAPER)
        pen.line((0, at, side, at), fill=_PAPER)
    for at, (column, row) in enumerate(zip(COLUMNS, ROWS, strict=True)):
        for x, y, name in ((at, 0, column), (0, at, row)):
            place = (x * cell + cell // 2, y * cell + cell // 2)
            name = "A1" if x == y == 0 else name
            pen.text(place, name, _PAPER, font, "mm", stroke_width=1, stroke_fill=_INK)
    return np.asarray(tile)


def _times(image: NDArray[np.uint8]) -> int:
    """How many times as large an image is on a sheet."""
    longer: int = max(image.shape[:2])
    return max(1, _TILE // longer)


def only(images: Images, masks: Masks) -> Images:
    """The images with everything outside of the masks dimmed."""
    return np.where(masks[..., None], images, images // 5 + 24)
