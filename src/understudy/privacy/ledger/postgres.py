"""A ledger in a PostgreSQL database, and which of its clients holds it."""

from __future__ import annotations

import os
import socket
from typing import Any
from urllib.parse import urlsplit

from understudy.core.errors import LedgerError, packages_for
from understudy.privacy.ledger.sqlite import Purpose

_CONNECT_S = 10
_CREATION_LOCK = 0x756E646572  # any constant: the advisory lock while tables are made
_NAME_BYTES = 63  # of a client's name, which PostgreSQL cuts there

_HOLDERS = """
SELECT a.application_name, a.pid FROM pg_locks AS l JOIN pg_stat_activity AS a ON a.pid = l.pid
WHERE l.granted AND l.mode IN ('RowShareLock', 'RowExclusiveLock', 'AccessExclusiveLock')
AND l.relation = to_regclass('ledger_head') ORDER BY a.xact_start
"""
"""Clients with a lock of a writer on the head: the one that has it first, then those that wait."""


class PostgresServer:
    """A PostgreSQL database as the store of a ledger, as `sqlite.SqliteFile` is.

    Args:
        url: ``postgresql://USER:PASSWORD@HOST:PORT/NAME``, as libpq reads it.
    """

    mark = "%s"

    def __init__(self, url: str) -> None:
        with packages_for("a ledger in PostgreSQL", "postgres"):
            import psycopg
            from psycopg.conninfo import conninfo_to_dict
        self.errors: tuple[type[Exception], ...] = (psycopg.Error,)
        try:
            parts, options = urlsplit(url), conninfo_to_dict(url)
            ports = str(options.get("port") or 0).replace(",", "")
            if "@" in parts.netloc.rpartition("@")[0] + parts.path or not ports.isdecimal():
                raise ValueError("a password that is not encoded reads on as host, port or name")
        except (ValueError, psycopg.Error):
            # "from None": the text at fault may hold the password.
            raise LedgerError(
                "the ledger's URL cannot be read: write postgresql://USER:PASSWORD@HOST:PORT/NAME "
                "(percent-encode special characters, %40 for @) or the path of a file"
            ) from None
        host, port = options.get("host", "local socket"), options.get("port")
        place = host if port is None else f"{host}:{port}"
        self.address = f"postgresql://{place}/{options.get('dbname', '')}"
        name = f"understudy, process {os.getpid()} on {socket.gethostname()}"
        self._url = url
        self._defaults: dict[str, Any] = {
            key: value
            for key, value in (
                ("connect_timeout", _CONNECT_S),
                ("application_name", name[:_NAME_BYTES]),
            )
            if key not in options
        }

    def connect(self) -> Any:
        """A new connection."""
        import psycopg

        return psycopg.connect(self._url, autocommit=True, **self._defaults)

    def limit_wait(self, connection: Any, seconds: float) -> None:
        """Let statements wait for a lock as long as this."""
        connection.execute(f"SET lock_timeout = '{round(1000 * seconds)}ms'")

    def is_locked(self, error: Exception) -> bool:
        """Whether another client held the lock all the while."""
        import psycopg

        return isinstance(error, psycopg.errors.LockNotAvailable)

    def begin(self, connection: Any, purpose: Purpose) -> None:
        """Begin a transaction; one that writes waits for its turn."""
        if purpose == "read":
            connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
            return
        # READ COMMITTED: the process that waited for the head sees what the winner wrote.
        connection.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
        connection.execute("SET LOCAL synchronous_commit = on")
        if purpose == "write":
            connection.execute("SELECT id FROM ledger_head FOR UPDATE")
        else:
            connection.execute(f"SELECT pg_advisory_xact_lock({_CREATION_LOCK})")

    def tables(self, connection: Any) -> set[str]:
        """``ledger_meta`` where the ledger is there; tables of others share the database."""
        ((table,),) = connection.execute("SELECT to_regclass('ledger_meta')::text").fetchall()
        return set() if table is None else {"ledger_meta"}

    def holder(self) -> str:
        """The client that holds the head, by its name and process, as the server lists them."""
        unknown = "another client holds it, which the server does not name"
        try:
            with self.connect() as connection:
                rows = connection.execute(_HOLDERS).fetchall()
        except self.errors:
            return unknown
        if not rows:
            return unknown
        name, pid = rows[0]
        return f"{name or 'a client without a name'} holds it (server process {pid})"
