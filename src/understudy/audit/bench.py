"""A method that runs again and again on chosen records, and what each run discloses."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from understudy.audit.adjacent_datasets import InMemorySource
from understudy.backends.arrays import fit_images
from understudy.core.errors import MethodStopped
from understudy.core.ports import Source
from understudy.core.types import Embeddings, Images, Labels, Receipt, Release, Shape
from understudy.methods.base import Context, Materials, Method, memory_store
from understudy.privacy.account import Account
from understudy.privacy.budget_plan import Plan
from understudy.privacy.ledger.ledger import Charge, Ledger
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault, Vault
from understudy.run.prepare import Prepared

T = TypeVar("T")
R = TypeVar("R")

_Samples = tuple[Labels, Embeddings | None, Images | None]

_IN_MEMORY = Path("/dev/shm")  # where a system has it: thousands of runs, and no disk is written


class NullLedger(Ledger):
    """A ledger that refuses nothing and records nothing.

    What an audit spends is charged to no account: it releases nothing. A ledger on disk would take
    most of the time of its runs, and is not what is audited.
    """

    def __init__(self) -> None:
        self._drawn: set[tuple[str, str, int]] = set()

    def close(self) -> None:
        """Nothing is open."""

    def check(self, dataset: str, charges: Any, *, unit: str, adjacency: str) -> None:
        """Refuses nothing."""

    def charge(
        self, dataset: str, charges: Any, *, unit: str, adjacency: str, returning: str | None = None
    ) -> bool:
        """Keeps which were charged, for the account's own rules; whether any of them is new."""
        all_of_them: list[Charge] = list(charges)
        new = {(one.run, one.stage, one.attempt) for one in all_of_them} - self._drawn
        self._drawn |= new
        return bool(new)

    def attempts(self, run: str, stage: str) -> int:
        """How often a stage was charged."""
        return sum((run, stage) == entry[:2] for entry in self._drawn)

    def released(self, run: str, stage: str, attempt: int, step: int = 0) -> str | None:
        """No release is known."""
        return None

    def record_release(
        self, dataset: str, run: str, stage: str, attempt: int, digest: str, step: int = 0
    ) -> None:
        """Keeps nothing."""


class SerialEngine:
    """An engine without threads: tiny datasets take less time than starting one."""

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """One after the other."""
        return map(function, items)


@contextmanager
def temporary_folder() -> Iterator[Path]:
    """A folder of the owner's alone (mode 0700), gone afterwards."""
    folder = _IN_MEMORY if _IN_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="understudy-audit-", dir=folder) as name:
        yield Path(name)


@dataclass(frozen=True)
class NoisyAnswer:
    """A stored release of a run.

    Attributes:
        noisy: (slots, width) int64, in grid steps.
        query: The fingerprint of what was asked.
    """

    noisy: NDArray[np.int64]
    query: str


@dataclass(frozen=True)
class ObservedRun:
    """What an attacker sees of a run: everything that was ever released of it.

    Attributes:
        answers: The noisy answers by stage.
        receipt: What the run says of itself.
        labels: (n,) classes of the samples.
        embeddings: (n, d) of them, where there are any.
        images: (n, h, w, c) of them, as large as the records, where there are any.
        stopped: Whether the method found that it does not suit the records, and made no samples.
    """

    answers: Mapping[str, NoisyAnswer]
    receipt: Receipt
    labels: Labels
    embeddings: Embeddings | None
    images: Images | None
    stopped: bool


@dataclass(frozen=True)
class Bench:
    """A method that is ready to run on chosen records."""

    method: Method
    params: Any
    plan: Plan
    context: Context
    unit: Unit
    seed: int = 0
    public: Source | None = None
    base: Source | None = None
    candidates: Source | None = None
    contrast: Source | None = None

    @classmethod
    def of(cls, prepared: Prepared) -> Bench:
        """From a run that is ready to start."""
        return cls(
            prepared.method,
            prepared.params,
            prepared.plan,
            prepared.context,
            prepared.config.privacy.privacy_unit,
            prepared.config.output.seed,
            prepared.public,
            prepared.base,
            prepared.candidates,
            prepared.contrast,
        )

    def observe(self, records: InMemorySource, folder: Path, *, sample: bool = True) -> ObservedRun:
        """Run the method on records, as `understudy.run.synthesize` does, but for the ledger."""
        vault, account = self.vault(records, folder)
        release = self.run(vault)
        vault.close()
        samples: _Samples = (np.zeros(0, np.int64), None, None)
        if sample and release is not None:
            samples = _sampled(release, self.context.shape)
        answers = {}
        for path in (folder / "stages").glob("*.npz"):
            with np.load(path, allow_pickle=False) as archive:
                note = json.loads(str(archive["note"]))
                answers[path.stem] = NoisyAnswer(archive["noisy"], str(note["drawn"]["query"]))
        shutil.rmtree(folder)
        return ObservedRun(answers, account.receipt(), *samples, stopped=release is None)

    def vault(self, records: InMemorySource, folder: Path) -> tuple[PrivateVault, Account]:
        """Records in a vault that no account pays for, with its files under ``folder``."""
        cache = folder / "cache"
        cache.mkdir(parents=True, exist_ok=True)
        account = Account(NullLedger(), "audit", self.unit, self.plan, folder / "stages")
        return PrivateVault(records, account, SerialEngine(), cache, probe=False), account

    def run(self, vault: Vault) -> Release | None:
        """The method on a vault; None where it stops early, which its noisy answers decide."""
        materials = Materials(
            context=self.context,
            vault=vault,
            public=self.public,
            seed=self.seed,
            progress=lambda *_: lambda _: None,
            base=self.base,
            candidates=self.candidates,
            contrast=self.contrast,
            resized=fit_images,
            fit=partial(fit_images, shape=self.context.shape),
            keep=memory_store(),
        )
        try:
            return self.method.run(materials, self.params)
        except MethodStopped:
            return None


def _sampled(release: Release, shape: Shape) -> _Samples:
    batches = list(release.batches())
    labels = np.concatenate([batch.labels for batch in batches])
    embeddings = [batch.embeddings for batch in batches if batch.embeddings is not None]
    images = [batch.images for batch in batches if batch.images is not None]
    return (
        labels,
        np.concatenate(embeddings) if embeddings else None,
        fit_images(np.concatenate(images), shape) if images else None,
    )
