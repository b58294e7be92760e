"""What a selection without noise computes of its records: settings and penalties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from understudy.core.option import Option
from understudy.core.types import Vector
from understudy.methods.selection.algorithm import Penalties
from understudy.methods.selection.base import SelectionSettings
from understudy.methods.selection.penalties import (
    calibrated_distances,
    losses_after_training,
    membership_penalty,
    reconstruction_penalty,
)
from understudy.run.selection.spaces import EmbeddedRows


@dataclass(frozen=True)
class SelectSettings(SelectionSettings):
    """Settings of a selection without differential privacy: ``--set NAME=VALUE``."""

    balanced: Annotated[bool, Option("whether classes of the reference count the same")] = False


def penalties_of(
    settings: SelectSettings,
    candidates: EmbeddedRows,
    private: EmbeddedRows,
    non_members: EmbeddedRows,
    classes: int,
    distances: tuple[Vector, Vector],
) -> tuple[Penalties, Vector]:
    """The penalties of the candidates, and their calibrated distances (M,).

    Args:
        settings: The weights, and how the models are trained that say what is known better.
        candidates: M of them.
        private: The private records.
        non_members: Records that are known not to be private.
        classes: C.
        distances: (M,) of each candidate to the nearest private record, and (M,) to the nearest
            non-member.
    """
    reconstruction = settings.reconstruction or 0.0
    membership = None
    if settings.membership > 0:
        losses = (
            losses_after_training(
                (rows.proxy, rows.labels),
                (candidates.proxy, candidates.labels),
                classes,
                settings.proxy,
            )
            for rows in (private, non_members)
        )
        membership = membership_penalty(*losses)
    penalties = Penalties(
        reconstruction_penalty(*distances) if reconstruction else None,
        membership,
        reconstruction,
        settings.membership,
    )
    return penalties, calibrated_distances(*distances)
