"""What a backend is written with: its protocol, its listing, and the reading of its options.

A backend from outside registers an object that satisfies `Backend` under the entry point group
``understudy.backends``; the entry point's name is the family, the part of a model name before the
colon. The built-in backends come through the same door. It implements the methods of the ports it
has: `models` always, `encoder`, `decoder` and `model` where it has such models.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Annotated, Any, Literal, Protocol, TypeVar, runtime_checkable
from urllib.parse import urlencode

from understudy.backends.option_reading import read_value
from understudy.core.errors import BackendError
from understudy.core.option import Option, declared_options
from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Shape

Kind = Literal[
    "encoder",
    "decoder",
    "encoder and decoder",
    "generator",
    "tuner",
    "captioner",
    "denoiser",
    "writer",
    "segmenter",
    "detector",
    "pose estimator",
    "all kinds",
]

PositiveCount = Annotated[int, Option("", least=1)]
"""The type of an option that is a number of things: 1 or more."""

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class BackendInfo:
    """One line of ``understudy backends``.

    Attributes:
        name: The name to ask for, such as ``"embedded:dct"`` or ``"onnx:FILE"``.
        kind: Which ports it offers.
        what: What it is, in one line.
        extra: The extra of this package that brings what it needs; None where nothing is needed.
        available: Whether it can be used now.
        licence: Licence of the weights; ``"none"`` without weights.
        device: Whether it takes an option ``device``.
    """

    name: str
    kind: Kind
    what: str
    extra: str | None
    available: bool
    licence: str
    device: bool = False


@runtime_checkable
class Backend(Protocol):
    """A family of models. What an entry point of ``understudy.backends`` loads."""

    def models(self) -> Sequence[BackendInfo]:
        """What the family offers, for the listing. Loads no model."""
        ...


@runtime_checkable
class EncoderBackend(Backend, Protocol):
    """A family with encoders.

    Options come as strings when they stand in the name (``family:rest?key=value``) and as any type
    from Python; `read_options` turns both into a dataclass.
    """

    def encoder(self, rest: str, shape: Shape, **options: Any) -> Encoder:
        """The encoder named ``rest`` for images of (height, width, channels) ``shape``."""
        ...


@runtime_checkable
class DecoderBackend(Backend, Protocol):
    """A family with decoders."""

    def decoder(self, rest: str, shape: Shape, encoder: Encoder | None, **options: Any) -> Decoder:
        """The decoder named ``rest`` that makes images of (height, width, channels) ``shape``."""
        ...


@runtime_checkable
class ModelBackend(Backend, Protocol):
    """A family with models of other ports: generators, tuners, captioners, ..."""

    def model(self, kind: Kind, rest: str, **options: Any) -> object:
        """The model named ``rest`` that satisfies the port ``kind`` names."""
        ...


def installed(*modules: str) -> bool:
    """Whether every one of these top-level modules could be imported, without importing it."""
    try:
        return all(find_spec(module) is not None for module in modules)
    except ValueError:  # a module that was put into sys.modules without a spec
        return False


def read_options(options: Mapping[str, Any], into: type[T], *, name: str) -> T:
    """Read options, strings or values, into a dataclass with a default for every field.

    ``name`` is the model they are for, in messages. The dataclass may raise ValueError when made.
    """
    hints = declared_options(into)
    for key in options:
        if key not in hints:
            raise BackendError(f"{name} has no option {key!r}. {_listing(into)}")
    try:
        return into(
            **{
                # As it would be read if it stood in the model's name.
                key: read_value(f"option {key}", None if value is None else str(value), hints[key])
                for key, value in options.items()
            }
        )
    except ValueError as error:
        raise BackendError(f"{name}: {error}. {_listing(into)}") from error


def full_name(model: str, options: Any) -> str:
    """The name that asks for a model again: with the options that differ from their defaults."""
    non_defaults = {
        field.name: getattr(options, field.name)
        for field in dataclasses.fields(options)
        if getattr(options, field.name) != field.default
    }
    return f"{model}?{urlencode(non_defaults, safe='/:')}" if non_defaults else model


def _listing(into: type[Any]) -> str:
    fields = dataclasses.fields(into)
    if not fields:
        return "It has no options."
    defaults = (f"{field.name} (default: {field.default})" for field in fields)
    return f"Its options are {', '.join(defaults)}."
