"""WebDataset: tar files in which the members of one sample share a name up to its first dot."""

from __future__ import annotations

import json
import re
import tarfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from understudy.core.errors import SourceError
from understudy.data.manifest import text
from understudy.data.pixels import MAX_BYTES, SUFFIXES
from understudy.data.records import Options, Record, RecordSource

_META_BYTES = 1 << 20  # a label or a JSON beside an image is never this large
_DAMAGE = (tarfile.TarError, OSError, EOFError, zlib.error)


def open_tars(paths: list[Path], options: Options) -> RecordSource:
    """The samples of one or more tar files (or tar.gz), in that order.

    A sample is ``KEY.jpg`` (or another image) with its class in ``KEY.cls``, in ``label`` of
    ``KEY.json``, or in ``KEY.txt``; the unit is a field of ``KEY.json``.

    Raises:
        SourceError: A file cannot be read; or as ``RecordSource``.
    """

    def records() -> Iterator[Record]:
        for path in paths:
            yield from _samples(path, options.unit)

    return RecordSource(records, options)


def brace_expand(pattern: str) -> list[str]:
    """``a-{000..002}.tar`` and ``{train,extra}.tar``, as a shell does; others as they are.

    Raises:
        SourceError: A range runs backwards, or gives over 100,000 names.
    """
    match = re.search(r"\{(\d+)\.\.(\d+)\}|\{([^{},]*(?:,[^{},]*)+)\}", pattern)
    if match is None:
        return [pattern]
    if match[3] is not None:
        middles = match[3].split(",")
    else:
        first, last = int(match[1]), int(match[2])
        if not first <= last < first + 100_000:
            raise SourceError(f"{match[0]} is no range of names", pattern)
        middles = [str(n).zfill(len(match[1])) for n in range(first, last + 1)]
    head, tail = pattern[: match.start()], pattern[match.end() :]
    return [name for middle in middles for name in brace_expand(head + middle + tail)]


def is_tar(name: str) -> bool:
    """Whether a file is a tar by its name."""
    return name.lower().endswith((".tar", ".tar.gz", ".tgz"))


def _samples(path: Path, unit: str | None) -> Iterator[Record]:
    key: str | None = None
    parts: dict[str, bytes] = {}
    fault: str | None = None
    for member, content, wrong in _members(path):
        name = PurePosixPath(member)
        stem, _, suffix = name.name.partition(".")
        here = str(name.parent / stem)
        if here != key:
            if key is not None:
                yield _sample(f"{path}, {key}", parts, fault, unit)
            key, parts, fault = here, {}, None
        if suffix.lower() in parts:
            fault = f"has two members .{suffix}"
        parts[suffix.lower()] = content
        fault = fault or wrong
    if key is not None:
        yield _sample(f"{path}, {key}", parts, fault, unit)


def _members(path: Path) -> Iterator[tuple[str, bytes, str | None]]:
    """Every file in the tar: its name, its bytes, and why they may not be used."""
    try:
        with tarfile.open(path, "r|*") as archive:
            while (member := archive.next()) is not None:
                # tarfile would keep every header it has seen.
                archive.members = []  # type: ignore[attr-defined]
                if member.isdir() or PurePosixPath(member.name).name.startswith("."):
                    continue
                suffix = PurePosixPath(member.name).suffix.lower()
                limit = MAX_BYTES if suffix in SUFFIXES else _META_BYTES
                stream = archive.extractfile(member) if member.isreg() else None
                if stream is None:
                    yield member.name, b"", f"has a link or a device {member.name}"
                elif member.size > limit:
                    yield member.name, b"", f"has {member.size:,} bytes in {member.name}"
                else:
                    yield member.name, stream.read(), None
    except _DAMAGE as error:
        raise SourceError(f"cannot be read as a tar file: {error}", path) from error


def _sample(where: str, parts: dict[str, bytes], fault: str | None, unit: str | None) -> Record:
    images = [name for name in parts if PurePosixPath(f"x.{name}").suffix in SUFFIXES]
    if len(images) != 1:
        fault = fault or f"has {len(images)} images; its members are .{', .'.join(sorted(parts))}"
    try:
        fields = json.loads(parts["json"]) if "json" in parts else {}
        if not isinstance(fields, dict):
            raise ValueError("no object")
        label = _label(parts, fields)
    except (ValueError, RecursionError) as error:
        fault, fields, label = fault or f"has a damaged label or JSON ({error})", {}, None
    who = None if unit is None else text(fields.get(unit))
    return Record(where, parts[images[0]] if len(images) == 1 else b"", label, who, fault)


def _label(parts: dict[str, bytes], fields: dict[str, Any]) -> str | None:
    if "cls" in parts:
        return parts["cls"].decode("utf-8").strip() or None
    if "label" in fields:
        return text(fields["label"]) or None
    if "txt" in parts:
        return parts["txt"].decode("utf-8").strip() or None
    return None
