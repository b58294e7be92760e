"""The checks of noise: silent where it is as stated, and seen to find each fault."""

import numpy as np
import pytest

from understudy.metrics.noise_checks import NoiseRecord, StageNoise, shared_confidence

SCALE = 2.0**24


def stage(values):
    """Noise of standard deviation 1, and in grid steps."""
    return StageNoise(np.rint(values * SCALE).astype(np.int64), values)


def findings(runs, miss=0.05 / 4, confidence=0.99):
    record = NoiseRecord()
    for run in runs:
        record.add({name: stage(values) for name, values in run.items()})
    return record.findings(SCALE, confidence=confidence, miss=miss)


def test_noise_as_stated_is_hardly_ever_called_faulty():
    """300 records at 6 % for the five checks together: 15 expected at most, 30 once in 10^4."""
    rng = np.random.default_rng(0)
    called = 0
    for _ in range(300):
        runs = [{"a": rng.normal(size=7), "b": rng.normal(size=20)} for _ in range(12)]
        one = findings(runs, confidence=1 - 1e-9)
        assert not one.repeated
        called += bool(one.faults)
    assert called < 30


def test_each_correlation_has_its_own_name():
    rng = np.random.default_rng(1)
    first = rng.normal(size=200)
    within = np.repeat(rng.normal(size=100), 2)
    assert findings([{"a": within}]).faults[-1].startswith("the noise is correlated within a stage")
    (stages,) = findings([{"a": first, "b": -first}]).faults
    assert stages == "the noise is correlated of a stage with the next (-1)"
    (runs,) = findings([{"a": first}, {"a": -first}]).faults
    assert runs == "the noise is correlated of a run with the next (-1)"
    same = findings([{"a": first}, {"a": first}])
    assert same.repeated
    assert same.repeats == 200


def test_larger_noise_is_not_called_correlated():
    rng = np.random.default_rng(2)
    for _ in range(100):
        runs = [{"a": 3 * rng.normal(size=50), "b": 3 * rng.normal(size=50)} for _ in range(3)]
        (only,) = findings(runs, miss=1e-3).faults
        assert "times what is stated" in only


def test_half_the_noise_of_a_stage_of_few_numbers_is_found():
    rng = np.random.default_rng(4)
    runs = [{"few": rng.normal(size=6), "many": rng.normal(size=3000)} for _ in range(40)]
    assert not findings(runs).faults
    (only,) = findings([{**run, "few": run["few"] / 2} for run in runs]).faults
    assert only.startswith("the noise of stage 'few' is 0.5")


def test_equal_values_by_chance_are_no_repeats():
    """50,000 draws of which 21 pairs are equal by chance, and a handful more that are not."""
    values = np.random.default_rng(3).normal(size=50_000)
    one = findings([{"a": values[:25_000]}, {"a": values[25_000:]}])
    assert one.expected == pytest.approx(21, abs=0.1)
    assert 0 < one.repeats < 60
    assert not one.repeated
    assert findings([{"a": values[:25_000]}, {"a": values[60:25_000], "b": values[:60]}]).repeated


def test_what_is_shared_adds_up_to_what_the_confidence_leaves():
    each, miss = shared_confidence(0.95, 6, 2)
    assert 6 * (1 - each) + 2 * 5 * miss == pytest.approx(0.05)
