"""The mechanisms as they are shipped, one by one: the same release drawn many times."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from understudy.audit.adjacent_datasets import Rows
from understudy.audit.bench import Forgetful, InTurn, workplace
from understudy.core.types import Labels, Vector
from understudy.metrics.noise_checks import NoiseFindings, NoiseRecord, StageNoise
from understudy.metrics.privacy_bounds import Audit, audit_pairs
from understudy.privacy.account import Account, Plan
from understudy.privacy.cells import Cells
from understudy.privacy.noise import MIN_SCALE
from understudy.privacy.queries import (
    ClippedSums,
    CountAndSum,
    Counts,
    DiagonalMoments,
    FullMoments,
    NormHistogram,
    Query,
    Votes,
)
from understudy.privacy.unit import Unit
from understudy.privacy.vault import Vault

_SLOTS = 1000
_STAGE = "audit"
_UNIT = Unit()
_FAR = 700.0  # beyond every radius here


@dataclass(frozen=True)
class Mechanism:
    """A query of many cells, with a row for each cell that adds as much as a row may.

    Rows of different cells have nothing to do with one another, so a release with a row in half of
    the cells is as many independent pairs of runs: with the row, and without.

    Attributes:
        name: The query's.
        query: What is asked.
        values: (slots, d) a row of each cell.
        labels: (slots,) its class.
    """

    name: str
    query: Query
    values: Vector
    labels: Labels

    def looks(self, plan: Plan) -> Vector:
        """What the row of each cell adds there, in standard deviations of the noise."""
        grid, scale = self._scale(plan)
        whole = self.query.integer_sum(self.values, self.labels, None, grid)
        return np.asarray(whole * grid * scale)

    def draw(self, plan: Plan, place: Path, inside: NDArray[np.bool_]) -> tuple[Vector, StageNoise]:
        """One release with the rows of some cells: (slots, width), in the same unit; its noise."""
        values, labels = self.values[inside].astype(np.float32), self.labels[inside]
        classes = tuple(map(str, range(int(self.labels.max()) + 1)))
        rows = Rows("audit", "embeddings", classes, values, labels)
        account = Account(Forgetful(), "audit", _UNIT, plan, place)
        noisy = Vault(rows, account, InTurn(), place).release(self.query, stage=_STAGE)
        shutil.rmtree(place)
        grid, scale = self._scale(plan)
        # The grid is a power of two, so the answer holds whole steps of it.
        steps = np.rint(noisy / grid).astype(np.int64)
        steps -= self.query.integer_sum(values, labels, None, grid)
        scaled: Vector = np.asarray(steps * (grid * scale), dtype=np.float64)
        noise = StageNoise(steps.ravel(), scaled.ravel())
        return np.asarray(noisy * scale), noise

    def _scale(self, plan: Plan) -> tuple[float, Vector | float]:
        """The grid step, and the inverse standard deviation of the noise in each number."""
        sigma = self.query.sensitivity(_UNIT.adjacency) / plan.stage_mu(_STAGE)
        weights = 1.0 if self.query.weights is None else self.query.weights
        return self.query.grid(sigma), weights / sigma


@dataclass(frozen=True)
class Drawn:
    """What many draws of one mechanism show.

    Attributes:
        bound: Lower bounds on what it gives away.
        noise: Whether its noise is as stated.
    """

    bound: Audit
    noise: NoiseFindings


def mechanisms(slots: int = _SLOTS) -> tuple[Mechanism, ...]:
    """Every query of `understudy.privacy.queries`."""
    each, one = np.arange(slots), np.zeros(slots, dtype=np.int64)
    spots, far = each[:, None].astype(np.float64), np.full((slots, 1), _FAR)
    # Along one axis: the squares of such a row are as long as they may be.
    far_2d = np.tile([_FAR, 0.0], (slots, 1))
    line, plane = (Cells(np.zeros((slots, 1, dim))) for dim in (1, 2))
    return (
        Mechanism("Counts", Counts(line), far, each),
        Mechanism("ClippedSums", ClippedSums(plane, 3.0), far_2d, each),
        Mechanism("CountAndSum", CountAndSum(line, 3.0), far, each),
        Mechanism("DiagonalMoments", DiagonalMoments(plane, 3.0), far_2d, each),
        Mechanism("FullMoments", FullMoments(plane, 3.0, each), far_2d, each),
        Mechanism("Votes", Votes(spots[None]), spots, one),
        Mechanism(
            "NormHistogram",
            NormHistogram(Cells(np.zeros((1, 1, 1))), spots[1:, 0]),
            spots + 0.5,
            one,
        ),
    )


def audit_mechanism(
    mechanism: Mechanism,
    plan: Plan,
    draws: int,
    *,
    confidence: float = 0.95,
    miss: float = 0.05 / 8,
    progress: Callable[[int], None] = lambda _: None,
) -> Drawn:
    """Lower bounds on what one mechanism gives away with a plan's whole budget, and its noise.

    Args:
        mechanism: Which.
        plan: Of one stage (`one_stage`).
        draws: How often it is drawn in all, half of them with the row.
        confidence: Of each of the two bounds, and of the noise's scale.
        miss: Probability of each other finding about the noise where there is nothing to find.
        progress: Told of the draws.
    """
    rng = np.random.default_rng()
    scores: tuple[list[Vector], list[Vector]] = ([], [])
    slots, looks, record = mechanism.query.slots, mechanism.looks(plan), NoiseRecord()
    with workplace() as place:
        for number in range(-(-draws // slots)):
            inside = rng.permutation(slots) < slots // 2
            answer, noise = mechanism.draw(plan, place / str(number), inside)
            towards = (answer * looks).sum(axis=1)
            scores[0].append(towards[inside])
            scores[1].append(towards[~inside])
            record.add({_STAGE: noise})
            progress(slots)
    budget = plan.budget
    bound = audit_pairs(
        np.concatenate(scores[0]),
        np.concatenate(scores[1]),
        delta=budget.delta,
        claimed=budget.epsilon,
        claimed_mu=plan.mu,
        confidence=confidence,
    )
    return Drawn(bound, record.findings(MIN_SCALE, confidence=confidence, miss=miss))


def one_stage(plan: Plan) -> Plan:
    """The same budget for a single release."""
    return Plan.of(plan.budget, {_STAGE: 1.0})
