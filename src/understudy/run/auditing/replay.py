"""The strongest attacker: knows every row but the one in question, and replays what it saw.

Given the answers of a run, everything else in a method is public arithmetic. So whoever knows the
other rows can run the method again with those answers in place of the vault's, and see for each
stage what was asked, what the rows it knows add up to, and what the row in question would add. What
is left of the answer is noise, or noise and that row.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import RunError
from understudy.core.types import Embeddings, Labels, Receipt, StageReceipt, Vector
from understudy.privacy.queries import Query
from understudy.privacy.vault import Transform, Vault
from understudy.run.auditing.neighbours import Rows
from understudy.run.auditing.runs import Bench, Observed

_AT_ONCE = 512


class Parted(RunError):
    """The replay asks for something else than the run did, although it saw the same answers.

    Then what is asked depends on private rows otherwise than through noisy answers.
    """


@dataclass(frozen=True)
class Seen:
    """Rows that the attacker knows, as they come out of a method's maps and views.

    Attributes:
        values: (n, ...) as they are now.
        labels: (n,) int64.
        groups: (n,) unit of each, non-decreasing; None: every row its own.
    """

    values: NDArray[Any]
    labels: Labels
    groups: NDArray[np.int64] | None

    @classmethod
    def of(cls, rows: Rows, most: int) -> Seen:
        """Rows by their units, of each at most so many: as a vault keeps them."""
        if rows.units is None:
            return cls(rows.values, rows.labels, None)
        codes = np.unique(rows.units, return_inverse=True)[1]
        order = np.argsort(codes, kind="stable")
        grouped = codes[order]
        kept = np.arange(len(order)) - np.searchsorted(grouped, grouped) < most
        return cls(rows.values[order[kept]], rows.labels[order[kept]], grouped[kept])

    def mapped(self, encode: Transform) -> Seen:
        """Through an encoder or a view."""
        if len(self.labels) == 0:
            return self
        parts = [
            encode(self.values[start : start + _AT_ONCE])
            for start in range(0, len(self.labels), _AT_ONCE)
        ]
        return dataclasses.replace(self, values=np.concatenate(parts))

    def single(self) -> list[Seen]:
        """Each row by itself; each is a unit of its own."""
        return [
            Seen(self.values[i : i + 1], self.labels[i : i + 1], None)
            for i in range(len(self.labels))
        ]

    def unlabelled(self) -> Seen:
        """The same with every label 0."""
        return dataclasses.replace(self, labels=np.zeros_like(self.labels))

    def integer_sum(self, query: Query, grid: float) -> NDArray[np.int64]:
        """What they add up to, exactly."""
        total = np.zeros((query.slots, query.width), dtype=np.int64)
        if len(self.labels):
            total += query.integer_sum(self.values, self.labels, self.groups, grid)
        return total


@dataclass
class Findings:
    """What a replay found out.

    Attributes:
        towards: (m,) log likelihood ratio of each candidate being in, over all stages, were half
            of each other one there.
        overlap: (m, m) inner products of what the candidates add, in stated standard deviations.
        squares: Sum of the squared noise, in stated standard deviations.
        numbers: How many numbers that is of.
        longest: The longest contribution over the stated sensitivity.
        stages: Receipts of the stages gone through.
    """

    towards: Vector
    overlap: Vector
    squares: float = 0.0
    numbers: int = 0
    longest: float = 0.0
    stages: list[StageReceipt] = field(default_factory=list)

    @classmethod
    def about(cls, candidates: int) -> Findings:
        """Nothing yet."""
        return cls(np.zeros(candidates), np.zeros((candidates, candidates)))

    @property
    def scores(self) -> Vector:
        """(m,) how much each candidate looks as if it were in, the others taken out.

        The linear estimate of least squared error of whether each is there, a fair coin's choice
        with variance 1/4; in units in which a candidate that overlaps with none scores `towards`.
        """
        each = self.overlap + 4 * np.eye(len(self.towards))
        return np.asarray(np.linalg.solve(each, self.towards) * np.diag(each))

    def add(self, other: Findings | None) -> None:
        """Take over what is not about single candidates; None: nothing was found."""
        if other is not None:
            self.squares += other.squares
            self.numbers += other.numbers
            self.longest = max(self.longest, other.longest)


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
        found = self.rows.only(self.inside)
        return found if self.instead is None else found.and_also(self.instead.only(~self.inside))


class Replay(Vault):
    """A vault that gives the answers of a run that is over, and takes notes.

    Args:
        bench: The method.
        observed: What was seen of the run.
        known: Rows that were in for sure.
        candidates: Rows that may have been in.
    """

    __slots__ = ("_bench", "_instead", "_known", "_observed", "_rows", "findings", "truth")

    def __init__(
        self, bench: Bench, observed: Observed, known: Rows, candidates: Candidates
    ) -> None:
        most = bench.unit.max_rows
        self._bench, self._observed = bench, observed
        self._known = Seen.of(known, most)
        self._rows = Seen.of(candidates.rows, most)
        self._instead = None if candidates.instead is None else Seen.of(candidates.instead, most)
        self.truth = candidates.inside
        self.findings = Findings.about(len(candidates.inside))

    def _through(self, change: Callable[[Seen], Seen]) -> Replay:
        other = Replay.__new__(Replay)
        for name in Replay.__slots__:
            setattr(other, name, getattr(self, name))
        other._known, other._rows = change(self._known), change(self._rows)
        other._instead = None if self._instead is None else change(self._instead)
        return other

    def close(self) -> None:
        """Nothing of anybody's is held."""

    def map(self, encode: Callable[[NDArray[Any]], Embeddings], *, batch: int = 512) -> Vault:
        """As of a vault."""
        del batch
        return self._through(lambda seen: seen.mapped(encode))

    def embedded(self) -> Vault:
        """As of a vault."""
        return self

    def view(self, transform: Transform) -> Vault:
        """As of a vault."""
        return self._through(lambda seen: seen.mapped(transform))

    def unconditional(self) -> Vault:
        """As of a vault."""
        return self._through(Seen.unlabelled)

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
        moves, without = self._moves(query, grid)
        left: Vector = (answer.noisy - self._known.integer_sum(query, grid) - without) * scale
        each: Vector = (moves * scale).reshape(len(moves), -1)
        self._note(left.ravel(), each, self._bench.plan.stage_mu(stage))
        self.findings.stages += [one for one in self._observed.receipt.stages if one.stage == stage]
        return np.asarray(answer.noisy * grid, dtype=np.float64)

    def _moves(self, query: Query, grid: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """What each candidate changes by being in, (m, slots, width); the sum of none being in."""
        moves = np.stack([one.integer_sum(query, grid) for one in self._rows.single()])
        if self._instead is None:
            return moves, np.zeros_like(moves[0])
        others = np.stack([one.integer_sum(query, grid) for one in self._instead.single()])
        return moves - others, np.asarray(others.sum(axis=0))

    def _note(self, left: Vector, moves: Vector, mu: float) -> None:
        """Add a stage to the findings.

        Args:
            left: (D,) the answer less what it is where no candidate is in.
            moves: (m, D) what each candidate adds.
            mu: What the longest of them may be.
        """
        found, noise = self.findings, left - moves[self.truth].sum(axis=0)
        overlap = moves @ moves.T
        # Gaussian log likelihood ratio; of the other candidates, half are expected to be in.
        found.towards += moves @ (left - moves.sum(axis=0) / 2)
        found.overlap += overlap
        found.squares += float(noise @ noise)
        found.numbers += len(noise)
        found.longest = max(found.longest, float(np.sqrt(np.diag(overlap).max())) / mu)


def replay(bench: Bench, observed: Observed, known: Rows, candidates: Candidates) -> Findings:
    """What the strongest attacker finds out from a run.

    Raises:
        Parted: The run's questions do not follow from its answers.
    """
    vault = Replay(bench, observed, known, candidates)
    bench.run(vault)
    return vault.findings
