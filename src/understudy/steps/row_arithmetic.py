"""Rows of arrays and batches of public datasets: of one length, evenly spread, a part at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import row_squares
from understudy.core.ports import Source
from understudy.core.types import Vector


def unit_rows(rows: NDArray[Any], length: float = 1.0) -> Vector:
    """Rows (n, d) brought to a length, each by itself to the last bit; a row of zeros stays."""
    norms = np.sqrt(row_squares(rows))[:, None]
    return np.asarray(length * rows / np.where(norms > 0, norms, 1.0), dtype=np.float64)


def evenly_spread(count: int, most: int) -> NDArray[np.int64]:
    """At most ``most`` of ``count`` rows, evenly spread, for they may lie class by class."""
    return np.linspace(0, count - 1, min(count, most)).astype(np.int64)


def spread_batches(
    source: Source,
    most: int,
    progress: Callable[[str, int | None], Callable[[int], None]],
    caption: str,
) -> Iterator[NDArray[Any]]:
    """Values of a public dataset, batch by batch; of more than ``most`` so many, evenly spread."""
    count, first = len(source), 0
    bar = progress(caption, min(most, count))
    for batch in source.batches(256):
        rows = np.arange(first, first + len(batch.labels))
        values = batch.values[rows * most // count < (rows + 1) * most // count]
        if len(values):
            yield values
            bar(len(values))
        first += len(rows)


def moving_average(values: Vector, span: int) -> Vector:
    """The mean of each number's neighbours, (d,): an odd span, the ends repeated."""
    if len(values) < 3:
        return np.full(len(values), values.mean())
    span = min(span, len(values) // 2 * 2 - 1)
    padded = np.pad(values, span // 2, mode="edge")
    return np.convolve(padded, np.full(span, 1 / span), mode="valid")
