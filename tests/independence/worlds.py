"""A method run on some records, with the answers of another run: its exact sums, its release."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.audit.adjacent_datasets import InMemorySource
from understudy.backends.arrays import fit_images
from understudy.core.types import Receipt, Release, Vector
from understudy.engine.local import LocalEngine
from understudy.methods.base import Context, Materials, Method, sampling_of, weights_of
from understudy.privacy.account import Account
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.queries import Query
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault

Sum = Callable[[float, float], NDArray[np.int64]]


def source_of(
    values: NDArray[Any], labels: NDArray[np.int64], classes: tuple[str, ...] = ("cat", "dog")
) -> InMemorySource:
    """A source in memory."""
    kind: Any = "images" if values.ndim == 4 else "embeddings"
    return InMemorySource("records", kind, classes, values, labels)


def images(count: int, shape: tuple[int, ...], seed: int = 0) -> InMemorySource:
    """Random images of two classes, one darker than the other."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    colours = rng.integers(40, 200, (count, 1, 1, shape[2])) - 30 * labels[:, None, None, None]
    noise = rng.normal(0, 30, (count, *shape))
    return source_of(np.clip(colours + noise, 0, 255).astype(np.uint8), labels)


class Diverged(Exception):
    """A stage asks for so many numbers, and the answer of the other run has others."""


@dataclass
class Notes:
    """An account that answers as it did before, and notes the exact sum behind each answer."""

    account: Account
    answers: dict[str, Vector]
    sums: dict[str, NDArray[np.int64]] = field(default_factory=dict)
    asked: dict[str, str] = field(default_factory=dict)
    bounds: dict[str, float] = field(default_factory=dict)  # in grid steps
    grids: dict[str, float] = field(default_factory=dict)
    sigmas: dict[str, float] = field(default_factory=dict)

    @property
    def unit(self) -> Unit:
        return self.account.unit

    def sigma(self, query: Query, stage: str) -> float:
        return self.account.sigma(query, stage)

    def receipt(self) -> Receipt:
        return self.account.receipt()

    def release(self, query: Query, stage: str, total: Sum, step: int = 0) -> Vector:
        """An answer; the exact sum of a step is noted as of all records: chance draws who is in."""
        name = f"{stage} {step}" if step else stage
        sigma = self.sigma(query, stage)
        grid = query.grid(sigma)
        self.grids[name], self.sigmas[name] = grid, sigma
        self.sums[name], self.asked[name] = total(grid, 1.0), query.fingerprint()
        self.bounds[name] = query.sensitivity("add-remove") / grid
        if name not in self.answers:
            self.answers[name] = self.account.release(query, stage, total, step)
        if self.answers[name].shape != (query.slots, query.width):
            raise Diverged(stage)
        return self.answers[name]


@dataclass
class Run:
    """What came of a run."""

    notes: Notes
    release: Release

    def same_bits(self, other: Run) -> bool:
        """Whether two releases are the same, in every bit of every row and in their facts."""
        one, two = (_bytes(run.release) for run in (self, other))
        return one == two


def _bytes(release: Release) -> list[Any]:
    found: list[Any] = [release.count, repr(dict(release.facts))]
    for batch in release.batches():
        for part in (batch.labels, batch.embeddings, batch.images):
            found.append(None if part is None else (part.dtype, part.shape, part.tobytes()))
        found.append(batch.captions)
    return found


def run(
    method: Method,
    params: Any,
    context: Context,
    records: InMemorySource,
    folder: Path,
    answers: dict[str, Vector],
    epsilon: float = 1.0,
    **more: Any,
) -> Run:
    """Run a method; stages in ``answers`` get those, others are released and added to them."""
    params = method.settle(params, context)
    stages = method.stages(params, context)
    plan = Plan.of(Budget(epsilon), weights_of(stages), sampling_of(stages))
    place = folder / f"run{len(list(folder.iterdir()))}"
    (place / "cache").mkdir(parents=True)
    with Ledger(str(place / "ledger.db")) as ledger:
        dataset = ledger.register(records).id
        notes = Notes(Account(ledger, dataset, Unit(), plan, place / "stages"), answers)
        # The experiment measures what the probe would refuse.
        vault = PrivateVault(records, notes, LocalEngine(1), place / "cache", probe=False)
        fit = partial(fit_images, shape=context.shape)
        told: Mapping[str, Any] = {"public": None, "seed": 0, "fit": fit, "resized": fit_images}
        told = {**told, **more}
        materials = Materials(context, vault, progress=lambda *_: lambda _: None, **told)
        release = method.run(materials, params)
    return Run(notes, release)
