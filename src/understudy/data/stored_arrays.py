"""A source of stored arrays: images or embeddings, labels and units beside them.

idx, npy, npz and safetensors differ only in where an array's bytes begin; everything else is here.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import repeat
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError, SourceError
from understudy.core.independence import LARGEST_NUMBER
from understudy.core.one_ahead import one_ahead
from understudy.core.types import Batch, Labels, Shape
from understudy.data.batches import nothing_left
from understudy.data.encoded_images import (
    CHANGED,
    SKIP,
    Options,
    require_labels,
    settled_classes,
)
from understudy.data.image_decoding import MAX_PIXELS, converted_channels, resize_pixels
from understudy.data.labels import real_label
from understudy.data.names import MAX_CLASSES, UNLABELLED_NAME, class_name, sorted_names, too_many
from understudy.data.stored import (
    StoredArray,
    StoredArrays,
    as_column,
    as_float32,
    check_column,
    keep_mask,
    learn_labels,
    not_finite,
    units_of_labels,
)
from understudy.data.units import is_missing, person_columns

MAX_DIM = 1 << 24  # longest embedding that is read

_VALUES = ("images", "x", "embeddings")
_LABELS = ("labels", "label", "y")
_NOT_FINITE = f"is not finite (NaN or infinity, or a number beyond {LARGEST_NUMBER:g})"
_NOT_IN_RANGE = (
    "is an image of real numbers that are not all from 0 to 1: scale it, or save uint8 (embeddings "
    "are (n, d))"
)
_ROUNDING = 1e-6  # beyond 0 and 1, of images that were computed


class ArraySource:
    """A ``Source`` of stored arrays.

    Args:
        values: (n, height, width[, 1 or 3]) or (n, 1 or 3, height, width) images, uint8 or real
            numbers from 0 to 1; or (n, d) numbers: embeddings.
        labels: (n,) or (n, 1) whole numbers or text; None without labels.
        options: What the caller asked.
        units: As ``labels``: who each row belongs to; None where every row is its own unit.
        classes: Names that whole-number labels index into, where the file has them.
        allow_empty: Whether a named class may have no rows (a release may).
        label_column: The name of ``labels`` in its file.

    Raises:
        SourceError: Other shapes or types, no rows, an undeclared class; or, where none were
            declared, one class or an empty class.
    """

    kind: Literal["images", "embeddings"]
    person_columns: tuple[str, ...] = ()
    lone_classes: tuple[str, ...] = ()
    class_sizes: Mapping[str | None, int]
    class_units: dict[str, Counter[str]]  # units of each class, and their rows of it
    shape: Shape
    classes: tuple[str, ...]

    def __init__(
        self,
        values: StoredArray,
        labels: StoredArray | None,
        options: Options,
        *,
        units: StoredArray | None = None,
        classes: tuple[str, ...] | None = None,
        allow_empty: bool = False,
        label_column: str | None = None,
    ) -> None:
        self.name = options.name
        self.label_column = label_column
        labels = labels if options.labelled else None
        self.has_units = units is not None
        self.skipped = 0
        self.bad: list[tuple[str, str]] = []  # (row, reason) of each that was passed over
        self._values, self._labels, self._units = values, labels, units
        self._options = options
        self._channels_first = False
        self._scaled = len(values.shape) in (3, 4) and values.dtype.kind == "f"  # from 0 to 1
        self._set_shape()
        for column in (labels, units):
            if column is not None:
                check_column(column, len(values))
        self._dropped = self._find_bad()
        if len(self) == 0:
            raise SourceError(nothing_left(self.bad, "rows"), values.location)
        self._set_classes(classes, allow_empty)

    def __len__(self) -> int:
        return len(self._values) - len(self._dropped)

    def batches(self, size: int) -> Iterator[Batch]:
        """Every row in order, ``size`` at a time (the last batch may be shorter)."""
        if size < 1:
            raise ConfigError(f"a batch has at least 1 row, not {size}")
        batches = self._read(min(size, len(self._values)))
        return regroup(batches, size) if len(self._dropped) else batches

    def read(self, positions: NDArray[np.int64]) -> Batch:
        """The rows at increasing positions."""
        stored = positions
        for row in self._dropped:
            stored = stored + (stored >= row)
        return self._batch(
            self._pixels(self._values.rows(stored)),
            None if self._labels is None else self._labels.rows(stored),
            None if self._units is None else self._units.rows(stored),
        )

    def units(self) -> Iterator[str]:
        """The unit of each row."""
        if self._units is not None:
            keep = keep_mask(self._dropped, 0, len(self._values))
            names = (as_column(block) for block in self._units.blocks(self._units.block_rows))
            yield from np.concatenate(list(names))[keep].astype(np.str_).tolist()

    def digests(self, key: bytes) -> Iterator[bytes]:
        """A keyed 16-byte BLAKE2b digest of each row's numbers, of images of their pixels."""
        start = hashlib.blake2b(digest_size=16, key=key)
        for block, keep in one_ahead(self._usable(self._values.block_rows)):
            size = block[0].nbytes
            stored = block.reshape(-1).view(np.uint8).data
            for row in np.flatnonzero(keep).tolist():
                digest = start.copy()
                digest.update(stored[size * row : size * (row + 1)])
                yield digest.digest()

    def originals(self) -> Iterator[NDArray[Any]]:
        """Every row as it is stored: images with their channels last, embeddings as float32."""
        # A sum that the file has is checked where its digests are made.
        for block, keep in self._usable(self._values.block_rows, checked=False):
            yield from as_float32(block[keep]) if self.kind == "embeddings" else block[keep]

    def _usable(
        self, rows: int, *, checked: bool = True
    ) -> Iterator[tuple[NDArray[Any], NDArray[np.bool_]]]:
        """Blocks of values, each with the rows of it that were not passed over."""
        first = 0
        for block in self._values.blocks(rows, checked=checked):
            keep = keep_mask(self._dropped, first, len(block))
            yield self._pixels(block), keep
            first += len(block)

    def _pixels(self, block: NDArray[Any]) -> NDArray[Any]:
        """Stored images as (n, height, width, 1 or 3) uint8; embeddings as they are."""
        if self.kind == "embeddings":
            return block
        if self._scaled:
            block = np.rint(255 * np.clip(np.nan_to_num(as_float32(block)), 0, 1)).astype(np.uint8)
        block = block[..., None] if block.ndim == 3 else block
        return np.ascontiguousarray(np.moveaxis(block, 1, 3)) if self._channels_first else block

    def _read(self, size: int) -> Iterator[Batch]:
        labels = repeat(None) if self._labels is None else self._labels.blocks(size)
        units = repeat(None) if self._units is None else self._units.blocks(size)
        for (block, keep), label, unit in zip(self._usable(size), labels, units, strict=False):
            yield self._batch(
                block if keep.all() else block[keep],
                None if label is None else label[keep],
                None if unit is None else unit[keep],
            )

    def _batch(
        self, values: NDArray[Any], labels: NDArray[Any] | None, units: NDArray[Any] | None
    ) -> Batch:
        return Batch(
            self._convert(values),
            np.zeros(len(values), dtype=np.int64)
            if labels is None
            else self._indices(as_column(labels)),
            None if units is None else as_column(units).astype(np.str_),
        )

    def _convert(self, block: NDArray[Any]) -> NDArray[Any]:
        if self.kind == "embeddings":
            values = as_float32(block)
            if len(not_finite(values)):  # looked for once more, for its place in the file
                place = f"{self._values.location}, row {min(self._infinite(), default='?')}"
                raise SourceError(f"{_NOT_FINITE}. {SKIP}", place)
            return values
        images = converted_channels(block, self.shape[2])
        size = self._options.size
        return images if size is None else resize_pixels(images, size, self._options.fit)

    def _indices(self, labels: NDArray[Any]) -> Labels:
        places = np.searchsorted(self._label_values, labels)
        places = np.minimum(places, len(self._label_values) - 1)
        if not np.array_equal(self._label_values[places], labels):
            raise SourceError(CHANGED, self.name)
        return self._label_index[places]

    # Opening

    def _set_shape(self) -> None:
        values, size = self._values, self._options.size
        shape = values.shape
        if len(shape) == 2 and values.dtype.kind in "fiu":
            if size is not None:
                raise SourceError(f"embeddings {shape} have no size to change", values.location)
            if self._options.channels is not None:
                raise SourceError(
                    f"embeddings {shape} have no channels: leave out --channels", values.location
                )
            if not 0 < shape[1] <= MAX_DIM:
                raise SourceError(
                    f"embeddings {shape}: 1 to {MAX_DIM:,} numbers each", values.location
                )
            self.kind, self.shape = "embeddings", (shape[1],)
            return
        if len(shape) not in (3, 4) or not (values.dtype == np.uint8 or self._scaled):
            raise SourceError(
                f"holds {values.dtype} {shape}; images are uint8 (n, height, width[, 1 or 3]) or "
                "real numbers from 0 to 1, embeddings are numbers (n, d). Convert it first",
                values.location,
            )
        height, width, channels = self._image_shape(shape[1:])
        channels = self._options.channels or channels
        self.kind, self.shape = "images", (*(size or (height, width)), channels)

    def _image_shape(self, row: tuple[int, ...]) -> tuple[int, int, int]:
        height, width, channels = (*row, 1) if len(row) == 2 else row
        if channels not in (1, 3) and height in (1, 3):
            self._channels_first = True
            height, width, channels = width, channels, height
        if channels not in (1, 3) or not 0 < height * width <= MAX_PIXELS:
            raise SourceError(
                f"images of {row}: expected (height, width, 1 or 3), 1 to {MAX_PIXELS:,} pixels",
                self._values.location,
            )
        return height, width, channels

    def _find_bad(self) -> NDArray[np.int64]:
        """Rows without a unit; images that are not from 0 to 1; with ``skip_bad`` infinite rows.

        Without it, embeddings are looked at when they are read, which saves a pass.
        """
        faults: dict[int, str] = {}
        if self._units is not None:
            faults |= dict.fromkeys(_find(self._units, _empty), "has no unit")
        if self._options.skip_bad and self.kind == "embeddings":
            faults |= dict.fromkeys(self._infinite(), _NOT_FINITE)
        if self._scaled:
            faults |= dict.fromkeys(_find(self._values, _beyond), _NOT_IN_RANGE)
        for row in sorted(faults):
            self._pass_over(f"{self._values.location}, row {row}", faults[row])
        return np.array(sorted(faults), dtype=np.int64)

    def _infinite(self) -> list[int]:
        return _find(self._values, lambda rows: not_finite(as_float32(rows)))

    def _set_classes(self, names: tuple[str, ...] | None, allow_empty: bool) -> None:
        """Classes; and for each stored label, sorted in ``_label_values``, its class's index."""
        if self._labels is None:
            require_labels(self._options, self.name)
            self.classes, self.class_sizes = UNLABELLED_NAME, {}
            self.class_units = {self.classes[0]: Counter(self.units())} if self.has_units else {}
            return
        location = self._labels.location
        names = None if names is None else tuple(map(class_name, names))
        counts = learn_labels(self._labels, self._dropped)
        if len(counts) > MAX_CLASSES:
            raise SourceError(too_many(str(next(iter(counts)))), location)
        signed = self._options.label is not None  # such as -1 and 1: asked for, so it is meant
        by_value = _class_of(list(counts), names, location, signed=signed)
        by_value = {value: class_name(name) for value, name in by_value.items()}
        sizes = Counter[str | None]()
        for value, count in counts.items():
            sizes[by_value[value]] += count
        self.class_sizes = sizes
        lone, self.class_units = [value for value in counts if counts[value] == 1], {}
        if self._units is not None:
            units = units_of_labels(self._labels, self._units, self._dropped)
            for value in units:
                self.class_units.setdefault(by_value[value], Counter()).update(units[value])
            lone = sorted(value for value in units if len(units[value]) == 1)
        self.lone_classes = tuple(by_value[value] for value in lone)
        used = sorted_names(by_value.values())
        self.classes = settled_classes(
            used, names, allow_empty, self._options, self._pass_over, self.bad
        )
        self._label_values = np.array(list(by_value))
        self._label_index = np.array(
            [self.classes.index(name) for name in by_value.values()], dtype=np.int64
        )

    def _pass_over(self, location: str, reason: str) -> None:
        if not self._options.skip_bad:
            raise SourceError(f"{reason}. {SKIP}", location)
        self.skipped += 1
        self.bad.append((location, reason))


def from_arrays(
    arrays: StoredArrays,
    where: str,
    options: Options,
    *,
    classes: tuple[str, ...] | None = None,
    allow_empty: bool = False,
) -> ArraySource:
    """The source in a file of named arrays: images or embeddings, and perhaps labels and units."""
    names = _names_in_words(arrays)
    values = [arrays[name] for name in _VALUES if name in arrays]
    if len(values) != 1:
        raise SourceError(
            f"needs one array of images or embeddings, called {', '.join(_VALUES[:-1])} or "
            f"{_VALUES[-1]}; {names}. Save it anew under one of these names, and the classes, if "
            "there are any, as labels",
            where,
        )
    label = _label_array(arrays, options, where)
    if classes is not None and len(classes) < 2:  # a release without labels
        label, classes = None, None
    units = None
    if options.unit is not None:
        units = arrays.get(options.unit) or arrays.get(f"{options.unit}s")
        if units is None:
            raise SourceError(f"there is no unit column {options.unit!r}; {names}", where)
    source = ArraySource(
        values[0],
        None if label is None else arrays[label],
        options,
        units=units,
        classes=classes,
        allow_empty=allow_empty,
        label_column=label,
    )
    rows = {name for name, array in arrays.items() if array.shape[:1] == values[0].shape[:1]}
    source.person_columns = person_columns(rows - {label, options.unit})
    return source


def _names_in_words(arrays: StoredArrays) -> str:
    return f"the arrays are: {', '.join(arrays) or 'none'}"


def _label_array(arrays: StoredArrays, options: Options, where: str) -> str | None:
    """The name of the array that holds the class: the one asked for, else one of a usual name."""
    if not options.labelled:
        return None
    names = _names_in_words(arrays)
    if options.label is not None:
        if options.label not in arrays:
            raise SourceError(f"there is no label array {options.label!r}; {names}", where)
        if arrays[options.label].dtype.kind == "f":
            raise SourceError(real_label(options.label), where)
        return options.label
    labels = [name for name in _LABELS if name in arrays]
    if len(labels) > 1:
        raise SourceError(
            f"needs one of {', '.join(_LABELS)}; {names}. Say which: --label {labels[0]}", where
        )
    return labels[0] if labels else None


def _find(array: StoredArray, test: Callable[[NDArray[Any]], NDArray[np.int64]]) -> list[int]:
    """The rows of a stored array that a test of each block picks out."""
    rows: list[int] = []
    first = 0
    for block in array.blocks(array.block_rows):
        rows.extend((first + test(block)).tolist())
        first += len(block)
    return rows


def _empty(units: NDArray[Any]) -> NDArray[np.int64]:
    return np.flatnonzero([is_missing(unit) for unit in as_column(units).astype(np.str_).tolist()])


def _beyond(values: NDArray[Any]) -> NDArray[np.int64]:
    flat = as_float32(values).reshape(len(values), -1)
    return np.flatnonzero(~((flat >= -_ROUNDING) & (flat <= 1 + _ROUNDING)).all(axis=1))


def regroup(batches: Iterator[Batch], size: int) -> Iterator[Batch]:
    """The same rows, ``size`` at a time (the last batch may be shorter)."""
    held: list[Batch] = []
    for batch in batches:
        held.append(batch)
        while sum(len(part.labels) for part in held) >= size:
            whole = _join(held)
            yield _rows(whole, 0, size)
            held = [_rows(whole, size, len(whole.labels))]
    if any(len(part.labels) for part in held):
        yield _join(held)


def _join(parts: list[Batch]) -> Batch:
    units = [part.units for part in parts if part.units is not None]
    return Batch(
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate(units) if units else None,
    )


def _rows(batch: Batch, first: int, last: int) -> Batch:
    units = None if batch.units is None else batch.units[first:last]
    return Batch(batch.values[first:last], batch.labels[first:last], units)


def _class_of(
    values: list[Any], names: tuple[str, ...] | None, where: str, *, signed: bool
) -> dict[Any, str]:
    """The class name of each stored label."""
    for value in values:
        if isinstance(value, int) and value < 0 and (names is not None or not signed):
            raise SourceError(f"label {value} is negative: is this split without labels?", where)
        if names is not None and not (isinstance(value, int) and value < len(names)):
            raise SourceError(f"label {value!r} is no index into {len(names)} class names", where)
        if value == "":
            raise SourceError("a label is empty", where)
    return {value: str(value) if names is None else names[value] for value in values}
