"""What can be said of a dataset before a run: counted while it is opened. Owner-only."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from understudy.core.errors import count_words
from understudy.core.phrases import people_of
from understudy.core.ports import Source
from understudy.data.encoded_images import Record, RecordSource
from understudy.data.image_decoding import Header, colourless_images
from understudy.data.image_files import is_dicom_file, pixel_bytes
from understudy.data.reading_options import Reading

FIRST = 10  # how many files a message names

_AT_ONCE = 512


@dataclass
class Inspection:
    """Counts of a dataset's records; the observer of `open_source`."""

    reading: Reading  # how the files are read
    classes: Counter[str] = field(default_factory=Counter)  # records of each class
    # records of each (height, width)
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    grey: int = 0  # records of one channel
    colourless: int = 0  # records of three channels that are equal
    clipped: int = 0  # records of which a window leaves hardly anything but black and white
    windows: Counter[tuple[float, float]] = field(default_factory=Counter)  # of files themselves
    # the units of records, where they have one
    units: set[str] = field(default_factory=set, repr=False)
    # those of each class, and how many of its records are theirs
    class_units: dict[str, Counter[str]] = field(default_factory=dict, repr=False)
    # folders inside class folders, each with the classes that it lies in
    inner_folders: dict[str, set[str]] = field(default_factory=dict, repr=False)
    dicom: int = 0  # records of DICOM files
    # (file, earlier file) of the same bytes and the same class, the first ones
    equal: list[tuple[str, str]] = field(default_factory=list)
    contradicting: list[tuple[str, str]] = field(default_factory=list)  # the same of two classes
    equal_count: int = 0  # how many there are of the first
    contradicting_count: int = 0  # how many there are of the second
    _first: dict[bytes, tuple[str, str]] = field(default_factory=dict, repr=False)

    def __call__(self, record: Record, head: Header) -> None:
        """Count a record."""
        self.sizes[head.height, head.width] += 1
        self.grey += head.grey
        self.colourless += head.colourless
        self.clipped += head.clipped
        self.windows.update([] if head.own_window is None else [head.own_window])
        self.dicom += is_dicom_file(record)
        if record.unit is not None:
            self._count_unit(record.unit, record.label or "all")
        parts = PurePosixPath(record.name or "").parts
        if record.depth and len(parts) > 2:
            self.inner_folders.setdefault(parts[1], set()).add(parts[0])
        content = pixel_bytes(record, self.reading)
        digest = hashlib.blake2b(content, digest_size=16).digest()
        self._count(digest, record.label or "all", record.location)

    def count_arrays(self, source: Source, *, units: bool) -> None:
        """Count the records of a source that shows them to no observer; units where asked for."""
        digests = source.digests(bytes(32))
        row = 0
        for batch in source.batches(_AT_ONCE):
            if units and batch.units is not None:
                for unit, label in zip(batch.units.tolist(), batch.labels.tolist(), strict=True):
                    self._count_unit(unit, source.classes[label])
            if source.kind == "images":
                self.grey += len(batch.labels) * (source.shape[2] == 1)
                self.colourless += int(colourless_images(batch.values).sum())
            for label, digest in zip(batch.labels.tolist(), digests, strict=False):
                self._count(digest, source.classes[label], f"row {row}")
                row += 1
        if source.kind == "images":
            self.sizes[source.shape[0], source.shape[1]] = row

    def window_words(self, share: float) -> Iterator[tuple[str, int]]:
        """What is said of intensity windows, and of how many records; see `clipped_words`."""
        for words in clipped_words(self.clipped, self.classes.total(), share):
            yield words, self.clipped
        if self.windows:
            [((centre, width), count)] = self.windows.most_common(1)
            several = count_words(len(self.windows), "window", "windows")
            words = (
                f"files are shown by {several} of their own, most often {centre:g},{width:g} "
                f"({count:,} of {self.classes.total():,}), which counts as inferred. Declare one "
                f"for all, such as '?window={centre:g},{width:g}' after the name of the dataset"
            )
            yield words, self.windows.total()

    def _count_unit(self, unit: str, label: str) -> None:
        self.units.add(unit)
        self.class_units.setdefault(label, Counter())[unit] += 1

    def _count(self, digest: bytes, label: str, location: str) -> None:
        self.classes[label] += 1
        first_label, first = self._first.setdefault(digest, (label, location))
        if first == location:
            return
        if first_label == label:
            self.equal_count += 1
            self.equal += [(location, first)] if len(self.equal) < FIRST else []
        else:
            self.contradicting_count += 1
            if len(self.contradicting) < FIRST:
                self.contradicting.append((location, first))


def people_notes(source: Source) -> Iterator[str]:
    """What of the people in a dataset seems to be left unprotected, the worst first."""
    columns: tuple[str, ...] = getattr(source, "person_columns", ())
    if columns and not source.has_units:
        yield (
            f"the column {columns[0]!r} may say whose an image is, and each image is protected by "
            f"itself: understudy check counts {people_of(columns[0])}, and --unit "
            f"{shlex.quote(columns[0])} protects all images of one"
        )
    if not isinstance(source, RecordSource):
        return
    if source.grouping is not None:
        yield source.grouping.warning
    if source.burnt_in:
        yield (
            f"{source.burnt_in:,} images may have text burnt into their pixels, as their headers "
            "or their modality say: a name in them is a part of the image. Look at them, and mask "
            "or remove them, before you release anything"
        )


def source_notes(source: Source) -> Iterator[str]:
    """What the owner should know of a dataset that was opened, a paragraph each."""
    bad: list[tuple[str, str]] = getattr(source, "bad", [])
    if source.skipped:
        lines = [f"  {location}: {reason}" for location, reason in bad[:FIRST]]
        rest = [f"  and {source.skipped - FIRST:,} more"] if source.skipped > FIRST else []
        skipped = count_words(source.skipped, "bad file was", "bad files were")
        yield "\n".join([f"{skipped} passed over:", *lines, *rest])
    if not isinstance(source, RecordSource):
        return
    if source.unread:
        yield unread_words(source)
    if source.stray:
        yield stray_words(source)
    if source.lost_classes:
        yield lost_class_words(source)
    yield from stretch_notes(source)


def window_notes(source: Source) -> Iterator[str]:
    """`clipped_words` of an opened dataset, by some of its images."""
    if isinstance(source, RecordSource) and source.window_premise is not None:
        heads = source.some_headers
        words = clipped_words(sum(head.clipped for head in heads), len(heads))
        yield from (f"{one} (owner only)" for one in words)


def clipped_words(clipped: int, images: int, share: float = 0.5) -> Iterator[str]:
    """What is said where a window leaves more than a share of images little but black and white."""
    if clipped > share * images:
        yield (
            f"{clipped:,} of {images:,} images are black, white or of one grey nearly all over by "
            "the window that is declared, or their own: say another with '?window='; without any, "
            "the values that an image has are named"
        )


def stray_words(source: RecordSource) -> str:
    """What is said of files that are no images; of tables among them, which may be meant."""
    stray = count_words(source.stray, "note or file", "notes and files")
    words = f"passed over: {stray} of packers or file browsers"
    if source.hidden:
        return (
            f"{words}. {source.hidden[0]} is a folder of images and hidden, as its name begins "
            "with a dot: if it is a class, rename it"
        )
    if not source.tables:
        return words
    return (
        f"{words}. {source.tables[0]} is a table, and is not read: if it says "
        "whose the images are, or their classes, name it manifest.csv (columns path,label and that "
        "of --unit)"
    )


def unread_words(source: RecordSource) -> str:
    """What is said of a dataset of which one part is read."""
    return (
        f"of the dataset's parts nothing reads {', '.join(source.unread)}: a run reads train, and "
        "evaluate --test reads test. Move into train what a run shall learn from"
    )


def lost_class_words(source: RecordSource) -> str:
    """What is said of classes all of whose files are bad."""
    return (
        f"no image of the class {', '.join(source.lost_classes[:FIRST])} can be used: with "
        "--skip-bad a run is without it"
    )


def stretch_notes(source: Source) -> Iterator[str]:
    """What else may be done with images that are distorted, where there are any."""
    if isinstance(source, RecordSource) and source.distorted:
        yield (
            f"{source.distorted:,} images of another ratio are stretched. --fit crop cuts them "
            "about their middle, --fit pad lays them on black; understudy plan says what each loses"
        )
