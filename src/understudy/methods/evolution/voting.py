"""Who votes and in which space, and what has to fit before anybody does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.independence import row_squares
from understudy.core.ports import Captioner, TextEncoder
from understudy.core.types import Embeddings, Images, Receipt, Vector
from understudy.methods.base import UNLABELLED, Context, Materials, check_template, prompts_of
from understudy.methods.evolution.candidates import (
    Alphabet,
    captions_of,
    encoder_of,
    generator_of,
    pictures_of,
    renderings_of,
    text_encoder_of,
)
from understudy.methods.evolution.population import Nature, Population
from understudy.privacy.accounting import Gaussian, epsilon_of
from understudy.privacy.vault import Vault

CAPTIONED_AT_ONCE = 16
"""Private images in every call of a captioner: those that write take long for one."""


def check_models(
    context: Context, *, alphabet: str, vote: str, template: str, conditional: bool
) -> None:
    """Refuse models that cannot do what is asked of them.

    Raises:
        ConfigError: As said; nothing was spent.
    """
    if len(context.shape) != 3:
        raise ConfigError("evolution makes images, and this dataset holds embeddings")
    encoder, generator = encoder_of(context), generator_of(context)
    drawing = [generator] + ([context.renderer] if context.renderer is not None else [])
    if lacking := [model.name for model in drawing if "text" not in model.tasks]:
        raise ConfigError(
            f"evolution draws images from text, which {lacking[0]} cannot: take another generator"
        )
    if alphabet == "captions":
        if context.writer is None:
            raise ConfigError("evolution of captions needs a --writer, or take alphabet=images")
    else:
        _check_variation(context)
        check_template(context, template, conditional=conditional)
    if vote == "text":
        text_encoder_of(encoder)
        if context.captioner is None:
            raise ConfigError("vote=text needs a --captioner for the private images")


def _check_variation(context: Context) -> None:
    generator = generator_of(context)
    if "variation" not in generator.tasks:
        raise ConfigError(
            f"alphabet=images varies images, and {generator.name} can only do "
            f"{', '.join(sorted(generator.tasks))}: take another --generator, or alphabet=captions"
        )


def alphabet_of(materials: Materials, *, alphabet: str, vote: str, template: str) -> Alphabet:
    """What evolves."""
    phrases = materials.context.called
    if alphabet == "images":
        return pictures_of(materials, prompts_of(phrases, template))
    labels = [None if materials.classes == UNLABELLED else phrase for phrase in phrases]
    return captions_of(materials, labels, as_text=vote == "text")


def captions_embedded(captioner: Captioner, encoder: TextEncoder) -> Callable[[Images], Embeddings]:
    """Images to the embeddings of their captions."""
    return lambda images: encoder.encode_text(captioner.caption(images))


def voters_of(materials: Materials, *, vote: str, distance: str, conditional: bool) -> Vault:
    """Line 2: E_priv <- EncodeImage(D); for votes of texts, of captions made inside the vault."""
    encoder, captioner = encoder_of(materials.context), materials.context.captioner
    if vote == "text" and captioner is not None:
        look = captions_embedded(captioner, text_encoder_of(encoder))
        vault = materials.vault.map(look, batch=CAPTIONED_AT_ONCE)
    else:
        vault = materials.vault.map(encoder.encode)
    vault = vault.view(of_length_one) if distance == "cosine" else vault
    return vault if conditional else vault.unconditional()


def of_length_one(values: NDArray[np.float64]) -> Vector:
    """Rows (n, d) on the unit sphere, where L2 and cosine have the same nearest; 0 stays 0."""
    lengths = np.sqrt(row_squares(values))[:, None]
    return np.asarray(values / np.where(lengths > 0, lengths, 1.0), dtype=np.float64)


def placed(seen: Vector, distance: str, classes: int) -> Vector:
    """Candidates (n, d) where the voters are: (classes, m, d)."""
    rows = of_length_one(seen) if distance == "cosine" else seen
    return rows.reshape(classes, -1, rows.shape[1])


def spent_words(receipt: Receipt) -> str:
    """``epsilon 0.42 spent``: what the releases so far compose to."""
    events = [Gaussian(stage.mu, receipt.slack * stage.share) for stage in receipt.stages]
    return f"epsilon {epsilon_of(events, receipt.delta) if events else 0.0:.2g} spent"


def watched(nature: Nature, population: Population, number: int, *, vote: str) -> None:
    """Tell the owner how far a generation is from the private rows, if that was asked for."""
    materials = nature.materials
    if materials.watch is None:
        return
    # N of each class: the first generation has variants besides, and on more rows the Frechet
    # distance is smaller for that alone.
    items = Population(population.items[:, : nature.size], population.kinds).flat
    # Text is in the space of the encoder, but nowhere near the images of that space.
    draw = renderings_of(materials) if vote == "text" else None

    def make(part: slice, seed: int) -> dict[str, NDArray[np.float32]]:
        if draw is not None:
            return {"seen": draw([str(text) for text in items[part]], seed)}
        return {"seen": nature.alphabet.seen(items[part], seed)}

    kept = nature.in_parts(f"round {number} watched", "looking for the owner", len(items), make)
    materials.watch(f"round {number}", kept["seen"].astype(np.float32))
