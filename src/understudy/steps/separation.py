"""Whether models know a domain: do embeddings tell classes apart, do noisy votes say anything?

All of it works on public embeddings and on released values, so it costs no privacy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.entry_points import DEFAULT_METHOD
from understudy.core.errors import listed
from understudy.core.types import Fit, Labels, Vector
from understudy.steps.row_arithmetic import evenly_spread

INSTEAD = (
    f"Consider --method {DEFAULT_METHOD}, which needs no generator; a method that starts from "
    "public images of the classes (--base FOLDER); or models that know them, such as --generator "
    "hf:MODEL"
)
"""What to do where a generator or an encoder does not know the classes."""

_MOST = 0.5  # images that are nearer to another class than to their own are then the most
_SURE = 0.05  # chance of votes as uneven as these, above which they say nothing
_MOST_COMPARED = 1024  # their inner products take eight megabytes
_SHUFFLES = 99


@dataclass(frozen=True)
class Separation:
    """How often an embedding is nearest to the mean of its own class, itself left out of it."""

    accuracy: float  # part of the embeddings
    recalls: Vector  # (classes,) part of the embeddings of each class
    chance: float  # mean accuracy with the labels shuffled
    significant: bool  # whether the labels do better than every one of the shuffles


def separation(
    embeddings: NDArray[np.floating], labels: Labels, count: int, rng: np.random.Generator
) -> Separation:
    """How well embeddings (n, d) of labels (n,) are told apart, compared with shuffled labels."""
    some = evenly_spread(len(embeddings), _MOST_COMPARED)
    values, labels = embeddings[some].astype(np.float64), labels[some]
    values = values - values.mean(axis=0)
    products = values @ values.T
    right = _nearest_means(products, labels, count) == labels
    shuffled = [rng.permutation(labels) for _ in range(_SHUFFLES)]
    by_chance = [(_nearest_means(products, other, count) == other).mean() for other in shuffled]
    sizes = np.maximum(np.bincount(labels, minlength=count), 1)
    return Separation(
        float(right.mean()),
        np.bincount(labels, weights=right, minlength=count) / sizes,
        float(np.mean(by_chance)),
        bool(right.mean() > max(by_chance)),
    )


def _nearest_means(products: Vector, labels: Labels, count: int) -> Labels:
    """The class whose mean is nearest to each embedding, (n,), by their inner products (n, n)."""
    member = np.eye(count)[labels]
    sums = products @ member
    squares = (member * sums).sum(axis=0)
    sizes, norms = member.sum(axis=0), np.diag(products)[:, None]
    others = np.maximum(sizes - member, 1)  # embeddings of each class, this one left out
    inner = (sums - member * norms) / others
    square = (squares - member * (2 * sums - norms)) / others**2
    distances = square - 2 * inner
    distances[np.broadcast_to(sizes - member < 1, distances.shape)] = np.inf
    return np.asarray(distances.argmin(axis=1))


def vote_spread(votes: Vector, sd: float) -> tuple[float, float]:
    """How votes (classes, m) are spread over the candidates, under noise of ``sd`` in each.

    Returns the number of candidates of a class that would share its votes alike (of the same
    collision probability, the noise taken off), in the mean; and the probability of votes as uneven
    as these if each fell on any candidate alike. Then they have the variance of a multinomial,
    total / m each, and noise its own: squared differences from the mean follow chi squared.
    """
    classes, size = votes.shape
    totals = np.maximum(votes.sum(axis=1), 0.0)
    apart = ((votes - votes.mean(axis=1, keepdims=True)) ** 2).sum(axis=1)
    expected = np.maximum(sd**2 + totals / size, 1e-300)
    chance = scipy.special.chdtrc(max(classes * (size - 1), 1), float((apart / expected).sum()))
    squares = np.maximum((votes**2).sum(axis=1) - size * sd**2, 1e-300)
    effective = np.clip(totals**2 / squares, 1, size)
    return float(effective.mean()), float(chance)


def separation_fit(
    embeddings: NDArray[np.floating], labels: Labels, names: Sequence[str]
) -> Fit | None:
    """How well the encoder tells public images (n, d) of the named classes apart.

    None where there are fewer than two classes, or two images of one, or one prompt draws all.
    """
    if len(names) < 2 or np.bincount(labels, minlength=len(names)).min() < 2:
        return None
    result = separation(embeddings, labels, len(names), np.random.default_rng(0))
    warning = None
    if not result.significant or result.accuracy < _MOST:
        order = np.argsort(result.recalls, kind="stable")
        worst = [names[i] for i in order if result.recalls[i] <= _MOST] or [names[order[0]]]
        few = "are too few to tell, " if result.accuracy >= _MOST else ""
        warning = (
            f"the encoder sees {result.accuracy:.0%} of the images that stand for a class nearest "
            f"to that class ({result.chance:.0%} would be chance), fewest of {listed(worst)}: they "
            f"{few}show the classes alike, or the encoder does not know what sets them apart. "
            f"{INSTEAD}"
        )
    return Fit(
        "images of the classes nearest to their own class, as the encoder sees them",
        round(result.accuracy, 4),
        round(result.chance, 4),
        "public",
        warning,
    )


def vote_fit(votes: Vector, sd: float) -> Fit:
    """What the first noisy votes (classes, m) say of the candidates. Post-processing: free."""
    (effective, chance), size = vote_spread(votes, sd), votes.shape[1]
    warning = None
    if chance > _SURE:
        warning = (
            f"the votes of round 1 cannot be told from votes that fall anywhere, under noise of "
            f"{sd:.3g} votes on each of {votes.size} candidates: all candidates are as far from "
            "the private images, or there are too many of them for this budget. Consider a smaller "
            f"population and fewer rounds, or more epsilon. {INSTEAD}"
        )
    return Fit(
        f"effective number of candidates of a class, of {size}, by the votes of round 1",
        round(effective, 2),
        float(size),
        "DP",
        warning,
    )
