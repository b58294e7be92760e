"""Values of declared options, read from text or taken as they are, and checked by pydantic.

An option is declared once, as a field of a dataclass: its type, its default and, where its
annotation has an `Option`, its range and its help. A run's configuration, a method's parameters
and a model's options are all read here, so that the same text means the same everywhere.
"""

from __future__ import annotations

import contextlib
import functools
import os
import typing
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from understudy.core.errors import WrongValue
from understudy.core.option import kinds_of, names_listed, option_of

if TYPE_CHECKING:  # importing it takes a tenth of a second, which only what reads options pays
    from pydantic import TypeAdapter

_WORDS = {"true": True, "false": False}

_WANTED: Mapping[Any, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
}


def read_value(name: str, value: Any, hint: Any) -> Any:
    """``value`` as the type and in the range that a field's annotation asks for.

    Text may stand for any value, as on a command line: ``"8"``, ``"true"``, ``"a,b"``, and
    ``"none"`` for None where text is no value of its own.
    """
    from pydantic import ValidationError

    kinds = kinds_of(hint)
    if value is None and type(None) in kinds:
        return None
    try:
        result = _adapter(hint).validate_python(_plain(value, kinds))
    except ValidationError as error:
        raise WrongValue(f"{name} {_expectation(kinds)}, found {value!r}") from error
    if rule := option_of(hint).violation(result):
        raise WrongValue(f"{name} {rule}, found {value!r}")
    return result


@functools.cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter

    return TypeAdapter(hint)


def field_of(hint: Any) -> Any:
    """An annotation as pydantic makes a schema of it, with its range and its description."""
    from pydantic import Field

    option = option_of(hint)
    text, least, most, above = option.help, option.least, option.most, option.above
    return Annotated[hint, Field(description=text or None, ge=least, le=most, gt=above)]


def _plain(value: Any, kinds: tuple[Any, ...]) -> Any:
    """The value as pydantic is to see it: it takes 1 for true and true for 1, and we do not."""
    text = value.lower() if isinstance(value, str) else ""
    if text == "none" and type(None) in kinds and str not in kinds and not _means(value, kinds):
        return None
    if bool in kinds:
        return _WORDS.get(text, value if isinstance(value, bool) else object())
    if isinstance(value, bool):
        return object()
    if isinstance(value, os.PathLike) and str in kinds:
        return str(os.fspath(value))
    if isinstance(value, str) and float in kinds:  # "0.05" is a number where text is allowed too
        with contextlib.suppress(ValueError):
            return float(value)
    if any(typing.get_origin(kind) is tuple for kind in kinds):
        parts = names_listed(value) if isinstance(value, str) else value
        names = isinstance(parts, list | tuple) and not any(isinstance(one, bool) for one in parts)
        return tuple(map(str, parts)) if names else object()
    return value


def _means(value: str, kinds: tuple[Any, ...]) -> bool:
    """Whether a word is one of the choices."""
    return any(value in typing.get_args(kind) for kind in kinds if _is_choice(kind))


def _is_choice(kind: Any) -> bool:
    return typing.get_origin(kind) is typing.Literal


def _expectation(kinds: tuple[Any, ...]) -> str:
    """The type that was wanted, in words: ``must be a whole number``."""
    kind = next((kind for kind in kinds if kind is not type(None)), str)
    if _is_choice(kind):
        return f"is one of {', '.join(map(str, typing.get_args(kind)))}"
    origin = typing.get_origin(kind)
    if origin is tuple:
        return "is a list of names, such as a,b; in YAML, yes and no stand in quotes"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return "is a mapping of names to values"
    return f"must be {_WANTED.get(kind, kind)}"
