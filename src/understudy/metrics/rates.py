"""What a count of hits says about their probability (Clopper and Pearson 1934): exact bounds."""

from __future__ import annotations

from scipy import stats


def rate_at_least(hits: int, tries: int, miss: float) -> float:
    """One-sided lower bound of a probability, above the truth with probability ``miss`` at most."""
    return 0.0 if hits == 0 else float(stats.beta.ppf(miss, hits, tries - hits + 1))


def rate_at_most(hits: int, tries: int, miss: float) -> float:
    """One-sided upper bound of a probability, below the truth with probability ``miss`` at most."""
    return 1.0 if hits == tries else float(stats.beta.ppf(1 - miss, hits + 1, tries - hits))


def clopper_pearson(hits: int, tries: int, confidence: float = 0.95) -> tuple[float, float]:
    """Two-sided interval of a probability from ``hits`` in ``tries``."""
    tail = (1 - confidence) / 2
    return rate_at_least(hits, tries, tail), rate_at_most(hits, tries, tail)
