"""The space where statistics are taken: from a vault of images into it, and the way back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.ports import Source
from understudy.core.types import Embeddings, Shape, Stage, Vector
from understudy.methods import dp_estimators
from understudy.methods.base import Context, Materials, planned
from understudy.privacy.cells import Cells
from understudy.steps import histogram, shrinkage
from understudy.steps.grid import GridSpace, description_length
from understudy.steps.space import Leading, Space, Sphere, whitening

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

Coordinates = Space | Leading | GridSpace

_PUBLIC_SAMPLES = 8192  # are looked at, at most
_EDGES = np.geomspace(1e-4, 1e6, 200)  # of norms whose scale is unknown: steps of 12 %
_MATRIX_DIM = 1024  # a full covariance of more dimensions is refused or cut
_IMAGE_COMPONENTS = 400
_EMBEDDING_COMPONENTS = 256
_WIDE_COMPONENTS = 512
_REACH = 3.0  # that descriptions are clipped at for their centre, times the root of their length
_GRID_LEVEL = 0.8  # of descriptions lie nearer to their centre than they are clipped at
_OUTSIDE = np.float32(2.0)  # times what public embeddings have outside of the kept directions


@dataclass(frozen=True)
class SpaceSettings:
    """What is decided about the space from public facts.

    Attributes:
        total: D, the length of an embedding.
        dim: d, the dimensions that statistics are taken in.
        power: Signed power of the embeddings first; None: by the sign of public embeddings.
        whiten: Whether public images whiten the space.
        bound: A bound on norms in the space that is known without looking; None: ask.
        images: Whether images are released.
        grid: Shape of the latents whose descriptions are the space; None: a linear space.
        ordered: Whether the numbers of a linear space come in order of importance: by the encoder's
            word, or by their variance on public images.
    """

    total: int
    dim: int
    power: float | None
    whiten: bool
    bound: float | None
    images: bool
    grid: Shape | None = None
    ordered: bool = False

    @classmethod
    def of(
        cls,
        context: Context,
        power: float | None,
        components: int | None,
        *,
        matrix: bool,
        whiten: bool,
        wide: bool = False,
    ) -> SpaceSettings:
        """Decide.

        Args:
            context: The run's public facts.
            power: Of the parameters.
            components: Of the parameters; None: chosen.
            matrix: Whether a full covariance will be measured.
            whiten: Whether public images, where there are some, whiten the space.
            wide: Whether a classifier will say where classes end, which reads more directions than
                a covariance of a class has use for.

        Raises:
            ConfigError: More dimensions than a full covariance can be measured in.
        """
        encoder = context.encoder
        total = int(context.shape[0]) if encoder is None else encoder.dim
        grid = cls.grid_of(context, power, components)
        if grid is not None:
            dim = description_length(grid)
            return cls(total, dim, None, True, _REACH * dim**0.5, True, grid)
        public = context.public and whiten
        ordered = public or (encoder is not None and encoder.ordered)
        if components is None and matrix and ordered:
            embeddings = _WIDE_COMPONENTS if wide else _EMBEDDING_COMPONENTS
            components = _IMAGE_COMPONENTS if context.decoder is not None else embeddings
        if components is not None and components < total and not ordered:
            raise ConfigError(
                f"components={components} needs --public images to choose the directions by: the "
                f"{total} dimensions of this encoder come in no order"
            )
        dim = total if components is None else min(components, total)
        if matrix and dim > _MATRIX_DIM:
            raise ConfigError(
                f"a full covariance of {dim} dimensions is more than {_MATRIX_DIM}: give --public "
                "images and --set components=256, or take --set covariance=diagonal"
            )
        bound = None
        if encoder is not None and not public and power in (None, 1):
            bound = encoder.norm_bound
        images = context.decoder is not None
        return cls(total, dim, power, public, bound, images, ordered=ordered)

    @staticmethod
    def grid_of(context: Context, power: float | None, components: int | None) -> Shape | None:
        """Shape of the latents where their descriptions are the space.

        A power or a number of components that is asked for means the linear space.
        """
        return context.grid if power is None and components is None else None


@dataclass(frozen=True)
class SpaceStages:
    """The releases that bring the records into the space.

    Attributes:
        scale: A distance from the centre that most records stay below.
        centre: The mean of all records.
        radii: How far records lie from the centre, for the way back from a sphere.
        spread: How far records lie from their class's mean: the clipping radius.
    """

    scale: Stage | None
    centre: Stage | None
    radii: Stage | None
    spread: Stage | None

    @classmethod
    def of(
        cls, settings: SpaceSettings, *, normalise: bool, clip_radius: float | None
    ) -> SpaceStages:
        """What has to be asked: a bound on the norms that is known is not."""
        known = settings.bound is not None
        if normalise:
            scale = None if known else Stage("scale", 1.0)
            return cls(scale, Stage("centre", 2.0), Stage("radii", 1.0), None)
        return cls(
            Stage("scale", 1.0),
            Stage("centre", 1.0) if known else None,
            None,
            None if clip_radius else Stage("spread", 2.0),
        )


@dataclass(frozen=True)
class EmbeddingSpace:
    """A vault in the space where statistics are taken.

    Attributes:
        vault: The private records there.
        settings: What was decided.
        classes: Number of classes.
        radius: Where norms are clipped.
        coordinates: The way between embeddings and the space.
        sphere: The projection on the unit sphere, or None.
        radii: Weights of the distances to the sphere's centre, for the way back.
        edges: Of the bins of ``radii``.
        centre: (d,) that differences of records are clipped about.
    """

    vault: Vault
    settings: SpaceSettings
    classes: int
    radius: float
    coordinates: Coordinates
    sphere: Sphere | None
    radii: Vector | None
    edges: Vector
    centre: Vector

    @property
    def selective(self) -> bool:
        """Whether few axes are kept: of images in a linear space, most say next to nothing."""
        return self.settings.images and self.settings.grid is None

    @property
    def ordered(self) -> bool:
        """Whether the coordinates of images come in order of importance."""
        return self.selective and self.settings.ordered

    @property
    def origin(self) -> Vector:
        """(classes, 1, d): the cells of whole classes, about the centre of all records."""
        return np.tile(self.centre, (self.classes, 1, 1))

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
        """Points of the space (n, d) back to embeddings (n, D).

        Without ``rng`` what statistics say nothing of is left out: (``Space.backward``).
        """
        if self.sphere is not None and self.radii is not None and rng is not None:
            distances = histogram.draw(self.radii, self.edges, len(points), rng)
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
    space = EmbeddingSpace(
        vault, settings, classes, radius, coordinates, None, None, _EDGES, centre
    )
    if stages.centre is None or stages.radii is None:
        return space
    return _on_sphere(space, stages.centre, stages.radii)


def _centre(vault: Vault, settings: SpaceSettings, bound: float, stage: Stage | None) -> Vector:
    """The mean of all records, (d,), as far as it stands out of the noise.

    Differences to it are shorter than the embeddings.
    """
    origin = Cells(np.zeros((1, 1, settings.dim)))
    groups = dp_estimators.group_means(vault.unconditional(), origin, bound, planned(stage))
    shrink = shrinkage.shrink_in_blocks if settings.ordered else shrinkage.shrink_to_zero
    return np.asarray(shrink(groups.means, groups.variances)[0])


def _coordinates(materials: Materials, settings: SpaceSettings) -> Coordinates:
    if not settings.whiten or materials.public is None:
        return Leading(settings.total, settings.dim, settings.power or 1.0)
    embeddings: list[NDArray[Any]] = []
    for values in _public_batches(materials, materials.public):
        embeddings.append(values if materials.encoder is None else materials.encoder.encode(values))
    if settings.grid is not None:
        return GridSpace.of(np.concatenate(embeddings), settings.grid)
    space = whitening(np.concatenate(embeddings), settings.power, settings.dim)
    if settings.images:
        return space
    return replace(space, residuals=_OUTSIDE * space.residuals)


def _public_batches(materials: Materials, public: Source) -> Iterator[NDArray[Any]]:
    """Values of a public dataset, batch by batch.

    Of more than `_PUBLIC_SAMPLES` rows so many are taken, evenly spread: they may lie class by
    class.
    """
    count, first, most = len(public), 0, _PUBLIC_SAMPLES
    bar = materials.progress("embedding public samples", min(most, count))
    for batch in public.batches(256):
        rows = np.arange(first, first + len(batch.labels))
        values = batch.values[rows * most // count < (rows + 1) * most // count]
        if len(values):
            yield values
            bar(len(values))
        first += len(rows)


def _scale(vault: Vault, centre: Vector, edges: Vector, level: float, stage: Stage | None) -> float:
    """A distance from the centre that a ``level`` of all records stay below."""
    cells = Cells(centre[None, None])
    everyone = vault.unconditional()
    weights = dp_estimators.norm_histogram(everyone, cells, edges, planned(stage))
    return histogram.quantile(weights, edges, level)


def _on_sphere(space: EmbeddingSpace, centre_stage: Stage, radii_stage: Stage) -> EmbeddingSpace:
    """The same on the unit sphere about a DP centre of all records."""
    everyone = space.vault.unconditional()
    origin = Cells(np.zeros((1, 1, space.settings.dim)))
    centre = dp_estimators.group_means(everyone, origin, space.radius, centre_stage).means[0]
    edges = np.geomspace(0.05, 5.0, 60) * space.radius
    cells = Cells(centre[None, None])
    radii = dp_estimators.norm_histogram(everyone, cells, edges, radii_stage)
    sphere = Sphere(centre)
    return EmbeddingSpace(
        space.vault.view(sphere.forward),
        space.settings,
        space.classes,
        1.0,
        space.coordinates,
        sphere,
        radii,
        edges,
        np.zeros(space.settings.dim),
    )
