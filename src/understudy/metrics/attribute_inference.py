"""Attribute inference: does the release reveal an attribute of a record whose rest is known?

The attacker knows the embedding of a record (its image, or all of it but one column) and wants
one attribute: its class, or a column. It is learnt from the release. What is right of records that
were held out is knowledge of the population, which is what the release is for; what is right beyond
that of private records is a leak (the view of Yeom et al. 2018, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Interval, Metric
from understudy.core.types import Labels
from understudy.metrics.nearest_neighbours import clouds, nearest_rows
from understudy.metrics.roc import clopper_pearson

How = Literal["neighbours", "network"]


INFERRED = Metric(
    key="attribute_inference",
    group="attack",
    name="attribute inference of the class: private rows",
    explanation="How often the class of a private row is inferred from the rest of it with the "
    "release's help. What works as well on held-out rows is knowledge of the population, not of a "
    "person.",
    better="lower",
    unit="%",
    baseline="held-out real rows",
)

INFERRED_MORE = Metric(
    key="attribute_inference_above_held_out",
    group="attack",
    name="attribute inference of the class: more than of held-out rows",
    explanation="How much more often the class of a private row is inferred than that of a "
    "held-out row: the leak. 0: none.",
    better="lower",
    unit="%",
    baseline="0",
)


@dataclass(frozen=True, slots=True)
class AttributeInference:
    """How often the attacker is right. Owner-only.

    Attributes:
        private: Part of the private records whose secret was found, with an exact interval.
        held_out: The same of real records that were not in the private data.
        leakage: private - held_out; 0 where the release gives away the population only.
        guess: What always saying the private records' commonest value gets: no knowledge at all.
        values: How many values the secret has.
        how: How the attacker learnt.
    """

    private: Interval
    held_out: Interval
    leakage: Interval
    guess: float
    values: int
    how: How


def infer_attribute(
    release: tuple[NDArray[Any], Labels],
    private: tuple[NDArray[Any], Labels],
    held_out: tuple[NDArray[Any], Labels],
    *,
    how: How = "neighbours",
    k: int = 1,
    seed: int = 0,
    confidence: float = 0.95,
) -> AttributeInference:
    """Learn a secret from a release, and guess it for private and for held-out records.

    Args:
        release: (m, d) what the attacker knows of each synthetic row, and (m,) its secret, counted
            from 0.
        private: The same of the private records.
        held_out: The same of real records drawn like them that were not in the private data.
        how: ``"neighbours"``, a vote of the nearest synthetic rows, which finds copies; or
            ``"network"``, the two-layer network, which generalises (needs torch).
        k: How many neighbours vote; a tie goes to the value of the nearest row.
        seed: Of the network's training.
        confidence: Of the intervals.

    Raises:
        InputError: Rows and secrets that do not fit, or a bad option.
        MissingExtra: The network without torch.
    """
    sets = (release, private, held_out)
    values = _check(sets, how, k)
    if how == "neighbours":
        guesses = _voted(sets, k, values)
    else:
        from understudy.metrics.networks.classifier_training import train_on_embeddings

        known, *asked = (np.asarray(rows, dtype=np.float32) for rows, _ in sets)
        model = train_on_embeddings(known, release[1], classes=values, seed=seed)
        guesses = [model.predict(rows) for rows in asked]
    truths = (private[1], held_out[1])
    counts = [(int((a == b).sum()), len(b)) for a, b in zip(guesses, truths, strict=True)]
    sides = [Interval(hits / n, *clopper_pearson(hits, n, confidence)) for hits, n in counts]
    return AttributeInference(
        private=sides[0],
        held_out=sides[1],
        leakage=difference(counts[0], counts[1], confidence),
        guess=float(np.bincount(private[1]).max() / len(private[1])),
        values=values,
        how=how,
    )


def difference(one: tuple[int, int], two: tuple[int, int], confidence: float = 0.95) -> Interval:
    """Difference of two probabilities by (hits, tries) of each: Newcombe's interval (1998).

    His method 10, from Wilson's intervals of the two.
    """
    (first, low, high), (second, bottom, top) = (_wilson(*each, confidence) for each in (one, two))
    apart = first - second
    return Interval(
        apart,
        apart - float(np.hypot(first - low, top - second)),
        apart + float(np.hypot(high - first, second - bottom)),
    )


def _wilson(hits: int, tries: int, confidence: float) -> tuple[float, float, float]:
    interval = scipy.stats.binomtest(hits, tries).proportion_ci(confidence, method="wilson")
    return hits / tries, float(interval.low), float(interval.high)


def _voted(sets: tuple[tuple[NDArray[Any], Labels], ...], k: int, values: int) -> list[Labels]:
    """The commonest secret among the k nearest synthetic rows, the nearest's where they tie."""
    rows, *asked = clouds(*(each for each, _ in sets))
    secrets = sets[0][1]
    guesses = []
    for each in asked:
        near = secrets[nearest_rows(each, rows, k)[0]]
        votes = np.zeros((len(near), values))
        for at in range(k):  # nearer rows weigh a little more, too little to outvote anybody
            votes[np.arange(len(near)), near[:, at]] += 1 + 0.5 ** (at + 1) / (k + 1)
        guesses.append(np.asarray(votes.argmax(axis=1), dtype=np.int64))
    return guesses


def _check(sets: tuple[tuple[NDArray[Any], Labels], ...], how: str, k: int) -> int:
    """How many values the secret has."""
    if how not in ("neighbours", "network"):
        raise InputError(f"how is neighbours or network, found {how!r}")
    for rows, secrets in sets:
        if rows.ndim != 2 or not len(rows) or secrets.shape != (len(rows),) or secrets.min() < 0:
            raise InputError(
                "each side needs (n, d) rows and a secret for each, counted from 0; found rows "
                f"{rows.shape} and secrets {secrets.shape}"
            )
    if not 1 <= k <= len(sets[0][0]):
        raise InputError(f"k must be 1 to {len(sets[0][0])}, the rows of the release, found {k}")
    return 1 + max(int(secrets.max()) for _, secrets in sets)
