"""Near-copies are found however few, and what is not copied is not accused."""

import numpy as np
import pytest
from scipy.stats import fisher_exact

from understudy.core.errors import InputError
from understudy.metrics.copies import excess, near_copies
from understudy.metrics.leakage import closeness


def rows(seed, count=400, dim=6):
    return np.random.default_rng(seed).normal(size=(count, dim))


PRIVATE, HELD_OUT = rows(0), rows(1)


def look(release, private=PRIVATE, held_out=HELD_OUT, false_alarms=0.01):
    return near_copies(closeness(private, release, held_out), false_alarms=false_alarms)


def test_an_excess_is_fishers_test():
    one = excess(9, 300, 4, 500)
    expected = fisher_exact([[9, 291], [4, 496]], alternative="greater").pvalue
    assert one.p_value == pytest.approx(expected)
    assert (one.rate, one.chance) == (0.03, 0.008)
    assert excess(0, 10, 0, 10).p_value == 1
    with pytest.raises(InputError, match="11 of 10"):
        excess(11, 10, 0, 10)


@pytest.mark.parametrize("copies", [12, 40, 400])
@pytest.mark.parametrize("blur", [0.0, 0.02])
def test_copies_are_found_and_counted(copies, blur):
    release = rows(2)
    release[:copies] = PRIVATE[:copies] + blur * rows(3)[:copies]
    found = look(release)
    assert found.sure
    assert set(range(copies)) - set(found.rows.tolist()) == set()
    assert copies <= found.count <= copies + 15
    assert found.expected <= 15


def test_false_alarms_are_as_rare_as_said():
    """Of 200 releases of strangers, at a rate of 10 %: at most 33 by chance 1 in 1,000."""
    alarms = 0
    for seed in range(200):
        drawn = rows(100 + seed, 360, 3)
        alarms += look(drawn[:120], drawn[120:240], drawn[240:], false_alarms=0.1).sure
    assert alarms <= 33


def test_twins_in_the_data_are_no_copies():
    """Half of the rows of the world come in pairs; pairs are cut by the split as often."""
    rng = np.random.default_rng(4)
    world = np.repeat(rows(5, 900), 2, axis=0)[:1500]
    world = np.concatenate([world, rows(6, 900)]) + 0.01 * rng.normal(size=(2400, 6))
    world = world[rng.permutation(len(world))]
    held = look(world[:800], world[800:1600], world[1600:])
    assert not held.sure
    copied = world[:800].copy()
    copied[:100] = world[800:900] + 0.001
    assert look(copied, world[800:1600], world[1600:]).sure


def test_a_release_unlike_the_data_is_not_accused():
    """Smooth rows near the middle are near to everything, and to no one in particular."""
    for scale in (0.1, 0.5, 3.0):
        assert not look(scale * rows(7)).sure
    assert not look(np.repeat(rows(9, 4), 100, axis=0)).sure  # of four pictures
    few = rows(8, 400) * np.array([1, 1, 1e-3, 1e-3, 1e-3, 1e-3])  # of fewer dimensions
    assert not look(few).sure


@pytest.mark.parametrize("shift", [0.5, 2.0])
def test_the_style_of_the_private_rows_is_no_copy_and_copies_in_it_are(shift):
    """Held-out rows of another origin lie far off, so that nothing of theirs comes near."""
    alarms = 0
    for seed in range(20):
        private, release = rows(300 + seed) + shift, rows(400 + seed) + shift
        alarms += look(release, private, rows(500 + seed)).sure
    assert alarms <= 1
    release[:24] = private[:24] + 0.02 * rows(3)[:24]
    assert look(release, private, rows(519)).sure


def test_private_rows_among_themselves_leave_themselves_out():
    twins = np.concatenate([PRIVATE[:3], PRIVATE[:1], PRIVATE[:1], PRIVATE[:1]])
    found = closeness(twins, HELD_OUT, HELD_OUT).within
    apart = np.linalg.norm(twins[:, None] - twins[None], axis=2)
    np.fill_diagonal(apart, np.inf)
    assert np.allclose(found.distances, apart.min(axis=1))
