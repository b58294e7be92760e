"""``embedded:scattering``: a wavelet scattering encoder, in PyTorch, without weights.

Bruna and Mallat, "Invariant Scattering Convolution Networks", IEEE TPAMI 2013:

    S0 = x * phi,   S1 = |x * psi_1| * phi,   S2 = ||x * psi_1| * psi_2| * phi  (coarser psi_2)

each sampled every 2^J pixels. Averages make it stable to shifts, wavelets to deformations. The
filters are normalised (`wavelets.bank`) so that |S x - S y| <= |x - y| holds exactly, which
also bounds the norm of every embedding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

import numpy as np
import scipy
import torch
import torch.nn.functional as F  # noqa: N812
from numpy.typing import NDArray
from torch import Tensor

from understudy.backends.arrays import OPPONENT, require_images
from understudy.backends.embedded.wavelets import Bank, bank
from understudy.backends.plugin import full_name, read_options
from understudy.core.errors import BackendError
from understudy.core.independence import even_parts
from understudy.core.option import Option
from understudy.core.types import Embeddings, Images, Shape, Vector

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


def path_basis(octaves: int, angles: int) -> tuple[Vector, Vector]:
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
        coarser = octaves - 1 - octave
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


_CHUNK = 16 * 28 * 28  # pixels encoded at once: the maps of a layer then stay in the cache
_ROUNDING = 1 + 2.0**-16  # float32 sums in the convolutions

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ScatteringOptions:
    """Options of ``embedded:scattering``.

    Attributes:
        J: Octaves, 1 to 4: averages reach over 2^J pixels, and there is one position every 2^J.
        L: Angles, 2 to 16.
        log: Gain a of the compression sign(s) log(1 + a |s|) / a of every output, which keeps all
            bounds; 0 for none. 10 suits linear models.
        colour: ``rgb`` channel by channel, or ``opponent`` (luminance and two opponents).
        coefficients: How many numbers to keep of the outputs' orthonormal spectrum over positions
            and angles, lowest frequencies first; None keeps the outputs themselves.
    """

    J: Annotated[int, Option("", least=1, most=4)] = 2
    L: Annotated[int, Option("", least=2, most=16)] = 8
    log: Annotated[float, Option("", least=0)] = 0.0
    colour: Literal["rgb", "opponent"] = "rgb"
    coefficients: Annotated[int | None, Option("", least=1)] = None


class _Layer:
    """The operators of one bank on maps."""

    def __init__(self, filters: Bank) -> None:
        self._step = 2**filters.octaves
        self._lowpass = torch.from_numpy(filters.lowpass.astype(np.float32))
        # conv2d correlates instead of convolving; psi(-x) = conj(psi(x)), so the modulus agrees.
        self._kernels = [
            torch.from_numpy(np.concatenate([k.real, k.imag]).astype(np.float32))[:, None]
            for k in filters.wavelets
        ]

    def average(self, maps: Tensor) -> Tensor:
        """(..., height, width) to (..., height / 2^J, width / 2^J): 2^J (maps * phi), sampled."""
        # By convolutions: what a matrix product makes of a row depends on the rows about it.
        flat, radius = maps.reshape(-1, 1, *maps.shape[-2:]), len(self._lowpass) // 2
        across = F.conv2d(
            flat, self._lowpass[None, None, None], stride=(1, self._step), padding=(0, radius)
        )
        down = F.conv2d(
            across, self._lowpass[None, None, :, None], stride=(self._step, 1), padding=(radius, 0)
        )
        return down.reshape(*maps.shape[:-2], *down.shape[-2:])

    def modulus(self, maps: Tensor, octave: int) -> Tensor:
        """(n, height, width) to (n, L, height / 2^j, width / 2^j): 2^j |maps * psi_j|, sampled."""
        kernels = self._kernels[octave]
        responses = F.conv2d(
            maps[:, None], kernels, stride=2**octave, padding=kernels.shape[-1] // 2
        )
        real, imaginary = responses.chunk(2, dim=1)
        return torch.addcmul(real * real, imaginary, imaginary).sqrt_()


class _Spectrum:
    """The first ``length`` numbers of the outputs' spectrum; see `spectrum`."""

    def __init__(
        self, length: int, channels: int, positions: tuple[int, int], options: ScatteringOptions
    ) -> None:
        basis, frequency = path_basis(options.J, options.L)
        self._paths, self._rows, self._columns = (
            torch.from_numpy(matrix.astype(np.float32))[:, :, None, None]
            for matrix in (basis, *map(cosine_basis, positions))
        )
        order = low_first(channels, frequency, *positions)
        self._order = torch.from_numpy(order[:length])
        self._channels = channels

    def __call__(self, paths: Tensor) -> Tensor:
        """(n * channels, paths, rows, columns) to (n, length)."""
        # By convolutions of one cell, as averages are: first paths, then rows, then columns mix.
        turned = F.conv2d(paths, self._paths).transpose(1, 2)
        turned = F.conv2d(turned, self._rows).permute(0, 3, 2, 1)
        spectrum = F.conv2d(turned, self._columns).permute(0, 2, 3, 1)
        return spectrum.reshape(len(paths) // self._channels, -1)[:, self._order]


class ScatteringEncoder:
    """Images to scattering coefficients, ordered by channel, path, row and column.

    Attributes:
        norm_bound: Norm of the all-white image, which no image's norm exceeds.
        ordered: Whether ``coefficients`` is given: lowest frequencies first.
    """

    def __init__(self, shape: Shape, options: ScatteringOptions) -> None:
        height, width, channels = shape
        step = 2**options.J
        self.name = full_name("embedded:scattering", options)
        if min(height, width) < step:
            raise BackendError(
                f"{self.name} needs images of at least 2^J = {step} pixels a side, found "
                f"{height} x {width}; choose a smaller J"
            )
        self.shape = shape
        self.licence = "none"
        self.ordered = options.coefficients is not None
        self._options = options
        self._threads = SingleThreads()
        self._channels = channels
        self._layers = [
            _Layer(bank(options.J - j, options.L, -(-max(height, width) // 2**j)))
            for j in range(options.J)
        ]
        positions = (-(-height // step), -(-width // step))
        total = channels * path_count(options) * positions[0] * positions[1]
        self.dim = min(options.coefficients or total, total)
        self._spectrum = (
            _Spectrum(self.dim, channels, positions, options) if options.coefficients else None
        )
        self.norm_bound: float | None = float(np.sqrt(height * width * channels) * _ROUNDING)

    def encode(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 to (n, d) float32."""
        require_images(images, self.shape, self.name)
        out = np.empty((len(images), self.dim), dtype=np.float32)
        size = max(1, _CHUNK // (self.shape[0] * self.shape[1] * self._channels))

        def encode_part(item: tuple[slice, Images]) -> None:
            rows, part = item
            with torch.inference_mode():
                maps = torch.from_numpy(self._maps(part))
                paths, gain = self._scatter(maps), self._options.log
                if gain:
                    paths = paths.sign() * torch.log1p(gain * paths.abs()) / gain
                if self._spectrum is not None:
                    paths = self._spectrum(paths)
                out[rows] = paths.reshape(len(part), -1).numpy()[: len(out[rows])]

        self._threads.each(encode_part, even_parts(images, size))
        return out

    def _maps(self, images: Images) -> NDArray[np.float32]:
        """(n, h, w, c) uint8 to (n * channels, h, w) float32 in [0, 1]."""
        maps = images.astype(np.float32) / np.float32(255)
        if self._options.colour == "opponent" and self._channels == 3:
            maps = maps @ OPPONENT.T.astype(np.float32)
        maps = np.moveaxis(maps, 3, 1)
        return np.ascontiguousarray(maps).reshape(-1, *maps.shape[2:])

    def _scatter(self, maps: Tensor) -> Tensor:
        """(n, height, width) to (n, paths, positions, positions)."""
        first = self._layers[0]
        outputs = [first.average(maps)[:, None]]
        for octave, layer in enumerate(self._layers):
            fine = first.modulus(maps, octave)
            outputs.append(layer.average(fine))
            flat = fine.flatten(0, 1)
            for coarser in range(octave + 1, self._options.J):
                second = layer.modulus(flat, coarser - octave)
                second = second.reshape(len(maps), -1, *second.shape[2:])
                outputs.append(self._layers[coarser].average(second))
        return torch.cat(outputs, dim=1)


class SingleThreads:
    """A pool of as many threads as PyTorch may use, each of which computes on itself alone.

    The operations are too small to split: on a busy machine their threads would wait for each other
    most of the time. It also makes the result independent of the number of threads.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(
            torch.get_num_threads(), initializer=torch.set_num_threads, initargs=(1,)
        )

    def each(self, work: Callable[[T], None], parts: Iterable[T]) -> None:
        """Run the parts side by side, each on one thread."""
        threads = torch.get_num_threads()
        try:
            for _ in self._pool.map(work, parts):  # raises what a part raised
                pass
        finally:
            torch.set_num_threads(threads)  # a worker that starts sets it for others too


def path_count(options: ScatteringOptions) -> int:
    """Paths of one channel: 1 + J L, and L^2 J (J - 1) / 2 more of the second order."""
    octaves, angles = options.J, options.L
    return 1 + octaves * angles + angles**2 * octaves * (octaves - 1) // 2


def scattering_encoder(shape: Shape, options: Mapping[str, Any]) -> ScatteringEncoder:
    """The encoder; ``options`` as in a model's name."""
    read = read_options(options, ScatteringOptions, name="embedded:scattering")
    return ScatteringEncoder(shape, read)
