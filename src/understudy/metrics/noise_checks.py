"""Is the noise of many releases what it is stated to be: as large, drawn anew, uncorrelated?"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Interval, Metric
from understudy.core.types import Vector

_PER_STAGE = 40_000  # numbers of a stage that are compared: more than two chunks of the sampler
_IN_ALL = 200_000  # of all runs: among so many, hundreds are equal by chance alone


_CHECKS = 5  # each stage by itself, repeats and three correlations
_SHARE = 0.1  # of what the confidence leaves: such faults show by far more than chance


NOISE_RATIO = Metric(
    key="noise_ratio",
    group="audit",
    name="noise over stated noise",
    explanation="Standard deviation of the noise over the stated one. 1: as stated.",
    better="higher",
)

NOISE_REPEATS = Metric(
    key="noise_repeats",
    group="audit",
    name="pairs of equal noise values",
    explanation="How often two noise values that should be independent are equal.",
    better="lower",
    baseline="what independent noise comes to",
)

NOISE_CORRELATION = Metric(
    key="noise_correlation",
    group="audit",
    name="correlation of the noise {subject}",
    explanation="Whether one noise value says anything about another. 0: it does not.",
)


def shared_confidence(confidence: float, claims: int, records: int = 1) -> tuple[float, float]:
    """What a confidence of everything together leaves for each part of it.

    Args:
        confidence: That nothing is refuted that holds.
        claims: Bounds and scales of noise that are judged.
        records: Records of noise (`NoiseRecord`) that are.

    Returns:
        The confidence of each claim; and the probability that one of the other checks of a record
        finds something where there is nothing.
    """
    left = 1 - confidence
    return 1 - (1 - _SHARE) * left / claims, _SHARE * left / (_CHECKS * records)


@dataclass(frozen=True, slots=True)
class StageNoise:
    """What is left of a stage's answer when the exact sum is taken away.

    Attributes:
        steps: (n,) int64, the noise in grid steps.
        scaled: (n,) the same in stated standard deviations.
    """

    steps: NDArray[np.int64]
    scaled: Vector

    @property
    def squares(self) -> float:
        """Sum of the squares, in stated variances."""
        return float(self.scaled @ self.scaled)


@dataclass
class Correlation:
    """Of pairs of numbers, the later of which was to be drawn without regard to the earlier."""

    products: float = 0.0
    squares: float = 0.0
    pairs: int = 0

    def add(self, earlier: Vector, later: Vector) -> None:
        """Pairs of as many numbers as both have."""
        count = min(len(earlier), len(later))
        earlier, later = earlier[:count], later[:count]
        self.products += float(earlier @ later)
        self.squares += float(earlier @ earlier)
        self.pairs += count

    def interval(self, variance: float, miss: float) -> Interval:
        """The regression of the later numbers on the earlier ones, with an interval.

        Drawn anew with a standard deviation of 1 at most, each product has variance e^2 given the
        earlier number e, so exp(t S - t^2 V / 2) is a supermartingale for every t, with S the
        products' sum and V that of the e^2. Mixed over t from N(0, 1 / n) (Robbins 1970):

            |S| < sqrt((V + n) log((V + n) / (n miss^2)))   but with probability ``miss``

        for any numbers of pairs, and of stages that share a number.

        Args:
            variance: Of the numbers, where it is above the stated 1.
            miss: Probability that the interval leaves out 0 although they are independent.
        """
        if self.pairs == 0 or self.squares == 0:
            return Interval(0.0, -math.inf, math.inf)
        total = self.squares / variance
        whole = total + self.pairs
        margin = math.sqrt(whole * math.log(whole / (self.pairs * miss * miss))) / total
        slope = self.products / variance / total
        return Interval(slope, slope - margin, slope + margin)


@dataclass(frozen=True)
class NoiseFindings:
    """What the noise of many runs looks like.

    Attributes:
        ratio: Its standard deviation over the stated one.
        repeats: Pairs of equal numbers among those that were compared.
        expected: How many there are by chance, at most.
        repeated: Whether there are more than chance explains.
        correlations: ``"within a stage"``, ``"of a stage with the next"`` and ``"of a run with the
            next"``.
        stages: `ratio` of each of several stages: half the noise of a few numbers hides in all.
    """

    ratio: Interval
    repeats: int
    expected: float
    repeated: bool
    correlations: Mapping[str, Interval]
    stages: Mapping[str, Interval]

    @property
    def faults(self) -> list[str]:
        """What is wrong with it, a clause each; none where it is as stated."""
        faults = []
        if self.ratio.high < 1 or self.ratio.low > 1:
            faults.append(f"the noise is {self.ratio.value:.3g} times what is stated")
        else:
            faults += [
                f"the noise of stage {name!r} is {ratio.value:.3g} times what is stated"
                for name, ratio in self.stages.items()
                if ratio.high < 1 or ratio.low > 1
            ]
        if self.repeated:
            faults.append(f"{self.repeats:,} pairs of noise values are the same (by chance: "
                         f"{self.expected:.2g})")  # fmt: skip
        for where, interval in self.correlations.items():
            if interval.low > 0 or interval.high < 0:
                faults.append(f"the noise is correlated {where} ({interval.value:.2g})")
        return faults


@dataclass
class NoiseRecord:
    """The noise of runs, added up one run after the other.

    Attributes:
        squares: Sum of the squared noise, in stated variances.
        numbers: How many numbers that is of.
    """

    squares: float = 0.0
    numbers: int = 0
    _within: Correlation = field(default_factory=Correlation)
    _stages: Correlation = field(default_factory=Correlation)
    _runs: Correlation = field(default_factory=Correlation)
    _of_stages: dict[str, tuple[float, int]] = field(default_factory=dict)
    _steps: list[NDArray[np.int64]] = field(default_factory=list)
    _last: dict[str, Vector] = field(default_factory=dict)

    def add(self, run: Mapping[str, StageNoise]) -> None:
        """The stages of one run, in their order."""
        before: Vector | None = None
        for name, noise in run.items():
            self.squares += noise.squares
            self.numbers += len(noise.steps)
            squares, numbers = self._of_stages.get(name, (0.0, 0))
            self._of_stages[name] = squares + noise.squares, numbers + len(noise.steps)
            room = _IN_ALL - sum(map(len, self._steps))
            self._steps.append(noise.steps[: min(room, _PER_STAGE)])
            self._within.add(noise.scaled[:-1], noise.scaled[1:])
            if before is not None:
                self._stages.add(before, noise.scaled)
            if name in self._last:
                self._runs.add(self._last[name], noise.scaled)
            self._last[name] = before = noise.scaled[:_PER_STAGE]

    def findings(self, scale: float, *, confidence: float, miss: float) -> NoiseFindings:
        """What the record says.

        Args:
            scale: The least scale of the noise in grid steps. Two numbers of that scale s are equal
                with probability 1 / (2 sqrt(pi) s), and the number of equal pairs is Poisson's.
            confidence: Of the interval of the scale.
            miss: Probability of each of the five other findings where there is nothing to find.
        """
        values = np.concatenate(self._steps) if self._steps else np.zeros(0, np.int64)
        times = np.unique(values, return_counts=True)[1]
        repeats = int((times * (times - 1) // 2).sum())
        expected = len(values) * (len(values) - 1) / 2 / (2 * math.sqrt(math.pi) * scale)
        ratio = noise_ratio(self.squares, self.numbers, confidence=confidence)
        variance = max(1.0, ratio.value**2)
        places = {
            "within a stage": self._within,
            "of a stage with the next": self._stages,
            "of a run with the next": self._runs,
        }
        return NoiseFindings(
            ratio,
            repeats,
            expected,
            repeats > 0 and float(scipy.stats.poisson.sf(repeats - 1, expected)) < miss,
            {name: one.interval(variance, miss) for name, one in places.items() if one.pairs},
            self._ratios(miss),
        )

    def _ratios(self, miss: float) -> dict[str, Interval]:
        """The scale of the noise of each stage, where there are several; they share ``miss``."""
        several = self._of_stages if len(self._of_stages) > 1 else {}
        each = 1 - miss / max(1, len(several))
        return {name: noise_ratio(*one, confidence=each) for name, one in several.items()}


def noise_ratio(squares: float, numbers: int, *, confidence: float = 0.95) -> Interval:
    """The standard deviation of noise over the one that is stated.

    Args:
        squares: Sum of the squares of Gaussian noise, in stated standard deviations.
        numbers: How many numbers were summed.
        confidence: Of the interval, by chi-square.

    Raises:
        InputError: No numbers.
    """
    if numbers < 1:
        raise InputError("the noise of a run that released nothing cannot be measured")
    tail = (1 - confidence) / 2
    low, high = (squares / scipy.stats.chi2.ppf(tail, numbers) for tail in (1 - tail, tail))
    return Interval(*(float(np.sqrt(value)) for value in (squares / numbers, low, high)))
