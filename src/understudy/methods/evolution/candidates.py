"""The two alphabets of Private Evolution: populations of captions and of images.

An alphabet knows the paper's RANDOM_API and VARIATION_API, and how a candidate looks to those who
vote. All of it is public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import BackendError, ConfigError
from understudy.core.ports import Encoder, Generator, TextEncoder, Writer
from understudy.core.types import Embeddings, Images, Labels
from understudy.methods.base import Context, Materials

Items = NDArray[Any]
"""Candidates: (n,) of str, or (n, height, width, channels) uint8."""


class Alphabet(Protocol):
    """What a population is made of. ``kinds`` says of each item which of the phrases it shows."""

    def random(self, kinds: Labels, seed: int) -> Items:
        """RANDOM_API: an item of each of these kinds, in order; at least one."""
        ...

    def vary(self, items: Items, kinds: Labels, degree: float, seed: int) -> Items:
        """VARIATION_API: a variation of each item; ``degree`` in [0, 1] of it may change."""
        ...

    def seen(self, items: Items, seed: int) -> Embeddings:
        """Items where private rows vote: (n, d) float32."""
        ...


@dataclass(frozen=True)
class Pictures:
    """Images: Private Evolution (Lin et al. 2024).

    Attributes:
        generator: Makes them and varies them.
        prompts: The prompt of each kind.
        look: Images to embeddings.
    """

    generator: Generator
    prompts: tuple[str, ...]
    look: Callable[[Images], Embeddings]

    def random(self, kinds: Labels, seed: int) -> Items:
        """Text to image."""
        return self.generator.generate(self._of(kinds), seed=seed)

    def vary(self, items: Items, kinds: Labels, degree: float, seed: int) -> Items:
        """Image to image; the degree is its strength."""
        return self.generator.vary(items, self._of(kinds), strength=degree, seed=seed)

    def seen(self, items: Items, seed: int) -> Embeddings:
        """As the encoder sees them."""
        return self.look(items)

    def _of(self, kinds: Labels) -> list[str]:
        return [self.prompts[kind] for kind in kinds]


@dataclass(frozen=True)
class Captions:
    """Captions: SPTI.

    Attributes:
        writer: Writes them and varies them.
        labels: What the writer is told of each kind; None: nothing.
        look: Captions and a seed to embeddings, of the images they make or of their text.
    """

    writer: Writer
    labels: tuple[str | None, ...]
    look: Callable[[list[str], int], Embeddings]

    def random(self, kinds: Labels, seed: int) -> Items:
        """From nothing but the class."""
        found: list[str] = [""] * len(kinds)
        for kind in np.unique(kinds):
            mine = np.flatnonzero(kinds == kind)
            texts = self.writer.write(len(mine), label=self.labels[kind], seed=seed + int(kind))
            for place, text in zip(mine, texts, strict=True):
                found[place] = _one_line(text)
        if not all(found):
            raise BackendError(f"{self.writer.name} wrote a caption without a word")
        return np.array(found, dtype=np.str_)

    def vary(self, items: Items, kinds: Labels, degree: float, seed: int) -> Items:
        """In other words, and in part about other things."""
        old = [str(text) for text in items]
        new = map(_one_line, self.writer.vary(old, degree=degree, seed=seed))
        # Votes are paid for by now: a variation without a word is none, and stops nobody.
        return np.array([b or a for a, b in zip(old, new, strict=True)], dtype=np.str_)

    def seen(self, items: Items, seed: int) -> Embeddings:
        """As images or as text."""
        return self.look([str(text) for text in items], seed)


def _one_line(text: str) -> str:
    """What a line of a table can hold: a release keeps captions as they were rendered."""
    return " ".join(text.encode("utf-8", "replace").decode("utf-8").split())


def pictures_of(materials: Materials, prompts: tuple[str, ...]) -> Pictures:
    """The alphabet of images."""
    encoder, generator = encoder_of(materials.context), generator_of(materials.context)
    return Pictures(generator, prompts, lambda images: encoder.encode(materials.fit(images)))


def captions_of(materials: Materials, labels: Sequence[str | None], *, as_text: bool) -> Captions:
    """The alphabet of captions, seen as images or, for votes of texts, as text."""
    encoder, writer = encoder_of(materials.context), materials.context.writer
    if writer is None:
        raise ConfigError("evolution of captions needs a --writer")
    if as_text:
        words = text_encoder_of(encoder)
        return Captions(writer, tuple(labels), lambda texts, _: words.encode_text(texts))
    return Captions(writer, tuple(labels), renderings_of(materials))


def renderings_of(materials: Materials) -> Callable[[list[str], int], Embeddings]:
    """Captions to embeddings of the images that they make."""
    encoder, generator = encoder_of(materials.context), generator_of(materials.context)
    return lambda texts, seed: encoder.encode(materials.fit(generator.generate(texts, seed=seed)))


def encoder_of(context: Context) -> Encoder:
    """The encoder.

    Raises:
        ConfigError: There is none.
    """
    if context.encoder is None:
        raise ConfigError("evolution compares images by an --encoder: name one")
    return context.encoder


def text_encoder_of(encoder: Encoder) -> TextEncoder:
    """The encoder, as one of texts too.

    Raises:
        ConfigError: It knows no texts.
    """
    if not isinstance(encoder, TextEncoder):
        raise ConfigError(
            f"vote=text compares captions, and {encoder.name} encodes images only: take an "
            "--encoder of both, such as embedded:studio or hf:openai/clip-vit-base-patch32"
        )
    return encoder


def generator_of(context: Context) -> Generator:
    """The generator.

    Raises:
        ConfigError: There is none.
    """
    if context.generator is None:
        raise ConfigError("evolution makes images by a --generator: name one")
    return context.generator
