"""From a name to a model: ``family:rest?key=value&...``.

    embedded:dct                       the family "embedded", its model "dct"
    embedded:dct?coefficients=200      with an option
    onnx:models/encoder.onnx?size=128  the family "onnx", a file

A family is an entry point of the group ``understudy.backends``, for the built-in ones too, so a
plug-in needs an installed package and no change here.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar
from urllib.parse import parse_qsl

from understudy.backends.plugin import Backend, BackendInfo, Kind, ModelBackend
from understudy.core.errors import BackendError
from understudy.core.ports import (
    Captioner,
    Decoder,
    Detector,
    Encoder,
    Generator,
    PoseEstimator,
    Segmenter,
    Tuner,
    Writer,
)
from understudy.core.types import Shape

__all__ = [
    "BACKEND_GROUP",
    "BUILT_IN_BACKENDS",
    "BackendInfo",
    "backends",
    "load_decoder",
    "load_encoder",
    "load_model",
]

BACKEND_GROUP = "understudy.backends"

BUILT_IN_BACKENDS = {
    "embedded": "understudy.backends.embedded:backend",
    "hf": "understudy.backends.hub.hub_models:backend",
    "inception": "understudy.backends.inception:backend",
    "onnx": "understudy.backends.onnx:backend",
}
"""The entry points of this package, for a source tree on the path that was never installed."""

P = TypeVar("P")

_KINDS: dict[type, Kind] = {
    Generator: "generator",
    Tuner: "tuner",
    Captioner: "captioner",
    Writer: "writer",
    Segmenter: "segmenter",
    Detector: "detector",
    PoseEstimator: "pose estimator",
}


def load_model(port: type[P], name: str, **options: Any) -> P:
    """Load a model of any port but encoders and decoders, which need the images' shape.

    Args:
        port: The port it must satisfy, such as `Generator`.
        name: ``family:rest``, with options after a question mark if wanted.
        options: More options; the same as those inside the name.

    Returns:
        The model.

    Raises:
        BackendError: The family, the model or an option does not exist, or cannot be used.
        MissingExtra: The model needs a package that is not installed.
    """
    backend, rest, merged = _find(name, options)
    kind = _KINDS[port]
    if not isinstance(backend, ModelBackend):
        raise BackendError(f"{name} is no {kind}: its family has encoders and decoders only")
    model = backend.model(kind, rest, **merged)
    if not isinstance(model, port):
        raise BackendError(f"{name} is no {kind}: it gave a {type(model).__name__}")
    return model


def load_encoder(name: str, *, shape: Shape, **options: Any) -> Encoder:
    """Load an encoder.

    Args:
        name: ``family:rest``, with options after a question mark if wanted.
        shape: (height, width, channels) of the dataset's images; 1 or 3 channels.
        options: More options; the same as those inside the name.

    Returns:
        The encoder.

    Raises:
        BackendError: The family, the model or an option does not exist, or cannot be used.
        MissingExtra: The model needs a package that is not installed.
    """
    backend, rest, merged = _find(name, options)
    _check_shape(shape, name)
    encoder = backend.encoder(rest, shape, **merged)
    if not isinstance(encoder, Encoder):
        raise BackendError(f"{name} is no encoder: {_lacks(encoder, Encoder, 'encode')}")
    return encoder


def load_decoder(
    name: str, *, shape: Shape, encoder: Encoder | None = None, **options: Any
) -> Decoder:
    """Load a decoder.

    Args:
        name: ``family:rest``, with options after a question mark if wanted.
        shape: (height, width, channels) of the images to make; 1 or 3 channels.
        encoder: The encoder whose embeddings will be decoded; it settles their layout and length.
        options: More options; the same as those inside the name.

    Returns:
        The decoder.

    Raises:
        BackendError: The family, the model or an option does not exist, cannot be used, or does
            not fit the encoder.
        MissingExtra: The model needs a package that is not installed.
    """
    backend, rest, merged = _find(name, options)
    _check_shape(shape, name)
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
    for family in sorted(_families()):
        try:
            models += _load(family).models()
        except BackendError as error:
            models.append(
                BackendInfo(
                    name=f"{family}:",
                    kind="encoder and decoder",
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
            f"Write family:model; the families are {', '.join(sorted(_families()))}"
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


def _families() -> dict[str, set[str]]:
    """Family to the objects registered for it; more than one is a conflict."""
    families = {family: {value} for family, value in BUILT_IN_BACKENDS.items()}
    for entry in entry_points(group=BACKEND_GROUP):
        families.setdefault(entry.name, set()).add(entry.value)
    return families


def _load(family: str) -> Backend:
    families = _families()
    if family not in families:
        raise BackendError(
            f"there is no backend {family!r}. There are {', '.join(sorted(families))}; "
            "`understudy backends` lists their models"
        )
    values = sorted(families[family])
    if len(values) > 1:
        # Private images go to whatever is loaded here, so a package must not take over a family.
        raise BackendError(
            f"the backend {family!r} is registered more than once: {', '.join(values)}. "
            "Uninstall all but one of these packages"
        )
    try:
        backend = EntryPoint(name=family, value=values[0], group=BACKEND_GROUP).load()
    except Exception as error:  # whatever a plug-in raises while it is imported
        raise BackendError(
            f"the backend {family!r} ({values[0]}) cannot be loaded: "
            f"{type(error).__name__}: {error}"
        ) from error
    if not isinstance(backend, Backend):
        raise BackendError(
            f"the backend {family!r} ({values[0]}) lacks the methods models, encoder and decoder"
        )
    return backend


def _lacks(model: object, port: type, method: str) -> str:
    missing = [key for key in (*port.__annotations__, method) if not hasattr(model, key)]
    return f"it gave a {type(model).__name__} without {', '.join(missing)}"


def _check_shape(shape: Shape, name: str) -> None:
    if len(shape) != 3 or min(shape) < 1 or shape[2] not in (1, 3):
        raise BackendError(
            f"{name} works on images of shape (height, width, 1 or 3), found {shape}"
        )
