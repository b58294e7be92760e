"""Files that are there whole or not at all, and the files of a folder."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from understudy.core.errors import RunError

HALF_WRITTEN = ".part"
"""How the name of a file ends while it is written; a process that was killed may leave one."""


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
    finally:
        half.unlink(missing_ok=True)
    sync_folder(path.parent)


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
        RunError: One is a link, which leads out of the folder.
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
                else:
                    names.append(inner + entry.name)
    return sorted(names)
