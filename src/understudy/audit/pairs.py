"""Audits of a whole method: pairs of runs on neighbouring datasets, and canaries in one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from understudy.audit.adjacent_datasets import Rows, outliers
from understudy.audit.bench import Bench, Observed, workplace
from understudy.audit.replay import Candidates, Findings, Parted, replay
from understudy.core.types import Images, Vector
from understudy.metrics.noise_checks import NoiseFindings, NoiseRecord, shared_confidence
from understudy.metrics.privacy_bounds import (
    Audit,
    audit_one_run,
    audit_pairs,
    learned_scores,
)
from understudy.metrics.roc import rate_at_least, rate_at_most
from understudy.privacy.noise import MIN_SCALE

_GIVEN_AWAY = 1e9  # the score of a run whose questions alone tell that the row was in
_PAIR_CLAIMS = 6  # that share the confidence of an audit by pairs: four bounds, noise, questions
_RUN_CLAIMS = 3  # of one with canaries

AT_ONCE = 100
"""Canaries of a run: few enough that they do not hide behind one another."""


@dataclass(frozen=True)
class Whole:
    """What an audit of a whole method found.

    Attributes:
        bounds: Lower bounds by what the attacker saw: ``"white box"``: every noisy answer;
            ``"black box"``: the synthetic rows alone.
        noise: Whether the noise is as stated; None where no run was replayed to its end.
        longest: The longest contribution of a row over the stated sensitivity.
        dependence: How far sums are from the sum of what each row adds by itself, over the stated
            sensitivity.
        given_away: Of the runs with the row, and of those without: those whose questions did not
            follow from their answers, and all.
        each: Confidence of each bound.
        confidence: Of everything together.
    """

    bounds: dict[str, Audit]
    noise: NoiseFindings | None
    longest: float
    dependence: float
    given_away: tuple[tuple[int, int], tuple[int, int]]
    each: float
    confidence: float

    @property
    def tells(self) -> bool:
        """Whether questions give more runs with the row away than without, beyond chance."""
        (hits, tries), (slips, of) = self.given_away
        miss = (1 - self.each) / 2
        return rate_at_least(hits, tries, miss) > rate_at_most(slips, of, miss)


@dataclass
class _Tally:
    """What is not about single candidates, over all runs."""

    noise: NoiseRecord = field(default_factory=NoiseRecord)
    longest: float = 0.0
    dependence: float = 0.0

    def add(self, run: Findings | None) -> None:
        """The findings of a run; None where its replay parted from it."""
        if run is not None:
            self.noise.add(run.noise)
            self.longest = max(self.longest, run.longest)
            self.dependence = max(self.dependence, run.dependence)

    def whole(
        self,
        bounds: dict[str, Audit],
        given_away: tuple[tuple[int, int], tuple[int, int]],
        claims: int,
        confidence: float,
    ) -> Whole:
        """All of it, where so many claims share the confidence."""
        each, miss = shared_confidence(confidence, claims)
        noise = None
        if self.noise.numbers:
            noise = self.noise.findings(MIN_SCALE, confidence=each, miss=miss)
        return Whole(bounds, noise, self.longest, self.dependence, given_away, each, confidence)


def audit_by_pairs(
    bench: Bench,
    rows: Rows,
    runs: int,
    *,
    confidence: float = 0.95,
    progress: Callable[[int], None] = lambda _: None,
) -> Whole:
    """Run a method with and without one row, over and over, and guess which it was.

    Args:
        bench: The method.
        rows: The other rows.
        runs: Runs in all, half of them with the row.
        confidence: That nothing is refuted that holds.
        progress: Told of each run.
    """
    row = outliers(rows, 1, bench.seed)
    instead = outliers(rows, 1, bench.seed + 1) if _replaces(bench) else None
    white: tuple[list[float], list[float]] = ([], [])
    black: tuple[list[Vector], list[Vector]] = ([], [])
    away, total = [0, 0], _Tally()
    with workplace() as place:
        for number in range(runs):
            inside = number % 2 == 0
            candidates = Candidates(row, instead, np.array([inside]))
            observed = bench.observe(candidates.joined(rows), place / str(number))
            found = _replayed(bench, observed, rows, candidates)
            away[not inside] += found is None
            white[not inside].append(_GIVEN_AWAY if found is None else float(found.scores[0]))
            black[not inside].append(black_box(bench, observed, row))
            total.add(found)
            progress(1)
    each, _ = shared_confidence(confidence, _PAIR_CLAIMS)
    learned = learned_scores(np.stack(black[0]), np.stack(black[1]))
    bounds = {
        "white box": _judged(bench, np.array(white[0]), np.array(white[1]), each),
        "black box": _judged(bench, *learned, each),
    }
    given = (away[0], len(white[0])), (away[1], len(white[1]))
    return total.whole(bounds, given, _PAIR_CLAIMS, confidence)


def _judged(bench: Bench, inside: Vector, outside: Vector, confidence: float) -> Audit:
    budget = bench.plan.budget
    return audit_pairs(
        inside,
        outside,
        delta=budget.delta,
        claimed=budget.epsilon,
        claimed_mu=bench.plan.mu,
        confidence=confidence,
    )


def audit_by_canaries(
    bench: Bench,
    rows: Rows,
    canaries: int,
    *,
    confidence: float = 0.95,
    progress: Callable[[int], None] = lambda _: None,
) -> Whole:
    """Put many rows in at once, each with probability a half, and guess of each whether it was.

    In every run are `AT_ONCE` of them. Each is in question in one run only, so all runs together
    are one mechanism that is as private as one of them (parallel composition), and the theorem on
    one run is about all.

    Args:
        bench: The method.
        rows: The other rows.
        canaries: How many in all.
        confidence: That nothing is refuted that holds.
        progress: Told of the canaries.
    """
    rng = np.random.default_rng()  # not from the seed, which the attacker knows
    inside = rng.random(canaries) < 0.5
    scores, away, alone, total = np.zeros(canaries), 0, 0, _Tally()
    starts = range(0, canaries, AT_ONCE)
    with workplace() as place:
        for start in starts:
            mine = slice(start, start + AT_ONCE)
            candidates = _crafted(bench, rows, inside[mine], start)
            there = candidates.joined(rows)
            observed = bench.observe(there, place / str(start), sample=False)
            found = _replayed(bench, observed, rows, candidates)
            if found is None:
                away += 1
                # Does it part from itself too, where the attacker knows all that was there?
                alone += _replayed(bench, observed, there, _nobody(candidates.rows)) is None
            else:
                scores[mine] = found.scores
            total.add(found)
            progress(len(candidates.inside))
    each, _ = shared_confidence(confidence, _RUN_CLAIMS)
    budget = bench.plan.budget
    bound = audit_one_run(
        scores, inside, delta=budget.delta, claimed=budget.epsilon, confidence=each
    )
    given = (away, len(starts)), (alone, len(starts))
    return total.whole({"white box": bound}, given, _RUN_CLAIMS, confidence)


def _crafted(bench: Bench, rows: Rows, inside: NDArray[np.bool_], number: int) -> Candidates:
    """Canaries of one run."""
    seed = 2 * (bench.seed + number)
    crafted = outliers(rows, len(inside), seed)
    instead = outliers(rows, len(inside), seed + 1) if _replaces(bench) else None
    return Candidates(crafted, instead, inside)


def _replaces(bench: Bench) -> bool:
    return bench.unit.adjacency == "replace-one"


def _nobody(rows: Rows) -> Candidates:
    """A candidate that is not there."""
    return Candidates(rows.only(np.arange(1)), None, np.array([False]))


def _replayed(
    bench: Bench, observed: Observed, known: Rows, candidates: Candidates
) -> Findings | None:
    """What a replay found; None where it parted from the run."""
    try:
        return replay(bench, observed, known, candidates)
    except Parted:
        return None


def black_box(bench: Bench, observed: Observed, row: Rows) -> Vector:
    """Numbers about the synthetic rows in which a private row could show: (f,).

    How near they come to it, how far they reach towards it, how many there are of each class and
    how they lie.
    """
    rows, target = _comparable(bench, observed, row)
    shares = np.bincount(observed.labels, minlength=len(row.classes))
    if len(rows) == 0:
        return np.concatenate([np.zeros(5), shares])
    middle = rows.mean(axis=0)
    direction = target[0] / max(float(np.linalg.norm(target[0])), 1e-12)
    along = rows @ direction
    numbers = [
        np.log1p(np.linalg.norm(rows - target[0], axis=1).min()),
        along.mean(),
        along.max(),
        np.log1p(np.linalg.norm(rows - middle, axis=1).mean()),
        np.log1p(np.linalg.norm(middle)),
    ]
    return np.concatenate([np.asarray(numbers, dtype=np.float64), shares])


def _comparable(bench: Bench, observed: Observed, row: Rows) -> tuple[Vector, Vector]:
    """Synthetic rows, and the row in question, as vectors of the same space."""
    if row.kind == "images" and observed.images is not None:
        return _flat(observed.images), _flat(row.values)
    encoder = bench.context.encoder
    target = row.values if encoder is None else encoder.encode(row.values)
    rows = observed.embeddings if observed.embeddings is not None else np.zeros((0, 1))
    return rows.astype(np.float64), target.astype(np.float64)


def _flat(images: Images) -> Vector:
    return images.reshape(len(images), -1) / 255.0
