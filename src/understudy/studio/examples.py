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
import scipy.cluster.vq
from numpy.typing import NDArray

from understudy.backends.embedded.photo.latent_prior import DESCRIPTIONS, read_descriptions
from understudy.backends.embedded.photo.photo_models import PRIOR, PhotoEncoder, PhotoOptions
from understudy.backends.embedded.photo.public_examples import (
    Features,
    PhotoExamples,
    scattering_coefficients,
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
_PER_CLUSTER = 150  # examples, in the mean
_NEAR = 0.9  # of examples lie within reach of another one
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
    clusters, kinds = _clustered(features, counts)
    examples = PhotoExamples(
        descriptions[sides[0]],
        features,
        clusters,
        kinds,
        tuple(sources),
        _radii(features, clusters),
        encode,
    )
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


def _blocks(images: Images) -> list[Images]:
    return [images[start : start + _BLOCK] for start in range(0, len(images), _BLOCK)]


def _described(
    images: Images, autoencoder: Path, arrays: Mapping[str, NDArray[Any]]
) -> NDArray[np.float32]:
    """Descriptions of images: (n, d)."""
    shape = (images.shape[1], images.shape[2], images.shape[3])
    encoder = PhotoEncoder(shape, PhotoOptions(folder=str(autoencoder)))
    description = Description.of_arrays(arrays, encoder.latent)
    return np.concatenate([description.forward(encoder.encode(part)) for part in _blocks(images)])


def _clustered(
    features: NDArray[np.float32], counts: Sequence[int]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The cluster of each example, and the source of each cluster; none is of two sources."""
    clusters, kinds = np.empty(len(features), dtype=np.int64), list[int]()
    stops = np.cumsum(counts)
    for kind, (stop, count) in enumerate(zip(stops, counts, strict=True)):
        rows = slice(stop - count, stop)
        number = max(1, round(count / _PER_CLUSTER))
        rng = np.random.default_rng(kind)  # as `seed`, which SciPy 1.14 knows too
        _, own = scipy.cluster.vq.kmeans2(features[rows], number, minit="++", seed=rng)
        _, own = np.unique(own, return_inverse=True)  # without those that are empty
        clusters[rows] = own + len(kinds)
        kinds += [kind] * (int(own.max()) + 1)
    return clusters, np.array(kinds)


def _radii(features: NDArray[np.float32], clusters: NDArray[np.int64]) -> NDArray[np.float32]:
    """How near most examples lie to another one of each cluster that is nearest to them."""
    squares = (features.astype(np.float64) ** 2).sum(axis=1)
    nearest, distances = np.empty(len(features), dtype=np.int64), np.empty(len(features))
    for start in range(0, len(features), _BLOCK):
        rows = np.arange(start, min(start + _BLOCK, len(features)))
        apart = squares[rows, None] + squares - 2.0 * (features[rows] @ features.T)
        apart[np.arange(len(rows)), rows] = np.inf
        nearest[rows] = apart.argmin(axis=1)
        distances[rows] = np.sqrt(np.maximum(apart.min(axis=1), 0.0))
    chosen = clusters[nearest]
    return np.array(
        [
            np.quantile(distances[chosen == cluster], _NEAR) if (chosen == cluster).any() else 0.0
            for cluster in range(clusters.max() + 1)
        ],
        dtype=np.float32,
    )
