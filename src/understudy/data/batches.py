"""Reading a dataset in batches that do not fill the memory, or some of its images alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Source
from understudy.core.types import Images

_BATCH_BYTES = 1 << 23  # of pixels
_BATCH = 1024


def batch_size(source: Source) -> int:
    """Rows of a batch, so that large images do not fill the memory."""
    return max(1, min(_BATCH, _BATCH_BYTES // max(1, int(np.prod(source.shape)))))


EMPTY_CLASS = "is an empty class"
"""How the reason begins of what is bad and no record."""


def nothing_left(bad: Sequence[tuple[str, str]], records: str) -> str:
    """What is said of a dataset without usable records; each bad one: (location, reason)."""
    if not bad:
        return f"has no {records}"
    location, reason = bad[0]
    count = sum(not reason.startswith(EMPTY_CLASS) for _, reason in bad)
    return f"none of its {records} can be used ({count:,} bad). {location} {reason}"


def one_class(name: str, bad: Sequence[tuple[str, str]]) -> str:
    """What is said of a dataset of a single class; each bad record: (location, reason)."""
    words = f"every row is of the one class {name!r}, so there is nothing to tell apart"
    if not bad:
        return f"{words}. Add another one; of private images without labels say --label none"
    location, reason = bad[0]
    return f"{words}; {len(bad):,} bad were passed over. {location} {reason}"


def images_at(source: Source, rows: NDArray[np.int64]) -> Images:
    """Some images of a dataset: (k, height, width, channels); reads no further than the last.

    ``rows`` (k,) may come in any order and several times.
    """
    indices, position = np.unique(rows, return_inverse=True)
    images: Images = np.empty((len(indices), *source.shape), dtype=np.uint8)
    start = 0
    for batch in source.batches(batch_size(source)):
        here = (indices >= start) & (indices < start + len(batch.labels))
        images[here] = batch.values[indices[here] - start]
        start += len(batch.labels)
        if start > indices[-1]:
            break
    return images[position]
