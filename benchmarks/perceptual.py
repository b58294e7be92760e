"""How different two images look: LPIPS by a network that ships with the project.

The feature maps are those of the encoder of the studio's autoencoder at half, a quarter and an
eighth of 64 pixels, and every channel weighs the same: the distance of Zhang et al. (2018) without
their trained weights, which are not shipped. The autoencoder learnt drawn rooms, so figures are for
comparison with each other and not with those of other people's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.tables import CACHE
from understudy.backends.arrays import fit_images, index_slices
from understudy.backends.registry import load_model
from understudy.core.ports import Tuner
from understudy.core.types import Images, Vector

SHAPE = (64, 64, 3)

_AT_ONCE = 128
_TINY = 1e-10


@cache
def _layers() -> list[Any]:
    tuner: Any = load_model(Tuner, "embedded:studio")
    return list(tuner._text.vae.encoder.layers)


@torch.no_grad()
def feature_maps(images: Images) -> list[NDArray[np.float32]]:
    """Images of any size to maps (n, 48, s, s) for s of 32, 16 and 8.

    What `understudy.metrics.perceptual_distance.lpips` takes for a network.
    """
    pixels = fit_images(images, SHAPE)
    values = torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255
    layers, maps = _layers(), []
    for layer in layers[:-1]:
        halves = getattr(layer, "stride", (1, 1)) == (2, 2)
        if halves and values.shape[-1] < SHAPE[0]:
            maps.append(values.numpy())
        values = layer(values)
    return [*maps, values.numpy()]


def look_embeddings(images: Images) -> NDArray[np.float32]:
    """(n, d) whose squared Euclidean distances are LPIPS with all weights 1.

    The features of unit length at each place, divided by the root of the number of places: then the
    sum of squared differences is the mean over places, summed over layers.
    """
    parts = []
    for rows in index_slices(len(images), _AT_ONCE):
        columns = []
        for maps in feature_maps(images[rows]):
            lengths = np.sqrt((maps**2).sum(axis=1, keepdims=True)) + _TINY
            places = maps.shape[2] * maps.shape[3]
            columns.append((maps / (lengths * np.sqrt(places))).reshape(len(maps), -1))
        parts.append(np.concatenate(columns, axis=1))
    return np.concatenate(parts)


def looks_among(images: Images) -> Vector:
    """LPIPS of all pairs: (n, n)."""
    embeddings = look_embeddings(images)
    return _squares(embeddings, embeddings)


def looks_to_nearest(images: Images, others: NDArray[np.float32]) -> Vector:
    """LPIPS of each image to the one that looks most like it: (n,)."""
    parts = [
        _squares(look_embeddings(images[rows]), others).min(axis=1)
        for rows in index_slices(len(images), _AT_ONCE)
    ]
    return np.concatenate(parts)


def _squares(a: NDArray[np.float32], b: NDArray[np.float32]) -> Vector:
    lengths = [(one.astype(np.float64) ** 2).sum(axis=1) for one in (a, b)]
    return np.maximum(lengths[0][:, None] + lengths[1] - 2.0 * (a @ b.T), 0.0)


def kept_looks(name: str, blocks: Callable[[], Iterator[Images]], private: Images) -> Vector:
    """`looks_to_nearest` of blocks of images to private ones, computed once and kept on disk."""
    file = CACHE / f"looks-{name}.npy"
    if file.is_file():
        return np.asarray(np.load(file, allow_pickle=False), dtype=np.float64)
    others = look_embeddings(private)
    values = np.concatenate([looks_to_nearest(block, others) for block in blocks()])
    CACHE.mkdir(parents=True, exist_ok=True)
    np.save(file, values)
    return values
