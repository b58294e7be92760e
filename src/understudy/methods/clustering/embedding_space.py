"""From a vault of images to a vault in the space where statistics are taken, and the way back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Embeddings, Vector
from understudy.methods import dp_estimators
from understudy.methods.base import Materials
from understudy.methods.clustering.entry import Entry
from understudy.privacy.cells import Cells
from understudy.privacy.vault import Vault
from understudy.steps import histogram, shrinkage
from understudy.steps.grid import GridSpace
from understudy.steps.space import Leading, Space, Sphere, whitening

PUBLIC_ROWS = 8192
"""At most so many public rows are looked at."""

_EDGES = np.geomspace(1e-4, 1e6, 200)  # of norms whose scale nobody knows: steps of 12 %


@dataclass(frozen=True)
class Entered:
    """A vault in the space where statistics are taken.

    Attributes:
        vault: The private rows there.
        entry: What was decided.
        classes: Number of classes.
        radius: Where norms are clipped.
        space: The way between embeddings and the space.
        sphere: The projection on the unit sphere, or None.
        radii: Weights of the distances to the sphere's centre, for the way back.
        edges: Of the bins of ``radii``.
        centre: (d,) that differences of rows are clipped about.
    """

    vault: Vault
    entry: Entry
    classes: int
    radius: float
    space: Space | Leading | GridSpace
    sphere: Sphere | None
    radii: Vector | None
    edges: Vector
    centre: Vector

    @property
    def selective(self) -> bool:
        """Whether few axes are kept: of images in a linear space, most say next to nothing."""
        return self.entry.images and self.entry.grid is None

    @property
    def ordered(self) -> bool:
        """Whether the coordinates of images come in order of importance."""
        return self.selective and self.entry.ordered

    @property
    def origin(self) -> Vector:
        """(classes, 1, d): the cells of whole classes, about the centre of all rows."""
        return np.tile(self.centre, (self.classes, 1, 1))

    def residual_radius(self, centres: Vector) -> float:
        """Where the difference of a row to its class's centre is clipped."""
        if self.sphere is not None:
            return 1.0
        edges = np.geomspace(1e-3, 1.0, 100) * self.radius
        found = dp_estimators.norm_histogram(self.vault, Cells(centres[:, None]), edges, "spread")
        return histogram.quantile(found, edges, 0.8)

    def forward(self, embeddings: Embeddings) -> NDArray[Any]:
        """Public embeddings (n, D) into the space, (n, d)."""
        values = self.space.forward(embeddings)
        return values if self.sphere is None else self.sphere.forward(values)

    def backward(self, points: Vector, rng: np.random.Generator | None) -> Embeddings:
        """Points of the space (n, d) back to embeddings (n, D).

        Without ``rng`` what statistics say nothing of is left out: (``Space.backward``).
        """
        if self.sphere is not None and self.radii is not None and rng is not None:
            distances = histogram.draw(self.radii, self.edges, len(points), rng)
            points = self.sphere.backward(points, distances)
        return np.asarray(self.space.backward(points, rng), dtype=np.float32)


def enter(materials: Materials, entry: Entry, *, conditional: bool, normalise: bool) -> Entered:
    """Embed the private rows, change space, and project on a sphere if asked.

    Releases: with ``normalise`` a centre and the distances to it; otherwise the scale of the norms,
    about a centre where a bound on the norms is known.
    """
    encoder, vault = materials.encoder, materials.vault
    space = _space(materials, entry)
    if encoder is None:
        vault = vault.embedded().view(space.forward)
    else:  # a change of space takes longer to make than to read again
        vault = vault.map(lambda images: space.forward(encoder.encode(images)))
    classes = max(1, len(materials.classes)) if conditional else 1
    if not conditional:
        vault = vault.unconditional()
    centre, radius = np.zeros(entry.dim), entry.bound
    if radius is None:
        radius = _scale(vault, centre, _EDGES, 0.9)
    elif not normalise:
        centre = _centre(vault, entry, radius)
        radius = min(radius, _scale(vault, centre, np.geomspace(1e-3, 1.0, 60) * radius, 0.95))
    entered = Entered(vault, entry, classes, radius, space, None, None, _EDGES, centre)
    return _on_sphere(entered) if normalise else entered


def _centre(vault: Vault, entry: Entry, bound: float) -> Vector:
    """The mean of all rows, (d,), where it stands out of the noise: differences to it are short."""
    origin = Cells(np.zeros((1, 1, entry.dim)))
    groups = dp_estimators.group_means(vault.unconditional(), origin, bound, "centre")
    shrink = shrinkage.shrink_in_blocks if entry.ordered else shrinkage.shrink_to_zero
    return np.asarray(shrink(groups.means, groups.variances)[0])


def _space(materials: Materials, entry: Entry) -> Space | Leading | GridSpace:
    if not entry.whiten or materials.public is None:
        return Leading(entry.total, entry.dim, entry.power or 1.0)
    rows: list[NDArray[Any]] = []
    bar = materials.progress("embedding public rows", PUBLIC_ROWS)
    for batch in materials.public.batches(256):
        rows.append(
            batch.values if materials.encoder is None else materials.encoder.encode(batch.values)
        )
        bar(len(batch.labels))
        if sum(map(len, rows)) >= PUBLIC_ROWS:
            break
    if entry.grid is not None:
        return GridSpace.of(np.concatenate(rows), entry.grid)
    return whitening(np.concatenate(rows), entry.power, entry.dim)


def _scale(vault: Vault, centre: Vector, edges: Vector, level: float) -> float:
    """A distance from the centre that a ``level`` of all rows stay below."""
    cells = Cells(centre[None, None])
    found = dp_estimators.norm_histogram(vault.unconditional(), cells, edges, "scale")
    return histogram.quantile(found, edges, level)


def _on_sphere(entered: Entered) -> Entered:
    """The same on the unit sphere about a DP centre of all rows."""
    everyone = entered.vault.unconditional()
    origin = Cells(np.zeros((1, 1, entered.entry.dim)))
    centre = dp_estimators.group_means(everyone, origin, entered.radius, "centre").means[0]
    edges = np.geomspace(0.05, 5.0, 60) * entered.radius
    radii = dp_estimators.norm_histogram(everyone, Cells(centre[None, None]), edges, "radii")
    sphere = Sphere(centre)
    return Entered(
        entered.vault.view(sphere.forward),
        entered.entry,
        entered.classes,
        1.0,
        entered.space,
        sphere,
        radii,
        edges,
        np.zeros(entered.entry.dim),
    )
