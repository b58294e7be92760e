"""Are there more near-copies in a release than chance explains? Counts, and how sure they are."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from understudy.core.errors import InputError
from understudy.core.results import Metric
from understudy.core.types import Labels
from understudy.metrics.leakage import Closeness

_TAILS = (0.0, 0.001, 0.01)
"""Parts of the held-out records that may lie below a threshold: none, one in 1,000, one in 100."""

_TIMES = 2.0
"""Near-copies are at least so many times as frequent as chance makes them."""


FALSE_ALARMS = 0.01
"""How likely a release without copies is to be accused of near-copies; and of exact ones."""

EXACT_COPIES = Metric(
    key="exact_copies",
    group="leakage",
    name="exact copies",
    explanation="Part of the synthetic images that equal a private one, pixel for pixel.",
    better="lower",
    unit="%",
    baseline="chance: held-out real records",
)

HELD_OUT_COPIES = Metric(
    key="exact_copies_of_held_out",
    group="leakage",
    name="exact copies of held-out records",
    explanation="Part of the synthetic images that equal a held-out one. Such a held-out record is "
    "a private record too: the test set is not apart.",
    better="lower",
    unit="%",
)

NEAR_COPIES = Metric(
    key="near_copies",
    group="leakage",
    name="near-copies",
    explanation="Synthetic images far nearer to one private record than to any other, more often "
    "than held-out records are and than private records are to one another.",
    better="lower",
    unit="%",
    baseline="chance: held-out real records",
)


@dataclass(frozen=True, slots=True)
class Excess:
    """Something counted in a release and in what chance alone gives.

    Attributes:
        hits: How often in the release.
        rows: Rows of the release.
        chance_hits: How often where no private record can be the cause.
        chance_rows: Rows looked at there.
        p_value: How likely so many hits or more are where both have one probability.
    """

    hits: int
    rows: int
    chance_hits: int
    chance_rows: int
    p_value: float

    @property
    def rate(self) -> float:
        """Part of the release."""
        return self.hits / self.rows

    @property
    def chance(self) -> float:
        """Part of the rows that chance is measured on."""
        return self.chance_hits / self.chance_rows


def excess(hits: int, rows: int, chance_hits: int, chance_rows: int) -> Excess:
    """Compare two counts by Fisher's exact test, one-sided.

    Raises:
        InputError: No rows, or more hits than rows.
    """
    if not (0 <= hits <= rows and 0 <= chance_hits <= chance_rows and rows and chance_rows):
        raise InputError(
            f"expected hits among rows, found {hits} of {rows} and {chance_hits} of {chance_rows}"
        )
    every = rows + chance_rows
    p = float(scipy.stats.hypergeom.sf(hits - 1, every, rows, hits + chance_hits))
    return Excess(hits, rows, chance_hits, chance_rows, min(1.0, p))


@dataclass(frozen=True, slots=True)
class NearCopies:
    """Rows that come nearer to one private record than chance explains.

    Attributes:
        rows: Which of the release; empty where `sure` is False.
        expected: How many chance gives.
        sure: Whether so many are rarer by chance than the false-alarm rate that was asked for, in
            both comparisons and at some threshold.
        least: The fewest that would be sure, even if chance gave none at all.
    """

    rows: Labels
    expected: float
    sure: bool
    least: int

    @property
    def count(self) -> int:
        """How many rows."""
        return len(self.rows)


def near_copies(closeness: Closeness, *, false_alarms: float) -> NearCopies:
    """Look for rows whose nearest private record is far nearer than the second nearest (NNDR).

    A copy, changed a little or not, lies beside one private record: its ratio is near 0, wherever
    among the images it lies and however blurred all of the release is. What ratio is small is
    said by three sets in which no private record can have been copied: held-out records, with their
    ratios to the private ones; private records, with their ratios to the other private ones; and
    the release itself, with its ratios to the held-out ones. Near-twins in the data lower the
    first, or the second where held-out records are of another origin than the private records; an
    unlike release lowers the third. Only what is more frequent than in all three counts. Hits of
    the release are the private records that are lain beside, not the rows that lie there: many
    samples that are all alike are one witness.

    The thresholds are the smallest ratio of held-out records and half of it, and those that 0.1 %
    and 1 % of them lie below; or those of private records among themselves, where they are smaller.
    If the release is drawn like them, the number of its rows below the (j + 1)-th of them is
    hypergeometric (a precedence test), and below half of it smaller; p-values are multiplied by
    the number of thresholds.
    """
    within = closeness.within
    usual = (closeness.baseline_ratios, within.ratios, closeness.held_out_ratios)
    sure, most = [], 0.0
    thresholds = [
        min(float(np.sort(ratios)[int(tail * len(ratios))]) for ratios in usual[:2])
        for tail in _TAILS
    ]
    thresholds.append(thresholds[0] / 2)
    fewest = min(map(len, usual[:2]))
    least = _least_hits(len(closeness.ratios), fewest, false_alarms / len(thresholds))
    for threshold in thresholds:
        rows = np.flatnonzero(closeness.ratios < threshold)
        hits = len(np.unique(closeness.nearest[rows]))
        tests = [
            excess(hits, len(closeness.ratios), int((ratios < threshold).sum()), len(ratios))
            for ratios in usual
        ]
        p = len(thresholds) * max(one.p_value for one in tests)
        expected = max(one.chance for one in tests) * len(closeness.ratios)
        most = max(most, expected)
        if p < false_alarms and all(one.rate >= _TIMES * one.chance for one in tests):
            sure.append(NearCopies(rows, expected, True, least))
    nothing = NearCopies(np.zeros(0, dtype=np.int64), most, False, least)
    return max(sure, key=lambda each: each.count - each.expected, default=nothing)


def _least_hits(rows: int, chance_rows: int, p_value: float) -> int:
    """The fewest hits in so many rows, beside none where chance is measured, that are as unlikely.

    Of h hits, all in ``rows``, the probability is C(rows, h) / C(rows + chance_rows, h).
    """
    hits = np.arange(1, rows + 1)
    p = scipy.stats.hypergeom.sf(hits - 1, rows + chance_rows, rows, hits)
    return 1 + int((p >= p_value).sum())
