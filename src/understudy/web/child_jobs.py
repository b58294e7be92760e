"""Commands of the command line in processes of their own, which outlive the studio.

A job is a folder of the owner's data folder: what was asked (``job.json``), what the command wrote
(``out``, ``err``, its progress as JSON lines) and its end (``end.json``). The command holds a lock
on ``lock`` for as long as it lives, from before it begins, so that a studio that was started again
knows it without asking for its number. A job that was begun is never begun again by itself: what a
killed run has paid for, its folder knows, and ``--resume`` goes on with it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from understudy.core.errors import ConfigError, RunError
from understudy.core.files import make_private_folder, owner_file, write_whole
from understudy.release.outputs import read_json
from understudy.release.runs import is_locked

ChildState = Literal["queued", "running", "finished", "failed", "stopped"]

# -P: no file of the folder that the studio is in takes the place of a library
_COMMAND = ("-P", "-c", "from understudy.cli.main import main; main()")
_AT_A_TIME = 2  # of the jobs that spend nothing
_MOST_STORED = 400
_TEND_SECONDS = 0.2
_LOG_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class ChildJob:
    """A command that was asked for.

    Attributes:
        id: 16 hexadecimal digits, by what was asked: to ask twice is to ask once.
        kind: What a page calls it: the command's first word.
        words: Of the command line, without the program's name.
        queue: Jobs of one queue wait for each other; empty: it waits for none.
        about: The dataset or the run that it is about, as a path.
        asked: When, in seconds since 1970.
        plan: The page on which it was planned; empty: none.
    """

    id: str
    kind: str
    words: tuple[str, ...]
    queue: str
    about: str
    asked: float
    plan: str = ""


@dataclass(frozen=True, slots=True)
class JobReport:
    """How far a job is.

    Attributes:
        state: ``"stopped"``: it was cancelled or killed, and says nothing of an error.
        step: What it is doing, in its own words; empty: nothing was said yet.
        fraction: Part of the step that is done; None where that is not known.
        seconds: Since the command began to report.
        left: Seconds that are left of the step, by the time that it took so far.
        notes: What the owner should know, as it came.
        message: Why it failed.
        ahead: How many jobs of its queue are before it.
    """

    state: ChildState
    step: str = ""
    fraction: float | None = None
    seconds: float = 0.0
    left: float | None = None
    notes: tuple[str, ...] = ()
    message: str = ""
    ahead: int = 0

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come of it."""
        return self.state not in ("queued", "running")


class ChildJobs:
    """The jobs of a studio.

    Args:
        folder: Where they are stored; made for the owner alone (mode 0700).
    """

    def __init__(self, folder: Path) -> None:
        make_private_folder(folder)
        self.folder = folder
        self._lock = threading.RLock()
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._jobs: dict[str, ChildJob] = {}  # as read; what was asked never changes
        self._opened = time.time()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._tend, name="jobs", daemon=True)

    def start(self) -> None:
        """Begin jobs as they come, from a thread."""
        self._thread.start()

    def close(self) -> None:
        """Begin no more jobs. Commands that run go on."""
        self._over.set()
        if self._thread.is_alive():
            self._thread.join()

    def ask(
        self,
        kind: str,
        words: Sequence[str],
        *,
        queue: str = "",
        about: str = "",
        stamp: str = "",
        plan: str = "",
    ) -> ChildJob:
        """Ask for a command; where the same was asked for, with the same stamp, it is that job.

        One that spends nothing, and that was killed in the time of an earlier studio, begins anew.
        """
        id = self.id_of(kind, words, stamp)
        with self._lock:
            if (earlier := self.get(id)) is not None:
                if queue or earlier.asked >= self._opened or self._state(earlier) != "stopped":
                    return earlier
                shutil.rmtree(self.folder / id)
                del self._jobs[id]
            job = ChildJob(id, kind, tuple(words), queue, about, time.time(), plan)
            finished_jobs = [one for one in self.all() if self._is_over(one)]
            for one in finished_jobs[: max(0, len(finished_jobs) - _MOST_STORED)]:
                shutil.rmtree(self.folder / one.id, ignore_errors=True)
            folder = self.folder / id
            folder.mkdir(mode=0o700, exist_ok=True)
            write_whole(folder / "job.json", json.dumps(asdict(job)).encode())
        return job

    @staticmethod
    def id_of(kind: str, words: Sequence[str], stamp: str = "") -> str:
        """The id of a job, by what is asked."""
        text = json.dumps([kind, list(words), stamp])
        return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()

    def get(self, id: str) -> ChildJob | None:
        """A job by its id."""
        if len(id) != 16 or not set(id) <= set("0123456789abcdef"):
            return None
        if not (self.folder / id / "job.json").exists():
            self._jobs.pop(id, None)
            return None
        try:
            if id not in self._jobs:
                values = read_json(self.folder / id / "job.json")
                self._jobs[id] = ChildJob(**{**values, "words": tuple(values["words"])})
            return self._jobs[id]
        except (RunError, TypeError, KeyError):
            return None

    def all(self) -> list[ChildJob]:
        """Every job, the oldest first."""
        jobs = [self.get(folder.name) for folder in self.folder.iterdir()]
        return sorted((job for job in jobs if job is not None), key=lambda job: job.asked)

    def of(self, about: Path, *kinds: str) -> list[ChildJob]:
        """The jobs about a run or a dataset, the oldest first; of these kinds, where any is named.

        The newest of a run is the one that works, or worked last, on it.
        """
        jobs = (job for job in self.all() if job.about == str(about))
        return [job for job in jobs if not kinds or job.kind in kinds]

    def newest(self, about: Path, *kinds: str) -> str:
        """The id of the newest of them, as a stamp of what is asked again; empty: there is none."""
        jobs = self.of(about, *kinds)
        return jobs[-1].id if jobs else ""

    def out(self, job: ChildJob) -> str:
        """What a command printed."""
        return _tail(self.folder / job.id / "out")

    def json(self, job: ChildJob) -> Any:
        """What a command printed, as JSON values; None where it is none."""
        try:
            return json.loads((self.folder / job.id / "out").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None

    def report(self, job: ChildJob) -> JobReport:
        """How far a job is."""
        folder = self.folder / job.id
        lines = list(_events(_tail(folder / "err")))
        state = self._state(job)
        step: dict[str, Any] = next(
            (one for one in reversed(lines) if str(one.get("event", "")).startswith("step_")), {}
        )
        fraction, elapsed = step.get("fraction"), step.get("took", 0.0)
        seconds_left = (
            elapsed * (1 / fraction - 1) if fraction and fraction < 1 and elapsed > 1 else None
        )
        notes = [str(one["message"]) for one in lines if one.get("event") == "warning"]
        texts = [str(one["text"]) for one in lines if "text" in one]
        return JobReport(
            state,
            str(step.get("step", "")),
            1.0 if state == "finished" else fraction,
            float(lines[-1].get("seconds", 0.0)) if lines else 0.0,
            seconds_left if state == "running" else None,
            tuple(notes),
            "\n".join(texts[-20:]).removeprefix("understudy: ") if state == "failed" else "",
            sum(
                one.queue == job.queue and one.asked < job.asked and not self._is_over(one)
                for one in (self.all() if state == "queued" else ())
            ),
        )

    def cancel(self, job: ChildJob) -> None:
        """Stop a job as Ctrl-C does; a run that has paid can be resumed, and loses nothing."""
        with self._lock:
            folder = self.folder / job.id
            if not self._begun(job):
                self._note_end(job, None)
            elif is_locked(folder / "lock"):  # so its number is still its own
                with suppress(ProcessLookupError, ValueError, OSError):
                    os.killpg(int((folder / "process").read_text()), signal.SIGTERM)

    def _state(self, job: ChildJob) -> ChildState:
        folder = self.folder / job.id
        if not self._begun(job):
            return "stopped" if (folder / "end.json").exists() else "queued"
        if is_locked(folder / "lock"):
            return "running"
        with self._lock:  # its end is being noted
            code = None
            if (folder / "end.json").exists():
                code = read_json(folder / "end.json")["code"]
            elif job.id in self._children:
                code = self._children[job.id].poll()
        if code is None:  # it ended while no studio was there: what it left has to say how
            return "finished" if self._concluded(job) else "stopped"
        if code == 0 or (code == 1 and self._concluded(job)):  # a dataset, or a promise, at fault
            return "finished"
        return "stopped" if code in (130, 143) or code < 0 else "failed"

    def _concluded(self, job: ChildJob) -> bool:
        """Whether `check` or `audit` printed what it found; they end in 1 where that is a fault."""
        return self.json(job) is not None or (job.kind == "audit" and bool(self.out(job)))

    def _begun(self, job: ChildJob) -> bool:
        return (self.folder / job.id / "begun").exists()

    def _is_over(self, job: ChildJob) -> bool:
        folder = self.folder / job.id
        return (folder / "end.json").exists() or (
            self._begun(job) and not is_locked(folder / "lock") and job.id not in self._children
        )

    def _tend(self) -> None:
        while not self._over.is_set():
            with suppress(OSError):  # a folder that is away for a moment
                self.tend()
            self._over.wait(_TEND_SECONDS)

    def tend(self) -> None:
        """Note what has ended, and begin what waits and may begin."""
        with self._lock:
            for id, child in list(self._children.items()):
                if child.poll() is not None:
                    del self._children[id]
                    if (job := self.get(id)) is not None:
                        self._note_end(job, child.returncode)
            open_jobs = [job for job in self.all() if not self._is_over(job)]
            for job in [one for one in open_jobs if not self._begun(one)]:
                jobs_ahead = [
                    one
                    for one in open_jobs
                    if one.queue == job.queue and (one.asked < job.asked or self._begun(one))
                ]
                if len(jobs_ahead) < (1 if job.queue else _AT_A_TIME):
                    self._begin(job)

    def _begin(self, job: ChildJob) -> None:
        folder = self.folder / job.id
        with owner_file(folder / "lock", "w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # goes to the child, ends with it
            except BlockingIOError:  # another studio begins it, or looks at it
                return
            if self._begun(job):
                return
            with owner_file(folder / "out", "wb") as out, owner_file(folder / "err", "wb") as err:
                write_whole(folder / "begun", b"")
                child = subprocess.Popen(
                    [sys.executable, *_COMMAND, *job.words],
                    stdin=subprocess.DEVNULL,
                    stdout=out,
                    stderr=err,
                    start_new_session=True,
                    pass_fds=(lock.fileno(),),
                )
                write_whole(folder / "process", str(child.pid).encode())
                self._children[job.id] = child

    def _note_end(self, job: ChildJob, code: int | None) -> None:
        text = json.dumps({"code": -signal.SIGTERM if code is None else code})
        write_whole(self.folder / job.id / "end.json", text.encode())


def _tail(path: Path) -> str:
    """The end of a file of text, whole lines."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _LOG_BYTES))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _events(text: str) -> Iterator[dict[str, Any]]:
    """Progress as it was written; a line that is none has its text under ``text``."""
    for line in text.splitlines():
        try:
            content = json.loads(line)
        except ValueError:
            content = None
        yield content if isinstance(content, dict) else {"text": line}


def required_job(job: ChildJob | None) -> ChildJob:
    """A job that was named.

    Raises:
        ConfigError: There is none of that name.
    """
    if job is None:
        raise ConfigError("there is no such job: it may be too old")
    return job
