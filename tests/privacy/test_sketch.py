"""The fingerprint of a dataset: exact where it says so, and an estimate as good as it says."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from understudy.core.errors import LedgerError
from understudy.privacy.ledger.fingerprint import SIZE, Sketch

digests = st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=40)


def some(numbers: range) -> list[bytes]:
    return [random.Random(number).randbytes(16) for number in numbers]


@given(digests, st.randoms())
def test_order_does_not_matter_and_json_keeps_it(
    rows: list[bytes], shuffler: random.Random
) -> None:
    shuffled = list(rows)
    shuffler.shuffle(shuffled)
    assert Sketch.of(shuffled) == Sketch.of(rows) == Sketch.from_json(Sketch.of(rows).to_json())


def test_a_row_more_or_fewer_is_another_sum_even_beyond_the_lowest() -> None:
    rows = sorted(some(range(2 * SIZE)))
    whole, pair = Sketch.of(rows), rows[-1:] * 2
    for changed in (rows[:-1], rows + rows[-1:], rows + pair):
        assert Sketch.of(changed).lowest == whole.lowest
        assert Sketch.of(changed) != whole


def test_only_the_lowest_are_kept() -> None:
    rows = some(range(1000))
    assert Sketch.of(rows + rows).lowest == tuple(
        sorted(int.from_bytes(row, "big") for row in rows)[:SIZE]
    )


@pytest.mark.parametrize("size", [100, 10_000])
@pytest.mark.parametrize("shared", [0.0, 0.3, 0.5, 0.9, 1.0])
def test_similarity_is_jaccards(size: int, shared: float) -> None:
    start = round(size * (1 - shared))
    left, right = Sketch.of(some(range(size))), Sketch.of(some(range(start, start + size)))
    jaccard = shared / (2 - shared)
    # Exact while everything is kept; else 4 standard errors of a part of SIZE draws.
    error = 0.005 if size < SIZE else 4 * (jaccard * (1 - jaccard) / SIZE) ** 0.5
    assert left.similarity(right) == pytest.approx(jaccard, abs=max(error, 1e-12))
    assert left.similarity(right) == right.similarity(left)


@pytest.mark.parametrize("size", [100, 20_000])
@pytest.mark.parametrize("part", [0.05, 0.3, 1.0])
def test_overlap_is_of_the_smaller_dataset(size: int, part: float) -> None:
    """A dataset of ``part`` the size, of which all, six tenths or nothing is in the whole."""
    whole, count = Sketch.of(some(range(size, 2 * size))), round(part * size)
    for shared in (1.0, 0.6, 0.0):
        start = size - round(count * (1 - shared))
        other = Sketch.of(some(range(start, start + count)))
        sample = min(SIZE, size) * part  # of the other's records, that both sketches can see
        error = 0.1 if size < SIZE else 4 * (shared * (1 - shared) / sample) ** 0.5
        assert whole.overlap(other) == pytest.approx(shared, abs=max(error, 1e-12))
        assert whole.overlap(other) == other.overlap(whole)


def test_a_part_too_small_to_leave_a_trace_is_no_overlap() -> None:
    rows = sorted(some(range(4 * SIZE)))
    assert Sketch.of(rows).overlap(Sketch.of(rows[-3:])) == 0.0
    assert Sketch.of(rows).overlap(Sketch.of([*rows[-3:], rows[0]])) == 1.0


def test_a_sketch_of_the_first_version_is_compared_by_what_it_holds() -> None:
    """256 digests, and no word of how many."""
    rows = some(range(6000))
    now = Sketch.of(rows)
    value = now.to_json()
    old = Sketch.from_json({"total": value["total"], "lowest": value["lowest"][: 256 * 32]})
    assert (old.size, len(old.lowest)) == (256, 256)
    assert old.is_of(now)
    assert old.similarity(now) == old.overlap(now) == 1.0
    assert Sketch.of(rows[:3000]).overlap(old) == 1.0
    assert Sketch.of(rows[:3000]).similarity(old) == pytest.approx(0.5, abs=4 * (0.25 / 256) ** 0.5)
    assert Sketch.of(some(range(6000, 9000))).overlap(old) == 0.0
    few = Sketch.from_json({**Sketch.of(rows[:50]).to_json(), "size": 256})
    assert few.overlap(now) == Sketch.of(rows[:50]).overlap(now)


def test_what_is_no_dataset_is_refused() -> None:
    with pytest.raises(LedgerError, match="no rows"):
        Sketch.of([])
    with pytest.raises(LedgerError, match="16 bytes"):
        Sketch.of([b"short"])
