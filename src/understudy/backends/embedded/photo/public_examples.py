"""Public examples of ``embedded:photo``: images whose like its prior draws, and their features.

An example is the description of a public image's latents, from which the prior draws an image of
that kind, and features of the image, which tell what it shows: the leading axes of a wavelet
scattering at 64 pixels, whatever the size of the images. No image is stored. Both are whole numbers
of eight bits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import scipy.cluster.vq
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from understudy.backends.arrays import fit_images
from understudy.backends.embedded.photo.latent_prior import encoder_sum
from understudy.backends.embedded.scattering import ScatteringEncoder, ScatteringOptions
from understudy.core.errors import BackendError
from understudy.core.independence import Projection
from understudy.core.types import Embeddings, Images, Shape

EXAMPLES = "examples.safetensors"
"""The file in a prior's folder."""

FEATURE_SHAPE: Shape = (64, 64, 3)
"""What images are brought to before their features are taken."""

_SCATTERING = ScatteringOptions(J=4, L=4, log=10.0, colour="opponent", coefficients=900)
_REACH = 6.0  # of descriptions, whose deviation is about 1
_LEVELS = 127
_BLOCK = 512
_PER_CLUSTER = 150  # examples, in the mean
_NEAR = 0.9  # of examples lie within the radius of the cluster of the one nearest to them


@dataclass(frozen=True)
class Features:
    """Images of any size to features.

    Attributes:
        centre: (s,) of scattering coefficients.
        axes: (s, p) that they are projected on.
    """

    centre: NDArray[np.float32]
    axes: NDArray[np.float32]
    _scattering: ScatteringEncoder = field(
        default_factory=lambda: ScatteringEncoder(FEATURE_SHAPE, _SCATTERING)
    )

    @classmethod
    def of(cls, coefficients: Embeddings, length: int) -> Features:
        """Along the leading axes of public images' `scattering_coefficients` (n, s)."""
        rows = coefficients.astype(np.float64)
        axes = np.linalg.eigh(np.cov(rows, rowvar=False))[1][:, ::-1][:, :length]
        exact = axes.astype(np.float16).astype(np.float32)  # as they are stored
        return cls(rows.mean(axis=0).astype(np.float32), exact)

    def __call__(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 to (n, p) float32, each by itself to the last bit."""
        return self.project(self._scattering.encode(fit_images(images, FEATURE_SHAPE)))

    def of_all(self, images: Images) -> Embeddings:
        """The same of many public images, a block at a time."""
        return self.project(scattering_coefficients(images))

    def project(self, coefficients: Embeddings) -> Embeddings:
        """(n, s) scattering coefficients to (n, p) float32, each by itself to the last bit."""
        return Projection(self.axes)(coefficients - self.centre).astype(np.float32)


def scattering_coefficients(images: Images) -> Embeddings:
    """Those of public images that features are made of: (n, height, width, channels) to (n, s)."""
    encoder = ScatteringEncoder(FEATURE_SHAPE, _SCATTERING)
    parts = [images[start : start + _BLOCK] for start in range(0, len(images), _BLOCK)]
    return np.concatenate([encoder.encode(fit_images(part, FEATURE_SHAPE)) for part in parts])


@dataclass(frozen=True)
class PhotoExamples:
    """Public examples for one size of grid (`understudy.core.prior_decoder.PublicExamples`).

    Attributes:
        descriptions: (m, d) float32.
        features: (m, p) float32.
        clusters: (m,) int64: examples of one cluster look alike.
        kinds: (clusters,) int64: the source that a cluster's examples come from.
        kind_names: What the sources show, in words.
        radii: (clusters,) float32: an image whose features lie no farther than this from those of
            an example of the cluster looks like it.
        encode: Images to features.
    """

    descriptions: NDArray[np.float32]
    features: NDArray[np.float32]
    clusters: NDArray[np.int64]
    kinds: NDArray[np.int64]
    kind_names: tuple[str, ...]
    radii: NDArray[np.float32]
    encode: Features


def with_clusters(
    descriptions: NDArray[np.float32],
    features: NDArray[np.float32],
    counts: Sequence[int],
    kind_names: tuple[str, ...],
    encode: Features,
) -> PhotoExamples:
    """Examples with their clusters and radii.

    Args:
        descriptions: (m, d).
        features: (m, p).
        counts: How many of them come from each source, in their order.
        kind_names: What the sources show.
        encode: Images to features.
    """
    clusters, kinds = _clustered(features, counts)
    radii = _radii(features, clusters)
    return PhotoExamples(descriptions, features, clusters, kinds, kind_names, radii, encode)


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


def write_examples(
    folder: Path,
    autoencoder: Path,
    examples: PhotoExamples,
    descriptions: Mapping[int, NDArray[np.float32]],
) -> None:
    """Write examples into a prior's folder.

    Args:
        folder: Of the prior.
        autoencoder: Folder of the autoencoder whose latents are described.
        examples: All but their descriptions is written as it is.
        descriptions: (m, d) by the sides of grids.
    """
    steps = np.abs(examples.features).max(axis=0) / _LEVELS
    arrays = {
        "centre": examples.encode.centre,
        "axes": examples.encode.axes.astype(np.float16),
        "features": np.rint(examples.features / steps).astype(np.int8),
        "steps": steps.astype(np.float32),
        "clusters": examples.clusters.astype(np.int16),
        "kinds": examples.kinds.astype(np.int16),
        "radii": examples.radii.astype(np.float32),
    }
    for side, values in descriptions.items():
        levels = np.rint(np.clip(values, -_REACH, _REACH) * (_LEVELS / _REACH))
        arrays[f"{side}.descriptions"] = levels.astype(np.int8)
    about = {"encoder": encoder_sum(autoencoder), "kinds": json.dumps(examples.kind_names)}
    save_file(arrays, folder / EXAMPLES, metadata=about)
    (folder / EXAMPLES).chmod(0o644)


def read_examples(folder: Path, autoencoder: Path, side: int) -> PhotoExamples | None:
    """The examples of a prior's folder for grids of that side; None where it has none.

    Raises:
        BackendError: They are described by another autoencoder.
    """
    path = folder / EXAMPLES
    if not path.is_file():
        return None
    with safe_open(path, "np") as stored:
        about: dict[str, str] = stored.metadata()
        if about["encoder"] != encoder_sum(autoencoder):
            raise BackendError(
                f"{path} describes images by another autoencoder than {autoencoder} holds now: "
                "remove it, or make it again (`understudy studio examples`)"
            )
        arrays: dict[str, NDArray[Any]] = {
            name: stored.get_tensor(name)
            for name in stored.keys()  # noqa: SIM118
            if not name.endswith("descriptions") or name.startswith(f"{side}.")
        }
    levels = arrays.get(f"{side}.descriptions")
    if levels is None:
        return None
    return PhotoExamples(
        levels.astype(np.float32) * np.float32(_REACH / _LEVELS),
        arrays["features"].astype(np.float32) * arrays["steps"],
        arrays["clusters"].astype(np.int64),
        arrays["kinds"].astype(np.int64),
        tuple(json.loads(about["kinds"])),
        arrays["radii"],
        Features(arrays["centre"], arrays["axes"].astype(np.float32)),
    )
