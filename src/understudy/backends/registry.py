"""From a name to a model: ``family:rest?key=value&...``.

    embedded:dct                       the family "embedded", its model "dct"
    embedded:dct?coefficients=200      with an option
    onnx:models/encoder.onnx?size=128  the family "onnx", a file

A family is an entry point of the group ``understudy.backends``, for the built-in ones too, so a
plug-in needs an installed package and no change here.
"""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from numbers import Integral, Real
from typing import Any, TypeVar, cast
from urllib.parse import parse_qsl

from understudy.backends.plugin import Backend, DecoderBackend, EncoderBackend, Kind, ModelBackend
from understudy.backends.plugin import BackendInfo as BackendInfo
from understudy.core.entry_points import BACKENDS, registered, registration_of
from understudy.core.errors import BackendError
from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Shape, is_shape

P = TypeVar("P")


def load_model(port: type[P], name: str, **options: Any) -> P:
    """A model of any port but encoders and decoders, which need the images' shape.

    ``options`` are the same as those inside the name, ``family:rest?key=value``.
    """
    backend, location, settings = _find(name, options)
    kind = cast(Kind, re.sub(r"(?<=[a-z])(?=[A-Z])", " ", port.__name__).lower())
    if not isinstance(backend, ModelBackend):
        raise _has_no(backend, name, kind)
    _require_takes(name, backend.model, kind, location, **settings)
    model = backend.model(kind, location, **settings)
    if not isinstance(model, port):
        raise BackendError(f"{name} is no {kind}: it gave a {type(model).__name__}")
    _require_words(name, model)
    return model


def load_encoder(name: str, *, shape: Shape, **options: Any) -> Encoder:
    """An encoder of images of (height, width, 1 or 3) ``shape``; options as for `load_model`."""
    backend, location, settings = _find(name, options)
    _check_shape(shape, name)
    if not isinstance(backend, EncoderBackend):
        raise _has_no(backend, name, "encoder")
    _require_takes(name, backend.encoder, location, shape, **settings)
    encoder = backend.encoder(location, shape, **settings)
    if not isinstance(encoder, Encoder):
        raise _lacks(name, encoder, Encoder, "encode")
    _require_takes(name, encoder.encode, "IMAGES")
    _require_words(name, encoder)
    bound = encoder.norm_bound
    if not (isinstance(encoder.dim, Integral) and encoder.dim > 0) or not (
        bound is None or (isinstance(bound, Real) and 0 < bound < math.inf)
    ):
        raise BackendError(
            f"{name} states dim {encoder.dim!r} and norm_bound {bound!r}: an encoder has a whole "
            "number of dimensions, 1 or more, and None or a finite number above 0 as its bound"
        )
    return encoder


def load_decoder(
    name: str, *, shape: Shape, encoder: Encoder | None = None, **options: Any
) -> Decoder:
    """A decoder that makes images of (height, width, 1 or 3) ``shape``.

    The encoder whose embeddings will be decoded settles their layout and length.
    """
    backend, location, settings = _find(name, options)
    _check_shape(shape, name)
    if not isinstance(backend, DecoderBackend):
        raise _has_no(backend, name, "decoder")
    _require_takes(name, backend.decoder, location, shape, encoder, **settings)
    decoder = backend.decoder(location, shape, encoder, **settings)
    if not isinstance(decoder, Decoder):
        raise _lacks(name, decoder, Decoder, "decode")
    _require_takes(name, decoder.decode, "EMBEDDINGS", seeds="SEEDS")
    _require_words(name, decoder)
    _check_shape(decoder.shape, name)
    if encoder is not None and decoder.dim != encoder.dim:
        raise BackendError(
            f"{name} takes embeddings of {decoder.dim} numbers, but {encoder.name} makes "
            f"{encoder.dim}. Choose an encoder and a decoder that belong together"
        )
    return decoder


def named_on(name: str, device: str) -> str:
    """The name with a device such as ``"cuda"``, if the model takes one and the name has none."""
    _, location, options = _find(name, {})
    if "device" in options:
        return name
    listed = _listed(name.partition(":")[0])
    models = {info.name.partition(":")[2] for info in listed if info.device}
    # A family whose one line is a pattern, such as hf:MODEL, runs any model there.
    if not (location in models or any(model.isupper() for model in models)):
        return name
    return f"{name}{'&' if options else '?'}device={device}"


def backends() -> list[BackendInfo]:
    """Every model of every family, sorted by name. A family that fails to load is listed too."""
    models: list[BackendInfo] = []
    for family in sorted(registered(BACKENDS)):
        try:
            models += _listed(family)
        except BackendError as error:
            failure = BackendInfo(f"{family}:", "all kinds", str(error), None, False, "unknown")
            models.append(failure)
    return sorted(models, key=lambda info: info.name)


def _find(name: str, options: Mapping[str, Any]) -> tuple[Backend, str, dict[str, Any]]:
    family, colon, location = name.partition(":")
    if not colon:
        raise BackendError(
            f"{name!r} is not the name of a model: it has no colon. "
            f"Write family:model; the families are {', '.join(sorted(registered(BACKENDS)))}"
        )
    location, settings = _split_options(location, name)
    for key, value in options.items():
        if key in settings:
            raise BackendError(f"{name}: option {key} is given twice, in the name and beside it")
        settings[key] = value
    return _load(family), location, settings


def _split_options(location: str, name: str) -> tuple[str, dict[str, Any]]:
    model, mark, query = location.rpartition("?")
    if not mark:
        return location, {}
    try:
        pairs = parse_qsl(query, keep_blank_values=True, strict_parsing=True)
    except ValueError as error:
        raise BackendError(
            f"{name}: cannot read the options {query!r}; write ?key=value&key=value"
        ) from error
    settings: dict[str, Any] = dict(pairs)
    if len(settings) < len(pairs):
        raise BackendError(f"{name}: an option is given twice")
    return model, settings


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


def _listed(family: str) -> list[BackendInfo]:
    backend = _load(family)
    try:
        models: list[Any] = list(backend.models())
        if strays := [one for one in models if not isinstance(one, BackendInfo)]:
            raise TypeError(f"{strays[0]!r} is no BackendInfo")
    except Exception as error:  # whatever a plug-in raises
        raise BackendError(
            f"the backend {family!r} lists no models: {type(error).__name__}: {error}"
        ) from error
    return models


def _require_takes(name: str, call: Callable[..., Any], *values: Any, **settings: Any) -> None:
    """Refuse what takes no such call, before it is called: a plug-in's, or an unknown option."""
    try:
        signature = inspect.signature(call)
    except ValueError:  # of a compiled call that states none
        return
    try:
        signature.bind(*values, **settings)
    except TypeError as error:
        registration = registration_of(BACKENDS, name.partition(":")[0], "backend", BackendError)
        given = [*map(str, values), *(f"{key}={value}" for key, value in settings.items())]
        raise BackendError(
            f"{name}: {call.__qualname__} of the package {registration and registration.package} "
            f"({registration and registration.value}) is called with {', '.join(given)}, which it "
            f"does not take: {error}"
        ) from error


def _has_no(backend: Backend, name: str, port: str) -> BackendError:
    """The family of ``name`` has no such port; what it has instead."""
    ports: dict[str, type] = {
        "encoders": EncoderBackend,
        "decoders": DecoderBackend,
        "models": ModelBackend,
    }
    offered = [noun for noun, protocol in ports.items() if isinstance(backend, protocol)]
    return BackendError(
        f"{name} is no {port}: the backend {name.partition(':')[0]!r} has no {port}, only "
        f"{' and '.join(offered) or 'a list'}"
    )


def _lacks(name: str, model: object, port: type, method: str) -> BackendError:
    lacks = [key for key in (*port.__annotations__, method) if not hasattr(model, key)]
    return BackendError(
        f"{name} is no {port.__name__.lower()}: it gave a {type(model).__name__} without "
        f"{', '.join(lacks)}"
    )


def _require_words(name: str, model: object) -> None:
    """Refuse a model whose name or licence is no text: a card states both."""
    for key in ("name", "licence"):
        value = getattr(model, key, "none")
        if not isinstance(value, str):
            raise BackendError(
                f"{name} states {value!r} as its {key}: it is text, and the licence of what has no "
                "weights is 'none'"
            )


def _check_shape(shape: Any, name: str) -> None:
    if not is_shape(shape, 3) or shape[2] not in (1, 3):
        raise BackendError(
            f"{name} works on images of shape (height, width, 1 or 3), found {shape}"
        )
