"""Audits of a whole method: pairs of runs on adjacent datasets, and canaries in one run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from understudy.audit.adjacent_datasets import InMemorySource, outliers
from understudy.audit.bench import Bench, ObservedRun, temporary_folder
from understudy.audit.replay import CandidateRecords, ReplayDiverged, ReplayFindings, replay
from understudy.core.types import Images, Vector
from understudy.metrics.noise_checks import NoiseFindings, NoiseRecord, shared_confidence
from understudy.metrics.privacy_bounds import Audit, audit_one_run, audit_pairs, learned_scores
from understudy.metrics.roc import rate_at_least, rate_at_most
from understudy.privacy.accounting import MIN_SCALE

_DIVERGED_SCORE = 1e9  # the score of a run whose questions alone reveal that the record was in
_PAIR_CLAIMS = 6  # that share the confidence of an audit by pairs: four bounds, noise, questions
_RUN_CLAIMS = 3  # of one with canaries

CANARIES_PER_RUN = 100
"""Canaries of a run: few enough that they do not hide behind one another."""


@dataclass(frozen=True)
class MethodFindings:
    """Findings of an audit of a whole method.

    Attributes:
        bounds: Lower bounds by what the attacker has: ``"white box"``: every noisy answer;
            ``"black box"``: the samples alone.
        noise: Whether the noise is as stated; None where no run was replayed to its end.
        longest_contribution: The longest contribution of a record over the stated sensitivity.
        dependence: How far sums are from the sum of what each record adds by itself, over the
            stated sensitivity.
        diverged_runs: Of the runs with the record, and of those without: those whose questions did
            not follow from their answers, and all.
        stopped_runs: Runs in which the method found that it does not suit the records.
        bound_confidence: Confidence of each bound.
        confidence: Of everything together.
    """

    bounds: dict[str, Audit]
    noise: NoiseFindings | None
    longest_contribution: float
    dependence: float
    diverged_runs: tuple[tuple[int, int], tuple[int, int]]
    stopped_runs: int
    bound_confidence: float
    confidence: float

    @property
    def questions_reveal(self) -> bool:
        """Whether more runs with the record diverge than without, beyond chance."""
        (hits, tries), (slips, of) = self.diverged_runs
        miss = (1 - self.bound_confidence) / 2
        return rate_at_least(hits, tries, miss) > rate_at_most(slips, of, miss)


@dataclass
class _Tally:
    """What is not about single candidates, over all runs."""

    noise: NoiseRecord = field(default_factory=NoiseRecord)
    longest_contribution: float = 0.0
    dependence: float = 0.0
    stopped_runs: int = 0

    def add(self, run: ReplayFindings | None, stopped: bool) -> None:
        """The findings of a run; None where its replay diverged."""
        self.stopped_runs += stopped
        if run is not None:
            self.noise.add(run.noise)
            self.longest_contribution = max(self.longest_contribution, run.longest_contribution)
            self.dependence = max(self.dependence, run.dependence)

    def findings(
        self,
        bounds: dict[str, Audit],
        diverged_runs: tuple[tuple[int, int], tuple[int, int]],
        claims: int,
        confidence: float,
    ) -> MethodFindings:
        """All of it, where so many claims share the confidence."""
        bound_confidence, miss = shared_confidence(confidence, claims)
        noise = None
        if self.noise.numbers:
            noise = self.noise.findings(MIN_SCALE, confidence=bound_confidence, miss=miss)
        return MethodFindings(
            bounds,
            noise,
            self.longest_contribution,
            self.dependence,
            diverged_runs,
            self.stopped_runs,
            bound_confidence,
            confidence,
        )


def audit_by_pairs(
    bench: Bench,
    background: InMemorySource,
    runs: int,
    *,
    confidence: float = 0.95,
    progress: Callable[[int], None] = lambda _: None,
) -> MethodFindings:
    """Run a method with and without one record, over and over, and guess which it was."""
    candidates = _crafted(bench, background, np.array([True]), bench.seed)
    white: tuple[list[float], list[float]] = ([], [])
    black: tuple[list[Vector], list[Vector]] = ([], [])
    diverged, tally = [0, 0], _Tally()
    with temporary_folder() as folder:
        for number in range(runs):
            inside = number % 2 == 0
            candidates = replace(candidates, inside=np.array([inside]))
            observed = bench.observe(candidates.with_background(background), folder / str(number))
            findings = _findings_of_replay(bench, observed, background, candidates)
            diverged[not inside] += findings is None
            white[not inside].append(
                _DIVERGED_SCORE if findings is None else float(findings.scores[0])
            )
            black[not inside].append(black_box(bench, observed, candidates.records))
            tally.add(findings, observed.stopped)
            progress(1)
    bound_confidence, _ = shared_confidence(confidence, _PAIR_CLAIMS)
    scores = learned_scores(np.stack(black[0]), np.stack(black[1]))
    bounds = {
        "white box": _bound(bench, np.array(white[0]), np.array(white[1]), bound_confidence),
        "black box": _bound(bench, *scores, bound_confidence),
    }
    diverged_runs = (diverged[0], len(white[0])), (diverged[1], len(white[1]))
    return tally.findings(bounds, diverged_runs, _PAIR_CLAIMS, confidence)


def _bound(bench: Bench, inside: Vector, outside: Vector, confidence: float) -> Audit:
    budget = bench.plan.budget
    return audit_pairs(
        inside,
        outside,
        delta=budget.delta,
        claimed=budget.epsilon,
        claimed_mu=None if bench.plan.sampling else bench.plan.mu,
        confidence=confidence,
    )


def audit_by_canaries(
    bench: Bench,
    background: InMemorySource,
    canaries: int,
    *,
    confidence: float = 0.95,
    progress: Callable[[int], None] = lambda _: None,
) -> MethodFindings:
    """Put many records in at once, each with probability a half, and guess of each whether it was.

    In every run are `CANARIES_PER_RUN` of them. Each is in question in one run only, so all runs
    together are one mechanism that is as private as one of them (parallel composition), and the
    theorem on one run is about all.
    """
    rng = np.random.default_rng()  # not from the seed, which the attacker knows
    inside = rng.random(canaries) < 0.5
    scores, diverged, diverged_from_itself, tally = np.zeros(canaries), 0, 0, _Tally()
    starts = range(0, canaries, CANARIES_PER_RUN)
    with temporary_folder() as folder:
        for start in starts:
            part = slice(start, start + CANARIES_PER_RUN)
            candidates = _crafted(bench, background, inside[part], 2 * (bench.seed + start))
            dataset = candidates.with_background(background)
            observed = bench.observe(dataset, folder / str(start), sample=False)
            findings = _findings_of_replay(bench, observed, background, candidates)
            if findings is None:
                diverged += 1
                # Does it diverge from itself too, where the attacker knows all records?
                first = candidates.records.subset(np.arange(candidates.each))
                absent = CandidateRecords(first, None, np.array([False]))
                itself = _findings_of_replay(bench, observed, dataset, absent)
                diverged_from_itself += itself is None
            else:
                scores[part] = findings.scores
            tally.add(findings, observed.stopped)
            progress(len(candidates.inside))
    bound_confidence, _ = shared_confidence(confidence, _RUN_CLAIMS)
    budget = bench.plan.budget
    bound = audit_one_run(
        scores, inside, delta=budget.delta, claimed=budget.epsilon, confidence=bound_confidence
    )
    diverged_runs = (diverged, len(starts)), (diverged_from_itself, len(starts))
    return tally.findings({"white box": bound}, diverged_runs, _RUN_CLAIMS, confidence)


def _crafted(
    bench: Bench, records: InMemorySource, inside: NDArray[np.bool_], seed: int
) -> CandidateRecords:
    """Canaries of one run."""
    replaces = bench.unit.adjacency == "replace-one"
    replacements = outliers(records, len(inside), seed + 1) if replaces else None
    return CandidateRecords(outliers(records, len(inside), seed), replacements, inside)


def _findings_of_replay(
    bench: Bench, observed: ObservedRun, records: InMemorySource, candidates: CandidateRecords
) -> ReplayFindings | None:
    """The findings of a replay; None where it diverged."""
    try:
        return replay(bench, observed, records, candidates)
    except ReplayDiverged:
        return None


def black_box(bench: Bench, observed: ObservedRun, record: InMemorySource) -> Vector:
    """Numbers about the samples in which a private record could show: (f,).

    How near they come to it, how far they reach towards it, how many there are of each class and
    how they lie.
    """
    samples, target = _comparable(bench, observed, record)
    shares = np.bincount(observed.labels, minlength=len(record.classes))
    if len(samples) == 0:
        return np.concatenate([np.zeros(5), shares])
    mean = samples.mean(axis=0)
    direction = target[0] / max(float(np.linalg.norm(target[0])), 1e-12)
    projections = samples @ direction
    numbers = [
        np.log1p(np.linalg.norm(samples - target[0], axis=1).min()),
        projections.mean(),
        projections.max(),
        np.log1p(np.linalg.norm(samples - mean, axis=1).mean()),
        np.log1p(np.linalg.norm(mean)),
    ]
    return np.concatenate([np.asarray(numbers, dtype=np.float64), shares])


def _comparable(
    bench: Bench, observed: ObservedRun, record: InMemorySource
) -> tuple[Vector, Vector]:
    """Samples, and the record in question, as vectors of the same space."""
    if record.kind == "images" and observed.images is not None:
        return _flat(observed.images), _flat(record.values)
    encoder = bench.context.encoder
    target = record.values if encoder is None else encoder.encode(record.values)
    samples = observed.embeddings if observed.embeddings is not None else np.zeros((0, 1))
    return samples.astype(np.float64), target.astype(np.float64)


def _flat(images: Images) -> Vector:
    return images.reshape(len(images), -1) / 255.0
