"""Public examples: images that others are drawn like, and features that tell what an image shows.

The features are the leading axes of a wavelet scattering at 64 pixels, or at 32 where images are no
larger, in colour or in grey.

``embedded:unchanged`` takes public images as they are: samples are public images, which a DP
classifier of the private ones names. That is how PATE releases knowledge (Papernot et al. 2017),
and what drawing others like them can be held against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import scipy.cluster.vq
from numpy.typing import NDArray

from understudy.backends.arrays import fit_images
from understudy.backends.embedded.scattering import ScatteringEncoder, ScatteringOptions
from understudy.core.independence import Projection
from understudy.core.public_examples import Described
from understudy.core.types import Embeddings, Images, Labels, Seeds, Shape

SMALL_IMAGE = 32
"""Pixels of the longer side of small images."""

UNCHANGED = "embedded:unchanged"

FEATURE_COUNT = 300
"""Numbers that tell what an image shows."""

_BLOCK = 512
_PER_CLUSTER = 150  # examples, in the mean
_NEAR = 0.9  # of examples lie within the radius of the cluster of the one nearest to them


class FeatureScattering:
    """The wavelet scattering that features of images of one size are made of.

    Args:
        shape: (height, width, channels) of the images.
    """

    def __init__(self, shape: Shape) -> None:
        if max(shape[:2]) > SMALL_IMAGE:
            self._shape: Shape = (2 * SMALL_IMAGE, 2 * SMALL_IMAGE, 3)
            options = ScatteringOptions(J=4, L=4, log=10.0, colour="opponent", coefficients=900)
        elif shape[2] == 3:
            self._shape = (SMALL_IMAGE, SMALL_IMAGE, 3)
            options = ScatteringOptions(J=3, L=4, log=10.0, colour="opponent", coefficients=600)
        else:
            self._shape = (SMALL_IMAGE, SMALL_IMAGE, 1)
            options = ScatteringOptions(J=3, L=4, log=10.0, coefficients=400)
        self._encoder = ScatteringEncoder(self._shape, options)

    def __call__(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 to (n, s), each by itself to the last bit."""
        return self._encoder.encode(fit_images(images, self._shape))

    def of_all(self, images: Images) -> Embeddings:
        """The same of many public images, a block at a time."""
        parts = [images[start : start + _BLOCK] for start in range(0, len(images), _BLOCK)]
        return np.concatenate([self(part) for part in parts])


@dataclass(frozen=True)
class Features:
    """Images to features.

    Attributes:
        centre: (s,) of scattering coefficients.
        axes: (s, p) that they are projected on.
        scattering: Makes them.
    """

    centre: NDArray[np.float32]
    axes: NDArray[np.float32]
    scattering: FeatureScattering

    @classmethod
    def of(cls, coefficients: Embeddings, length: int, scattering: FeatureScattering) -> Features:
        """Along the leading axes of public images' coefficients (n, s)."""
        rows = coefficients.astype(np.float64)
        axes = np.linalg.eigh(np.cov(rows, rowvar=False))[1][:, ::-1][:, :length]
        exact = axes.astype(np.float16).astype(np.float32)  # as they are stored
        return cls(rows.mean(axis=0).astype(np.float32), exact, scattering)

    def __call__(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 to (n, p) float32, each by itself to the last bit."""
        return self.project(self.scattering(images))

    def project(self, coefficients: Embeddings) -> Embeddings:
        """(n, s) scattering coefficients to (n, p) float32, each by itself to the last bit."""
        return Projection(self.axes)(coefficients - self.centre).astype(np.float32)


@dataclass(frozen=True)
class ExampleFeatures:
    """What examples show: `understudy.core.public_examples.PublicExamples` without `draw`.

    Attributes:
        features: (m, p) float32.
        clusters: (m,) int64: examples of one cluster look alike.
        kinds: (clusters,) int64: the source that a cluster's examples come from.
        kind_names: What the sources show, in words.
        radii: (clusters,) float32: an image whose features lie no farther than this from those of
            an example of the cluster looks like it.
        encode: Images to features.
    """

    features: NDArray[np.float32]
    clusters: NDArray[np.int64]
    kinds: NDArray[np.int64]
    kind_names: tuple[str, ...]
    radii: NDArray[np.float32]
    encode: Features

    @classmethod
    def of(
        cls,
        features: NDArray[np.float32],
        counts: Sequence[int],
        kind_names: tuple[str, ...],
        encode: Features,
    ) -> ExampleFeatures:
        """With clusters and radii.

        Args:
            features: (m, p) of the examples.
            counts: How many of them come from each source, in their order.
            kind_names: What the sources show.
            encode: Images to features.
        """
        clusters, kinds = _clustered(features, counts)
        return cls(features, clusters, kinds, kind_names, _radii(features, clusters), encode)


def features_of_public(images: Images, encode: Features | None) -> ExampleFeatures:
    """What public images show, (m, height, width, channels).

    Args:
        images: The images.
        encode: Images to features; None: along the leading axes of these images.
    """
    counts, names = [len(images)], ("the public dataset",)
    if encode is None:
        return features_along_own(images, counts, names, min(FEATURE_COUNT, len(images) // 2))
    features = encode.project(encode.scattering.of_all(images))
    return ExampleFeatures.of(features, counts, names, encode)


def features_along_own(
    images: Images, counts: Sequence[int], kind_names: tuple[str, ...], length: int
) -> ExampleFeatures:
    """What images show, (m, height, width, channels), along so many of their own leading axes.

    Args:
        images: The images, source by source.
        counts: How many of them come from each source.
        kind_names: What the sources show.
        length: Of the features.
    """
    scattering = FeatureScattering((images.shape[1], images.shape[2], images.shape[3]))
    coefficients = scattering.of_all(images)
    encode = Features.of(coefficients, length, scattering)
    return ExampleFeatures.of(encode.project(coefficients), counts, kind_names, encode)


def _clustered(
    features: NDArray[np.float32], counts: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cluster of each example, and the source of each cluster; none is of two sources."""
    clusters, kinds = np.empty(len(features), dtype=np.int64), list[int]()
    stops = np.cumsum(counts)
    for kind, (stop, count) in enumerate(zip(stops, counts, strict=True)):
        rows = slice(stop - count, stop)
        number = max(1, round(count / _PER_CLUSTER))
        rng = np.random.default_rng(kind)  # as `seed`, which SciPy 1.14 knows too
        _, own = scipy.cluster.vq.kmeans2(features[rows], number, minit="++", seed=rng)
        _, own = np.unique(own, return_inverse=True)  # without those that are empty
        clusters[rows] = own + len(kinds)
        kinds += [kind] * (int(own.max()) + 1)
    return clusters, np.array(kinds)


def _radii(features: NDArray[np.float32], clusters: NDArray[np.int64]) -> NDArray[np.float32]:
    """How near most examples lie to another one of each cluster that is nearest to them."""
    squares = (features.astype(np.float64) ** 2).sum(axis=1)
    nearest, distances = np.empty(len(features), dtype=np.int64), np.empty(len(features))
    for start in range(0, len(features), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(features)))
        apart = squares[rows, None] + squares - 2.0 * (features[rows] @ features.T)
        apart[np.arange(len(rows)), rows] = np.inf
        nearest[rows] = apart.argmin(axis=1)
        distances[rows] = np.sqrt(np.maximum(apart.min(axis=1), 0.0))
    chosen = clusters[nearest]
    return np.array(
        [
            np.quantile(distances[chosen == cluster], _NEAR) if (chosen == cluster).any() else 0.0
            for cluster in range(clusters.max() + 1)
        ],
        dtype=np.float32,
    )


@dataclass(frozen=True)
class UnchangedExamples(ExampleFeatures):
    """Public images (`understudy.core.public_examples.PublicExamples`).

    Attributes:
        images: (m, height, width, channels) uint8.
    """

    images: Images
    how: ClassVar[str] = "public images as they are"

    def draw(self, rows: Labels, *, seeds: Seeds) -> Images:
        """The images of these rows, whatever the seeds."""
        return self.images[rows]


@dataclass(frozen=True, slots=True)
class UnchangedOptions:
    """It has none."""


class UnchangedExampleGenerator:
    """Gives public images as they are."""

    name, licence = UNCHANGED, "none"

    def known(self, shape: Shape) -> None:
        """None: it brings no images."""

    def describes(self, shape: Shape) -> None:
        """None: images need no description."""

    def like(self, images: Images, described: Described | None) -> UnchangedExamples:
        """Examples that are public images, (m, height, width, channels)."""
        return UnchangedExamples(**vars(features_of_public(images, None)), images=images)
