"""``understudy runs``: the runs in a folder, finished or not, by what they left there."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from understudy.core.errors import ConfigError, RunError
from understudy.release.outputs import UNCHOSEN, RunPaths, read_json, read_start
from understudy.report import read_record
from understudy.report.meaning import Guarantee

_DEPTH = 3  # folders below the one that is asked for
RunState = Literal["finished", "unfinished", "stopped", "running", "damaged"]


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run, as its folder states it.

    Attributes:
        folder: Its output folder.
        state: ``"finished"``; ``"unfinished"``, which ``--resume`` goes on with; ``"stopped"``, by
            the method itself; ``"running"`` in another process; or ``"damaged"``.
        method: Its method; None where no file says it.
        dataset: The private dataset; None for a base set, and where the owner's folder is missing.
        epsilon: Epsilon of the run, spent or to be spent; 0 for a base set, None where there is no
            guarantee.
        delta: Delta of the same.
        samples: Samples of the release; of a run without one, those that were asked for, if any.
        date: When it was finished or, without a release, begun: YYYY-MM-DD.
        problem: What is wrong with a damaged one, or why a method stopped, in words.
        guarantee: ``"differential privacy"``, ``"no private data"`` or ``"none"``; None where no
            file says it.
    """

    folder: Path
    state: RunState
    method: str | None = None
    dataset: str | None = None
    epsilon: float | None = None
    delta: float | None = None
    samples: int | None = None
    date: str | None = None
    problem: str | None = None
    guarantee: Guarantee | None = None

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self) | {"folder": str(self.folder)}


def list_runs(folder: str | Path = ".") -> list[RunSummary]:
    """The runs in a folder and in those up to three levels below it, by their paths.

    Reads what runs left (``run.json``, ``start.json`` and ``privacy.json``) and no dataset.
    """
    root = Path(folder)
    if not root.is_dir():
        raise ConfigError(f"{folder}: there is no such folder: understudy runs FOLDER")
    return [_summary(place) for place in _run_folders(root, _DEPTH)]


def _run_folders(folder: Path, depth: int) -> Iterator[Path]:
    files = RunPaths(folder)
    if os.path.isfile(files.start) or os.path.isfile(files.release / "privacy.json"):
        yield folder
        return
    if depth == 0:
        return
    try:
        with os.scandir(folder) as entries:
            children = sorted(
                entry.path
                for entry in entries
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(".")
            )
    except PermissionError:
        return
    for child in children:
        yield from _run_folders(Path(child), depth - 1)


def _summary(folder: Path) -> RunSummary:
    files = RunPaths(folder)
    try:
        if os.path.isfile(files.record) or not os.path.isfile(files.start):
            return _finished(files)
        return _begun(files)
    except RunError as error:
        return RunSummary(folder, "damaged", problem=str(error))


def _finished(files: RunPaths) -> RunSummary:
    """A run with its release; or the release of a base set, which has no ``run.json``."""
    record = read_record(read_json(files.release / "privacy.json"))
    receipt, dataset = record.receipt, None
    if os.path.isfile(files.record):
        dataset = str(read_json(files.record).get("dataset"))  # the rest is not looked at
    return RunSummary(
        files.out,
        "finished",
        record.method,
        dataset,
        None if record.unprotected else receipt.epsilon,
        None if record.unprotected else receipt.delta,
        record.count,
        record.date,
        guarantee=record.guarantee,
    )


def _begun(files: RunPaths) -> RunSummary:
    """A run without ``run.json``: killed, failed, or still at work."""
    settings = read_start(files.start)["settings"]
    # A method that stopped has ended, unless the rest of its budget was to go to another one.
    reason = UNCHOSEN if files.choosing else None
    if files.stop.is_file() and settings.get("otherwise") is None:
        reason = str(read_json(files.stop).get("reason"))
    state: RunState = "unfinished" if reason is None else "stopped"
    if is_locked(files.lock):
        state, reason = "running", None
    begun = datetime.fromtimestamp(files.start.stat().st_mtime, UTC)
    return RunSummary(
        files.out,
        state,
        settings.get("method"),
        settings.get("source"),
        settings.get("epsilon"),
        settings.get("delta"),
        settings.get("count"),
        begun.date().isoformat(),
        reason,
        guarantee="none" if settings.get("no_guarantee") else None,
    )


def is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file, such as one that works on a run."""
    if not path.is_file():  # a pipe would be waited for
        return False
    try:
        with path.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
    except OSError:
        return False
    return False
