"""Zip archives of images, read without unpacking them: class folders, a manifest, or images."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from understudy.core.damaged_files import ZIP_DAMAGE, zip_to_read
from understudy.core.errors import InputError, SourceError
from understudy.data.archives import is_link, safe_members
from understudy.data.encoded_images import Options, Record, RecordSource
from understudy.data.folder import (
    CLASSES_FILE,
    INNER_CLASSES,
    release_classes,
    require_no_unit_column,
)
from understudy.data.image_decoding import MAX_BYTES
from understudy.data.image_files import (
    is_image_name,
    is_litter,
    is_note,
    is_other_image,
    name_fault,
)
from understudy.data.labels import require_no_column
from understudy.data.manifest import ImageNames, path_column, read_manifest
from understudy.data.names import SPLITS, UNLABELLED_NAME, folder_of_half, further_parts
from understudy.data.table_files import LABELS_FILE, TABLE_SUFFIXES, Table
from understudy.data.units import DICOM_UNITS


def open_zip(path: Path, options: Options) -> RecordSource:
    """The images of a zip archive, laid out as a folder of images may be.

    Folders that hold everything else alone are passed through; ``train`` and ``test`` are halves.
    """
    archive = _Archive.open(path, options)
    options = replace(options, unread=archive.unread)
    images = [name for name in archive.members if archive.is_image(name)]
    flat = any("/" not in name for name in images)
    at_top = [name for name in archive.members if "/" not in name]
    tables = [name for name in at_top if name.lower().endswith(TABLE_SUFFIXES)]
    by_name = [name for name in tables if PurePosixPath(name).stem == "manifest"]
    listing = [LABELS_FILE] if options.labelled and archive.lists_images else []
    manifests = (
        listing or by_name or (tables if flat else _naming(archive, images, tables, options))
    )
    if len(manifests) > 1:
        raise SourceError(f"has {len(manifests)} tables: name the manifest manifest.csv", path)
    if manifests:
        return _open_listed(archive, manifests[0], options)
    require_no_unit_column(options, path, "there is no manifest that could have the")
    require_no_column(options.label, path, "an archive without a manifest has")
    if not images:
        other = next(filter(is_other_image, archive.members), None)
        why = "" if other is None else f". {other} {name_fault(other)}"
        raise SourceError(f"holds no image among {len(archive.members)} files{why}", path)
    if flat and any("/" in name for name in images):
        raise SourceError("holds images beside folders of images, which is no known layout", path)

    depth = int(options.labelled and not flat)
    names = archive.class_names if depth else {}
    labels = {folder: name for name, folder in names.items()}
    folders = {name.partition("/")[0] for name in archive.members if "/" in name}
    lenient = options.unit is not None or not options.labelled or options.reading.nested

    def records() -> Iterator[Record]:
        yield from (Record(str(path), b"", stray=True) for _ in range(archive.outside))
        with archive.opened() as opened:
            for name, info in archive.members.items():
                location = f"{path}, {name}"
                folder = name.partition("/")[0]
                if _is_stray(name) or (depth and "/" not in name):
                    hidden = depth > 0 and folder.startswith(".") and is_image_name(name)
                    location = f"{path}, {folder}" if hidden else location
                    yield Record(location, b"", stray=True, hidden=hidden)
                    continue
                label = labels.get(folder, folder) if depth else None
                content, fault = _content(opened, info)
                if depth and not lenient and name.count("/") > 1:
                    fault = _INNER_FOLDER
                elif not archive.is_image(name):
                    fault = name_fault(name)
                yield Record(location, content, label, None, fault, name, depth)

    classes: tuple[str, ...] | None = None if depth else UNLABELLED_NAME
    if names and folders <= set(labels):
        classes = tuple(names)
    of_files = options.unit in DICOM_UNITS
    return RecordSource(records, options, classes=classes, allow_empty=True, dicom_units=of_files)


def _naming(archive: _Archive, images: list[str], tables: list[str], options: Options) -> list[str]:
    """The only table beside one folder, if it names the images: one folder is no class."""
    if len(tables) != 1 or len({name.partition("/")[0] for name in images}) != 1:
        return []
    try:
        table = Table(archive.path / tables[0], options.reading.encoding, archive.read(tables[0]))
        return tables if path_column(table, ImageNames(lambda: images)) is not None else []
    except InputError:
        return []


def _open_listed(archive: _Archive, table: str, options: Options) -> RecordSource:
    """The images that a manifest in the archive lists."""
    path = archive.path
    content = archive.read(table)
    content_table = Table(path / table, options.reading.encoding, content)
    images = ImageNames(lambda: filter(archive.is_image, archive.members))
    manifest = read_manifest(content_table, images, options.unit, options.label)

    def records() -> Iterator[Record]:
        names: set[str] = set()
        with archive.opened() as opened:
            for row, line in enumerate(manifest.rows(), start=1):
                name = str(PurePosixPath(line.path.replace("\\", "/")))
                location = f"{path}, {line.path or f'row {row} of {table}'}"
                content, fault = b"", None
                if name not in archive.members:
                    name, fault = manifest.images.path_of(name)
                fault = line.fault or fault
                if not line.path:
                    fault = "has no path"
                elif name not in archive.members:
                    fault = fault or f"is listed in {table} and is not in the archive"
                elif name in names:
                    fault = f"is listed twice in {table} (again in row {row})"
                else:
                    names.add(name)
                    content, damage = _content(opened, archive.members[name])
                    fault = fault or damage
                yield Record(location, content, line.label, line.unit, fault, name)
        for name in manifest.unlisted(names):
            yield Record(f"{path}, {name}", b"", fault=manifest.leaves_out, name=name)

    return manifest.source(records, options)


_INNER_FOLDER = (
    "lies in a folder inside a class folder. If that is a person's, say so with --unit-from "
    "folder; if it only sorts images, with '?folders=all' after the dataset's name; "
    f"{INNER_CLASSES}"
)


_BELOW_PAGE = "release/privacy.json"  # beside the page of an archive to hand over


@dataclass(frozen=True, slots=True)
class _Archive:
    """A zip archive and the files of it that count."""

    path: Path  # the archive
    # each file, by its path below the folders that hold everything
    members: dict[str, zipfile.ZipInfo]
    outside: int = 0  # how many files lie beside those folders
    unread: tuple[str, ...] = ()  # parts that are neither half
    listed: zipfile.ZipInfo | None = None  # the file that a release names its classes in

    @classmethod
    def open(cls, path: Path, options: Options) -> _Archive:
        """The archive's files, of the half that was asked for."""
        try:
            with zip_to_read(path) as archive:
                members = {info.filename: info for info in safe_members(archive, path)}
        except ZIP_DAMAGE as error:
            raise SourceError(f"is no zip archive, or is damaged: {error}", path) from error
        count, listed = len(members), members.get(CLASSES_FILE)
        while (top := _only_folder(members)) is not None:
            members = _below(members, top)
            listed = members.get(CLASSES_FILE, listed)
        outside = count - len(members)
        folders = {name.partition("/")[0] for name in members if "/" in name}
        names = {name for name in folders if not is_litter(name)}
        half = folder_of_half(names, options.split, path)
        if half is not None:
            members = _below(members, half)
        unread = () if half is None else further_parts(names)
        opened = cls(path, members, outside, unread, listed)
        opened._require_no_arrays()
        return opened

    def is_image(self, name: str) -> bool:
        """Whether a member is an image by its name, or DICOM without one."""
        suffix = PurePosixPath(name).suffix
        may_be_image = is_image_name(name) or not suffix or suffix[1:].isdecimal()
        return may_be_image and not _is_stray(name)

    @property
    def class_names(self) -> dict[str, str]:
        """The folder of each class name, as a release has them; empty where it is none."""
        if self.listed is None:
            return {}
        with self.opened() as archive:
            content, fault = _content(archive, self.listed)
        if fault is not None:
            raise SourceError(f"{self.listed.filename} {fault}", self.path)
        return release_classes(content, self.path / self.listed.filename)

    @property
    def lists_images(self) -> bool:
        """Whether a `LABELS_FILE` says the class of each image."""
        if LABELS_FILE not in self.members:
            return False
        return Table(self.path / LABELS_FILE, content=self.read(LABELS_FILE)).lists_images

    def _require_no_arrays(self) -> None:
        """Refuse a release whose images are arrays, or that lies beside a page about it."""
        arrays = "privacy.json" in self.members and not any(map(is_image_name, self.members))
        if arrays or _BELOW_PAGE in self.members:
            words = "is an archive of a release: unpack it, and name the folder of its privacy.json"
            raise SourceError(words, self.path)

    def read(self, name: str) -> bytes:
        """One member."""
        with self.opened() as archive:
            content, fault = _content(archive, self.members[name])
        if fault is not None:
            raise SourceError(f"{name} {fault}", self.path)
        return content

    @contextmanager
    def opened(self) -> Iterator[zipfile.ZipFile]:
        """The archive, to read its members."""
        try:
            with zip_to_read(self.path) as archive:
                yield archive
        except ZIP_DAMAGE as error:
            raise SourceError(f"cannot be read as a zip archive: {error}", self.path) from error


def _content(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> tuple[bytes, str | None]:
    if is_link(info):
        return b"", "is a link in an archive"
    if info.file_size > MAX_BYTES:
        return b"", f"has {info.file_size:,} bytes; the limit is {MAX_BYTES:,}"
    try:
        return archive.read(info), None
    except ZIP_DAMAGE as error:
        return b"", f"is damaged in the archive ({type(error).__name__})"


def _is_stray(name: str) -> bool:
    """Whether a member is a note, or what a packer left behind."""
    return is_note(name) or any(map(is_litter, PurePosixPath(name).parts))


def _only_folder(members: dict[str, zipfile.ZipInfo]) -> str | None:
    """The folder that holds everything but litter; None where there is none, or it is a half."""
    tops = {name.partition("/")[0] for name in members if not is_litter(name.partition("/")[0])}
    if len(tops) != 1 or (top := tops.pop()) in members or top.lower() in SPLITS:
        return None
    return top


def _below(members: dict[str, zipfile.ZipInfo], folder: str) -> dict[str, zipfile.ZipInfo]:
    start = f"{folder}/"
    return {name[len(start) :]: info for name, info in members.items() if name.startswith(start)}
