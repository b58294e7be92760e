"""What a selection without noise computes of its records: settings, penalties, attacks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from understudy.core.option import Option
from understudy.core.results import Interval
from understudy.core.types import Embeddings, Vector
from understudy.methods.selection.algorithm import Penalties
from understudy.methods.selection.base import SelectionSettings
from understudy.methods.selection.penalties import (
    calibrated_distances,
    losses_after_training,
    membership_penalty,
    reconstruction_penalty,
)
from understudy.metrics.attacks import by_distance_ratio
from understudy.metrics.roc import roc
from understudy.metrics.subsets import some
from understudy.report import StatedAttack
from understudy.run.selection.spaces import EmbeddedRows

_MOST = 20_000  # records of a side that are attacked
_LEAST = 5  # records of a side, below which rates mean nothing
_RATE = 0.01

ATTACKED = "all candidates", "this release"
"""What is attacked: before the selection and after it."""


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


def attacks_on(
    candidates: EmbeddedRows,
    indices: NDArray[np.int64],
    members: EmbeddedRows,
    calibrating: EmbeddedRows,
    held_out: Embeddings,
    encoder: str,
) -> tuple[StatedAttack, ...]:
    """What an attacker by the nearest sample gains, before the selection and after it.

    Args:
        candidates: All of them.
        indices: Those that are released.
        members: The private records that the selection used.
        calibrating: Records that are none of them, which the attacker has too.
        held_out: (h, D) others in the proxy's space, which steered nothing and must be told from
            the members.
        encoder: The name of the space, for the words.

    Returns:
        () where there are too few records.
    """
    known = calibrating.proxy
    if min(map(len, (members.proxy, held_out, known))) < _LEAST:
        return ()
    asked = members.proxy[some(len(members.proxy), _MOST)]
    stated = []
    releases = candidates.proxy, candidates.proxy[indices]
    for subject, release in zip(ATTACKED, releases, strict=True):
        curve = roc(
            by_distance_ratio(asked, release, known),
            by_distance_ratio(held_out, release, known),
        )
        stated.append(
            StatedAttack(
                subject,
                "distance to the nearest sample, calibrated with records of the attacker's own",
                f"in the space of {encoder}, private records against held-out ones",
                _ends(curve.tpr_at[_RATE]),
                _ends(curve.auc),
            )
        )
    return tuple(stated)


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high
