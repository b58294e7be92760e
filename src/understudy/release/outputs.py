"""The folder of a run: ``release/`` to share, ``owner/`` to keep, and what a resume needs.

Files are written whole or not at all, so that a run can be killed at any moment.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.damaged_files import NO_LITERAL, ZIP_DAMAGE, from_json
from understudy.core.errors import CommitInDoubt, RunError, UnderstudyError
from understudy.core.files import (
    HALF_WRITTEN,
    ReleaseFormat,
    close_to_others,
    owner_file,
    read_bounded,
)
from understudy.core.types import Release, Shape, SyntheticBatch

if TYPE_CHECKING:
    from understudy.core.ports import Source

NamedArrays = Mapping[str, NDArray[Any]]

_LOOK = 0.5  # seconds that a lock is tried for, which a process may hold that looks at it

_NOT_A_RUN = {
    False: "choose another --out",
    True: "it holds no run to resume (owner/start.json is missing)",
}


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Write JSON for the owner alone (mode 0600), so that it is there whole or not at all."""
    part = path.with_name(path.name + ".part")
    with owner_file(part, "w") as file:
        json.dump(value, file, indent=2, ensure_ascii=False, default=str)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file with an object in it, in which no name stands twice: readers would differ."""
    try:
        content = json.loads(read_bounded(path).decode("utf-8"), object_pairs_hook=_once)
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise RunError(f"{path}: holds a {type(content).__name__}, not a JSON object")
    return content


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs."""
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError("a name stands twice in an object")
    return content


def write_arrays(path: Path, arrays: NamedArrays) -> None:
    """Write an npz of numbers or of text so that it is there whole or not at all."""
    part = path.with_suffix(".part")
    with owner_file(part, "wb") as file:
        np.savez(file, **arrays)  # type: ignore[arg-type]  # takes any arrays
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def read_arrays(path: Path) -> NamedArrays:
    """What `write_arrays` wrote, which has no more bytes in memory than in its file."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            if sum(one.file_size for one in archive.zip.infolist()) > path.stat().st_size:
                raise ValueError("it is compressed")
            return dict(archive)
    except (*ZIP_DAMAGE, *NO_LITERAL, TypeError) as error:  # the last where it is one array
        raise RunError(f"{path}: damaged; delete it to have it made again: {error}") from error


UNCHOSEN = (
    "A tuning that ended before it had chosen settings is not gone on with, and its charge "
    "stays spent: start a new run in another folder"
)
"""What is said of a run whose settings were to be chosen by a score."""


class RunPaths:
    """Where the files of a run are."""

    def __init__(self, out: Path) -> None:
        self.out = out

    @property
    def release(self) -> Path:
        """What may be shared."""
        return self.out / "release"

    @property
    def draft(self) -> Path:
        """Where the release is written; it becomes `release` once its documents are complete."""
        return self.owner / "draft"

    @property
    def owner(self) -> Path:
        """What stays with the owner (mode 0700)."""
        return self.out / "owner"

    @property
    def stages(self) -> Path:
        """Paid releases, for a resume."""
        return self.owner / "stages"

    @property
    def cache(self) -> Path:
        """The owner's cache of embeddings, while the run lasts."""
        return self.owner / "cache"

    @property
    def start(self) -> Path:
        """The settings that a resumed run must agree on."""
        return self.owner / "start.json"

    @property
    def stop(self) -> Path:
        """Why the method stopped, where it did."""
        return self.owner / "stopped.json"

    @property
    def tuned(self) -> Path:
        """The settings that a tuning has chosen."""
        return self.owner / "tuned.json"

    @property
    def choosing(self) -> bool:
        """Whether a tuning began to choose settings and has not: it is never gone on with."""
        return (self.owner / "tuning").is_dir() and not self.tuned.is_file()

    @property
    def record(self) -> Path:
        """What was run, written last: the run is complete."""
        return self.owner / "run.json"

    def stored(self, name: str) -> Path:
        """What was made of public data and noisy answers, by its name; for a resume."""
        return self.owner / "kept" / f"{name.replace(' ', '-')}.npz"

    @property
    def lock(self) -> Path:
        """Held by the process that works on the run."""
        return self.owner / "lock"


class RunFolder(RunPaths):
    """``OUT`` of one run.

    Attributes:
        run: The run's id in the ledger.
        begun: Whether anything was charged, disclosed or kept that a resumed run goes on with.
    """

    def __init__(self, out: Path, run: str) -> None:
        super().__init__(out)
        self.run = run
        self.begun = False

    def keep(self, name: str, make: Callable[[], NamedArrays]) -> NamedArrays:
        """What ``make`` returns, which is public; kept, so that a resumed run reads it back."""
        path = self.stored(name)
        if not path.exists():
            path.parent.mkdir(mode=0o700, exist_ok=True)
            write_arrays(path, make())
        self.begun = True
        return read_arrays(path)

    def start_release(self) -> None:
        """Remove what a killed run has left of a release."""
        for remains in (self.release, self.draft):
            shutil.rmtree(remains, ignore_errors=True)

    def publish(self) -> None:
        """Give the release, which is complete, its name: a run that is killed leaves none."""
        self.draft.rename(self.release)

    @property
    def done(self) -> bool:
        """Whether the release is complete."""
        return self.record.exists()


def require_free(out: Path, *, resume: bool) -> None:
    """Refuse a folder for a run that holds something else, or a file in its place."""
    for place in (out, *out.absolute().parents):
        if place.exists():
            if not place.is_dir():
                raise RunError(f"{out}: cannot write here: Not a directory; choose another --out")
            break
    if _holds_something(out):
        if not RunPaths(out).start.is_file():
            raise RunError(f"{out}: exists and is not empty; {_NOT_A_RUN[resume]}")
        if not resume:
            remedy = "add --resume to go on with it"
            if RunPaths(out).record.exists():
                remedy = "it holds a finished run; choose another --out"
            raise RunError(f"{out}: exists and is not empty; {remedy}")


@contextmanager
def run_folder(out: Path, identity: Mapping[str, Any], *, resume: bool) -> Iterator[RunFolder]:
    """Start a run's folder, or take up an interrupted one, and hold it alone.

    Raises:
        RunError: The folder holds something else, a run that is not to be resumed or one with
            other settings; it cannot be written, or another process works in it.
    """
    require_free(out, resume=resume)
    paths = RunPaths(out)
    start = paths.start
    is_new = not out.exists()
    try:
        paths.owner.mkdir(mode=0o700, parents=True, exist_ok=True)
        close_to_others(paths.owner)
        lock = owner_file(paths.lock, "w")
    except OSError as error:
        raise RunError(f"{out}: cannot write here: {error.strerror}") from error
    with lock:
        if not _held(lock):
            raise RunError(f"{out}: another process works on this run; wait for it")
        new = not start.exists()
        facts: dict[str, Any]
        if new:
            facts = {"run": uuid.uuid4().hex, "settings": identity}
            write_json(start, facts)
        else:
            facts = read_start(start)
            _require_same(out, facts["settings"], json.loads(json.dumps(identity, default=str)))
        folder = RunFolder(out, facts["run"])
        if not folder.done:
            for half in paths.owner.glob(f".*{HALF_WRITTEN}"):  # a report, of a killed run
                half.unlink()
        try:
            yield folder
        except CommitInDoubt:  # of the charge, it may be: then only this folder goes on with it
            raise
        except UnderstudyError:
            if new and not folder.begun:  # leave the name free for the next try
                shutil.rmtree(paths.owner, ignore_errors=True)  # a link, say: the error goes first
                if is_new:
                    with suppress(OSError):
                        out.rmdir()
            raise
        finally:
            if paths.owner.is_dir():
                close_to_others(paths.owner)


def _held(lock: IO[str]) -> bool:
    """Whether the lock is this process's now: who lists runs holds each for a moment."""
    end = time.monotonic() + _LOOK
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError:
            if time.monotonic() > end:
                return False
            time.sleep(_LOOK / 50)


def _holds_something(out: Path) -> bool:
    """Whether a folder holds more than a run leaves that was killed before it had begun."""
    if not out.is_dir():
        return False
    remains = {"owner", "owner/lock", "owner/start.json.part"}
    return any(path.relative_to(out).as_posix() not in remains for path in out.rglob("*"))


def read_start(start: Path) -> dict[str, Any]:
    """The id and the settings of a run that was begun."""
    try:
        content = from_json(start.read_text(encoding="utf-8"))
        return {"run": str(content["run"]), "settings": dict(content["settings"])}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise RunError(f"{start}: damaged, so this run cannot be resumed: {error}") from error


def _require_same(out: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    differences = [
        f"{name}: {before.get(name)!r} then, {now.get(name)!r} now"
        for name in sorted({*before, *now})
        if _without_slash(before.get(name)) != _without_slash(now.get(name))
    ]
    if differences:
        raise RunError(
            f"{out}: cannot resume with other settings: {'; '.join(differences)}. Give them as "
            "they were, or begin anew with another --out"
        )


def _without_slash(value: Any) -> Any:
    """A setting as it is compared: a folder is the same with a slash at its end."""
    return value.rstrip("/") if isinstance(value, str) else value


@contextmanager
def private_cache(folder: Path) -> Iterator[Path]:
    """An empty folder only the owner can read (mode 0700), removed at the end and after an error.

    What a killed run left behind is removed first.
    """
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def release_folder(folder: Path) -> Path:
    """The release in a run's folder, or the folder itself if it is one.

    That of a run is called ``release``, also where it was named as ``.`` or by a link: what the
    owner knows of it lies beside it.
    """
    for candidate in (folder / "release", folder):
        if (candidate / "privacy.json").is_file():
            actual = candidate.resolve()
            return actual if actual.name == "release" != candidate.name else candidate
    if folder.is_file():
        raise RunError(f"{folder}: is a file and no folder of a release: unpack an archive first")
    if not folder.is_dir():
        raise RunError(f"{folder}: there is no such file or folder")
    raise RunError(f"{folder}: holds no release (no privacy.json, here or in release/)")


def open_release(folder: Path, shape: Shape | None) -> Source:
    """A release as a source: its images where it has some, else its embeddings."""
    from understudy.data import open_source  # which `understudy runs` does without

    if shape is None:
        return open_source(folder / "embeddings.safetensors")
    return open_source(folder, size=(shape[0], shape[1]), channels=shape[2])


def write_images(folder: Path, shape: Shape, out: Path, format: ReleaseFormat) -> None:
    """Write the images of a release once more, in another format."""
    from understudy.data import write_release

    source = open_release(folder, shape)

    def batches() -> Iterator[SyntheticBatch]:
        return (SyntheticBatch(one.labels, images=one.values) for one in source.batches(256))

    release = Release("", source.classes, len(source), batches, image_shape=shape)
    write_release(release, out, format=format)
