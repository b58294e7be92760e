"""The mechanisms as they are shipped, one by one: the same release drawn many times."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from understudy.audit.adjacent_datasets import InMemorySource
from understudy.audit.bench import NullLedger, SerialEngine, temporary_folder
from understudy.core.types import Labels, Vector
from understudy.metrics.noise_checks import NoiseFindings, NoiseRecord, StageNoise
from understudy.metrics.privacy_bounds import Audit, audit_pairs
from understudy.privacy.account import Account
from understudy.privacy.accounting import MIN_SCALE
from understudy.privacy.budget_plan import Plan
from understudy.privacy.cells import Cells
from understudy.privacy.queries import (
    ClippedGradients,
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
from understudy.privacy.vault import PrivateVault

_SLOTS = 1000
_GRADIENTS = 200  # cells of a gradient: whole matrices are computed of each record
_STAGE = "audit"
_UNIT = Unit()
_FAR = 700.0  # beyond every radius here


@dataclass(frozen=True)
class Mechanism:
    """A query of many cells, with a record for each cell that adds as much as a record may.

    Records of different cells have nothing to do with one another, so a release with one in half of
    the cells is as many independent pairs of runs: with the record, and without. ``values`` are
    (cells, d), ``labels`` (cells,) their classes.
    """

    name: str
    query: Query
    values: Vector
    labels: Labels

    def contributions(self, plan: Plan) -> Vector:
        """What the record of each cell adds there, in standard deviations of the noise.

        Returns:
            (cells, numbers of a cell). A query of one vector has its cells side by side in it.
        """
        grid, scale = self._scale(plan)
        whole = self.query.integer_sum(self.values, self.labels, None, grid)
        return np.asarray(whole * grid * scale).reshape(len(self.labels), -1)

    def draw(
        self, plan: Plan, folder: Path, inside: NDArray[np.bool_]
    ) -> tuple[Vector, StageNoise]:
        """A release with the records of some cells, as `contributions` has them; its noise."""
        values, labels = self.values[inside].astype(np.float32), self.labels[inside]
        classes = tuple(map(str, range(int(self.labels.max()) + 1)))
        records = InMemorySource("audit", "embeddings", classes, values, labels)
        account = Account(NullLedger(), "audit", _UNIT, plan, folder)
        noisy = PrivateVault(records, account, SerialEngine(), folder).release(
            self.query, stage=_STAGE
        )
        shutil.rmtree(folder)
        grid, scale = self._scale(plan)
        # The grid is a power of two, so the answer holds whole steps of it.
        steps = np.rint(noisy / grid).astype(np.int64)
        steps -= self.query.integer_sum(values, labels, None, grid)
        scaled: Vector = np.asarray(steps * (grid * scale), dtype=np.float64)
        noise = StageNoise(steps.ravel(), scaled.ravel())
        return np.asarray(noisy * scale).reshape(len(self.labels), -1), noise

    def _scale(self, plan: Plan) -> tuple[float, Vector | float]:
        """The grid step, and the inverse standard deviation of the noise in each number."""
        sigma = self.query.sensitivity(_UNIT.adjacency) / plan.stage_mu(_STAGE)
        weights = 1.0 if self.query.weights is None else self.query.weights
        return self.query.grid(sigma), weights / sigma


@dataclass(frozen=True)
class MechanismFindings:
    """What many draws of one mechanism show."""

    bound: Audit
    noise: NoiseFindings


def mechanisms(slots: int = _SLOTS) -> tuple[Mechanism, ...]:
    """Every query of `understudy.privacy.queries`."""
    each, single_class = np.arange(slots), np.zeros(slots, dtype=np.int64)
    positions, distant = each[:, None].astype(np.float64), np.full((slots, 1), _FAR)
    # Along one axis: the squares of such a record are as long as they may be.
    distant_2d = np.tile([_FAR, 0.0], (slots, 1))
    gradients = min(slots, _GRADIENTS)
    line, plane = (Cells(np.zeros((slots, 1, dim))) for dim in (1, 2))
    return (
        Mechanism("Counts", Counts(line), distant, each),
        Mechanism("ClippedSums", ClippedSums(plane, 3.0), distant_2d, each),
        Mechanism("CountAndSum", CountAndSum(line, 3.0), distant, each),
        Mechanism("DiagonalMoments", DiagonalMoments(plane, 3.0), distant_2d, each),
        Mechanism("FullMoments", FullMoments(plane, 3.0, each), distant_2d, each),
        Mechanism("Votes", Votes(positions[None]), positions, single_class),
        Mechanism(
            "NormHistogram",
            NormHistogram(Cells(np.zeros((1, 1, 1))), positions[1:, 0]),
            positions + 0.5,
            single_class,
        ),
        # Far along an axis each, and one that adds to the intercept alone.
        Mechanism(
            "ClippedGradients",
            ClippedGradients(np.zeros((gradients, 2)), 0.5),
            np.eye(gradients, gradients - 1) * _FAR,
            np.arange(gradients) % 2,
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
) -> MechanismFindings:
    """Lower bounds on what one mechanism gives away with a plan's whole budget, and its noise.

    The plan is of one stage (`one_stage`). Half of the draws are with the record. ``confidence`` is
    of each of the two bounds and of the noise's scale, ``miss`` the probability of each other
    finding about the noise where there is nothing to find.
    """
    rng = np.random.default_rng()
    scores: tuple[list[Vector], list[Vector]] = ([], [])
    contributions, record = mechanism.contributions(plan), NoiseRecord()
    cells = len(contributions)
    with temporary_folder() as folder:
        for number in range(-(-draws // cells)):
            inside = rng.permutation(cells) < cells // 2
            answer, noise = mechanism.draw(plan, folder / str(number), inside)
            projections = (answer * contributions).sum(axis=1)
            scores[0].append(projections[inside])
            scores[1].append(projections[~inside])
            record.add({_STAGE: noise})
            progress(cells)
    budget = plan.budget
    bound = audit_pairs(
        np.concatenate(scores[0]),
        np.concatenate(scores[1]),
        delta=budget.delta,
        claimed=budget.epsilon,
        claimed_mu=plan.mu,
        confidence=confidence,
    )
    return MechanismFindings(bound, record.findings(MIN_SCALE, confidence=confidence, miss=miss))


def one_stage(plan: Plan) -> Plan:
    """The same budget for a single release."""
    return Plan.of(plan.budget, {_STAGE: 1.0})
