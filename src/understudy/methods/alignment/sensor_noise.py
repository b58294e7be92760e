"""Embeddings with the noise of the camera beside them, so that one gap aligns both."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from understudy.core.ports import Encoder
from understudy.core.types import Embeddings, Images, Vector
from understudy.methods.base import Context
from understudy.steps.grain import MOST, Levels, noise_levels

_SCALE = 0.02
"""A level of noise, in the norm of an embedding: ten levels are a fifth of it."""

_SEEN = 3.0
"""Deviations of the privacy noise that a gap in levels must exceed to be drawn."""


class GrainEncoder:
    """An encoder whose embeddings are followed by the picture's noise levels, scaled.

    The levels are part of the vector whose norm is clipped, so they cost no release of their own.

    Args:
        inner: An encoder with a known norm.
        channels: Of the pictures.
        bound: That norm.
    """

    def __init__(self, inner: Encoder, channels: int, bound: float) -> None:
        self.inner, self.scale = inner, _SCALE * bound
        self.name, self.licence = inner.name, inner.licence
        self.dim, self.ordered = inner.dim + channels, False
        self.norm_bound: float | None = float(np.hypot(bound, self.scale * MOST * channels**0.5))

    def encode(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 to (n, d + channels) float32."""
        levels = self.scale * noise_levels(images)
        return np.concatenate([self.inner.encode(images), levels], axis=1, dtype=np.float32)


def grainy(context: Context, wanted: bool) -> Context:
    """The context with noise levels beside embeddings, where pictures are seen and drawn."""
    encoder = context.encoder
    if not wanted or encoder is None or encoder.norm_bound is None or context.decoder is None:
        return context
    channels = context.shape[2]
    return replace(context, encoder=GrainEncoder(encoder, channels, encoder.norm_bound))


def numbers_of(context: Context) -> int:
    """How many numbers of a row are its embedding; noise levels follow."""
    encoder = context.encoder
    if encoder is None:
        return context.shape[0]
    return encoder.inner.dim if isinstance(encoder, GrainEncoder) else encoder.dim


def parted(context: Context, rows: Embeddings) -> tuple[Embeddings, Levels | None]:
    """Embeddings (n, d) and the noise levels beside them, (n, channels), if there are any."""
    encoder = context.encoder
    if not isinstance(encoder, GrainEncoder):
        return rows, None
    own = numbers_of(context)
    return rows[:, :own], np.float32(1 / encoder.scale) * rows[:, own:]


def common_gap(gaps: Vector, variances: Vector) -> Vector:
    """One gap in noise levels for all classes, (channels,): they have one camera.

    A gap that may be privacy noise alone is none, or small datasets would get grain by chance.

    Args:
        gaps: (classes, channels) noisy.
        variances: (classes,) variance of the noise in each number of them.
    """
    weights = 1 / np.maximum(variances, 1e-300)
    gap = weights @ gaps / weights.sum()
    return np.where(gap < _SEEN / np.sqrt(weights.sum()), 0.0, gap)
