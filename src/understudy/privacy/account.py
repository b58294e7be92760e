"""One run's dealings with the ledger, and the releases that it has paid for."""

from __future__ import annotations

import hashlib
import json
import math
import os
import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from understudy.core.damaged_files import NO_LITERAL, ZIP_DAMAGE
from understudy.core.errors import ConfigError, RunError, SecondRelease
from understudy.core.files import owner_file
from understudy.core.types import Receipt, StageReceipt, Vector
from understudy.privacy import noise
from understudy.privacy.accounting import MAX_SIZE, epsilon_of, selection_parameter
from understudy.privacy.budget_plan import Plan
from understudy.privacy.ledger.ledger import Charge, Ledger
from understudy.privacy.ledger.rules import rest_of_run
from understudy.privacy.queries import Query
from understudy.privacy.unit import Unit

T = TypeVar("T")


@dataclass(frozen=True)
class _Terms:
    """All that an answer depends on besides the private records.

    Attributes:
        receipt: Of the stage.
        step: Of a stage of samples, from 1; 0: the stage is one release.
        grid: The grid step.
        conditions: JSON values: a stored answer is given back for these and no others.
        shape: Of the answer, (slots, width).
    """

    receipt: StageReceipt
    step: int
    grid: float
    conditions: Mapping[str, Any]
    shape: tuple[int, int]


class StoredReleases:
    """The answers that a run has paid for: noisy, so no secret, but they stay with the owner."""

    def __init__(self, unit: Unit, plan: Plan, folder: Path) -> None:
        plan.require_covers(unit)
        self.unit, self.plan, self._folder = unit, plan, folder
        self._stages: dict[str, StageReceipt] = {}
        self._steps: dict[str, int] = {}  # gone through so far, of a stage of samples

    def sigma(self, query: Query, stage: str) -> float:
        """Standard deviation of the noise for a query as a stage, in the units of its sum."""
        return query.sensitivity(self.unit.adjacency) / self.plan.stage_mu(stage)

    def stored_answer(self, query: Query, stage: str, step: int = 0) -> Vector:
        """The answer to a query, or to a step of it, (slots, width) float64, which must be there.

        Raises:
            RunError: It is missing, or was stored for another query.
        """
        terms = self._terms(query, stage, step)
        if not (path := self._path(stage, step)).exists():
            raise RunError(f"{path}: is missing: more samples need every answer of the run")
        return self._answer(self._stored(path, terms)[0], terms)

    def receipt(self) -> Receipt:
        """What was released or read back so far, and the guarantee of the whole plan."""
        return Receipt(
            unit=self.unit.name,
            adjacency=self.unit.adjacency,
            epsilon=self.plan.budget.epsilon,
            delta=self.plan.budget.delta,
            slack=self.plan.slack,
            stages=tuple(self._stages.values()),
            runs=self.plan.runs,
        )

    def _path(self, stage: str, step: int = 0) -> Path:
        return self._folder / (f"{stage}.{step}.npz" if step else f"{stage}.npz")

    def _terms(self, query: Query, stage: str, step: int = 0) -> _Terms:
        """What a query is answered by, once it is sure that the plan covers it.

        Raises:
            ConfigError: No such stage, too many numbers, or noise that the accounting does not
                cover.
            RunError: The stage was released already, or a step is out of order.
        """
        sigma, plan = self.sigma(query, stage), self.plan
        self._require_next(stage, step)
        sensitivity = sigma * plan.stage_mu(stage)
        receipt = plan.stage_receipt(stage, query.description, sensitivity, query.size)
        others = (one.size for name, one in self._stages.items() if name != stage)
        if sum(others) + receipt.size > MAX_SIZE:
            raise ConfigError(
                f"this run would release more than {MAX_SIZE} numbers; use fewer dimensions, "
                "clusters, parameters or steps, or a smaller covariance model"
            )
        grid, shape = query.grid(sigma), (query.slots, query.width)
        for weight in (1.0,) if query.weights is None else np.unique(query.weights):
            noise.require_scale(sigma / grid / float(weight))
        conditions = {
            "query": query.fingerprint(),
            "sigma": sigma,
            "grid": grid,
            "epsilon": self.plan.budget.epsilon,
            "delta": self.plan.budget.delta,
            "shares": dict(self.plan.shares),
            "unit": self.unit.name,
            "adjacency": self.unit.adjacency,
        }
        if stage in plan.sampling:
            conditions["sampling"] = [step, receipt.rate, receipt.steps]
        return _Terms(receipt, step, grid, conditions, shape)

    def _require_next(self, stage: str, step: int) -> None:
        """Refuse a stage that was gone through, or a step that is not the one after the last."""
        sampling = self.plan.sampling.get(stage)
        if sampling is None and (step or stage in self._stages):
            raise RunError(f"stage {stage!r} was released already: each stage is released once")
        if sampling is None:
            return
        due = self._steps.get(stage, 0) + 1
        if step != due or step > sampling.steps:
            raise RunError(
                f"stage {stage!r} has {sampling.steps} steps, each released once and in order: "
                f"{due} is next, found {step or 'a release of all units'}"
            )

    def _stored(self, path: Path, terms: _Terms) -> tuple[NDArray[np.int64], int]:
        """The stored noisy integers of a stage, and the attempt that paid for them."""
        noisy, note = _read_whole(path)
        stored = note["drawn"]
        other = [name for name, value in terms.conditions.items() if stored.get(name) != value]
        if other:
            what = "query" if "query" in other else ", ".join(other)
            raise RunError(
                f"{path}: stored for another {what}: the run's settings, models, data or version "
                "of Understudy changed since, or the number of threads (OMP_NUM_THREADS), on which "
                "the last digits depend. Go on as it began, or start a new run in another folder"
            )
        if noisy.dtype.kind != "i" or noisy.shape != terms.shape:
            raise RunError(f"{path}: holds {noisy.dtype} {noisy.shape}, and no answer to its query")
        return np.asarray(noisy, dtype=np.int64), note["attempt"]

    def _answer(self, noisy: NDArray[np.int64], terms: _Terms) -> Vector:
        """The answer in the units of the sum; from now on it is in the receipt."""
        self._stages[terms.receipt.stage] = terms.receipt
        self._steps[terms.receipt.stage] = terms.step
        return np.asarray(noisy * terms.grid, dtype=np.float64)


class Account(StoredReleases):
    """One run's dealings with the ledger, and its store of paid releases.

    A resumed run has the same ``run`` id. ``on_charge`` is called once: when the plan is charged,
    or now where it was charged before.
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
        super().__init__(unit, plan, folder)
        self.run = run or uuid.uuid4().hex
        self._ledger, self._dataset, self._on_charge = ledger, dataset, on_charge
        self._reserved = self._over = False
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for part in folder.glob("*.part"):
            self._settle(part)
        if any(ledger.attempts(self.run, stage) for stage in plan.events):
            self._announce()

    def _announce(self) -> None:
        """Say that the plan was charged, once."""
        on_charge, self._on_charge = self._on_charge, lambda: None
        on_charge()

    def reserve(self) -> None:
        """Charge the whole plan in one transaction, before any noise is drawn.

        So of two runs that race for the last of a budget one gets all it needs and the other
        nothing, and no run is refused halfway. A stage that is charged already is not again, and
        a selection that is charged already is over: two would be the best of more runs.

        Raises:
            BudgetRefused: The dataset's budget does not cover the plan. Nothing was charged.
            RunError: The run was settled; or is a selection that another process was charged for.
        """
        if self._over:
            raise RunError("this run was settled: nothing more is released for it")
        if not self._reserved:
            is_new = self._charge(self._plan_charges())
            if self.plan.runs is not None and not is_new:
                raise RunError(
                    "a copy of this run was charged and chooses settings, or has chosen some: with "
                    "this one, they would be chosen among more runs than were charged. Go on with "
                    "that copy, or start a new run in another folder"
                )
            self._reserved = True
            self._announce()

    def check(self) -> None:
        """Raise now what `reserve` would raise; charge nothing."""
        self._ledger.check(
            self._dataset, self._plan_charges(), unit=self.unit.name, adjacency=self.unit.adjacency
        )

    def settle(self, successor: Account | None = None) -> Receipt:
        """End the run early: what it was charged and never released is returned to the budget.

        The releases of a run are chosen one after the other by what was released before, so what
        counts is the sum of mu^2 of those that were made (a privacy filter: Smith and Thakurta
        2022). In the same transaction a successor is charged its whole plan. Once more, or resumed
        after a kill, it changes nothing.

        Args:
            successor: The account of another run on the same dataset; None: nothing is charged.

        Raises:
            BudgetRefused: A budget was lowered since, and does not cover the successor.
        """
        self._charge([] if successor is None else successor._plan_charges(), returning=self.run)
        self._over = True
        if successor is not None:
            successor._reserved = True
        return self.released()

    def released(self) -> Receipt:
        """The guarantee of what was released so far, and of nothing else; of a resumed run too.

        Raises:
            RunError: An answer was released and is gone, so that it would be left out.
        """
        stages = []
        for stage in self.plan.shares:
            step = int(stage in self.plan.sampling)
            path = self._path(stage, step)
            if path.exists():
                stages.append(StageReceipt(**_read_whole(path)[1]["receipt"]))
            else:
                self._require_unreleased(stage, step)
        events = [self.plan.event(one.stage) for one in stages]
        delta, slack = self.plan.budget.delta, math.fsum(event.slack for event in events)
        epsilon = epsilon_of(events, delta)
        return Receipt(self.unit.name, self.unit.adjacency, epsilon, delta, slack, tuple(stages))

    @property
    def rest(self) -> float:
        """Epsilon of a run that may follow, which with what was released costs no more than this.

        Rounded down; 0.0 where nothing is left.
        """
        events = [self.plan.event(stage.stage) for stage in self.released().stages]
        return rest_of_run(self.plan.budget.epsilon, self.plan.budget.delta, events)

    def release(
        self,
        query: Query,
        stage: str,
        total: Callable[[float, float], NDArray[np.int64]],
        step: int = 0,
    ) -> Vector:
        """The noisy sum of a query: the stored one where there is one, else a new one.

        Args:
            query: What is asked.
            stage: Of the plan.
            total: The exact sum by the grid and the rate at which units are sampled.
            step: Of a stage of samples (`Vault.sample`), from 1 and in order; 0: of all units.

        Returns:
            (slots, width) float64.

        Raises:
            RunError: The stage was released for another query, or with another plan, noise, unit
                or adjacency; a step is out of order, or its answer was released and is gone: all
                steps were paid for together, so no other one can be drawn.
            ConfigError: Noise for which the accounting would not hold. Nothing was charged.
            BudgetRefused: A release that was lost has to be paid again, and cannot be.
        """
        terms = self._terms(query, stage, step)
        if (path := self._path(stage, step)).exists():
            noisy, attempt = self._stored(path, terms)
            self._record(stage, attempt, noisy, step)
        else:
            if step:
                self._require_unreleased(stage, step)
            exact = total(terms.grid, terms.receipt.rate)
            self.reserve()
            attempt = self._pay(stage, step)
            noisy = _add_noise(exact, query, terms.receipt.sigma / terms.grid)
            self._store(noisy, attempt, terms)
        return self._answer(noisy, terms)

    def _require_unreleased(self, stage: str, step: int) -> None:
        """Refuse to go on without an answer that the ledger knows."""
        if self._ledger.released(self.run, stage, 1, step) is not None:
            raise RunError(
                f"{self._path(stage, step)}: is missing, and was released: without it the run "
                "would cost more than it states. Put it back, or start a new run in another folder"
            )

    def _plan_charges(self) -> list[Charge]:
        return [self._stage_charge(stage, 1) for stage in self.plan.events]

    def _stage_charge(self, stage: str, attempt: int) -> Charge:
        details = {"share": self.plan.shares.get(stage, 1.0)}
        return Charge(self.run, stage, self.plan.events[stage], details, attempt)

    def _charge(self, charges: Sequence[Charge], returning: str | None = None) -> bool:
        return self._ledger.charge(
            self._dataset,
            charges,
            unit=self.unit.name,
            adjacency=self.unit.adjacency,
            returning=returning,
        )

    def _pay(self, stage: str, step: int = 0) -> int:
        """Make sure of a charge that no release was drawn for yet; its attempt number.

        All steps of a stage are one attempt: what was lost of them is not drawn again. A selection
        is charged as a whole, and the ledger hears of no single answer.
        """
        if self.plan.runs is not None:
            return 1
        if step:
            self._charge([self._stage_charge(stage, 1)])
            return 1
        attempt = max(1, self._ledger.attempts(self.run, stage))
        if self._ledger.released(self.run, stage, attempt) is not None:
            attempt += 1  # released before, and the result is gone: spent is spent
        self._charge([self._stage_charge(stage, attempt)])
        return attempt

    def _store(self, noisy: NDArray[np.int64], attempt: int, terms: _Terms) -> None:
        """Write the release so that it is there whole or not at all, and tell the ledger.

        Killed anywhere in here, a resumed run finds either a whole file, which `_settle` takes up,
        or none that was ever whole: one charge never pays for two answers.
        """
        path = self._path(terms.receipt.stage, terms.step)
        part = path.with_suffix(".part")
        note = {"drawn": terms.conditions, "attempt": attempt, "receipt": asdict(terms.receipt)}
        # Of the many answers of a training, half the disk where four bytes are enough.
        small = noisy.astype(np.int32) if terms.step else noisy
        stored = small if np.array_equal(small, noisy) else noisy
        with owner_file(part, "wb") as file:
            np.savez(file, noisy=stored, note=np.array(json.dumps(note)))
            file.flush()
            os.fsync(file.fileno())
        self._record(terms.receipt.stage, attempt, noisy, terms.step)
        part.replace(path)

    def _settle(self, part: Path) -> None:
        """Take up what a killed run had written whole; remove what it had not."""
        try:
            noisy, note = _read(part)
        except _UNREADABLE:
            part.unlink()
        else:
            stage, _, step = part.stem.rpartition(".")
            sampled = stage in self.plan.sampling
            name, number = (stage, int(step)) if sampled else (part.stem, 0)
            self._record(name, note["attempt"], noisy, number)
            part.replace(part.with_suffix(".npz"))

    def _record(self, stage: str, attempt: int, noisy: NDArray[Any], step: int = 0) -> None:
        if self.plan.runs is not None:
            return
        digest = hashlib.sha256(noisy.astype(np.int64).tobytes()).hexdigest()
        try:
            self._ledger.record_release(self._dataset, self.run, stage, attempt, digest, step)
        except SecondRelease:  # a copy of the run was first: nothing pays for this answer
            self._path(stage, step).with_suffix(".part").unlink(missing_ok=True)
            raise


class CandidateAccount(Account):
    """The account of one run of a private selection: its answers are paid for together.

    The ledger hears of the selection alone (`accounting.Selected`), before the first noise of the
    first run. Answers lie in the candidate's own folder, and only those of the chosen one go on.

    Args:
        tuning: The account of the selection, which is charged.
        plan: Of the candidate: the selection's budget, its own stages.
        folder: Of its answers.
        final: Whether it is the chosen run: its answers are read, and none is ever drawn again.
    """

    def __init__(self, tuning: Account, plan: Plan, folder: Path, *, final: bool = False) -> None:
        self._tuning, self._final = tuning, final
        super().__init__(tuning._ledger, tuning._dataset, tuning.unit, plan, folder)

    def reserve(self) -> None:
        """Charge the selection, once, before any noise.

        Raises:
            RunError: The selection is over: noise that is drawn again would be another choice.
        """
        if self._final:
            raise RunError(
                "an answer of the chosen run is missing, and it is not drawn again: another draw "
                "would be another choice. Start a new run in another folder, which is charged anew"
            )
        self._tuning.reserve()


def best_of(runs: float, run: Callable[[], T], score: Callable[[T], float]) -> T:
    """The outcome with the best score of a secret number of runs (`accounting.Selected`).

    The number is drawn anew from the logarithmic distribution of mean ``runs``, by the operating
    system's generator. Of equal scores the first outcome is taken.

    Args:
        runs: How many are expected.
        run: Makes one outcome, its settings drawn at random from a public space.
        score: Of an outcome, made of its noisy answers alone.
    """
    g, number, level = selection_parameter(runs), 1, secrets.randbelow(1 << 53) / (1 << 53)
    # P(K = k) = (1 - g)^k / (k log(1/g)), from k = 1 on, until the level is used up.
    power = 1 - g
    while level >= power / (number * math.log(1 / g)):
        level -= power / (number * math.log(1 / g))
        number, power = number + 1, power * (1 - g)
        if power < 1e-18:
            break
    best = run()
    for _ in range(number - 1):
        other = run()
        best = other if score(other) > score(best) else best
    return best


def _add_noise(exact: NDArray[np.int64], query: Query, scale: float) -> NDArray[np.int64]:
    """Discrete Gaussian noise of ``scale`` grid steps, smaller where the query's weights say so."""
    weights = np.ones(query.width) if query.weights is None else query.weights
    noisy = np.empty_like(exact)
    for weight in np.unique(weights):
        part = exact[:, weights == weight]
        noisy[:, weights == weight] = noise.add_discrete_gaussian(
            part.ravel(), scale / float(weight)
        ).reshape(part.shape)
    return noisy


_UNREADABLE = (*ZIP_DAMAGE, *NO_LITERAL, KeyError, TypeError)


def _read_whole(path: Path) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """A stored release and its note, which must be there whole."""
    try:
        return _read(path)
    except _UNREADABLE as error:
        raise RunError(f"{path}: not a stored release; remove it to pay for a new one") from error


def _read(path: Path) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """A stored release and its note; one of `_UNREADABLE` where it is no whole one."""
    # Opened here, because NumPy leaves a damaged file open.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        noisy, note = archive["noisy"], json.loads(str(archive["note"]))
    parts = {"drawn": dict(note["drawn"]), "receipt": dict(note["receipt"])}
    return noisy, {**parts, "attempt": int(note["attempt"])}
