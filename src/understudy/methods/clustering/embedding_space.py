"""The space where statistics are taken: from a vault of images into it, and the way back."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Embeddings, Shape, Stage, Vector
from understudy.methods import dp_estimators
from understudy.methods.base import Context, Materials, planned
from understudy.methods.clustering.params import MATRIX_DIM, ClusteringParams
from understudy.privacy.cells import Cells
from understudy.steps import histogram, shrinkage
from understudy.steps.grid import GridSpace, description_length
from understudy.steps.row_arithmetic import spread_batches
from understudy.steps.space import Leading, Space, Sphere, whitening

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

_PUBLIC_SAMPLES = 8192  # are looked at, at most
_EDGES = np.geomspace(1e-4, 1e6, 200)  # of norms whose scale is unknown: steps of 12 %
_IMAGE_COMPONENTS = 400
_EMBEDDING_COMPONENTS = 256
_WIDE_COMPONENTS = 512  # a classifier reads more directions than a class's covariance has use for
_DESCRIPTION_RADIUS = 3.0  # that descriptions are clipped at for their centre, over sqrt(d)
_GRID_LEVEL = 0.8  # of descriptions lie nearer to their centre than they are clipped at
_OUTSIDE = np.float32(2.0)  # times what public embeddings have outside of the kept directions


@dataclass(frozen=True)
class SpaceSettings:
    """What is decided about the space from public facts."""

    total: int  # D, the length of an embedding
    dim: int  # d, the dimensions that statistics are taken in
    whiten: bool  # by public images
    bound: float | None  # on norms in the space, that is known without looking; None: ask
    images: bool  # are released
    grid: Shape | None = None  # of latents whose descriptions are the space; None: a linear one
    ordered: bool = False  # by importance: by the encoder's word, or by public variance

    @classmethod
    def of(cls, context: Context, params: ClusteringParams) -> SpaceSettings:
        """Decide, by settled parameters.

        Raises:
            ConfigError: More dimensions than a full covariance can be measured in.
        """
        encoder, components = context.encoder, params.components
        images = context.decoder is not None
        total = int(context.shape[0]) if encoder is None else encoder.dim
        if (grid := params.grid(context)) is not None:
            dim = description_length(grid)
            return cls(total, dim, True, _DESCRIPTION_RADIUS * dim**0.5, True, grid)
        public = context.public and bool(params.whiten)
        ordered = public or (encoder is not None and encoder.ordered)
        if components is None and params.matrix and ordered:
            components = _WIDE_COMPONENTS if params.wide(context) else _EMBEDDING_COMPONENTS
            components = _IMAGE_COMPONENTS if images else components
        if components is not None and components < total and not ordered:
            raise ConfigError(
                f"components={components} needs --public images to choose the directions by: the "
                f"{total} dimensions of this encoder come in no order"
            )
        dim = total if components is None else min(components, total)
        if params.matrix and dim > MATRIX_DIM:
            raise ConfigError(
                f"a full covariance of {dim} dimensions is more than {MATRIX_DIM}: name --public "
                "data and --set components=256, or take --set covariance=diagonal"
            )
        bound = None if encoder is None or public else encoder.norm_bound
        return cls(total, dim, public, bound, images, ordered=ordered)

    @property
    def selective(self) -> bool:
        """Whether few axes are kept: of images in a linear space, most say next to nothing."""
        return self.images and self.grid is None


@dataclass(frozen=True)
class SpaceStages:
    """The releases that bring the records into the space."""

    scale: Stage | None  # a distance from the centre that most records stay below
    centre: Stage | None  # the mean of all records
    radii: Stage | None  # how far records lie from the centre, for the way back from a sphere
    spread: Stage | None  # how far records lie from their class's mean: the clipping radius

    @classmethod
    def of(cls, settings: SpaceSettings, params: ClusteringParams) -> SpaceStages:
        """What has to be asked: a bound on the norms that is known is not."""
        bounded = settings.bound is not None
        if params.normalise:
            scale = None if bounded else Stage("scale", 1.0)
            return cls(scale, Stage("centre", 2.0), Stage("radii", 1.0), None)
        centre = Stage("centre", 1.0) if bounded else None
        return cls(Stage("scale", 1.0), centre, None, Stage("spread", 2.0))


@dataclass(frozen=True)
class EmbeddingSpace:
    """A vault in the space where statistics are taken."""

    vault: Vault
    settings: SpaceSettings
    classes: int
    radius: float  # where norms are clipped
    coordinates: Space | Leading | GridSpace  # between embeddings and the space
    centre: Vector  # (d,) that differences of records are clipped about
    sphere: Sphere | None = None  # that records are projected on
    radii: tuple[Vector, Vector] | None = None  # a histogram of distances to the sphere's centre

    def residual_radius(self, centres: Vector, stage: Stage | None) -> float:
        """Where the difference of a record to its class's centre is clipped: 1 on a sphere."""
        if stage is None:
            return 1.0
        edges = np.geomspace(1e-3, 1.0, 100) * self.radius
        weights = dp_estimators.norm_histogram(self.vault, Cells(centres[:, None]), edges, stage)
        return histogram.quantile(weights, edges, 0.8)

    def forward(self, embeddings: Embeddings) -> NDArray[Any]:
        """Public embeddings (n, D) into the space, (n, d)."""
        values = self.coordinates.forward(embeddings)
        return values if self.sphere is None else self.sphere.forward(values)

    def backward(self, points: Vector, rng: np.random.Generator | None) -> Embeddings:
        """Points (n, d) to embeddings (n, D); without ``rng`` less what statistics leave out."""
        if self.sphere is not None and self.radii is not None and rng is not None:
            distances = histogram.draw(*self.radii, len(points), rng)
            points = self.sphere.backward(points, distances)
        return np.asarray(self.coordinates.backward(points, rng), dtype=np.float32)


def embed(
    materials: Materials, settings: SpaceSettings, stages: SpaceStages, *, conditional: bool
) -> EmbeddingSpace:
    """Embed the private records, change space, and project on a sphere if asked.

    Releases: with ``normalise`` a centre and the distances to it; otherwise the scale of the norms,
    about a centre where a bound on the norms is known.
    """
    encoder, vault = materials.encoder, materials.vault
    coordinates = _coordinates(materials, settings)
    if encoder is None:
        vault = vault.embedded().view(coordinates.forward)
    else:  # a change of space takes longer to make than to read again
        vault = vault.map(lambda images: coordinates.forward(encoder.encode(images)))
    classes = max(1, len(materials.classes)) if conditional else 1
    if not conditional:
        vault = vault.unconditional()
    centre, radius = np.zeros(settings.dim), settings.bound
    if radius is None:
        radius = _scale(vault, centre, _EDGES, 0.9, stages.scale)
    elif stages.scale is not None:
        centre = _centre(vault, settings, radius, stages.centre)
        edges = np.geomspace(1e-3, 1.0, 60) * radius
        level = 0.95 if settings.grid is None else _GRID_LEVEL
        radius = min(radius, _scale(vault, centre, edges, level, stages.scale))
    space = EmbeddingSpace(vault, settings, classes, radius, coordinates, centre)
    if stages.centre is None or stages.radii is None:
        return space
    return _on_sphere(space, stages.centre, stages.radii)


def _mean_of_all(vault: Vault, dim: int, bound: float, stage: Stage | None) -> dp_estimators.Groups:
    origin = Cells(np.zeros((1, 1, dim)))
    return dp_estimators.group_means(vault.unconditional(), origin, bound, planned(stage))


def _centre(vault: Vault, settings: SpaceSettings, bound: float, stage: Stage | None) -> Vector:
    """The mean of all records, (d,), as far as it stands out: differences to it are shorter."""
    groups = _mean_of_all(vault, settings.dim, bound, stage)
    shrink = shrinkage.shrink_in_blocks if settings.ordered else shrinkage.shrink_to_zero
    return np.asarray(shrink(groups.means, groups.variances)[0])


def _coordinates(materials: Materials, settings: SpaceSettings) -> Space | Leading | GridSpace:
    if not settings.whiten or materials.public is None:
        return Leading(settings.total, settings.dim)
    encoder = materials.encoder
    batches = spread_batches(
        materials.public, _PUBLIC_SAMPLES, materials.progress, "embedding public samples"
    )
    parts = [values if encoder is None else encoder.encode(values) for values in batches]
    embeddings: NDArray[Any] = np.concatenate(parts)
    if settings.grid is not None:
        return GridSpace.of(embeddings, settings.grid)
    space = whitening(embeddings, None, settings.dim)
    return space if settings.images else replace(space, residuals=_OUTSIDE * space.residuals)


def _scale(vault: Vault, centre: Vector, edges: Vector, level: float, stage: Stage | None) -> float:
    """A distance from the centre that a ``level`` of all records stay below."""
    return histogram.quantile(_distances(vault, centre, edges, stage), edges, level)


def _distances(vault: Vault, centre: Vector, edges: Vector, stage: Stage | None) -> Vector:
    """A histogram of the distances of all records to the centre."""
    cells = Cells(centre[None, None])
    return dp_estimators.norm_histogram(vault.unconditional(), cells, edges, planned(stage))


def _on_sphere(space: EmbeddingSpace, centre_stage: Stage, radii_stage: Stage) -> EmbeddingSpace:
    """The same on the unit sphere about a DP centre of all records."""
    dim = space.settings.dim
    centre = _mean_of_all(space.vault, dim, space.radius, centre_stage).means[0]
    edges = np.geomspace(0.05, 5.0, 60) * space.radius
    radii, sphere = _distances(space.vault, centre, edges, radii_stage), Sphere(centre)
    return replace(
        space,
        vault=space.vault.view(sphere.forward),
        radius=1.0,
        centre=np.zeros(dim),
        sphere=sphere,
        radii=(radii, edges),
    )
