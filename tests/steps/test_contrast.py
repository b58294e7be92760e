"""Pixels get the mean and the mean square that were released."""

import numpy as np
import pytest

from understudy.steps.contrast import Contrast


@pytest.fixture(scope="module")
def grey():
    """Mostly black pixels, and some grey ones."""
    return np.clip(np.random.default_rng(0).normal(-0.1, 0.3, 20000), 0, 1)


@pytest.mark.parametrize("more", [1.1, 1.5])
def test_greyer_pixels_get_the_contrast_that_is_wanted(grey, more):
    mean, square = grey.mean(), more * np.square(grey).mean()
    made = Contrast.of(grey, mean, square)
    assert made.gain > 1
    assert made(grey).mean() == pytest.approx(mean, rel=0.01)
    assert np.square(made(grey)).mean() == pytest.approx(square, rel=0.01)


def test_pixels_with_as_much_contrast_stay_as_they_are(grey):
    made = Contrast.of(grey, grey.mean(), 0.9 * np.square(grey).mean())
    np.testing.assert_array_equal(made(grey), grey)


def test_a_contrast_beyond_black_and_white_is_no_stronger_than_that(grey):
    made = Contrast.of(grey, grey.mean(), 2.0)
    assert 1 < made.gain <= 4
    assert made(grey).mean() == pytest.approx(grey.mean(), rel=0.01)
