"""What a release adds is told from what members and non-members differ by themselves in."""

from dataclasses import replace

import numpy as np
import pytest

from understudy.metrics.attacks import by_density_ratio, by_distance
from understudy.metrics.blind_attack import Blind
from understudy.metrics.roc import roc

DIM = 6


def records(seed, count, shift=0.0, scale=1.0):
    rng = np.random.default_rng(seed)
    return shift + scale * rng.normal(size=(count, DIM))


def test_halves_of_one_set_are_not_told_apart_and_no_record_is_scored_by_its_own_classifier():
    areas = [Blind.of(records(s, 60), records(s + 500, 60)).roc.auc for s in range(200)]
    assert abs(np.mean([one.value for one in areas]) - 0.5) < 0.02  # fitted on itself: above 0.6
    # 10 by chance: DeLong's interval, which takes scores for independent, leaves out 36 or so.
    assert sum(not one.low <= 0.5 <= one.high for one in areas) <= 18


@pytest.mark.parametrize("difference", [{"shift": 0.5}, {"scale": 0.7}])
def test_a_shift_and_a_lower_contrast_are_seen_without_the_release(difference):
    blind = Blind.of(records(0, 400, **difference), records(1, 300))
    assert blind.roc.auc.low > 0.6
    assert (len(blind.scores), blind.member.sum()) == (700, 400)


def test_what_is_known_besides_is_used():
    classes = np.repeat([0, 1], [300, 300])[:, None]
    plain = Blind.of(records(0, 300), records(1, 300))
    assert plain.roc.auc.low < 0.52
    assert Blind.of(records(0, 300), records(1, 300), side_information=classes).roc.auc.value == 1


def judge(release, attack, *, shift, seed=0):
    """An attack on members of one origin and non-members of another."""
    members, non_members = records(10, 500, shift), records(11, 400)
    reference, rows = records(12, 400), np.concatenate([members, non_members])
    blind = Blind.of(members, non_members, reference=reference, seed=seed)
    scores = attack(rows, release(members), reference)
    return blind, blind.gain(scores), roc(scores[:500], scores[500:])


@pytest.mark.parametrize("shift", [0.0, 0.3, 1.0])
def test_a_release_of_the_members_origin_adds_nothing_though_the_attack_succeeds(shift):
    def honest(members):
        return records(13, 500, shift)

    blind, added, plain = judge(honest, by_density_ratio, shift=shift)
    assert added.auc.low <= 0
    assert added.tpr_at[0.01].low <= 0
    assert (plain.auc.low > 0.52) == (blind.roc.auc.low > 0.52) == (shift > 0)


def test_a_score_that_says_nothing_adds_nothing_where_the_blind_one_is_worse_than_a_guess():
    blind = Blind.of(records(0, 60), records(1, 60))
    worse = replace(blind, scores=np.where(blind.member, -1.0, 1.0) + records(2, 120)[:, 0])
    assert worse.roc.auc.high < 0.5
    added = worse.gain(np.zeros(120))
    assert (added.auc.value, added.auc.low, added.auc.high) == (0, 0, 0)
    assert worse.gain(blind.member + 0.1 * records(3, 120)[:, 0]).auc.low > 0


@pytest.mark.parametrize("shift", [0.0, 0.3, 0.6])
def test_copies_add_to_what_is_known_however_different_the_origins_are(shift):
    def copied(members):
        return np.concatenate([members[:100] + 0.01, records(13, 400, shift)])

    _, added, _ = judge(copied, lambda rows, release, _: by_distance(rows, release), shift=shift)
    assert added.tpr_at[0.01].low > 0.04


@pytest.mark.slow
def test_noise_is_rarely_said_to_add_anything():
    """Scores that add nothing: of 24 intervals at least 20 do not lie above 0."""
    held = 0
    for seed in range(24):
        members, non_members = records(seed, 120, 0.3), records(seed + 900, 120)
        noise = np.random.default_rng(seed).normal(size=240)
        found = Blind.of(members, non_members, seed=seed).gain(noise).auc
        held += found.low <= 0
    assert held >= 20


def test_pairs_are_drawn_together_and_by_the_seed():
    members, non_members = records(0, 200, 0.3), records(1, 200)
    blind = Blind.of(members, non_members)
    scores = by_distance(np.concatenate([members, non_members]), members[:40])
    one, two = blind.gain(scores), blind.gain(scores)
    assert (one.auc, one.advantage, one.tpr_at) == (two.auc, two.advantage, two.tpr_at)
    again = blind.gain(blind.scores)  # nothing new at all: the same records carry both scores
    assert again.auc.high - again.auc.low < 0.5 * (one.auc.high - one.auc.low)
