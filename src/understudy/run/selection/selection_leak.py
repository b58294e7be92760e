"""What a selection without noise leaks: copies, and what attackers gain. Stated in the release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.results import Interval
from understudy.metrics.attacks import by_distance_ratio
from understudy.metrics.roc import roc
from understudy.metrics.subsets import some
from understudy.report import StatedAttack, StatedCopies
from understudy.report.statement import jsonable
from understudy.run.record_copies import Fingerprints, copies_of
from understudy.run.selection.spaces import EmbeddedRows, Spaces
from understudy.run.selection.steering import Steering

_MOST = 20_000  # records of a side that are attacked
_LEAST = 5  # records of a side, below which rates mean nothing
_RATE = 0.01

ATTACKED = "all candidates", "this release", "this release, by one who holds all candidates"
"""What is attacked: before the selection, after it, and with the rejected candidates at hand."""

BY_DISTANCE = "distance to the nearest sample, calibrated with records of the attacker's own"
BY_REJECTED = "distance to the nearest sample over that to the nearest rejected candidate"


@dataclass(frozen=True)
class Leak:
    """What a selection without noise tells of private records, as far as it was measured.

    Attributes:
        attacks: What attackers gain; empty where no held-out records were named.
        copies: How many samples are copies; None without private data.
    """

    attacks: tuple[StatedAttack, ...] = ()
    copies: StatedCopies | None = None

    def as_dict(self) -> dict[str, Any]:
        """For the ledger: JSON values."""
        return {
            "attacks": jsonable([asdict(one) for one in self.attacks]) or "not measured",
            "copies": None if self.copies is None else asdict(self.copies),
        }


def leak_of(
    candidates: EmbeddedRows,
    indices: NDArray[np.int64],
    steering: Steering,
    prints: Fingerprints,
    spaces: Spaces,
) -> Leak:
    """What the selection tells of the private records.

    Args:
        candidates: All of them.
        indices: Those that are released.
        steering: The private records, and held-out ones where some were named.
        prints: Of the candidates.
        spaces: What rows are compared in.
    """
    members = steering.members
    if members is None:
        return Leak()
    names = [one.name for one in (spaces.proxy, spaces.distance) if one is not None]
    names = names or ["the embeddings"]
    private, records = Fingerprints.of(members.source), members.distance
    if steering.held_out is not None:
        private = private.and_those_of(Fingerprints.of(steering.held_out.source))
        records = np.concatenate([records, steering.held_out.distance])
    released = candidates.distance[indices]
    copies = copies_of(prints.at(indices), released, private, records, names[-1])
    if steering.measured is None or steering.calibrating is None:
        return Leak((), copies)
    known, measured = steering.calibrating, steering.measured
    return Leak(attacks_on(candidates, indices, members, known, measured, names), copies)


def attacks_on(
    candidates: EmbeddedRows,
    indices: NDArray[np.int64],
    members: EmbeddedRows,
    calibrating: EmbeddedRows,
    held_out: EmbeddedRows,
    spaces: Sequence[str],
) -> tuple[StatedAttack, ...]:
    """What attackers gain: before the selection, after it, and who holds all candidates.

    Args:
        candidates: All of them.
        indices: Those that are released.
        members: The private records that the selection used.
        calibrating: Records that are none of them, which the attacker has too.
        held_out: Others, which had no part in the candidates, steered nothing and must be told
            from the members.
        spaces: The name of the proxy's space and, where it is another, of that of the distances.

    Returns:
        () where there are too few records.
    """
    if min(len(rows.labels) for rows in (members, held_out, calibrating)) < _LEAST:
        return ()
    asked = members.at(np.arange(len(members.labels))[some(len(members.labels), _MOST)])
    rejected = np.setdiff1d(np.arange(len(candidates.labels)), indices)
    released, others = candidates.at(indices), candidates.at(rejected)
    attacks = [
        (ATTACKED[0], BY_DISTANCE, candidates, calibrating),
        (ATTACKED[1], BY_DISTANCE, released, calibrating),
    ]
    if len(rejected):
        attacks.append((ATTACKED[2], BY_REJECTED, released, others))
    return tuple(
        _strongest(subject, attack, spaces, [asked, held_out], release, known)
        for subject, attack, release, known in attacks
    )


def _strongest(
    subject: str,
    attack: str,
    spaces: Sequence[str],
    sides: Sequence[EmbeddedRows],
    release: EmbeddedRows,
    known: EmbeddedRows,
) -> StatedAttack:
    """The largest result over both signs of the score and all spaces.

    The attacker knows the method and may ask either way round: what a penalty keeps away from
    private records tells where they are. Taking the larger of several results is a choice made on
    the same records, so each has an interval of a higher confidence (Bonferroni): with 95 % all of
    them hold together, and so does that of the largest.
    """
    fields = ("proxy", "distance")[: len(spaces)]
    confidence = 1 - 0.05 / (2 * len(fields))
    curves = []
    for field in fields:
        scores = [
            by_distance_ratio(*(getattr(rows, field) for rows in (side, release, known)))
            for side in sides
        ]
        curves += [
            roc(sign * scores[0], sign * scores[1], confidence=confidence) for sign in (1, -1)
        ]
    return StatedAttack(
        subject,
        attack,
        f"in the space of {' and of '.join(spaces)}, private records against "
        f"{len(sides[1].labels):,} held-out ones, the largest of {len(curves)} results",
        _ends(max((curve.tpr_at[_RATE] for curve in curves), key=_value)),
        _ends(max((curve.auc for curve in curves), key=_value)),
    )


def _value(interval: Interval) -> float:
    return interval.value


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high
