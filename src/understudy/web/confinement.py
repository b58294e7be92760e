"""The folders that the owner named at the start, and the only files that a page can name.

A page names a file by its *place*: the name of a root and the way below it, ``photos/cats``. No
place leads out of the roots: not by ``..``, not as an absolute path, not by a link.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from understudy.core.errors import ConfigError, escaped
from understudy.core.roles import ROLES
from understudy.data.reading_options import split_name

_NEW_NAME = re.compile(r"[\w][\w .()+-]{0,79}")
_MODEL = re.compile(r"embedded:[a-z0-9-]+|none|auto")
_OWN_MODEL = re.compile(r"(onnx|litert):(.+)", re.DOTALL)
_MOST_LISTED = 500
ARCHIVES = (".zip", ".npz", ".parquet", ".csv", ".tar")
"""Files that are datasets by themselves, as the data page lists them."""


class OutsideRoots(ConfigError):
    """A page named something that does not lie in a folder the studio was started with."""

    def __init__(self) -> None:
        super().__init__(
            "there is nothing of that name in the folders that this page was started with (--root)"
        )


@dataclass(frozen=True, slots=True)
class PlaceEntry:
    """A folder or a file in a place; its own place is empty where its name cannot be asked for."""

    name: str
    place: str
    folder: bool


class FolderRoots:
    """The folders of ``--root``.

    Raises:
        ConfigError: One is no folder.
    """

    def __init__(self, folders: Sequence[Path]) -> None:
        self.folders: dict[str, Path] = {}
        for folder in folders:
            if not folder.is_dir():
                raise ConfigError(f"--root {folder}: there is no such folder")
            whole = folder.resolve()
            name, number = whole.name or "root", 2
            while name in self.folders:
                name, number = f"{whole.name}-{number}", number + 1
            self.folders[name] = whole

    def path(self, place: str) -> Path:
        """The file or folder of a place, its links followed.

        Raises:
            OutsideRoots: There is none, or it lies elsewhere.
        """
        try:
            path = self._unresolved(place).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):
            raise OutsideRoots from None
        if not any(path.is_relative_to(root) for root in self.folders.values()):
            raise OutsideRoots
        return path

    def dataset(self, place: str) -> Path:
        """A file or folder of which nothing, however deep, is a link that leads out of the roots.

        Raises:
            OutsideRoots: There is none, or a link in it leads elsewhere.
        """
        path, folders = self.path(place), []
        if path.is_dir():
            folders.append(str(path))
        while folders:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    if entry.is_symlink():
                        target = Path(os.path.realpath(entry.path))  # also of a loop
                        if not any(target.is_relative_to(one) for one in self.folders.values()):
                            raise OutsideRoots
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        return path

    def split(self, place: str) -> tuple[str, str]:
        """A place, and what stands after it of how its files are read: ``"?window=40,400"``.

        A place that there is, is taken as it is, whatever signs are in it.
        """
        plain, mark, options = place.partition("?")
        if not mark or os.path.exists(self._unresolved(place)):
            return place, ""
        return plain, mark + options

    def source(self, place: str) -> tuple[Path, str]:
        """A dataset as `dataset` gives it, and its name with how its files are read.

        Raises:
            OutsideRoots: There is none, or a link in it leads elsewhere.
            ConfigError: An option that is none.
        """
        plain, options = self.split(place)
        path = self.dataset(plain)
        name = f"{path}{options}"
        try:
            same = split_name(name)[0] == str(path)
        except OSError:  # a name that is too long for the file system
            same = False
        if not same:
            raise OutsideRoots
        return path, name

    def new(self, place: str, name: str) -> Path:
        """A path for something new in the folder of a place.

        Raises:
            OutsideRoots: There is no such folder.
            ConfigError: A name with other signs than letters, digits, blanks and ``._+()-``.
        """
        folder = self.path(place)
        if not folder.is_dir():
            raise OutsideRoots
        if not _NEW_NAME.fullmatch(name) or name.strip(". ") != name:
            raise ConfigError(
                f"a new folder is called by letters, digits, blanks and . _ + ( ) -, found {name!r}"
            )
        return folder / name

    def place(self, path: Path) -> str:
        """The place of a path below a root."""
        for name, root in self.folders.items():
            if path.is_relative_to(root):
                return "/".join((name, *path.relative_to(root).parts))
        raise OutsideRoots

    def entries(self, place: str) -> list[PlaceEntry]:
        """The folders and the archives in a place, by their names; hidden ones are left out."""
        if not place:
            return [PlaceEntry(name, name, True) for name in self.folders]
        folder, content = self.path(place), []
        if not folder.is_dir():
            return []
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                mode = entry.stat(follow_symlinks=False).st_mode
                archive = stat.S_ISREG(mode) and entry.name.lower().endswith(ARCHIVES)
                if stat.S_ISDIR(mode) or archive:
                    inner = f"{place.rstrip('/')}/{entry.name}" if _is_text(entry.name) else ""
                    content.append(PlaceEntry(escaped(entry.name), inner, stat.S_ISDIR(mode)))
        return sorted(content, key=lambda one: (not one.folder, one.name))[:_MOST_LISTED]

    def named(self, option: str, value: str) -> str:
        """The value of an option of a run, as far as it names a file, with that file's path.

        Models are those of the package, or ``onnx:`` and ``litert:`` with the place of a file;
        datasets are places, and so are files of settings to choose from.

        Raises:
            ConfigError: Another model, which the command line takes.
            OutsideRoots: A file elsewhere.
        """
        dataset = option == "test" or (option in ROLES and ROLES[option].port == "Source")
        if dataset and value not in ("none", ""):
            return self.source(value)[1]
        if option == "tune" and value != "quick":
            return str(self.path(value))
        if option == "quality" and ":" in value:
            measure, _, place = value.partition(":")
            return f"{measure}:{self.path(place)}"
        if option not in ROLES or dataset or _MODEL.fullmatch(value):
            return value
        if (own := _OWN_MODEL.fullmatch(value)) and not set(own[2]) & set("?&%"):
            return f"{own[1]}:{self.path(own[2])}"
        raise ConfigError(
            f"{option}: a page takes embedded:NAME, or onnx: or litert: and a file of its folders; "
            "the command line takes every other model"
        )

    def _unresolved(self, place: str) -> Path:
        name, *parts = place.split("/")
        if name not in self.folders or "\0" in place or "\\" in place:
            raise OutsideRoots
        parts = [part for part in parts if part]
        if any(part in (".", "..") for part in parts):
            raise OutsideRoots
        return self.folders[name].joinpath(*parts)


def new_name(name: str) -> str:
    """The beginning of a name that `FolderRoots.new` takes, for something made of a file."""
    return re.sub(r"^\W+", "", re.sub(r"[^\w .()+-]", "-", name))[:40].strip(". ") or "new"


def _is_text(name: str) -> bool:
    """Whether a name can stand on a page and come back from it."""
    return name.isprintable() and "\\" not in name and not re.search("[\ud800-\udfff]", name)
