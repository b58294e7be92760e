"""LPIPS: how different two images look, by the features of a network (Zhang et al. 2018).

Its networks and weights are other people's and come from a file: see `backends.perceptual`. All
pairs are too many for it; it is for the nearest pairs that a cheaper distance has found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load_file

from understudy.core.errors import InputError
from understudy.core.results import Metric
from understudy.core.types import Images, Vector

FeatureMaps = Callable[[Images], Sequence[NDArray[np.float32]]]
"""Images to the feature maps of some layers: a sequence of (n, channels, height, width)."""

PairDistance = Callable[[Images, Images], Vector]
"""Pairs of images, two arrays of one shape, to a distance for each: (n,)."""

_TINY = 1e-10


PERCEPTUAL_DISTANCE = Metric(
    key="perceptual_distance",
    group="leakage",
    name="perceptual distance, mean of the {subject} pairs that stand out most",
    explanation="Distance between images as people judge it, by a trained network (LPIPS).",
    better="higher",
    baseline="as many pairs of held-out rows",
)


def lpips(features: FeatureMaps, weights: Sequence[NDArray[Any]], a: Images, b: Images) -> Vector:
    """The distance of each pair: (n,), not below 0, 0 for the same image.

    Eq. 1: features of unit length at each place, squared differences weighted by channel, averaged
    over the places, summed over the layers.

    Args:
        features: The network: every call gives the maps of the same layers.
        weights: For each layer, (channels,) not below 0.
        a: (n, height, width, channels) uint8.
        b: The same shape.

    Raises:
        InputError: Other shapes, or weights that do not fit the layers.
    """
    if a.shape != b.shape:
        raise InputError(f"pairs of images have one shape, found {a.shape} and {b.shape}")
    layers = [list(features(each)) for each in (a, b)]
    layer_channels = [one.shape[1] for one in layers[0]]
    weight_channels = [len(one) for one in weights]
    if layer_channels != weight_channels:
        raise InputError(
            f"the network's layers have {layer_channels} channels, the weights are for "
            f"{weight_channels}"
        )
    total = np.zeros(len(a))
    for one, two, weight in zip(*layers, weights, strict=True):
        apart = (_unit(one) - _unit(two)) ** 2
        total += np.einsum("nchw,c->nhw", apart, weight).mean(axis=(1, 2))
    return total


def nearest_pair_distances(
    distance: PairDistance,
    samples: Images,
    private: Images,
    nearest: NDArray[np.int64],
    *,
    block: int = 256,
) -> Vector:
    """How far each sample is from the private image that looks most like it: (n,).

    All pairs are too many for a network: only the private images that a cheaper distance names for
    each sample are compared with it.

    Args:
        distance: Pairs of images to a distance each; `lpips` with a network and its weights, say.
        samples: (n, height, width, channels) uint8.
        private: (p, ...) of the same shape.
        nearest: (n, k) rows of ``private``, such as `nearest_neighbours.nearest_rows` gives.
        block: Samples that are compared together.

    Raises:
        InputError: Other shapes, or not one row of neighbours for each sample.
    """
    if nearest.ndim != 2 or len(nearest) != len(samples) or nearest.shape[1] == 0:
        raise InputError(
            f"each of {len(samples)} samples needs one private row or more to compare, found "
            f"{nearest.shape}"
        )
    least = np.full(len(samples), np.inf)
    for start in range(0, len(samples), block):
        part = slice(start, start + block)
        for rows in nearest[part].T:
            least[part] = np.minimum(least[part], distance(samples[part], private[rows]))
    return least


def _unit(maps: NDArray[Any]) -> Vector:
    values = maps.astype(np.float64)
    norms = np.sqrt((values**2).sum(axis=1, keepdims=True))
    return np.asarray(values / (norms + _TINY))


def read_weights(path: str | Path) -> tuple[Vector, ...]:
    """Weights of the layers of LPIPS from a ``.safetensors`` or ``.npz`` file, by their names.

    The authors' own ``.pth`` files are pickles, which run code when they are read: convert them
    once, in a place where that does no harm (``numpy.savez(file, lin0=..., lin1=...)``).

    Args:
        path: One array a layer, named so that their order is the layers': ``lin0``, ``lin1`` ...
            Any shape with one axis longer than 1.

    Raises:
        InputError: Another kind of file, or weights that are negative or no vectors.
    """
    file = Path(path)
    if file.suffix not in (".safetensors", ".npz"):
        raise InputError(
            f"{file}: weights of LPIPS are read from .safetensors or .npz; a .pth file is a pickle "
            "and could run anything: convert it first"
        )
    try:
        if file.suffix == ".npz":
            with np.load(file, allow_pickle=False) as opened:
                arrays = dict(opened)
        else:
            arrays = load_file(file)
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(f"{file}: cannot be read as weights ({error})") from error
    weights = tuple(np.ravel(arrays[name]).astype(np.float64) for name in sorted(arrays))
    if not weights or any(
        not len(one) or max(array.shape) != array.size or not (one >= 0).all()
        for one, array in zip(weights, (arrays[name] for name in sorted(arrays)), strict=True)
    ):
        raise InputError(
            f"{file}: a layer's weights are one vector, not below 0, one or more layers"
        )
    return weights
