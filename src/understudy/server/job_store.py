"""What the server knows of devices and jobs: counts, times and digests, in SQLite or PostgreSQL.

No noun, no item and no model is in the database: those are in the `sealed_folders`. Every method is
one transaction, so that the server and its workers may be killed between any two of them.
"""

from __future__ import annotations

import secrets
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from understudy.core.errors import ConfigError, RunError, packages_for
from understudy.methods.sanitize.wire import FailureCode

with packages_for("the server", "server"):
    from sqlalchemy import (
        URL,
        Column,
        Connection,
        Index,
        Integer,
        MetaData,
        RowMapping,
        Table,
        Text,
        UniqueConstraint,
        and_,
        create_engine,
        delete,
        event,
        func,
        insert,
        inspect,
        make_url,
        or_,
        select,
        update,
    )
    from sqlalchemy.exc import ArgumentError, SQLAlchemyError

WallClock = Callable[[], int]
"""Seconds since 1970."""

DAY = 24 * 3600
TOMBSTONE = 30 * DAY
"""How long the receipt of a deleted job can be asked for again."""
ATTEMPTS = 20
"""Workers that may die in one stage of a job before it fails."""
_WAIT_S = 60
_CREATION_LOCK = 0x737075636B  # any constant: PostgreSQL's advisory lock while tables are made

LIVE = ("open", "queued", "running", "done", "failed")
"""States of a job of which something is stored."""

_TABLES = MetaData()
_PAIRINGS = Table(
    "pairings",
    _TABLES,
    Column("secret", Text, primary_key=True),
    Column("expires", Integer, nullable=False),
)
_DEVICES = Table(
    "devices",
    _TABLES,
    Column("id", Text, primary_key=True),
    Column("token", Text, nullable=False, unique=True),
    Column("created", Integer, nullable=False),
    Column("revoked", Integer, nullable=False, default=0),
    # When one of its jobs was taken up last, counted in jobs.
    Column("turn", Integer, nullable=False, default=0),
)
_JOBS = Table(
    "jobs",
    _TABLES,
    Column("id", Text, primary_key=True),
    Column("device", Text, nullable=False),
    Column("submission", Text, nullable=False),
    Column("state", Text, nullable=False),
    Column("item_bytes", Integer, nullable=False),
    Column("created", Integer, nullable=False),
    Column("expires", Integer, nullable=False),
    Column("finished", Integer, nullable=False, default=0),
    Column("attempts", Integer, nullable=False, default=0),
    Column("worker", Text),
    Column("lease", Integer, nullable=False, default=0),
    Column("worked", Integer, nullable=False, default=0),  # seconds that workers have been at it
    Column("failure", Text),
    Column("delivered", Integer, nullable=False, default=0),
    Column("reason", Text),
    Column("receipt", Text),
    UniqueConstraint("device", "submission"),
    Index("jobs_by_state", "state", "lease"),
)
_CLOCK = Table("clock", _TABLES, Column("latest", Integer, nullable=False))  # one row


@dataclass(frozen=True, slots=True)
class Quotas:
    """What one device may use.

    Attributes:
        jobs_a_day: Jobs begun in 24 hours, deleted ones too.
        stored_bytes: Bytes of items of all its jobs.
        job_seconds: Seconds that workers are at one job, all their attempts together.
    """

    open_jobs: int = 4
    jobs_a_day: int = 32
    stored_bytes: int = 128 * 2**20
    job_seconds: int = 4 * 3600


class QuotaRefusedError(RunError):
    """The device has used what it may."""


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job as the database knows it; see the columns of the table."""

    id: str
    device: str
    submission: str
    state: Literal["open", "queued", "running", "done", "failed", "deleting", "deleted"]
    item_bytes: int
    created: int
    expires: int
    finished: int
    attempts: int
    worker: str | None
    lease: int
    worked: int
    failure: FailureCode | None
    delivered: int
    reason: Literal["requested", "expired"] | None
    receipt: str | None


@dataclass(frozen=True, slots=True)
class DeviceRow:
    """A device: its id, when it was paired (seconds since 1970), and whether its token holds."""

    id: str
    created: int
    revoked: bool


class JobStore:
    """The tables, opened or made.

    Args:
        url: ``sqlite:///FILE`` or ``postgresql://USER:PASSWORD@HOST/NAME``, as text or not.
        clock: Makes what gives the time, of the latest time that the database knows.

    Raises:
        ConfigError: The database cannot be opened.
    """

    def __init__(self, url: str | URL, clock: Callable[[int], WallClock]) -> None:
        self._engine = _engine(url)
        try:
            with self._write() as connection:
                if self._engine.dialect.name == "postgresql":
                    connection.execute(select(func.pg_advisory_xact_lock(_CREATION_LOCK)))
                _TABLES.create_all(connection)
                columns = {one["name"] for one in inspect(connection).get_columns("jobs")}
                latest = connection.execute(select(_CLOCK.c.latest)).scalar()
                if latest is None:
                    connection.execute(insert(_CLOCK).values(latest=0))
        except (SQLAlchemyError, sqlite3.Error) as error:
            cause = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
            raise ConfigError(
                f"the server's database cannot be opened: {cause}. Check --database"
            ) from error
        if columns != set(_JOBS.c.keys()):
            raise ConfigError(
                "the server's database is of another version: choose another --data (and "
                "--database), pair devices anew, and delete the folder of before: it holds what "
                "they sent, and nothing else deletes that now"
            )
        self.clock = clock(latest or 0)

    def close(self) -> None:
        """Let go of the database."""
        self._engine.dispose()

    # Devices

    def add_pairing(self, secret: str, expires: int) -> None:
        """Keep the keyed hash of a pairing secret; others that have expired go."""
        with self._write() as connection:
            connection.execute(delete(_PAIRINGS).where(_PAIRINGS.c.expires <= self.clock()))
            connection.execute(insert(_PAIRINGS).values(secret=secret, expires=expires))

    def pair(self, secret: str, token: str) -> str | None:
        """The id of a new device with this keyed token; None where the secret does not hold."""
        device = secrets.token_hex(8)
        with self._write() as connection:
            result = connection.execute(
                delete(_PAIRINGS).where(
                    _PAIRINGS.c.secret == secret, _PAIRINGS.c.expires > self.clock()
                )
            )
            if result.rowcount != 1:
                return None
            row = {"id": device, "token": token, "created": self.clock()}
            connection.execute(insert(_DEVICES).values(row))
        return device

    def devices(self) -> list[DeviceRow]:
        """Every device that was ever paired, oldest first."""
        columns = (_DEVICES.c.id, _DEVICES.c.created, _DEVICES.c.revoked)
        with self._read() as connection:
            rows = connection.execute(select(*columns).order_by(_DEVICES.c.created)).all()
        return [DeviceRow(row.id, row.created, bool(row.revoked)) for row in rows]

    def revoke(self, device: str) -> bool:
        """Let a device's token hold no more; False where there is no such device."""
        with self._write() as connection:
            result = connection.execute(
                update(_DEVICES).where(_DEVICES.c.id == device).values(revoked=1)
            )
        return result.rowcount == 1

    def access(self, token: str, job: str) -> tuple[str | None, JobRow | None]:
        """The device of a keyed token, and its job of that id: one query, whatever is missing."""
        with_jobs = _DEVICES.outerjoin(
            _JOBS, and_(_JOBS.c.device == _DEVICES.c.id, _JOBS.c.id == job)
        )
        valid = and_(_DEVICES.c.token == token, _DEVICES.c.revoked == 0)
        query = select(_DEVICES.c.id.label("owner"), *_JOBS.c).select_from(with_jobs).where(valid)
        with self._read() as connection:
            row = connection.execute(query).mappings().one_or_none()
        if row is None:
            return None, None
        return row["owner"], None if row["id"] is None else _job(row)

    # Jobs, as devices use them

    def submit(
        self, device: str, job: str, submission: str, item_bytes: int, expires: int, quotas: Quotas
    ) -> JobRow:
        """A new open job, or the one that this device has of the same submission.

        Raises:
            QuotaRefusedError: The device has used what it may.
        """
        now = self.clock()
        with self._write() as connection:
            connection.execute(  # one submission of a device at a time
                select(_DEVICES.c.id).where(_DEVICES.c.id == device).with_for_update()
            )
            same = and_(_JOBS.c.device == device, _JOBS.c.submission == submission)
            former = connection.execute(select(_JOBS).where(same)).mappings().one_or_none()
            if former is not None:
                return _job(former)
            self._check_quotas(connection, device, item_bytes, quotas)
            connection.execute(
                insert(_JOBS).values(
                    id=job,
                    device=device,
                    submission=submission,
                    state="open",
                    item_bytes=item_bytes,
                    created=now,
                    expires=expires,
                )
            )
            return _one(connection, job)

    def _check_quotas(
        self, connection: Connection, device: str, item_bytes: int, quotas: Quotas
    ) -> None:
        mine = _JOBS.c.device == device
        live = and_(mine, _JOBS.c.state.in_([*LIVE, "deleting"]))
        recent = and_(mine, _JOBS.c.created > self.clock() - DAY)
        count, stored_bytes = connection.execute(
            select(func.count(), func.coalesce(func.sum(_JOBS.c.item_bytes), 0)).where(live)
        ).one()
        today = connection.execute(select(func.count()).where(recent)).scalar_one()
        if count >= quotas.open_jobs:
            raise QuotaRefusedError(f"at most {quotas.open_jobs} jobs at a time: delete one first")
        if today >= quotas.jobs_a_day:
            raise QuotaRefusedError(f"at most {quotas.jobs_a_day} jobs in 24 hours: wait")
        if stored_bytes + item_bytes > quotas.stored_bytes:
            raise QuotaRefusedError(
                f"at most {quotas.stored_bytes} bytes of items: {stored_bytes} are stored, and "
                f"{item_bytes} would be added; delete a job, or send fewer references"
            )

    def jobs(self) -> list[JobRow]:
        """All jobs that are known, in the order in which they were begun."""
        with self._read() as connection:
            rows = connection.execute(select(_JOBS).order_by(_JOBS.c.created, _JOBS.c.id))
            return [_job(row) for row in rows.mappings()]

    def job(self, job: str) -> JobRow | None:
        """A job; None where there is none."""
        with self._read() as connection:
            row = connection.execute(select(_JOBS).where(_JOBS.c.id == job)).mappings().first()
        return None if row is None else _job(row)

    def queue(self, job: str) -> JobRow:
        """Let workers take an open job; any other stays as it is."""
        return self._change(job, _JOBS.c.state == "open", state="queued")

    def mark_delivered(self, job: str) -> None:
        """Remember that the model was sent."""
        self._change(job, _JOBS.c.state == "done", delivered=1)

    def mark_deleting(self, job: str, reason: str) -> JobRow:
        """No worker and no device can use the job from here on; its files are still there."""
        return self._change(job, _JOBS.c.state.in_(LIVE), state="deleting", reason=reason)

    def mark_deleted(self, job: str, receipt: str) -> JobRow:
        """The files are gone; the receipt stays."""
        values = {"state": "deleted", "receipt": receipt, "worker": None}
        return self._change(job, _JOBS.c.state == "deleting", **values)

    def overdue(self) -> list[JobRow]:
        """Jobs whose time is over, and those whose deletion was interrupted."""
        over = and_(_JOBS.c.state.in_(LIVE), _JOBS.c.expires <= self.clock())
        query = select(_JOBS).where(or_(over, _JOBS.c.state == "deleting"))
        with self._read() as connection:
            return [_job(row) for row in connection.execute(query).mappings()]

    def settled(self) -> list[str]:
        """Ids of jobs that no worker works at any more, and that are not deleted."""
        query = select(_JOBS.c.id).where(_JOBS.c.state.in_(["done", "failed"]))
        with self._read() as connection:
            return list(connection.execute(query).scalars())

    def forget(self) -> None:
        """Remove the rows of jobs that were deleted long ago, and note the time."""
        now = self.clock()
        tombstones = and_(_JOBS.c.state == "deleted", _JOBS.c.expires <= now - TOMBSTONE)
        with self._write() as connection:
            connection.execute(update(_CLOCK).where(_CLOCK.c.latest < now).values(latest=now))
            connection.execute(delete(_JOBS).where(tombstones))

    # Jobs, as workers use them

    def claim(self, worker: str, lease: int) -> JobRow | None:
        """The next job, now this worker's for so many seconds.

        It is the oldest of the device whose last turn is longest ago: one device's jobs, however
        many, keep another one waiting for one of them. A job of another worker whose lease is over
        waits, too. One that `ATTEMPTS` workers died of in the same stage fails.
        """
        now = self.clock()
        free = or_(
            _JOBS.c.state == "queued", and_(_JOBS.c.state == "running", _JOBS.c.lease <= now)
        )
        query = select(_JOBS).join(_DEVICES, _DEVICES.c.id == _JOBS.c.device)
        query = query.where(free, _JOBS.c.expires > now)
        query = query.order_by(_DEVICES.c.turn, _JOBS.c.created, _JOBS.c.id).limit(1)
        first = query.with_for_update(of=_JOBS, skip_locked=True)
        with self._write() as connection:
            row = connection.execute(first).mappings().first()
            if row is None:
                return None
            latest = connection.execute(select(func.max(_DEVICES.c.turn))).scalar_one()
            mine = _DEVICES.c.id == row["device"]
            connection.execute(update(_DEVICES).where(mine).values(turn=latest + 1))
            values: dict[str, Any] = {"state": "running", "worker": worker, "lease": now + lease}
            values["attempts"] = row["attempts"] + 1
            if row["attempts"] >= ATTEMPTS:
                values |= {"state": "failed", "failure": "crashed", "worker": None}
            connection.execute(update(_JOBS).where(_JOBS.c.id == row["id"]).values(values))
            claimed = _one(connection, row["id"])
        return claimed if claimed.state == "running" else None

    def renew(self, job: str, worker: str, lease: int, worked: int = 0) -> bool:
        """Whether the job is still this worker's, which it is for so many seconds more.

        ``worked`` are seconds since the worker asked last, which count as work at the job.
        """
        seconds = _JOBS.c.worked + worked
        return self._as_worker(job, worker, lease=self.clock() + lease, worked=seconds)

    def overtime(self, seconds: int) -> list[JobRow]:
        """Running jobs that workers have been at for longer than so many seconds."""
        over = select(_JOBS).where(_JOBS.c.state == "running", _JOBS.c.worked > seconds)
        with self._read() as connection:
            return [_job(row) for row in connection.execute(over).mappings()]

    def advance(self, job: str, worker: str, finished: int) -> bool:
        """So many stages are on disk; False where the job is not this worker's any more."""
        return self._as_worker(job, worker, finished=finished, attempts=1)

    def complete(self, job: str, worker: str, failure: FailureCode | None = None) -> bool:
        """The model is on disk, or the job has failed; False as for `advance`."""
        state = "failed" if failure else "done"
        return self._as_worker(job, worker, state=state, failure=failure, worker=None)

    def release(self, worker: str) -> None:
        """A worker has died: what it was at can be taken up at once."""
        own = and_(_JOBS.c.worker == worker, _JOBS.c.state == "running")
        with self._write() as connection:
            connection.execute(update(_JOBS).where(own).values(lease=0))

    def _as_worker(self, job: str, worker: str, /, **values: Any) -> bool:
        own = and_(_JOBS.c.id == job, _JOBS.c.worker == worker, _JOBS.c.state == "running")
        with self._write() as connection:
            return connection.execute(update(_JOBS).where(own).values(values)).rowcount == 1

    def _change(self, job: str, condition: Any, **values: Any) -> JobRow:
        with self._write() as connection:
            connection.execute(update(_JOBS).where(_JOBS.c.id == job, condition).values(values))
            return _one(connection, job)

    @contextmanager
    def _read(self) -> Iterator[Connection]:
        with self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _write(self) -> Iterator[Connection]:
        with self._engine.execution_options(job_write=True).begin() as connection:
            yield connection


def _job(row: RowMapping) -> JobRow:
    return JobRow(**{name: row[name] for name in _JOBS.c.keys()})  # noqa: SIM118


def _one(connection: Connection, job: str) -> JobRow:
    return _job(connection.execute(select(_JOBS).where(_JOBS.c.id == job)).mappings().one())


def _engine(url: str | URL) -> Any:
    try:
        if isinstance(url, str):
            url = url.replace("postgres://", "postgresql://", 1)
        target = make_url(url)
    except (ArgumentError, ValueError):
        raise ConfigError(
            "--database cannot be read: write sqlite:///FILE or postgresql://USER@HOST/NAME"
        ) from None
    if target.get_backend_name() == "sqlite":
        engine = create_engine(target, hide_parameters=True, connect_args={"timeout": _WAIT_S})
        event.listen(engine, "connect", _sqlite_connected)
        event.listen(engine, "begin", _sqlite_begins)
        return engine
    if target.get_backend_name() != "postgresql":
        raise ConfigError("--database is of SQLite or of PostgreSQL")
    with packages_for("a server with PostgreSQL", "postgres"):
        return create_engine(
            target.set(drivername="postgresql+psycopg"),
            hide_parameters=True,
            pool_pre_ping=True,
            isolation_level="READ COMMITTED",
        )


def _sqlite_connected(connection: sqlite3.Connection, _record: object) -> None:
    connection.isolation_level = None  # transactions begin below, not by the driver's guess
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA secure_delete = ON")


def _sqlite_begins(connection: Connection) -> None:
    write = connection.get_execution_options().get("job_write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if write else "BEGIN")
