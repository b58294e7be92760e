"""One pass over a dataset: features, moments and fingerprints, batch by batch.

And the extractors of the features in which a release is compared with real images.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.backends.plugin import installed
from understudy.backends.registry import load_encoder
from understudy.core.image_identity import Looks
from understudy.core.ports import Encoder, ScoringEncoder, Source
from understudy.core.types import Embeddings, Images, Labels, Shape
from understudy.data.batches import batch_size
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

SCATTERING = "embedded:scattering?log=10&coefficients=400"
DCT = "embedded:dct?coefficients=200"

_FEATURE_SIDE = 32
"""Pixels a side that the default features look at: beyond, scattering takes minutes."""

INCEPTION_DIM = 2048
"""Numbers that the standard Inception network gives an image."""

_SMALL_SIDE = 16  # pixels of the small images that distances are taken in
_CLASS_BYTES = 1 << 28  # of sums, at most, for moments of each class


@dataclass(frozen=True, slots=True)
class FeatureExtractor:
    """An extractor of features.

    Attributes:
        name: What was asked for, or what was chosen, with its options.
        encoder: Images to features; None: rows are features already.
        shape: (height, width, channels) that images are brought to first; None: as they are.
        short: What values say, for the default ones: its options stand in the settings.
    """

    name: str
    encoder: Encoder | None = None
    shape: Shape | None = None
    short: str = ""

    @property
    def measured(self) -> str:
        """As a value says it."""
        return self.short or f"features {self.name}"

    @property
    def whole(self) -> str:
        """With every option."""
        if self.shape is None:
            return f"features {self.name}"
        return f"features {self.name} at {self.shape[0]} x {self.shape[1]} pixels"

    @property
    def standard(self) -> bool:
        """Whether they are the standard Inception network's, so that scores bear its name."""
        return isinstance(self.encoder, ScoringEncoder) and self.encoder.dim == INCEPTION_DIM

    def __call__(self, values: NDArray[np.generic]) -> tuple[Embeddings, Embeddings | None]:
        """(n, d) float32 features, and (n, classes) probabilities where the network gives some."""
        if self.encoder is None:
            return np.asarray(values, dtype=np.float32), None
        images: Images = np.asarray(values, dtype=np.uint8)
        if self.shape is not None:
            small = area_means(images, _FEATURE_SIDE, smaller=True)
            images = np.rint(small).astype(np.uint8)
        if isinstance(self.encoder, ScoringEncoder):
            return self.encoder.score(images)
        return self.encoder.encode(images), None


def load_features(name: str | None, shape: Shape) -> FeatureExtractor:
    """The extractor of a name, or the default one, for images of a (height, width, channels).

    By default wavelet scattering, on images brought to at most 32 pixels a side. It needs no
    download; and nothing in this package makes images from its numbers, so that no release looks
    good in them only because it was made with them (docs/evaluate.md). Without PyTorch, the cosine
    transform.

    Raises:
        BackendError: There is no such model, or it does not take such images.
    """
    if name is not None:
        encoder = load_encoder(name, shape=shape)
        return FeatureExtractor(encoder.name, encoder)
    small = (min(shape[0], _FEATURE_SIDE), min(shape[1], _FEATURE_SIDE), shape[2])
    default = SCATTERING if installed("torch") and min(small[:2]) >= 4 else DCT
    encoder = load_encoder(default, shape=small)
    short = default.partition("?")[0]
    return FeatureExtractor(encoder.name, encoder, None if small == shape else small, short)


@dataclass(slots=True)
class EmbeddedDataset:
    """What was read of one dataset.

    Attributes:
        source: The dataset.
        count: Its rows.
        indices: (k,) the rows that features and small images were kept of, ascending.
        labels: (k,) their classes; see `embed_dataset`.
        features: (k, d) float32.
        small: (k, p) float32 means of parts of the images, 16 x 16 at most; None: no images.
        probabilities: (k, classes) where the extractor gives some.
        sums: Moments of the features of all rows, by class where that fits into memory.
        digests: (n,) of all rows' pixels.
        hashes: (n,) perceptual hashes of all rows.
        looks: Of all rows; None: no images.
    """

    source: Source
    count: int
    indices: Labels
    labels: Labels
    features: Embeddings
    small: Embeddings | None = None
    probabilities: Embeddings | None = None
    sums: dict[int, MomentSums] = field(default_factory=dict)
    digests: Digests = field(default_factory=lambda: np.zeros(0, dtype="V16"))
    hashes: Hashes = field(default_factory=lambda: np.zeros(0, dtype=np.uint64))
    looks: Looks | None = None

    def all_sums(self) -> MomentSums:
        """Moments of all rows."""
        sums = MomentSums(self.features.shape[1])
        for part in self.sums.values():
            sums.merge(part)
        return sums


def embed_dataset(
    source: Source, features: FeatureExtractor, classes: Sequence[str], rows: int | None, bar: Bar
) -> EmbeddedDataset:
    """Read a dataset once.

    ``classes`` are names that the labels are to index; empty: everything is one class. Features of
    at most ``rows`` random rows are kept; None: of all.
    """
    count = len(source)
    sample = np.zeros(count, dtype=np.bool_)
    sample[some(count, rows)] = True
    columns: dict[str, list[Any]] = defaultdict(list)
    sums: dict[int, MomentSums] = {}
    done = 0
    for batch in source.batches(batch_size(source)):
        labels = np.zeros(len(batch.labels), dtype=np.int64)
        if classes:
            labels = match_classes(batch.labels, source.classes, classes)
        embeddings, probabilities = features(batch.values)
        _add(sums, embeddings, labels, len(classes))
        take = sample[done : done + len(labels)]
        columns["labels"].append(labels[take])
        columns["features"].append(embeddings[take])
        if probabilities is not None:
            columns["probabilities"].append(probabilities[take])
        if source.kind == "images":
            columns["small"].append(flat_means(batch.values[take]))
            columns["digests"].append(pixel_digests(batch.values))
            columns["hashes"].append(perceptual_hashes(batch.values))
            columns["looks"].append(Looks.of(batch.values))
        done += len(labels)
        bar(len(labels))
    looks = columns.pop("looks", None)
    # One after the other, so that no more than one of them is there twice.
    arrays = {name: np.concatenate(columns.pop(name)) for name in list(columns)}
    return EmbeddedDataset(
        source,
        count,
        np.flatnonzero(sample),
        sums=sums,
        looks=None if looks is None else Looks.concatenated(looks),
        **arrays,
    )


def rows_of(
    whole: EmbeddedDataset, source: Source, rows: NDArray[np.bool_], classes: Sequence[str]
) -> EmbeddedDataset:
    """Some rows (n,) of a dataset of which the features of all were kept, as if read alone.

    ``source`` has these rows; ``classes`` as for `embed_dataset`.
    """
    features, labels = whole.features[rows], whole.labels[rows]
    sums: dict[int, MomentSums] = {}
    _add(sums, features, labels, len(classes))
    part = EmbeddedDataset(source, len(labels), np.arange(len(labels)), labels, features, sums=sums)
    if whole.probabilities is not None:
        part.probabilities = whole.probabilities[rows]
    if whole.small is None or whole.looks is None:
        return part
    return replace(
        part,
        small=whole.small[rows],
        digests=whole.digests[rows],
        hashes=whole.hashes[rows],
        looks=whole.looks.at(rows),
    )


def _add(sums: dict[int, MomentSums], embeddings: Embeddings, labels: Labels, classes: int) -> None:
    dim = embeddings.shape[1]
    if classes * dim * dim * 8 > _CLASS_BYTES:
        labels = np.zeros_like(labels)
    for label in np.unique(labels).tolist():
        sums.setdefault(label, MomentSums(dim)).add(embeddings[labels == label])


def flat_means(values: NDArray[Any]) -> NDArray[Any]:
    """Means of 16 x 16 parts of images, flat; embeddings as they are."""
    if values.ndim == 4:
        values = area_means(values, _SMALL_SIDE, smaller=True)
    return values.reshape(len(values), -1)
