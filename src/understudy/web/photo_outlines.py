"""A photo of the device as a page shows it: its objects outlined, and its cells to be marked."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.device.corrections import CELLS, Correction
from understudy.device.review import ReviewedPhotos

_HUES = 8


@dataclass(frozen=True, slots=True)
class ObjectOutline:
    """An object in a photo, as SVG paths.

    Attributes:
        area: Of the object, to be clicked.
        edge: Its outline, as a segmenter or the owner has it.
        rim: Of everything that is hidden with it.
    """

    noun: str
    hue: int
    area: str
    edge: str
    rim: str


@dataclass(frozen=True, slots=True)
class ShownPhoto:
    """A reference photo as a page shows it.

    Attributes:
        hidden: Area of the cells that its owner hides, as an SVG path.
    """

    number: int
    outlines: tuple[ObjectOutline, ...] = ()
    hidden: str = ""
    left_out: bool = False


@dataclass(frozen=True, slots=True)
class PhotoCell:
    """A cell of a photo, that may be marked as hidden or as an object's.

    Attributes:
        outlined: Whether a part of it is inside the outline of an object.
    """

    name: str
    marked: bool
    outlined: bool


def shown_photo(reviewed: ReviewedPhotos, number: int) -> ShownPhoto:
    """A photo with what was found in it, and what its owner has corrected."""
    segments, row = reviewed.segments, number - 1
    outlines = tuple(
        ObjectOutline(noun, hue % _HUES, _area(mask), _edge(mask), _edge(hidden))
        for hue, (noun, mask, hidden) in enumerate(
            zip(segments.nouns, segments.masks[:, row], segments.hidden[:, row], strict=True)
        )
        if mask.any()
    )
    cells = Correction(number, "", marked_cells(reviewed, number, ""))
    hidden = _area(cells.mask(segments.masks.shape[2]))
    return ShownPhoto(number, outlines, hidden, number in reviewed.left_out)


def marked_cells(reviewed: ReviewedPhotos, number: int, noun: str) -> tuple[str, ...]:
    """The cells of a photo that its owner has hidden, or has said to be an object's."""
    return next(
        (one.cells for one in reviewed.corrections if (one.photo, one.noun) == (number, noun)), ()
    )


def photo_cells(reviewed: ReviewedPhotos, number: int, noun: str) -> list[PhotoCell]:
    """All cells of a photo, row by row; marked are those that are hidden, or an object's."""
    mask = np.asarray(reviewed.segments.masks[:, number - 1].any(axis=0))
    marked = marked_cells(reviewed, number, noun)
    outlined = (mask & Correction(number, "", (name,)).mask(len(mask)) for name in CELLS)
    return [
        PhotoCell(name, name in marked, bool(inside.any()))
        for name, inside in zip(CELLS, outlined, strict=True)
    ]


def _area(mask: NDArray[np.bool_]) -> str:
    """The pixels of a mask as an SVG path: a rectangle for each run of a row."""
    paths = []
    for y, row in enumerate(np.pad(mask, ((0, 0), (1, 1))).astype(np.int8)):
        turns = np.flatnonzero(np.diff(row)).reshape(-1, 2)
        paths += [f"M{x} {y}h{end - x}v1h{x - end}z" for x, end in turns.tolist()]
    return "".join(paths)


def _edge(mask: NDArray[np.bool_]) -> str:
    """The rim of a mask as an SVG path: a line between each pixel inside and one outside."""
    padded = np.pad(mask, 1)
    across, down = (
        np.nonzero(padded[:, 1:] != padded[:, :-1]),
        np.nonzero(padded[1:] != padded[:-1]),
    )
    lines = [f"M{x} {y - 1}v1" for y, x in zip(*map(np.ndarray.tolist, across), strict=True)]
    lines += [f"M{x - 1} {y}h1" for y, x in zip(*map(np.ndarray.tolist, down), strict=True)]
    return "".join(lines)
