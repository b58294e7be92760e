"""Where gaps are measured: the private rows embedded, beside what of the space is public."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import Projection
from understudy.core.types import Embeddings, Vector
from understudy.methods.alignment.base_set import Base
from understudy.methods.alignment.sensor_noise import numbers_of
from understudy.methods.base import Materials
from understudy.privacy.vault import Vault
from understudy.steps import alignment as steps

_AXES = 256  # principal axes that gaps are shrunk along; what lies outside is one block


@dataclass(frozen=True)
class Place:
    """The private rows where gaps are measured, and what of the space is public.

    Attributes:
        values: Vault of the embeddings that are moved, (n, d).
        both: Vault of (n, p + d): where a row lies for the partition, then its embedding.
        classes: Number of classes.
        axes: (d, r) principal axes of the base set within its classes.
        turn: (c, p) from what the partition looks at to the p dimensions it is made in.
        joined: Whether the partition looks at the embeddings that are moved.
        numbers: Those of a row that are its embedding; the others say how much noise it has.
    """

    values: Vault
    both: Vault
    classes: int
    axes: Vector
    turn: Vector
    joined: bool
    numbers: int

    def places(self, base: Base) -> Vector:
        """Where rows of the base set lie for the partition: (n, p)."""
        return np.asarray((base.rows if base.cues is None else base.cues) @ self.turn)


def enter(materials: Materials, base: Base, *, dimensions: int, conditional: bool) -> Place:
    """Line 10: embed the private rows once, by both encoders where the partition has its own."""
    context, vault = materials.context, materials.vault
    encoder, other = context.encoder, context.cluster_encoder
    seen = base.rows if base.cues is None else base.cues

    def make() -> dict[str, Vector]:
        axes = steps.within_axes(base.rows, base.labels, _AXES)[1]
        return {"axes": axes, "turn": steps.within_axes(seen, base.labels, dimensions)[1]}

    kept = materials.keep("axes", make)
    turn = kept["turn"]
    projection = Projection(turn)
    split = turn.shape[1]
    if other is not None and encoder is not None:

        def encode(images: NDArray[Any]) -> Embeddings:
            seen, rows = other.encode(images), encoder.encode(images)
            return np.concatenate([projection(seen), rows], axis=1, dtype=np.float32)

        both = vault.map(encode)
        values = both.view(lambda rows: rows[:, split:])
    else:
        values = vault.embedded() if encoder is None else vault.map(encoder.encode)
        both = values.view(
            lambda rows: np.concatenate([projection(rows), rows], axis=1, dtype=np.float32)
        )
    if not conditional:
        values, both = values.unconditional(), both.unconditional()
    classes = len(materials.classes) if conditional else 1
    axes, joined, numbers = kept["axes"], other is None, numbers_of(context)
    return Place(values, both, classes, axes, turn, joined, numbers)
