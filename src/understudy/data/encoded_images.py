"""A source of encoded images, whatever holds them: files, Parquet, tar, the hub.

A reader hands over a function that starts its records from the first one. Everything else is here:
the pass over all headers, what to do with bad files, labels, batches and digests. Only one batch
of pixels is in memory at a time.
"""

from __future__ import annotations

import hashlib
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError, SourceError
from understudy.core.types import Batch, Shape
from understudy.data.batches import nothing_left, one_class
from understudy.data.image_decoding import BadImage, Header, header_of_pixels
from understudy.data.image_files import (
    image_header,
    image_pixels,
    in_order,
    pixel_bytes,
    split_files,
    with_dicom_units,
)
from understudy.data.labels import NO_LABELS
from understudy.data.names import (
    MAX_CLASSES,
    UNLABELLED_NAME,
    class_name,
    require_declared,
    sorted_names,
    too_many,
)
from understudy.data.reading_options import (
    AS_STORED,
    FITS,
    OF_EACH_FILE,
    ImageFit,
    Reading,
    require_size,
)
from understudy.data.table_files import is_table
from understudy.data.units import DICOM_UNITS, Grouping, grouping_of, no_unit, rule_of, unit_digest

SKIP = "Mend or remove it, or pass --skip-bad to go on without it"
CHANGED = "has changed since it was opened: open it again"

VISIBLE_STRETCH = 1.1
"""Of one side against the other, above which it is seen that an image was stretched."""

_NAMES_READ = 5_000  # of which it is seen whether names look grouped
_LOOKED_AT = 200  # images, of which a note is made before a run


@dataclass(frozen=True, slots=True)
class Options:
    """What the caller asked of ``open_source``; a `ConfigError` where it makes no sense."""

    name: str  # the name the dataset was asked for by
    split: Literal["train", "test"] = "train"  # which half, where a dataset has halves
    size: tuple[int, int] | None = None  # (height, width) to resize images to; None to keep theirs
    # the column that names who a row belongs to, or a rule (`units.UnitRule`) as text; None where
    # every row is its own unit
    unit: str | None = None
    skip_bad: bool = False  # pass over bad files and count them, instead of stopping at the first
    # the column that holds the class; ``"none"``: no classes; None: the only one there is
    label: str | None = None
    # the class names, in label order, as the owner declares them; None: as found
    classes: tuple[str, ...] | None = None
    # 1 or 3, to convert images to; None: 1 where every image is grey, else 3
    channels: int | None = None
    fit: ImageFit = "stretch"  # how images of another ratio are brought to ``size``
    reading: Reading = AS_STORED  # how the files are read, as the name says
    observer: Observer | None = None  # is shown every record while the dataset is opened
    unread: tuple[str, ...] = ()  # other parts of the dataset, where there are any

    def __post_init__(self) -> None:
        if self.split not in ("train", "test"):
            raise ConfigError(f"split is 'train' or 'test', not {self.split!r}")
        if self.channels not in (None, 1, 3):
            raise ConfigError(f"channels is 1 (grey) or 3 (colour), not {self.channels}")
        if self.fit not in FITS:
            raise ConfigError(f"fit is {', '.join(FITS[:-1])} or {FITS[-1]}, not {self.fit!r}")
        require_size(self.fit, self.size)

    @property
    def labelled(self) -> bool:
        """Whether labels are wanted at all."""
        return self.label != NO_LABELS


class Record(NamedTuple):
    """One encoded image."""

    location: str  # what an error calls it
    data: bytes | Path  # the encoded bytes, or the file that holds them
    label: str | None = None  # its class name; None without labels
    unit: str | None = None  # who it belongs to; None where nobody asked
    fault: str | None = None  # why it cannot be used; ends a sentence that begins with ``where``
    name: str | None = None  # its path in the dataset, where it is a file
    depth: int = 0  # how many folders of that path say its class
    frame: int = 0  # which frame, page or slice of the file it is
    stray: bool = False  # a note, or what a packer left behind: it is counted and passed over
    hidden: bool = False  # of these, a folder of images whose name begins with a dot


_NOT_BEGUN: Any = (float("inf"), None)
Observer = Callable[[Record, Header], None]
Records = Callable[[], Iterator[Record]]


class MixedSizes(SourceError):
    """Images of several sizes, and nobody said which one they are brought to."""


class RecordSource:
    """A ``Source`` of encoded images.

    Opening it reads every header once (with ``skip_bad``, every image): faults, shape and classes
    are known before anything is computed.

    Args:
        records: Starts the records from the first one, in the same order every time.
        options: What the caller asked.
        classes: Class names in label order, where the dataset declares them.
        allow_empty: Whether a declared class may have no rows (a release may).
        label_column: The column that the labels come from, where there are columns.
        dicom_units: Whether the unit is a field of each DICOM file, and no column.
        person_columns: Columns that may say whose an image is (`units.person_columns`).

    Raises:
        SourceError: A bad file without ``skip_bad``, different sizes without ``size``, no rows, an
            undeclared class; or, where none were declared, one class or an empty class.
    """

    kind: Literal["images", "embeddings"] = "images"
    lone_classes: tuple[str, ...] = ()  # of one image, or of one unit
    shape: Shape
    classes: tuple[str, ...]
    captions: list[str]  # of each row, and the licence beside them, where a release has any
    licence: str | None

    def __init__(
        self,
        records: Records,
        options: Options,
        *,
        classes: tuple[str, ...] | None = None,
        allow_empty: bool = False,
        label_column: str | None = None,
        dicom_units: bool = False,
        person_columns: tuple[str, ...] = (),
    ) -> None:
        self.name = options.name
        self.label_column, self.person_columns = label_column, person_columns
        self.has_units, self.unread = options.unit is not None, options.unread
        self.bad: list[tuple[str, str]] = []  # (file, reason) of each that was passed over
        self.skipped = self.stray = 0  # bad files; notes and litter
        self.tables, self.hidden = list[str](), list[str]()  # of the notes, what may be meant
        self.burnt_in = self.distorted = 0  # images that may show text; that are stretched
        self.class_units: dict[str, Counter[str]] = {}  # of each class; and their rows of it
        self.grouping: Grouping | None = None  # a sign that images share a person
        self.window_premise: tuple[Any, bool] | None = None  # (value, declared)
        self._options = options
        self._rule = rule_of(options.unit)
        self._unit_key = secrets.token_bytes(32)
        records = split_files(records, options.reading)
        if options.unit in DICOM_UNITS and dicom_units:
            records = with_dicom_units(records, options.unit)
        self._keyed = self._rule is not None or dicom_units
        self._records = records
        self._dropped: set[int] = set()
        self._reading: tuple[float, Iterator[Record]] = _NOT_BEGUN  # where `read` goes on
        self._count = self._rows = 0  # records, bad ones included, and those that are used
        self._survey(None if classes is None else tuple(map(class_name, classes)), allow_empty)

    def __len__(self) -> int:
        return self._rows

    def batches(self, size: int) -> Iterator[Batch]:
        """Every row in order, ``size`` at a time (the last batch may be shorter)."""
        if size < 1:
            raise ConfigError(f"a batch has at least 1 row, not {size}")
        records = self._usable()
        while len((batch := self._batch(records, min(size, self._rows))).labels):
            yield batch

    def read(self, positions: NDArray[np.int64]) -> Batch:
        """The rows at increasing positions; others are passed over undecoded.

        A reader that goes on where it left off does not begin again.
        """
        next_row, records = self._reading
        if not len(positions) or positions[0] < next_row:
            next_row, records = 0, self._usable()
        gaps = np.diff(positions, prepend=next_row - 1) - 1
        selection = (next(islice(records, int(gap), None)) for gap in gaps)
        batch = self._batch(selection, len(positions))
        self._reading = (positions[-1] + 1 if len(positions) else next_row), records
        return batch

    def units(self) -> Iterator[str]:
        """The unit of each row, as a batch carries it."""
        return map(self._batch_unit, self._usable())

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_reading": _NOT_BEGUN}

    def digests(self, key: bytes) -> Iterator[bytes]:
        """Of each row's encoded bytes; of a DICOM file or a volume, those of its pixels alone."""
        for record in self._usable():
            try:
                content = pixel_bytes(record, self._options.reading)
            except BadImage as error:
                raise SourceError(str(error), record.location) from error
            yield hashlib.blake2b(content, digest_size=16, key=key).digest()

    def originals(self) -> Iterator[np.ndarray]:
        """Every image as it is stored, in its own size and colours."""
        look = partial(image_pixels, options=self._options, whole=True)
        for record, pixels in in_order(look, self._usable(), lambda _: True):
            try:
                yield pixels()
            except BadImage as error:
                raise SourceError(f"{error}. {SKIP}", record.location) from error

    @cached_property
    def some_headers(self) -> list[Header]:
        """Of some records, spread over all: with what their pixels say."""
        rows = set(np.linspace(0, self._rows - 1, _LOOKED_AT).astype(int).tolist())
        return [self._whole(record) for row, record in enumerate(self._usable()) if row in rows]

    def _whole(self, record: Record) -> Header:
        head = image_header(record.data, self._options.reading, upright=False)
        return header_of_pixels(head, image_pixels(record, self._options, whole=True))

    def locations(self) -> list[str]:
        """What an error calls each row: its file, or its table and row there."""
        return [record.location for record in self._usable()]

    def unit_digests(self, key: bytes) -> Iterator[bytes]:
        """A keyed digest of the name of each row's unit, the same whenever it is read."""
        return (unit_digest(key, record.unit or "") for record in self._usable())

    def _batch_unit(self, record: Record) -> str:
        """The unit as a batch carries it: a name of a file or a patient as a keyed digest."""
        unit = record.unit or ""
        return unit_digest(self._unit_key, unit).hex() if self._keyed else unit

    def _batch(self, records: Iterator[Record], most: int) -> Batch:
        """The next records, as many as asked for or as are left: decoded one by one."""
        values = np.empty((most, *self.shape), dtype=np.uint8)
        labels, units = list[int](), list[str]()
        for record in islice(records, most):
            values[len(labels)] = self._pixels(record)
            labels.append(self._label(record))
            units.append(self._batch_unit(record))
        return Batch(
            values[: len(labels)],
            np.array(labels, dtype=np.int64),
            np.array(units, dtype=np.str_) if self.has_units else None,
        )

    def _started(self) -> Iterator[Record]:
        """The records from the first one, without their labels where none are wanted."""
        for record in self._records():
            unit, label = record.unit, record.label if self._options.labelled else None
            if self._rule is not None and record.name is not None:
                unit = self._rule.unit_of(record.name, record.depth)
            yield record._replace(unit=unit, label=None if label is None else class_name(label))

    def _usable(self) -> Iterator[Record]:
        """The records that opening accepted; a dataset that has changed since is refused."""
        records_read = 0
        for row, record in enumerate(self._started()):
            records_read += 1
            if records_read > self._count:
                break
            if row in self._dropped:
                continue
            if record.fault is not None:  # a file became a link, for one
                raise SourceError(f"{record.fault}: it {CHANGED}", record.location)
            yield record
        if records_read != self._count:
            raise SourceError(CHANGED, self.name)

    def _label(self, record: Record) -> int:
        if record.label is None and not self._index:
            return 0
        index = self._index.get(record.label or "")
        if index is None:
            raise SourceError(CHANGED, record.location)
        return index

    def _pixels(self, record: Record) -> np.ndarray:
        try:
            pixels = image_pixels(record, self._options, self.shape[2])
        except BadImage as error:
            raise SourceError(f"{error}. {SKIP}", record.location) from error
        if pixels.shape != self.shape:
            raise SourceError(
                f"gives {pixels.shape}, not {self.shape} as its header says. {SKIP}",
                record.location,
            )
        return pixels

    # Opening

    def _survey(self, declared: tuple[str, ...] | None, allow_empty: bool) -> None:
        counts: dict[str | None, int] = {}
        sizes: dict[tuple[int, int], str] = {}  # up to two, each with the first file that has it
        names: list[str] = []
        grey, parts, data, windows = True, False, None, set[bool]()
        opened = set[str | None]()  # labels of files
        for row, (record, look) in enumerate(self._looks()):
            self._count += 1
            if record.stray:
                self.stray += 1
                self.hidden += [record.location] if record.hidden else []
                self.tables += [record.location] if is_table(record.location) else []
                self._dropped.add(row)
                continue
            try:
                self._check(record, counts)
                opened.add(record.label)
                head = look()
            except BadImage as error:
                self._pass_over(record.location, str(error))
                self._dropped.add(row)
                continue
            counts[record.label] = counts.get(record.label, 0) + 1
            if len(counts) > MAX_CLASSES:
                raise SourceError(too_many(record.label), self.name)
            if len(sizes) < 2:
                sizes.setdefault((head.height, head.width), record.location)
            if record.name is not None and len(names) < _NAMES_READ:
                names.append(record.name)
            if record.unit is not None:
                units = self.class_units.setdefault(record.label or UNLABELLED_NAME[0], Counter())
                units[record.unit] += 1
            if self._options.observer is not None:
                self._options.observer(record, head)
            parts, data = parts or record.data is data, record.data
            grey = grey and head.grey
            windows |= set() if head.window is None else {head.window}
            self.burnt_in += head.burnt_in
            self.distorted += self._is_distorted(head)
        self._rows, self.class_sizes = sum(counts.values()), counts
        self.lost_classes = sorted_names(name for name in opened - counts.keys() if name)
        if not self.has_units:
            self.grouping = grouping_of(names, parts=parts)
        elif self._rows > 1 and self._keyed and len(set().union(*self.class_units.values())) == 1:
            raise SourceError(
                f"every image is of one unit ({self._options.unit}), so there is nothing to learn "
                "of any other. Say whose image it is in another way: --unit, --unit-from or "
                "--unit-from-name",
                self.name,
            )
        if windows:
            window = self._options.reading.window
            self.window_premise = (OF_EACH_FILE, False) if window is None else (list(window), True)
        self._set_classes(counts, declared, allow_empty)
        self.shape = (*self._common_size(sizes), self._options.channels or (1 if grey else 3))

    def _check(self, record: Record, counts: dict[str | None, int]) -> None:
        if record.fault is not None:
            raise BadImage(record.fault)
        if counts and (record.label is None) != (None in counts):
            raise BadImage(
                "has no label"
                if record.label is None
                else "has a label, and the first row has none"
            )
        if self._options.unit is not None and (fault := no_unit(record.unit, self._options.unit)):
            raise BadImage(fault)

    def _look(self, record: Record) -> Header:
        """The header; with ``skip_bad`` the whole image, as a header can be all that is left."""
        whole = self._options.skip_bad
        head = image_header(record.data, self._options.reading, upright=not whole)
        if whole:
            pixels = image_pixels(record, self._options, whole=True)
            height, width, channels = pixels.shape
            head = replace(head, height=height, width=width, grey=channels == 1)
            if self._options.observer is not None:
                head = header_of_pixels(head, pixels)
        return head

    def _is_distorted(self, head: Header) -> bool:
        if self._options.size is None or self._options.fit != "stretch":
            return False
        height, width = self._options.size
        ratio = head.height * width / (head.width * height)
        return max(ratio, 1 / ratio) > VISIBLE_STRETCH

    def _looks(self) -> Iterator[tuple[Record, Callable[[], Header]]]:
        """Every record, with a call for what its file shows; whole images by several threads."""
        if not self._options.skip_bad:
            return ((record, partial(self._look, record)) for record in self._started())
        return in_order(
            self._look, self._started(), lambda one: one.fault is None and not one.stray
        )

    def _pass_over(self, location: str, reason: str) -> None:
        if not self._options.skip_bad:
            raise SourceError(f"{reason}. {SKIP}", location)
        self.skipped += 1
        self.bad.append((location, reason))

    def _set_classes(
        self,
        counts: dict[str | None, int],
        declared: tuple[str, ...] | None,
        allow_empty: bool,
    ) -> None:
        if not self._rows:
            raise SourceError(nothing_left(self.bad, "images"), self.name)
        if None in counts:
            require_labels(self._options, self.name)
            self.classes, self._index = UNLABELLED_NAME, {}
            return
        names = sorted_names(name for name in counts if name is not None)
        sizes = counts | {name: len(units) for name, units in self.class_units.items()}
        self.lone_classes = tuple(name for name in names if sizes[name] == 1)
        self.classes = settled_classes(
            names, declared, allow_empty, self._options, self._pass_over, self.bad
        )
        self._index = {name: index for index, name in enumerate(self.classes)}

    def _common_size(self, sizes: dict[tuple[int, int], str]) -> tuple[int, int]:
        if self._options.size is not None:
            return self._options.size
        if len(sizes) > 1 and self._options.observer is not None:  # which counts them
            return min(height for height, _ in sizes), min(width for _, width in sizes)
        if len(sizes) > 1:
            ((h1, w1), first), ((h2, w2), second) = sizes.items()
            raise MixedSizes(
                f"the images have different sizes: {first} is {h1} x {w1} (height x width), "
                f"{second} is {h2} x {w2}. Ask for one with --size, such as --size 64; --fit says "
                "how images of other ratios are brought to it",
                self.name,
            )
        return next(iter(sizes))


def require_labels(options: Options, location: str) -> None:
    """Refuse declared classes for a dataset without labels."""
    if options.classes is not None:
        raise SourceError(
            f"has no labels, so no image is of the declared classes {', '.join(options.classes)}: "
            "leave out --classes, or say which column holds the class with --label",
            location,
        )


def settled_classes(
    names: tuple[str, ...],
    of_dataset: tuple[str, ...] | None,
    allow_empty: bool,
    options: Options,
    pass_over: Callable[[str, str], None],
    bad: Sequence[tuple[str, str]],
) -> tuple[str, ...]:
    """The class names: those the owner declares, else those of the dataset, else all there are.

    ``names`` have records; an empty class of the dataset's is given to ``pass_over`` as (location,
    reason); ``bad`` are those that were given to it before.
    """
    if options.classes is not None:
        require_declared(names, options.classes, options.name)
        classes = options.classes
    elif of_dataset is None or allow_empty:
        classes = names if of_dataset is None else of_dataset
    else:
        for name in of_dataset:
            if name not in names:
                pass_over(options.name, f"class {name!r} is empty: it has no readable record")
        classes = tuple(name for name in of_dataset if name in names)
    if len(classes) == 1:
        raise SourceError(one_class(classes[0], bad), options.name)
    return classes
