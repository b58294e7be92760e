"""Folders of image files: class folders, a manifest, or nothing but images."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from understudy.core.errors import SourceError
from understudy.data.encoded_images import Options, Record, RecordSource
from understudy.data.image_decoding import SUFFIXES
from understudy.data.labels import require_no_column
from understudy.data.manifest import Manifest
from understudy.data.names import UNLABELLED_NAME

CLASSES_FILE = "classes.json"
"""Beside ``train/`` in a release: class names in label order, each with its folder."""

_LITTER = frozenset({"thumbs.db", "desktop.ini"})


def open_class_folders(folder: Path, options: Options, root: Path) -> RecordSource:
    """``folder/<class>/<image>``.

    Args:
        folder: Holds one sub-folder a class.
        options: What the caller asked.
        root: The folder that was asked for; a release keeps its ``classes.json`` there, and no
            link may lead out of it.

    Raises:
        SourceError: As ``RecordSource``; or a unit was asked for, which only a manifest can name.
    """
    if options.unit is not None:
        raise SourceError(
            f"class folders have no unit column {options.unit!r}. Put a manifest.csv with the "
            f"columns path,label,{options.unit} in the folder",
            folder,
        )
    require_no_column(options.label, folder, "class folders have")
    names = _release_classes(root / CLASSES_FILE)
    labels = {entry.name: entry.name for entry in visible(folder) if entry.is_dir()}
    if names is not None:
        labels |= {safe: name for name, safe in names.items() if safe in labels}

    lenient = options.classes is not None or not options.labelled

    def records() -> Iterator[Record]:
        for sub, label in sorted(labels.items()):
            yield from _class_folder(folder / sub, label, root, may_be_empty=lenient)

    declared = tuple(names) if names is not None and set(labels.values()) <= set(names) else None
    return RecordSource(records, options, classes=declared, allow_empty=True)


def open_flat_folder(folder: Path, options: Options, root: Path) -> RecordSource:
    """Images without labels: ``folder/<image>``. Files that are no images by name are left out."""
    if options.unit is not None:
        raise SourceError(
            f"there is no manifest that could have the unit column {options.unit!r}. Put a "
            f"manifest.csv with the columns path,label,{options.unit} in the folder",
            folder,
        )
    require_no_column(options.label, folder, "a folder of images without a manifest has")

    def records() -> Iterator[Record]:
        for entry in visible(folder):
            if is_image(entry):
                path = Path(entry.path)
                yield Record(entry.path, path, fault=_fault(path, root, linked=entry.is_symlink()))

    return RecordSource(records, options, classes=UNLABELLED_NAME)


def open_manifest(manifest: Manifest, options: Options, root: Path) -> RecordSource:
    """The images that a manifest lists, in its order. Other files of the folder are left out."""
    folder = manifest.path.parent

    def records() -> Iterator[Record]:
        names: set[str] = set()
        for row, line in enumerate(manifest.rows(), start=1):
            if not line.path:
                yield Record(f"{manifest.path}, row {row}", b"", fault="has no path")
                continue
            path = folder / line.path
            fault = line.fault or _fault(path, root, linked=True)
            real = os.path.realpath(path)
            if fault is None and real in names:
                fault = f"is listed twice in {manifest.path.name} (again in row {row})"
            names.add(real)
            yield Record(str(path), path, line.label, line.unit, fault)

    return RecordSource(records, options, label_column=manifest.label)


def visible(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder holds, by name, without hidden files and what file browsers leave behind."""
    try:
        with os.scandir(folder) as entries:
            shown = [e for e in entries if e.name[0] != "." and e.name.lower() not in _LITTER]
    except OSError as error:
        raise SourceError(f"cannot be listed: {error.strerror}", folder) from error
    return sorted(shown, key=lambda entry: entry.name)


def is_image(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is an image by its name. What it holds is another matter."""
    return not entry.is_dir() and Path(entry.name).suffix.lower() in SUFFIXES


def _class_folder(folder: Path, label: str, root: Path, *, may_be_empty: bool) -> Iterator[Record]:
    if not inside(folder, root):
        yield Record(str(folder), b"", label, fault=_LEADS_OUT)
        return
    images = 0
    for entry in visible(folder):
        path = Path(entry.path)
        if entry.is_dir():
            fault: str | None = "is a folder inside a class folder; images belong directly in it"
        elif not is_image(entry):
            fault = f"is not an image by its name ({', '.join(sorted(SUFFIXES))})"
        else:
            fault = _fault(path, root, linked=entry.is_symlink())
            images += 1
        yield Record(entry.path, path, label, fault=fault)
    if not images and not may_be_empty:
        yield Record(str(folder), b"", label, fault="is an empty class: the folder has no image")


_LEADS_OUT = "is a link, or a path, that leads out of the folder"


def _fault(path: Path, root: Path, *, linked: bool) -> str | None:
    """Why a file cannot be used, if so: it leads out of the folder, or is no regular file."""
    if linked and not inside(path, root):
        return _LEADS_OUT
    try:
        mode = path.stat().st_mode
    except FileNotFoundError:
        return "does not exist" if not path.is_symlink() else "is a link to nothing"
    except (OSError, ValueError) as error:
        return f"cannot be read: {error}"
    return None if stat.S_ISREG(mode) else "is not a regular file"


def inside(path: Path, root: Path) -> bool:
    """Whether a path, links followed, is in a folder."""
    try:
        return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(root))
    except ValueError:  # a NUL in the path
        return False


def _release_classes(path: Path) -> dict[str, str] | None:
    """The folder of each class name, as ``write_release`` leaves them; None if it did not."""
    if not path.is_file():
        return None
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))["classes"]
        return {str(row["name"]): str(row["folder"]) for row in rows}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SourceError(
            'should be {"classes": [{"name": ..., "folder": ...}, ...]}, as a release has it; '
            f"found something else ({type(error).__name__}). Mend or remove it",
            path,
        ) from error
