"""Files that are there whole or not at all."""

import errno
import os
from pathlib import Path

import pytest

from understudy.core import files
from understudy.core.errors import RunError
from understudy.core.files import files_below, write_whole


def test_a_file_is_replaced_whole_and_is_the_owners(tmp_path: Path) -> None:
    path = tmp_path / "note"
    path.write_text("before")
    write_whole(path, b"after")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"after", 0o600)
    assert os.listdir(tmp_path) == ["note"]


def test_a_write_that_fails_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "note"
    path.write_text("before")

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space left on the device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match=r"no space.*/note'"):
        write_whole(path, b"after")
    assert (path.read_text(), os.listdir(tmp_path)) == ("before", ["note"])


def test_files_below_are_listed_by_path_and_a_link_is_refused(tmp_path: Path) -> None:
    for name in ("b", "a/c", "a/b/d"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    assert files_below(tmp_path) == ["a/b/d", "a/c", "b"]
    (tmp_path / "a" / "link").symlink_to("/etc/hostname")
    with pytest.raises(RunError, match="link"):
        files_below(tmp_path)
