"""The strongest attacker: knows every row but the one in question, and replays what it saw.

Given the answers of a run, everything else in a method is public arithmetic. So whoever knows the
other rows can run the method again with those answers in place of the vault's, and see for each
stage what was asked, what all rows add up to with the row in question and without it, and so what
that row changes. What is left of the answer is noise, or noise and that change. The sums are those
of real vaults, mapped, viewed and added up as the run's was: were a record to change what another
one adds, it would show here.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.audit.adjacent_datasets import Rows
from understudy.audit.bench import Bench, Observed, workplace
from understudy.core.errors import ConfigError, RunError
from understudy.core.types import Embeddings, Receipt, StageReceipt, Vector
from understudy.metrics.noise_checks import StageNoise
from understudy.privacy.queries import Query
from understudy.privacy.vault import Transform, Vault

_SINGLED = 3
"""Candidates of a run whose effect is taken from the sums with and without them.

Each costs a pass over all rows. With more candidates than that, all of them together are held
against the sum of what each adds by itself, so that a record which moves another is found anyway.
"""


class Parted(RunError):
    """The replay asks for something else than the run did, although it saw the same answers.

    Then what is asked depends on private rows otherwise than through noisy answers.
    """


@dataclass
class Findings:
    """What a replay found out.

    Attributes:
        towards: (m,) log likelihood ratio of each candidate being in, over all stages, were half
            of each other one there.
        overlap: (m, m) inner products of what the candidates add, in stated standard deviations.
        noise: Of each stage, in order.
        longest: The longest contribution over the stated sensitivity.
        dependence: How far the sums are from a sum of what each record adds by itself, over the
            stated sensitivity: 0 where records are independent.
        stages: Receipts of the stages gone through.
    """

    towards: Vector
    overlap: Vector
    noise: dict[str, StageNoise] = field(default_factory=dict)
    longest: float = 0.0
    dependence: float = 0.0
    stages: list[StageReceipt] = field(default_factory=list)

    @classmethod
    def about(cls, candidates: int) -> Findings:
        """Nothing yet."""
        return cls(np.zeros(candidates), np.zeros((candidates, candidates)))

    @property
    def squares(self) -> float:
        """Sum of the squared noise, in stated variances."""
        return sum(noise.squares for noise in self.noise.values())

    @property
    def numbers(self) -> int:
        """How many numbers that is of."""
        return sum(len(noise.steps) for noise in self.noise.values())

    @property
    def scores(self) -> Vector:
        """(m,) how much each candidate looks as if it were in, the others taken out.

        The linear estimate of least squared error of whether each is there, a fair coin's choice
        with variance 1/4; in units in which a candidate that overlaps with none scores `towards`.
        """
        each = self.overlap + 4 * np.eye(len(self.towards))
        return np.asarray(np.linalg.solve(each, self.towards) * np.diag(each))


@dataclass(frozen=True)
class Candidates:
    """Rows whose presence is in question, each a unit.

    Attributes:
        rows: (m,) the rows; each is in or out.
        instead: What is there where a row is out, for replace-one; None: nothing.
        inside: (m,) which were in: what the owner knows, and the attacker does not.
    """

    rows: Rows
    instead: Rows | None
    inside: NDArray[np.bool_]

    def there(self) -> Rows:
        """The rows that were in, and what was there instead of the others."""
        present = self.rows.only(self.inside)
        return (
            present if self.instead is None else present.and_also(self.instead.only(~self.inside))
        )

    def joined(self, known: Rows) -> Rows:
        """The whole dataset: what was there, then the known rows.

        In front, so that a row more or less moves every known row to another place of its batch.
        """
        return self.there().and_also(known)

    def flipped(self, number: int) -> Candidates:
        """The same where one of them was in instead of out, or out instead of in."""
        inside = self.inside.copy()
        inside[number] = not inside[number]
        return dataclasses.replace(self, inside=inside)

    def nobody(self) -> Candidates:
        """The same where none was in."""
        return dataclasses.replace(self, inside=np.zeros_like(self.inside))


@dataclass(frozen=True)
class Worlds:
    """Datasets that differ in candidates, each in a vault of its own, mapped as the run's was.

    Attributes:
        whole: D, the rows of the run.
        rows: The candidates alone.
        instead: What is there instead of them alone, for replace-one.
        flipped: By number of a candidate: D without it where it was in, with it where it was out.
        nobody: D without any candidate; None where all of them are flipped.
    """

    whole: Vault
    rows: Vault
    instead: Vault | None
    flipped: Mapping[int, Vault]
    nobody: Vault | None

    @classmethod
    def of(cls, known: Rows, candidates: Candidates, make: Callable[[Rows], Vault]) -> Worlds:
        """Of a run's rows; of many candidates, `_SINGLED` by chance are flipped."""
        count = len(candidates.inside)
        singled = np.random.default_rng().permutation(count)[:_SINGLED].tolist()
        return cls(
            make(candidates.joined(known)),
            make(candidates.rows),
            None if candidates.instead is None else make(candidates.instead),
            {number: make(candidates.flipped(number).joined(known)) for number in singled},
            None if len(singled) == count else make(candidates.nobody().joined(known)),
        )

    def through(self, change: Callable[[Vault], Vault]) -> Worlds:
        """All of them through an encoder or a view."""
        return Worlds(
            change(self.whole),
            change(self.rows),
            None if self.instead is None else change(self.instead),
            {number: change(vault) for number, vault in self.flipped.items()},
            None if self.nobody is None else change(self.nobody),
        )


def _exact(vault: Vault, query: Query, grid: float) -> NDArray[np.int64]:
    """The sum of a vault without noise, by its own engine and blocks."""
    return vault._exact(query, grid)


def _each(vault: Vault, query: Query, grid: float) -> NDArray[np.int64]:
    """What each row of a vault adds by itself, each a unit: (n, slots, width)."""
    place = vault._position
    if place is None:
        raise ConfigError("images hold no numbers to add up: map the vault with an encoder first")
    sums = []
    for values, labels, _ in vault._inside.rows[place].blocks():
        rows = vault._transform(values)
        cells = labels if vault._labelled else np.zeros_like(labels)
        parts = (slice(i, i + 1) for i in range(len(labels)))
        sums += [query.integer_sum(rows[part], cells[part], None, grid) for part in parts]
    return np.stack(sums)


class Replay(Vault):
    """A vault that gives the answers of a run that is over, and takes notes.

    Args:
        bench: The method.
        observed: What was seen of the run.
        worlds: The run's rows, with and without the candidates.
        inside: (m,) which candidates were in.
    """

    __slots__ = ("_bench", "_observed", "_worlds", "findings", "inside")

    def __init__(
        self, bench: Bench, observed: Observed, worlds: Worlds, inside: NDArray[np.bool_]
    ) -> None:
        self._bench, self._observed, self._worlds = bench, observed, worlds
        self.inside = inside
        self.findings = Findings.about(len(inside))

    def _through(self, change: Callable[[Vault], Vault]) -> Replay:
        other = Replay(self._bench, self._observed, self._worlds.through(change), self.inside)
        other.findings = self.findings
        return other

    def close(self) -> None:
        """Nothing of anybody's is held."""

    def map(self, encode: Callable[[NDArray[Any]], Embeddings], **options: Any) -> Vault:
        """As of a vault."""
        return self._through(lambda vault: vault.map(encode, **options))

    def embedded(self) -> Vault:
        """As of a vault."""
        return self._through(lambda vault: vault.embedded())

    def view(self, transform: Transform) -> Vault:
        """As of a vault."""
        return self._through(lambda vault: vault.view(transform))

    def unconditional(self) -> Vault:
        """As of a vault."""
        return self._through(lambda vault: vault.unconditional())

    def noise_sd(self, query: Query, *, stage: str) -> float:
        """As of a vault."""
        plan, adjacency = self._bench.plan, self._bench.unit.adjacency
        return query.sensitivity(adjacency) / plan.stage_mu(stage)

    def receipt(self) -> Receipt:
        """As of a vault."""
        return dataclasses.replace(self._observed.receipt, stages=tuple(self.findings.stages))

    def release(self, query: Query, *, stage: str) -> Vector:
        """The run's own answer.

        Raises:
            Parted: It is the answer to another question.
        """
        answer = self._observed.answers.get(stage)
        if answer is None or answer.query != query.fingerprint():
            raise Parted(f"{stage}: asked for something else than the run was asked for")
        sigma = self.noise_sd(query, stage=stage)
        grid = query.grid(sigma)
        weights = np.ones(1) if query.weights is None else query.weights
        # From grid steps to stated standard deviations of the noise.
        scale: Vector = np.asarray(weights * (grid / sigma), dtype=np.float64)
        exact = _exact(self._worlds.whole, query, grid)
        steps = answer.noisy - exact
        self.findings.noise[stage] = StageNoise(steps.ravel(), (steps * scale).ravel())
        moves, differences = self._moves(query, grid, exact)
        mu = self._bench.plan.stage_mu(stage)
        self._note(stage, (moves * scale).reshape(len(moves), -1), mu)
        apart = max((float(np.linalg.norm(one * scale)) for one in differences), default=0.0)
        self.findings.dependence = max(self.findings.dependence, apart / mu)
        self.findings.stages += [one for one in self._observed.receipt.stages if one.stage == stage]
        return np.asarray(answer.noisy * grid, dtype=np.float64)

    def _moves(
        self, query: Query, grid: float, exact: NDArray[np.int64]
    ) -> tuple[NDArray[np.int64], list[NDArray[np.int64]]]:
        """What each candidate changes by being in, and where that is not what it adds by itself.

        Args:
            query: What is asked.
            grid: The grid step.
            exact: (slots, width) the sum of the run's rows.

        Returns:
            (m, slots, width) the changes, from the sums of D and of D without the candidate where
            both are known; and the differences of such changes to what rows add by themselves.
        """
        worlds, inside = self._worlds, self.inside
        moves = _each(worlds.rows, query, grid)
        if worlds.instead is not None:
            moves = moves - _each(worlds.instead, query, grid)
        differences = []
        if worlds.nobody is not None:
            together = exact - _exact(worlds.nobody, query, grid)
            differences.append(together - moves[inside].sum(axis=0))
        for number, vault in worlds.flipped.items():
            change = (exact - _exact(vault, query, grid)) * (1 if inside[number] else -1)
            differences.append(change - moves[number])
            moves[number] = change
        return moves, differences

    def _note(self, stage: str, moves: Vector, mu: float) -> None:
        """Add a stage to the findings.

        Args:
            stage: Its name.
            moves: (m, D) what each candidate changes, in standard deviations of the noise.
            mu: What the longest of them may be.
        """
        findings = self.findings
        # What the answer holds beyond the sum without any candidate.
        left = findings.noise[stage].scaled + moves[self.inside].sum(axis=0)
        overlap = moves @ moves.T
        # Gaussian log likelihood ratio; of the other candidates, half are expected to be in.
        findings.towards += moves @ (left - moves.sum(axis=0) / 2)
        findings.overlap += overlap
        findings.longest = max(findings.longest, float(np.sqrt(np.diag(overlap).max())) / mu)


def replay(bench: Bench, observed: Observed, known: Rows, candidates: Candidates) -> Findings:
    """What the strongest attacker finds out from a run.

    Raises:
        Parted: The run's questions do not follow from its answers.
    """
    with workplace() as place:
        worlds = Worlds.of(known, candidates, lambda rows: bench.vault(rows, place)[0])
        vault = Replay(bench, observed, worlds, candidates.inside)
        bench.run(vault)
    return vault.findings
