"""The strongest attacker: knows every record but the one in question, and replays the run.

Given the answers of a run, everything else in a method is public arithmetic. So an attacker who
knows the other records can run the method again with those answers in place of the vault's, and
compute for each stage what was asked, what all records add up to with the record in question and
without it, and so what that record changes. What is left of the answer is noise, or noise and that
change. The sums are those of real vaults, mapped, viewed and added up as the run's was: were a
record to change what another one adds, it would show here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from understudy.audit.adjacent_datasets import InMemorySource
from understudy.audit.bench import Bench, ObservedRun, temporary_folder
from understudy.core.errors import ConfigError, RunError
from understudy.core.types import Receipt, StageReceipt, Vector
from understudy.metrics.noise_checks import StageNoise
from understudy.privacy.queries import Query
from understudy.privacy.rows import RECORDS_PER_CALL, Encode
from understudy.privacy.vault import PrivateVault, Transform

_FLIPPED_CANDIDATES = 3
"""Candidates of a run whose effect is taken from the sums with and without them.

Each costs a pass over all records. With more candidates than that, all of them together are held
against the sum of what each adds by itself, so that a record which moves another is found anyway.
"""


class ReplayDiverged(RunError):
    """The replay asks for something else than the run did, although it has the same answers.

    Then what is asked depends on private records otherwise than through noisy answers.
    """


@dataclass
class ReplayFindings:
    """What a replay shows about a run.

    Attributes:
        log_ratios: (m,) log likelihood ratio of each candidate being in, over all stages, were half
            of each other one there.
        overlap: (m, m) inner products of what the candidates add, in stated standard deviations.
        noise: Of each stage, in order.
        longest_contribution: The longest contribution over the stated sensitivity.
        dependence: How far the sums are from a sum of what each record adds by itself, over the
            stated sensitivity: 0 where records are independent.
        stages: Receipts of the stages gone through.
    """

    log_ratios: Vector
    overlap: Vector
    noise: dict[str, StageNoise] = field(default_factory=dict)
    longest_contribution: float = 0.0
    dependence: float = 0.0
    stages: list[StageReceipt] = field(default_factory=list)

    @classmethod
    def about(cls, candidates: int) -> ReplayFindings:
        """Findings of a replay that has not begun."""
        return cls(np.zeros(candidates), np.zeros((candidates, candidates)))

    @property
    def scores(self) -> Vector:
        """(m,) how much each candidate looks as if it were in, the others taken out.

        The linear estimate of least squared error of whether each is there, a fair coin's choice
        with variance 1/4; in units in which one that overlaps with none scores its log ratio.
        """
        ridge = self.overlap + 4 * np.eye(len(self.log_ratios))
        return np.asarray(np.linalg.solve(ridge, self.log_ratios) * np.diag(ridge))


@dataclass(frozen=True)
class CandidateRecords:
    """Units (m,) whose presence is in question, one after the other, each of as many records.

    Where one is out, its replacement is there, for replace-one; ``inside`` (m,) says which were in:
    what the owner knows, and the attacker does not.
    """

    records: InMemorySource
    replacements: InMemorySource | None
    inside: NDArray[np.bool_]

    def present_records(self) -> InMemorySource:
        """The records that were in, and the replacements of the others."""
        inside = np.repeat(self.inside, self.each)
        present = self.records.subset(inside)
        if self.replacements is None:
            return present
        return present.joined_with(self.replacements.subset(~inside))

    @property
    def each(self) -> int:
        """Records of a unit."""
        return len(self.records) // len(self.inside)

    def with_background(self, background: InMemorySource) -> InMemorySource:
        """The dataset of the run: the candidates that were in, then the known records.

        In front, so that one more or less moves each known record to another position of a batch.
        """
        return self.present_records().joined_with(background)

    def flipped(self, number: int) -> CandidateRecords:
        """The same where one of them was in instead of out, or out instead of in."""
        inside = self.inside.copy()
        inside[number] = not inside[number]
        return dataclasses.replace(self, inside=inside)

    def without_candidates(self) -> CandidateRecords:
        """The same where none was in."""
        return dataclasses.replace(self, inside=np.zeros_like(self.inside))


@dataclass(frozen=True)
class AdjacentVaults:
    """Datasets that differ in candidates, each in a vault of its own, mapped as the run's was.

    Attributes:
        dataset: D, the records of the run.
        candidates: The candidates alone.
        replacements: Their replacements alone, for replace-one.
        flipped: By number of a candidate: D without it where it was in, with it where it was out.
        without_candidates: D without any candidate; None where all of them are flipped.
    """

    dataset: PrivateVault
    candidates: PrivateVault
    replacements: PrivateVault | None
    flipped: Mapping[int, PrivateVault]
    without_candidates: PrivateVault | None

    @classmethod
    def of(
        cls,
        background: InMemorySource,
        candidates: CandidateRecords,
        make: Callable[[InMemorySource], PrivateVault],
    ) -> AdjacentVaults:
        """Vaults of a run's records, where some candidates, by chance, are flipped."""
        count = len(candidates.inside)
        numbers = np.random.default_rng().permutation(count)[:_FLIPPED_CANDIDATES].tolist()
        return cls(
            make(candidates.with_background(background)),
            make(candidates.records),
            None if candidates.replacements is None else make(candidates.replacements),
            {
                number: make(candidates.flipped(number).with_background(background))
                for number in numbers
            },
            None
            if len(numbers) == count
            else make(candidates.without_candidates().with_background(background)),
        )

    def through(self, change: Callable[[PrivateVault], PrivateVault]) -> AdjacentVaults:
        """All of them through an encoder or a view."""
        return AdjacentVaults(
            change(self.dataset),
            change(self.candidates),
            None if self.replacements is None else change(self.replacements),
            {number: change(vault) for number, vault in self.flipped.items()},
            None if self.without_candidates is None else change(self.without_candidates),
        )


def _exact(vault: PrivateVault, query: Query, grid: float) -> NDArray[np.int64]:
    """The sum of a vault without noise, by its own engine and blocks."""
    return vault._exact(query, grid)


def _contributions(vault: PrivateVault, query: Query, grid: float) -> NDArray[np.int64]:
    """What each unit of a vault adds by itself: (n, slots, width)."""
    index = vault._position
    if index is None:
        raise ConfigError("images hold no numbers to add up: map the vault with an encoder first")
    sums = []
    for values, labels, groups in vault._inside.rows[index].blocks():
        embeddings = vault._views(values)
        cells = labels if vault._labelled else np.zeros_like(labels)
        units = np.arange(len(labels)) if groups is None else groups
        ends = (np.flatnonzero(np.diff(units)) + 1).tolist()
        for part in map(slice, [0, *ends], [*ends, len(labels)]):
            owner = None if groups is None else groups[part]
            sums.append(query.integer_sum(embeddings[part], cells[part], owner, grid))
    return np.stack(sums)


class ReplayVault:
    """A vault that gives the answers of a run that is over, and records findings."""

    def __init__(
        self, bench: Bench, observed: ObservedRun, vaults: AdjacentVaults, inside: NDArray[np.bool_]
    ) -> None:
        self._bench, self._observed, self._vaults = bench, observed, vaults
        self.inside = inside
        self.findings = ReplayFindings.about(len(inside))

    def _through(self, change: Callable[[PrivateVault], PrivateVault]) -> ReplayVault:
        other = ReplayVault(self._bench, self._observed, self._vaults.through(change), self.inside)
        other.findings = self.findings
        return other

    def close(self) -> None:
        """Nothing: the folder of the vaults is removed with them."""

    def map(self, encode: Encode, *, batch: int = RECORDS_PER_CALL) -> ReplayVault:
        """As of a vault."""
        return self._through(lambda vault: vault.map(encode, batch=batch))

    def embedded(self) -> ReplayVault:
        """As of a vault."""
        return self._through(PrivateVault.embedded)

    def view(self, transform: Transform) -> ReplayVault:
        """As of a vault."""
        return self._through(lambda vault: vault.view(transform))

    def unconditional(self) -> ReplayVault:
        """As of a vault."""
        return self._through(PrivateVault.unconditional)

    def noise_sd(self, query: Query, *, stage: str) -> float:
        """As of a vault."""
        plan, adjacency = self._bench.plan, self._bench.unit.adjacency
        return query.sensitivity(adjacency) / plan.stage_mu(stage)

    def receipt(self) -> Receipt:
        """As of a vault."""
        return dataclasses.replace(self._observed.receipt, stages=tuple(self.findings.stages))

    def release(self, query: Query, *, stage: str) -> Vector:
        """The run's own answer."""
        answer = self._observed.answers.get(stage)
        if answer is None or answer.query != query.fingerprint():
            raise ReplayDiverged(f"{stage}: asked for something else than the run was asked for")
        sigma = self.noise_sd(query, stage=stage)
        grid = query.grid(sigma)
        weights = np.ones(1) if query.weights is None else query.weights
        # From grid steps to stated standard deviations of the noise.
        scale: Vector = np.asarray(weights * (grid / sigma), dtype=np.float64)
        total = _exact(self._vaults.dataset, query, grid)
        steps = answer.noisy - total
        self.findings.noise[stage] = StageNoise(steps.ravel(), (steps * scale).ravel())
        changes, differences = self._changes(query, grid, total)
        mu = self._bench.plan.stage_mu(stage)
        self._note(stage, (changes * scale).reshape(len(changes), -1), mu)
        distance = max(
            (float(np.linalg.norm(difference * scale)) for difference in differences), default=0.0
        )
        self.findings.dependence = max(self.findings.dependence, distance / mu)
        self.findings.stages += [
            receipt for receipt in self._observed.receipt.stages if receipt.stage == stage
        ]
        return np.asarray(answer.noisy * grid, dtype=np.float64)

    def sample(self, query: Query, *, stage: str, step: int) -> Vector:
        """The run's own answer to a step; who was in its sample, the attacker cannot know.

        A candidate's log likelihood ratio is that of a mixture, N(r, 1) with it in the sample and
        without, where of all others the expected part was.
        """
        answer = self._observed.answers.get(f"{stage}.{step}")
        if answer is None or answer.query != query.fingerprint():
            raise ReplayDiverged(f"{stage}: asked for something else than the run was asked for")
        sigma, rate = self.noise_sd(query, stage=stage), self._bench.plan.sampling[stage].rate
        grid = query.grid(sigma)
        total = _exact(self._vaults.dataset, query, grid)
        changes, differences = self._changes(query, grid, total)
        lengths = [float(np.linalg.norm(one)) * grid / query.bound for one in differences]
        self.findings.dependence = max(self.findings.dependence, *lengths, 0.0)
        flat = (changes * (grid / sigma)).reshape(len(changes), -1)
        others = total - changes[self.inside].sum(axis=0)
        rest = ((answer.noisy - rate * others) * (grid / sigma)).ravel()
        squares = np.square(flat).sum(axis=1)
        ratios = np.clip(flat @ rest - squares / 2, -50.0, 50.0)
        self.findings.log_ratios += np.log1p(rate * np.expm1(ratios))
        longest = float(np.sqrt(squares.max())) * sigma / query.bound
        self.findings.longest_contribution = max(self.findings.longest_contribution, longest)
        if step == 1:
            self.findings.stages += [
                receipt for receipt in self._observed.receipt.stages if receipt.stage == stage
            ]
        return np.asarray(answer.noisy * grid, dtype=np.float64)

    def _changes(
        self, query: Query, grid: float, exact: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
        """What each candidate changes by being in, and where that is not what it adds by itself.

        Returns:
            (m, slots, width) the changes, from the sums of D and of D without the candidate where
            both are known; and the differences of such changes to what records add by themselves.
        """
        vaults, inside = self._vaults, self.inside
        changes = _contributions(vaults.candidates, query, grid)
        if vaults.replacements is not None:
            changes = changes - _contributions(vaults.replacements, query, grid)
        differences = []
        if vaults.without_candidates is not None:
            together = exact - _exact(vaults.without_candidates, query, grid)
            differences.append(together - changes[inside].sum(axis=0))
        for number, vault in vaults.flipped.items():
            change = (exact - _exact(vault, query, grid)) * (1 if inside[number] else -1)
            differences.append(change - changes[number])
            changes[number] = change
        return changes, differences

    def _note(self, stage: str, changes: Vector, mu: float) -> None:
        """Add a stage to the findings."""
        findings = self.findings
        # What the answer holds beyond the sum without any candidate.
        remainder = findings.noise[stage].scaled + changes[self.inside].sum(axis=0)
        overlap = changes @ changes.T
        # Gaussian log likelihood ratio; of the other candidates, half are expected to be in.
        findings.log_ratios += changes @ (remainder - changes.sum(axis=0) / 2)
        findings.overlap += overlap
        findings.longest_contribution = max(
            findings.longest_contribution, float(np.sqrt(np.diag(overlap).max())) / mu
        )


def replay(
    bench: Bench, observed: ObservedRun, background: InMemorySource, candidates: CandidateRecords
) -> ReplayFindings:
    """What the strongest attacker learns from a run."""
    with temporary_folder() as folder:
        vaults = AdjacentVaults.of(
            background, candidates, lambda records: bench.vault(records, folder)[0]
        )
        vault = ReplayVault(bench, observed, vaults, candidates.inside)
        bench.run(vault)
    return vault.findings
