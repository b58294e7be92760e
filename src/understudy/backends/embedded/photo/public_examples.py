"""Public examples of ``embedded:photo``: images whose like its prior draws, and their features.

An example is the description of a public image's latents, from which the prior draws an image of
that kind, and features of the image, which tell what it shows: the leading axes of a wavelet
scattering at 64 pixels, whatever the size of the images. No image is stored. Both are whole numbers
of eight bits.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
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
