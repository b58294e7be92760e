"""The public examples of a run: the images that are given, or those that its generator brings."""

from __future__ import annotations

import math

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.ports import Source
from understudy.core.public_examples import Described, ExampleGenerator, PublicExamples
from understudy.core.types import Embeddings, Images
from understudy.methods.base import PROCEDURAL, Context, Materials
from understudy.methods.clustering.embedding_space import PUBLIC_SAMPLES, public_batches
from understudy.steps.grid import PriorSpace

FEWEST_EXAMPLES = 20
"""That samples of a class are drawn from, at least, and that a public dataset has."""

_BYTES = 1 << 28  # of public images that are looked at, at most


def examples_of(context: Context) -> PublicExamples | None:
    """The examples that a run's generator of them brings; None where there are none."""
    return None if context.examples is None else context.examples.known(context.shape)


def examples_for(materials: Materials, generator: ExampleGenerator) -> PublicExamples:
    """The examples of a run: the public images that are given, or those of its generator.

    The latter where very few are given.

    Raises:
        ConfigError: There are neither.
    """
    public = given_images(materials.public)
    given = None if public is None else _given_examples(materials, generator, public)
    examples = generator.known(materials.shape) if given is None else given
    if examples is None:
        raise ConfigError("this run was to draw like public examples, and there are too few")
    return examples


def _given_examples(
    materials: Materials, generator: ExampleGenerator, public: Source
) -> PublicExamples | None:
    """Public images as examples; None where there are very few."""
    described = generator.describes(materials.shape)
    most = min(PUBLIC_SAMPLES, _BYTES // math.prod(materials.shape))
    images: list[Images] = []
    latents: list[Embeddings] = []
    for values in public_batches(materials, public, "describing public images", most):
        images.append(values)
        if described is not None:
            latents.append(described.encoder.encode(values))
    if sum(map(len, images)) < FEWEST_EXAMPLES:
        return None
    if described is None:
        return generator.like(np.concatenate(images), None)
    space = PriorSpace.of(described.decoder, described.encoder.latent)
    together = np.concatenate(latents)
    return generator.like(np.concatenate(images), Described(together, space.forward(together)))


def given_images(public: Source | None) -> Source | None:
    """A public dataset whose images may be examples; images that the program draws are none."""
    drawn = public is not None and public.name.startswith(PROCEDURAL)
    return None if drawn else public
