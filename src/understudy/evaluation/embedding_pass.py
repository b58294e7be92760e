"""One pass over a dataset: features, moments and fingerprints, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from understudy.core.ports import Source
from understudy.core.types import Batch, Embeddings, Images, Labels
from understudy.evaluation.features import Features
from understudy.metrics.fingerprints import (
    Digests,
    Hashes,
    area_means,
    perceptual_hashes,
    pixel_digests,
)
from understudy.metrics.labelled import match_classes
from understudy.metrics.moments import MomentSums
from understudy.metrics.subsets import some
from understudy.run.progress import Bar

_BATCH_BYTES = 1 << 23  # of pixels
_BATCH = 1024
_SIDE = 16
_CLASS_BYTES = 1 << 28  # of sums, at most, for moments of each class


@dataclass(slots=True)
class Side:
    """What was read of one dataset.

    Attributes:
        source: The dataset.
        count: Its rows.
        kept: (k,) the rows that features and small images were kept of, ascending.
        labels: (k,) their classes; see `read`.
        features: (k, d) float32.
        small: (k, p) float32 means of parts of the images, 16 x 16 at most; None: no images.
        probabilities: (k, classes) where the extractor gives some.
        sums: Moments of the features of all rows, by class where that fits into memory.
        digests: (n,) of all rows' pixels.
        hashes: (n,) perceptual hashes of all rows.
    """

    source: Source
    count: int
    kept: Labels
    labels: Labels
    features: Embeddings
    small: Embeddings | None = None
    probabilities: Embeddings | None = None
    sums: dict[int, MomentSums] = field(default_factory=dict)
    digests: Digests = field(default_factory=lambda: np.zeros(0, dtype="V16"))
    hashes: Hashes = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))

    def all_sums(self) -> MomentSums:
        """Moments of all rows."""
        found = MomentSums(self.features.shape[1])
        for one in self.sums.values():
            found.merge(one)
        return found


class _Columns:
    """Arrays that grow by batches; each is laid out once its width is known."""

    def __init__(self, rows: int) -> None:
        self._rows, self._at = rows, 0
        self._made: dict[str, np.ndarray] = {}

    def add(self, **parts: np.ndarray | None) -> None:
        """The next rows of each."""
        count = 0
        for name, part in parts.items():
            if part is None:
                continue
            if name not in self._made:
                self._made[name] = np.empty((self._rows, *part.shape[1:]), part.dtype)
            self._made[name][self._at : self._at + len(part)] = part
            count = len(part)
        self._at += count

    def __getitem__(self, name: str) -> np.ndarray:
        return self._made[name][: self._at]

    def get(self, name: str) -> np.ndarray | None:
        """None where there never was one."""
        return self[name] if name in self._made else None


def read(
    source: Source, features: Features, classes: Sequence[str], rows: int | None, bar: Bar
) -> Side:
    """Read a dataset once.

    Args:
        source: Images, or rows that are features already.
        features: The extractor.
        classes: Names that the labels are to index; empty: everything is one class.
        rows: Keep features of at most so many rows, chosen at random; None: of all.
        bar: Told of rows.
    """
    count = len(source)
    chosen = np.zeros(count, dtype=np.bool_)
    chosen[some(count, rows)] = True
    kept, every = _Columns(int(chosen.sum())), _Columns(count)
    sums: dict[int, MomentSums] = {}
    done = 0
    for batch in source.batches(_batch(source)):
        labels = _labels(batch, source, classes)
        made, probabilities = features(batch.values)
        _add(sums, made, labels, len(classes))
        take = chosen[done : done + len(labels)]
        images = batch.values if source.kind == "images" else None
        kept.add(
            features=made[take],
            labels=labels[take],
            small=None if images is None else _small(images[take]),
            probabilities=None if probabilities is None else probabilities[take],
        )
        if images is not None:
            every.add(digests=pixel_digests(images), hashes=perceptual_hashes(images))
        done += len(labels)
        bar(len(labels))
    side = Side(
        source,
        count,
        np.flatnonzero(chosen),
        kept["labels"],
        kept["features"],
        kept.get("small"),
        kept.get("probabilities"),
        sums,
    )
    if source.kind == "images":
        side.digests, side.hashes = every["digests"], every["hashes"]
    return side


def _batch(source: Source) -> int:
    """Rows of a batch, so that large images do not fill the memory."""
    return max(1, min(_BATCH, _BATCH_BYTES // max(1, int(np.prod(source.shape)))))


def _labels(batch: Batch, source: Source, classes: Sequence[str]) -> Labels:
    if not classes:
        return np.zeros(len(batch.labels), dtype=np.int64)
    return match_classes(batch.labels, source.classes, classes)


def _add(sums: dict[int, MomentSums], made: Embeddings, labels: Labels, classes: int) -> None:
    dim = made.shape[1]
    if classes * dim * dim * 8 > _CLASS_BYTES:
        labels = np.zeros_like(labels)
    for label in np.unique(labels).tolist():
        sums.setdefault(label, MomentSums(dim)).add(made[labels == label])


def _small(images: Images) -> Embeddings:
    return area_means(images, _SIDE, smaller=True).reshape(len(images), -1)


def pictures(source: Source, rows: Iterable[int]) -> dict[int, Images]:
    """Some rows of a dataset as pictures, by row; reads no further than the last of them."""
    wanted = np.unique(np.fromiter(rows, dtype=np.int64))
    found: dict[int, Images] = {}
    start = 0
    for batch in source.batches(_batch(source)):
        here = wanted[(wanted >= start) & (wanted < start + len(batch.labels))]
        found |= {row: batch.values[row - start].copy() for row in here.tolist()}
        start += len(batch.labels)
        if len(found) == len(wanted):
            break
    return found
