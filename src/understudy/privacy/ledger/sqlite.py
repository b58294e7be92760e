"""A ledger in an SQLite file, and which process of this machine holds it."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import Any, Literal

from understudy.core.files import make_private_file

Purpose = Literal["read", "write", "make"]
"""Of a transaction: it sees one moment; holds the head; or holds the right to make the tables."""

WAIT_S = 60
"""Seconds that a locked ledger is waited for at most, in a file or on a server."""

_LOCKS = Path("/proc/locks")
_FIRST_LOCK = 0x40000000  # where SQLite's locks on a database file begin, in bytes
_WORDS = 120  # characters of another process's command line


class SqliteFile:
    """An SQLite file as the store of a ledger.

    Folder and file are made on first use, for the owner only: the file will hold the key.

    Attributes:
        address: Where it is, for messages: no user, no password.
        mark: What stands for a value in a statement.
        errors: What its driver raises.
    """

    mark = "?"
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, path: Path) -> None:
        self.address, self._path = str(path), path

    def connect(self) -> sqlite3.Connection:
        """A new connection."""
        if not self._path.exists():
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            make_private_file(self._path)
        # No isolation level: transactions begin below, not by the driver's guess.
        return sqlite3.connect(self.address, isolation_level=None)

    def limit_wait(self, connection: Any, seconds: float) -> None:
        """Let statements wait for a lock as long as this."""
        connection.execute(f"PRAGMA busy_timeout = {round(1000 * seconds)}")

    def is_locked(self, error: Exception) -> bool:
        """Whether another process held the file all the while."""
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY

    def begin(self, connection: Any, purpose: Purpose) -> None:
        """Begin a transaction; one that writes locks the file, and waits for its turn."""
        # EXTRA is FULL and the folder: with FULL alone, a power cut can undo the last commit.
        connection.execute("PRAGMA synchronous = EXTRA")  # reads the file: it may have to wait
        connection.execute("BEGIN" if purpose == "read" else "BEGIN IMMEDIATE")
        if purpose == "read":  # the lock is taken by the first read, and may have to wait as well
            connection.execute("SELECT count(*) FROM sqlite_master")

    def tables(self, connection: Any) -> set[str]:
        """Every table in the file."""
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        return {name for (name,) in rows.fetchall()}

    def holder(self) -> str:
        """The process that holds the file, as the kernel lists it; nothing is opened."""
        pid = _lock_holder(self._path)
        if pid is None:
            return "another process holds it, which this machine does not name"
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            return f"process {pid} holds it"
        words = " ".join(line.split("\0")).strip()
        return f"process {pid} holds it ({words[:_WORDS]}{'...' * (len(words) > _WORDS)})"


def _lock_holder(path: Path) -> int | None:
    """The process with a lock on SQLite's range of a file, first one that writes; None: unknown.

    Read from the kernel's list: asking by ``fcntl`` takes opening the file, and closing it again
    would drop the locks that this process itself has on it.
    """
    try:
        status, lines = path.stat(), _LOCKS.read_text().splitlines()
    except OSError:
        return None
    file = f"{os.major(status.st_dev):02x}:{os.minor(status.st_dev):02x}:{status.st_ino}"
    holders: list[tuple[bool, int]] = []
    for line in lines:  # 1: POSIX  ADVISORY  WRITE 4711 08:01:1234 1073741825 1073741825
        fields = line.split()
        if len(fields) != 8 or fields[5] != file or int(fields[6]) < _FIRST_LOCK:
            continue
        if (pid := int(fields[4])) not in (0, os.getpid()):
            holders.append((fields[3] != "WRITE", pid))
    return min(holders)[1] if holders else None
