"""The leakage verdict tells five releases apart, in its words; the others follow their rules."""

from dataclasses import replace

import numpy as np
import pytest

from understudy.core.results import Interval
from understudy.metrics import verdicts
from understudy.metrics.attacks import by_distance
from understudy.metrics.blind_attack import Blind
from understudy.metrics.copies import excess, near_copies
from understudy.metrics.fidelity import FID
from understudy.metrics.leakage import closeness
from understudy.metrics.nearest_neighbours import COVERAGE, PRECISION
from understudy.metrics.roc import roc
from understudy.metrics.utility import (
    ACCURACY,
    BALANCED_ACCURACY,
    CLASS_RECALL,
    MAJORITY_BALANCED_ACCURACY,
    RELEASED_ACCURACY,
)
from understudy.metrics.verdicts import Attacks, Leakage


def rows(seed, count=600, dim=8):
    return np.random.default_rng(seed).normal(size=(count, dim))


PRIVATE, HELD_OUT, OTHERS = rows(0), rows(1), rows(2)


def judge(release, exact=0, held_out_copies=0):
    distances = {"pixels": closeness(PRIVATE, release, HELD_OUT)}
    near = {name: near_copies(one, false_alarms=0.01) for name, one in distances.items()}
    n, m = len(release), len(HELD_OUT)
    copies = (
        excess(exact, n, held_out_copies, m),
        excess(exact, n, held_out_copies, m + len(PRIVATE)),
    )
    scores = by_distance(PRIVATE, release), by_distance(HELD_OUT, release)
    return verdicts.judge_leakage(Leakage(copies, near, distances), attacked(*scores))


def attacked(members, non_members, described=(PRIVATE, HELD_OUT), held_out=False):
    """One attack and what it adds to the blind one, by what the records look like."""
    blind = Blind.of(*described)
    added = blind.gain(np.concatenate([members, non_members]))
    return Attacks(blind.roc, {"a": roc(members, non_members)}, {"a": added}, held_out)


def one_percent():
    release = OTHERS.copy()
    release[:6] = PRIVATE[:6]
    return release


@pytest.mark.parametrize(
    ("release", "exact", "grade", "words"),
    [
        (PRIVATE, 600, "poor", "The release is private data: all 600"),
        (one_percent(), 6, "poor", "6 of 600 synthetic images (1.00%) are exact copies"),
        (PRIVATE + 0.05 * rows(3), 0, "poor", "samples are near-copies of private records"),
        (OTHERS, 0, "good", "as near to private records as held-out real records do"),
        (3 * rows(4), 0, "good", "stay farther from private records than held-out"),
        (0.3 * rows(5), 0, "good", "nearer to private records than held-out records do"),
    ],
    ids=["private", "1 % copies", "changed", "held out", "far", "smooth"],
)
def test_five_releases_and_one_more_are_told_apart(release, exact, grade, words):
    found = judge(release, exact)
    assert (found.group, found.grade) == ("leakage", grade)
    assert words in found.sentence
    assert "1%" in found.rule.replace(" ", "")


def test_one_copy_that_chance_may_explain_is_shown_and_not_condemned():
    release = OTHERS.copy()
    found = judge(release, exact=1, held_out_copies=2)
    assert found.grade == "fair"
    assert "look at the pairs" in found.sentence
    assert judge(release, exact=40, held_out_copies=2).grade == "poor"
    assert judge(release, exact=20, held_out_copies=20).grade == "fair"  # duplicates in the data


@pytest.mark.parametrize(("count", "grade"), [(20, "unknown"), (600, "poor")])
def test_few_held_out_records_leave_near_copies_open(count, grade):
    release = OTHERS.copy()
    release[:100] = PRIVATE[:100] + 0.01 * rows(7, 100)
    distances = {"pixels": closeness(PRIVATE, release, HELD_OUT[:count])}
    near = {"pixels": near_copies(distances["pixels"], false_alarms=0.01)}
    leakage = Leakage(None, near, distances)
    verdict = verdicts.judge_leakage(leakage, Attacks())
    assert verdict.grade == grade
    assert "not equal" not in verdict.sentence  # nobody looked: embeddings have no pixels
    assert verdicts.judge_attacks(Attacks(), leakage).grade == grade


def test_an_attack_that_works_is_a_leak_though_no_copy_stands_out():
    found = judge(PRIVATE + 0.6 * rows(6))
    assert found.grade in ("fair", "poor")
    assert "private records" in found.sentence


def measured(metric, value, baseline, label=""):
    return metric.value(value, baseline=baseline, label=label, measured="a network")


@pytest.mark.parametrize(
    ("precision", "coverage", "grade"), [(0.9, 0.8, "good"), (0.9, 0.5, "fair"), (0.4, 0.9, "poor")]
)
def test_fidelity_is_the_worse_of_two_beside_held_out_rows(precision, coverage, grade):
    values = [
        measured(PRECISION, precision, 0.9),
        measured(COVERAGE, coverage, 0.9),
        measured(COVERAGE, 0.0, 0.9, label="cat"),
        measured(FID, 12.0, 2.5),
    ]
    found = verdicts.judge_fidelity(values, 50, 10)
    assert found.grade == grade
    assert "FID 12 (2.5)" in found.sentence
    assert verdicts.judge_fidelity(values[3:], 50, 2).grade == "unknown"
    assert verdicts.judge_fidelity(values, 49, 2).grade == "unknown"
    few = verdicts.judge_fidelity(values, 149, 30)
    assert (few.grade, "149 of a side, and 150" in few.sentence) == ("unknown", True)
    assert verdicts.judge_fidelity(values, 150, 30).grade == grade


@pytest.mark.parametrize(("value", "grade"), [(0.88, "good"), (0.78, "fair"), (0.3, "poor")])
def test_utility_is_what_training_on_the_release_loses(value, grade):
    found = verdicts.judge_utility([measured(BALANCED_ACCURACY, value, 0.9)])
    assert found.grade == grade
    assert "90.0%" in found.sentence
    assert verdicts.judge_utility([]).grade == "unknown"


@pytest.mark.parametrize(
    ("released", "words"),
    [(0.91, "reach 91.0%, so sampling loses 5.0 points"), (0.8, "so sampling loses nothing")],
)
def test_sampling_loses_what_the_best_network_lacks(released, words):
    networks = [measured(BALANCED_ACCURACY, value, 0.95) for value in (0.7, 0.86)]
    statistics = measured(RELEASED_ACCURACY, released, 0.97)
    assert words in verdicts.judge_utility([*networks, statistics]).sentence
    assert verdicts.judge_utility(networks).sentence.count("released") == 0
    assert verdicts.judge_utility([statistics]).grade == "unknown"


def test_utility_goes_by_balanced_accuracy_and_names_the_class_that_suffers():
    """94.8 against 99.5 % of the rows, and a class of which only 57 % are found."""
    plain = measured(ACCURACY, 0.948, 0.995)
    assert verdicts.judge_utility([plain]).grade == "unknown"
    balanced = measured(BALANCED_ACCURACY, 0.78, 0.985)
    recalls = [
        measured(CLASS_RECALL, value, real, label)
        for label, value, real in (("large", 0.99, 0.999), ("small", 0.57, 0.971))
    ]
    guess = measured(MAJORITY_BALANCED_ACCURACY, 0.5, None)
    found = verdicts.judge_utility([plain, balanced, *recalls, guess])
    assert found.grade == "poor"
    for words in ("balanced accuracy of 78.0%", "small: 57.0%", "(97.1%)", "one class for all: 50"):
        assert words in found.sentence


@pytest.mark.parametrize(
    ("move", "found", "grade"),
    [(0.0, 0, "good"), (0.4, 0, "fair"), (1.0, 0, "poor"), (0.0, 100, "poor")],
    ids=["guess", "a little", "much", "an eighth without error"],
)
def test_attacks_are_judged_by_the_lower_bounds_of_what_they_add(move, found, grade):
    rng = np.random.default_rng(0)
    described = rows(24, 800), rows(25, 800)
    members, non_members = rng.normal(size=800) + move, rng.normal(size=800)
    members[:found] = 9.0
    verdict = verdicts.judge_attacks(attacked(members, non_members, described))
    assert (verdict.group, verdict.grade) == ("attack", grade)
    assert "hold-out" not in verdict.sentence
    assert verdicts.judge_attacks(Attacks()).grade == "unknown"


def test_the_attack_that_a_verdict_goes_by_is_called_the_surest_and_not_the_best():
    one = attacked(rows(24)[:, 0], rows(25)[:, 0])
    unsure, sure = Interval(0.2, 0.01, 0.39), Interval(0.1, 0.09, 0.11)
    assert ". The attack (a) tells" in f". {verdicts.judge_attacks(one).sentence}"
    added = {
        "unsure": replace(one.gains["a"], auc=unsure),
        "sure": replace(one.gains["a"], auc=sure),
    }
    two = replace(one, rocs=dict.fromkeys(added, one.rocs["a"]), gains=added)
    sentence = verdicts.judge_attacks(two).sentence
    assert sentence.startswith("Of 2 attacks, the one that most surely gains by the release (sure)")
    assert "adds +0.100 (+0.090 to +0.110)" in sentence


@pytest.mark.parametrize(("count", "said"), [(800, True), (100, False)])
def test_what_no_grade_goes_by_is_not_said_beside_it(count, said):
    rng = np.random.default_rng(0)
    members, non_members = rng.normal(size=800), rng.normal(size=count)
    members[:100] = 9.0
    verdict = verdicts.judge_attacks(
        attacked(members, non_members, (rows(24, 800), rows(25, count)))
    )
    assert ("points to the private records" in verdict.sentence) is said
    assert ("Of 100 non-members 1 % is too few" in verdict.sentence) is not said


def test_a_difference_of_origin_is_said_and_not_charged_to_the_release():
    described = rows(20, 800) + 0.4, rows(21, 800)
    style = [one.sum(axis=1) + rows(22, 800)[:, 0] for one in described]  # nothing but the origin
    assert roc(*style).auc.low > 0.7
    verdict = verdicts.judge_attacks(attacked(*style, described))
    assert verdict.grade == "good"
    assert "differ by themselves" in verdict.sentence
    assert "--hold-out 5%" in verdict.sentence
    drawn = verdicts.judge_attacks(attacked(*style, described, held_out=True))
    assert "--hold-out" not in drawn.sentence  # that is what they are
    far = rows(20, 800) + 2, rows(21, 800)
    hidden = verdicts.judge_attacks(attacked(*(one.sum(axis=1) for one in far), far))
    assert (hidden.grade, "could hide" in hidden.sentence) == ("unknown", True)
