"""The models that a run's method works with: which it can use, and what each is by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.backends.registry import load_decoder, load_encoder, load_model
from understudy.core.errors import ConfigError
from understudy.core.ports import Captioner, Generator, PhrasedSource, Source, Writer
from understudy.methods.base import PROCEDURAL, ROLES, Context, Method
from understudy.run.config import RunConfig

_PORTS: Mapping[str, type[Any]] = {
    "generator": Generator,
    "renderer": Generator,
    "writer": Writer,
    "captioner": Captioner,
}


def names_of_roles(config: RunConfig, method: Method, params: Any) -> dict[str, str | None]:
    """The name of each model and dataset that the method can use; None: none.

    What is left open gets the method's default; where the user named the same model for another
    role in a folder of their own (``embedded:studio?folder=mine``), then from there.

    Raises:
        ConfigError: The user named something that the method has no use for.
    """
    given = _given(config)
    defaults = method.roles(params, frozenset(given))
    for role, name in given.items():
        if role not in defaults and name != "none":
            option = role.replace("_", "-")
            raise ConfigError(
                f"{method.name} with these settings has no use for --{option}: leave it out "
                f"(it takes {', '.join('--' + r.replace('_', '-') for r in defaults)})"
            )
    alike = {_plain(name): _located(name) for name in given.values()}
    found = {
        role: given.get(role, default and alike.get(_plain(default), default))
        for role, default in defaults.items()
    }
    if "decoder" in found and "decoder" not in given and _other_encoder(found, defaults):
        found["decoder"] = None
    return {role: None if name == "none" else name for role, name in found.items()}


def _given(config: RunConfig) -> dict[str, str]:
    """What the user named, by role."""
    names = {
        "encoder": config.encoder,
        "decoder": config.decoder,
        "public": config.public,
        "base": config.base,
        "cluster_encoder": config.cluster_encoder,
        "generator": config.generator,
        "renderer": config.renderer,
        "writer": config.writer,
        "captioner": config.captioner,
    }
    return {role: name for role, name in names.items() if name is not None}


def _plain(name: str) -> str:
    return name.partition("?")[0]


def _located(name: str) -> str:
    """A name with no option but the folder that the model lies in."""
    plain, _, options = name.partition("?")
    folder = [option for option in options.split("&") if option.startswith("folder=")]
    return "?".join([plain, *folder])


def _other_encoder(found: Mapping[str, str | None], defaults: Mapping[str, str | None]) -> bool:
    """Whether the encoder is not the default one, whose decoder could not read its embeddings."""
    return _plain(found.get("encoder") or "") != defaults.get("encoder")


def load_models(names: Mapping[str, str | None], source: Source) -> dict[str, Any]:
    """Every model of ``names`` by its role, as `Context` takes them.

    Raises:
        ConfigError: A model of images for a dataset of embeddings.
        BackendError: A model that cannot be loaded.
    """
    loaded: dict[str, Any] = {"encoder": None, "decoder": None}
    if source.kind == "embeddings":
        return loaded
    for role in ("encoder", "cluster_encoder"):
        name = names.get(role)
        if name is not None:
            loaded[role] = load_encoder(encoder_name(name), shape=source.shape)
    decoder = names.get("decoder")
    if decoder is not None:
        encoder = loaded.get("encoder")
        loaded["decoder"] = load_decoder(decoder, shape=source.shape, encoder=encoder)
    for role, port in _PORTS.items():
        name = names.get(role)
        if name is not None:
            loaded[role] = load_model(port, name)
    return loaded


def require_no_models(config: RunConfig) -> None:
    """Refuse models of images for a dataset of embeddings.

    Raises:
        ConfigError: As said.
    """
    given = {role for role, name in _given(config).items() if name != "none"}
    models = [role for role in ROLES if role in given - {"public", "base"}]
    if models:
        options = " and ".join("--" + role.replace("_", "-") for role in models)
        raise ConfigError(f"{config.source} holds embeddings already: leave out {options}")


def encoder_name(name: str) -> str:
    """The encoder that a name stands for where it leaves options open.

    Scattering gives thousands of numbers an image; their logarithms' 400 lowest frequencies lose
    next to nothing (docs/backends.md) and leave less to be noised.
    """
    return f"{name}?log=10&coefficients=400" if name == "embedded:scattering" else name


def procedural_name(asked: str | None, context: Context) -> str | None:
    """The public dataset: procedural images where none is named and an encoder could use some.

    An encoder whose numbers come in order of importance says itself which of them matter. Where
    images are decoded from latents on a grid, their lines and patches come from public pictures,
    so these have some.
    """
    if asked != PROCEDURAL:
        return asked
    encoder = context.encoder
    if encoder is None or encoder.ordered:
        return None
    kind = "leaves" if context.grid is None else "scenes"
    return f"procedural:{kind}?channels={context.shape[2]}"


def phrases_of(source: Source) -> tuple[str, ...]:
    """A noun phrase for each class, for prompts: the class's name where the source knows none."""
    if isinstance(source, PhrasedSource):
        return source.phrases
    return tuple(map(phrase_of, source.classes))


def phrase_of(class_name: str) -> str:
    """A class's name as a prompt says it."""
    return class_name.replace("_", " ").replace("-", " ")
