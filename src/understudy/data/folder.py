"""Folders of image files: class folders, a manifest, or nothing but images."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from understudy.core.damaged_files import from_json
from understudy.core.errors import SourceError, count_words
from understudy.core.files import read_bounded
from understudy.data.batches import EMPTY_CLASS
from understudy.data.encoded_images import Options, Record, RecordSource
from understudy.data.image_files import (
    begins_as_dicom,
    is_image_name,
    is_litter,
    is_note,
    is_other_image,
    name_fault,
)
from understudy.data.labels import require_no_column
from understudy.data.manifest import ImageNames, Manifest
from understudy.data.names import UNLABELLED_NAME
from understudy.data.units import DICOM_UNITS, rule_of

CLASSES_FILE = "classes.json"
"""Beside ``train/`` in a release: class names in label order, each with its folder."""


def open_class_folders(folder: Path, options: Options, root: Path) -> RecordSource:
    """``folder/<class>/<image>``; where a unit is named, also ``folder/<class>/<unit>/<image>``.

    ``root`` was asked for: a release keeps its ``classes.json`` there, and no link leads out of it.
    """
    require_no_unit_column(options, folder, "class folders have no")
    require_no_column(options.label, folder, "class folders have")
    file = root / CLASSES_FILE
    names = release_classes(read_bounded(file), file) if file.is_file() else None
    labels = {entry.name: entry.name for entry in visible(folder) if entry.is_dir()}
    if names is not None:
        labels |= {safe: name for name, safe in names.items() if safe in labels}

    lenient = options.classes is not None or not options.labelled
    nested = options.unit is not None or not options.labelled or options.reading.nested

    def records() -> Iterator[Record]:
        for entry in _entries(folder):  # what lies beside the folders of classes and is none
            if (is_litter(entry.name) or not entry.is_dir()) and entry.name != CLASSES_FILE:
                hidden = entry.name.startswith(".") and bool(_image_count(Path(entry.path)))
                yield _stray(Path(entry.path))._replace(hidden=hidden)
        for sub, label in sorted(labels.items()):
            yield from _ClassFolder(folder, label, root, nested, int(options.labelled)).records(
                folder / sub, may_be_empty=lenient
            )

    declared = tuple(names) if names is not None and set(labels.values()) <= set(names) else None
    return RecordSource(
        records,
        options,
        classes=declared,
        allow_empty=True,
        dicom_units=options.unit in DICOM_UNITS,
    )


def open_flat_folder(folder: Path, options: Options, root: Path) -> RecordSource:
    """Images without labels: ``folder/<image>``. Files that are no images by name are left out."""
    require_no_unit_column(options, folder, "there is no manifest that could have the")
    require_no_column(options.label, folder, "a folder of images without a manifest has")

    def records() -> Iterator[Record]:
        for entry in _entries(folder):
            path = Path(entry.path)
            if is_other_image(entry.name) and not is_litter(entry.name):
                yield Record(entry.path, path, fault=name_fault(entry.name), name=entry.name)
            elif is_litter(entry.name) or not is_image(entry):
                yield _stray(path)
            else:
                fault = _fault(path, root, linked=entry.is_symlink())
                yield Record(entry.path, path, fault=fault, name=entry.name)

    return RecordSource(
        records, options, classes=UNLABELLED_NAME, dicom_units=options.unit in DICOM_UNITS
    )


def open_manifest(manifest: Manifest, options: Options, root: Path) -> RecordSource:
    """The images that a manifest lists, in its order. Other files of the folder are left out."""
    folder = manifest.path.parent

    def records() -> Iterator[Record]:
        names, listed = set[str](), set[str]()
        for row, line in enumerate(manifest.rows(), start=1):
            if not line.path:
                yield Record(f"{manifest.path}, row {row}", b"", fault="has no path")
                continue
            name, fault = line.path.replace("\\", "/"), None  # as Windows writes paths
            if not os.path.lexists(folder / name):
                name, fault = manifest.images.path_of(name)
            path = folder / name
            fault = line.fault or fault or _fault(path, root, linked=True)
            if fault is None:
                real = os.path.realpath(path)
                if real in names:
                    fault = f"is listed twice in {manifest.path.name} (again in row {row})"
                names.add(real)
            listed.add(name)
            yield Record(str(path), path, line.label, line.unit, fault, name)
        for name in manifest.unlisted(listed):
            yield Record(f"{folder}/{name}", b"", fault=manifest.leaves_out, name=name)

    return manifest.source(records, options)


def image_names_below(folder: Path) -> ImageNames:
    """The images in a folder and in the folders inside."""

    def paths() -> Iterator[str]:
        for place, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if not is_litter(name))
            for name in sorted(names):
                if is_image_name(name) and not is_litter(name):
                    yield (Path(place) / name).relative_to(folder).as_posix()

    return ImageNames(paths)


def require_no_unit_column(options: Options, location: Path, what: str) -> None:
    """Refuse a unit column of files that have no columns."""
    unit = options.unit
    if unit is not None and unit not in DICOM_UNITS and rule_of(unit) is None:
        columns = ",".join(dict.fromkeys(["path", "label", unit]))
        raise SourceError(
            f"{what} unit column {unit!r}. Put a manifest.csv with the columns {columns} "
            "in the folder; or say whose an image is by its folder or name: --unit-from folder, "
            "--unit-from-name 'case_(\\d+)'; or --unit of DICOM files: "
            f"{', '.join(DICOM_UNITS)}",
            location,
        )


def visible(folder: Path) -> list[os.DirEntry[str]]:
    """What a folder holds, by name, without hidden files and what file browsers leave behind."""
    return [entry for entry in _entries(folder) if not is_litter(entry.name)]


def is_image(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is an image by its name, or is DICOM whatever its name."""
    if entry.is_dir():
        return False
    return is_image_name(entry.name) or (
        not is_note(entry.name) and begins_as_dicom(Path(entry.path))
    )


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError as error:
        raise SourceError(f"cannot be listed: {error.strerror}", folder) from error


def _stray(path: Path) -> Record:
    return Record(str(path), b"", stray=True)


@dataclass(frozen=True, slots=True)
class _ClassFolder:
    """The images of one class."""

    dataset: Path  # the folder that the names of images begin at
    label: str
    root: Path  # no link may lead out of it
    nested: bool  # whether folders may lie inside
    depth: int  # how many folders of a name say the class

    def records(self, folder: Path, *, may_be_empty: bool) -> Iterator[Record]:
        """The images of a folder, and the fault of whatever is none."""
        if not inside(folder, self.root):
            yield Record(str(folder), b"", self.label, fault=_LEADS_OUT)
            return
        images, inside_dataset = 0, folder.relative_to(self.dataset).as_posix()
        for entry in _entries(folder):
            if is_litter(entry.name):
                yield _stray(Path(entry.path))
            elif self.nested and entry.is_dir() and not entry.is_symlink():
                images += 1
                yield from self.records(Path(entry.path), may_be_empty=True)
            elif is_note(entry.name) and not entry.is_dir():
                yield _stray(Path(entry.path))
            else:
                record = self._record(entry, f"{inside_dataset}/{entry.name}")
                images += record.fault is None or (not entry.is_dir() and is_image(entry))
                yield record
        if not images and not may_be_empty:
            fault = f"{EMPTY_CLASS}: the folder has no image"
            yield Record(str(folder), b"", self.label, fault=fault)

    def _record(self, entry: os.DirEntry[str], name: str) -> Record:
        path = Path(entry.path)
        if entry.is_dir():
            fault: str | None = _inner_folder(path, linked=entry.is_symlink())
        elif not is_image(entry):
            fault = name_fault(entry.name)
        else:
            plain = entry.is_file(follow_symlinks=False)
            fault = None if plain else _fault(path, self.root, linked=entry.is_symlink())
        return Record(entry.path, path, self.label, None, fault, name, self.depth)


INNER_CLASSES = "if it is the class, list the images in a manifest.csv with columns path,label,unit"
"""What to do where the folders are the other way round: a person's, with one for each class."""


def _inner_folder(folder: Path, *, linked: bool) -> str:
    """The fault of a folder inside a class folder, with what would be lost by passing over it."""
    if linked:
        return "is a link to a folder inside a class folder; images belong directly in it"
    images = count_words(_image_count(folder), "image")
    return (
        f"is a folder inside a class folder, of {images}. If it is a person's, say "
        "so with --unit-from folder; if it only sorts them, with '?folders=all' "
        f"after the dataset's name; {INNER_CLASSES}"
    )


def _image_count(folder: Path) -> int:
    """How many files in a folder, and in the folders inside, are images by their names."""
    return sum(is_image_name(name) for _, _, names in os.walk(folder) for name in names)


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


def release_classes(content: bytes, path: Path) -> dict[str, str]:
    """The folder of each class name, as ``write_release`` leaves them in a `CLASSES_FILE`."""
    try:
        rows = from_json(content)["classes"]
        return {str(row["name"]): str(row["folder"]) for row in rows}
    except (ValueError, KeyError, TypeError) as error:
        raise SourceError(
            'should be {"classes": [{"name": ..., "folder": ...}, ...]}, as a release has it; '
            f"found something else ({type(error).__name__}). Mend or remove it",
            path,
        ) from error
