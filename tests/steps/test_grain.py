import numpy as np
import pytest

from understudy.steps.grain import MOST, axes_of, noise_levels, with_grain

RNG = np.random.default_rng


def smooth(count, side=48, channels=3):
    """Gradients with an edge in each."""
    along = np.linspace(60, 160, side)
    image = along[:, None] * 0.5 + along[None, :] * 0.5
    image[:, side // 2 :] += 40
    return np.repeat(image[None, :, :, None], count, 0).repeat(channels, 3).astype(np.uint8)


def noisy(images, deviation, rng, *, grey):
    shape = (*images.shape[:3], 1) if grey else images.shape
    values = images + deviation * rng.normal(size=shape)
    return values.round().clip(0, 255).astype(np.uint8)


@pytest.mark.parametrize("channels", [1, 3])
def test_axes_are_orthonormal(channels):
    axes = axes_of(channels)
    np.testing.assert_allclose(axes @ axes.T, np.eye(channels), atol=1e-6)


def test_clean_pictures_have_no_noise():
    assert noise_levels(smooth(3)).max() < 2.0


@pytest.mark.parametrize("deviation", [3.0, 10.0])
def test_the_level_is_the_deviation_of_the_noise(deviation):
    found = noise_levels(noisy(smooth(20), deviation, RNG(0), grey=False)).mean(axis=0)
    np.testing.assert_allclose(found, deviation, rtol=0.08)


def test_noise_of_brightness_is_not_noise_of_colour():
    found = noise_levels(noisy(smooth(20), 6.0, RNG(0), grey=True)).mean(axis=0)
    assert found[0] == pytest.approx(6 * 3**0.5, rel=0.08)
    assert found[1:].max() < 1.0


def test_a_level_is_never_more_than_the_most():
    wild = RNG(0).integers(0, 2, (2, 16, 16, 1), dtype=np.uint8) * 255
    assert (noise_levels(wild) == MOST).all()


def test_pictures_too_small_have_none():
    assert not noise_levels(RNG(0).integers(0, 256, (2, 2, 9, 3), dtype=np.uint8)).any()
    assert noise_levels(np.zeros((0, 8, 8, 3), np.uint8)).shape == (0, 3)


def test_grain_brings_each_picture_to_its_own_level():
    levels = np.array([[0.0, 0, 0], [10, 0, 0], [5, 5, 5]])
    made = with_grain(smooth(3, side=96), levels, RNG(1))
    np.testing.assert_allclose(noise_levels(made)[1:], levels[1:], atol=0.7)
    assert (made[0] == smooth(1, side=96)[0]).all()


def test_grain_that_is_there_is_not_added_again():
    there = noisy(smooth(1, side=96), 8.0, RNG(0), grey=False)
    assert (with_grain(there, np.full((1, 3), 4.0), RNG(1)) == there).all()
    more = noise_levels(with_grain(there, np.full((1, 3), 12.0), RNG(1)))
    np.testing.assert_allclose(more, 12, rtol=0.1)
