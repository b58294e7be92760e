"""How an option is declared: once, on the field that holds it, with its type, default and help."""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Option:
    """What ``Annotated`` says of a field, besides its type and its range.

    Attributes:
        help: One line, for the command line.
        metavar: What stands for the value in the command line's help; None: its type.
        least: The least value there may be; None: any.
        most: The greatest.
    """

    help: str
    metavar: str | None = None
    least: int | None = None
    most: int | None = None

    @property
    def description(self) -> str:
        """What the JSON Schema says of it."""
        return self.help


def option_of(hint: Any) -> Option | None:
    """What an annotation says of its option; None: nothing."""
    return next((one for one in typing.get_args(hint) if isinstance(one, Option)), None)


def kinds_of(hint: Any) -> tuple[Any, ...]:
    """The types that an annotation allows: the parts of its union, without what is said of them."""
    if typing.get_origin(hint) is typing.Annotated:
        return kinds_of(typing.get_args(hint)[0])
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(kind for part in typing.get_args(hint) for kind in kinds_of(part))
    return (hint,)
