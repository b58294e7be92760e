"""What the owner corrects of a search: cells of a photo that are an object's, or that stay home.

A photo has 8 x 8 cells, columns A to H from the left and rows 1 to 8 from the top. Hidden cells are
no object's and are hidden with all of them, so that no pixel of them leaves, whatever the levels.
Cells of an object are what a segmenter has overlooked of it: of them leaves what leaves of it.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.methods.sanitize.segments import SearchSettings, Segments, grown

COLUMNS, ROWS = "ABCDEFGH", "12345678"
CELLS = tuple(column + row for row in ROWS for column in COLUMNS)
"""Their names, row by row."""


@dataclass(frozen=True, slots=True)
class Correction:
    """The cells of a photo that its owner marks.

    Attributes:
        photo: Its number, from 1.
        noun: The object that they are of; "" for cells that are hidden.
        cells: Their names, in the order of `CELLS`; () takes a mark back.
    """

    photo: int
    noun: str
    cells: tuple[str, ...]

    @classmethod
    def read(cls, text: str) -> Correction:
        """``3=B2-D4,E5`` hides these cells of photo 3, ``3:dog=E5`` has one be the dog's.

        Raises:
            ConfigError: It is neither.
        """
        parts = re.fullmatch(r"(\d{1,6})(?::([a-z][a-z -]*))?=(.*)", text.strip())
        if parts is None:
            raise ConfigError(
                f"cells of a photo are written 3=B2-D4,E5, those of an object 3:dog=E5: {text!r}"
            )
        names = [one.strip().upper() for one in parts[3].split(",") if one.strip()]
        marked = {cell for name in names if name != "NONE" for cell in _rectangle(name)}
        return cls(int(parts[1]), parts[2] or "", tuple(one for one in CELLS if one in marked))

    def __str__(self) -> str:
        """As it is read."""
        about = f"{self.photo}:{self.noun}" if self.noun else f"{self.photo}"
        return f"{about}={','.join(self.cells) or 'none'}"

    def mask(self, side: int) -> NDArray[np.bool_]:
        """(side, side) bool: the pixels of the cells, of a photo of so many pixels a side."""
        grid = np.isin(np.reshape(CELLS, (len(ROWS), len(COLUMNS))), self.cells)
        times = side // len(COLUMNS)
        return np.asarray(grid.repeat(times, axis=0).repeat(times, axis=1))


def _rectangle(name: str) -> Iterable[str]:
    """The cells of ``B2``, or of ``B2-D4``."""
    ends = name.split("-")
    if len(ends) > 2 or not all(end in CELLS for end in ends):
        raise ConfigError(
            f"a cell is a column A to H and a row 1 to 8, such as B2 or B2-D4, found {name!r}"
        )
    columns, rows = zip(*ends, strict=True)
    across = COLUMNS[COLUMNS.index(min(columns)) : COLUMNS.index(max(columns)) + 1]
    down = ROWS[ROWS.index(min(rows)) : ROWS.index(max(rows)) + 1]
    return map("".join, itertools.product(across, down))


def merged(standing: Iterable[Correction], later: Iterable[Correction]) -> tuple[Correction, ...]:
    """Corrections, of which a later one of the same photo and object replaces the earlier one."""
    latest = {(one.photo, one.noun): one for one in (*standing, *later)}
    return tuple(latest[key] for key in sorted(latest) if latest[key].cells)


def corrected(segments: Segments, corrections: Sequence[Correction]) -> Segments:
    """Segments as their owner has corrected them; what is hidden is so whatever else is marked.

    Raises:
        ConfigError: A correction is of no photo, or of no object of the request.
    """
    masks, hidden = segments.masks.copy(), segments.hidden.copy()
    for one in sorted(corrections, key=lambda one: not one.noun):
        if not 1 <= one.photo <= masks.shape[1]:
            raise ConfigError(f"photos are numbered 1 to {masks.shape[1]}, found {one.photo}")
        if one.noun and one.noun not in segments.nouns:
            raise ConfigError(
                f"there is no object {one.noun!r} in the request; there is "
                f"{', '.join(segments.nouns)}"
            )
        row, cells = one.photo - 1, one.mask(masks.shape[2])
        masks[:, row] &= ~cells
        if one.noun:
            of_object = segments.nouns.index(one.noun)
            masks[of_object, row] |= cells
            hidden[of_object, row] |= grown(cells[None], SearchSettings().growth)[0]
        else:
            hidden[:, row] |= cells
    return Segments(segments.nouns, masks, hidden)
