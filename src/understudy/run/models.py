"""The models that a run's method works with: which it can use, and what each is by default."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from understudy.backends.registry import load_decoder, load_encoder, load_model, named_on
from understudy.core.errors import BackendError, ConfigError, UnderstudyError
from understudy.core.matching import NUMBERS_MEASURED, BlockEncoder, MatchingDecoder
from understudy.core.operations import WrittenEncoder
from understudy.core.ports import Decoder, Encoder, PerceptualDistance, PhrasedSource, Source
from understudy.core.remote_models import RemoteModel
from understudy.core.roles import MODEL_ROLES, RoleNames, flag_of, port_of
from understudy.core.types import Images, Shape
from understudy.data.procedural import ALL_FAMILIES
from understudy.methods.base import AUTO, PROCEDURAL, Context, Method
from understudy.privacy.probe import probe_records
from understudy.run.codec_rules import (
    ENERGIES,
    CodecChoice,
    choose_codec,
    codec_roles,
    has_energies,
    lacks_torch,
)
from understudy.run.config import MethodOptions, RunConfig
from understudy.run.safeguards import is_out_of_memory

_CONTRAST_IMAGES = 1_800  # 200 of each family


def names_of_roles(models: MethodOptions, method: Method, params: Any) -> dict[str, str | None]:
    """The name of each model and dataset that the method can use; None: none.

    What is left open gets the method's default; where the user named the same model for another
    role in a folder of their own (``embedded:studio?folder=mine``), then from there.

    Raises:
        ConfigError: The user named something that the method has no use for.
    """
    choices = named_roles(models)
    defaults = dict(method.roles(params, frozenset(choices)))
    for role, name in choices.items():
        if role not in defaults and name != "none":
            raise ConfigError(
                f"{method.name} with these settings has no use for {flag_of(role)}: leave it out "
                f"(it takes {', '.join(map(flag_of, defaults))})"
            )
    takes_codec = defaults.get("encoder") == AUTO
    if takes_codec:
        defaults |= codec_roles(choices)
    alike = {_plain(name): _located(name) for name in choices.values()}
    names = {
        role: choices.get(role, default and alike.get(_plain(default), default))
        for role, default in defaults.items()
    }
    # The decoder of the default encoder could not read the embeddings of another one.
    other = not takes_codec and _plain(names.get("encoder") or "") != defaults.get("encoder")
    if "decoder" in names and "decoder" not in choices and other:
        names["decoder"] = None
    return {role: None if name == "none" else name for role, name in names.items()}


def require_images_made(context: Context) -> None:
    """Refuse a decoder or generator that makes no images, by one image, before the charge.

    Models that servers run are not asked: each request has its price.
    """
    makers: dict[str, tuple[Shape, Callable[[], Images]]] = {}
    for generator in (context.generator, context.renderer):
        if generator is not None and not isinstance(generator, RemoteModel):
            makers[generator.name] = (generator.shape, partial(generator.generate, [""], seed=0))
    if (decoder := context.decoder) is not None:
        embedding, seeds = probe_records((decoder.dim,), 2)[1:], np.zeros(1, dtype=np.uint64)
        makers[decoder.name] = (decoder.shape, partial(decoder.decode, embedding, seeds=seeds))
    for name, (shape, make) in makers.items():
        try:
            image = np.asarray(make())
        except (UnderstudyError, OSError, MemoryError):
            raise
        except Exception as error:  # whatever a library makes of parts that do not fit together
            if is_out_of_memory(error):
                raise
            raise BackendError(
                f"{name} is refused: asked for an image, it failed ({type(error).__name__}: "
                f"{error}). Do its parts and options fit, and the encoder its decoder? "
                "Nothing was charged"
            ) from error
        if image.dtype != np.uint8 or image.shape != (1, *shape):
            raise BackendError(
                f"{name} is refused: asked for an image, it gave {image.dtype} of shape "
                f"{image.shape}, and uint8 of shape {(1, *shape)} is expected. Nothing was charged"
            )


def released_shape(
    names: Mapping[str, str | None], method: Method, context: Context
) -> Shape | None:
    """(height, width, channels) of the images that a run releases; None: it releases embeddings.

    Args:
        names: The models and datasets that the method can use (`names_of_roles`).
        method: The method.
        context: With the models that were loaded.
    """
    if context.decoder is not None:
        return context.decoder.shape
    drawing = context.renderer or context.generator
    if drawing is not None and method.released_role is None and "decoder" not in names:
        return drawing.shape
    return None if "decoder" in names or len(context.shape) != 3 else context.shape


def named_roles(models: MethodOptions) -> dict[str, str]:
    """The models and datasets that the user named, by their roles; ``auto`` names none."""
    names: Mapping[str, Any] = models.roles
    return {role: name for role, name in names.items() if name not in (None, AUTO)}


def with_codec(
    config: RunConfig, method: Method, params: Any, shape: Shape
) -> tuple[RunConfig, CodecChoice | None]:
    """The configuration with an encoder and a decoder by their names, and why these.

    A run that goes on, or is sampled anew, works with the names, whatever is installed by then.

    Returns:
        The same configuration and None where nothing has to be chosen: for embeddings, for a method
        with a default of its own, or where the user named an encoder or a decoder.
    """
    choices = named_roles(config.models)
    undecided = method.roles(params, frozenset(choices)).get("encoder") == AUTO
    decoder = choices.get("decoder", AUTO)
    if len(shape) != 3 or not undecided or "encoder" in choices or decoder not in (AUTO, "none"):
        return config, None
    choice = choose_codec(shape, images=decoder == AUTO)
    roles = {"encoder": choice.codec, "decoder": choice.codec if decoder == AUTO else decoder}
    return config.changed(roles=cast(RoleNames, {**config.models.roles, **roles})), choice


def _plain(name: str) -> str:
    return name.partition("?")[0]


def _located(name: str) -> str:
    """A name with no option but the folder that the model lies in."""
    plain, _, options = name.partition("?")
    folder = [option for option in options.split("&") if option.startswith("folder=")]
    return "?".join([plain, *folder])


def model_of(
    role: str,
    name: str,
    shape: Shape,
    device: str | None = None,
    encoder: Encoder | None = None,
) -> Any:
    """The model of a role by its name; a decoder is that of the encoder's embeddings."""
    port, name = port_of(role), name if device is None else named_on(name, device)
    if port is Encoder:
        return load_encoder(encoder_name(name), shape=shape)
    if port is Decoder:
        return load_decoder(name, shape=shape, encoder=encoder)
    return load_model(port, name)


def load_models(
    names: Mapping[str, str | None], source: Source, device: str | None = None
) -> dict[str, Any]:
    """Every model of ``names`` by its role, as `Context` takes them, on a device if one is named.

    Raises:
        ConfigError: A model of images for a dataset of embeddings.
        BackendError: A model that cannot be loaded.
    """
    models: dict[str, Any] = {}
    if source.kind == "embeddings":
        return models
    for role in MODEL_ROLES:  # an encoder comes before the decoder of its embeddings
        if (name := names.get(role)) is not None:
            models[role] = model_of(role, name, source.shape, device, models.get("encoder"))
    return models


def require_no_models(config: RunConfig) -> None:
    """Refuse models of images for a dataset of embeddings."""
    choices = named_roles(config.models)
    roles = [role for role in MODEL_ROLES if choices.get(role, "none") != "none"]
    if roles:
        flags = " and ".join(map(flag_of, roles))
        raise ConfigError(f"{config.data.source} holds embeddings already: leave out {flags}")


def encoder_name(name: str) -> str:
    """The encoder that a name stands for where it leaves options open.

    Scattering gives thousands of numbers an image; their logarithms' 400 lowest frequencies lose
    next to nothing (docs/backends.md) and leave less to be noised.
    """
    return f"{name}?log=10&coefficients=400" if name == "embedded:scattering" else name


def front_end(shape: Shape | None) -> WrittenEncoder | None:
    """The fixed encoder of images of a shape; None where it takes none such, or is not installed.

    Args:
        shape: (height, width, channels); None, or that of embeddings: there are no images.
    """
    if shape is None or len(shape) != 3 or not has_energies(shape) or lacks_torch():
        return None
    encoder = load_encoder(ENERGIES, shape=shape)
    if not isinstance(encoder, WrittenEncoder):
        raise ConfigError(f"{ENERGIES}: cannot be written down")
    return encoder


def measured_columns(
    encoder: Encoder | None, facts: Mapping[str, Any], images: Images
) -> NDArray[np.int64] | None:
    """The numbers of an embedding that a release measured; None where it does not say.

    A classifier that is trained on samples would take what the others hold for a mark of classes,
    and of real images it is none.

    Args:
        encoder: The front end of the classifier.
        facts: Public facts of the release.
        images: Its samples, (n, height, width, channels): of grey ones no colours were measured.
    """
    numbers = facts.get(NUMBERS_MEASURED)
    if not isinstance(encoder, BlockEncoder) or not isinstance(numbers, int) or numbers < 1:
        return None
    return encoder.layout(numbers, colour=bool((images != images[..., :1]).any())).columns


def load_perceptual(path: str | Path, images: Source) -> PerceptualDistance:
    """The perceptual distance of a TorchScript file (``--lpips``), tried on two empty images.

    Raises:
        InputError: It is none, or does not take such images; or there are no images.
    """
    if images.kind != "images":
        raise ConfigError(f"{images.name} holds embeddings, which have no looks: leave out --lpips")
    from understudy.backends.perceptual_network import ScriptedDistance

    distance = ScriptedDistance(path)
    empty = np.zeros((2, *images.shape), dtype=np.uint8)  # one alone may hide a mean of all
    distance.distance(empty, empty)
    return distance


def procedural_name(name: str | None, context: Context) -> str | None:
    """The public dataset: procedural images where none is named and an encoder could use some.

    An encoder whose numbers come in order of importance says itself which of them matter, and those
    of blocks that a decoder matches (`MatchingDecoder`) are taken as they are. Where images are
    decoded from latents on a grid, their lines and patches come from public images, so these are of
    every family that is drawn.
    """
    if name != PROCEDURAL:
        return name
    encoder = context.encoder
    if encoder is None or encoder.ordered:
        return None
    if isinstance(encoder, BlockEncoder) and isinstance(context.decoder, MatchingDecoder):
        return None
    kind = "leaves" if context.grid is None else ALL_FAMILIES
    return f"procedural:{kind}?channels={context.shape[2]}"


def contrast_name(name: str | None, context: Context) -> str | None:
    """The images of other kinds: drawings of every family where none are named."""
    if name != PROCEDURAL:
        return name
    if len(context.shape) != 3:
        return None
    return f"procedural:{ALL_FAMILIES}?count={_CONTRAST_IMAGES}&channels={context.shape[2]}"


def phrases_of(source: Source) -> tuple[str, ...]:
    """A noun phrase for each class, for prompts: the class's name where the source knows none."""
    if isinstance(source, PhrasedSource):
        return source.phrases
    return tuple(map(phrase_of, source.classes))


def phrase_of(class_name: str) -> str:
    """A class's name as a prompt says it."""
    return class_name.replace("_", " ").replace("-", " ")
