r"""Whose image it is, where no column says so: its folder, its name, its file or a DICOM field.

A rule is written as text where a unit's column would stand, so that the ledger, a held-out part and
a resumed run go by the same words: ``its folder``, ``its file``, ``case_(\d+) of its name``.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Literal

from understudy.core.errors import ConfigError, count_words

_PERSONS = (
    *("patient", "subject", "person", "participant", "proband", "individual", "donor"),
    *("client", "customer", "member", "user", "mrn", "pid", "pseudonym", "case", "unit"),
)
"""Words in the names of columns that say whose an image is, the likeliest first."""

_OF_PERSONS = frozenset(
    [
        *("id", "ids", "no", "nr", "num", "number", "key", "code", "hash", "name", "index"),
        *("uid", "uuid", "guid", "identifier", "anon", "pseudonym", "original", "study"),
    ]
)
"""Words that may stand beside those."""

DICOM_UNITS = ("PatientID", "StudyInstanceUID", "SeriesInstanceUID", "AccessionNumber")
"""DICOM fields that may name a unit; a run reads them on request, and a check to count patients."""

_NONE = frozenset({"", "nan", "none", "null", "nat", "<na>", "n/a"})

_FOLDER, _FILE, _NAME = "its folder", "its file", " of its name"
_ADVICE = "--unit-from folder, or --unit-from-name 'case_(\\d+)'"


@dataclass(frozen=True, slots=True)
class UnitRule:
    """Tells the unit of a file from its path."""

    column: str  # the rule as text
    # searched in the path; its group is the unit. None: the folder, or the file.
    pattern: re.Pattern[str] | None = None

    def unit_of(self, name: str, depth: int = 0) -> str | None:
        """The unit of a file by its path, of which ``depth`` folders say the class, or None.

        Of folders in folders the outermost one is the unit: one that is too large protects more.
        """
        if self.pattern is not None:
            match = self.pattern.search(name)
            return None if match is None else match[self.pattern.groups]
        if self.column == _FILE:
            return name
        parts = PurePosixPath(name).parts[depth:]
        return parts[0] if len(parts) > 1 else None


def person_columns(names: Iterable[str]) -> tuple[str, ...]:
    """The columns whose names say that they tell persons apart, the likeliest first.

    Such as ``patient``, ``PatientID``, ``subject_id``, ``userid``; not ``patient_age``.
    """
    ranked = sorted((rank, name) for name in names if (rank := _person_rank(name)) is not None)
    return tuple(name for _, name in ranked)


def _person_rank(name: str) -> int | None:
    """The place of a column's name among `_PERSONS`; None: it tells no persons apart."""
    words = re.findall(r"[a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower())
    ranks = []
    for word in words:
        plain = re.sub(r"(s|ids?|no|nr|num|uid|code|key)$", "", word) or word
        rank = next((i for i, one in enumerate(_PERSONS) if one in (word, plain)), None)
        if rank is None and word not in _OF_PERSONS:
            return None
        ranks += [] if rank is None else [rank]
    return min(ranks, default=None)


def unit_column(unit: str | None, unit_from: str | None, unit_from_name: str | None) -> str | None:
    """The column, or the rule as text, that says whose image it is; None: each is its own unit.

    Raises:
        ConfigError: More than one is given, or one that makes no sense.
    """
    if sum(one is not None for one in (unit, unit_from, unit_from_name)) > 1:
        raise ConfigError("say once whose image it is: --unit, --unit-from or --unit-from-name")
    if unit_from is not None and unit_from not in ("folder", "file"):
        raise ConfigError(f"unit_from is folder or file, found {unit_from!r}")
    if unit_from is not None:
        return _FOLDER if unit_from == "folder" else _FILE
    if unit_from_name is None:
        return unit
    _compiled(unit_from_name)
    return unit_from_name + _NAME


def rule_of(column: str | None) -> UnitRule | None:
    """The rule that a text of `unit_column` stands for; None for a column."""
    if column in (_FOLDER, _FILE):
        return UnitRule(column)
    if column is not None and column.endswith(_NAME):
        return UnitRule(column, _compiled(column.removesuffix(_NAME)))
    return None


def is_missing(unit: str | None) -> bool:
    """Whether a cell of a unit's column holds none, or what a program writes for none.

    People without a name are not one person: taken for one, each is protected less.
    """
    return (unit or "").casefold() in _NONE


def unit_shares(class_units: Mapping[str, Mapping[str, int]]) -> dict[str, float]:
    """Units of each class as sums count them (`understudy.privacy.sums.unit_weights`).

    ``class_units``: The units of each class, and how many of its records are theirs.
    """
    norms: Counter[str] = Counter()
    for numbers in class_units.values():
        norms.update({unit: number**2 for unit, number in numbers.items()})
    return {
        name: sum(number / norms[unit] ** 0.5 for unit, number in numbers.items())
        for name, numbers in class_units.items()
    }


def alike_words(units: Iterable[str], column: str | None) -> str | None:
    """What is said of units that may be one person under two spellings; None: there are none.

    A group of a name that matches a class's folder, too, makes a person of two classes two.
    """
    names: dict[str, str] = {}
    pairs = []
    for unit in sorted(units):
        plain = unicodedata.normalize("NFKC", unit).casefold()
        if (column or "").endswith(_NAME):
            plain = plain.rpartition("/")[2]
        first = names.setdefault(re.sub(r"(?<!\d)0+(?=\d)|\.0+$", "", plain), unit)
        pairs += [(first, unit)] if first != unit else []
    if not pairs:
        return None
    one, other = pairs[0]
    return (
        f"{one!r} and {other!r} ({count_words(len(pairs), 'pair')} like this) are units of their "
        "own: units are told apart letter by letter. If they are one person, write them alike (or "
        "let the group of --unit-from-name match less), or the person is protected less than "
        "epsilon says"
    )


def unit_digest(key: bytes, unit: str) -> bytes:
    """A keyed 16-byte BLAKE2b digest of the name of a unit."""
    return hashlib.blake2b(unit.encode("utf-8", "surrogatepass"), digest_size=16, key=key).digest()


def grouped_pattern(names: Iterable[str]) -> str | None:
    """What ``--unit-from-name`` may take where names look grouped, as in ``case_0017_03.png``.

    They do where a number before the last one comes again and again: two or more groups, of 1.5
    files or more on average. It is a guess, for a warning.
    """
    groups: Counter[str] = Counter()
    heads: set[str] = set()
    others = 0
    for name in names:
        match = _NUMBERED.fullmatch(PurePosixPath(name).name)
        if match is None:
            others += 1
            continue
        groups[match["head"] + match["group"]] += 1
        heads.add(match["head"])
    if len(groups) < 2 or groups.total() < max(1.5 * len(groups), 4 * others):
        return None
    if heads == {""} or len(heads) > 1:
        return r"([^/]*\d)[^/\d]+\d+(?:\.[^/]*)?$"
    return f"{re.escape(heads.pop())}(\\d+)"


_NUMBERED = re.compile(r"(?P<head>.*?)(?P<group>\d+)\D+\d+(\.\D*)?")


@dataclass(frozen=True, slots=True)
class Grouping:
    """A sign that several images are of one person, where nobody said so."""

    sign: str  # a sentence without its end
    option: Literal["unit_from", "unit_from_name"]  # the option of a run that would say it
    value: str  # what the option would be
    misses: int = 0  # files that it gives no unit, which a run with it would refuse

    @property
    def warning(self) -> str:
        """The whole warning."""
        flag = "--" + self.option.replace("_", "-")
        words = (
            f"{self.sign}, and each image is protected by itself. If one person has several, say "
            f"whose they are: {flag} {shlex.quote(self.value)}"
        )
        if self.misses:
            words += f", once names give a unit to {self.misses:,} more files, which it misses"
        return words


def grouping_of(names: Iterable[str], *, parts: bool) -> Grouping | None:
    """The sign that several images are of one person, by file names or ``parts`` of files."""
    if parts:
        return Grouping("several images come of one file", "unit_from", "file")
    names = list(names)
    pattern = grouped_pattern(names)
    if pattern is None:
        return None
    sign = "file names look grouped, as if several images were of one person"
    rule = UnitRule(pattern + _NAME, _compiled(pattern))
    misses = sum(rule.unit_of(name) is None for name in names)
    return Grouping(sign, "unit_from_name", pattern, misses)


def no_unit(unit: str | None, column: str) -> str | None:
    """The fault of a record whose unit, by a column or a rule, is none; None: it has one."""
    if rule_of(column) is None:
        return f"has no value in the unit column {column!r}" if is_missing(unit) else None
    if unit:
        return None
    if column == _FOLDER:
        return "lies in no folder, below that of its class, that could be its unit"
    return f"has a name that gives no unit ({column})"


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ConfigError(
            f"unit_from_name {pattern!r} is no regular expression: {error}. Such as {_ADVICE}"
        ) from error
    if compiled.groups > 1:
        raise ConfigError(
            f"unit_from_name {pattern!r} has {compiled.groups} groups: the unit is that of one. "
            "Write the others as (?:...)"
        )
    return compiled
