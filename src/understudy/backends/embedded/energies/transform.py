"""The fixed transform of ``embedded:energies``: cosine coefficients, energies, histograms.

An image of any size becomes the 32 x 32 lowest coefficients of its orthonormal cosine transform, in
opponent colours. Of these, luma is looked at in 32 x 32 pixels and chroma in 16 x 16. The energies
of a plane are the moduli of its convolutions with complex Morlet wavelets (Gabor 1946; Mallat 1989)
of eight angles, an octave apart, averaged over an 8 x 8 grid and compressed by a logarithm. They
say where edges and textures of an orientation are, and forget their exact position, which a linear
code of as few numbers cannot. Histograms of luma's levels, and of the logarithms of the lengths of
its gradients, say which tones an image has and how much of it is flat.

Nothing here is learnt but the axes and scales that `PublicAxes` holds, from public photographs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import chain
from pathlib import Path
from typing import Any

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
_LEAST_GRADIENT = 1e-2  # added to lengths of gradients, for the same reason
_GRID_RADIUS = 6.0  # frequencies over the grid that energies keep
_LEVELS = np.linspace(-0.5, 0.5, 8)  # black to white
_LENGTHS = np.linspace(np.log(_LEAST_GRADIENT), np.log(0.5), 5)  # logarithms, of gradients
_LEAST_SHARE = 0.01  # added to parts of an image, whose roots are steep near 0

BINS = len(_LEVELS) + len(_LENGTHS)
"""Numbers of luma's histograms."""


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
        responses = _Convolution.apply(padded, stride)  # type: ignore[no-untyped-call]
        real, imaginary = responses[:, :ANGLES], responses[:, ANGLES:]
        moduli = torch.sqrt(real * real + imaginary * imaginary + _FLOOR)
        while moduli.shape[-1] > GRID:
            moduli = F.avg_pool2d(F.pad(moduli, (1,) * 4, mode="replicate"), 4, 2)
        octave_energies.append(torch.log1p(_GAIN * moduli) / _GAIN)
        if octave + 1 < octaves:
            plane = F.avg_pool2d(plane, 2)
    return torch.cat(octave_energies, dim=1)


class _Convolution(torch.autograd.Function):
    """Planes (n, 1, h, w) convolved with the wavelets: (n, 2 * ANGLES, height, width).

    PyTorch takes ten times as long for the way back of one plane as for the way there. Here it is a
    product with a matrix, a window of 2 x 2 results at a time: half the time of both together.
    """

    @staticmethod
    def forward(ctx: Any, planes: Tensor, stride: int) -> Tensor:
        ctx.stride, ctx.size = stride, planes.shape[2:]
        return F.conv2d(planes, _BANK, stride=stride)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        windows = _WINDOWS[ctx.stride] @ F.pixel_unshuffle(gradient, 2).flatten(2)
        side = _KERNEL + ctx.stride
        return F.fold(windows, ctx.size, side, stride=2 * ctx.stride), None


def _windows(stride: int) -> Tensor:
    """The wavelets where 2 x 2 results have them: (pixels of a window, 2 * ANGLES * 4)."""
    windows = torch.zeros(2 * ANGLES, 2, 2, *(_KERNEL + stride,) * 2)
    for row, column in np.ndindex(2, 2):
        rows, columns = (slice(stride * i, stride * i + _KERNEL) for i in (row, column))
        windows[:, row, column, rows, columns] = _BANK[:, 0]
    return windows.reshape(8 * ANGLES, -1).T.contiguous()


_WINDOWS = {stride: _windows(stride) for stride in (1, 2)}


def soft_histograms(values: Tensor, levels: Vector) -> Tensor:
    """Roots of the part of the values (n, p, h, w) that is near each of k levels, (n, p * k).

    Levels are equally far apart, and a value between two counts for both, the nearer one more. The
    distance of roots of histograms is Hellinger's.
    """
    step, around = _around(levels)
    places = ((values.flatten(2) - around[0]) / step).clamp(0, len(around) - 1)
    shares = _SoftHistogram.apply(places, len(around))[..., 1:-1]  # type: ignore[no-untyped-call]
    return torch.sqrt(shares + _LEAST_SHARE).flatten(1)


class _SoftHistogram(torch.autograd.Function):
    """The part of places (n, p, m) in [0, bins - 1] that is near each bin, (n, p, bins)."""

    @staticmethod
    def forward(ctx: Any, places: Tensor, bins: int) -> Tensor:
        left = places.floor().clamp(max=bins - 2)
        index, beyond = left.long(), places - left
        ctx.save_for_backward(index)
        shares = places.new_zeros(*places.shape[:2], bins)
        shares.scatter_add_(2, index, 1 - beyond).scatter_add_(2, index + 1, beyond)
        return shares / places.shape[2]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (index,) = ctx.saved_tensors
        slopes = (gradient[..., 1:] - gradient[..., :-1]) / index.shape[2]
        return slopes.gather(2, index), None


def _around(levels: Vector) -> tuple[float, Vector]:
    """How far levels are apart, and these levels with one more on either side."""
    step = float(levels[1] - levels[0])
    return step, np.concatenate([[levels[0] - step], levels, [levels[-1] + step]])


def luma_features(values: Tensor) -> Tensor:
    """Of the luma of (n, c, COSINES, COSINES) coefficients, (n, 24 * 64 + BINS).

    Its energies, and soft histograms of its levels and of the logarithms of its gradients.
    """
    plane = planes_of(values[:, :1], COSINES)
    parts = (
        energies(plane[:, 0], LUMA_OCTAVES).flatten(1),
        soft_histograms(plane, _LEVELS),
        soft_histograms(torch.log(gradient_lengths(plane)), _LENGTHS),
    )
    return torch.cat(parts, dim=1)


def gradient_lengths(planes: Tensor) -> Tensor:
    """Lengths of the gradients of planes (n, p, side, side), (n, p, side - 1, side - 1)."""
    corner = planes[..., :-1, :-1]
    across, down = planes[..., :-1, 1:] - corner, planes[..., 1:, :-1] - corner
    return torch.sqrt(across * across + down * down + _LEAST_GRADIENT**2)


def chroma_energies(values: Tensor) -> Tensor:
    """Energies of both opponents of (n, 3, COSINES, COSINES) coefficients: (n, 2 * 16 * 64)."""
    planes = planes_of(values[:, 1:], CHROMA_PIXELS).flatten(0, 1)
    return energies(planes, CHROMA_OCTAVES).reshape(len(values), -1)


def radii() -> NDArray[np.float64]:
    """(COSINES, COSINES) frequency of each cosine coefficient."""
    rows, columns = np.indices((COSINES, COSINES))
    return np.hypot(rows, columns)


def grid_axes(maps: int, bins: int) -> NDArray[np.float32]:
    """Lowest cosines over the grid of each of ``maps`` maps; ``bins`` numbers of histograms stay.

    (maps * 64 + bins, maps * k + bins) float32.
    """
    cosines = scipy.fft.dct(np.eye(GRID), axis=0, norm="ortho")
    rows, columns = np.indices((GRID, GRID))
    flat = np.einsum("ui,vj->uvij", cosines, cosines)[np.hypot(rows, columns) < _GRID_RADIUS]
    low = flat.reshape(len(flat), -1).T.astype(np.float32)
    result = scipy.linalg.block_diag(np.kron(np.eye(maps, dtype=np.float32), low), np.eye(bins))
    return np.asarray(result, dtype=np.float32)


@dataclass(frozen=True)
class PublicAxes:
    """What the transform knows of public photographs.

    Attributes:
        deviations: (3, COSINES, COSINES) usual size of each coefficient, a power law in frequency.
        luma_mean: (24 * k + BINS,) mean of the luma's features, energies in the cosines of
            `grid_axes`.
        luma: (24 * k + BINS, a) axes along which classes differ more than images of one
            class, the best first (`understudy.studio.public_axes`).
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


def written_luma(shape: Shape) -> tuple[Operation, ...]:
    """`luma_features` of pixels of a shape as operators; the result is ``luma``."""
    colours = np.ones((1, 1)) if shape[2] == 1 else OPPONENT[:1] / np.sqrt(3)
    resampling = _resampling(shape, COSINES)
    corner, difference = np.eye(COSINES)[:-1], np.diff(np.eye(COSINES), axis=0)
    parts = [_written_energies("luma", 1, COSINES >> i, resampling) for i in range(LUMA_OCTAVES)]
    parts += [
        (
            *_separable("luma planes", "levels", *resampling),
            *_written_histogram("levels", COSINES, _LEVELS),
        ),
        (
            *_separable("levels", "across", corner, difference),
            Operation("Mul", ("across", "across"), "across square"),
            *_separable("levels", "down", difference, corner),
            Operation("Mul", ("down", "down"), "down square"),
            Operation("Add", ("across square", "down square"), "gradient sum"),
            Operation("Add", ("gradient sum", _float32([_LEAST_GRADIENT**2])), "gradient squares"),
            Operation("Sqrt", ("gradient squares",), "gradient lengths"),
            Operation("Log", ("gradient lengths",), "gradients"),
            *_written_histogram("gradients", COSINES - 1, _LENGTHS),
        ),
    ]
    return _written_planes("luma", colours, parts)


def written_chroma(shape: Shape) -> tuple[Operation, ...]:
    """`chroma_energies` likewise, but octave by octave, and of these plane by plane: ``chroma``."""
    resampling = _resampling(shape, CHROMA_PIXELS)
    sides = [CHROMA_PIXELS >> octave for octave in range(CHROMA_OCTAVES)]
    parts = [_written_energies("chroma", 2, side, resampling) for side in sides]
    return _written_planes("chroma", OPPONENT[1:] / np.sqrt(3), parts)


def _resampling(shape: Shape, side: int) -> list[Vector]:
    """What makes ``side`` rows and columns of those of an image, (side, height), (side, width)."""
    back = np.sqrt(side / COSINES) * cosine_matrix(side).double().numpy().T
    return [back @ _cosine_rows(pixels, side) for pixels in shape[:2]]


def _written_planes(
    name: str, colours: Vector, parts: Sequence[Sequence[Operation]]
) -> tuple[Operation, ...]:
    """Planes that are ``colours`` (p, channels) of the pixels, and the parts made of them."""
    return (
        _colours(colours, f"{name} planes"),
        *chain.from_iterable(parts),
        Operation("Concat", tuple(part[-1].output for part in parts), name, {"axis": 1}),
    )


def _written_energies(
    name: str, planes: int, pixels: int, resampling: Sequence[Vector]
) -> tuple[Operation, ...]:
    """One octave of energies, of planes that ``resampling`` makes of those of the image.

    Halving, padding and pooling are linear along each axis, so an octave is a product with a matrix
    from each side, two convolutions, and another such product.
    """
    at, stride, count = f"{name} {pixels}", 2 if pixels > 2 * GRID else 1, len(resampling[0])
    halving = np.kron(np.eye(pixels), np.full((1, count // pixels), pixels / count))
    padded = [_padding(pixels) @ halving @ rows for rows in resampling]
    operations = [*_separable(f"{name} planes", f"{at} plane", *padded)]
    for half, part in enumerate(("real", "imaginary")):
        bank = np.tile(_BANK[half * ANGLES : (half + 1) * ANGLES].numpy(), (planes, 1, 1, 1))
        fields = {"group": planes, "stride": stride}
        operations += [
            Operation("Conv", (f"{at} plane", bank), f"{at} {part}", fields),
            Operation("Mul", (f"{at} {part}",) * 2, f"{at} {part} square"),
        ]
    pooling = _pooling(pixels // stride)
    return (
        *operations,
        Operation("Add", (f"{at} real square", f"{at} imaginary square"), f"{at} sum"),
        Operation("Add", (f"{at} sum", _float32([_FLOOR])), f"{at} squares"),
        Operation("Sqrt", (f"{at} squares",), f"{at} moduli"),
        *_separable(f"{at} moduli", f"{at} pooled", _GAIN * pooling, pooling),
        Operation("Add", (f"{at} pooled", _float32([1.0])), f"{at} gains"),
        Operation("Log", (f"{at} gains",), f"{at} logarithms"),
        Operation("Mul", (f"{at} logarithms", _float32([1 / _GAIN])), f"{at} maps"),
        Operation("Flatten", (f"{at} maps",), f"{at} energies", {"axis": 1}),
    )


def _written_histogram(name: str, side: int, levels: Vector) -> tuple[Operation, ...]:
    """`soft_histograms` of one plane, by second differences of distances from the levels."""
    step, around = _around(levels)
    bank = _float32(np.ones((len(around), 1, 1, 1)))
    second = np.diff(np.eye(len(around)), n=2, axis=0).T / (2 * step)
    mean = np.full((1, side), 1 / side)
    return (
        Operation("Conv", (name, bank, _float32(-around)), f"{name} offsets"),
        Operation("Mul", (f"{name} offsets",) * 2, f"{name} offset squares"),
        Operation("Sqrt", (f"{name} offset squares",), f"{name} distances"),
        *_separable(f"{name} distances", f"{name} means", mean, mean),
        Operation("Flatten", (f"{name} means",), f"{name} mean distances", {"axis": 1}),
        Operation("MatMul", (f"{name} mean distances", _float32(second)), f"{name} parts"),
        Operation("Add", (f"{name} parts", _float32([_LEAST_SHARE])), f"{name} least parts"),
        Operation("Sqrt", (f"{name} least parts",), f"{name} roots"),
    )


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
