"""Filters of the scattering transform, normalised so that no layer lengthens a signal.

A bank of scale J is one low-pass filter, sampled every 2^J pixels, and for each octave
j = 0 ... J-1 and each of L angles a Morlet wavelet, sampled every 2^j pixels (Bruna and Mallat,
"Invariant Scattering Convolution Networks", 2013, section 2). All have compact support, so that
a layer is a strided convolution.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Vector

Complex = NDArray[np.complex128]
_SIGMA = 0.8  # width of the finest wavelet's envelope in pixels, as in the usual software
_FREQUENCY = 0.75 * np.pi  # centre frequency of the finest wavelet in radians a pixel
_BLOCK_NUMBERS = 1 << 22  # complex numbers held at once while the norm is computed


@dataclass(frozen=True, slots=True)
class Bank:
    """The filters of one layer, scaled to operator norm 1 with their sampling included.

    Attributes:
        lowpass: (2r + 1,) float64; the filter is its outer product with itself, sampled every
            2^octaves pixels.
        wavelets: For each octave j, (angles, k, k) complex128, sampled every 2^j pixels. Angle l
            is pi l / angles.
    """

    lowpass: Vector
    wavelets: tuple[Complex, ...]

    @property
    def octaves(self) -> int:
        """J."""
        return len(self.wavelets)


def morlet(octave: int, angle: float, slant: float) -> Complex:
    """A Morlet wavelet: a plane wave under an elliptic Gaussian, less what gives it a mean of 0.

    It is 2^octave times as large as the finest one; ``slant`` is the envelope's width along the
    wave over its width across it.

    Returns:
        (k, k) complex128, k = 8 * 2^j + 1.
    """
    sigma, radius = _SIGMA * 2**octave, 4 * 2**octave
    y, x = np.mgrid[-radius : radius + 1, -radius : radius + 1].astype(np.float64)
    along = x * np.cos(angle) + y * np.sin(angle)
    across = y * np.cos(angle) - x * np.sin(angle)
    envelope = np.exp(-(along**2 + (slant * across) ** 2) / (2 * sigma**2))
    wave = envelope * np.exp(1j * _FREQUENCY / 2**octave * along)
    wavelet: Complex = wave - envelope * (wave.sum() / envelope.sum())
    wavelet *= slant / (2 * np.pi * sigma**2)
    return wavelet


def gaussian(octaves: int) -> Vector:
    """The low-pass filter along one axis: (2^(J + 2) + 1,), sum 1."""
    sigma, radius = _SIGMA * 2 ** (octaves - 1), 2 * 2**octaves
    x = np.arange(-radius, radius + 1)
    values: Vector = np.exp(-(x**2) / (2 * sigma**2))
    values /= values.sum()
    return values


@lru_cache(maxsize=32)
def bank(octaves: int, angles: int, size: int) -> Bank:
    """The bank of scale J for images of at most ``size`` pixels a side.

    The wavelets are scaled together until their Littlewood-Paley sum peaks at 1, then all filters
    until the layer's operator norm is 1 exactly. With the factors 2^j and 2^J that make up for the
    sampling, the layer x -> (x * phi, x * psi ...) then never lengthens an image, and since the
    modulus never lengthens a difference, neither does the whole scattering transform.
    """
    low = gaussian(octaves)
    wavelets = [
        np.stack([morlet(j, np.pi * angle / angles, 4 / angles) for angle in range(angles)])
        for j in range(octaves)
    ]
    # An image on a torus with this margin does not meet its own copies: the linear convolution is
    # part of the circular one, whose norm the Fourier transform gives exactly.
    step = 2**octaves
    torus = -(-(size + 2 * (len(low) // 2)) // step) * step
    spectra = [_spectra(kernels, torus) for kernels in wavelets]
    balance = float(np.sqrt(max_littlewood_paley(spectra)))
    spectra = [spectrum / balance for spectrum in spectra]
    norm = float(np.sqrt(squared_norm(_spectra(np.outer(low, low)[None], torus), spectra)))
    return Bank(
        lowpass=low * np.sqrt(step / norm),
        wavelets=tuple(kernels * (2**j / (balance * norm)) for j, kernels in enumerate(wavelets)),
    )


def max_littlewood_paley(spectra: list[Complex]) -> float:
    """Largest value over all frequencies of 1/2 sum (|psi(w)|^2 + |psi(-w)|^2), as real x sees it.

    ``spectra`` holds for each octave (angles, m, m) Fourier transforms.
    """
    power: Vector = sum(
        (np.abs(spectrum) ** 2 + np.abs(_mirrored(spectrum)) ** 2).sum(0) / 2
        for spectrum in spectra
    )
    return float(power.max())


def squared_norm(lowpass: Complex, spectra: list[Complex]) -> float:
    """The largest ratio |W x|^2 / |x|^2 over real images x on the torus.

    W x holds 2^J (x * phi) at every 2^J-th pixel and 2^j (x * psi) at every 2^j-th. Sampling folds
    frequencies onto each other, so W*W is not diagonal but falls into blocks of the 4^J
    frequencies that fold together at the coarsest step; the result is the largest eigenvalue of a
    block.
    """
    step = 2 ** len(spectra)
    # For real x a wavelet and its conjugate give outputs of the same length: half of each.
    layers = [(lowpass, step)]
    for j, spectrum in enumerate(spectra):
        halves = np.concatenate([spectrum, _mirrored(spectrum)]) / np.sqrt(2)
        layers.append((halves, 2**j))
    blocks = [(_folded(spectrum, step), _classes(step, own)) for spectrum, own in layers]
    count = blocks[0][0].shape[0]
    largest = 0.0
    for part in _parts(count, step**4):
        gram = sum(same * (f[part].conj().transpose(0, 2, 1) @ f[part]) for f, same in blocks)
        largest = max(largest, float(np.linalg.eigvalsh(gram).max()))
    return largest


def _spectra(kernels: NDArray[np.generic], torus: int) -> Complex:
    """Fourier transforms of (f, k, k) kernels, centred on the origin of a (torus, torus) grid."""
    size = kernels.shape[-1]
    grid = np.zeros((len(kernels), torus, torus), dtype=np.complex128)
    grid[:, :size, :size] = kernels
    spectra: Complex = np.fft.fft2(np.roll(grid, (-(size // 2), -(size // 2)), axis=(1, 2)))
    return spectra


def _mirrored(spectra: Complex) -> Complex:
    """Fourier transforms of the conjugate filters: conj(f(-w))."""
    minus = -np.arange(spectra.shape[-1])
    return spectra[:, minus][:, :, minus].conj()


def _folded(spectra: Complex, step: int) -> Complex:
    """(f, m, m) to (blocks, f, step^2): each block holds the frequencies that fold together."""
    count, size, _ = spectra.shape
    part = size // step
    split = spectra.reshape(count, step, part, step, part)
    return split.transpose(2, 4, 0, 1, 3).reshape(part * part, count, step * step)


def _classes(step: int, own: int) -> NDArray[np.bool_]:
    """Which of a block's frequencies fold onto each other already at sampling step ``own``."""
    row, column = np.divmod(np.arange(step * step), step)
    group = row % (step // own) * step + column % (step // own)
    # own = 1 folds nothing: every frequency is alone; own = step folds all of them.
    same: NDArray[np.bool_] = group[:, None] == group[None, :]
    return same


def _parts(count: int, numbers: int) -> Iterator[slice]:
    """Slices of ``range(count)`` whose items, of so many numbers each, fit in memory together."""
    size = max(1, _BLOCK_NUMBERS // numbers)
    return (slice(start, start + size) for start in range(0, count, size))
