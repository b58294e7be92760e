"""A file of any kind as one image or several: Pillow's formats, DICOM, slices of NIfTI volumes."""

from __future__ import annotations

import os
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from understudy.core.types import Images
from understudy.data import dicom, nifti
from understudy.data.image_decoding import SUFFIXES, BadImage, Header, decode, fitted, header
from understudy.data.image_decoding import frame_count as pillow_frames
from understudy.data.reading_options import Reading

if TYPE_CHECKING:
    from understudy.data.encoded_images import Options, Record, Records

T = TypeVar("T")
R = TypeVar("R")
FileKind = Literal["pillow", "dicom", "nifti"]

_AHEAD = 4  # files for each thread that are decoded before they are asked for
_START = 352  # bytes that tell the kinds apart
_NOTES = frozenset(
    {
        *(".txt", ".md", ".rst", ".rtf", ".pdf", ".doc", ".docx", ".odt", ".log", ".html", ".htm"),
        *(".csv", ".tsv", ".xls", ".xlsx", ".ods", ".json", ".yaml", ".yml", ".xml", ".ini"),
        *(".jsonl", ".url", ".lnk", ".ps1", ".sh", ".py", ".bat", ".sha256", ".md5"),
    }
)
_OTHERS = frozenset(
    {
        *(".heic", ".heif", ".avif", ".jxl", ".jp2", ".j2k", ".psd", ".svg", ".eps", ".exr"),
        *(".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf", ".rw2"),
    }
)
_LITTER = frozenset({"thumbs.db", "desktop.ini", "__macosx", "dicomdir", "readme", "licence"})


def is_litter(name: str) -> bool:
    """Whether a file or folder is what file browsers and packers leave behind, or is hidden."""
    return name.startswith(".") or name.lower() in _LITTER | {"license"}


def is_note(name: str) -> bool:
    """Whether a file is a note, a table or a script beside images, by its name."""
    return os.path.splitext(name)[1].lower() in _NOTES


def is_image_name(name: str) -> bool:
    """Whether a file is an image by its name. What it holds is another matter."""
    lowered = name.lower()
    suffix = os.path.splitext(lowered)[1]
    return suffix in SUFFIXES | dicom.DICOM_SUFFIXES or lowered.endswith(nifti.NIFTI_SUFFIXES)


def name_fault(name: str) -> str:
    """Why a file is no image by its name, as `Record.fault`."""
    if is_other_image(name):
        form = os.path.splitext(name)[1][1:].upper()
        return f"is {form}, a format that is not read: convert such files to JPEG or PNG"
    return f"is not an image by its name ({', '.join(sorted(SUFFIXES))}, .dcm, .nii)"


def is_other_image(name: str) -> bool:
    """Whether a file is an image of a format that is not read, by its name."""
    return os.path.splitext(name)[1].lower() in _OTHERS


def begins_as_dicom(path: Path) -> bool:
    """Whether a file is DICOM by its first bytes, whatever its name."""
    try:
        return path.is_file() and dicom.is_dicom(_start(path))
    except OSError:
        return False


def in_order(
    function: Callable[[T], R], items: Iterable[T], condition: Callable[[T], bool]
) -> Iterator[tuple[T, Callable[[], R]]]:
    """Each item with a call for what ``function`` makes of it, which a thread for each core does.

    The items come in their order, and a few at most are worked on before they are asked for. The
    call returns what ``function`` returned, or raises what it raised; that of an item which is not
    ``condition`` is left to the caller.
    """
    threads = os.cpu_count() or 1
    waiting: deque[tuple[T, Future[R] | None]] = deque()

    def first() -> tuple[T, Callable[[], R]]:
        item, future = waiting.popleft()
        return item, partial(function, item) if future is None else future.result

    # Decoders silence warnings each for itself; threads that do so at once would leave them silent.
    with warnings.catch_warnings(), ThreadPoolExecutor(threads) as pool:
        for item in items:
            waiting.append((item, pool.submit(function, item) if condition(item) else None))
            if len(waiting) > _AHEAD * threads:
                yield first()
        while waiting:
            yield first()


def image_header(data: bytes | Path, reading: Reading, *, upright: bool = True) -> Header:
    """What a file says of its image, or of each of them; a `BadImage` where it cannot be read."""
    kind = _kind(data)
    if kind == "dicom":
        return dicom.dicom_header(data, reading)
    if kind == "nifti":
        return nifti.nifti_header(data, reading)
    return header(data, reading, upright=upright)


def image_pixels(
    record: Record, options: Options, channels: int | None = None, *, whole: bool = False
) -> Images:
    """The image of a record as (height, width, 1 or 3) uint8, sized as asked, or ``whole``."""
    data, reading = record.data, options.reading
    size = None if whole else options.size
    kind = _kind(data)
    if kind == "pillow":
        return decode(
            data, channels=channels, size=size, fit=options.fit, reading=reading, frame=record.frame
        )
    read = dicom.dicom_image if kind == "dicom" else nifti.nifti_image
    return fitted(read(data, reading, record.frame), channels, size, options.fit)


def pixel_bytes(record: Record, reading: Reading) -> bytes:
    """The stored bytes that stand for a record in the ledger.

    The whole file; of medical formats the pixels, so that no name and no date in a header counts.
    """
    data = record.data
    kind = _kind(data)
    if kind == "dicom":
        return dicom.dicom_pixel_bytes(data, record.frame)
    if kind == "nifti":
        return nifti.nifti_pixel_bytes(data, reading, record.frame)
    try:
        content = data if isinstance(data, bytes) else data.read_bytes()
    except OSError as error:
        raise BadImage(f"cannot be read: {error}") from error
    return content + str(record.frame).encode() if record.frame else content


def split_files(records: Records, reading: Reading) -> Records:
    """The records, with each frame or slice of a file as one of its own where that was asked."""
    if reading.frames != "all" and reading.axis is None:  # a file is one image
        return records

    def split() -> Iterator[Record]:
        for record in records():
            yield from [record] if record.fault or record.stray else _parts(record, reading)

    return split


def with_dicom_units(records: Records, keyword: str) -> Records:
    """The records with the unit that a field of each DICOM file names."""

    def named() -> Iterator[Record]:
        for record in records():
            if record.fault is not None or record.stray:
                yield record
                continue
            try:
                if _kind(record.data) != "dicom":
                    raise BadImage(f"is no DICOM file, so it has no {keyword}")
                yield record._replace(unit=dicom.dicom_field(record.data, keyword))
            except BadImage as error:
                yield record._replace(fault=str(error))

    return named


def _parts(record: Record, reading: Reading) -> Iterator[Record]:
    data = record.data
    try:
        kind = _kind(data)
        if kind == "nifti":
            numbers, part = nifti.nifti_slices(data, reading), "slice"
        else:
            count = 1
            if reading.frames == "all":
                count = dicom.dicom_frames(data) if kind == "dicom" else pillow_frames(data)
            numbers, part = range(count), "frame"
    except BadImage as error:
        yield record._replace(fault=str(error))
        return
    for number in numbers:
        location = record.location if len(numbers) == 1 else f"{record.location}, {part} {number}"
        yield record._replace(location=location, frame=number)


def is_dicom_file(record: Record) -> bool:
    """Whether a record is of a DICOM file; False where it cannot be read."""
    try:
        return _kind(record.data) == "dicom"
    except BadImage:
        return False


def _kind(data: bytes | Path) -> FileKind:
    """What reads a file; a name of Pillow's formats is believed."""
    if isinstance(data, Path) and data.suffix.lower() in SUFFIXES:
        return "pillow"
    try:
        start = data[:_START] if isinstance(data, bytes) else _start(data)
    except FileNotFoundError as error:
        raise BadImage("does not exist") from error
    except OSError as error:
        raise BadImage(f"cannot be read: {error.strerror}") from error
    name = data.name.lower() if isinstance(data, Path) else ""
    if dicom.is_dicom(start) or Path(name).suffix in dicom.DICOM_SUFFIXES:
        return "dicom"
    if nifti.is_nifti(start) or name.endswith(nifti.NIFTI_SUFFIXES):
        return "nifti"
    return "pillow"


def _start(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_START)
