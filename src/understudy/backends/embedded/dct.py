"""``embedded:dct``: a fixed orthonormal codec.

Pixels become x / 255 - 1/2, colour is rotated to luminance and two opponents, and each channel
goes through the orthonormal two-dimensional DCT-II (Ahmed, Natarajan and Rao 1974). Every step
keeps Euclidean distances, so the norm of an embedding is the norm of its centred image, at most
sqrt(height * width * channels) / 2, and leaving out coefficients gives the best approximation in
L2 among all images made of the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.backends.arrays import (
    OPPONENT,
    FloatArray,
    check_embeddings,
    index_slices,
    require_images,
    to_uint8,
)
from understudy.backends.plugin import full_name
from understudy.core.independence import even_parts
from understudy.core.option import Option
from understudy.core.types import Embeddings, Images, Seeds, Shape

_CHUNK = 1 << 18  # numbers transformed at once: 1 MB as float32, which stays in the cache
_ROUNDING = 1 + 2.0**-20  # float32 may round a norm up by a few parts in 10^7


@dataclass(frozen=True, slots=True)
class DctOptions:
    """Options of ``embedded:dct``.

    Attributes:
        coefficients: How many coefficients to keep, lowest frequencies first; None keeps all, and
            so does a number above height * width * channels.
    """

    coefficients: Annotated[int | None, Option("", least=1)] = None


def frequency_order(shape: Shape) -> NDArray[np.intp]:
    """Flat indices into a (height, width, channels) array of coefficients, low frequencies first.

    The frequency of row i and column j is i / height + j / width. At equal frequency luminance
    comes first, then the opponents.
    """
    height, width, channels = shape
    i, j, channel = np.indices((height, width, channels)).reshape(3, -1)
    # i / height + j / width over a common denominator, so that ties are exact.
    return np.lexsort((i, channel, i * width + j * height))


class _Codec:
    """What the encoder and the decoder share."""

    def __init__(self, shape: Shape, options: DctOptions) -> None:
        total = shape[0] * shape[1] * shape[2]
        self.shape = shape
        self.dim = min(options.coefficients or total, total)
        canonical_options = DctOptions(self.dim if self.dim < total else None)
        self.name = full_name("embedded:dct", canonical_options)
        self.licence = "none"
        self._order = frequency_order(shape)[: self.dim]
        # A power of two, so that whole parts make up a call with private records.
        self._chunk = 1 << (max(1, _CHUNK // total).bit_length() - 1)
        self._colour = OPPONENT.astype(np.float32) if shape[2] == 3 else np.eye(1, dtype=np.float32)


class DctEncoder(_Codec):
    """Images to DCT coefficients.

    Attributes:
        norm_bound: sqrt(height * width * channels) / 2, reached by an image of black and white
            pixels only (up to a part in a million for rounding).
    """

    ordered = True

    def __init__(self, shape: Shape, options: DctOptions) -> None:
        super().__init__(shape, options)
        self.norm_bound: float | None = float(0.5 * np.sqrt(np.prod(shape)) * _ROUNDING)

    def encode(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 to (n, d) float32, lowest frequency first."""
        require_images(images, self.shape, self.name)
        out = np.empty((len(images), self.dim), dtype=np.float32)
        for rows, part in even_parts(images, self._chunk):
            centred = part.astype(np.float32) / np.float32(255) - np.float32(0.5)
            values: FloatArray = scipy.fft.dctn(centred @ self._colour.T, axes=(1, 2), norm="ortho")
            out[rows] = values.reshape(len(values), -1)[: len(out[rows]), self._order]
        return out


class DctDecoder(_Codec):
    """DCT coefficients to images; coefficients left out count as zero."""

    stochastic = False

    def decode(self, embeddings: Embeddings, *, seeds: Seeds | None = None) -> Images:
        """(n, d) float32 to (n, height, width, channels) uint8, clipped; seeds are ignored."""
        return to_uint8(self.pixels(embeddings))

    def pixels(self, embeddings: Embeddings) -> FloatArray:
        """(n, d) float32 to (n, height, width, channels) float32, 0 black to 1 white, unclipped."""
        check_embeddings(embeddings, self.dim, self.name)
        out = np.empty((len(embeddings), *self.shape), dtype=np.float32)
        for rows in index_slices(len(embeddings), self._chunk):
            part = embeddings[rows].astype(np.float32, copy=False)
            values = np.zeros((len(part), int(np.prod(self.shape))), dtype=np.float32)
            values[:, self._order] = part
            pixels: FloatArray = scipy.fft.idctn(
                values.reshape(-1, *self.shape), axes=(1, 2), norm="ortho"
            )
            out[rows] = pixels @ self._colour + np.float32(0.5)
        return out
