"""The embeddings in which a release is compared with real images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.backends.plugin import installed
from understudy.backends.registry import load_encoder
from understudy.core.ports import Encoder, ScoringEncoder
from understudy.core.types import Embeddings, Images, Shape
from understudy.metrics.fingerprints import area_means

SCATTERING = "embedded:scattering?log=10&coefficients=400"
DCT = "embedded:dct?coefficients=200"

_SIDE = 32
"""Pixels a side that the default features look at: beyond, scattering takes minutes."""

INCEPTION_DIM = 2048
"""Numbers that the standard Inception network gives an image."""


@dataclass(frozen=True, slots=True)
class Features:
    """An extractor of features.

    Attributes:
        name: What was asked for, or what was chosen, with its options.
        encoder: Images to features; None: rows are features already.
        shape: (height, width, channels) that images are brought to first; None: as they are.
        short: What figures say, for the default ones: its options stand in the settings.
    """

    name: str
    encoder: Encoder | None = None
    shape: Shape | None = None
    short: str = ""

    @property
    def measured(self) -> str:
        """As a figure says it."""
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
            small = area_means(images, _SIDE, smaller=True)
            images = np.rint(small).astype(np.uint8)
        if isinstance(self.encoder, ScoringEncoder):
            return self.encoder.score(images)
        return self.encoder.encode(images), None


def load_features(name: str | None, shape: Shape) -> Features:
    """The extractor of a name, or the default one.

    By default wavelet scattering, on images brought to at most 32 pixels a side. It needs no
    download; and nothing in this package makes images from its numbers, so that no release looks
    good in them only because it was made with them (docs/evaluate.md). Without PyTorch, the
    cosine transform.

    Args:
        name: An encoder as the registry knows it; None: the default.
        shape: (height, width, channels) of the images.

    Raises:
        BackendError: There is no such model, or it does not take such images.
    """
    if name is not None:
        encoder = load_encoder(name, shape=shape)
        return Features(encoder.name, encoder)
    small = (min(shape[0], _SIDE), min(shape[1], _SIDE), shape[2])
    chosen = SCATTERING if installed("torch") and min(small[:2]) >= 4 else DCT
    encoder = load_encoder(chosen, shape=small)
    short = chosen.partition("?")[0]
    return Features(encoder.name, encoder, None if small == shape else small, short)
