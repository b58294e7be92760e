"""Models that a server runs: what they are asked, what it costs, and what a run keeps of it.

A run gives all of its remote models one `RemoteCalls`. It counts every request before it is sent,
refuses the one that would pass a cap, and keeps every answer, so that a run that is resumed asks
nothing twice.
"""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, runtime_checkable

from understudy.core.errors import BackendError, ConfigError
from understudy.core.files import make_private_file
from understudy.core.ports import Model


@dataclass(frozen=True, slots=True)
class Prices:
    """What a server asks for its answers, as its user states it, in one currency for all servers.

    Attributes:
        tokens_in: For a million tokens that it reads.
        tokens_out: For a million tokens that it writes.
        call: For a request, such as that of an image.
    """

    tokens_in: float | None = None
    tokens_out: float | None = None
    call: float | None = None

    @property
    def stated(self) -> bool:
        """Whether any price is."""
        return (self.tokens_in, self.tokens_out, self.call) != (None, None, None)

    def cost(self, calls: int, tokens_in: int, tokens_out: int) -> float:
        """Of so many requests and tokens."""
        tokens = tokens_in * (self.tokens_in or 0.0) + tokens_out * (self.tokens_out or 0.0)
        return calls * (self.call or 0.0) + tokens / 1e6


@runtime_checkable
class RemoteModel(Model, Protocol):
    """A model that a server runs.

    Attributes:
        host: The host's name or address, of what the model is given.
        loopback: Whether that is this machine, by an address that leaves it by no cable.
        prices: What its user says that it costs.
        usual_tokens: Read and written in a usual request: a rough estimate, for plans.
        takes_images: Whether it can be given images.
    """

    host: str
    loopback: bool
    prices: Prices
    usual_tokens: tuple[int, int]
    takes_images: bool

    def connect(self, calls: RemoteCalls) -> None:
        """Count requests, and keep answers, with those of the run's other models."""
        ...

    def permit(self, host: str) -> None:
        """Let private images go to the host, if it is this one (`--allow-remote-private`)."""
        ...


@dataclass(frozen=True, slots=True)
class PlannedCalls:
    """What a run is to ask of one model.

    Attributes:
        role: The model's role.
        model: Its name.
        host: Who runs it.
        calls: Requests, where none has to be repeated.
        tokens_in: Tokens that they read, roughly.
        tokens_out: Tokens that they write, roughly.
        cost: What they cost, roughly; None: no price is stated.
        private: Whether they carry private images to a host that is not this machine.
    """

    role: str
    model: str
    host: str
    calls: int
    tokens_in: int
    tokens_out: int
    cost: float | None
    private: bool


@dataclass
class RemoteCalls:
    """The requests of a run and, in a file of the owner's, their answers.

    A request is answered from the file where an earlier process asked it. What this process asks
    twice is sent twice: a probe whether a server answers alike would see nothing otherwise.

    Attributes:
        max_calls: Most requests, repeated ones included; None: any number.
        max_cost: Most that they may cost; None: anything.
        calls: Requests so far.
        tokens_in: Tokens that they read, as the servers say.
        tokens_out: Tokens that they wrote.
        cost: What they cost by the prices that are stated.
        unchanged: Captions that stayed as they were: every answer was refused or malformed.
    """

    max_calls: int | None = None
    max_cost: float | None = None
    calls: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost: float = 0.0
    unchanged: int = 0
    _file: sqlite3.Connection | None = field(default=None, repr=False)
    _earlier: int = 0  # rows that the file had when it was opened
    _lock: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def open(self, path: Path) -> None:
        """Keep answers in a file (mode 0600), and go on with what it has. Twice is once."""
        if self._file is not None:
            return
        make_private_file(path)
        self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._file.execute("PRAGMA synchronous = NORMAL")
        self._file.execute("CREATE TABLE IF NOT EXISTS answer (key TEXT UNIQUE, value BLOB)")
        self._file.execute("CREATE TABLE IF NOT EXISTS spent (calls, tokens_in, tokens_out, cost)")
        for calls, *more in self._file.execute("SELECT * FROM spent").fetchall():
            self.calls += calls
            self.add(*more)
        (self._earlier,) = self._file.execute("SELECT COUNT(*) FROM answer").fetchone()
        self._save()

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def include(self, other: RemoteCalls) -> None:
        """Count the requests of other calls as these.

        Raises:
            BackendError: A cap does not cover them.
        """
        if other is not self:
            self.calls += other.calls
            self.add(other.tokens_in, other.tokens_out, other.cost)
            self._require_room(0, 0.0)

    def answer(self, key: str) -> bytes | None:
        """The answer that a request had in an earlier process; None: it had none."""
        with self._lock:
            if self._file is None:
                return None
            query = "SELECT value FROM answer WHERE key = ? AND rowid <= ?"
            row = self._file.execute(query, (key, self._earlier)).fetchone()
            return None if row is None else bytes(row[0])

    def count(self, expected_cost: float) -> None:
        """Count a request that is about to be sent.

        Raises:
            BackendError: A cap does not cover it; it must not be sent.
        """
        with self._lock:
            self._require_room(1, expected_cost)
            self.calls += 1
            self._save()

    def add(self, tokens_in: int, tokens_out: int, cost: float) -> None:
        """Add what a request turned out to read, to write and to cost."""
        with self._lock:
            self.tokens_in += tokens_in
            self.tokens_out += tokens_out
            self.cost += cost
            self._save()

    def keep(self, key: str, value: bytes) -> None:
        """Keep the answer of a request, where there is a file."""
        with self._lock:
            if self._file is not None:
                self._file.execute("INSERT OR IGNORE INTO answer VALUES (?, ?)", (key, value))

    def forget(self, value: bytes) -> None:
        """Keep no such answer: it is of no use, and a later process asks again."""
        with self._lock:
            if self._file is not None:  # images are not read for it: they are of another length
                query = "DELETE FROM answer WHERE length(value) = ? AND value = ?"
                self._file.execute(query, (len(value), value))

    @property
    def storage(self) -> str:
        """What is said of answers where they are kept, before how a run goes on; else nothing."""
        return "" if self._file is None else "What was answered is kept: "

    @property
    def words(self) -> str:
        """What was asked and what it cost, in words."""
        cost = f", cost {self.cost:.2f}" if self.cost else ""
        unchanged = f"; {self.unchanged:,} captions stayed as they were, for every answer was "
        return (
            f"{self.calls:,} requests, {self.tokens_in:,} tokens read and {self.tokens_out:,} "
            f"written{cost}" + (f"{unchanged}refused or malformed" if self.unchanged else "")
        )

    def require_within(self, plan: Iterable[PlannedCalls]) -> None:
        """Refuse a plan that the caps do not cover, before its first request.

        Raises:
            ConfigError: As said; or a cap of costs, and a model without a price.
        """
        plan = list(plan)
        calls = sum(one.calls for one in plan)
        sent = f"Sent so far: {self.words}" if self.calls else "Nothing was sent"
        if self.max_calls is not None and calls > self.max_calls:
            raise ConfigError(
                f"the run would send {calls:,} requests to servers, and --max-calls is "
                f"{self.max_calls:,}. {sent}. Ask for less, or raise it"
            )
        if self.max_cost is None:
            return
        for one in plan:
            if one.cost is None:
                raise ConfigError(
                    f"--max-cost needs the prices of {one.model}: add ?price_in= and price_out= "
                    "(for a million tokens) or price_call= (for a request; 0: it is free)"
                )
        cost = sum(one.cost or 0.0 for one in plan)
        if cost > self.max_cost:
            raise ConfigError(
                f"the run would cost about {cost:.2f}, and --max-cost is {self.max_cost:g}. "
                f"{sent}. Ask for less, or raise it"
            )

    def _require_room(self, calls: int, cost: float) -> None:
        caps: Mapping[str, tuple[float, float | None]] = {
            "--max-calls": (self.calls + calls, self.max_calls),
            "--max-cost": (self.cost + cost, self.max_cost),
        }
        for name, (after, cap) in caps.items():
            if cap is not None and after > cap:
                remedy = f"--resume with a larger {name} goes on" if self.storage else "Raise it"
                raise BackendError(
                    f"{name} {cap:g} is used up ({self.words}). {self.storage}{remedy}"
                ) from ConnectionAbortedError(name)

    def _save(self) -> None:
        if self._file is not None:
            row = (self.calls, self.tokens_in, self.tokens_out, self.cost)
            with self._file:
                self._file.execute("BEGIN")
                self._file.execute("DELETE FROM spent")
                self._file.execute("INSERT INTO spent VALUES (?, ?, ?, ?)", row)
