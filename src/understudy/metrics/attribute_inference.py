"""Attribute inference: does the release reveal an attribute of a record whose rest is known?

The attacker knows the embedding of a record (its image, or all of it but one column) and wants
one attribute: its class, or a column. It is learnt from the release. What is right of records that
were held out is knowledge of the population, which is what the release is for; what is right beyond
that of private records is a leak (the view of Yeom et al. 2018, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Interval, Metric
from understudy.core.types import Labels
from understudy.metrics.nearest_neighbours import clouds, nearest_rows
from understudy.metrics.roc import clopper_pearson

INFERRED = Metric(
    key="attribute_inference",
    group="attack",
    name="attribute inference of the class: private records",
    explanation="How often the class of a private record is inferred from the rest of it with the "
    "release's help. What works as well on held-out records is knowledge of the population, not of "
    "a person.",
    better="lower",
    unit="%",
    baseline="held-out real records",
)

INFERRED_MORE = Metric(
    key="attribute_inference_above_held_out",
    group="attack",
    name="attribute inference of the class: more than of held-out records",
    explanation="How much more often the class of a private record is inferred than that of a "
    "held-out record: the leak. 0: none.",
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
    """

    private: Interval
    held_out: Interval
    leakage: Interval


def infer_attribute(
    release: tuple[NDArray[Any], Labels],
    private: tuple[NDArray[Any], Labels],
    held_out: tuple[NDArray[Any], Labels],
) -> AttributeInference:
    """Guess a secret of private and of held-out records as that of the nearest row of a release.

    Args:
        release: (m, d) what the attacker knows of each sample, and (m,) its secret, counted
            from 0.
        private: The same of the private records.
        held_out: The same of real records drawn like them that were not in the private data.

    Raises:
        InputError: Rows and secrets that do not fit.
    """
    sets = (release, private, held_out)
    _check(sets)
    rows, *queries = clouds(*(each for each, _ in sets))
    guesses = [release[1][nearest_rows(each, rows)[0][:, 0]] for each in queries]
    truths = (private[1], held_out[1])
    counts = [(int((a == b).sum()), len(b)) for a, b in zip(guesses, truths, strict=True)]
    sides = [Interval(hits / n, *clopper_pearson(hits, n)) for hits, n in counts]
    return AttributeInference(
        private=sides[0], held_out=sides[1], leakage=difference(counts[0], counts[1])
    )


def difference(one: tuple[int, int], two: tuple[int, int]) -> Interval:
    """Difference of two probabilities by (hits, tries) of each: Newcombe's interval (1998).

    His method 10, from Wilson's intervals of the two.
    """
    first, second = (wilson(*each) for each in (one, two))
    apart = first.value - second.value
    return Interval(
        apart,
        apart - float(np.hypot(first.value - first.low, second.high - second.value)),
        apart + float(np.hypot(first.high - first.value, second.value - second.low)),
    )


def wilson(hits: int, tries: int) -> Interval:
    """A probability by hits in tries, with Wilson's interval (95 %)."""
    ends = scipy.stats.binomtest(hits, tries).proportion_ci(0.95, method="wilson")
    return Interval(hits / tries, float(ends.low), float(ends.high))


def _check(sets: tuple[tuple[NDArray[Any], Labels], ...]) -> None:
    for rows, secrets in sets:
        if rows.ndim != 2 or not len(rows) or secrets.shape != (len(rows),) or secrets.min() < 0:
            raise InputError(
                "each side needs (n, d) rows and a secret for each, counted from 0; found rows "
                f"{rows.shape} and secrets {secrets.shape}"
            )
