"""Where a ledger lives: an SQLite file by default, a PostgreSQL database for a team.

Three tables: ``ledger_meta`` (schema version and key), ``ledger_head`` (one row, the lock that
every writer takes) and ``ledger_rows``. Nothing is ever updated but the head, and nothing deleted.
"""

from __future__ import annotations

import os
import re
import secrets
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from understudy.core.errors import CommitInDoubt, LedgerError
from understudy.privacy.ledger import chain
from understudy.privacy.ledger.chain import Head, Link
from understudy.privacy.ledger.sqlite import WAIT_S, Purpose, SqliteFile

if TYPE_CHECKING:  # an extra
    from understudy.privacy.ledger.postgres import PostgresServer

LEDGER_SCHEMA = 1
NOTICE_S = 1.5
"""Seconds that a locked ledger is waited for in silence."""

_TABLES = (
    "CREATE TABLE ledger_meta (name TEXT NOT NULL PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE ledger_head (id INTEGER NOT NULL PRIMARY KEY, count INTEGER NOT NULL, "
    "hash TEXT NOT NULL, seal TEXT NOT NULL)",
    "CREATE TABLE ledger_rows (seq INTEGER NOT NULL PRIMARY KEY, previous TEXT NOT NULL, "
    "entry TEXT NOT NULL, hash TEXT NOT NULL)",
)


_NO_PATH = re.compile(r"[a-z][a-z0-9+]+:|\s*\w+\s*=", re.IGNORECASE)
"""How a misspelled URL begins, and libpq's ``host=... password=...``."""


class Connection(Protocol):
    """A connection of a database's driver, in a transaction."""

    def execute(self, statement: str, values: Sequence[Any] = ..., /) -> Any:
        """Carry out a statement; its rows can be fetched from what is returned."""
        ...


class Database:
    """A ledger's tables, opened or made.

    Every transaction opens a connection of its own: a run of hours holds none between two charges,
    and none is carried into a forked process.

    Attributes:
        address: Where it is, for messages: no user, no password.
        exists: Whether there is a ledger; one that is opened to be read and is not there is empty,
            and nothing is made.
        key: The ledger's 32 secret bytes.
    """

    def __init__(
        self, url: str | Path | None, on_wait: Callable[[str], None] | None, make: bool = True
    ) -> None:
        self._store = _store(url)
        self._errors: tuple[type[Exception], ...] = (*self._store.errors, OSError)
        self.address = self._store.address
        self._on_wait = on_wait or _say
        key = self._open(make)
        self.exists, self.key = key is not None, key or secrets.token_bytes(32)

    def read(self, seq: int) -> tuple[Head | None, list[Link]]:
        """The head, and every row after ``seq``, at one moment of the ledger."""
        if not self.exists:
            return chain.head_at(self.key, 0, chain.GENESIS), []
        with self._transaction("read") as connection:
            return self.since(connection, seq)

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that no other writer overlaps; on disk when the block ends.

        An exception in the block undoes all of it.
        """
        if not self.exists:
            raise LedgerError(f"there is no ledger at {self.address}: it was opened to be read")
        with self._transaction("write") as connection:
            yield connection

    def since(self, connection: Connection, seq: int) -> tuple[Head | None, list[Link]]:
        """The head, and every row after ``seq`` in order."""
        heads = connection.execute("SELECT count, hash, seal FROM ledger_head").fetchall()
        statement = "SELECT seq, previous, entry, hash FROM ledger_rows WHERE seq > ? ORDER BY seq"
        rows = connection.execute(self._marked(statement), (seq,)).fetchall()
        head = Head(*heads[0]) if len(heads) == 1 else None
        return head, [Link(*row) for row in rows]

    def append(self, connection: Connection, links: Sequence[Link]) -> None:
        """Add rows and move the head to the last of them."""
        statement = "INSERT INTO ledger_rows (seq, previous, entry, hash) VALUES (?, ?, ?, ?)"
        for link in links:
            values = (link.seq, link.previous, link.entry, link.hash)
            connection.execute(self._marked(statement), values)
        head = chain.head_at(self.key, links[-1].seq, links[-1].hash)
        statement = "UPDATE ledger_head SET count = ?, hash = ?, seal = ?"
        connection.execute(self._marked(statement), (head.count, head.hash, head.seal))

    def _open(self, make: bool) -> bytes | None:
        """Check the schema, make it where there is none or return None, and return the key."""
        is_file = isinstance(self._store, SqliteFile)
        if is_file and not make and not Path(self.address).exists():
            return None
        with self._transaction("read") as connection:
            # PostgreSQL knows a table at once that another process makes, and its rows later: a
            # table without rows is looked at again when that process is done.
            tables = self._store.tables(connection)
            if "ledger_meta" in tables and (meta := self._meta(connection)):
                return self._key(meta)
            if not tables and not make:
                return None
        with self._transaction("make") as connection:
            tables = self._store.tables(connection)  # again: another process may have been faster
            if "ledger_meta" in tables:
                return self._key(self._meta(connection))
            if tables:
                raise LedgerError(f"{self.address} is an SQLite database, but not a ledger")
            return self._create(connection)

    def _create(self, connection: Connection) -> bytes:
        key = secrets.token_bytes(32)
        head = chain.head_at(key, 0, chain.GENESIS)
        for table in _TABLES:
            connection.execute(table)
        statement = self._marked("INSERT INTO ledger_meta (name, value) VALUES (?, ?)")
        for row in (("schema", str(LEDGER_SCHEMA)), ("key", key.hex())):
            connection.execute(statement, row)
        statement = "INSERT INTO ledger_head (id, count, hash, seal) VALUES (1, ?, ?, ?)"
        connection.execute(self._marked(statement), (head.count, head.hash, head.seal))
        return key

    def _meta(self, connection: Connection) -> dict[str, str]:
        return dict(connection.execute("SELECT name, value FROM ledger_meta").fetchall())

    def _key(self, meta: dict[str, str]) -> bytes:
        try:
            schema, key = int(meta["schema"]), bytes.fromhex(meta["key"])
        except (KeyError, ValueError):
            raise LedgerError(f"{self.address} is not a ledger: it has no schema or key") from None
        if schema > LEDGER_SCHEMA:
            raise LedgerError(
                f"{self.address} was written by a newer version of Understudy (schema {schema}, "
                f"this version knows {LEDGER_SCHEMA}): upgrade, or name another ledger"
            )
        return key

    def _marked(self, statement: str) -> str:
        return statement.replace("?", self._store.mark)

    @contextmanager
    def _transaction(self, purpose: Purpose) -> Iterator[Connection]:
        """A transaction on a connection of its own.

        It may wait for another process, and says so. An exception in the block undoes all of it; a
        database's own errors become ours, and the password and the key are in neither.

        Raises:
            CommitInDoubt: It failed while it was being ended: a server may have written it by then.
        """
        error_type = LedgerError

        def begin(wait: float) -> None:
            connection.rollback()  # of what a first try had begun
            self._store.limit_wait(connection, wait)
            self._store.begin(connection, purpose)

        def end(wait: float) -> None:
            self._store.limit_wait(connection, wait)
            commit(connection)

        try:
            connection = self._store.connect()
            try:
                self._patiently(begin)
                yield connection
                error_type = LedgerError if purpose == "read" else CommitInDoubt
                self._patiently(end)
            except BaseException:
                with suppress(*self._errors):  # of a connection that is lost: the first says why
                    connection.rollback()
                raise
            finally:
                connection.close()
        except self._errors as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise error_type(
                f"the ledger at {self.address} cannot be used: {reason}. Check that it is the one "
                "that is meant (--ledger), and that it can be reached and written to"
            ) from error

    def _patiently(self, step: Callable[[float], None]) -> None:
        """Carry out a step, given how long it may wait; after a moment, say who is waited for."""
        try:
            step(NOTICE_S)
        except self._store.errors as error:
            if not self._store.is_locked(error):
                raise
            self._announce()
            step(WAIT_S)

    def _announce(self) -> None:
        self._on_wait(f"waiting for the ledger at {self.address}: {self._store.holder()}")


def commit(connection: Any) -> None:
    """End a transaction: what was written is on disk when this returns."""
    connection.execute("COMMIT")


def _say(message: str) -> None:
    print(f"note: {message}", file=sys.stderr, flush=True)


def public_address(url: str) -> str:
    """The path or URL of a ledger as it may be shown: without what may hold a password."""
    is_secret = "://" in url and ("@" in url or "password=" in url.lower())
    return "postgresql://..." if is_secret else url


def with_password_in_environment(url: str) -> str:
    """A ledger's URL without its password, which libpq then finds in ``PGPASSWORD``.

    Other accounts of a machine see the words of a process, and not its environment.
    """
    scheme, is_url, rest = url.partition("://")
    if not is_url:
        return url
    account, at, place = rest.partition("@")  # as libpq does: ? and # are letters before it
    if "/" in account or not at:
        account, at, place = "", "", rest
    place, question, query = place.partition("?")
    options = [one.partition("=") for one in query.split("&")]
    passwords = [value for name, _, value in options if unquote(name) == "password"]
    user, colon, password = account.partition(":")
    if not (colon or passwords):
        return url
    os.environ["PGPASSWORD"] = unquote(passwords[-1] if passwords else password)
    others = ["".join(one) for one in options if unquote(one[0]) != "password"]
    return scheme + is_url + user + at + place + question * bool(others) + "&".join(others)


def data_folder() -> Path:
    """``~/.local/share/understudy``, or under ``XDG_DATA_HOME`` where that is set."""
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not base.is_absolute():  # the XDG specification: a relative one is ignored
        base = Path.home() / ".local" / "share"
    return base / "understudy"


def default_path() -> Path:
    """``ledger.db`` in the folder of the user's data."""
    return data_folder() / "ledger.db"


def _store(url: str | Path | None) -> SqliteFile | PostgresServer:
    """The place that a ``--ledger`` names."""
    if not (isinstance(url, str) and "://" in url):
        if isinstance(url, str) and _NO_PATH.match(url):
            # It would be a new, empty ledger in a file whose name may hold a password.
            raise LedgerError(
                "this --ledger reads as an address that lacks ://: write "
                "postgresql://USER:PASSWORD@HOST:PORT/NAME, or ./FILE for a file"
            )
        try:
            path = default_path() if url is None else Path(url).expanduser()
        except RuntimeError:  # of an account that the system does not list, or a user's it has not
            raise LedgerError(
                f"the home folder of the ledger {url or ''} is not known: name its file by --ledger"
            ) from None
        return SqliteFile(path.absolute())
    scheme, _, rest = url.partition("://")
    backend = scheme.partition("+")[0].lower()  # a driver may be named, postgresql+psycopg
    if backend in ("postgres", "postgresql"):
        from understudy.privacy.ledger.postgres import PostgresServer

        return PostgresServer(f"postgresql://{rest}")
    if backend != "sqlite":
        raise LedgerError(f"a ledger in {backend} is not supported: sqlite or postgresql is")
    if not rest.startswith("/") or rest in ("/", "/:memory:") or "?" in rest:
        raise LedgerError("a ledger must be a plain file: one in memory forgets what was spent")
    return SqliteFile(Path(rest[1:]).absolute())
