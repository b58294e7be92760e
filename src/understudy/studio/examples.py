"""``understudy studio examples``: public images that ``embedded:photo`` can draw from.

Each becomes coarse latents, descriptions of its latents for every size of grid that the prior has
learnt, and features that tell what it shows (`understudy.backends.embedded.example_features`).
Examples of one source are clustered by their features: the clusters are what private records vote
for. Those for small grey images are made for themselves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from understudy.backends.embedded.example_features import FEATURE_COUNT, features_along_own
from understudy.backends.embedded.photo.latent_prior import DESCRIPTIONS, read_descriptions
from understudy.backends.embedded.photo.photo_examples import SMALL_GRID, write_examples
from understudy.backends.embedded.photo.photo_models import (
    PIXELS_A_PLACE,
    PRIOR,
    PhotoEncoder,
    PhotoOptions,
)
from understudy.core.errors import BackendError, ConfigError, SourceError
from understudy.core.ports import Events
from understudy.core.public_examples import Described
from understudy.core.types import Images
from understudy.data import open_source
from understudy.run.progress import ProgressMode, reporting
from understudy.steps.grid import Description

_SMALL_FEATURES = 200  # numbers of each small example, to keep their file small
_LEAST = 20  # images of a source
_SIDES = (8, 16)  # of grids: images of 33 to 64 and of 65 to 128 pixels
_SMALL_PIXELS = 28  # a side of small images, most of which have so many
_BLOCK = 256


def examples_of_sources(
    named: Sequence[str],
    autoencoder: Path,
    *,
    small: bool = False,
    progress: ProgressMode | Events = "auto",
) -> Path:
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
        file = make_examples(sources, autoencoder, small=small)
        step.finish()
    return file


def make_examples(sources: Mapping[str, str], autoencoder: Path, *, small: bool = False) -> Path:
    """Write the examples of public sources into the folder of an autoencoder's prior.

    Args:
        sources: What each shows, in a word or two, and its name.
        autoencoder: Folder of the autoencoder, with its prior.
        small: For grey images of at most 32 pixels a side, instead of those of 33 to 128.

    Returns:
        The file.

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
    wanted = (SMALL_GRID,) if small else _SIDES
    if not (sides := [side for side in wanted if side in arrays]):
        raise BackendError(
            f"the prior of {autoencoder} knows grids of {sorted(arrays)} places a side, and these "
            f"examples are made for {' and '.join(map(str, wanted))}"
        )
    channels: Literal[1, 3] = 1 if small else 3
    length = _SMALL_FEATURES if small else FEATURE_COUNT
    pixels = {side: _SMALL_PIXELS if small else side * PIXELS_A_PLACE for side in sides}
    images = {
        side: [_images(name, pixels[side], channels) for name in sources.values()] for side in sides
    }
    counts = [len(part) for part in images[sides[0]]]
    together = {side: np.concatenate(parts) for side, parts in images.items()}
    described = {
        side: _described(parts, autoencoder, arrays[side]) for side, parts in together.items()
    }
    features = features_along_own(together[sides[0]], counts, tuple(sources), length)
    descriptions = {side: one.descriptions for side, one in described.items()}
    return write_examples(autoencoder, features, described[sides[0]].latents, descriptions)


def _images(name: str, side: int, channels: Literal[1, 3]) -> Images:
    """Every image of a source: (n, side, side, channels)."""
    source = open_source(name, size=side, channels=channels)
    images = np.concatenate([batch.values for batch in source.batches(_BLOCK)])
    if len(images) < _LEAST or (images == images[0]).all():
        raise SourceError(
            f"has {len(images)} images, of which examples take {_LEAST} or more that differ", name
        )
    return images


def _described(images: Images, autoencoder: Path, arrays: Mapping[str, NDArray[Any]]) -> Described:
    """Images as they are drawn from."""
    shape = (images.shape[1], images.shape[2], images.shape[3])
    encoder = PhotoEncoder(shape, PhotoOptions(folder=str(autoencoder)))
    description = Description.of_arrays(arrays, encoder.latent)
    parts = [images[start : start + _BLOCK] for start in range(0, len(images), _BLOCK)]
    latents = np.concatenate([encoder.encode(part) for part in parts])
    return Described(latents, description.forward(latents))
