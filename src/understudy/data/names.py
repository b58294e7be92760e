"""Class names: their order, and folder names that hold them on every file system."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from understudy.core.errors import ConfigError

UNLABELLED_NAME = ("all",)
"""The classes of a dataset without labels."""

MAX_CLASSES = 10_000

SPLITS = frozenset({"train", "test", "val", "valid", "validation"})
"""Folders that are parts of a dataset and no classes."""

# Names that ``datasets`` takes for a split, between separators: a class folder called "test" would
# be read as a test split. A "~" after the word ends that.
_SPLIT_WORD = re.compile(
    r"(?<![^-._ 0-9])(train|training|validation|valid|dev|val|test|testing|eval|evaluation)"
    r"(?![^-._ 0-9])",
    re.IGNORECASE,
)
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")


def sorted_names(names: Iterable[str]) -> tuple[str, ...]:
    """Distinct class names in label order: by value if all are whole numbers, else by letter."""
    distinct = set(names)
    if all(_INTEGER.fullmatch(name) for name in distinct):
        return tuple(sorted(distinct, key=int))
    return tuple(sorted(distinct))


def names_of_classes(names: Sequence[str]) -> tuple[str, ...]:
    """Class names that an owner declares, in label order.

    Raises:
        ConfigError: Fewer than two, one that is empty, one that comes twice, or far too many.
    """
    declared = tuple(name.strip() for name in names)
    twice = sorted({name for name in declared if declared.count(name) > 1})
    if twice or not all(declared):
        problem = f"{', '.join(twice)} comes twice" if twice else "a name is empty"
        raise ConfigError(f"classes are names that differ from each other; {problem}")
    if not 2 <= len(declared) <= MAX_CLASSES:
        raise ConfigError(
            f"classes are 2 to {MAX_CLASSES:,} names, found {len(declared)}: "
            f"{', '.join(declared[:5]) or 'none'}. For images without labels: --label none"
        )
    return declared


def safe_names(names: Sequence[str]) -> list[str]:
    """A folder name for each class name: distinct in any case, and allowed on any file system.

    Letters and digits of every alphabet, ``-``, ``_``, ``.``, ``+`` and inner spaces stay; anything
    else becomes ``_``. At most 80 bytes each before a suffix that keeps two alike apart.
    """
    taken: set[str] = set()
    folders = []
    for name in names:
        stem = _safe(name)
        folder, copy = stem, 1
        while folder.casefold() in taken:
            copy += 1
            folder = f"{stem}-{copy}"
        taken.add(folder.casefold())
        folders.append(folder)
    return folders


def _safe(name: str) -> str:
    text = re.sub(r"[^\w\-.+ ]", "_", unicodedata.normalize("NFC", name))
    text = text.encode("utf-8")[:80].decode("utf-8", "ignore")
    text = text.lstrip("._ ").rstrip(". ")  # hidden here, or cut off by Windows
    if not text.strip("_"):
        text = "class"
    if _RESERVED.fullmatch(text):
        text += "_"
    return _SPLIT_WORD.sub(r"\1~", text)
