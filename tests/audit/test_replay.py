"""The attacker who replays a run sees exactly the noise, and the row if it was there."""

from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest
from benchmarks.benches import METHODS, clouds, ready
from scipy import stats

from understudy.audit.adjacent_datasets import InMemorySource, outliers
from understudy.audit.bench import NoisyAnswer
from understudy.audit.replay import CandidateRecords, ReplayDiverged, replay


def gone_through(found, place, *, inside, bench=None, instead=None, canaries=1):
    bench = bench or found.bench
    row = outliers(found.rows, canaries, 0)
    candidates = CandidateRecords(row, instead, np.full(canaries, inside))
    observed = bench.observe(found.rows.joined_with(candidates.present_records()), place)
    return replay(bench, observed, found.rows, candidates), observed, candidates


def squares_and_numbers(findings):
    stages = findings.noise.values()
    return sum(stage.squares for stage in stages), sum(len(stage.steps) for stage in stages)


@pytest.mark.parametrize(
    ("method", "inside"), list(zip(METHODS, cycle((True, False)), strict=False))
)
def test_what_is_left_of_the_answers_is_noise_as_stated(method, inside, tmp_path):
    found = ready(method, tmp_path)
    seen, observed, _ = gone_through(found, tmp_path / "run", inside=inside)
    sizes = [stage.size for stage in observed.receipt.stages]
    squares, numbers = squares_and_numbers(seen)
    assert numbers == sum(sizes)
    assert [stage.stage for stage in seen.stages] == list(found.bench.plan.shares)
    # Two-sided, at a level that fails once in a million runs.
    low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], numbers)
    assert low < squares < high
    assert seen.longest_contribution == pytest.approx(1.0, abs=1e-5)


def test_told_the_wrong_world_the_row_is_left_over(tmp_path):
    found = ready("clustering", tmp_path, epsilon=1000.0, accept_epsilon=True)
    truly, observed, candidates = gone_through(found, tmp_path / "run", inside=True)
    wrong = CandidateRecords(candidates.records, None, np.array([False]))
    other = replay(found.bench, observed, found.rows, wrong)
    whole = found.bench.plan.mu**2  # the squared length of a row that adds all it may
    (before, _), (after, _) = squares_and_numbers(truly), squares_and_numbers(other)
    assert after == pytest.approx(before + whole, rel=0.2)
    assert other.log_ratios == pytest.approx(truly.log_ratios)  # the attacker is not told
    assert truly.log_ratios[0] == pytest.approx(whole / 2, rel=0.2)


@pytest.mark.parametrize(("adjacency", "column"), [("add-remove", "person"), ("replace-one", None)])
def test_people_with_several_rows_and_both_adjacencies(tmp_path, adjacency, column):
    source = clouds(tmp_path / "people.npz", 0, people=15)
    found = ready("clustering", tmp_path, source=source, adjacency=adjacency, unit=column)
    other = outliers(found.rows, 1, 1) if adjacency == "replace-one" else None
    for inside in (True, False):
        seen, _, _ = gone_through(found, tmp_path / str(inside), inside=inside, instead=other)
        squares, numbers = squares_and_numbers(seen)
        low, high = stats.chi2.ppf([5e-7, 1 - 5e-7], numbers)
        assert low < squares < high
        if other is None:
            assert seen.longest_contribution == pytest.approx(1.0, abs=1e-5)
        else:  # two rows that were clipped alike differ by as little as the noisy centres let them
            assert 0 < seen.longest_contribution <= 1


def test_records_with_units_in_a_run_that_names_no_column_are_read(tmp_path):
    """They were taken for a dataset that is read at any position, and ended in a traceback."""
    found = ready("clustering", tmp_path)
    rows = replace(found.rows, units=np.array([f"p{row // 3}" for row in range(len(found.rows))]))
    observed = found.bench.observe(rows, tmp_path / "run")
    assert [stage.stage for stage in observed.receipt.stages] == list(found.bench.plan.shares)


def test_another_question_ends_the_replay(tmp_path):
    found = ready("clustering", tmp_path)
    _, observed, candidates = gone_through(found, tmp_path / "run", inside=False)
    stage = next(iter(found.bench.plan.shares))
    asked = observed.answers[stage]
    observed.answers[stage] = NoisyAnswer(asked.noisy, "another question")
    with pytest.raises(ReplayDiverged, match=f"{stage}: asked for something else"):
        replay(found.bench, observed, found.rows, candidates)


def test_some_rows_of_a_source_are_a_seeded_choice():
    labels = np.arange(100)
    whole = InMemorySource(
        "x", "embeddings", tuple(map(str, labels)), labels[:, None] * 1.0, labels
    )
    some = InMemorySource.of(whole, 10, seed=3)
    assert len(some) == 10
    assert (some.values[:, 0] == some.labels).all()
    assert (some.labels == InMemorySource.of(whole, 10, seed=3).labels).all()
    assert (some.labels != InMemorySource.of(whole, 10, seed=4).labels).any()


def test_outliers_of_images_are_images():
    images = np.zeros((5, 8, 8, 3), np.uint8)
    rows = InMemorySource("x", "images", ("a", "b"), images, np.zeros(5, np.int64))
    found = outliers(rows, 4, 0)
    assert found.values.dtype == np.uint8
    assert set(np.unique(found.values)) == {0, 255}
    assert found.shape == rows.shape
    assert len({value.tobytes() for value in found.values}) == 4
