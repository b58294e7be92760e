"""What devices may ask for, without HTTP: pairing, jobs, items, models, deletion, retention."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from pathlib import Path

from understudy.core.errors import RunError, count_words
from understudy.core.files import lock_of, write_whole
from understudy.methods.sanitize.ed25519 import new_signing_key, public_key_of
from understudy.methods.sanitize.jobs import JobPipeline
from understudy.methods.sanitize.pairing_code import PairingCode
from understudy.methods.sanitize.signed_results import sign
from understudy.methods.sanitize.wire import (
    About,
    DeletionReceipt,
    JobState,
    JobSubmission,
    PairingResult,
    accept_item,
    decode_message,
    encode_message,
    submission_digest,
)
from understudy.server.job_store import DAY, JobRow, JobStore, Quotas
from understudy.server.sealed_folders import JobFolders, JobGoneError

SUBMISSION, MODEL = "submission", "model"
"""Files of a job beside its items and stages."""

PAIRING_SECONDS = 15 * 60
ORPHAN_SECONDS = 3600
"""Age at which a folder that no row names is removed: a submission was interrupted."""

StopWorker = Callable[[str], None]
"""Ends a worker of that name, if it is at work; nothing of the job is in its memory after that."""


class UnsupportedJobError(RunError):
    """The server's pipeline cannot do what is asked."""


class ConflictError(RunError):
    """The job is not in the state that this needs."""


@contextmanager
def alone_in(folder: Path) -> Iterator[None]:
    """Hold a server's folder, made where it is missing: of several processes one makes its keys."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with lock_of(folder):
        yield


@dataclass(frozen=True)
class ServerKeys:
    """The server's own secrets.

    Attributes:
        signing: Ed25519, 32 bytes: signs models and receipts.
        hashing: 32 bytes: tokens and pairing secrets are stored as HMAC-SHA256 under it.
    """

    signing: bytes
    hashing: bytes

    @classmethod
    def of(cls, folder: Path) -> ServerKeys:
        """Those of a server's folder, made where there are none (mode 0600)."""
        path = folder / "server.key"
        with alone_in(folder):
            if not path.exists():
                write_whole(path, new_signing_key() + secrets.token_bytes(32))
        data = path.read_bytes()
        if len(data) != 64:
            raise RunError(f"{path} is no server key: restore it from a copy")
        return cls(data[:32], data[32:])

    @cached_property
    def public_key(self) -> str:
        """What devices check signatures with."""
        return public_key_of(self.signing)

    def keyed(self, purpose: str, secret: bytes) -> str:
        """HMAC-SHA256 of a token or a pairing secret, in hexadecimal."""
        return hmac.new(self.hashing, purpose.encode() + b"\0" + secret, sha256).hexdigest()


def new_pairing_code(
    store: JobStore, keys: ServerKeys, url: str, certificate: str | None = None
) -> PairingCode:
    """A code that pairs one device within a quarter of an hour.

    `certificate`: SHA-256 of its certificate; None without TLS.
    """
    secret = secrets.token_hex(16)
    keyed = keys.keyed("pairing", bytes.fromhex(secret))
    store.add_pairing(keyed, store.clock() + PAIRING_SECONDS)
    return PairingCode(url=url, secret=secret, public_key=keys.public_key, certificate=certificate)


@dataclass(frozen=True)
class JobService:
    """One server's devices and jobs.

    Attributes:
        pipeline: What turns jobs into models; here only to say what it can do.
        retention: Seconds after which everything of a job is deleted.
        stop_worker: Called before the files of a running job are destroyed.
        orphans: Folders of no job, and when a sweep saw each first: by the store's clock, for the
            times of files are by the machine's, which may have been set since.
    """

    store: JobStore
    folders: JobFolders
    keys: ServerKeys
    pipeline: JobPipeline
    quotas: Quotas = field(default_factory=Quotas)
    retention: int = DAY
    stop_worker: StopWorker = lambda worker: None
    version: str = "understudy"
    orphans: dict[str, int] = field(default_factory=dict, init=False)

    def about(self) -> About:
        """What the server says of itself."""
        return About(
            version=self.version,
            public_key=self.keys.public_key,
            pipeline=self.pipeline.name,
            stages=self.pipeline.stages,
            models=self.pipeline.models,
            retention=self.retention,
            open_jobs=self.quotas.open_jobs,
            jobs_a_day=self.quotas.jobs_a_day,
            stored_bytes=self.quotas.stored_bytes,
        )

    def pair(self, secret: str) -> PairingResult | None:
        """A new device's token; None where the secret is unknown, used or too old."""
        token = secrets.token_bytes(32)
        device = self.store.pair(
            self.keys.keyed("pairing", bytes.fromhex(secret)), self.keys.keyed("token", token)
        )
        if device is None:
            return None
        return PairingResult(token=token.hex(), public_key=self.keys.public_key)

    def access(self, token: bytes, job: str) -> tuple[str | None, JobRow | None]:
        """The device of a token, and its job of that id.

        A wrong token, a revoked one and another device's cost the same work: one keyed hash and one
        query by unique keys. What is compared is the hash, which no caller can choose.
        """
        return self.store.access(self.keys.keyed("token", token), job)

    def submit(self, device: str, submission: JobSubmission) -> JobState:
        """A new job, or the state of the one that was submitted before.

        Raises:
            UnsupportedJobError: The pipeline cannot do what is asked.
            QuotaRefusedError: The device has used what it may.
        """
        if (objection := self.pipeline.objection(submission.request)) is not None:
            raise UnsupportedJobError(objection)
        job = secrets.token_hex(16)
        self.folders.create(job)
        try:
            self.folders.write(job, SUBMISSION, encode_message(submission))
            row = self.store.submit(
                device,
                job,
                submission_digest(submission),
                submission.item_bytes,
                self.store.clock() + self.retention,
                self.quotas,
            )
        except BaseException:
            self.folders.destroy(job)
            raise
        if row.id != job:
            self.folders.destroy(job)
        return self.state(row)

    def put_item(self, row: JobRow, digest: str, data: bytes) -> JobState:
        """Take an item; the same one again changes nothing.

        Raises:
            WireError: It is not an item of this job.
            ConflictError: The job has been started without it, or deleted.
        """
        submission = self._submission(row)
        accept_item(submission, digest, data)
        if not self.folders.exists(row.id, f"items/{digest}"):
            if row.state != "open":
                raise ConflictError("items are taken before the job is started")
            self.folders.write(row.id, f"items/{digest}", data)
        return self.state(row)

    def start(self, row: JobRow) -> JobState:
        """Let workers take the job; again changes nothing.

        Raises:
            ConflictError: Items are missing, or the job was deleted.
        """
        if row.state in ("deleting", "deleted"):
            raise ConflictError("the job was deleted")
        state = self.state(row)
        if state.missing:
            items = count_words(len(state.missing), "item is", "items are")
            raise ConflictError(f"{items} missing: send them first")
        return self.state(self.store.queue(row.id))

    def state(self, row: JobRow) -> JobState:
        """How far the job is."""
        missing: tuple[str, ...] = ()
        if row.state == "open":
            arrived = self.folders.names(row.id, "items")
            announced = self._submission(row).manifest.digests
            missing = tuple(digest for digest in announced if digest not in arrived)
        return JobState(
            job=row.id,
            state="deleted" if row.state == "deleting" else row.state,
            missing=missing,
            stages=self.pipeline.stages,
            finished=row.finished,
            failure=row.failure,
            expires_in=max(0, row.expires - self.store.clock()),
        )

    def model(self, row: JobRow) -> bytes:
        """The encoded result and model.

        Raises:
            ConflictError: There is none (yet, or any more).
        """
        if row.state != "done":
            raise ConflictError("the job has no model: wait until its state is done")
        try:
            return self.folders.read(row.id, MODEL)
        except JobGoneError:
            raise ConflictError("the job was deleted") from None

    def delete(self, row: JobRow, reason: str = "requested") -> DeletionReceipt:
        """Destroy everything of a job, then sign that it is done; again gives the same receipt."""
        row = self.store.mark_deleting(row.id, reason)
        if row.receipt is not None:
            return decode_message(DeletionReceipt, row.receipt.encode())
        if row.worker is not None:
            self.stop_worker(row.worker)
        self.folders.destroy(row.id)
        receipt = sign(
            DeletionReceipt,
            self.keys.signing,
            job=row.id,
            submission=row.submission,
            item_bytes=row.item_bytes,
            delivered=bool(row.delivered),
            reason=row.reason,
            deleted_at=self.store.clock(),
        )
        stored = self.store.mark_deleted(row.id, encode_message(receipt).decode()).receipt
        return decode_message(DeletionReceipt, (stored or "").encode())

    def end_overtime(self) -> None:
        """Fail the jobs that have taken more time than one may, and end their workers."""
        for row in self.store.overtime(self.quotas.job_seconds):
            worker = row.worker or ""
            if self.store.complete(row.id, worker, "time"):
                self.stop_worker(worker)
                self.folders.drop_work(row.id)

    def sweep(self) -> int:
        """Delete what is overdue and what crashes left behind; the number of jobs deleted."""
        overdue = self.store.overdue()
        for row in overdue:
            self.delete(row, "expired")
        for job in self.store.settled():
            self.folders.drop_work(job)
        now = self.store.clock()
        rows = {job: self.store.job(job) for job in self.folders.jobs()}
        orphans = {job: self.orphans.get(job, now) for job, row in rows.items() if row is None}
        self.orphans.clear()
        self.orphans.update(orphans)
        old = {job for job, since in orphans.items() if now - since > ORPHAN_SECONDS}
        for job in old.union(job for job, row in rows.items() if row and row.state == "deleted"):
            self.folders.destroy(job)
        self.store.forget()
        return len(overdue)

    def _submission(self, row: JobRow) -> JobSubmission:
        try:
            return decode_message(JobSubmission, self.folders.read(row.id, SUBMISSION))
        except JobGoneError:
            raise ConflictError("the job was deleted") from None
