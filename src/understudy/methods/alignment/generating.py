"""A base set that a generator draws from a template: Base Dataset Generation."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Embeddings
from understudy.methods.alignment.base_set import AT_ONCE, Base, embedded, joined
from understudy.methods.base import Materials, prompts_of


def generated(
    materials: Materials, sizes: NDArray[np.int64], template: str, name: str, *, conditional: bool
) -> Base:
    """Base Dataset Generation (section 3.2): pictures from a template, drawn and embedded.

    What was drawn is kept with the run a part at a time, so a resumed run draws none of it again.

    Args:
        materials: The generator, the encoders and the phrases.
        sizes: (phrases,) how many of each phrase.
        template: The prompt.
        name: A name for these rows; another name gives other pictures.
        conditional: Whether rows keep their class.
    """
    words = prompts_of(materials.context.called, template)
    prompts = np.repeat(np.arange(len(words)), sizes)
    # All classes advance together, so that a look at the first pictures shows each of them.
    prompts = materials.rng_of(name).permutation(prompts)
    bar = materials.progress("drawing the base set", len(prompts))
    parts = []
    for number, start in enumerate(range(0, len(prompts), AT_ONCE)):
        asked = [words[index] for index in prompts[start : start + AT_ONCE]]
        parts.append(_drawn(materials, asked, f"{name} {number:05d}"))
        bar(len(asked))
    labels = prompts if conditional else np.zeros_like(prompts)
    rows, cues = joined(materials.context, parts)
    return Base(rows, labels.astype(np.int64), prompts.astype(np.int64), words, cues)


def _drawn(materials: Materials, prompts: list[str], name: str) -> dict[str, Embeddings]:
    generator = materials.context.generator
    if generator is None:
        raise ConfigError("a base set needs --generator, or --base with public pictures")

    def make() -> dict[str, NDArray[Any]]:
        images = materials.fit(generator.generate(prompts, seed=materials.seed_of(name)))
        return embedded(materials.context, images)

    return dict(materials.keep(name, make))
