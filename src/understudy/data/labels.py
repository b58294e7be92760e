"""Which column of a table holds the class: the one asked for, else the one that says it does."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import pyarrow as pa

from understudy.core.errors import SourceError, listed
from understudy.core.ports import Source

NO_LABELS = "none"  # ``--label none``: the images have no classes, whatever columns there are

LabelKind = Literal["classes", "boolean", "whole", "text", "real", "other"]

_CLASSES: tuple[LabelKind, ...] = ("classes", "boolean", "whole", "text")
_DECLARED: tuple[LabelKind, ...] = ("classes", "boolean")
_MOST_LISTED = 60  # columns in a message: CelebA has 40
_NUMBER = re.compile(r"[-+]?(\d+[.,]?\d*|[.,]\d+)([eE][-+]?\d+)?")  # 0.5, or 0,5
_WHOLE = re.compile(r"[-+]?\d+")


class NoColumns(SourceError):
    """A label column was asked for, of a dataset that has no columns."""


class Column(NamedTuple):
    """A column of a table."""

    name: str
    # ``"classes"``: declared as such (ClassLabel); ``"boolean"``; ``"whole"`` numbers; ``"text"``;
    # ``"real"`` numbers; or ``"other"``, such as lists and images
    kind: LabelKind


def label_column(
    columns: Sequence[Column],
    name: str | None,
    location: object,
    *,
    others: Iterable[str | None] = (),
    usual: Sequence[str] = ("label", "labels"),
) -> str | None:
    """The column that holds the class; None for images without labels.

    Where none is asked for, it is the one of a usual name, else the only one whose type declares
    its values as classes (ClassLabel, true or false). Class names become public, so the values of
    any other column are published only when they are asked for. Columns in ``others`` hold what
    is no class: the image, the unit.

    Raises:
        SourceError: No such column, one of real numbers, or several; lists them.
    """
    if name == NO_LABELS:
        return None
    if name is not None:
        return _checked(columns, name, location)
    by_name = [column.name for column in columns if column.name in usual]
    if len(by_name) == 1:
        return _checked(columns, by_name[0], location)
    free = [c for c in columns if c.kind in _CLASSES and c.name not in set(others)]
    declared = [column for column in free if column.kind in _DECLARED]
    if len(declared) == 1 and not by_name:
        return declared[0].name
    if not free:
        return None
    raise SourceError(_ambiguous(free, columns, usual[0]), str(location))


def require_no_column(label: str | None, location: object, what: str) -> None:
    """Refuse a label column of a dataset that has no columns."""
    if label not in (None, NO_LABELS):
        raise NoColumns(
            f"{what} no column {label!r} that could hold the class: leave out --label",
            str(location),
        )


def label_column_of(source: Source) -> str | None:
    """The column that holds the class of a source's records; None where there is none."""
    column: str | None = getattr(source, "label_column", None)
    return column


def arrow_kind(kind: pa.DataType) -> LabelKind:
    """What an Arrow type can hold."""
    types = pa.types
    if types.is_dictionary(kind):
        return arrow_kind(kind.value_type)
    if types.is_boolean(kind):
        return "boolean"
    if types.is_integer(kind):
        return "whole"
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    return "real" if types.is_floating(kind) or types.is_decimal(kind) else "other"


def real_numbers(texts: Iterable[str | None]) -> bool:
    """Whether cells of a CSV are numbers, all of them, and one or more of them not whole."""
    real = False
    for text in texts:
        if text and not _NUMBER.fullmatch(text):
            return False
        real = real or (bool(text) and not _WHOLE.fullmatch(text or ""))
    return real


def real_label(column: str) -> str:
    """The message for a label column of real numbers."""
    return (
        f"the column {column!r} holds real numbers, which are measurements and no classes. A class "
        "is a whole number, true or false, or text: take another column with --label COLUMN, or "
        "store this one as classes"
    )


def _checked(columns: Sequence[Column], name: str, location: object) -> str:
    kinds = {column.name: column.kind for column in columns}
    if name not in kinds:
        raise SourceError(
            f"there is no label column {name!r}; the columns are: "
            f"{listed(list(kinds), _MOST_LISTED) or 'none'}",
            str(location),
        )
    if kinds[name] == "real":
        raise SourceError(real_label(name), str(location))
    if kinds[name] == "other":
        raise SourceError(
            f"the column {name!r} holds no classes: they are whole numbers, true or false, or text",
            str(location),
        )
    return name


def _ambiguous(free: Sequence[Column], columns: Sequence[Column], usual: str) -> str:
    names = [column.name for column in free]
    every, several = (listed(part, _MOST_LISTED) for part in ([c.name for c in columns], names))
    could = f"{len(names)} columns" if len(names) > 1 else "One column"
    return (
        f"there is no column {usual!r}; the columns are: {every}. "
        f"{could} could hold the class: {several}. Class names are public, so say which it is: "
        f"--label {shlex.quote(names[0])}, for one; or --label {NO_LABELS} for images without "
        "labels"
    )
