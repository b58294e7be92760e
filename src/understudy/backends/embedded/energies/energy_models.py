"""The encoder and the decoder of ``embedded:energies``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import chain, pairwise
from typing import Any

import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from torch import Tensor

from understudy.backends.arrays import (
    FloatArray,
    check_embeddings,
    index_slices,
    require_images,
)
from understudy.backends.embedded.energies import transform
from understudy.backends.embedded.energies.transform import COSINES, PublicAxes
from understudy.backends.embedded.scattering import SingleThreads
from understudy.backends.embedded.shipped import ENERGY_WEIGHTS, digest_of
from understudy.backends.plugin import read_options
from understudy.core.errors import BackendError
from understudy.core.independence import Projection, even_parts
from understudy.core.matching import Layout
from understudy.core.operations import EncoderOperations, Operation
from understudy.core.types import Embeddings, Images, Seeds, Shape, Vector

ENERGY_NAME = "embedded:energies"
LEAST_SIDE = 16
MOST_SIDE = 256

_CALL = 64  # images encoded at once
_MATCHED = 64  # images searched for at once
_STEPS = 100  # of Adam (Kingma and Ba 2015)
_RATE, _LAST_RATE = 0.15, 1e-3
_BETAS = (0.9, 0.99)
_TOLERANCE = 0.3  # of the metric's unit: how near a match is worth it
_COMMON_WEIGHT = 0.5  # of the metric's unit: of numbers whose mean over all images alone is known
_DETAIL = 0.7  # of the usual size of public images' frequencies, for those that are not measured
_DETAIL_WEIGHT = 0.1
_LEAST_DETAIL = 1e-3
_OWN_CHROMA = 0.2  # of that, for chroma beyond a multiple of luma where the search begins
_CHROMA_RIDGE = 2.0  # added to the squares of luma that chroma's slope is taken over
_GRADIENT = 0.12  # mean length of a gradient of public photographs' luma, in steps of one pixel
_GRADIENT_WEIGHT = 0.2  # of the logarithm of its density
_MOST_CONTRAST = 2.0  # times that of an image as it was found

_COSINE_RADIUS = 8.0  # of luma's frequencies that are numbers of an embedding, below this
_CHROMA_RADIUS = 0.45  # of luma's, that of chroma
_COSINE_SHARE = 0.3  # of the numbers of a layout, at most
_FEWEST_COSINES = 8
_CHROMA_SHARE = 0.08  # of the numbers of a layout of colour images, energies of chroma
_COARSE = 3.0  # frequencies below are a block of their own
_ENERGY_BLOCKS = (25, 100)  # axes where a block of energies ends
_AXES = "axes.safetensors"


@dataclass(frozen=True, slots=True)
class EnergyOptions:
    """``embedded:energies`` has no options."""


class _Numbers:
    """The numbers of an embedding of images of one shape: what they are, and their order."""

    def __init__(self, shape: Shape) -> None:
        sides = shape[:2]
        if len(shape) != 3 or min(sides) < LEAST_SIDE or max(sides) > MOST_SIDE:
            raise BackendError(
                f"{ENERGY_NAME} takes images of {LEAST_SIDE} to {MOST_SIDE} pixels a side, found "
                f"shape {shape}: give --image-size"
            )
        self.shape, self.channels = shape, shape[2]
        self.axes = PublicAxes.read(ENERGY_WEIGHTS / _AXES)
        relative = np.array([1.0, _CHROMA_RADIUS, _CHROMA_RADIUS])[: self.channels]
        radius = transform.radii()[None] / relative[:, None, None]
        flat = np.flatnonzero(radius.ravel() < _COSINE_RADIUS)
        radius = radius.ravel()[flat]
        order = np.lexsort((flat, np.round(radius, 9)))
        self.cosines, self.frequencies = flat[order], radius[order]
        self.luma = self.axes.luma.shape[1]
        self.chroma = self.axes.chroma.shape[1] if self.channels == 3 else 0
        self.dim = len(self.cosines) + self.luma + self.chroma

    def layout(self, dim: int, *, colour: bool = True) -> Layout:
        """The first numbers of each kind, ``dim`` in all (`BlockEncoder.layout`)."""
        opponent = self.cosines >= COSINES * COSINES
        index = np.flatnonzero(~opponent) if not colour else np.arange(len(self.cosines))
        colour = colour and self.channels == 3
        dim = min(dim, len(index) + self.luma + (self.chroma if colour else 0))
        most = max(_COSINE_SHARE * dim, _FEWEST_COSINES)
        radii = np.arange(2.5, _COSINE_RADIUS + 0.25, 0.5)
        counts = np.searchsorted(self.frequencies[index], radii)
        index = index[: int(counts[counts <= most].max(initial=_FEWEST_COSINES))]
        chroma = min(int(_CHROMA_SHARE * dim), self.chroma) if colour else 0
        luma = min(dim - len(index) - chroma, self.luma)
        coarse, first = self.frequencies[index] < _COARSE, len(self.cosines)
        ends = [0, *(end for end in _ENERGY_BLOCKS if end < luma), luma]
        parts = [
            index[~opponent[index] & coarse],
            index[~opponent[index] & ~coarse],
            index[opponent[index]],
            *(first + np.arange(*pair) for pair in pairwise(ends)),
            first + self.luma + np.arange(chroma),
        ]
        colours = int(len(parts[1]) > 0) + 1 if len(parts[2]) else None
        return Layout.of([part for part in parts if len(part)], colours)

    @cached_property
    def luma_axes(self) -> _PublicEnergies:
        axes = self.axes
        maps = transform.LUMA_OCTAVES * transform.ANGLES
        return _PublicEnergies(maps, transform.BINS, axes.luma_mean, axes.luma)

    @cached_property
    def chroma_axes(self) -> _PublicEnergies:
        axes = self.axes
        maps = 2 * transform.CHROMA_OCTAVES * transform.ANGLES
        return _PublicEnergies(maps, 0, axes.chroma_mean, axes.chroma)

    def detail(self, layout: Layout, sizes: Vector) -> NDArray[np.float32]:
        """Of images with blocks of sizes (n, blocks), the deviation of what is not measured.

        Of each channel's unmeasured frequencies: (n, c) float32.
        """
        detail = np.full((len(sizes), self.channels), _LEAST_DETAIL, dtype=np.float32)
        detail[:, 1:] *= layout.colours is not None
        for block, size in zip(layout.blocks, sizes.T, strict=True):
            if (column := layout.columns[block.start]) < len(self.cosines):
                channel = self.cosines[column] // (COSINES * COSINES)
                part = slice(0, 1) if channel == 0 else slice(1, None)
                detail[:, part] = np.maximum(detail[:, part], _DETAIL * size[:, None])
        return detail


class EnergyEncoder:
    """Images to low cosine coefficients, and to oriented energies and histograms along axes."""

    def __init__(self, shape: Shape) -> None:
        self._numbers = _Numbers(shape)
        self._threads = SingleThreads()
        self.name, self.shape, self.dim = ENERGY_NAME, shape, self._numbers.dim
        self.licence = "Apache-2.0"
        self.sha256 = digest_of(ENERGY_WEIGHTS, _AXES)
        self.norm_bound: float | None = None
        self.ordered = False

    def layout(self, dim: int, *, colour: bool = True) -> Layout:
        """The ``dim`` numbers that say most of an image, in blocks."""
        return self._numbers.layout(dim, colour=colour)

    def encode(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 to (n, d) float32."""
        require_images(images, self.shape, self.name)
        numbers = self._numbers
        out = np.empty((len(images), self.dim), dtype=np.float32)

        def encode_part(item: tuple[slice, Images]) -> None:
            rows, part = item
            values = transform.coefficients(part)
            parts = [self._cosines(values)]
            with torch.inference_mode():
                tensor = torch.from_numpy(values)
                parts.append(numbers.luma_axes(transform.luma_features(tensor).numpy()))
                if numbers.chroma:
                    parts.append(numbers.chroma_axes(transform.chroma_energies(tensor).numpy()))
            out[rows] = np.concatenate(parts, axis=1)[: len(out[rows])]

        self._threads.each(encode_part, even_parts(images, _CALL))
        return out

    def _cosines(self, values: FloatArray) -> NDArray[Any]:
        numbers = self._numbers
        flat = values.reshape(len(values), -1)[:, numbers.cosines]
        return flat / numbers.axes.deviations.reshape(-1)[numbers.cosines]

    def operations(self) -> EncoderOperations:
        """What `encode` computes, as operators (`WrittenEncoder`)."""
        numbers, shape = self._numbers, self.shape
        side = int(np.ceil(_COSINE_RADIUS))
        parts = [transform.written_cosines(shape, side), transform.written_luma(shape)]
        plane, row, column = np.unravel_index(numbers.cosines, (numbers.channels, COSINES, COSINES))
        cosines = np.zeros((numbers.channels, side, side, len(plane)))
        scale = numbers.axes.deviations.reshape(-1)[numbers.cosines].astype(np.float64)
        cosines[plane, row, column, np.arange(len(plane))] = 1 / scale
        matrices = [cosines.reshape(-1, len(plane)), numbers.luma_axes.matrix]
        offsets = [np.zeros(len(plane)), -numbers.luma_axes.offset]
        if numbers.chroma:
            parts.append(transform.written_chroma(shape))
            octaves = transform.CHROMA_OCTAVES
            by_plane = numbers.chroma_axes.matrix.reshape(2, octaves, -1, numbers.chroma)
            matrices.append(by_plane.swapaxes(0, 1).reshape(-1, numbers.chroma))
            offsets.append(-numbers.chroma_axes.offset)
        names = tuple(part[-1].output for part in parts)
        return EncoderOperations(
            (*chain.from_iterable(parts), Operation("Concat", names, "features", {"axis": 1})),
            np.asarray(scipy.linalg.block_diag(*matrices), dtype=np.float64),
            np.concatenate(offsets).astype(np.float64),
        )


class _PublicEnergies:
    """Energies and histograms along public axes, each image by itself."""

    def __init__(self, maps: int, bins: int, mean: NDArray[Any], axes: NDArray[Any]) -> None:
        # Not by BLAS, whose last bits depend on its threads: workers would embed otherwise.
        grid, exact = transform.grid_axes(maps, bins), axes.astype(np.float64)
        self.matrix = np.einsum("fg,ga->fa", grid, exact).astype(np.float32)
        self.offset = np.einsum("g,ga->a", mean, exact).astype(np.float32)
        self._projection = Projection(self.matrix)

    def __call__(self, features: NDArray[Any]) -> Vector:
        """(n, maps * 64 + bins) to (n, a)."""
        return np.asarray(self._projection(features) - self.offset)


class EnergyDecoder:
    """Images whose low cosine coefficients, oriented energies and histograms are near wanted ones.

    The search begins at the wanted cosines, with a random texture above them, and descends by Adam
    on the metric's squared distance. What no number measures is held near the texture's size, and
    gradients are taken to be few and long, as in photographs: exp(-2 |g| / mean length), the total
    variation of Rudin, Osher and Fatemi (1992). Energies do not tell a colour from its opposite, so
    chroma that no number measures is a multiple of luma, the one of what is measured of both in
    this image, and a little of its own: pixels near by of one luma are mostly of one colour (Levin,
    Lischinski and Weiss 2004). From there it departs as far as energies of chroma ask for.

    The search gives way on brightness and contrast where numbers contradict each other, as drawn
    ones do. At its end the brightness is that of the wanted cosines, and so is contrast where it
    was less, up to twice what was found.
    """

    stochastic = True
    block = _MATCHED

    def __init__(self, shape: Shape) -> None:
        self._numbers = _Numbers(shape)
        self._threads, self.at_once = SingleThreads(), _MATCHED * torch.get_num_threads()
        self.name, self.shape, self.dim = ENERGY_NAME, shape, self._numbers.dim
        self.licence = "Apache-2.0"
        self.sha256 = digest_of(ENERGY_WEIGHTS, _AXES)

    def decode(self, embeddings: Embeddings, *, seeds: Seeds) -> Images:
        """(n, d) float32 with a seed each to (n, height, width, channels) uint8."""
        check_embeddings(embeddings, self.dim, self.name)
        layout, others = self._numbers.layout(self.dim), Layout.of([])
        targets, common = embeddings[:, layout.columns], np.zeros(0)
        metric, sizes = np.eye(layout.dim) / _TOLERANCE, np.ones(len(layout.blocks))
        widths = np.ones((len(targets), len(sizes)))
        return self.match(targets, layout, metric, sizes, widths, others, common, seeds=seeds)

    def match(
        self,
        targets: Embeddings,
        layout: Layout,
        metric: Vector,
        sizes: Vector,
        widths: Vector,
        others: Layout,
        common: Vector,
        *,
        seeds: Seeds,
    ) -> Images:
        """Images whose embeddings are near targets (`MatchingDecoder.match`)."""
        check_embeddings(targets, layout.dim, self.name)
        search = _Search(self._numbers, layout, metric, sizes, others, common)
        out = np.empty((len(targets), *self.shape), dtype=np.uint8)

        def match_part(rows: slice) -> None:
            values = search.images_of(targets[rows], widths[rows], seeds[rows])
            out[rows] = transform.pixels(values, *self.shape[:2])

        self._threads.each(match_part, index_slices(len(targets), _MATCHED))
        return out


class _Search:
    """The descent of `EnergyDecoder` for one layout and metric."""

    def __init__(
        self,
        numbers: _Numbers,
        layout: Layout,
        metric: Vector,
        sizes: Vector,
        others: Layout,
        common: Vector,
    ) -> None:
        every, first = np.concatenate([layout.columns, others.columns]), len(numbers.cosines)
        order = np.argsort(every)  # cosines, luma, chroma
        columns = every[order]
        self._place = torch.from_numpy(np.argsort(order))
        self._channels = numbers.channels
        self._metric = torch.from_numpy((metric / _TOLERANCE).astype(np.float32))
        self._common = torch.from_numpy(common.astype(np.float32))
        self._numbers, self._layout, self._sizes = numbers, layout, sizes
        deviations = numbers.axes.deviations[: self._channels]
        self._deviations = torch.from_numpy(np.ascontiguousarray(deviations))
        is_cosine, last = columns < first, first + numbers.luma
        self._cosine_targets = torch.from_numpy(order[is_cosine])
        self._cosines = torch.from_numpy(numbers.cosines[columns[is_cosine]])
        self._measured = _mask_of(self._cosines, deviations.shape)
        own = is_cosine & (order < layout.dim)
        self._own = _mask_of(torch.from_numpy(numbers.cosines[columns[own]]), deviations.shape)
        luma = columns[(columns >= first) & (columns < last)] - first
        chroma = columns[columns >= last] - last
        self._luma = _axes_of(numbers.luma_axes, luma)
        self._chroma = _axes_of(numbers.chroma_axes, chroma) if len(chroma) else None
        self._free = self._channels if len(chroma) else 1

    def images_of(self, targets: Embeddings, widths: Vector, seeds: Seeds) -> FloatArray:
        """Coefficients of the images: (n, c, COSINES, COSINES)."""
        layout, goal = self._layout, torch.from_numpy(targets.astype(np.float32))
        scale = torch.from_numpy(widths[:, layout.block_of_column].astype(np.float32))
        detail = torch.from_numpy(self._numbers.detail(layout, self._sizes * widths))
        detail = detail[:, :, None, None]
        start = self._begin(goal, detail, seeds)
        slopes = self._slopes(start)
        free = start[:, : self._free].clone().requires_grad_(True)
        fixed = start[:, self._free :]
        unmeasured = ~self._measured[: self._free]
        optimiser = torch.optim.Adam([free], lr=_RATE, betas=_BETAS)
        for step in range(_STEPS):
            for group in optimiser.param_groups:
                group["lr"] = _RATE * (1 - step / _STEPS) + _LAST_RATE
            values = torch.cat([free, fixed], dim=1)
            numbers = self._embeddings(values + values[:, :1] * slopes)
            misses = (numbers[:, : layout.dim] - goal) / scale @ self._metric.T
            loss = misses.square().sum()
            misses = numbers[:, layout.dim :] - self._common
            loss = loss + (_COMMON_WEIGHT / _TOLERANCE) ** 2 * misses.square().sum()
            texture = (free / (3 * detail[:, : self._free]))[:, unmeasured]
            loss = loss + _DETAIL_WEIGHT * texture.square().sum()
            luma = transform.planes_of(free[:, :1] * self._deviations[:1], COSINES)
            lengths = transform.gradient_lengths(luma)
            loss = loss + _GRADIENT_WEIGHT * 2 / _GRADIENT * lengths.sum()
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
        values = torch.cat([free.detach(), fixed], dim=1)
        values = self._with_contrast(values + values[:, :1] * slopes, start)
        return np.asarray((values * self._deviations).numpy())

    def _with_contrast(self, values: Tensor, start: Tensor) -> Tensor:
        """Images of the brightness and the colour of their start, and of no less contrast."""
        weights = self._deviations * self._own
        weights[:, 0, 0] = 0
        goal, image = (
            (one * weights).square().sum(dim=(1, 2, 3), keepdim=True) for one in (start, values)
        )
        ratio = torch.sqrt(goal / image.clamp(min=_LEAST_DETAIL**2))
        values = values * ratio.clamp(1, _MOST_CONTRAST)
        mean = self._own[:, 0, 0]
        values[:, mean, 0, 0] = start[:, mean, 0, 0]
        return values

    def _slopes(self, start: Tensor) -> Tensor:
        """The multiple of luma in what is not measured of chroma: (n, c, COSINES, COSINES).

        It is the one where both are measured, and 0 of luma itself.
        """
        both = self._measured[:1] & self._measured
        both[:, 0, 0] = False
        luma = start[:, :1] * both
        products = (luma * start).sum(dim=(2, 3))
        slopes = products / (luma.square().sum(dim=(2, 3)) + _CHROMA_RIDGE)
        slopes[:, 0] = 0
        return slopes[:, :, None, None] * ~self._measured

    def _begin(self, goal: Tensor, detail: Tensor, seeds: Seeds) -> Tensor:
        """The wanted cosines with a random texture above them, over public deviations."""
        shape = (self._channels, COSINES, COSINES)
        noise = [np.random.default_rng(int(seed)).standard_normal(shape) for seed in seeds]
        start = detail * torch.from_numpy(np.stack(noise).astype(np.float32))
        start[:, 1:] *= _OWN_CHROMA
        flat = start.reshape(len(start), -1)
        every = torch.cat([goal, self._common.expand(len(goal), -1)], dim=1)
        flat[:, self._cosines] = every[:, self._cosine_targets]
        return flat.reshape(len(start), *shape)

    def _embeddings(self, values: Tensor) -> Tensor:
        """Numbers and others of (n, c, COSINES, COSINES) values over public deviations."""
        parts = [values.flatten(1)[:, self._cosines]]
        scaled = values * self._deviations
        matrix, offset = self._luma
        parts.append(transform.luma_features(scaled) @ matrix - offset)
        if self._chroma is not None:
            matrix, offset = self._chroma
            parts.append(transform.chroma_energies(scaled) @ matrix - offset)
        return torch.cat(parts, dim=1)[:, self._place]


def _mask_of(index: Tensor, shape: Shape) -> Tensor:
    mask = torch.zeros(shape, dtype=torch.bool)
    mask.view(-1)[index] = True
    return mask


def _axes_of(energies: _PublicEnergies, columns: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    matrix = np.ascontiguousarray(energies.matrix[:, columns], dtype=np.float32)
    offset = np.ascontiguousarray(energies.offset[columns], dtype=np.float32)
    return torch.from_numpy(matrix), torch.from_numpy(offset)


def energies_encoder(shape: Shape, options: dict[str, Any]) -> EnergyEncoder:
    """The encoder for images of a shape."""
    read_options(options, EnergyOptions, name=ENERGY_NAME)
    return EnergyEncoder(shape)


def energies_decoder(shape: Shape, encoder: Any, options: dict[str, Any]) -> EnergyDecoder:
    """The decoder for images of a shape."""
    read_options(options, EnergyOptions, name=ENERGY_NAME)
    if encoder is not None and not isinstance(encoder, EnergyEncoder):
        raise BackendError(
            f"{ENERGY_NAME} decodes its own embeddings only, found those of {encoder.name}"
        )
    return EnergyDecoder(shape)
