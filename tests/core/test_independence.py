"""Products and calls in which a record's bits depend on that record alone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from understudy.core.errors import InputError
from understudy.core.independence import (
    constantly,
    even_parts,
    filled,
    product,
    rounded,
    row_softmax,
    scaled_rows,
)
from understudy.privacy.queries import ClippedGradients
from understudy.steps.grid import GridSpace
from understudy.steps.row_arithmetic import unit_rows
from understudy.steps.space import Frame, Leading, Shortening, Sphere, principal_frame, whitening

RNG = np.random.default_rng(0)
WIDE = RNG.normal(size=(400, 40)).astype(np.float32)
AXES = np.linalg.qr(RNG.normal(size=(40, 7)))[0]
GRID = RNG.normal(size=(60, 5 * 8 * 8)).astype(np.float32)


def frame() -> Frame:
    covariance = np.cov(WIDE.T.astype(np.float64))
    return principal_frame(covariance, 9, 3, mahalanobis=True, rest=True)


def gradients(rows: np.ndarray) -> np.ndarray:
    theta = np.random.default_rng(3).normal(size=(41, 7))
    query = ClippedGradients(theta, 1.0)
    return query.contributions(rows, np.zeros(len(rows), dtype=np.int64))[1]


TRANSFORMS = {
    "product": (WIDE, lambda rows: product(rows, AXES)),
    "whitening": (WIDE, whitening(WIDE, 0.7, 11).forward),
    "leading": (WIDE, Leading(40, 13).forward),
    "sphere": (WIDE, Sphere(np.full(40, 0.3)).forward),
    "frame": (WIDE, frame().forward),
    "unit length": (WIDE, unit_rows),
    "shortening": (WIDE, Shortening.of(WIDE.astype(np.float64))),
    "probabilities": (WIDE, lambda rows: row_softmax(50.0 * rows.astype(np.float64))),
    "gradients": (WIDE, lambda rows: gradients(rows)),
    "descriptions": (GRID, GridSpace.of(GRID, (5, 8, 8)).forward),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_row_of_a_view_is_the_same_alone_in_any_number_and_in_any_place(name):
    rows, transform = TRANSFORMS[name]
    whole = transform(rows)
    for count in (1, 2, 7, 8, 9, 31, 195, 196, 300):
        count = min(count, len(rows))
        np.testing.assert_array_equal(transform(rows[:count].copy()), whole[:count])
        np.testing.assert_array_equal(transform(rows[-count:].copy()), whole[-count:])
    order = np.random.default_rng(1).permutation(len(rows))
    np.testing.assert_array_equal(transform(rows[order]), whole[order])


@given(
    dim=st.integers(1, 300),
    width=st.integers(1, 5),
    scale=st.sampled_from([1e-20, 1.0, 1e15]),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=60, deadline=None)
def test_a_product_is_exact_so_no_order_of_its_sums_changes_it(dim, width, scale, seed):
    rng = np.random.default_rng(seed)
    rows = (scale * rng.normal(size=(9, dim)) ** 3).astype(np.float32)
    matrix = rng.normal(size=(dim, width)) ** 3
    found = product(rows, matrix)
    error = np.abs(found - rows.astype(np.float64) @ matrix)
    lengths = np.linalg.norm(rows.astype(np.float64), axis=1)
    norms = lengths[:, None] * np.linalg.norm(matrix, axis=0)
    assert (error <= 2.0**-23 * np.sqrt(dim) * norms).all()
    # Half of the columns first: the sum is taken in another order, and by two kernels.
    left, right, half = rounded(rows), rounded(matrix.T).T, dim // 2
    parts = left[:, half:] @ right[half:] + left[:, :half] @ right[:half]
    np.testing.assert_array_equal(found, parts)


def test_a_product_of_values_that_are_not_finite_is_refused():
    rows = WIDE[:3].copy()
    rows[1, 2] = np.nan
    with pytest.raises(InputError, match="NaN"):
        product(rows, np.eye(40))


@given(count=st.integers(0, 40), size=st.integers(1, 17))
def test_all_parts_have_one_shape_and_hold_every_record_once(count, size):
    values = np.arange(1, count + 1)[:, None]
    parts = list(even_parts(values, size))
    assert len({len(part) for _, part in parts}) <= 1
    back = [part[: rows.stop - rows.start] for rows, part in parts]
    assert np.concatenate([values[:0], *back]).tolist() == values.tolist()
    if count > size:
        assert all(len(part) == size for _, part in parts)


@given(count=st.integers(1, 40), rows=st.integers(1, 17))
def test_every_call_has_as_many_records(count, rows):
    calls = []

    def double(part):
        calls.append(len(part))
        return 2 * part

    values = np.arange(count)[:, None]
    assert constantly(double, values, rows).tolist() == (2 * values).tolist()
    assert set(calls) == {rows}


def test_a_call_that_loses_a_record_is_refused():
    with pytest.raises(InputError, match="one row for each"):
        constantly(lambda part: part[1:], np.zeros((5, 2)), 4)


@pytest.mark.parametrize("clipped", [0, 1, 9, 10, 30, 40])
@pytest.mark.parametrize("in_place", [False, True])
def test_rows_times_a_number_are_the_same_products_where_most_numbers_are_equal(clipped, in_place):
    rows = WIDE[:40].astype(np.float64)
    rows[:clipped] *= 1e250
    factors = np.full(40, 1e100 / 3)
    factors[:clipped] = np.linspace(1e-250, 1e-240, clipped)
    wanted = rows * factors[:, None]
    assert np.array_equal(scaled_rows(rows, factors, rows if in_place else None), wanted)


def test_no_rows_and_numbers_that_are_none_are_multiplied_too():
    assert scaled_rows(np.zeros((0, 3)), np.zeros(0)).shape == (0, 3)
    factors = np.array([1.0, 1.0, 1.0, 1.0, np.nan])
    assert np.isnan(scaled_rows(np.ones((5, 2)), factors)).sum() == 2


def test_what_fills_up_a_batch_is_black():
    images = np.full((2, 3, 3, 1), 9, np.uint8)
    whole = filled(images, 5)
    assert whole.dtype == np.uint8
    assert whole.shape == (5, 3, 3, 1)
    assert not whole[2:].any()
    assert filled(images, 2) is images


def test_probabilities_are_those_of_a_softmax():
    logits = RNG.normal(size=(300, 7)) * 10.0 ** RNG.integers(-3, 4, (300, 1))
    logits[:2] = [[0.0] * 7, [-1e300, 0, 1e300, 0, 0, 0, 0]]
    powers = np.exp(np.maximum(logits - logits.max(axis=1, keepdims=True), -700))
    expected = powers / powers.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(row_softmax(logits), expected, rtol=1e-12, atol=1e-300)
    assert row_softmax(logits)[1, 2] == 1


def test_results_that_a_function_writes_into_one_array_are_each_their_own():
    """A view of a plug-in: all rows had those of the last call, and one record moved them."""
    place = np.empty((4, 2))

    def doubled(values):
        return np.multiply(values, 2, out=place)

    values = np.arange(20.0).reshape(10, 2)
    np.testing.assert_array_equal(constantly(doubled, values, 4), 2 * values)


def test_rows_of_several_lengths_are_refused():
    widths = iter((2, 1))
    with pytest.raises(InputError, match="several lengths"):
        constantly(lambda values: values[:, : next(widths)], np.zeros((5, 2)), 4)
