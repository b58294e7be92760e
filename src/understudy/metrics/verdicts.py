"""Plain words on what was measured: a grade, the numbers that decided, and the thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import scipy

from understudy.core.results import Grade, Interval, MetricValue, Verdict
from understudy.core.types import Vector
from understudy.metrics.blind_attack import ADDED_AUC, ADDED_MEMBERS_FOUND, AttackGain
from understudy.metrics.copies import FALSE_ALARMS, Excess, NearCopies
from understudy.metrics.fidelity import FID, FRECHET_DISTANCE
from understudy.metrics.leakage import Closeness
from understudy.metrics.nearest_neighbours import COVERAGE, NEAREST_NEIGHBOURS, PRECISION
from understudy.metrics.roc import Roc
from understudy.metrics.utility import (
    BALANCED_ACCURACY,
    CLASS_RECALL,
    MAJORITY_BALANCED_ACCURACY,
    RELEASED_ACCURACY,
)

_ADDED_AREA, _ADDED_FOUND = ADDED_AUC.limits, ADDED_MEMBERS_FOUND[0.01].limits

DIFFERENT, HOPELESS = 0.51, 0.90
"""Areas of the blind attack from which members and non-members surely differ by themselves, and
from which they differ so much that an attack has nothing left to show."""

HOLD_OUT = (
    "Hold out a random part of the private records before the run (`--hold-out 5%`): such "
    "non-members differ from the members in nothing but that they took no part."
)

_ORDER: tuple[Grade, ...] = ("good", "fair", "poor")

_MANY = 200  # non-members, at least, that say where 1 % false alarms lie

_UNSEEN = 0.2
"""Part of a release up to which near-copies that cannot be told from chance leave it good."""

_LEAST_CLASSES = 10
"""As many times the nearest neighbours are the least rows of a side; of more classes, as many."""

_ALIKE = 0.05
"""Distances are alike where one is larger than another with a probability so near to a half."""


@dataclass(frozen=True, slots=True)
class Leakage:
    """What decides on leakage.

    Attributes:
        exact: Copies, against held-out records and against all real ones; None without images.
        near: Near-copies by what they are near in.
        distances: What those were found in.
    """

    exact: tuple[Excess, Excess] | None
    near: Mapping[str, NearCopies]
    distances: Mapping[str, Closeness] = field(default_factory=dict)

    @property
    def copies(self) -> int:
        """Exact copies."""
        return 0 if self.exact is None else self.exact[0].hits

    @property
    def sure(self) -> bool:
        """Whether there are more exact copies than chance explains."""
        if self.exact is None or not self.copies:
            return False
        return min(one.p_value for one in self.exact) < FALSE_ALARMS / len(self.exact)


@dataclass(frozen=True, slots=True)
class Attacks:
    """What decides on attacks.

    Attributes:
        blind: How well members are told from non-members without the release; None: too few
            records to attack with.
        rocs: What each attack gave, by name.
        gains: What it adds to the blind attack.
        held_out: Whether the non-members are a random part of the private dataset.
        left_out: Whether the caller asked for no attacks.
    """

    blind: Roc | None = None
    rocs: Mapping[str, Roc] = field(default_factory=dict)
    gains: Mapping[str, AttackGain] = field(default_factory=dict)
    held_out: bool = False
    left_out: bool = False

    @property
    def different(self) -> bool:
        """Whether members and non-members surely differ by themselves."""
        return self.blind is not None and self.blind.auc.low > DIFFERENT

    @property
    def hopeless(self) -> bool:
        """Whether they differ so much that attacks have nothing left to show."""
        return self.blind is not None and self.blind.auc.low > HOPELESS


def judge_fidelity(values: Sequence[MetricValue], rows: int, classes: int) -> Verdict:
    """By precision and coverage, over what held-out real records reach with as many rows.

    A ball about a row reaches its nearest neighbours. Where a class has fewer rows, it holds those
    of other classes, and a release that lacks the class seems to have it.
    """
    limits, least = PRECISION.limits, NEAREST_NEIGHBOURS * max(_LEAST_CLASSES, classes)
    rule = (
        f"Good: precision and coverage reach {limits.good:.0%} of what held-out real records "
        f"reach; fair: {limits.fair:.0%}. Not judged with fewer than {least} rows of a side."
    )
    of_all = {
        value.metric.key: value
        for value in values
        if not value.label and value.baseline is not None
    }
    judged = [of_all[metric.key] for metric in (PRECISION, COVERAGE) if metric.key in of_all]
    if not judged or rows < least:
        words = f"There are too few records to compare: {rows} of a side, and {least} are needed."
        return Verdict("fidelity", "unknown", words, rule)
    grade = limits.grade(min(one.value / max(one.baseline or 0.0, 1e-9) for one in judged))
    reached = " and ".join(
        f"{value.name} {value.value:.2f} (held-out real records: {value.baseline:.2f})"
        for value in judged
    )
    distances = [of_all[one.key] for one in (FID, FRECHET_DISTANCE) if one.key in of_all]
    for value in distances[:1]:
        reached += f", {value.name} {value.value:.3g} ({value.baseline:.3g})"
    return Verdict("fidelity", grade, f"The release has {reached}.", rule)


def judge_utility(values: Sequence[MetricValue]) -> Verdict:
    """By the balanced accuracy that training on the release costs, of the best network."""
    limits = BALANCED_ACCURACY.limits
    rule = (
        f"Good: models trained on the release lose at most {100 * limits.good:.0f} points of "
        "balanced accuracy on real test records against models trained on the private records; "
        f"fair: {100 * limits.fair:.0f}."
    )
    accuracies = [
        value
        for value in values
        if value.metric.key == BALANCED_ACCURACY.key and value.baseline is not None
    ]
    if not accuracies:
        sentence = "Not measured: `understudy evaluate --full` trains models."
        return Verdict("utility", "unknown", sentence, rule)
    best = max(accuracies, key=lambda value: value.value)
    grade = limits.grade((best.baseline or 0.0) - best.value)
    majority = [value for value in values if value.metric.key == MAJORITY_BALANCED_ACCURACY.key]
    guess = f"; one class for all: {majority[0].value:.1%}" if majority else ""
    sentence = (
        f"{best.measured} reaches a balanced accuracy of {best.value:.1%} on real test records "
        f"when trained on the release, {best.baseline:.1%} when trained on the private records"
        f"{guess}."
    )
    recalls = [
        value
        for value in values
        if (value.metric.key, value.measured) == (CLASS_RECALL.key, best.measured)
    ]
    if recalls:
        lowest = min(recalls, key=lambda value: value.value)
        sentence += (
            f" The class that it finds least is {lowest.label}: {lowest.value:.1%} of its records "
            f"({lowest.baseline:.1%})."
        )
    return Verdict("utility", grade, sentence + sampling_loss(values), rule)


def sampling_loss(values: Sequence[MetricValue]) -> str:
    """What sampling loses, as a sentence that follows another; empty where it was not measured."""
    accuracies = [value.value for value in values if value.metric.key == BALANCED_ACCURACY.key]
    statistics = [value.value for value in values if value.metric.key == RELEASED_ACCURACY.key]
    if not accuracies or not statistics:
        return ""
    points = 100 * (statistics[0] - max(accuracies))
    loss = f"loses {points:.1f} points" if points >= 0.05 else "loses nothing"
    return (
        f" The released statistics alone reach {statistics[0]:.1%}, so sampling {loss} "
        "(understudy train --from statistics writes their classifier)."
    )


def judge_attacks(results: Attacks, leakage: Leakage | None = None) -> Verdict:
    """By the attack that most surely adds something to what is known without the release.

    Args:
        results: What attacks gave.
        leakage: Copies, which bound the grade: whoever has the image finds its copy.
    """
    area, tpr = _ADDED_AREA, _ADDED_FOUND
    rule = (
        "Good: no attack surely (95 %) adds more to the blind attack, which never sees the "
        f"release, than {area.good} of area under the ROC or {100 * tpr.good:.0f} points of the "
        f"private records at 1 % false alarms; fair: {area.fair:.1f}, {100 * tpr.fair:.0f} "
        f"points. Not judged where the blind attack alone surely has an area above {HOPELESS:.1f} "
        "and nothing is added. Never better than the copies in the release are graded."
    )
    grade, words = _graded_attacks(results)
    if leakage is not None:
        bound, copies = _copies(leakage)
        if bound not in ("good", "unknown"):
            if grade == "unknown" or _ORDER.index(grade) < _ORDER.index(bound):
                grade = bound
            words = f"{copies} Whoever has such a record finds it in the release. {words}"
    return Verdict("attack", grade, words, rule)


def _graded_attacks(results: Attacks) -> tuple[Grade, str]:
    """The grade of the attacks alone, and what is said of it."""
    if results.left_out:
        return "unknown", "You left the attacks out (--no-attacks)."
    if results.blind is None or not results.gains:
        return "unknown", "There are too few records to attack with."
    name = _surest(results)
    surest, gain = results.rocs[name], results.gains[name]
    which = "The attack"
    if len(results.gains) > 1:
        which = f"Of {len(results.gains)} attacks, the one that most surely gains by the release"
    direction = (
        ""
        if not surest.reversed
        else (
            " It is asked the other way round: private records lie farther from the release than "
            "non-members do, which tells them apart as well as lying nearer would."
        )
    )
    words = (
        f"{which} ({name}) tells private records from non-members "
        f"with an area of {surest.auc.value:.3f} (a guess: 0.5); what is known without the release "
        f"reaches {results.blind.auc.value:.3f}. Joined to that, it adds {_signed(gain.auc, 3)}"
        f"{_at_few_alarms(gain, surest.others)}{direction}{_difference(results)}"
    )
    grade = _grade_of(gain, surest.others)
    if grade == "good" and results.hopeless:
        grade = "unknown"
    return grade, words


def _at_few_alarms(gain: AttackGain, non_members: int) -> str:
    """How many more are found at 1 % false alarms, as far as a grade goes by it."""
    if non_members < _MANY:
        return (
            f". Of {non_members:,} non-members 1 % is too few to say how many private records are "
            "found at so few false alarms."
        )
    points = _signed(gain.tpr_at[0.01], 1, 100)
    return f", and {points} points to the private records found at 1 % false alarms."


def _signed(one: Interval, digits: int, times: float = 1) -> str:
    """A difference and its interval."""
    value, low, high = (f"{times * end:+.{digits}f}" for end in (one.value, one.low, one.high))
    return f"{value} ({low} to {high})"


def _difference(results: Attacks) -> str:
    """That members and non-members differ by themselves, and what to do."""
    if not results.different or results.blind is None:
        return ""
    area = results.blind.auc
    words = (
        f" Private records and non-members differ by themselves: a classifier that never saw the "
        f"release tells them apart with an area of {area.value:.3f} ({area.low:.3f} to "
        f"{area.high:.3f})."
    )
    if results.hopeless:
        words += " That is so much that a leak could hide behind it."
    return words if results.held_out else f"{words} {HOLD_OUT}"


def _surest(results: Attacks) -> str:
    """The name of the attack that most surely adds something."""

    def order(name: str) -> tuple[int, float]:
        gain = results.gains[name]
        return _ORDER.index(_grade_of(gain, results.rocs[name].others)), gain.auc.low

    return max(results.gains, key=order)


def _grade_of(gain: AttackGain, non_members: int) -> Grade:
    """The worse grade of the two; few non-members say nothing of 1 % false alarms."""
    tpr = gain.tpr_at[0.01].low if non_members >= _MANY else 0.0
    grades = _ADDED_AREA.grade(gain.auc.low), _ADDED_FOUND.grade(tpr)
    return max(grades, key=_ORDER.index)


def judge_leakage(leakage: Leakage, results: Attacks) -> Verdict:
    """Exact copies, then near-copies, then what attacks learn; else how near the release comes."""
    rule = (
        "Poor: more exact copies or near-copies of private records than chance explains (false "
        f"alarms at most {FALSE_ALARMS:.0%} each), or attacks that succeed by what the release "
        "adds. Fair: an exact copy that chance may explain, or attacks to which it adds a little. "
        f"Not judged where near-copies would show only in more than {_UNSEEN:.0%} of the release."
    )
    grade, words = _copies(leakage)
    if grade in ("good", "unknown") and results.gains:
        name = _surest(results)
        surest, gain = results.rocs[name], results.gains[name]
        attacked = _grade_of(gain, surest.others)
        if attacked != "good":
            grade = attacked
            where = "farther from" if surest.reversed else "nearer to"
            words = (
                f"No single copies stand out, but private records lie {where} the release than "
                f"held-out records do: the attack by {name} tells them apart with an area of "
                f"{surest.auc.value:.2f} (a guess: 0.5). The release adds {_signed(gain.auc, 3)} "
                f"to the area that is reached without it{_at_few_alarms(gain, surest.others)}"
            )
    return Verdict("leakage", grade, words, rule)


def _copies(leakage: Leakage) -> tuple[Grade, str]:
    rows = len(next(iter(leakage.distances.values())).distances)
    near = max(leakage.near.items(), key=lambda one: one[1].count - one[1].expected)
    if leakage.exact is not None and leakage.sure:
        return "poor", _exact(leakage.exact[0], near[1], rows)
    if near[1].sure:
        # Copies of embeddings are not counted by themselves.
        kind, equal = ("copies or ", "") if leakage.exact is None else ("", "not equal, but ")
        return "poor", (
            f"{near[1].count:,} of {rows:,} samples are {kind}near-copies of private records: "
            f"{equal}far nearer to one of them than to any other (by {near[0]}). Chance gives "
            f"{near[1].expected:.0f}."
        )
    if leakage.copies:
        return "fair", (
            f"{leakage.copies:,} of {rows:,} synthetic images equal a private image pixel for "
            "pixel, which chance may explain: look at the pairs."
        )
    if near[1].least > _UNSEEN * rows:
        held_out = len(next(iter(leakage.distances.values())).baseline)
        return "unknown", (
            f"No copies stand out, but near-copies would do so only if they were {near[1].least:,} "
            f"or more: too few to tell are {rows:,} samples beside {held_out:,} held-out records."
        )
    return "good", f"No copies: {_nearness(leakage.distances)}."


def _exact(copies: Excess, near: NearCopies, rows: int) -> str:
    if copies.hits == copies.rows:
        return (
            f"The release is private data: all {copies.rows:,} synthetic images are exact copies "
            "of private ones."
        )
    words = (
        f"{copies.hits:,} of {copies.rows:,} synthetic images ({copies.rate:.2%}) are exact copies "
        f"of private ones; of held-out real images {copies.chance:.2%} are."
    )
    more = near.count - round(copies.rate * rows)
    if near.sure and more > max(10, copies.hits / 2):
        words += f" About {more:,} more are near-copies."
    return words


def _nearness(distances: Mapping[str, Closeness]) -> str:
    """How near the release comes, and how near held-out real records come."""
    alike = [
        pair
        for one in distances.values()
        for pair in ((one.distances, one.baseline), (one.ratios, one.baseline_ratios))
    ]
    last = list(distances.values())[-1]
    times = f"{last.median_ratio:.2f} times theirs by the median"
    if all(_are_alike(*pair) for pair in alike):
        return (
            "the samples come as near to private records as held-out real records do, as if "
            f"they were real records that took no part (distances {times})"
        )
    if _are_alike(last.distances, last.baseline):
        return (
            f"the samples lie about as far from private records as held-out records do ({times}), "
            "but not as real records lie among them"
        )
    if last.median_ratio >= 1:
        return f"the samples stay farther from private records than held-out records do ({times})"
    return (
        "the samples lie nearer to private records than held-out records do, as typical or "
        f"smooth images do, but to no single one of them (distances {times})"
    )


def _are_alike(release: Vector, held_out: Vector) -> bool:
    """Whether one is as often larger than the other as not, within chance and a little more."""
    n, m = len(release), len(held_out)
    larger = float(scipy.stats.mannwhitneyu(release, held_out).statistic) / (n * m)
    return abs(larger - 0.5) <= _ALIKE + float(1.96 * np.sqrt((1 / n + 1 / m) / 12))
