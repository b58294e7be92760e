"""Files that are there whole or not at all, the files of a folder, and names without folders."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import IO, Any, Literal
from urllib.parse import unquote

from understudy.core.errors import ConfigError, RunError

ReleaseFormat = Literal["png", "parquet", "npz"]
"""How the images of a release are written; the last as DPImageBench's ``gen/gen.npz``."""

HALF_WRITTEN = ".part"
"""How the name of a file ends while it is written; a process that was killed may leave one."""


_SCHEME = re.compile(r"[A-Za-z][\w+.-]+")  # of one letter, it is a drive
_OF_FILES = frozenset({"", "onnx", "litert", "folder", "file"})
_URL = re.compile(r"https?://(?:[^/?#]*@)?(\[[^]/]*\]|[^/?#:]*)", re.IGNORECASE)
_PATH = re.compile(r"[/~.]|[A-Za-z]:|.*\\|.*/.*/")


def public_name(name: str) -> str:
    """A model's or dataset's name without the folders it lies in on the owner's machine.

    ``onnx:/a/ann/enc.onnx?size=128`` becomes ``onnx:enc.onnx?size=128``, and
    ``embedded:studio?folder=/a/ann/mine`` ``embedded:studio?folder=mine``. Of the address of a
    server its host stays. Names that are no paths (``embedded:dct``,
    ``hf:openai/clip-vit-base-patch32``) stay as they are.
    """
    scheme, colon, rest = name.partition(":")
    if not colon or not _SCHEME.fullmatch(scheme):
        scheme, colon, rest = "", "", name
    place, question, options = rest.partition("?")
    if scheme in _OF_FILES or _is_path(place):
        place = _last_part(place)
    public = "&".join(map(_public_option, options.split("&")))
    return f"{scheme}{colon}{place}{question}{public}"


def _public_option(option: str) -> str:
    """An option of a name, its value without folders; a revision is none."""
    key, equals, value = option.partition("=")
    if not equals:
        key, value = "", key
    plain = unquote(value)
    if address := _URL.match(plain):
        return f"{key}{equals}{address[1]}"
    scheme, colon, _ = plain.partition(":")
    if not re.search(r"[/\\]", plain) or (key == "revision" and not _PATH.match(plain[:1])):
        return option
    is_model = colon and _SCHEME.fullmatch(scheme)  # a model that this one is made of
    return f"{key}{equals}{public_name(plain) if is_model else _last_part(plain)}"


def _is_path(text: str) -> bool:
    """Whether a part of a name is a path: by its form, or because there is such a file."""
    plain = unquote(text)
    with suppress(OSError, ValueError):
        if re.search(r"[/\\]", plain) and Path(plain).exists():
            return True
    return _PATH.match(plain) is not None


def _last_part(path: str) -> str:
    """What comes after the last separator of a path, of any system."""
    return re.split(r"[/\\]", unquote(path).rstrip("/\\"))[-1]


def folder_name(name: str) -> str:
    """A dataset's name that says which folder it is: ``.`` in ``photos`` becomes ``../photos``."""
    place, question, options = name.partition("?")
    if os.path.basename(place.rstrip("/")) not in (".", "..") or not os.path.isdir(place):
        return name
    folder = os.path.normpath(os.path.join(place, "..", os.path.basename(os.path.realpath(place))))
    same = os.path.isdir(folder) and os.path.samefile(folder, place)  # not beside a link
    return f"{folder}{question}{options}" if same else name


def home_path(path: os.PathLike[str] | str) -> Path:
    """A path with the home folder for a ``~``; that of a user whom nobody knows stays as it is."""
    return Path(os.path.expanduser(path))


def folder_of(folder: object) -> Path:
    """The folder of a run or a release that was named in Python.

    Raises:
        ConfigError: It is something else, such as an array.
    """
    if isinstance(folder, str | os.PathLike):
        return Path(folder)
    raise ConfigError(
        "a run or a release is named by its folder, or by the result that a run returned, found "
        f"{type(folder).__name__}"
    )


def read_bounded(path: Path, most: int = 1 << 27) -> bytes:
    """The bytes of a file that others may have written, of so many at most.

    Raises:
        OSError: It is missing, is larger, or is no file: a pipe would be waited for without end.
    """
    status = path.stat()
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "it is no file", str(path))
    if status.st_size > most:
        what = f"it has {status.st_size:,} bytes, and {most:,} at most are read"
        raise OSError(errno.EFBIG, what, str(path))
    return path.read_bytes()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file, readable for the owner alone (mode 0600), so that it is never there in part.

    It is forced to the disk under another name, and then renamed.
    """
    half = path.with_name(f".{path.name}-{secrets.token_hex(4)}{HALF_WRITTEN}")
    try:
        descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        half.replace(path)
    except OSError as error:
        error.filename = str(path)  # a disk that is full names no file
        raise
    finally:
        half.unlink(missing_ok=True)
    sync_folder(path.parent)


def write_private(path: Path, data: bytes) -> None:
    """Write a file, readable for the owner alone (mode 0600) where it is new; or to a pipe."""
    with open(path, "wb", opener=partial(os.open, mode=0o600)) as file:
        file.write(data)


def make_private_file(path: Path) -> None:
    """Make an empty file for the owner alone (mode 0600), unless there is one."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))  # two processes may meet here


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for the owner alone (mode 0700).

    `Path.mkdir` gives its mode to the last one only.
    """
    for each in (*reversed(folder.parents), folder):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


@contextmanager
def whole_folder(folder: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder beside the place that it takes once it is complete.

    With ``replace`` it takes the place of what is there, and is its owner's alone before.
    """
    partial = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
    partial.mkdir(parents=True, mode=0o700 if replace else 0o777)
    try:
        yield partial
        if replace:
            shutil.rmtree(folder, ignore_errors=True)
            partial.chmod(0o755)
        partial.rename(folder)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise


@contextmanager
def lock_of(path: Path, busy: str = "") -> Iterator[None]:
    """Hold the lock of a file, made where there is none, or of a folder: others wait for it.

    A process that ends lets go of it.

    Raises:
        RunError: Another holds it, in the words of ``busy``; without any it is waited for.
    """
    how = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, how, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | (fcntl.LOCK_NB if busy else 0))
        except BlockingIOError as error:
            raise RunError(busy) from error
        yield
    finally:
        os.close(descriptor)


def owner_file(path: Path, mode: Literal["w", "wb", "a"]) -> IO[Any]:
    """Open a file for writing that the owner alone may read (mode 0600), old or new; text is UTF-8.

    The caller closes it.

    Raises:
        RunError: Something else has its name: a pipe would be waited for without end.
    """
    if path.exists() and not path.is_file():
        raise RunError(f"{path}: is no file: remove it")
    flags = {"w": os.O_TRUNC, "wb": os.O_TRUNC, "a": os.O_APPEND}[mode]
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | flags, 0o600)
    os.fchmod(descriptor, 0o600)
    if mode == "wb":
        return os.fdopen(descriptor, mode)
    return os.fdopen(descriptor, mode, encoding="utf-8", newline="")


def close_to_others(folder: Path) -> None:
    """Leave a folder, and every file and folder below it, to its owner alone (0700 and 0600).

    Whatever wrote them, by whatever umask, and those of an earlier version.
    """
    folder.chmod(0o700)
    for path in folder.rglob("*"):
        if not path.is_symlink():
            with suppress(FileNotFoundError):  # of a process that is at work here
                path.chmod(0o700 if path.is_dir() else 0o600)


def sync_folder(folder: Path) -> None:
    """Force the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def files_below(folder: Path) -> list[str]:
    """The path in a folder of every file of it, in order.

    Raises:
        RunError: One is a link, which leads out of the folder, or a pipe, which has no end.
    """
    names, folders = [], [""]
    while folders:
        inner = folders.pop()
        with os.scandir(folder / inner) as entries:
            for entry in entries:
                if entry.is_symlink():
                    raise RunError(
                        f"{entry.path}: is a link, and a release holds files: put it there"
                    )
                if entry.is_dir():
                    folders.append(f"{inner}{entry.name}/")
                elif entry.is_file():
                    names.append(inner + entry.name)
                else:
                    raise RunError(f"{entry.path}: is no file: remove it")
    return sorted(names)
