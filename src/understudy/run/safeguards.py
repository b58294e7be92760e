"""What is refused because of this machine, and what is said where a run stops on the way."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from understudy.core.entry_points import failure_of_others
from understudy.core.errors import (
    BackendError,
    CommitInDoubt,
    ConfigError,
    InputError,
    LedgerError,
    RunError,
    RunStopped,
    SecondRelease,
    SourceError,
    UnderstudyError,
    escaped,
)
from understudy.core.ports import Events, Source
from understudy.core.types import Shape
from understudy.data.names import lone_class_words
from understudy.data.open_source import paths_of
from understudy.release.outputs import UNCHOSEN, RunPaths, read_start

_RESERVE = 64 << 20  # bytes: documents, the ledger, and what else writes to the disk meanwhile
_PER_SAMPLE = 64  # bytes of memory: labels, seeds and places in lists
_PER_FILE = 4096  # bytes that a file takes at least

_UNCHARGED = "Nothing was charged"
_FREE = "Nothing private was read, and nothing was charged: the same command draws it anew"

_OF_MACHINE = (OSError, MemoryError)
_OUT_OF_MEMORY = re.compile(
    r"start new thread|allocate memory|out of memory|bad alloc|create a primitive", re.IGNORECASE
)
"""What runtimes say where Python would have raised MemoryError."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a runtime says that memory is short."""
    return isinstance(error, RuntimeError) and _OUT_OF_MEMORY.search(str(error)) is not None


def require_apart(source: str, out: Path, what: str = "private dataset") -> None:
    """Refuse a result inside the folder of a dataset, or the dataset inside the result's.

    Raises:
        ConfigError: Either; the next look at the dataset would take synthetic images for its own,
            or sharing the folder would share the dataset.
    """
    result = out.resolve()
    for private in map(Path.resolve, paths_of(source)):
        if result.is_relative_to(private):
            raise ConfigError(
                f"--out {out} lies inside the {what} {source}: its images would be taken for those "
                "of the dataset at the next look; choose a folder outside of it"
            )
        if private.is_relative_to(result):
            raise ConfigError(
                f"the {what} {source} lies inside --out {out}: whoever shares that "
                "folder would share it; choose an empty folder"
            )


def require_class_names(source: Source, *, declared: bool) -> None:
    """Refuse class names that a release cannot have, or that one image alone would publish.

    Raises:
        SourceError: Control characters in a name, or a class of one image that was not declared.
        ConfigError: Letters that this process cannot write in the names of files.
    """
    for name in source.classes:
        if name != escaped(name):
            problem = f"the class {escaped(name)} has control characters in its name: rename it"
            raise SourceError(problem, source.name)
        encoding = sys.getfilesystemencoding()
        letters = name.encode(encoding, "ignore").decode(encoding)  # those that it has
        if encoding != "utf-8" and (_BYTES.search(name) or letters != name):
            raise ConfigError(
                f"file names are read and written in {encoding} here, which has no letters for "
                f"the class {name}. Nothing was spent. Set PYTHONUTF8=1, or a locale of UTF-8 "
                "(LC_ALL=C.UTF-8)"
            )
    lone: tuple[str, ...] = getattr(source, "lone_classes", ())
    if lone and not declared:
        raise SourceError(lone_class_words(lone, has_units=source.has_units), source.name)


_BYTES = re.compile(r"\\udc[89a-f][0-9a-f]")  # that are no text, as `escaped` writes them


def require_room(
    out: Path, count: int, shape: Shape | None, dim: int | None, candidates: int
) -> None:
    """Refuse a release that this machine's disk or memory cannot hold.

    Images are reckoned at a byte for each number, as where nothing can be compressed.
    """
    each = 0 if dim is None else 4 * dim
    if shape is not None:
        each += max(_PER_FILE, shape[0] * shape[1] * shape[2])
    needed = count * each + _RESERVE
    folder = next(path for path in (out, *out.resolve().parents) if path.is_dir())
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ConfigError(
            f"{count:,} samples take up to {_gigabytes(needed)} on disk, and {folder} has "
            f"{_gigabytes(free)} free: ask for fewer (--count), or write elsewhere (--out)"
        )
    available = available_memory()
    if available is not None and candidates * _PER_SAMPLE > available:
        what = "samples" if candidates == count else "candidates (samples times oversample)"
        raise ConfigError(
            f"{candidates:,} {what} take about {_gigabytes(candidates * _PER_SAMPLE)} of memory "
            f"for their labels alone, and this machine has {_gigabytes(available)} free: ask for "
            "fewer (--count)"
        )


def available_memory() -> int | None:
    """Bytes of memory that are free now; None where the system does not say."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _gigabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB"


@contextmanager
def opening_explained(events: Events) -> Iterator[None]:
    """The step in which a run is opened; of one that is interrupted there, say what it cost."""
    opening = events.step("opening the datasets and the models")
    try:
        yield
    except KeyboardInterrupt as interrupt:
        interrupt.add_note("Nothing was charged, and no folder was begun")
        raise
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        raise RunStopped(f"the memory is full ({error}). Nothing was charged") from error
    opening.finish()


def require_empty(out: Path) -> None:
    """Refuse a folder that holds something, or a file in its place.

    Raises:
        RunError: It is taken.
    """
    if out.is_file() or (out.is_dir() and any(out.iterdir())):
        raise RunError(f"{out} is taken: choose another --out, or remove it")


@contextmanager
def drawn_anew(out: Path) -> Iterator[Path]:
    """A folder for work that is never charged: what it holds at the end takes its place in ``out``.

    Where the work stops, ``out`` holds nothing of it, and the same command begins again.
    """
    with stops_explained(out, _FREE):
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".partial-", dir=out) as draft:
            yield Path(draft)
            for path in Path(draft).iterdir():
                path.rename(out / path.name)


@contextmanager
def stops_explained(out: Path, free: str | None = None) -> Iterator[list[str]]:
    """Say of a run that stops on the way what it was charged, and how it goes on.

    Args:
        out: Its folder.
        free: What is said of work that is never charged and is begun anew; None: it is resumed.

    Yields:
        A list for what was done for good, such as ``"epsilon 1 was charged"``; empty: nothing.

    Raises:
        RunStopped: In place of a disk that is full, memory that is short and the like; of a ledger
            that was lost as it recorded, where nothing is known to be charged; and of whatever a
            plug-in, or the runtime of a model, raises that is no error of ours.
        LedgerError: In place of one before the charge, with words that nothing was charged.
        KeyboardInterrupt: With the same words as a note, as any error that nothing is known of.
    """
    charged: list[str] = []
    stands = partial(_what_stands, out, charged, free)
    try:
        yield charged
    except KeyboardInterrupt as interrupt:
        interrupt.add_note(stands())
        raise
    except MemoryError as error:
        raise RunStopped(f"the memory is full. {stands()}") from error
    except OSError as error:
        problem = f"{error.strerror or error}" + (f": {error.filename}" if error.filename else "")
        raise RunStopped(f"{failure_of_others(error) or problem}. {stands()}") from error
    except InputError as error:
        ledger = isinstance(error, LedgerError)
        if isinstance(error, CommitInDoubt) and not charged:
            then = f"--resume goes on with {out}, and charges what is not charged yet"
            if read_start(RunPaths(out).start)["settings"].get("tune"):
                then = f"if not, --resume goes on with {out}; if so, its charge stays spent"
            raise RunStopped(
                f"{error}. Whether it has recorded what it was asked to is not known: {then}"
            ) from error
        if ledger and not charged:
            raise LedgerError(f"{error}. Nothing was charged") from error
        late = bool(charged) and isinstance(error, BackendError)  # of its runtime
        cause = (*_OF_MACHINE, Exception) if late else _OF_MACHINE
        machine = ledger or isinstance(error.__cause__, cause)
        if not (charged and machine):
            of_model = isinstance(error, BackendError) and _UNCHARGED not in str(error)
            if charged or machine or of_model:
                error.add_note(stands())
            raise
        raise RunStopped(f"{error}. {stands(error)}") from error
    except (Exception, SystemExit) as error:
        if is_out_of_memory(error):
            problem = f"the memory is full ({error})"
            raise RunStopped(f"{problem}. {stands()}") from error
        if isinstance(error, UnderstudyError):
            raise
        if failure := failure_of_others(error):
            raise RunStopped(f"{failure}. {stands()}") from error
        error.add_note(stands())
        raise


def _what_stands(
    out: Path, charged: list[str], free: str | None, error: Exception | None = None
) -> str:
    if not charged:
        begun = f". --resume goes on with {out}" if out.exists() else ", and no folder was begun"
        return free or f"{_UNCHARGED}{begun}"
    if RunPaths(out).choosing:
        return f"{', '.join(charged)} before this, once and for good. {UNCHOSEN}"
    words = f"{', '.join(charged)} before this, once and for good: "
    if isinstance(error, SecondRelease):
        return (
            f"{words}the other copy of this run goes on free of charge, and --resume of {out} pays "
            "for its stage again"
        )
    return f"{words}--resume goes on with {out}, free of charge"
