"""How an option is declared: once, on the field that holds it, with its type, default and help."""

from __future__ import annotations

import csv
import dataclasses
import io
import math
import numbers
import types
import typing
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from understudy.core.errors import WrongValue


def names_listed(text: str) -> list[str]:
    """Names between commas or on lines, as in CSV: one with a comma in it stands in quotes."""
    lines = csv.reader(io.StringIO(text, newline=""), skipinitialspace=True)
    return [name for line in lines for name in line]


def list_of_names(names: Iterable[str]) -> str:
    """What `names_listed` reads."""
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(names)
    return line.getvalue()


@dataclass(frozen=True)
class Option:
    """What ``Annotated`` says of a field, besides its type; every number is to be finite.

    Attributes:
        help: One line, for the command line.
        metavar: What stands for the value in the command line's help; None: its type.
        least: The least value there may be; None: any.
        most: The greatest.
        above: What every value is greater than, where there is no least one.
    """

    help: str
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    above: int | None = None

    @property
    def range(self) -> str:
        """The range in words: ``1 or more``, ``1 to 100``, ``above 0 and at most 1``; or ``""``."""
        if self.above is not None:
            most = "" if self.most is None else f" and at most {self.most}"
            return f"above {self.above}{most}"
        if self.least is None:
            return "" if self.most is None else f"at most {self.most}"
        return f"{self.least} or more" if self.most is None else f"{self.least} to {self.most}"

    def violation(self, value: Any) -> str | None:
        """What was wanted instead of a number out of the range: ``must be 1 or more``; or None."""
        if not isinstance(value, numbers.Real):
            return None
        number = float(value)
        if not math.isfinite(number):
            return "must be a finite number"
        inside = (
            (self.least is None or number >= self.least)
            and (self.most is None or number <= self.most)
            and (self.above is None or number > self.above)
        )
        return None if inside else f"must be {self.range}"


def option_of(hint: Any) -> Option:
    """What an annotation says of its option; an empty one where it says nothing."""
    return next((one for one in typing.get_args(hint) if isinstance(one, Option)), Option(""))


def declared_options(fields: type[Any]) -> dict[str, Any]:
    """The annotation of each field of a dataclass by its name, with its range and its help."""
    hints = typing.get_type_hints(fields, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(fields)}


def check_options(values: Any) -> None:
    """Refuse a dataclass that holds a number out of its field's range; None is decided later.

    Raises:
        WrongValue: With the name of the first, its range and the number.
    """
    for name, hint in declared_options(type(values)).items():
        value = getattr(values, name)
        if rule := option_of(hint).violation(value):
            raise WrongValue(f"{name} {rule}, found {value!r}")


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """The types that an annotation allows: the parts of its union, without what is said of them."""
    if typing.get_origin(hint) is typing.Annotated:
        return kinds_of(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(kind for part in typing.get_args(hint) for kind in kinds_of(part))
    return (hint,)


def read_share(name: str, value: float | str) -> float:
    """A share up to a half, asked for as ``"5%"`` or 0.05."""
    text = str(value).strip()
    try:
        share = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ValueError:
        share = math.nan
    if not 0 < share <= 0.5:
        raise WrongValue(f"{name} is a share up to 50%, such as 5% or 0.05, found {value!r}")
    return share
