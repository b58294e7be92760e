"""The noise of a camera's sensor: measured, aligned with the embeddings, and drawn.

A generator draws clean images, and a network that was trained on those fails on a camera's. Noise
is measured by a filter that lines and gradients pass unseen (Immerkaer, "Fast noise variance
estimation", 1996), robustly by the median. Its levels stand behind the embedding, so that one gap
aligns both.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Encoder
from understudy.core.types import Embeddings, Images, Vector
from understudy.methods.base import Context

Levels = NDArray[np.float32]

MOST = 64.0
"""The highest level that is measured: in steps of a pixel's 0 to 255."""

_SCALE = 0.02  # a level of noise, in the norm of an embedding: ten levels are a fifth of it
_CLEAR = 3.0  # deviations of the privacy noise that a gap in levels must exceed to be drawn
_OF_MEDIAN = 0.6745  # the median of |x| where x is normal with deviation 1

# Brightness and two colour differences.
_COLOURS = np.array([[1, 1, 1], [1, -1, 0], [1, 1, -2]], dtype=np.float32)
_COLOURS /= np.linalg.norm(_COLOURS, axis=1, keepdims=True)


def axes_of(channels: int) -> Levels:
    """Orthonormal axes of noise: brightness, then colours, (channels, channels)."""
    return np.asarray(_COLOURS if channels == 3 else np.eye(channels), dtype=np.float32)


def noise_levels(images: Images) -> Levels:
    """Standard deviations of the noise along `axes_of`, of 0 to 255 and at most `MOST`.

    Of images (n, height, width, channels) uint8, (n, channels) float32; 0 where they are below 3 x
    3 pixels.
    """
    count, height, width, channels = images.shape
    if count == 0 or min(height, width) < 3:
        return np.zeros((count, channels), dtype=np.float32)
    values = images.astype(np.float32) @ axes_of(channels).T
    for axis in (1, 2):  # the second difference along both: 1 -2 1, -2 4 -2, 1 -2 1
        values = np.diff(values, n=2, axis=axis)
    median = np.median(np.abs(values).reshape(count, -1, channels), axis=1)
    return np.asarray(np.minimum(median / (6 * _OF_MEDIAN), MOST), dtype=np.float32)


def with_sensor_noise(images: Images, levels: Levels, rng: np.random.Generator) -> Images:
    """Images with white noise added until they have levels (n, channels); none is taken away."""
    lack = np.maximum(levels, 0.0) ** 2 - noise_levels(images) ** 2
    lack = np.sqrt(np.clip(lack, 0.0, MOST**2)).astype(np.float32)
    noise = rng.standard_normal(images.shape, dtype=np.float32) * lack[:, None, None, :]
    values = images + noise @ axes_of(images.shape[3])
    return np.asarray(values.round().clip(0, 255), dtype=np.uint8)


class SensorNoiseEncoder:
    """An encoder whose embeddings are followed by the image's noise levels, scaled.

    The levels are part of the vector whose norm is clipped, so they cost no release of their own.

    Args:
        inner: An encoder with a known norm.
        channels: Of the images.
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


def with_noise_levels(context: Context, needs_noise: bool) -> Context:
    """The context with noise levels after the embeddings, where images go in and come out."""
    encoder = context.encoder
    if not needs_noise or encoder is None or encoder.norm_bound is None or context.decoder is None:
        return context
    channels = context.shape[2]
    return replace(context, encoder=SensorNoiseEncoder(encoder, channels, encoder.norm_bound))


def embedding_length(context: Context) -> int:
    """How many numbers of a vector are its embedding; noise levels follow."""
    encoder = context.encoder
    if encoder is None:
        return context.shape[0]
    return encoder.inner.dim if isinstance(encoder, SensorNoiseEncoder) else encoder.dim


def split_noise_levels(
    context: Context, embeddings: Embeddings
) -> tuple[Embeddings, Levels | None]:
    """Embeddings (n, d) and the noise levels after them, (n, channels), if there are any."""
    encoder = context.encoder
    if not isinstance(encoder, SensorNoiseEncoder):
        return embeddings, None
    own = embedding_length(context)
    return embeddings[:, :own], np.float32(1 / encoder.scale) * embeddings[:, own:]


def common_gap(gaps: Vector, variances: Vector) -> Vector:
    """One gap in noise levels, (channels,), of those of all classes: they have one camera.

    A gap that may be privacy noise alone is none, or small datasets would get sensor noise by
    chance.
    """
    weights = 1 / np.maximum(variances, 1e-300)
    gap = weights @ gaps / weights.sum()
    return np.where(gap < _CLEAR / np.sqrt(weights.sum()), 0.0, gap)
