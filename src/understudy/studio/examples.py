"""``understudy studio examples``: public images that ``embedded:photo`` can draw from.

Each becomes a description of its latents, for every size of grid that the prior has learnt, and
features that tell what it shows (`understudy.backends.embedded.photo.public_examples`). Examples of
one source are clustered by their features: the clusters are what private records vote for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.backends.embedded.photo.latent_prior import DESCRIPTIONS, read_descriptions
from understudy.backends.embedded.photo.photo_models import PRIOR, PhotoEncoder, PhotoOptions
from understudy.backends.embedded.photo.public_examples import (
    Features,
    PhotoExamples,
    scattering_coefficients,
    with_clusters,
    write_examples,
)
from understudy.core.errors import BackendError, ConfigError, SourceError
from understudy.core.ports import Events
from understudy.core.types import Images
from understudy.data import open_source
from understudy.run.progress import ProgressMode, reporting
from understudy.steps.grid import Description

_FEATURES = 300  # numbers of each example
_LEAST = 20  # images of a source
_PIXELS = 8  # a side of one place of a grid
_SIDES = (8, 16)  # of grids: images of 33 to 64 and of 65 to 128 pixels
_BLOCK = 256


def examples_of_sources(
    named: Sequence[str], autoencoder: Path, *, progress: ProgressMode | Events = "auto"
) -> PhotoExamples:
    """`make_examples` of sources as they are typed, such as ``tiles=tiles/``.

    Raises:
        ConfigError: A source without a word for what it shows, or two of one word.
    """
    sources: dict[str, str] = {}
    for text in named:
        word, _, source = text.partition("=")
        if not word or not source or word in sources:
            raise ConfigError(
                f"--images {text}: say what the images show and where they are, each in a word of "
                "its own, such as --images tiles=tiles/"
            )
        sources[word] = source
    with reporting(progress) as events:
        step = events.step("describing public images")
        examples = make_examples(sources, autoencoder)
        step.finish()
    return examples


def make_examples(sources: Mapping[str, str], autoencoder: Path) -> PhotoExamples:
    """Write the examples of public sources into the folder of an autoencoder's prior.

    Args:
        sources: What each shows, in a word or two, and its name.
        autoencoder: Folder of the autoencoder, with its prior.

    Returns:
        The examples for the smallest grid.

    Raises:
        BackendError: There is no prior, or one of another autoencoder or of other sizes of grid.
        ConfigError: There is no source.
        SourceError: A source cannot be read, has too few images, or they are all alike.
    """
    if not sources:
        raise ConfigError("public examples need a source of public images")
    if not (autoencoder / PRIOR / DESCRIPTIONS).is_file():
        raise BackendError(
            f"{autoencoder} holds no prior, which draws from examples: `understudy studio train "
            "--world photographs` makes one, in the folder vae of its own"
        )
    arrays = read_descriptions(autoencoder / PRIOR, autoencoder)
    sides = [side for side in _SIDES if side in arrays]
    if not sides:
        raise BackendError(
            f"the prior of {autoencoder} knows grids of {sorted(arrays)} places a side, and "
            f"examples are made for {' and '.join(map(str, _SIDES))}"
        )
    images = {side: [_images(name, side * _PIXELS) for name in sources.values()] for side in sides}
    counts = [len(part) for part in images[sides[0]]]
    together = {side: np.concatenate(parts) for side, parts in images.items()}
    descriptions = {
        side: _described(pixels, autoencoder, arrays[side]) for side, pixels in together.items()
    }
    coefficients = scattering_coefficients(together[sides[0]])
    encode = Features.of(coefficients, _FEATURES)
    features = encode.project(coefficients)
    examples = with_clusters(descriptions[sides[0]], features, counts, tuple(sources), encode)
    write_examples(autoencoder / PRIOR, autoencoder, examples, descriptions)
    return examples


def _images(name: str, side: int) -> Images:
    """Every image of a source: (n, side, side, 3)."""
    source = open_source(name, size=side, channels=3)
    images = np.concatenate([batch.values for batch in source.batches(_BLOCK)])
    if len(images) < _LEAST or (images == images[0]).all():
        raise SourceError(
            f"has {len(images)} images, of which examples take {_LEAST} or more that differ", name
        )
    return images


def _described(
    images: Images, autoencoder: Path, arrays: Mapping[str, NDArray[Any]]
) -> NDArray[np.float32]:
    """Descriptions of images: (n, d)."""
    shape = (images.shape[1], images.shape[2], images.shape[3])
    encoder = PhotoEncoder(shape, PhotoOptions(folder=str(autoencoder)))
    description = Description.of_arrays(arrays, encoder.latent)
    parts = [images[start : start + _BLOCK] for start in range(0, len(images), _BLOCK)]
    return np.concatenate([description.forward(encoder.encode(part)) for part in parts])
