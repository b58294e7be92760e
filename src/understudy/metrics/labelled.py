"""Rows with a class each, in memory: what classifiers are trained and tested on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Batch, Labels
from understudy.metrics.subsets import some

LabelledRows = Batch | tuple[NDArray[Any], Labels]
"""Some rows with a class each."""


@dataclass(frozen=True, slots=True)
class Labelled:
    """A dataset in memory.

    ``values`` are (n, d) float32 embeddings or (n, height, width, channels) uint8 images,
    ``labels`` (n,) int64 indices into ``classes``.
    """

    values: NDArray[Any]
    labels: Labels
    classes: tuple[str, ...]

    def at_most(self, rows: int | None, seed: int = 0) -> Labelled:
        """So many rows, chosen at random where there are more; None: all of them."""
        sample = some(len(self.labels), rows, seed)
        return Labelled(self.values[sample], self.labels[sample], self.classes)

    def and_also(self, other: Labelled) -> Labelled:
        """The rows of both; the other's labels index the same classes."""
        return Labelled(
            np.concatenate([self.values, other.values]),
            np.concatenate([self.labels, other.labels]),
            self.classes,
        )


def gather(batches: Iterable[LabelledRows], classes: Sequence[str]) -> Labelled:
    """Collect batches, of a source or (values, labels) pairs, into memory.

    Raises:
        InputError: There are no rows, or no class names.
    """
    if not classes:
        raise InputError("the data has no classes to learn: release it with labels")
    pairs = [rows if isinstance(rows, tuple) else (rows.values, rows.labels) for rows in batches]
    if not sum(len(labels) for _, labels in pairs):
        raise InputError("the data has no rows")
    if len({values.shape[1:] for values, _ in pairs}) > 1:
        raise InputError("the rows differ in shape: read the images at one size and colour")
    values, labels = (np.concatenate(part) for part in zip(*pairs, strict=True))
    return Labelled(values, labels.astype(np.int64), tuple(classes))


def match_classes(labels: Labels, classes: Sequence[str], onto: Sequence[str]) -> Labels:
    """Renumber labels (n,) so that they index ``onto``, which may hold more, by the classes' names.

    Raises:
        InputError: A class that has rows is not in ``onto``; names every one of them.
    """
    missing = sorted({classes[i] for i in np.unique(labels)} - set(onto))
    if missing:
        raise InputError(
            f"classes that the training set does not have: {', '.join(missing)}. "
            f"It has: {', '.join(onto)}. Rename the classes so that they agree"
        )
    place = {name: index for index, name in enumerate(onto)}
    # -1 marks classes without rows, which the check above lets pass.
    table = np.array([place.get(name, -1) for name in classes], np.int64)
    return table[labels]
