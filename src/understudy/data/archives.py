"""What a zip archive must not be: a bomb, a path that leads out, a link, a lock."""

from __future__ import annotations

import stat
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any

from understudy.core.damaged_files import ZIP_DAMAGE, zip_to_read
from understudy.core.errors import SourceError

_LARGE = 1 << 28  # bytes below which no archive is called a bomb
_MOST_RATIO = 200  # deflate reaches 1,032; images and tables stay far below


def require_safe(archive: Any, path: Path) -> None:
    """Refuse an archive as `safe_members` does; a stream is left at its start."""
    try:
        with zip_to_read(archive) as opened:
            safe_members(opened, path)
    except ZIP_DAMAGE as error:
        raise SourceError(f"is no zip archive, or is damaged: {error}", path) from error
    if hasattr(archive, "seek"):
        archive.seek(0)


def safe_members(archive: zipfile.ZipFile, path: Path) -> list[zipfile.ZipInfo]:
    """The files of an archive, by name.

    Raises:
        SourceError: A path leads out, a name comes twice, members overlap, one is encrypted, or
            all of them unpack to far more than images do.
    """
    members = [info for info in archive.infolist() if not info.is_dir()]
    names: set[str] = set()
    for info in members:
        parts = PurePosixPath(info.filename).parts
        rooted = not parts or info.filename.startswith("/") or ":" in parts[0]
        if rooted or ".." in parts or "\\" in info.filename:
            raise SourceError(
                f"holds the path {info.filename!r}, which leads out of it: unpack it yourself", path
            )
        if info.filename in names:
            raise SourceError(f"holds {info.filename!r} twice", path)
        names.add(info.filename)
        if info.flag_bits & 1:
            raise SourceError(
                f"is encrypted ({info.filename!r}): unpack it with its password", path
            )
    packed = sum(info.compress_size for info in members)
    unpacked = sum(info.file_size for info in members)
    if archive.fp is not None and packed > archive.fp.seek(0, 2):  # it seeks before each read
        raise SourceError("has members that overlap (a zip bomb?): unpack it yourself", path)
    if unpacked > max(_LARGE, _MOST_RATIO * packed):
        raise SourceError(
            f"would unpack {packed:,} bytes to {unpacked:,} (a zip bomb?): unpack it yourself", path
        )
    return sorted(members, key=lambda info: info.filename)


def is_link(info: zipfile.ZipInfo) -> bool:
    """Whether a member is a symbolic link."""
    return stat.S_ISLNK(info.external_attr >> 16)
