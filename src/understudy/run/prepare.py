"""Everything that can be refused before anything private is read or spent."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from understudy.backends.registry import load_decoder, load_encoder
from understudy.core.errors import ConfigError, SourceError
from understudy.core.ports import Decoder, Encoder, Source
from understudy.core.types import Shape
from understudy.data import open_source
from understudy.methods.parts.interface import Context, Method
from understudy.privacy.account import Plan, run_mu_of
from understudy.run.config import RunConfig, make_params
from understudy.run.methods import method


@dataclass(frozen=True)
class Prepared:
    """A run that is ready to start.

    Attributes:
        config: What was asked.
        method: The method.
        params: Its parameters.
        plan: Budget and shares.
        source: The private dataset.
        test: The real test set, or None.
        public: The public dataset, or None.
        encoder: Images to embeddings, or None.
        decoder: Embeddings to images, or None.
    """

    config: RunConfig
    method: Method
    params: Any
    plan: Plan
    source: Source
    test: Source | None
    public: Source | None
    encoder: Encoder | None
    decoder: Decoder | None


def prepare(config: RunConfig) -> Prepared:
    """Open the sources, load the models, divide the budget.

    Raises:
        InputError: Anything that does not fit together.
    """
    chosen = method(config.method)
    params = make_params(chosen.params, config.settings)
    source = open_source(
        config.source,
        split="train",
        size=config.size,
        unit=config.unit,
        skip_bad=config.skip_bad,
    )
    shape = source.shape
    if config.unit is not None and not source.has_units:
        raise SourceError(f"has no column {config.unit!r} that says whose row it is", config.source)
    encoder, decoder = _models(config, source, shape)
    beside = partial(_beside, source, config)
    test = None if config.test is None else beside(config.test, "test")
    public_name = _public(config, encoder, decoder, shape)
    public = None if public_name is None else beside(public_name, "train")
    if test is not None:
        _require_trainable(source, params, decoder)
        require_classes(source.classes, test)
    mu = run_mu_of(config.budget)
    context = Context(shape, encoder, decoder, public is not None, mu)
    params = chosen.settle(params, context)
    plan = Plan.of(config.budget, chosen.weights(params, context))
    return Prepared(config, chosen, params, plan, source, test, public, encoder, decoder)


def _public(
    config: RunConfig, encoder: Encoder | None, decoder: Decoder | None, shape: Shape
) -> str | None:
    """The public dataset: procedural images where none is named and an encoder could use some.

    An encoder whose numbers come in order of importance says itself which of them matter. Where
    images are decoded from latents on a grid, their lines and patches come from public pictures,
    so these have some.
    """
    if config.public is not None:
        return None if config.public == "none" else config.public
    if encoder is None or encoder.ordered:
        return None
    grid = Context(shape, encoder, decoder, True, 0.0).grid
    kind = "leaves" if grid is None else "scenes"
    return f"procedural:{kind}?channels={shape[2]}"


def _beside(source: Source, config: RunConfig, name: str, split: Any) -> Source:
    """A test or public dataset, brought to the private one's size."""
    size = (source.shape[0], source.shape[1]) if source.kind == "images" else None
    other = open_source(name, split=split, size=size, skip_bad=config.skip_bad)
    if other.kind != source.kind:
        raise SourceError(f"holds {other.kind}, the private dataset {source.kind}", name)
    if other.kind == "embeddings" and other.shape != source.shape:
        raise SourceError(
            f"holds embeddings of {other.shape[0]} numbers, the private dataset of "
            f"{source.shape[0]}",
            name,
        )
    return other


def _require_trainable(source: Source, params: Any, decoder: Decoder | None) -> None:
    """Refuse a test set where no network could be trained on the release, before it is paid for.

    Raises:
        ConfigError: No classes, or images that are too small.
        MissingExtra: The package that trains networks is not installed.
    """
    from understudy.evaluate.networks import SMALLEST_SIDE  # imports torch, which is an extra

    if len(source.classes) < 2 or not getattr(params, "conditional", True):
        raise ConfigError(
            "a release without classes trains no classifier (conditional=false, or a dataset "
            "without labels): leave out --test"
        )
    if decoder is not None and min(decoder.shape[:2]) < SMALLEST_SIDE:
        raise ConfigError(
            f"accuracy is measured on images of at least {SMALLEST_SIDE} pixels a side: give "
            f"--size {SMALLEST_SIDE}, or leave out --test"
        )


def require_classes(classes: tuple[str, ...], test: Source) -> None:
    """Refuse a test set with a class that training never saw.

    Raises:
        SourceError: Naming the classes.
    """
    strange = sorted(set(test.classes) - set(classes))
    if strange:
        raise SourceError(
            f"has classes that the other dataset lacks: {', '.join(strange[:10])}", test.name
        )


def encoder_name(asked: str | None) -> str:
    """The encoder that a name stands for where it leaves options open.

    Scattering gives thousands of numbers an image; their logarithms' 400 lowest frequencies lose
    next to nothing (docs/backends.md) and leave less to be noised.
    """
    name = asked or "embedded:dct"
    return f"{name}?log=10&coefficients=400" if name == "embedded:scattering" else name


def _models(
    config: RunConfig, source: Source, shape: Shape
) -> tuple[Encoder | None, Decoder | None]:
    if source.kind == "embeddings":
        if config.encoder or config.decoder not in (None, "none"):
            raise ConfigError(
                f"{config.source} holds embeddings already: leave out --encoder and --decoder"
            )
        return None, None
    name = encoder_name(config.encoder)
    encoder = load_encoder(name, shape=shape)
    decoder_name = config.decoder
    if decoder_name is None and name.partition("?")[0] == "embedded:dct":
        decoder_name = "embedded:dct"
    if decoder_name in (None, "none"):
        return encoder, None
    return encoder, load_decoder(str(decoder_name), shape=shape, encoder=encoder)
