"""The one way out of private records: a vault, which is asked queries and gives noisy answers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError, RunError
from understudy.core.independence import constantly
from understudy.core.ports import Engine, IndexedSource, Source
from understudy.core.types import Receipt, Vector
from understudy.privacy.account import Account, StoredReleases
from understudy.privacy.network_gradients import RECORDS_PER_GRADIENT, NetworkGradients
from understudy.privacy.probe import require_independent
from understudy.privacy.queries import CACHED, Query
from understudy.privacy.rows import (
    RECORDS_PER_CALL,
    Block,
    BlockReference,
    CachedRecords,
    DistantBlocks,
    DistantEngine,
    DistantRecords,
    Encode,
    SourceRecords,
    cache_records,
    poisson_sample,
    split_block,
)
from understudy.privacy.sealed import Sealed
from understudy.privacy.sums import BlockSum, require_summable

Transform = Callable[[NDArray[Any]], NDArray[Any]]
RecordBlocks = SourceRecords | CachedRecords | DistantBlocks


class Vault(Protocol):
    """What a method is handed in place of private records: it maps them and asks queries.

    `PrivateVault` holds records and charges for each answer. `StoredVault` gives the answers that a
    run has paid for, without records. An audit replays a run with one that compares
    (`understudy.audit.replay.ReplayVault`).
    """

    def map(self, encode: Encode, *, batch: int = RECORDS_PER_CALL) -> Vault:
        """A vault of the records' embeddings. Spends nothing.

        Args:
            encode: A batch of images (or embeddings) to (n, d) float32 embeddings; row i of the
                result depends on record i alone, to the last bit.
            batch: Images of every call of ``encode``; black ones fill up the last.

        Raises:
            BackendError: A function that mixes records.
            InputError: Embeddings that are not finite, or of the wrong shape.
            SourceError: Bad rows.
        """
        ...

    def embedded(self) -> Vault:
        """A vault of the embeddings that the source itself holds. Spends nothing."""
        ...

    def view(self, transform: Transform) -> Vault:
        """The same records seen through a public row-by-row transform, applied as they are read.

        Args:
            transform: (n, d) to (n, d') array; row i of the result depends on row i alone, to the
                last bit. It is called with as many rows each time, but where its matrix products
                are not `understudy.core.independence.Projection`, a record's position may count.
        """
        ...

    def unconditional(self) -> Vault:
        """The same records with every label 0."""
        ...

    def release(self, query: Query, *, stage: str) -> Vector:
        """The answer to a query: (slots, width) float64, noisy and public.

        Raises:
            BudgetRefused: Over the dataset's budget.
            InputError: Values that are not finite.
            ConfigError: A stage that is not planned, or noise that the accounting does not cover.
            RunError: The stage was released before, or its stored answer is to another query.
        """
        ...

    def sample(self, query: Query, *, stage: str, step: int) -> Vector:
        """The answer to a query about a Poisson sample of the units: one step of DP-SGD.

        Which units are in it is drawn anew for each step, and known to nothing and nobody after it.

        Args:
            query: What is asked. The gradients of a network are probed before the first step.
            stage: A stage with a sampling (`understudy.core.types.Stage`).
            step: From 1 to its number of steps, in order.

        Raises:
            BackendError: A network whose gradient depends on more than the record.
            RunError: A step out of order, or one whose answer was released and is gone.
        """
        ...

    def noise_sd(self, query: Query, *, stage: str) -> float:
        """Standard deviation of the noise that a release of ``query`` as ``stage`` gets. Public."""
        ...

    def receipt(self) -> Receipt:
        """What was released so far, and the guarantee."""
        ...

    def close(self) -> None:
        """Forget everything private, here and in every view."""
        ...


def _identity(values: NDArray[Any]) -> NDArray[Any]:
    return values


@dataclass(frozen=True)
class _Views:
    """Views one after the other, which a worker of another machine can be sent.

    All of them see a call's records while these are in the cache, and every call has as many.
    """

    transforms: tuple[Transform, ...] = ()

    def __call__(self, values: NDArray[Any]) -> NDArray[Any]:
        if not self.transforms:
            return values
        most = CACHED // values.shape[1]  # threads wait for each other at every call
        rows = max(RECORDS_PER_CALL, min(8 * RECORDS_PER_CALL, most))
        return constantly(self._in_turn, values, rows)

    def _in_turn(self, values: NDArray[Any]) -> NDArray[Any]:
        for transform in self.transforms:
            values = constantly(transform, values, len(values))
        return values


@dataclass(frozen=True)
class _PartialSum:
    """A query's exact sum over one block: (number of the block, (slots, width) int64)."""

    query: Query
    grid: float
    rate: float  # probability of a unit to be in the sample that is added up
    views: Transform
    labelled: bool
    records: DistantRecords | None  # where blocks are sent by reference

    def __call__(self, item: tuple[int, Block | BlockReference]) -> tuple[int, NDArray[np.int64]]:
        number, block = item
        query = self.query
        if self.records is not None:
            block = self.records.block(cast(BlockReference, block))
        block = poisson_sample(cast(Block, block), self.rate)
        total = np.zeros((query.slots, query.width), dtype=np.int64)
        by_class = self.labelled and query.cells.centres.shape[1] > 1
        parts = split_block(block, query.records_at_once, by_class=by_class)
        for values, labels, groups in parts:
            classes = labels if self.labelled else np.zeros_like(labels)
            total += query.integer_sum(self.views(values), classes, groups, self.grid)
        return number, total


@dataclass(slots=True, repr=False, eq=False)
class _Inside(Sealed):
    """What a vault and all its views share, so that closing one empties them all."""

    source: Source
    account: Account
    engine: Engine
    cache: Path
    progress: Callable[[str], Callable[[int], None]] | None
    probe: bool
    rows: list[RecordBlocks] = field(default_factory=list)


class PrivateVault(Sealed):
    """Private records, the unit they are protected by, and the account that pays for answers.

    Nothing in here prints, pickles, copies or counts. What a method made may still refer to a
    vault that is closed (a release is sampled batch by batch); nothing private can be reached then.

    Args:
        source: Private images or embeddings.
        account: Who pays, and the unit.
        engine: Where sums run.
        cache: A folder of mode 0700 for the owner's cache of embeddings; its maker removes it.
        progress: Given words for a step, returns a function that is called with rows done.
        probe: Whether `map` refuses a function that mixes records; False where nothing is private
            (a forecast) or where the mixing is what is measured (an audit).
    """

    __slots__ = ("_labelled", "_position", "_shared", "_views")

    def __init__(
        self,
        source: Source,
        account: Account,
        engine: Engine,
        cache: Path,
        progress: Callable[[str], Callable[[int], None]] | None = None,
        *,
        probe: bool = True,
    ) -> None:
        self._shared = [_Inside(source, account, engine, cache, progress, probe)]
        self._position: int | None = None
        self._views = _Views()
        self._labelled = True
        if source.kind == "embeddings" and account.unit.column is None:
            rows: RecordBlocks = SourceRecords(source)
            if isinstance(engine, DistantEngine) or isinstance(source, IndexedSource):
                rows = DistantBlocks(source, None, account.unit, engine, RECORDS_PER_CALL)
            self._position = self._keep(rows)

    def _like(self, **changes: Any) -> Self:
        other = object.__new__(type(self))
        for name in PrivateVault.__slots__:
            setattr(other, name, changes.get(name, getattr(self, name)))
        return other

    def close(self) -> None:
        """Forget the records, the account and the source, here and in every view of them."""
        for inside in self._shared:
            for rows in inside.rows:
                if isinstance(rows, DistantBlocks) and isinstance(inside.engine, DistantEngine):
                    inside.engine.forget(rows.records)
        self._shared.clear()

    @property
    def _inside(self) -> _Inside:
        if not self._shared:
            raise RunError("this vault is closed: ask it before the method returns")
        return self._shared[0]

    def _keep(self, rows: RecordBlocks) -> int:
        self._inside.rows.append(rows)
        return len(self._inside.rows) - 1

    def map(self, encode: Encode, *, batch: int = RECORDS_PER_CALL) -> Self:
        """See `Vault.map`; the embeddings are cached on the owner's disk.

        The very function that is about to see private records is probed on public ones first
        (`require_independent`), whatever it was put together from.
        """
        inside = self._inside
        if inside.probe and encode is not _identity:
            require_independent(
                encode,
                inside.source.shape,
                "what maps the private records",
                batch=batch,
                spent="Nothing was released by it",
            )
        bar = inside.progress("reading and embedding private records") if inside.progress else None
        unit, engine = inside.account.unit, inside.engine
        rows: RecordBlocks
        if isinstance(engine, DistantEngine):
            encoder = None if encode is _identity else encode
            rows = DistantBlocks(inside.source, encoder, unit, engine, batch)
            rows.embed(engine, bar)
        else:
            rows = cache_records(
                inside.source, encode, unit, inside.cache, batch=batch, progress=bar
            )
        return self._like(_position=self._keep(rows), _views=_Views())

    def embedded(self) -> Self:
        """See `Vault.embedded`."""
        return self.map(_identity) if self._position is None else self

    def view(self, transform: Transform) -> Self:
        """See `Vault.view`."""
        return self._like(_views=_Views((*self._views.transforms, transform)))

    def unconditional(self) -> Self:
        """See `Vault.unconditional`."""
        return self._like(_labelled=False)

    def release(self, query: Query, *, stage: str) -> Vector:
        """Ask, pay, add noise, store, answer: the only exit (see docs/promise.md).

        1. the exact integer sum of bounded contributions;
        2. the ledger's check and charge, on disk before any noise is drawn;
        3. discrete Gaussian noise from the operating system's generator;
        4. the noisy answer is stored with the run, so that a resumed run pays nothing twice.

        Any error in 1 to 4 ends the run.
        """
        return self._inside.account.release(query, stage, partial(self._exact, query))

    def sample(self, query: Query, *, stage: str, step: int) -> Vector:
        """See `Vault.sample`; as `release`, but 1. is of a sample of the units, and 2. is once.

        All steps are charged together before the first of them. A step whose answer is stored is
        not drawn again; of one that ended before its answer was stored nothing is known to anybody,
        and it is drawn again with another sample and other noise.
        """
        inside = self._inside
        if inside.probe and step == 1 and isinstance(query, NetworkGradients):
            require_independent(
                lambda values: query.gradients(values, np.zeros(len(values), np.int64)),
                (query.cells.dim,),
                "the network that is trained",
                batch=RECORDS_PER_GRADIENT,
            )
        return inside.account.release(query, stage, partial(self._exact, query), step)

    def _exact(self, query: Query, grid: float, rate: float = 1.0) -> NDArray[np.int64]:
        if self._position is None:
            raise ConfigError(
                "images hold no numbers to add up: map the vault with an encoder first"
            )
        inside = self._inside
        require_summable(len(inside.source), query.bound / grid, query.description)
        rows = inside.rows[self._position]
        records = rows.records if isinstance(rows, DistantBlocks) else None
        add_up = _PartialSum(query, grid, rate, self._views, self._labelled, records)
        total, count = BlockSum(query.slots, query.width), 0

        def blocks() -> Iterator[tuple[int, Block | BlockReference]]:
            nonlocal count
            for block in rows.blocks():
                yield count, block
                count += 1

        for number, part in inside.engine.map(add_up, blocks()):
            total.add(number, part)
        return total.total(count)

    def noise_sd(self, query: Query, *, stage: str) -> float:
        """See `Vault.noise_sd`."""
        return self._inside.account.sigma(query, stage)

    def receipt(self) -> Receipt:
        """See `Vault.receipt`."""
        return self._inside.account.receipt()


class StoredVault:
    """The answers of a run that is over, for more samples: without records and without a ledger.

    A method that is handed it asks what it asked then, by the same seed, and fits the same model.
    """

    def __init__(self, releases: StoredReleases) -> None:
        self._releases = releases

    def map(self, encode: Encode, *, batch: int = RECORDS_PER_CALL) -> Self:
        """The same answers: no record is encoded."""
        return self

    def view(self, transform: Transform) -> Self:
        """The same answers."""
        return self

    def embedded(self) -> Self:
        """The same answers."""
        return self

    def unconditional(self) -> Self:
        """The same answers."""
        return self

    def release(self, query: Query, *, stage: str) -> Vector:
        """The stored answer to a query.

        Raises:
            RunError: It is not there, or it was stored for another query.
        """
        return self._releases.stored_answer(query, stage)

    def sample(self, query: Query, *, stage: str, step: int) -> Vector:
        """The stored answer to a step."""
        return self._releases.stored_answer(query, stage, step)

    def noise_sd(self, query: Query, *, stage: str) -> float:
        """See `Vault.noise_sd`."""
        return self._releases.sigma(query, stage)

    def receipt(self) -> Receipt:
        """See `Vault.receipt`."""
        return self._releases.receipt()

    def close(self) -> None:
        """Nothing private is held."""
