"""What a run may spend, what it has spent, and the releases it has already paid for."""

from __future__ import annotations

import hashlib
import json
import math
import os
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError, RunError
from understudy.core.files import owner_file
from understudy.core.types import Receipt, StageReceipt, Vector
from understudy.privacy import noise
from understudy.privacy.accounting import (
    MAX_SIZE,
    MIN_SCALE,
    Gaussian,
    discretisation_slack,
    epsilon_of,
    run_event,
)
from understudy.privacy.budget import Budget, normalised_shares
from understudy.privacy.ledger.ledger import Charge, Ledger
from understudy.privacy.ledger.rules import rest_of_run
from understudy.privacy.queries import Query
from understudy.privacy.unit import Unit

_ROUNDING = 1e-12  # shares are weights over their sum, so their own sum is 1 but for rounding

_OFF = 1e-3  # of a stated epsilon: that of its stages may differ by so much


def run_mu_of(budget: Budget) -> float:
    """The mu that a run with this budget may spend, slack already taken off.

    Raises:
        ConfigError: An epsilon too small to release anything.
    """
    return run_event(budget.epsilon, budget.delta).mu


@dataclass(frozen=True)
class Plan:
    """A run's budget divided among its stages.

    Every stage is a Gaussian release with mu_k = mu sqrt(share_k), so that the run composes to mu
    exactly (sum mu_k^2 = mu^2). The classes and clusters of a stage are one release.

    Args:
        budget: (epsilon, delta) of the run.
        shares: Stage to its part of mu^2: each positive, at most 1 together. They are copied, and
            cannot be changed afterwards.

    Raises:
        ConfigError: A share that is not a positive number, or shares that spend more than mu^2.
    """

    budget: Budget
    shares: Mapping[str, float]

    def __post_init__(self) -> None:
        bad = {name: share for name, share in self.shares.items() if not 0 < share < math.inf}
        if bad:
            raise ConfigError(
                f"a stage's share of the budget must be above 0 and finite, found {bad}"
            )
        total = math.fsum(self.shares.values())
        if not 0 < total <= 1 + _ROUNDING:
            raise ConfigError(
                f"the shares of a plan must sum to 1 at most, or it would spend more than its "
                f"budget, found {total:.12g} over {sorted(self.shares)}: use Plan.of, which scales "
                "weights to shares"
            )
        object.__setattr__(self, "shares", MappingProxyType(dict(self.shares)))

    @classmethod
    def of(cls, budget: Budget, weights: Mapping[str, float]) -> Plan:
        """A plan with shares in proportion to ``weights``."""
        return cls(budget, normalised_shares(weights))

    @cached_property
    def mu(self) -> float:
        """The run's mu, slack already taken off."""
        return run_mu_of(self.budget)

    @property
    def slack(self) -> float:
        """Part of epsilon kept for the noise being discrete."""
        return discretisation_slack(MAX_SIZE, MIN_SCALE)

    def stage_mu(self, stage: str) -> float:
        """mu of one stage.

        Raises:
            ConfigError: A stage that is not in the plan.
        """
        if stage not in self.shares:
            raise ConfigError(f"no stage {stage!r} in the plan; it has {sorted(self.shares)}")
        return self.mu * math.sqrt(self.shares[stage])

    def receipt(self, unit: Unit) -> Receipt:
        """The guarantee of the plan before anything is released: queries and sizes are not known.

        Args:
            unit: The unit of protection.
        """
        stages = (
            StageReceipt(name, "", share, 1.0, 1 / self.stage_mu(name), self.stage_mu(name), 0)
            for name, share in self.shares.items()
        )
        epsilon, delta = self.budget.epsilon, self.budget.delta
        return Receipt(unit.name, unit.adjacency, epsilon, delta, self.slack, tuple(stages))

    def event(self, stage: str) -> Gaussian:
        """What a stage adds to the ledger."""
        return Gaussian(self.stage_mu(stage), self.slack * self.shares[stage])


class Account:
    """One run's dealings with the ledger, and its store of paid releases.

    Args:
        ledger: Where the dataset's spending is kept.
        dataset: The dataset's id in the ledger.
        unit: The unit of protection.
        plan: The run's budget and shares.
        folder: Where releases are stored; they are noisy, so they are no secret, but they stay with
            the owner.
        run: The run's id, the same when it is resumed.
        on_charge: Called once: when the plan is charged, or now where it was charged before.
    """

    def __init__(
        self,
        ledger: Ledger,
        dataset: str,
        unit: Unit,
        plan: Plan,
        folder: Path,
        run: str | None = None,
        on_charge: Callable[[], None] = lambda: None,
    ) -> None:
        self.unit, self.plan, self.run = unit, plan, run or uuid.uuid4().hex
        self._on_charge = on_charge
        self._ledger, self._dataset, self._folder = ledger, dataset, folder
        self._stages: dict[str, StageReceipt] = {}
        self._size = 0
        self._reserved = self._over = False
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in folder.glob("*.part"):
            self._settle(part)
        if any(ledger.attempts(self.run, stage) for stage in plan.shares):
            self._announce()

    def _announce(self) -> None:
        """Say that the plan was charged, once."""
        on_charge, self._on_charge = self._on_charge, lambda: None
        on_charge()

    def reserve(self) -> None:
        """Charge the whole plan in one transaction, before any noise is drawn.

        So of two runs that race for the last of a budget one gets all it needs and the other
        nothing, and no run is refused halfway. A stage that is charged already is not again.

        Raises:
            BudgetRefused: The dataset's budget does not cover the plan. Nothing was charged.
        """
        if self._over:
            raise RunError("this run was settled: nothing more is released for it")
        if not self._reserved:
            self._charge(dict.fromkeys(self.plan.shares, 1))
            self._reserved = True
            self._announce()

    def check(self) -> None:
        """Raise now what `reserve` would raise; charge nothing."""
        charges = self._charges(dict.fromkeys(self.plan.shares, 1))
        self._ledger.check(
            self._dataset, charges, unit=self.unit.name, adjacency=self.unit.adjacency
        )

    def settle(self, successor: Account | None = None) -> Receipt:
        """End the run early: what it was charged and never released is returned to the budget.

        The releases of a run are chosen one after the other by what was released before, so what
        counts is the sum of mu^2 of those that were made (a privacy filter: Smith and Thakurta
        2022). In the same transaction a successor is charged its whole plan. Once more, or resumed
        after a kill, it changes nothing.

        Args:
            successor: The account of another run on the same dataset; None: nothing is charged.

        Returns:
            The guarantee of what was released.

        Raises:
            BudgetRefused: A budget was lowered since, and does not cover the successor.
        """
        charges = []
        if successor is not None:
            charges = successor._charges(dict.fromkeys(successor.plan.shares, 1))
        self._ledger.charge(
            self._dataset,
            charges,
            unit=self.unit.name,
            adjacency=self.unit.adjacency,
            returning=self.run,
        )
        self._over = True
        if successor is not None:
            successor._reserved = True
        return self.released()

    def released(self) -> Receipt:
        """The guarantee of what was released so far, and of nothing else; of a resumed run too."""
        stages = []
        for stage in self.plan.shares:
            path = self._folder / f"{stage}.npz"
            if path.exists():
                stages.append(StageReceipt(**_read(path)[1]["receipt"]))
        events = [self.plan.event(one.stage) for one in stages]
        budget, slack = self.plan.budget, math.fsum(event.slack for event in events)
        epsilon = epsilon_of(events, budget.delta)
        adjacency = self.unit.adjacency
        return Receipt(self.unit.name, adjacency, epsilon, budget.delta, slack, tuple(stages))

    @property
    def rest(self) -> float:
        """Epsilon of a run that may follow, which with what was released costs no more than this.

        Rounded down; 0.0 where nothing is left.
        """
        events = [self.plan.event(stage.stage) for stage in self.released().stages]
        return rest_of_run(self.plan.budget.epsilon, self.plan.budget.delta, events)

    def _charges(self, attempts: Mapping[str, int]) -> list[Charge]:
        return [
            Charge(self.run, stage, self.plan.event(stage), {"share": self.plan.shares[stage]}, n)
            for stage, n in attempts.items()
        ]

    def _charge(self, attempts: Mapping[str, int]) -> None:
        charges = self._charges(attempts)
        self._ledger.charge(
            self._dataset, charges, unit=self.unit.name, adjacency=self.unit.adjacency
        )

    def release(
        self, query: Query, stage: str, total: Callable[[float], NDArray[np.int64]]
    ) -> Vector:
        """The noisy sum of a query: the stored one where there is one, else a new one.

        Args:
            query: What is asked.
            stage: Its stage in the plan; each stage is released once.
            total: Grid step to the exact integer sum, (slots, width).

        Returns:
            (slots, width) float64.

        Raises:
            RunError: The stage was released for another query, or with another plan, noise, unit
                or adjacency.
            ConfigError: Noise for which the accounting would not hold. Nothing was charged.
            BudgetRefused: A release that was lost has to be paid again, and cannot be.
        """
        sigma, mu = self.sigma(query, stage), self.plan.stage_mu(stage)
        share = self.plan.shares[stage]
        receipt = StageReceipt(stage, query.description, share, mu * sigma, sigma, mu, query.size)
        self._admit(stage, query.size)
        grid = _grid(query, sigma)
        drawn = self._conditions(query, sigma, grid)
        path = self._folder / f"{stage}.npz"
        if path.exists():
            noisy = self._stored(path, drawn)
        else:
            exact = total(grid)
            self.reserve()
            attempt = self._pay(stage)
            noisy = _add_noise(exact, query, sigma / grid)
            self._store(
                path, noisy, {"drawn": drawn, "attempt": attempt, "receipt": asdict(receipt)}
            )
        self._stages[stage] = receipt
        return np.asarray(noisy * grid, dtype=np.float64)

    def sigma(self, query: Query, stage: str) -> float:
        """Standard deviation of the noise for a query as a stage, in the units of its sum."""
        return query.sensitivity(self.unit.adjacency) / self.plan.stage_mu(stage)

    def _admit(self, stage: str, size: int) -> None:
        if stage in self._stages:
            raise RunError(f"stage {stage!r} was released already: each stage is released once")
        if self._size + size > MAX_SIZE:
            raise ConfigError(
                f"this run would release more than {MAX_SIZE} numbers; use fewer dimensions, "
                "clusters, or a smaller covariance model"
            )
        self._size += size

    def _pay(self, stage: str) -> int:
        """Make sure of a charge that no release was drawn for yet; its attempt number."""
        attempt = max(1, self._ledger.attempts(self.run, stage))
        if self._ledger.released(self.run, stage, attempt) is not None:
            attempt += 1  # released before, and the result is gone: spent is spent
        self._charge({stage: attempt})
        return attempt

    def _conditions(self, query: Query, sigma: float, grid: float) -> dict[str, Any]:
        """All that an answer depends on besides the private rows, as JSON values.

        A stored answer is given back for these and no others.
        """
        return {
            "query": query.fingerprint(),
            "sigma": sigma,
            "grid": grid,
            "epsilon": self.plan.budget.epsilon,
            "delta": self.plan.budget.delta,
            "shares": dict(self.plan.shares),
            "unit": self.unit.name,
            "adjacency": self.unit.adjacency,
        }

    def _store(self, path: Path, noisy: NDArray[np.int64], note: dict[str, Any]) -> None:
        """Write the release so that it is there whole or not at all, and tell the ledger.

        Killed anywhere in here, a resumed run finds either a whole file, which `_settle` takes up,
        or none that was ever whole: one charge never pays for two answers.
        """
        part = path.with_suffix(".part")
        with owner_file(part, "wb") as file:
            np.savez(file, noisy=noisy, note=np.array(json.dumps(note)))
            file.flush()
            os.fsync(file.fileno())
        self._record(path.stem, note["attempt"], noisy)
        part.replace(path)

    def _settle(self, part: Path) -> None:
        """Take up what a killed run had written whole; remove what it had not."""
        try:
            noisy, note = _read(part)
        except _UNREADABLE:
            part.unlink()
        else:
            self._record(part.stem, note["attempt"], noisy)
            part.replace(part.with_suffix(".npz"))

    def _record(self, stage: str, attempt: int, noisy: NDArray[np.int64]) -> None:
        self._ledger.record_release(self._dataset, self.run, stage, attempt, _digest(noisy))

    def _stored(self, path: Path, drawn: Mapping[str, Any]) -> NDArray[np.int64]:
        try:
            noisy, note = _read(path)
        except _UNREADABLE as error:
            raise RunError(
                f"{path}: not a stored release; remove it to pay for a new one"
            ) from error
        other = [name for name, value in drawn.items() if note["drawn"].get(name) != value]
        if other:
            what = "query" if "query" in other else ", ".join(other)
            raise RunError(
                f"{path}: stored for another {what}: the run's settings, models, data or version "
                "of Understudy changed since, or the number of threads (OMP_NUM_THREADS), on which "
                "the last digits depend. Go on as it began, or start a new run in another folder"
            )
        self._record(path.stem, note["attempt"], noisy)
        return np.asarray(noisy, dtype=np.int64)

    def receipt(self) -> Receipt:
        """What was released so far, and the guarantee of the whole plan."""
        return Receipt(
            unit=self.unit.name,
            adjacency=self.unit.adjacency,
            epsilon=self.plan.budget.epsilon,
            delta=self.plan.budget.delta,
            slack=self.plan.slack,
            stages=tuple(self._stages.values()),
        )


def inherited(receipt: Receipt, origin: str) -> Receipt:
    """The guarantee of a release as what is made of it states it: stages that were paid for there.

    Args:
        receipt: Of the release.
        origin: What the release is to the run that is made of it, such as ``"candidates"``.
    """
    stages = (
        replace(stage, stage=f"{origin}: {stage.stage}", origin=origin) for stage in receipt.stages
    )
    return replace(receipt, stages=tuple(stages))


def composed(receipts: Sequence[Receipt], delta: float) -> Receipt:
    """The guarantee of several releases together, as if all were about the same records.

    Mu composes as the root of the sum of its squares (Dong, Roth and Su 2022), and epsilon is read
    off at ``delta``. A single receipt stays what it is.

    Args:
        receipts: One or more, each of differential privacy.
        delta: Of what is returned.

    Raises:
        ConfigError: Units or adjacencies that differ, which do not compose; or a receipt whose
            stages do not account for its epsilon.
    """
    first = receipts[0]
    if len(receipts) == 1 and first.delta == delta:
        return first
    for other in receipts:
        if (other.unit, other.adjacency) != (first.unit, first.adjacency):
            raise ConfigError(
                f"one guarantee protects one {first.unit} under {first.adjacency} and another one "
                f"{other.unit} under {other.adjacency}: the two do not compose. Nothing was spent. "
                "Take releases of the same unit and adjacency as the run"
            )
        _require_accounted(other)
    squares = math.fsum(stage.mu**2 for receipt in receipts for stage in receipt.stages)
    stages = tuple(
        replace(stage, share=stage.mu**2 / squares)
        for receipt in receipts
        for stage in receipt.stages
    )
    slack = math.fsum(receipt.slack for receipt in receipts)
    epsilon = epsilon_of([Gaussian(math.sqrt(squares), slack)], delta)
    return Receipt(first.unit, first.adjacency, epsilon, delta, slack, stages)


def _require_accounted(receipt: Receipt) -> None:
    """Refuse a receipt of another epsilon than its stages come to.

    Raises:
        ConfigError: As said.
    """
    events = [Gaussian(stage.mu) for stage in receipt.stages]
    reached = epsilon_of(events, receipt.delta) + receipt.slack
    if not math.isclose(reached, receipt.epsilon, rel_tol=_OFF, abs_tol=_OFF):
        raise ConfigError(
            f"a release states epsilon {receipt.epsilon:g} at delta {receipt.delta:g}, and its "
            f"stages come to {reached:g}: its privacy.json was changed, or is not whole"
        )


def _grid(query: Query, sigma: float) -> float:
    """The grid step of a query, once the noise of each of its numbers is known to be enough.

    Raises:
        ConfigError: Noise for which the accounting would not hold.
    """
    grid = query.grid(sigma)
    for weight in (1.0,) if query.weights is None else np.unique(query.weights):
        noise.require_scale(sigma / grid / float(weight))
    return grid


def _add_noise(exact: NDArray[np.int64], query: Query, scale: float) -> NDArray[np.int64]:
    """Discrete Gaussian noise of ``scale`` grid steps, smaller where the query's weights say so."""
    if query.weights is None:
        return noise.add_discrete_gaussian(exact.ravel(), scale).reshape(exact.shape)
    noisy = np.empty_like(exact)
    for weight in np.unique(query.weights):
        columns = query.weights == weight
        part = exact[:, columns]
        noisy[:, columns] = noise.add_discrete_gaussian(
            part.ravel(), scale / float(weight)
        ).reshape(part.shape)
    return noisy


_UNREADABLE = (OSError, ValueError, KeyError, TypeError, BadZipFile, EOFError)


def _read(path: Path) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """A stored release and its note; one of `_UNREADABLE` where it is no whole one."""
    # Opened here, because NumPy leaves a damaged file open.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        noisy, note = archive["noisy"], json.loads(str(archive["note"]))
    drawn = note["drawn"] if "drawn" in note else {"query": note["query"]}  # 0.1.0: that alone
    receipt = note.get("receipt")
    return noisy, {"drawn": dict(drawn), "attempt": int(note["attempt"]), "receipt": receipt}


def _digest(noisy: NDArray[np.int64]) -> str:
    return hashlib.sha256(np.ascontiguousarray(noisy).tobytes()).hexdigest()
