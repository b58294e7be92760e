"""Where a ledger lives: an SQLite file by default, a PostgreSQL database for a team.

Three tables: ``ledger_meta`` (schema version and key), ``ledger_head`` (one row, the lock that
every writer takes) and ``ledger_rows``. Nothing is ever updated but the head, and nothing deleted.
"""

from __future__ import annotations

import os
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    Integer,
    MetaData,
    NullPool,
    Table,
    Text,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from understudy.core.errors import LedgerError, MissingExtra
from understudy.privacy.ledger import chain
from understudy.privacy.ledger.chain import Head, Link

LEDGER_SCHEMA = 1
WAIT_S = 60
_CONNECT_S = 10
_CREATION_LOCK = 0x756E646572  # any constant: PostgreSQL's advisory lock while tables are made

_TABLES = MetaData()
META_TABLE = Table(
    "ledger_meta",
    _TABLES,
    Column("name", Text, primary_key=True),
    Column("value", Text, nullable=False),
)
HEAD_TABLE = Table(
    "ledger_head",
    _TABLES,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("count", Integer, nullable=False),
    Column("hash", Text, nullable=False),
    Column("seal", Text, nullable=False),
)
ROWS_TABLE = Table(
    "ledger_rows",
    _TABLES,
    Column("seq", Integer, primary_key=True, autoincrement=False),
    Column("previous", Text, nullable=False),
    Column("entry", Text, nullable=False),
    Column("hash", Text, nullable=False),
)


def default_path() -> Path:
    """``~/.local/share/understudy/ledger.db``, or under ``XDG_DATA_HOME`` where that is set."""
    base = Path(os.environ.get("XDG_DATA_HOME", ""))
    if not base.is_absolute():  # the XDG specification: a relative one is ignored
        base = Path.home() / ".local" / "share"
    return base / "understudy" / "ledger.db"


class Database:
    """A ledger's tables, opened or made.

    Every transaction opens a connection of its own: a run of hours holds none between two charges,
    and none is carried into a forked process.

    Args:
        url: See `understudy.privacy.ledger.ledger.Ledger`.

    Attributes:
        address: Where it is, for messages: no user, no password.
        key: The ledger's 32 secret bytes.

    Raises:
        LedgerError: It cannot be reached, is no ledger, or was made by a newer version.
        MissingExtra: PostgreSQL without its driver installed.
    """

    def __init__(self, url: str | Path | None) -> None:
        target = _parse(url)
        self.address = _address(target)
        self._is_sqlite = target.get_backend_name() == "sqlite"
        with self._mapped():
            if self._is_sqlite:
                _create_file(Path(str(target.database)))
            self._engine = _engine(target)
            self.key = self._open()

    @contextmanager
    def read(self) -> Iterator[Connection]:
        """A transaction that sees one moment of the ledger."""
        level = {} if self._is_sqlite else {"isolation_level": "REPEATABLE READ"}
        with self._mapped(), self._engine.execution_options(**level).begin() as connection:
            yield connection

    @contextmanager
    def write(self) -> Iterator[Connection]:
        """A transaction that no other writer overlaps; on disk when the block ends.

        An exception in the block undoes all of it.
        """
        with self._mapped(), self._locking().begin() as connection:
            # One writer at a time: PostgreSQL waits here, SQLite did at BEGIN IMMEDIATE.
            connection.execute(select(HEAD_TABLE.c.id).with_for_update())
            yield connection

    def since(self, connection: Connection, seq: int) -> tuple[Head | None, list[Link]]:
        """The head, and every row after ``seq`` in order."""
        heads = connection.execute(
            select(HEAD_TABLE.c.count, HEAD_TABLE.c.hash, HEAD_TABLE.c.seal)
        ).all()
        rows = connection.execute(
            select(ROWS_TABLE.c.seq, ROWS_TABLE.c.previous, ROWS_TABLE.c.entry, ROWS_TABLE.c.hash)
            .where(ROWS_TABLE.c.seq > seq)
            .order_by(ROWS_TABLE.c.seq)
        )
        head = Head(*heads[0]) if len(heads) == 1 else None
        return head, [Link(*row) for row in rows]

    def append(self, connection: Connection, links: Sequence[Link]) -> None:
        """Add rows and move the head to the last of them."""
        rows = [
            {"seq": n.seq, "previous": n.previous, "entry": n.entry, "hash": n.hash} for n in links
        ]
        head = chain.head_at(self.key, links[-1].seq, links[-1].hash)
        connection.execute(insert(ROWS_TABLE), rows)
        connection.execute(
            update(HEAD_TABLE).values(count=head.count, hash=head.hash, seal=head.seal)
        )

    def close(self) -> None:
        """Let go of the database; nothing is lost without it."""
        self._engine.dispose()

    def _open(self) -> bytes:
        """Check the schema, make it where there is none, and return the key."""
        with self.read() as connection:
            if inspect(connection).has_table(META_TABLE.name):
                return self._key(connection)
        with self._locking().begin() as connection:
            if not self._is_sqlite:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})"))
            inspector = inspect(connection)  # again: another process may have been faster
            if inspector.has_table(META_TABLE.name):
                return self._key(connection)
            if self._is_sqlite and inspector.get_table_names():
                raise LedgerError(f"{self.address} is an SQLite database, but not a ledger")
            return self._create(connection)

    def _create(self, connection: Connection) -> bytes:
        key = secrets.token_bytes(32)
        head = chain.head_at(key, 0, chain.GENESIS)
        _TABLES.create_all(connection)
        meta = {"schema": str(LEDGER_SCHEMA), "key": key.hex()}
        connection.execute(insert(META_TABLE), [{"name": n, "value": v} for n, v in meta.items()])
        connection.execute(
            insert(HEAD_TABLE).values(id=1, count=head.count, hash=head.hash, seal=head.seal)
        )
        return key

    def _key(self, connection: Connection) -> bytes:
        rows = connection.execute(select(META_TABLE.c.name, META_TABLE.c.value))
        meta = {row.name: row.value for row in rows}
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

    def _locking(self) -> Engine:
        return self._engine.execution_options(ledger_write=True)

    @contextmanager
    def _mapped(self) -> Iterator[None]:
        """Turn a database's own errors into ours; the password and the key are in neither."""
        try:
            yield
        except (SQLAlchemyError, sqlite3.Error, OSError) as error:
            cause = getattr(error, "orig", None) or error
            reason = (str(cause).strip() or type(cause).__name__).splitlines()[0]
            raise LedgerError(
                f"the ledger at {self.address} cannot be used: {reason}. Check that it can be "
                "reached and written to, or name another one with --ledger"
            ) from error


def _parse(url: str | Path | None) -> URL:
    """The database that a ``--ledger`` names."""
    if isinstance(url, str) and "://" in url:
        try:
            target = make_url(url.replace("postgres://", "postgresql://", 1))
        except (ArgumentError, ValueError):
            # "from None": the text at fault may hold the password.
            raise LedgerError(
                "the ledger's URL cannot be read: write postgresql://USER:PASSWORD@HOST:PORT/NAME "
                "(percent-encode special characters) or the path of a file"
            ) from None
        backend = target.get_backend_name()
        if backend == "postgresql":
            return target.set(drivername="postgresql+psycopg")
        if backend != "sqlite":
            raise LedgerError(f"a ledger in {backend} is not supported: sqlite or postgresql is")
        if target.query or target.database in (None, "", ":memory:"):
            raise LedgerError("a ledger must be a plain file: one in memory forgets what was spent")
        url = target.database
    path = default_path() if url is None else Path(url).expanduser()
    return URL.create("sqlite", database=str(path.absolute()))


def _address(target: URL) -> str:
    if target.get_backend_name() == "sqlite":
        return str(target.database)
    host = target.host or target.query.get("host") or "local socket"
    port = "" if target.port is None else f":{target.port}"
    return f"postgresql://{host}{port}/{target.database or ''}"


def _create_file(path: Path) -> None:
    """Make the file, readable by its owner only; it will hold the key."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not path.exists():
        # O_CREAT without O_EXCL: where two processes meet here, either may win.
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))


def _engine(target: URL) -> Engine:
    if target.get_backend_name() == "sqlite":
        engine = create_engine(
            target, poolclass=NullPool, hide_parameters=True, connect_args={"timeout": WAIT_S}
        )
        event.listen(engine, "connect", _sqlite_connected)
        event.listen(engine, "begin", _sqlite_begins)
        return engine
    # READ COMMITTED: the process that waited for the head sees what the winner wrote.
    given = {} if "connect_timeout" in target.query else {"connect_timeout": _CONNECT_S}
    try:
        engine = create_engine(
            target,
            poolclass=NullPool,
            hide_parameters=True,
            connect_args=given,
            isolation_level="READ COMMITTED",
        )
    except ImportError as error:
        raise MissingExtra("a ledger in PostgreSQL", "postgres") from error
    event.listen(engine, "begin", _postgres_begins)
    return engine


def _sqlite_connected(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin below, not by the driver's guess
    # EXTRA is FULL and the folder: with FULL alone, a power cut can undo the last commit.
    connection.execute("PRAGMA synchronous = EXTRA")


def _sqlite_begins(connection: Connection) -> None:
    write = connection.get_execution_options().get("ledger_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")


def _postgres_begins(connection: Connection) -> None:
    if connection.get_execution_options().get("ledger_write", False):
        connection.exec_driver_sql("SET LOCAL synchronous_commit = on")
        connection.exec_driver_sql(f"SET LOCAL lock_timeout = '{WAIT_S}s'")
