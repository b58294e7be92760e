"""WebDataset: tar files in which the members of one sample share a name up to its first dot."""

from __future__ import annotations

import re
import tarfile
import zlib
from collections.abc import Iterator
from itertools import groupby, islice
from pathlib import Path, PurePosixPath
from typing import Any

from understudy.core.damaged_files import from_json
from understudy.core.errors import SourceError
from understudy.data.encoded_images import Options, Record, RecordSource
from understudy.data.image_decoding import MAX_BYTES
from understudy.data.image_files import is_image_name, is_litter
from understudy.data.labels import NO_LABELS, Column, LabelKind, label_column, real_label
from understudy.data.names import UNLABELLED_NAME
from understudy.data.table_files import text
from understudy.data.units import person_columns

_FIRST = 16  # members of a tar: some samples
_TEXT = "txt"
_META_BYTES = 1 << 20  # a label or a JSON beside an image is never this large
_LARGEST = 1 << 36  # of any member
_HIDDEN = "is in a folder whose name begins with a dot"
_DAMAGE = (tarfile.TarError, OSError, EOFError, zlib.error)


def open_tars(paths: list[Path], options: Options) -> RecordSource:
    """The samples of one or more tar files (or tar.gz), in that order.

    A sample is ``KEY.jpg`` (or another image) with its class in ``KEY.cls`` or in ``label`` of
    ``KEY.json``; the unit is a field of ``KEY.json``, and so is the class where a label is asked
    for. ``KEY.txt`` counts as a field: captions stand there, and class names are published.
    """
    label = options.label if options.labelled else None

    folders: set[str] = set()

    def records() -> Iterator[Record]:
        for path in paths:
            for record in _samples(path, options):
                if not record.stray:
                    folders.add(str(PurePosixPath(record.name or "").parent))
                yield record

    source = RecordSource(records, options, label_column=label)
    unclear = source.classes == UNLABELLED_NAME and options.label is None
    columns = _columns(paths[0], None if unclear else _FIRST)
    if unclear:  # nothing says what the class is, and fields of the JSON could
        label_column(columns, None, paths[0], others=(options.unit,), usual=("label",))
        if len(folders) > 1:
            raise SourceError(
                f"nothing says the class of a sample, and the samples lie in {len(folders)} "
                f"folders, such as {max(folders)}. If those are the classes, unpack the archive "
                f"and name the folder; for images without labels: --label {NO_LABELS}",
                options.name,
            )
    names = {column.name for column in columns} - {options.unit, label}
    source.person_columns = person_columns(names)
    return source


def _columns(path: Path, most: int | None) -> list[Column]:
    """The fields of the first ``KEY.json`` of so many members; none where it cannot be read."""
    parts: dict[str, bytes] = {}
    for name, content, _ in islice(_members(path), most):
        parts.setdefault(_parted(name)[1].lower(), content)
        if "json" in parts:
            break
    try:
        fields = from_json(parts.get("json", b'{"txt": ""}' if _TEXT in parts else b"{}"))
    except ValueError:  # of a bad sample that was passed over
        return []
    if not isinstance(fields, dict):
        return []
    return [Column(name, _kind(value)) for name, value in fields.items()]


def _kind(value: Any) -> LabelKind:
    """What a field of a JSON object can hold. It is no schema: no type declares classes there."""
    if isinstance(value, bool | int):
        return "whole"
    return "text" if isinstance(value, str) else "other"


def brace_expand(pattern: str) -> list[str]:
    """``a-{000..002}.tar``, as a shell does; others as they are."""
    match = re.search(r"\{(\d+)\.\.(\d+)\}", pattern)
    if match is None:
        return [pattern]
    first, last = int(match[1]), int(match[2])
    if not first <= last < first + 100_000:
        raise SourceError(f"{match[0]} is no range of names", pattern)
    middles = [str(n).zfill(len(match[1])) for n in range(first, last + 1)]
    head, tail = pattern[: match.start()], pattern[match.end() :]
    return [name for middle in middles for name in brace_expand(head + middle + tail)]


def is_tar(name: str) -> bool:
    """Whether a file is a tar by its name."""
    return name.lower().endswith((".tar", ".tar.gz", ".tgz"))


def _samples(path: Path, options: Options) -> Iterator[Record]:
    for key, members in groupby(_members(path), key=lambda member: _parted(member[0])[0]):
        parts: dict[str, bytes] = {}
        fault: str | None = None
        for name, content, wrong in members:
            suffix = _parted(name)[1]
            if suffix.lower() in parts:
                fault = f"has two members .{suffix}"
            parts[suffix.lower()] = content
            fault = fault or wrong
        if fault == _HIDDEN:
            location = f"{path}, {PurePosixPath(key).parent}"
            yield Record(location, b"", stray=True, hidden=True, name=key)
            continue
        record = _sample(f"{path}, {key}", parts, fault, options)
        yield record._replace(name=key)


def _parted(name: str) -> tuple[str, str]:
    """The key of a member, its folder included, and what follows the first dot."""
    path = PurePosixPath(name)
    stem, _, suffix = path.name.partition(".")
    return str(path.parent / stem), suffix


def _members(path: Path) -> Iterator[tuple[str, bytes, str | None]]:
    """Every file in the tar: its name, its bytes, and why they may not be used."""
    try:
        with tarfile.open(path, "r|*") as archive:
            while (member := archive.next()) is not None:
                # tarfile would keep every header it has seen.
                archive.members = []  # type: ignore[attr-defined]
                if member.size > _LARGEST:  # it would be skipped in steps of kilobytes, for years
                    raise tarfile.ReadError(f"{member.name} declares {member.size:,} bytes")
                parts = PurePosixPath(member.name).parts
                if member.isdir() or any(map(is_litter, parts)):
                    if any(one.startswith(".") for one in parts[:-1]) and is_image_name(parts[-1]):
                        yield member.name, b"", _HIDDEN
                    continue
                limit = MAX_BYTES if is_image_name(member.name) else _META_BYTES
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is None:
                    yield member.name, b"", f"has a link or a device {member.name}"
                elif member.size > limit:
                    yield member.name, b"", f"has {member.size:,} bytes in {member.name}"
                else:
                    yield member.name, stream.read(), None
    except _DAMAGE as error:
        raise SourceError(f"cannot be read as a tar file: {error}", path) from error


def _sample(location: str, parts: dict[str, bytes], fault: str | None, options: Options) -> Record:
    images = [name for name in parts if is_image_name(f"x.{name}")]
    if len(images) != 1:
        fault = fault or f"has {len(images)} images; its members are .{', .'.join(sorted(parts))}"
    fields, label = {}, None
    try:
        fields = from_json(parts.get("json", b"{}"))
        if not isinstance(fields, dict):
            raise ValueError("no object")
        if options.label == _TEXT:
            fields[_TEXT] = parts.get(_TEXT, b"").decode("utf-8")
        label = _label(parts, fields, options)
    except ValueError as error:
        fields, fault = {}, fault or f"has a damaged label or JSON ({error})"
    unit = None if options.unit is None else text(fields.get(options.unit))
    return Record(location, parts[images[0]] if len(images) == 1 else b"", label, unit, fault)


def _label(parts: dict[str, bytes], fields: dict[str, Any], options: Options) -> str | None:
    """The class of a sample; a `ValueError` where the field that was asked for is none."""
    if not options.labelled:
        return None
    if options.label is None:
        if "cls" not in parts and "label" in fields:
            return text(fields["label"]) or None
        return parts.get("cls", b"").decode("utf-8").strip() or None
    value = fields.get(options.label)
    if isinstance(value, float) and not value.is_integer():
        raise ValueError(real_label(options.label))
    if not isinstance(value, bool | int | float | str) or not text(value):
        has = ", ".join(sorted(fields)) or "none"
        raise ValueError(
            f"no class in the field {options.label!r} of its JSON, whose fields are: {has}"
        )
    return text(value)
