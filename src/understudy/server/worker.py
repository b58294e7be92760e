"""Workers: processes that take jobs one after another, stage by stage.

A stage's files are on disk before the database says so, and each is a function of the submission
and of earlier stages alone: a job whose worker is killed goes on after its last whole stage, with
the same result. What a stage raises fails the job; its text is neither logged nor sent, for it may
hold what a device sent.
"""

from __future__ import annotations

import json
import logging
import multiprocessing
import os
import secrets
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from multiprocessing.process import BaseProcess

from understudy.core.errors import RunError
from understudy.core.processes import spawning
from understudy.methods.sanitize.jobs import (
    DIRECTIONS_FILE,
    MODEL_FILE,
    VALIDATION_FILE,
    JobMaterial,
    seed_of,
)
from understudy.methods.sanitize.signed_results import encode_model, model_digest, sign
from understudy.methods.sanitize.wire import (
    MODEL_BYTES,
    JobSubmission,
    ModelResult,
    decode_message,
    submission_digest,
)
from understudy.methods.sanitize.wire_items import Item, decode_item
from understudy.server.job_service import MODEL, SUBMISSION, JobService
from understudy.server.job_store import JobRow
from understudy.server.sealed_folders import JobGoneError

_log = logging.getLogger(__name__)

LEASE = 120
"""Seconds after which another worker may take the job of one that has gone silent."""
BEAT_SECONDS = LEASE // 4
"""Seconds between two signs that a worker is alive; its time at a job is counted in them."""
IDLE_SECONDS = 1.0

MakeService = Callable[[], JobService]
"""Opens the server's database and folders; it must be picklable, for workers are processes."""


class Worker:
    """Takes jobs and does their stages.

    It holds leases under its name: the process id and something random by default.
    """

    def __init__(self, service: JobService, name: str | None = None) -> None:
        self.name = name or f"{os.getpid()}-{secrets.token_hex(4)}"
        self._service, self._store, self._folders = service, service.store, service.folders

    def take_one(self) -> bool:
        """Take the next job to its end; False where none waits."""
        row = self._store.claim(self.name, LEASE)
        if row is None:
            return False
        try:
            with self._beating(row):
                self._work(row)
        except JobGoneError:
            _log.info("a job was deleted while it ran")
        except Exception as error:  # whatever a pipeline raises is the end of this job alone
            _log.error("a job failed: %s", type(error).__name__)
            if self._store.complete(row.id, self.name, "pipeline"):
                self._folders.drop_work(row.id)
        return True

    def _work(self, row: JobRow) -> None:
        pipeline, folders = self._service.pipeline, self._folders
        submission = decode_message(JobSubmission, folders.read(row.id, SUBMISSION))
        material = JobMaterial(
            request=submission.request,
            items=partial(self._items, row, submission),
            result=lambda stage, name: folders.read(row.id, f"stages/{stage}/{name}"),
            seed=seed_of(submission),
            beat=partial(self._beat, row),
        )
        for number, stage in enumerate(pipeline.stages, 1):
            if not folders.exists(row.id, f"stages/{stage}"):
                folders.write_stage(row.id, stage, pipeline.run(stage, material))
            if not self._store.advance(row.id, self.name, number):
                raise JobGoneError(f"job {row.id} was deleted")
        if not folders.exists(row.id, MODEL):
            folders.write(row.id, MODEL, self._result(row, submission, material))
        if not self._store.complete(row.id, self.name):
            raise JobGoneError(f"job {row.id} was deleted")
        folders.drop_work(row.id)

    def _items(self, row: JobRow, submission: JobSubmission, part: int) -> tuple[Item, ...]:
        names = [f"items/{digest}" for digest in submission.manifest.of(part)]
        return tuple(decode_item(self._folders.read(row.id, name)) for name in names)

    def _result(self, row: JobRow, submission: JobSubmission, material: JobMaterial) -> bytes:
        pipeline, request = self._service.pipeline, submission.request
        model = material.result(pipeline.stages[-1], MODEL_FILE)
        if len(model) > MODEL_BYTES:
            raise RunError(f"the pipeline's model has {len(model)} bytes, over {MODEL_BYTES}")
        directions = f"stages/{pipeline.stages[-1]}/{DIRECTIONS_FILE}"
        looks = b"[]"
        if self._folders.exists(row.id, directions):
            looks = self._folders.read(row.id, directions)
        result = sign(
            ModelResult,
            self._service.keys.signing,
            job=row.id,
            submission=submission_digest(submission),
            model=model_digest(model),
            model_bytes=len(model),
            kind=request.training_object,
            label_classes=request.label_classes,
            side=request.side,
            validation=float(material.result(pipeline.stages[-1], VALIDATION_FILE)),
            pipeline=pipeline.name,
            models=pipeline.models,
            directions=tuple(map(tuple, json.loads(looks))),
        )
        return encode_model(result, model)

    def _beat(self, row: JobRow) -> None:
        if not self._store.renew(row.id, self.name, LEASE):
            raise JobGoneError(f"job {row.id} was deleted")

    @contextmanager
    def _beating(self, row: JobRow) -> Iterator[None]:
        """Renew the lease in the background: a stage may take longer than it holds."""
        over = threading.Event()

        def beat() -> None:
            while not over.wait(BEAT_SECONDS):
                if not self._store.renew(row.id, self.name, LEASE, BEAT_SECONDS):
                    return

        thread = threading.Thread(target=beat, daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _work_forever(make: MakeService, name: str) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C: the server ends its workers
    threading.Thread(target=_end_with_parent, daemon=True).start()
    worker = Worker(make(), name)
    while True:  # until it is killed: a lock that is shared would be held by one that was
        if not worker.take_one():
            time.sleep(IDLE_SECONDS)


def _end_with_parent() -> None:
    """End this process where the server was killed: another server takes the job up."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


class WorkerPool:
    """Keeps so many workers at work: one that ends is replaced, and its job taken up at once."""

    def __init__(self, make: MakeService, service: JobService, count: int) -> None:
        self._make, self._service, self._count = make, service, count
        self._context = spawning()
        self._closed = False
        self._workers: dict[str, BaseProcess] = {}
        self._lock = threading.Lock()

    def tend(self) -> None:
        """Start what is missing, and let go of the jobs of workers that have ended."""
        with self._lock:
            for name, process in list(self._workers.items()):
                if not process.is_alive():
                    process.join()
                    del self._workers[name]
                    self._service.store.release(name)
            while len(self._workers) < self._count and not self._closed:
                name = secrets.token_hex(8)
                process = self._context.Process(
                    target=_work_forever, args=(self._make, name), daemon=True
                )
                process.start()
                self._workers[name] = process

    def stop_worker(self, name: str) -> None:
        """Kill a worker, so that nothing of a deleted job stays in its memory."""
        with self._lock:
            process = self._workers.get(name)
            if process is not None:
                process.kill()
                process.join()

    def close(self) -> None:
        """Kill all workers; what they were at goes on when the server is started again."""
        with self._lock:
            self._closed = True
            for name, process in self._workers.items():
                process.kill()
                process.join()
                self._service.store.release(name)
            self._workers.clear()
