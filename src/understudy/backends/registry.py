"""From a name to a model: ``family:rest?key=value&...``.

    embedded:dct                       the family "embedded", its model "dct"
    embedded:dct?coefficients=200      with an option
    onnx:models/encoder.onnx?size=128  the family "onnx", a file

A family is an entry point of the group ``understudy.backends``, for the built-in ones too, so a
plug-in needs an installed package and no change here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl

from understudy.backends.plugin import (
    Backend,
    BackendInfo,
    DecoderBackend,
    EncoderBackend,
    Kind,
    ModelBackend,
)
from understudy.core.entry_points import BACKENDS, registered, registration_of
from understudy.core.errors import BackendError
from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Shape

__all__ = [
    "BackendInfo",
    "backends",
    "load_decoder",
    "load_encoder",
    "load_model",
]

P = TypeVar("P")


def load_model(port: type[P], name: str, **options: Any) -> P:
    """Load a model of any port but encoders and decoders, which need the images' shape.

    ``options`` are the same as those inside the name, ``family:rest?key=value``.

    Returns:
        The model.
    """
    backend, rest, merged = _find(name, options)
    kind = _kind_of(port)
    if not isinstance(backend, ModelBackend):
        raise BackendError(f"{name} is no {kind}: {_has_no(backend, name, kind)}")
    model = backend.model(kind, rest, **merged)
    if not isinstance(model, port):
        raise BackendError(f"{name} is no {kind}: it gave a {type(model).__name__}")
    return model


def _kind_of(port: type) -> Kind:
    """What a port is called in messages and in listings: the words of its name."""
    return cast(Kind, re.sub(r"(?<=[a-z])(?=[A-Z])", " ", port.__name__).lower())


def load_encoder(name: str, *, shape: Shape, **options: Any) -> Encoder:
    """Load an encoder.

    ``shape`` is (height, width, 1 or 3) of the dataset's images; ``options`` as for `load_model`.

    Returns:
        The encoder.
    """
    backend, rest, merged = _find(name, options)
    _check_shape(shape, name)
    if not isinstance(backend, EncoderBackend):
        raise BackendError(f"{name} is no encoder: {_has_no(backend, name, 'encoder')}")
    encoder = backend.encoder(rest, shape, **merged)
    if not isinstance(encoder, Encoder):
        raise BackendError(f"{name} is no encoder: {_lacks(encoder, Encoder, 'encode')}")
    return encoder


def load_decoder(
    name: str, *, shape: Shape, encoder: Encoder | None = None, **options: Any
) -> Decoder:
    """Load a decoder.

    ``shape`` is (height, width, 1 or 3) of the images to make. An encoder whose embeddings will be
    decoded settles their layout and length.

    Returns:
        The decoder.
    """
    backend, rest, merged = _find(name, options)
    _check_shape(shape, name)
    if not isinstance(backend, DecoderBackend):
        raise BackendError(f"{name} is no decoder: {_has_no(backend, name, 'decoder')}")
    decoder = backend.decoder(rest, shape, encoder, **merged)
    if not isinstance(decoder, Decoder):
        raise BackendError(f"{name} is no decoder: {_lacks(decoder, Decoder, 'decode')}")
    if encoder is not None and decoder.dim != encoder.dim:
        raise BackendError(
            f"{name} takes embeddings of {decoder.dim} numbers, but {encoder.name} makes "
            f"{encoder.dim}. Choose an encoder and a decoder that belong together"
        )
    return decoder


def backends() -> list[BackendInfo]:
    """Every model of every family, sorted by name. A family that fails to load is listed too."""
    models: list[BackendInfo] = []
    for family in sorted(registered(BACKENDS)):
        try:
            models += _load(family).models()
        except BackendError as error:
            models.append(
                BackendInfo(
                    name=f"{family}:",
                    kind="all kinds",
                    what=str(error),
                    extra=None,
                    available=False,
                    licence="unknown",
                )
            )
    return sorted(models, key=lambda info: info.name)


def _find(name: str, options: Mapping[str, Any]) -> tuple[Backend, str, dict[str, Any]]:
    family, colon, rest = name.partition(":")
    if not colon:
        raise BackendError(
            f"{name!r} is not the name of a model: it has no colon. "
            f"Write family:model; the families are {', '.join(sorted(registered(BACKENDS)))}"
        )
    rest, merged = _split_options(rest, name)
    for key, value in options.items():
        if key in merged:
            raise BackendError(f"{name}: option {key} is given twice, in the name and beside it")
        merged[key] = value
    return _load(family), rest, merged


def _split_options(rest: str, name: str) -> tuple[str, dict[str, Any]]:
    model, mark, query = rest.rpartition("?")
    if not mark:
        return rest, {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    except ValueError as error:
        raise BackendError(
            f"{name}: cannot read the options {query!r}; write ?key=value&key=value"
        ) from error
    merged: dict[str, Any] = dict(pairs)
    if len(merged) < len(pairs):
        raise BackendError(f"{name}: an option is given twice")
    return model, merged


def _load(family: str) -> Backend:
    registration = registration_of(BACKENDS, family, "backend", BackendError)
    if registration is None:
        raise BackendError(
            f"there is no backend {family!r}. There are {', '.join(sorted(registered(BACKENDS)))}; "
            "`understudy backends` lists their models"
        )
    backend = registration.load("backend", BackendError)
    if not isinstance(backend, Backend):
        raise BackendError(
            f"the backend {family!r} ({registration.value}) lacks the method models, which lists "
            "what it offers"
        )
    return backend


def _has_no(backend: Backend, name: str, port: str) -> str:
    """What the family of ``name`` lacks, and what it has instead."""
    family = name.partition(":")[0]
    ports: dict[str, type] = {
        "encoders": EncoderBackend,
        "decoders": DecoderBackend,
        "models": ModelBackend,
    }
    offered = [noun for noun, protocol in ports.items() if isinstance(backend, protocol)]
    return f"the backend {family!r} has no {port}, only {' and '.join(offered) or 'a list'}"


def _lacks(model: object, port: type, method: str) -> str:
    missing = [key for key in (*port.__annotations__, method) if not hasattr(model, key)]
    return f"it gave a {type(model).__name__} without {', '.join(missing)}"


def _check_shape(shape: Shape, name: str) -> None:
    if len(shape) != 3 or min(shape) < 1 or shape[2] not in (1, 3):
        raise BackendError(
            f"{name} works on images of shape (height, width, 1 or 3), found {shape}"
        )
