"""A Gaussian mixture for each class, in a space where statistics are cheap: Algorithm 1."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.one_ahead import one_ahead
from understudy.core.types import Labels, Release, Stage, SyntheticBatch, UnitCounts, Vector
from understudy.methods import dp_estimators
from understudy.methods.base import (
    UNLABELLED,
    Context,
    Expectation,
    Materials,
    NoiseOfStage,
)
from understudy.methods.clustering.capacity import (
    Carried,
    Shares,
    images_serve,
    mixture_expectations,
    own_directions,
)
from understudy.methods.clustering.covariance import Roots, covariance_roots, within_class_frame
from understudy.methods.clustering.embedding_space import (
    EmbeddingSpace,
    SpaceSettings,
    SpaceStages,
    embed,
)
from understudy.methods.clustering.params import NAME, ClusteringParams
from understudy.methods.clustering.sampling import Producer
from understudy.methods.clustering.vote_filter import FilterStages, filtered
from understudy.methods.dp_estimators import (
    Clusters,
    ClusterStages,
    KMeansStages,
    least_cluster,
)
from understudy.privacy.accounting import MAX_SIZE
from understudy.privacy.cells import Cells
from understudy.steps import shrinkage
from understudy.steps.gaussians import Mixture
from understudy.steps.shrinkage import CLEAR_DEVIATIONS, chance_ratio
from understudy.steps.space import Frame

_IMAGE_AXES = 16  # reckoned with in a plan, where noise decides how many are kept

_WEIGHTS = (20.0, 50.0, 28.0)
"""Of means, of the covariance within classes and of one for each class."""

_GRID_WEIGHTS = (50.0, 25.0, 19.0)
"""The same of descriptions, whose covariance is known in part from public ones."""


@dataclass(frozen=True)
class MixtureStages:
    """The releases, in their order (their weights: docs/methods/clustering.md)."""

    space: SpaceStages  # those of the space in which statistics are taken
    class_sizes: Stage  # how many records each class has; clusters only divide them
    units: Stage | None  # how many units there are, where one may be of several classes
    means: Stage  # the mean of each class
    covariance: Stage | None  # one covariance within classes, or its diagonal
    clusters: ClusterStages | None  # centres, counts and means of clusters, where there are several
    cluster_covariances: Stage | None  # the covariance of each cluster, or of each class
    votes: FilterStages  # votes for the samples
    gradients: tuple[Stage, ...] = ()  # of the classifier that says where classes end


@dataclass(frozen=True)
class FittedMixture:
    """What was released of the records, and the space that it is in."""

    space: EmbeddingSpace
    mixture: Mixture
    size: float  # noisy number of records
    shares: Shares  # what each class got


@dataclass(frozen=True)
class MixtureSampler:
    """Gaussian components of each class, over DP clusters of embeddings."""

    params: ClusteringParams  # settled
    context: Context

    reason: ClassVar[str] = (
        "a Gaussian mixture of each class, as in the paper: what is sampled from where no decoder "
        "searches for images, as embedded:energies does"
    )

    @cached_property
    def settings(self) -> SpaceSettings:
        """The space in which statistics are taken."""
        return SpaceSettings.of(self.context, self.params)

    @cached_property
    def stages(self) -> MixtureStages:
        """The releases."""
        params, clusters = self.params, None
        means, common, own = _WEIGHTS if self.settings.grid is None else _GRID_WEIGHTS
        several, separate = (params.clusters or 1) > 1, params.covariance != "tied"
        if several:
            kmeans = KMeansStages.of(2, votes=4.0, lloyd=8.0)
            clusters = ClusterStages(kmeans, Stage("cluster means", 10.0))
            means, common, own = 12.0, 16.0 if params.matrix else 4.0, 40.0
        elif not separate:
            part = means / (means + common)
            means, common = means + part * own, common + (1 - part) * own
        return MixtureStages(
            SpaceStages.of(self.settings, params),
            Stage("class sizes", 4.0),
            dp_estimators.units_stage(self.context, params.class_count(self.context), 4.0),
            Stage("means", means),
            Stage("covariance", common) if several or params.matrix else None,
            clusters,
            Stage("cluster covariances", own) if several or separate else None,
            FilterStages.of(params.filter, 15.0),
        )

    def check(self) -> None:
        """Refuse what cannot give the samples that are asked for, before anything is charged."""
        params, dim = self.params, self.settings.dim
        if self.stages.votes.images is not None and self.context.decoder is None:
            raise ConfigError(
                "a filter of images needs a decoder, and this release is of embeddings alone: take "
                "filter=embeddings"
            )
        classes = params.class_count(self.context)
        several = {"class": classes, "full": classes * (params.clusters or 1)}
        matrices = several.get(params.covariance or "", 1)
        # Of images only axes that are clear of the noise are measured: how many is not known yet.
        if not self.settings.images and params.matrix and matrices * dim**2 // 2 > MAX_SIZE:
            raise ConfigError(
                f"{matrices:,} covariances of {dim} dimensions are more than the {MAX_SIZE:,} "
                "numbers that a run may release: take --set covariance=tied or diagonal, or fewer "
                "components. Nothing was spent"
            )

    def embed(self, materials: Materials) -> EmbeddingSpace:
        """Line 2: D_Embedding <- Encode(D), in the space where statistics are taken."""
        conditional = self.params.conditional
        return embed(materials, self.settings, self.stages.space, conditional=conditional)

    def fit(self, materials: Materials, space: EmbeddingSpace) -> FittedMixture:
        """Lines 3 to 8, about the DP means of the classes and along the axes within them."""
        params, stages, vault, dim = self.params, self.stages, space.vault, space.settings.dim
        sizes, size_sd = dp_estimators.class_sizes(vault, space.classes, dim, stages.class_sizes)
        units = dp_estimators.units(vault, sizes, dim, stages.units)
        means, common = self._class_means(space, sizes)
        frame = within_class_frame(
            space, means, sizes, units, params, stages.space.spread, stages.covariance
        )
        # 3: (c_j, n_j) <- DP-Cluster. 5: D_j <- the x nearest to c_j. 6: mu_j <- DP-Mean(D_j).
        local = vault.view(frame.forward)
        clusters = dp_estimators.clusters_of_classes(
            local,
            frame,
            frame.forward(means),
            sizes,
            params.clusters or 1,
            stages.clusters,
            np.random.default_rng(materials.seed),
        )
        # 7: Sigma_j <- DP-Covariance(D_j). 8: p_j <- n_j / sum n_j.
        lengths = space.settings.grid is not None
        stage = stages.cluster_covariances
        roots = covariance_roots(
            local, clusters, frame, params, stage, units=units, lengths=lengths
        )
        shares = Shares(
            materials.classes if space.classes > 1 else UNLABELLED,
            sizes,
            size_sd,
            own_mean=(means != common).any(axis=1) | (sizes >= sizes.sum() / 2),
            clusters=(clusters.sizes > 0).sum(axis=1),
            directions=roots.directions[roots.root_of].reshape(clusters.sizes.shape).max(axis=1),
        )
        return FittedMixture(space, _mixture(clusters, means, frame, roots), units, shares)

    def _class_means(self, space: EmbeddingSpace, sizes: Vector) -> tuple[Vector, Vector]:
        """DP means of the classes, (classes, d), and what one that is all noise becomes, (d,)."""
        origins = Cells(np.tile(space.centre, (space.classes, 1, 1)))
        released = dp_estimators.group_means(
            space.vault, origins, space.radius, self.stages.means, sizes
        )
        ordered = space.settings.selective and space.settings.ordered
        origin = space.centre if ordered else None
        means, noise = released.means, released.variances
        common = shrinkage.common_mean(means, noise, origin)
        return shrinkage.shrink_to_common(means, noise, origin), common

    def draw(self, materials: Materials, fitted: FittedMixture) -> Release:
        """Lines 9 to 17."""
        space, mixture = fitted.space, fitted.mixture
        producer = Producer(materials, space, mixture)
        count = materials.count or max(1, round(fitted.size))
        facts: dict[str, Any] = {"noisy_rows": round(fitted.size), "gaussians": len(mixture.means)}
        if self.stages.votes:
            batches, votes = filtered(
                producer, count, fitted.size, self.params.oversample, self.stages.votes
            )
            facts |= votes
        else:
            sizes = mixture.allot(count)
            if materials.per_class is not None:
                sizes = mixture.allot_classes(np.full(space.classes, materials.per_class))
            count, batches = int(sizes.sum()), partial(self.batches, producer, fitted, sizes)
        shape = None if materials.decoder is None else materials.decoder.shape
        dim = space.settings.total if shape is None else None
        classes = materials.classes if space.classes > 1 else UNLABELLED
        notes = [*facts.get("notes", ()), *fitted.shares.notes()]
        facts |= {**fitted.shares.facts(), "notes": notes}
        return Release(NAME, classes, count, batches, dim, shape, facts)

    def batches(
        self, producer: Producer, fitted: FittedMixture, sizes: Labels
    ) -> Iterator[SyntheticBatch]:
        """Lines 10 to 13: so many samples of each component, drawn as they are read."""
        rng, mixture = np.random.default_rng(producer.materials.seed), fitted.mixture
        blocks = (
            (first, mixture.noise(len(part), rng), part)
            for first, part in producer.blocks(sizes, rng)
        )
        for first, noise, part in one_ahead(blocks):
            points = mixture.samples(part, *noise)
            yield producer.finished("samples", first, points, part)

    def carried(self, noise: NoiseOfStage, size: float) -> Carried:
        """What a class of so many units can carry under the noise of a plan."""
        params, settings, stages, dim = self.params, self.settings, self.stages, self.settings.dim
        axes = min(dim, _IMAGE_AXES) if settings.selective and params.matrix else dim
        ordered = settings.selective and settings.ordered
        # Numbers in order are shrunk in blocks, of which the first, the most important, has 8.
        numbers, deviations = (min(dim, 8), CLEAR_DEVIATIONS) if ordered else (dim, 1.0)
        # sqrt(d chance_ratio(d, k)) noise / n <= 1 / 2, in units of the clipping radius
        mean_size = 2 * np.sqrt(numbers * chance_ratio(numbers, deviations)) * noise(stages.means)
        cluster_size, size_sd = np.inf, noise(stages.class_sizes)
        if stages.clusters is not None:
            cluster_size = least_cluster(noise(stages.clusters.means), axes)
        own = None if params.covariance == "tied" else stages.cluster_covariances
        clusters = int(np.clip(size // cluster_size, 1, params.clusters or 1))
        directions = 0
        if own is not None:
            directions = own_directions(size / noise(own), axes, diagonal=not params.matrix)
        capped, mean = directions == axes < dim, bool(size >= mean_size)
        serves = self.context.decoder is None or images_serve(size, self.context.mu)
        return Carried(size, size_sd, mean, clusters, directions, capped, serves)

    def expected(self, noise: NoiseOfStage, units: UnitCounts) -> tuple[Expectation, ...]:
        """What to expect of a release of so many units."""
        return mixture_expectations(self.context, self.carried(noise, units.of_class))


def _mixture(clusters: Clusters, centres: Vector, frame: Frame, roots: Roots) -> Mixture:
    """The mixture of the clusters that are no repetitions, in the space of the statistics."""
    alive, labels = clusters.alive, np.repeat(np.arange(len(centres)), clusters.sizes.shape[1])
    points = frame.backward(clusters.centres.reshape(len(labels), -1), centres[labels])
    weights = clusters.sizes.ravel() / clusters.sizes.sum()
    return Mixture(
        labels[alive],
        weights[alive],
        points[alive],
        frame.roots(roots.roots),
        roots.root_of[alive],
        frame.rest if frame.rest.size else None,
    )
