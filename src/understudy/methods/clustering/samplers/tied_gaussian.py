"""One Gaussian a class with a covariance that they share, for images that nothing public is like.

A few hundred records of a class pay for a mean, for their part of one covariance, and for no more.
So they are taken of numbers that say much of any image (`BlockEncoder`), each block over its
released size; means are shrunk by the noise in them, and of the covariance only what stands out of
the noise is kept; classes of many records have their own along its leading axes. Of all other
numbers the mean of all records is released, and samples have it roughly. Where these come from, and
what was measured: docs/methods/clustering-samplers.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache, partial
from typing import TYPE_CHECKING

import numpy as np

from understudy.core.independence import Projection, row_squares
from understudy.core.matching import NUMBERS_MEASURED, BlockEncoder, Layout, MatchingDecoder
from understudy.core.types import (
    Images,
    Labels,
    LinearClassifier,
    Release,
    Stage,
    SyntheticBatch,
    UnitCounts,
    Vector,
)
from understudy.methods import dp_estimators
from understudy.methods.base import Context, Expectation, Materials, NoiseOfStage
from understudy.methods.clustering import capacity
from understudy.methods.clustering.params import NAME, ClusteringParams
from understudy.privacy.block_queries import BlockSizes
from understudy.privacy.cells import Cells, ScaledCells
from understudy.privacy.queries import ClippedSums, Counts, FullMoments
from understudy.steps.shrinkage import (
    ClassShapes,
    SpikedCovariance,
    axes_of_classes,
    shrink_in_parts,
    shrink_to_average,
    shrink_to_neighbours,
    shrink_to_prior,
    variance_of_lengths,
)

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

LEAST_DIM, MOST_DIM = 24, 256

_CLIP = 0.75  # of the root of the number of dimensions: most records are clipped, and noise is less
_OTHERS_CLIP = 0.6  # of the same, for numbers that are known in the mean of all records alone
_SMALLEST_BLOCK, _LARGEST_BLOCK = 0.03, 2.0  # sizes of a block, over that of public images
_NARROWEST, _WIDEST = 0.1, 4.0  # widths of a class, over that of all records
_USUAL_VARIANCE, _ITS_DEVIATION = 0.05, 0.05  # of the logarithm of a record's width, in public sets
_MOST_VARIANCE = 0.5  # of the same
_LEAST_CHROMA = 0.05  # of the deviation of public photos' chroma: an image of less is grey
_LEAST_COLOURED = 0.25  # of the records: where fewer have colour, samples have none
_LEAST_CLASS = 8.0  # what sums of a class are divided by at least
_MEAN_SPAN = 9  # neighbouring numbers, whose variance between classes is averaged
_NOISES = 2.0  # deviations of the noise, that a discriminant adds to each variance
_ROUNDS = 30  # of draws again, of points that the discriminant gives another class
_LEAST_MISS = 0.3  # of the deviation of public images: what a number's target may be missed by
_DECODED = 512  # samples that are drawn together


@dataclass(frozen=True)
class TiedGaussianStages:
    """The releases, in their order, with their shares of the budget."""

    class_sizes: Stage = Stage("class sizes", 4.0)  # how many records each class has
    units: Stage | None = None  # how many units there are, where one may be of several classes
    centre: Stage = Stage("centre", 5.0)  # the mean of all records
    block_sizes: Stage = Stage("block sizes", 4.0)  # how much records vary in each block of numbers
    distances: Stage = Stage("distances of classes", 2.0)  # of the records, to the centre
    means: Stage = Stage("means", 50.0)  # the mean of each class
    widths: Stage = Stage("widths of classes", 4.0)  # distances to the class's mean, in each block
    covariance: Stage = Stage("covariance", 18.0)  # the covariance within classes
    class_covariances: Stage = Stage("covariances of classes", 9.0)  # or of all again
    others: Stage = Stage("other numbers", 4.0)  # the mean of all records, of all other numbers


def unexplained_part(dim: int) -> float:
    """The part of the deviations that no direction explains, which samples vary by: 3/4 to 1.

    What is left of many numbers varies together in records, and by itself in samples.
    """
    return min(1.0, 1.25 - dim / 512)


def dimensions(mu: float, units: float, size: float) -> int:
    """How many numbers are measured of ``units`` records, ``size`` of a class (DP).

    As many as the budget pays for. The noise in the covariance's eigenvalues grows with
    d^(3/2) / (mu units), that in a mean with sqrt(d) / (mu size); the factors were chosen on sets
    of photographs and drawings.
    """
    covariance = (1.9 * mu * units) ** (2 / 3)
    means = (0.213 * mu * size) ** 2
    return int(max(LEAST_DIM, min(MOST_DIM, covariance, means)))


@dataclass(frozen=True)
class TiedGaussian:
    """Class means and the covariance they share, released: everything here is public."""

    layout: Layout  # which numbers of an embedding they are of
    units: float  # released
    sizes: Vector  # (classes,) released class sizes
    size_sd: float  # of the noise in each
    means: Vector  # (classes, d)
    block_sizes: Vector  # (blocks,) deviation within classes, over that of public images
    widths: Vector  # (classes, blocks) how much wider than that a class is
    spreads: Vector  # (classes,) deviation of the logarithm of a record's own width
    root: Vector  # (d, d) a square root of the covariance that samples are drawn with
    shapes: ClassShapes  # how the covariances of classes differ from it
    covariance: Vector  # (d, d) of the records, variances raised by the noise in them
    pooled: Vector  # (d, d) the mean of the classes' covariances, raised likewise
    others: Layout  # which other numbers are known in the mean of all records
    common: Vector  # (others,) that mean

    @cached_property
    def weights(self) -> tuple[Vector, Vector]:
        """(d, classes) and (classes,) of the linear discriminant (Fisher 1936), classes alike."""
        weights = np.asarray(np.linalg.solve(self.pooled, self.means.T), dtype=np.float64)
        return weights, np.asarray(-0.5 * (self.means * weights.T).sum(axis=1))

    def labels_of(self, points: Vector) -> Labels:
        """The class that the discriminant gives each point: (n, d) to (n,)."""
        weights, bias = self.weights
        return np.asarray((points @ weights + bias).argmax(axis=1))

    def classifier(self, dim: int) -> LinearClassifier:
        """The discriminant as a classifier of whole embeddings, (n, dim)."""
        weights, bias = self.weights
        full = np.zeros((dim, len(bias)))
        full[self.layout.columns] = weights
        return LinearClassifier(full, bias)

    @property
    def metric(self) -> Vector:
        """(d, d): the Mahalanobis distance of the covariance, and of a little of public images'.

        Else a search would attend to numbers that are the same in all images, and hardly to those
        that tell classes apart.
        """
        values, axes = np.linalg.eigh(self.covariance)
        return np.asarray((axes / np.sqrt(np.maximum(values, 0) + _LEAST_MISS**2)).T)

    def draw(self, labels: Labels, rng: np.random.Generator) -> tuple[Vector, Vector]:
        """A point of each class, (n, d), and its widths, (n, blocks).

        Points are of scale mixtures of Gaussians (Andrews and Mallows 1974), and drawn again in
        some rounds while the discriminant gives them another class.
        """
        points = np.empty((len(labels), self.layout.dim))
        own = np.exp(self.spreads[labels] * rng.standard_normal(len(labels)))
        widths = self.widths[labels] * own[:, None]
        of_columns = widths[:, self.layout.block_of_column]
        left = np.arange(len(labels))
        for _ in range(_ROUNDS):
            noise = rng.standard_normal((len(left), self.layout.dim)) @ self.root.T
            noise = self.shapes.turned(of_columns[left] * noise, labels[left])
            points[left] = self.means[labels[left]] + noise
            left = left[self.labels_of(points[left]) != labels[left]]
        return points, widths


def measured(
    vault: Vault, encoder: BlockEncoder, classes: int, mu: float, stages: TiedGaussianStages
) -> TiedGaussian:
    """Release the statistics of whole embeddings, and make of them what they say."""
    released, size_sd, colour = _class_sizes(vault, encoder, classes, stages.class_sizes)
    units = dp_estimators.units(vault, released, encoder.dim, stages.units)
    sizes = np.maximum(released, _LEAST_CLASS)
    layout = encoder.layout(dimensions(mu, units, float(sizes.mean())), colour=colour)
    numbers = vault.view(lambda rows: rows[:, layout.columns])
    centre, centre_variance = _centre(numbers, layout, units, stages.centre)
    block_sizes = _block_sizes(numbers, centre, layout, units, stages.block_sizes)
    noise = np.minimum(centre_variance, 0.9 * block_sizes**2)
    block_sizes = np.sqrt(np.maximum(block_sizes**2 - noise, 1e-4))
    scales = block_sizes[layout.block_of_column]
    standard = numbers.view(lambda rows: (rows - centre) / scales)
    distances = _distances(standard, classes, layout.dim, sizes, stages.distances)
    means = _class_means(standard, layout, sizes, distances, stages.means)
    widths, variances = _widths(standard, means, layout, sizes, stages.widths)
    cells = ScaledCells(means[:, None], widths[:, layout.block_of_column])
    rank = axes_of_classes(mu * units / classes) if classes > 1 else 0
    of_all = (stages.covariance,) if rank else (stages.covariance, stages.class_covariances)
    model = _covariance(standard, layout, cells, units, of_all)
    usual = np.exp(sizes / sizes.sum() @ np.log(widths))
    unclipped = (scales * usual[layout.block_of_column] / _CLIP)[:, None]
    full = unclipped * model.root(noises=_NOISES)
    root = unclipped * model.root(unexplained_part(layout.dim))
    lengths = variance_of_lengths(root / unclipped, layout.blocks)
    means, widths = centre + means * scales, widths / usual
    shapes = ClassShapes.along(root, widths[:, layout.block_of_column], min(rank, layout.dim))
    if rank:
        shapes = _class_shapes(numbers, shapes, means, stages.class_covariances)
    others = encoder.layout(encoder.dim, colour=False).without(layout)
    others, common = _common_mean(vault, others, units, stages.others)
    return TiedGaussian(
        layout,
        units,
        released,
        size_sd,
        means,
        block_sizes * usual,
        widths,
        np.sqrt(np.maximum(variances - lengths, 0.0)),
        root,
        shapes,
        full @ full.T,
        shapes.pooled(full, widths[:, layout.block_of_column]),
        others,
        common,
    )


def _class_sizes(
    vault: Vault, encoder: BlockEncoder, classes: int, stage: Stage
) -> tuple[Vector, float, bool]:
    """Sizes of the classes, (classes,), the noise's deviation, and whether records have colour.

    Where an encoder has numbers of colour, the records of a class are counted in two cells, those
    without colour and the others, which costs no more.
    """
    layout = encoder.layout(MOST_DIM)
    if layout.colours is None:
        return *dp_estimators.class_sizes(vault, classes, encoder.dim, stage), False
    chroma = layout.columns[layout.blocks[layout.colours]]
    least = len(chroma) * _LEAST_CHROMA**2
    coloured = vault.view(lambda rows: (row_squares(rows[:, chroma]) > least)[:, None] * 1.0)
    query = Counts(Cells(np.tile([[0.0], [1.0]], (classes, 1, 1))))
    counts = np.reshape(coloured.release(query, stage=stage.name), (classes, 2))
    size_sd = vault.noise_sd(query, stage=stage.name)
    totals = counts.sum(axis=0)
    counted = totals > dp_estimators.CLEAR * np.sqrt(classes) * size_sd
    counted |= totals == totals.max()
    size_sd *= float(np.sqrt(counted.sum()))
    sizes = dp_estimators.likely_sizes(counts[:, counted].sum(axis=1), size_sd)
    return sizes, size_sd, bool(totals[1] >= _LEAST_COLOURED * sizes.sum())


def _centre(
    vault: Vault, layout: Layout, size: float, stage: Stage, clip: float = 1.0
) -> tuple[Vector, float]:
    """The mean of all records, (d,), as far as each block stands out; and its noise's variance."""
    query = ClippedSums(Cells(np.zeros((1, 1, layout.dim))), clip * np.sqrt(layout.dim))
    everyone = vault.unconditional()
    centre = everyone.release(query, stage=stage.name)[0] / size
    variance = (vault.noise_sd(query, stage=stage.name) / size) ** 2
    for block in layout.blocks:
        part = centre[block]
        part *= max(0.0, 1 - len(part) * variance / max(float(part @ part), 1e-12))
    return centre, variance


def _common_mean(vault: Vault, others: Layout, size: float, stage: Stage) -> tuple[Layout, Vector]:
    """The mean of other numbers over all records, of the blocks that are signal by half or more."""
    if not others.dim:
        return others, np.zeros(0)
    numbers = vault.view(lambda rows: rows[:, others.columns])
    common, variance = _centre(numbers, others, size, stage, _OTHERS_CLIP)
    parts = [(others.columns[block], common[block]) for block in others.blocks]
    # Of d numbers that are shrunk by a half, the squares come to d variance / 2.
    layout = Layout.of([own for own, mean in parts if mean @ mean >= len(mean) * variance / 2])
    return layout, common[np.isin(others.columns, layout.columns)]


def _block_sizes(vault: Vault, centre: Vector, layout: Layout, size: float, stage: Stage) -> Vector:
    """The usual deviation of a record from the centre in each block, (blocks,)."""
    cells = Cells(centre[None, None])
    query = BlockSizes(cells, layout.blocks, _SMALLEST_BLOCK, _LARGEST_BLOCK)
    answer = vault.unconditional().release(query, stage=stage.name)
    return np.asarray(np.exp(query.logarithms(answer, np.array([size]))[0]))


def _distances(vault: Vault, classes: int, dim: int, sizes: Vector, stage: Stage) -> Vector:
    """The usual size of a class's records, in all numbers: (classes,)."""
    cells = Cells(np.zeros((classes, 1, dim)))
    query = BlockSizes(cells, (slice(0, dim),), _NARROWEST, _WIDEST)
    _, logarithms, noise = _released_logarithms(vault, query, sizes, stage)
    return np.asarray(np.exp(shrink_to_average(logarithms[:, 0], noise, sizes)))


def _released_logarithms(
    vault: Vault, query: BlockSizes, sizes: Vector, stage: Stage
) -> tuple[Vector, Vector, Vector]:
    """An answer, the logarithms in it (classes, blocks), and the noise's variance in a class's."""
    answer = vault.release(query, stage=stage.name)
    noise = (vault.noise_sd(query, stage=stage.name) / sizes) ** 2
    return answer, query.logarithms(answer, sizes), noise


def _widths(
    vault: Vault, means: Vector, layout: Layout, sizes: Vector, stage: Stage
) -> tuple[Vector, Vector]:
    """How far a class's records usually are from its mean (classes, d), in each block of numbers.

    And how much that differs from record to record: the variance of a record's logarithm, averaged
    over the blocks. (classes, blocks) and (classes,).
    """
    blocks = len(layout.blocks)
    query = BlockSizes(Cells(means[:, None]), layout.blocks, _NARROWEST, _WIDEST, common=True)
    answer, logarithms, noise = _released_logarithms(vault, query, sizes, stage)
    widths = shrink_in_parts(logarithms, noise, sizes)
    variances = query.variances(answer, sizes) + noise / blocks
    noise = noise * (1 + 4 * (logarithms.mean(axis=1) - query.middle) ** 2 / blocks)
    variances = shrink_to_prior(variances, noise, sizes, _USUAL_VARIANCE, _ITS_DEVIATION)
    return np.exp(widths), np.clip(variances, 0, _MOST_VARIANCE)


def _class_means(
    vault: Vault, layout: Layout, sizes: Vector, widths: Vector, stage: Stage
) -> Vector:
    """Means of the classes, (classes, d), in standard units.

    Each number is shrunk to the mean of all classes by Wiener's factor, with the variance between
    classes averaged over neighbouring numbers; what clipping had shortened is made up for.
    """
    classes, total = len(sizes), sizes.sum()
    cells = ScaledCells(np.zeros((classes, 1, layout.dim)), widths[:, None])
    query = ClippedSums(cells, _CLIP * np.sqrt(layout.dim))
    sums = widths[:, None] * vault.release(query, stage=stage.name)
    noise = (widths * vault.noise_sd(query, stage=stage.name) / sizes) ** 2
    common = sums.sum(axis=0) / total
    own = sums / sizes[:, None] - common
    own = shrink_to_neighbours(own, noise, sizes / total, layout.blocks, _MEAN_SPAN)
    return np.asarray((common + own) / _CLIP)


def _covariance(
    vault: Vault, layout: Layout, cells: Cells, size: float, stages: Sequence[Stage]
) -> SpikedCovariance:
    """The covariance about the class means in standard units, as far as it is clear of noise."""
    query = FullMoments(cells, _CLIP * np.sqrt(layout.dim), np.zeros(cells.count, np.int64))
    weights = np.array([vault.noise_sd(query, stage=stage.name) ** -2 for stage in stages])
    sums = [query.matrices(vault.release(query, stage=stage.name))[0] for stage in stages]
    matrix = np.tensordot(weights / weights.sum(), sums, axes=1) / size
    return SpikedCovariance.of(matrix, layout.block_of_column, weights.sum() ** -0.5 / size)


def _class_shapes(numbers: Vault, shapes: ClassShapes, means: Vector, stage: Stage) -> ClassShapes:
    """How covariances of classes differ, by directions of records: widths say how long they are."""
    centres = means @ shapes.coordinates.T
    widths = np.repeat(shapes.lengths[:, None], centres.shape[1], axis=1)
    cells, radius = ScaledCells(centres[:, None], widths), _CLIP * np.sqrt(centres.shape[1])
    query = FullMoments(cells, radius, np.arange(len(means)))
    along = numbers.view(Projection(shapes.coordinates.T))
    matrices = query.matrices(along.release(query, stage=stage.name))
    return shapes.measured(matrices, along.noise_sd(query, stage=stage.name))


@dataclass(frozen=True)
class TiedGaussianSampler:
    """One Gaussian a class, and images that are matched to its draws."""

    params: ClusteringParams
    context: Context
    encoder: BlockEncoder
    decoder: MatchingDecoder

    @property
    def stages(self) -> TiedGaussianStages:
        """The releases; where units may be of several classes, these are counted as well."""
        units = dp_estimators.units_stage(self.context, len(self.context.classes), 4.0)
        return TiedGaussianStages(units=units)

    @property
    def reason(self) -> str:
        """Why this sampler was chosen."""
        return (
            "one Gaussian a class, whose covariance classes of few records share: the numbers of "
            f"{self.encoder.name} lie in blocks, and {self.decoder.name} searches images by them"
        )

    def check(self) -> None:
        """Any run of these models will do."""

    def embed(self, materials: Materials) -> Vault:
        """Whole embeddings of the records."""
        return materials.vault.map(self.encoder.encode)

    def fit(self, materials: Materials, vault: Vault) -> TiedGaussian:
        """The released Gaussians."""
        return measured(vault, self.encoder, len(materials.classes), self.context.mu, self.stages)

    def draw(self, materials: Materials, gaussian: TiedGaussian) -> Release:
        """Images matched to draws of each class."""
        classes, sizes = materials.classes, gaussian.sizes
        counts = materials.class_sizes(sizes / sizes.sum(), gaussian.units)
        labels = np.repeat(np.arange(len(classes)), counts)
        labels = materials.rng_of("classes of samples").permutation(labels)
        facts = {
            "noisy_rows": round(gaussian.units),
            "gaussians": len(classes),
            NUMBERS_MEASURED: gaussian.layout.dim,
            **capacity.facts_of_sizes(classes, sizes, gaussian.size_sd),
        }
        return Release(
            NAME,
            classes,
            len(labels),
            partial(self._batches, materials, gaussian, labels),
            image_shape=self.decoder.shape,
            facts=facts,
            classifier=gaussian.classifier(self.encoder.dim) if len(classes) > 1 else None,
            settings={},  # which are all of a mixture
        )

    def _batches(
        self, materials: Materials, gaussian: TiedGaussian, labels: Labels
    ) -> Iterator[SyntheticBatch]:
        space = gaussian.layout, gaussian.metric, gaussian.block_sizes
        common = gaussian.others, gaussian.common

        @lru_cache(maxsize=1)
        def points_of(first: int, number: int) -> tuple[Vector, Vector]:
            rng = materials.rng_of(f"samples {first} round {number}")
            return gaussian.draw(labels[first : first + _DECODED], rng)

        def draw(first: int, start: int, rows: Labels, number: int, image: int) -> Images:
            samples = start + rows
            points, widths = (values[samples] for values in points_of(first, number))
            seeds = materials.seeds_of(f"samples round {number} image {image}", first + samples)
            targets = points.astype(np.float32)
            return self.decoder.match(targets, *space, widths, *common, seeds=seeds)

        # The last bit of a search depends on those beside it, which a filter puts together anew.
        size = _DECODED if materials.quality else min(_DECODED, self.decoder.at_once)
        for first in range(0, len(labels), _DECODED):
            block = labels[first : first + _DECODED]
            for start in range(0, len(block), size):
                part = block[start : start + size]
                images = materials.selected(len(part), partial(draw, first, start))
                yield SyntheticBatch(part, images=images)

    def carried(self, noise: NoiseOfStage, size: float) -> capacity.Carried:
        """What a class of so many units can carry, among others of its size."""
        stages, mu = self.stages, self.context.mu
        dim = dimensions(mu, size * len(self.context.classes), size)
        own_mean = 2 * _CLIP * np.sqrt(dim) * noise(stages.means) <= size
        sd, serves = noise(stages.class_sizes), capacity.images_serve(size, mu)
        return capacity.Carried(size, sd, bool(own_mean), 1, 0, serves=serves)

    def expected(self, noise: NoiseOfStage, units: UnitCounts) -> tuple[Expectation, ...]:
        """What to expect of a release of so many units."""
        classes, mu = len(self.context.classes), self.context.mu
        dim, size = dimensions(mu, units.total, units.of_class), units.of_class
        return (
            *capacity.few_units(size, mu, classifies=classes > 1),
            capacity.detail_of_numbers(dim, MOST_DIM),
            capacity.difference_of_classes(dim, noise(self.stages.means), size),
        )
