"""A real PostgreSQL server for the length of a test session, from Debian's package."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from psycopg.sql import SQL, Identifier

OWNER = "understudy"
SETTINGS = {
    "listen_addresses": "",  # a Unix socket in the folder of the cluster, and nothing else
    "max_connections": "40",
    "fsync": "off",  # tests kill clients, never the server
    "jit": "off",
}


class NoServerError(Exception):
    """There is no server to start here; says why."""


def binaries() -> Path:
    """The folder with ``initdb`` and ``pg_ctl``: on the path, or the newest of Debian's."""
    found = shutil.which("initdb")
    if found and (Path(found).resolve().parent / "pg_ctl").exists():
        return Path(found).resolve().parent
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    if not folders:
        raise NoServerError("needs a PostgreSQL server: apt-get install postgresql")
    return max(folders, key=lambda folder: int(folder.parent.name))


def account() -> dict[str, Any]:
    """Who runs the server: PostgreSQL refuses root, so root lends it the package's account."""
    if os.geteuid() != 0:
        return {}
    try:
        entry = pwd.getpwnam("postgres")
    except KeyError:
        raise NoServerError("needs the account 'postgres' to run a server as root") from None
    return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}


@contextmanager
def serving() -> Iterator[Path]:
    """Start a throw-away cluster; yields the folder of its socket; stops and removes it after."""
    programs, who = binaries(), account()
    # Not pytest's own folder: the server's account may not look into that one.
    place = os.environ.get("PYTEST_DEBUG_TEMPROOT")
    with tempfile.TemporaryDirectory("", "pg-", place, ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if who:
            os.chown(folder, who["user"], who["group"])
        data = folder / "data"

        def call(program: str, *arguments: str) -> None:
            command = [str(programs / program), "-D", str(data), *arguments]
            with (folder / "out").open("ab") as out:  # a pipe would stay open in the server
                done = subprocess.run(command, cwd=folder, stdout=out, stderr=out, **who)
            if done.returncode:
                raise NoServerError(f"{program} failed: {(folder / 'out').read_text()}")

        call("initdb", "-U", OWNER, "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
        options = " ".join(f"-c {name}='{value}'" for name, value in SETTINGS.items())
        call("pg_ctl", "-w", "-l", str(folder / "log"), "-o", f"-k {folder} {options}", "start")
        try:
            yield folder
        finally:
            call("pg_ctl", "-m", "immediate", "stop")


def create_schema(socket: Path, name: str) -> str:
    """An empty place of the server, seen as a database of its own; returns its URL."""
    with psycopg.connect(host=str(socket), user=OWNER, dbname="postgres", autocommit=True) as admin:
        admin.execute(SQL("CREATE SCHEMA {}").format(Identifier(name)))
    # Far faster than CREATE DATABASE, and the way a team would share one.
    return f"postgresql://{OWNER}@/postgres?host={socket}&options=-csearch_path%3D{name}"
