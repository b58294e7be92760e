"""The fixed transform of ``embedded:energies``: low cosine coefficients and oriented energies.

An image of any size becomes the 32 x 32 lowest coefficients of its orthonormal cosine transform, in
opponent colours. Of these, luma is looked at in 32 x 32 pixels and chroma in 16 x 16. The energies
of a plane are the moduli of its convolutions with complex Morlet wavelets (Gabor 1946; Mallat 1989)
of eight angles, an octave apart, averaged over an 8 x 8 grid and compressed by a logarithm. They
say where edges and textures of an orientation are, and forget their exact position, which a linear
code of as few numbers cannot.

Nothing here is learnt but the axes and scales that `PublicAxes` holds, from public photographs.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
import scipy
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import ArrayLike, NDArray
from safetensors.numpy import load_file, save_file
from torch import Tensor

from understudy.backends.arrays import OPPONENT, FloatArray
from understudy.core.operations import PIXELS, Operation
from understudy.core.types import Images, Shape, Vector

COSINES = 32
"""Cosine coefficients of luma along each axis, and pixels of the plane that its energies are of."""

CHROMA_PIXELS = 16
GRID = 8
ANGLES = 8
LUMA_OCTAVES, CHROMA_OCTAVES = 3, 2

_KERNEL = 7  # pixels a side of a wavelet
_SIGMA = 1.1  # of its envelope, in pixels
_WAVE = 2.2  # radians a pixel of its wave, times sigma
_GAIN = 10.0  # of the logarithm: log(1 + gain |.|) / gain
_FLOOR = 1e-4  # added to squared moduli, so that gradients exist where an image is flat
_LEAST_GRADIENT = 3e-3  # added to lengths of gradients, for the same reason
_GRID_RADIUS = 6.0  # frequencies over the grid that energies keep


def morlet_bank() -> Tensor:
    """Real, then imaginary parts of the wavelets: (2 * ANGLES, 1, 7, 7) float32, of unit norm."""
    half = _KERNEL // 2
    rows, columns = np.mgrid[-half : half + 1, -half : half + 1].astype(float)
    filters = []
    for angle in np.pi * np.arange(ANGLES) / ANGLES:
        along = columns * np.cos(angle) + rows * np.sin(angle)
        across = rows * np.cos(angle) - columns * np.sin(angle)
        envelope = np.exp(-(along**2 + 0.5 * across**2) / (2 * (1.1 * _SIGMA) ** 2))
        wave = np.exp(1j * along * (_WAVE / _SIGMA))
        wavelet = envelope * (wave - (envelope * wave).sum() / envelope.sum())
        filters.append(wavelet / np.sqrt((np.abs(wavelet) ** 2).sum()))
    bank = np.stack(filters)
    return torch.from_numpy(np.concatenate([bank.real, bank.imag])[:, None].astype(np.float32))


_BANK = morlet_bank()


def cosine_matrix(side: int) -> Tensor:
    """The orthonormal cosine transform of ``side`` numbers, as a (side, side) matrix."""
    return torch.from_numpy(scipy.fft.dct(np.eye(side), axis=0, norm="ortho").astype(np.float32))


def coefficients(images: Images) -> FloatArray:
    """(n, h, w, c) uint8 to the lowest cosine coefficients, (n, c, COSINES, COSINES) float32.

    They are those of the image reduced, or enlarged, to COSINES pixels a side, black -1/2 and white
    1/2, in opponent colours; a grey image's luma is that of the same image stored in colour.
    """
    centred = images.astype(np.float32) / np.float32(255) - np.float32(0.5)
    if images.shape[3] == 3:
        planes = centred @ OPPONENT.T.astype(np.float32)
    else:
        planes = centred * np.float32(np.sqrt(3))
    height, width = images.shape[1:3]
    values = scipy.fft.dctn(planes, axes=(1, 2), norm="ortho").transpose(0, 3, 1, 2)
    result = np.zeros((*values.shape[:2], COSINES, COSINES), dtype=np.float32)
    rows, columns = min(height, COSINES), min(width, COSINES)
    scale = np.float32(COSINES / np.sqrt(height * width))
    result[:, :, :rows, :columns] = scale * values[:, :, :rows, :columns]
    return result


def pixels(values: FloatArray, height: int, width: int) -> Images:
    """The way back of `coefficients`: (n, c, COSINES, COSINES) to (n, height, width, c) uint8."""
    full = np.zeros((*values.shape[:2], height, width), dtype=np.float32)
    rows, columns = min(height, COSINES), min(width, COSINES)
    scale = np.float32(np.sqrt(height * width) / COSINES)
    full[:, :, :rows, :columns] = scale * values[:, :, :rows, :columns]
    planes = scipy.fft.idctn(full, axes=(2, 3), norm="ortho").transpose(0, 2, 3, 1)
    if values.shape[1] == 3:
        planes = planes @ OPPONENT.astype(np.float32)
    else:
        planes = planes / np.float32(np.sqrt(3))
    images: Images = np.clip(np.rint((planes + 0.5) * 255), 0, 255).astype(np.uint8)
    return images


def planes_of(values: Tensor, side: int) -> Tensor:
    """(n, c, COSINES, COSINES) as planes (n, c, side, side), white one more than black."""
    matrix = cosine_matrix(side)
    lowest = values[:, :, :side, :side] * (side / COSINES / np.sqrt(3))
    return torch.einsum("ui,ncuv,vj->ncij", matrix, lowest, matrix)


def energies(planes: Tensor, octaves: int) -> Tensor:
    """Compressed energies of planes (n, side, side): (n, octaves * ANGLES, GRID, GRID).

    The finest octave of a plane of 32 pixels is sampled at every second one.
    """
    plane, octave_energies = planes[:, None], []
    for octave in range(octaves):
        stride = 2 if plane.shape[-1] > 2 * GRID else 1
        padded = F.pad(plane, (_KERNEL // 2,) * 4, mode="reflect")
        responses = F.conv2d(padded, _BANK, stride=stride)
        real, imaginary = responses[:, :ANGLES], responses[:, ANGLES:]
        moduli = torch.sqrt(real * real + imaginary * imaginary + _FLOOR)
        while moduli.shape[-1] > GRID:
            moduli = F.avg_pool2d(F.pad(moduli, (1,) * 4, mode="replicate"), 4, 2)
        octave_energies.append(torch.log1p(_GAIN * moduli) / _GAIN)
        if octave + 1 < octaves:
            plane = F.avg_pool2d(plane, 2)
    return torch.cat(octave_energies, dim=1)


def luma_energies(values: Tensor) -> Tensor:
    """Energies of the luma of (n, c, COSINES, COSINES) coefficients: (n, 24 * 64)."""
    return energies(planes_of(values[:, :1], COSINES)[:, 0], LUMA_OCTAVES).flatten(1)


def gradient_lengths(values: Tensor) -> Tensor:
    """Lengths of the luma's gradients, (n, COSINES - 1, COSINES - 1), white one more than black.

    ``values`` are (n, 1, COSINES, COSINES) coefficients.
    """
    plane = planes_of(values, COSINES)[:, 0]
    corner = plane[:, :-1, :-1]
    across, down = plane[:, :-1, 1:] - corner, plane[:, 1:, :-1] - corner
    return torch.sqrt(across * across + down * down + _LEAST_GRADIENT**2)


def chroma_energies(values: Tensor) -> Tensor:
    """Energies of both opponents of (n, 3, COSINES, COSINES) coefficients: (n, 2 * 16 * 64)."""
    planes = planes_of(values[:, 1:], CHROMA_PIXELS).flatten(0, 1)
    return energies(planes, CHROMA_OCTAVES).reshape(len(values), -1)


def radii() -> NDArray[np.float64]:
    """(COSINES, COSINES) frequency of each cosine coefficient."""
    rows, columns = np.indices((COSINES, COSINES))
    return np.hypot(rows, columns)


def grid_axes(maps: int) -> NDArray[np.float32]:
    """Lowest cosines over the grid of each of ``maps`` maps: (maps * 64, maps * k) float32."""
    cosines = scipy.fft.dct(np.eye(GRID), axis=0, norm="ortho")
    rows, columns = np.indices((GRID, GRID))
    flat = np.einsum("ui,vj->uvij", cosines, cosines)[np.hypot(rows, columns) < _GRID_RADIUS]
    low = flat.reshape(len(flat), -1).T.astype(np.float32)
    return np.kron(np.eye(maps, dtype=np.float32), low)


@dataclass(frozen=True)
class PublicAxes:
    """What the transform knows of public photographs.

    Attributes:
        deviations: (3, COSINES, COSINES) usual size of each coefficient, a power law in frequency.
        luma_mean: (24 * k,) mean of the luma's energies in the cosines of `grid_axes`.
        luma: (24 * k, a) axes along which classes differ more than images of one class, the best
            first (`understudy.studio.public_axes`).
        chroma: (32 * k, b).
    """

    deviations: NDArray[np.float32]
    luma_mean: NDArray[np.float32]
    luma: NDArray[np.float32]
    chroma_mean: NDArray[np.float32]
    chroma: NDArray[np.float32]

    @classmethod
    def read(cls, file: Path) -> PublicAxes:
        """Those of a file of this package."""
        return cls(**{name: value.astype(np.float32) for name, value in load_file(file).items()})

    def write(self, file: Path) -> None:
        """Write them in half precision."""
        arrays = {  # safetensors writes what lies in memory, row by row or not
            part.name: np.ascontiguousarray(getattr(self, part.name), dtype=np.float16)
            for part in fields(self)
        }
        save_file(arrays, file)


def written_cosines(shape: Shape, side: int) -> tuple[Operation, ...]:
    """`coefficients` of pixels of a shape as operators, the ``side`` lowest along each axis.

    The result is ``cosines``, (n, c * side * side).
    """
    colours = np.sqrt(3) * np.eye(1) if shape[2] == 1 else OPPONENT
    return (
        _colours(colours, "cosine planes"),
        *_separable("cosine planes", "cosine grid", *(_cosine_rows(n, side) for n in shape[:2])),
        Operation("Flatten", ("cosine grid",), "cosines", {"axis": 1}),
    )


def written_energies(
    shape: Shape, name: str, colours: Vector, side: int, octaves: int
) -> tuple[Operation, ...]:
    """`energies` of planes of pixels of a shape as operators.

    Resampling, padding and pooling are linear along each axis, so an octave is a product with a
    matrix from each side, two convolutions, and another such product.

    ``colours`` (p, channels) says what each plane is of the colours. The result, (n, octaves * p *
    ANGLES * 64), comes octave by octave, plane by plane.
    """
    operations, planes = [_colours(colours / np.sqrt(3), f"{name} planes")], len(colours)
    for octave in range(octaves):
        at, pixels = f"{name} {octave}", side >> octave
        stride = 2 if pixels > 2 * GRID else 1
        halving = np.kron(np.eye(pixels), np.full((1, 1 << octave), 0.5**octave))
        resampling = [
            _padding(pixels)
            @ halving
            @ cosine_matrix(side).double().numpy().T
            @ _cosine_rows(n, side)
            * np.sqrt(side / COSINES)
            for n in shape[:2]
        ]
        operations += _separable(f"{name} planes", f"{at} plane", *resampling)
        for half, part in enumerate(("real", "imaginary")):
            bank = np.tile(_BANK[half * ANGLES : (half + 1) * ANGLES].numpy(), (planes, 1, 1, 1))
            fields = {"group": planes, "stride": stride}
            operations += [
                Operation("Conv", (f"{at} plane", bank), f"{at} {part}", fields),
                Operation("Mul", (f"{at} {part}",) * 2, f"{at} {part} square"),
            ]
        pooling = _pooling(pixels // stride)
        operations += [
            Operation("Add", (f"{at} real square", f"{at} imaginary square"), f"{at} sum"),
            Operation("Add", (f"{at} sum", _float32([_FLOOR])), f"{at} squares"),
            Operation("Sqrt", (f"{at} squares",), f"{at} moduli"),
            *_separable(f"{at} moduli", f"{at} pooled", _GAIN * pooling, pooling),
            Operation("Add", (f"{at} pooled", _float32([1.0])), f"{at} gains"),
            Operation("Log", (f"{at} gains",), f"{at} logarithms"),
            Operation("Mul", (f"{at} logarithms", _float32([1 / _GAIN])), f"{at} maps"),
            Operation("Flatten", (f"{at} maps",), f"{at} flat", {"axis": 1}),
        ]
    flat = tuple(f"{name} {octave} flat" for octave in range(octaves))
    return (*operations, Operation("Concat", flat, name, {"axis": 1}))


def _float32(values: ArrayLike) -> NDArray[np.float32]:
    return np.ascontiguousarray(values, dtype=np.float32)


def _colours(colours: Vector, output: str) -> Operation:
    """Planes (n, p, h, w) that are (p, channels) of the pixels' colours, between -1/2 and 1/2."""
    weights = _float32(colours[:, :, None, None] / 255)
    return Operation("Conv", (PIXELS, weights, _float32(-0.5 * colours.sum(axis=1))), output)


def _separable(
    name: str, output: str, rows: Vector, columns: Vector
) -> tuple[Operation, Operation]:
    """The product of ``rows``, planes and the transpose of ``columns``."""
    return (
        Operation("MatMul", (_float32(rows), name), f"{output} rows"),
        Operation("MatMul", (f"{output} rows", _float32(columns.T)), output),
    )


def _cosine_rows(pixels: int, side: int) -> Vector:
    """The lowest cosines of a number of pixels, as `coefficients` scales them: (side, pixels)."""
    cosines = np.zeros((side, pixels))
    lowest = scipy.fft.dct(np.eye(pixels), axis=0, norm="ortho")[:side]
    cosines[: len(lowest)] = np.sqrt(COSINES / pixels) * lowest
    return cosines


def _padding(pixels: int) -> Vector:
    """Pixels with those beside the edge repeated in reverse: (pixels + 6, pixels)."""
    return np.pad(np.eye(pixels), ((_KERNEL // 2,) * 2, (0, 0)), mode="reflect")


def _pooling(pixels: int) -> Vector:
    """Means of four pixels, every second one, until GRID are left: (GRID, pixels)."""
    pooling = np.eye(pixels)
    while len(pooling) > GRID:
        padded = np.pad(pooling, ((1, 1), (0, 0)), mode="edge")
        starts = range(0, len(padded) - 3, 2)
        pooling = np.stack([padded[start : start + 4].mean(axis=0) for start in starts])
    return pooling
