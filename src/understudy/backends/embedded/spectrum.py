"""An orthonormal change of basis for scattering coefficients, low frequencies first.

A scattering output varies slowly with its position and with the angles of its wavelets. A DCT over
positions and a Fourier series over angles gather that into few numbers, so the first d of them
serve nearly as well as all: with 400 of 3,969, a linear discriminant on a public benchmark loses
two points. No image is looked at to choose them.
"""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.types import Vector

_ANGLE_WEIGHT = 1.5  # outputs vary less with the angle than with the position, so this may be > 1


def cosine_basis(size: int) -> Vector:
    """(size, size): row k is the k-th cosine of the orthonormal DCT-II."""
    basis: Vector = scipy.fft.dct(np.eye(size), axis=0, norm="ortho")
    return basis


def circular_basis(size: int) -> tuple[Vector, Vector]:
    """The real Fourier basis of a circle of ``size`` angles.

    Returns:
        (size, size) rows, orthonormal; (size,) their frequencies over the highest one, 0 to 1.
    """
    angle = 2 * np.pi * np.arange(size) / size
    turns = np.array([(k + 1) // 2 for k in range(size)])
    # Rows: 1, cos, sin, cos 2, sin 2 ...; an even size ends with a cosine alone.
    rows = np.stack(
        [np.cos(t * angle) if k % 2 or k == 0 else np.sin(t * angle) for k, t in enumerate(turns)]
    )
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    return rows, turns / max(1, size // 2)


def path_basis(octaves: int, angles: int, order: int) -> tuple[Vector, Vector]:
    """The Fourier series over angles, for the paths in the encoder's order.

    A second-order path has two angles; the second is taken relative to the first, since what
    matters is whether they agree.

    Returns:
        (paths, paths) rows, orthonormal; (paths,) the frequency of each, summed over its angles.
    """
    angle_basis, frequency = circular_basis(angles)
    first, second = np.divmod(np.arange(angles**2), angles)
    turned = np.zeros((angles**2, angles**2))
    turned[first * angles + second, first * angles + (first + second) % angles] = 1
    two = np.kron(angle_basis, angle_basis) @ turned
    blocks, frequencies = [np.eye(1)], [np.zeros(1)]
    for octave in range(octaves):
        coarser = octaves - 1 - octave if order == 2 else 0
        blocks += [angle_basis, *[two] * coarser]
        frequencies += [frequency, *[np.add.outer(frequency, frequency).ravel()] * coarser]
    basis = np.zeros((sum(map(len, blocks)),) * 2)
    start = 0
    for block in blocks:
        basis[start : start + len(block), start : start + len(block)] = block
        start += len(block)
    return basis, np.concatenate(frequencies)


def low_first(channels: int, paths: Vector, rows: int, columns: int) -> NDArray[np.intp]:
    """Flat indices into (channels, paths, rows, columns) coefficients, low frequencies first.

    ``paths`` holds the frequency of each path; at equal frequency the first channel comes first.
    """
    shape = (channels, len(paths), rows, columns)
    channel, path, row, column = np.indices(shape).reshape(4, -1)
    frequency = row / rows + column / columns + _ANGLE_WEIGHT * paths[path]
    return np.lexsort((row, path, channel, np.round(frequency, 9)))
