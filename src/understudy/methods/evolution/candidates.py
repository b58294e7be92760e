"""The two kinds of candidates of Private Evolution, captions and images, and populations of them.

A kind knows the paper's RANDOM_API and VARIATION_API, and the embeddings of candidates that private
records vote on. All of it is public.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import BackendError, ConfigError
from understudy.core.ports import Captioner, Encoder, Generator, TextEncoder, Writer
from understudy.core.types import Embeddings, Images, Labels
from understudy.methods.base import UNLABELLED, Context, Materials, check_template, prompts_of

if TYPE_CHECKING:  # which imports this module
    from understudy.methods.evolution.algorithm import EvolutionParams

Items = NDArray[Any]
"""Candidates: (n,) of str, or (n, height, width, channels) uint8."""

CAPTIONED_AT_ONCE = 16
"""Private images in every call of a captioner: those that write text take long for each."""


@dataclass(frozen=True)
class Population:
    """As many candidates of every class."""

    items: Items  # (classes, m, ...) captions or images
    phrase_of: Labels  # (classes, m) int64, which phrase each shows: its class, where there are

    @property
    def flat(self) -> Items:
        """(classes * m, ...)."""
        return self.items.reshape(-1, *self.items.shape[2:])

    def subset(self, positions: Labels) -> Population:
        """The candidates at (classes, n) positions in their class."""
        classes = np.arange(len(positions))[:, None]
        return Population(self.items[classes, positions], self.phrase_of[classes, positions])

    def extended(self, others: list[Population]) -> Population:
        """These, then the others of the same class."""
        whole = [self, *others]
        return Population(
            np.concatenate([part.items for part in whole], axis=1),
            np.concatenate([part.phrase_of for part in whole], axis=1),
        )


class CandidateKind(Protocol):
    """What a population is made of. ``phrase_of`` says of each item which phrase it shows."""

    def random(self, phrase_of: Labels, seed: int) -> Items:
        """RANDOM_API: an item of each of these phrases, in order; at least one."""
        ...

    def vary(self, items: Items, phrase_of: Labels, degree: float, seed: int) -> Items:
        """VARIATION_API: a variation of each item; ``degree`` in [0, 1] of it may change."""
        ...

    def embed(self, items: Items, seed: int) -> Embeddings:
        """Items where private records vote: (n, d) float32."""
        ...


@dataclass(frozen=True)
class ImageCandidates:
    """Images: Private Evolution (Lin et al. 2024)."""

    generator: Generator  # makes them and varies them
    prompts: tuple[str, ...]  # the prompt of each phrase
    encode: Callable[[Images], Embeddings]  # images to embeddings

    def random(self, phrase_of: Labels, seed: int) -> Items:
        """Text to image."""
        return self.generator.generate(self._of(phrase_of), seed=seed)

    def vary(self, items: Items, phrase_of: Labels, degree: float, seed: int) -> Items:
        """Image to image; the degree is its strength."""
        return self.generator.vary(items, self._of(phrase_of), strength=degree, seed=seed)

    def embed(self, items: Items, seed: int) -> Embeddings:
        """By the encoder."""
        return self.encode(items)

    def _of(self, phrase_of: Labels) -> list[str]:
        return [self.prompts[phrase] for phrase in phrase_of]


@dataclass(frozen=True)
class CaptionCandidates:
    """Captions: SPTI."""

    writer: Writer  # writes them and varies them
    labels: tuple[str | None, ...]  # the phrases, as the writer is given them; None: nothing
    encode: Callable[[list[str], int], Embeddings]  # captions and a seed, as images or text

    def random(self, phrase_of: Labels, seed: int) -> Items:
        """From nothing but the class."""
        captions: list[str] = [""] * len(phrase_of)
        for phrase in np.unique(phrase_of):
            mine = np.flatnonzero(phrase_of == phrase)
            label = self.labels[phrase]
            texts = self.writer.write(len(mine), label=label, seed=seed + int(phrase))
            for index, text in zip(mine, texts, strict=True):
                captions[index] = _single_line(text)
        if not all(captions):
            raise BackendError(f"{self.writer.name} wrote a caption without a word")
        return np.array(captions, dtype=np.str_)

    def vary(self, items: Items, phrase_of: Labels, degree: float, seed: int) -> Items:
        """In other words, and in part about other things."""
        old = [str(text) for text in items]
        new = map(_single_line, self.writer.vary(old, degree=degree, seed=seed))
        # Votes are paid for by now: a variation without a word is none, and ends no run.
        return np.array([b or a for a, b in zip(old, new, strict=True)], dtype=np.str_)

    def embed(self, items: Items, seed: int) -> Embeddings:
        """As images or as text."""
        return self.encode([str(text) for text in items], seed)


def _single_line(text: str) -> str:
    """What a line of a table can hold: a release keeps captions as they were rendered."""
    return " ".join(text.encode("utf-8", "replace").decode("utf-8").split())


def check_models(context: Context, params: EvolutionParams) -> None:
    """Refuse models that cannot do what is asked of them."""
    if len(context.shape) != 3:
        raise ConfigError("evolution makes images, and this dataset holds embeddings")
    encoder, generator = encoder_of(context), generator_of(context)
    drawing = [generator] + ([context.renderer] if context.renderer is not None else [])
    if lacking := [model.name for model in drawing if "text" not in model.tasks]:
        raise ConfigError(
            f"evolution draws images from text, which {lacking[0]} cannot: take another generator"
        )
    if params.candidates == "captions":
        if context.writer is None:
            raise ConfigError("evolution of captions needs a --writer, or take candidates=images")
        for label in _labels(context):
            context.writer.write(0, label=label)  # refuses a class that it has no words for
    else:
        _check_variation(generator)
        check_template(context, params.template, conditional=params.conditional)
    if params.vote == "text":
        text_encoder_of(encoder)
        if context.captioner is None:
            raise ConfigError("vote=text needs a --captioner for the private images")


def _check_variation(generator: Generator) -> None:
    if "variation" not in generator.tasks:
        raise ConfigError(
            f"candidates=images varies images, and {generator.name} can only do "
            f"{', '.join(sorted(generator.tasks))}: take another --generator, or "
            "candidates=captions"
        )


def candidates_of(materials: Materials, params: EvolutionParams) -> CandidateKind:
    """What evolves: images, or captions, embedded as images or, for votes of text, as text."""
    context = materials.context
    encoder, phrases = encoder_of(context), context.called
    if params.candidates == "images":
        return ImageCandidates(
            generator_of(context),
            prompts_of(phrases, params.template),
            lambda images: encoder.encode(materials.fit(images)),
        )
    if context.writer is None:
        raise ConfigError("evolution of captions needs a --writer")
    labels = _labels(context)
    if params.vote == "text":
        texts = text_encoder_of(encoder)
        return CaptionCandidates(context.writer, labels, lambda some, _: texts.encode_text(some))
    return CaptionCandidates(context.writer, labels, renderings_of(materials))


def _labels(context: Context) -> tuple[str | None, ...]:
    """The classes in words, as a writer is given them; None: there are no classes."""
    return context.called if context.classes != UNLABELLED else (None,) * len(context.called)


def captions_embedded(captioner: Captioner, encoder: TextEncoder) -> Callable[[Images], Embeddings]:
    """Images to the embeddings of their captions."""
    return lambda images: encoder.encode_text(captioner.caption(images))


def renderings_of(materials: Materials) -> Callable[[list[str], int], Embeddings]:
    """Captions to embeddings of the images that they make."""
    encoder, generator = encoder_of(materials.context), generator_of(materials.context)
    return lambda texts, seed: encoder.encode(materials.fit(generator.generate(texts, seed=seed)))


def encoder_of(context: Context) -> Encoder:
    """The encoder."""
    if context.encoder is None:
        raise ConfigError("evolution compares images by an --encoder: name one")
    return context.encoder


def text_encoder_of(encoder: Encoder) -> TextEncoder:
    """The encoder, as one of texts too."""
    if not isinstance(encoder, TextEncoder):
        raise ConfigError(
            f"vote=text compares captions, and {encoder.name} encodes images only: take an "
            "--encoder of both, such as embedded:studio or hf:openai/clip-vit-base-patch32"
        )
    return encoder


def generator_of(context: Context) -> Generator:
    """The generator."""
    if context.generator is None:
        raise ConfigError("evolution makes images by a --generator: name one")
    return context.generator
