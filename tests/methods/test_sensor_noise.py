"""The noise of a camera: measured, drawn, and carried across the gap."""

import numpy as np
import pytest
from tests.run.samples import quick_run, save

from understudy.data import open_source
from understudy.methods.alignment.sensor_noise import noise_levels, with_sensor_noise

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


@pytest.mark.parametrize("deviation", [3.0, 10.0])
def test_the_level_is_the_deviation_of_the_noise(deviation):
    found = noise_levels(noisy(smooth(20), deviation, RNG(0), grey=False)).mean(axis=0)
    np.testing.assert_allclose(found, deviation, rtol=0.08)


def test_noise_of_brightness_is_not_noise_of_colour():
    found = noise_levels(noisy(smooth(20), 6.0, RNG(0), grey=True)).mean(axis=0)
    assert found[0] == pytest.approx(6 * 3**0.5, rel=0.08)
    assert found[1:].max() < 1.0


def test_noise_brings_each_image_to_its_own_level():
    levels = np.array([[0.0, 0, 0], [10, 0, 0], [5, 5, 5]])
    made = with_sensor_noise(smooth(3, side=96), levels, RNG(1))
    np.testing.assert_allclose(noise_levels(made)[1:], levels[1:], atol=0.7)
    assert (made[0] == smooth(1, side=96)[0]).all()


def test_noise_that_is_there_is_not_added_again():
    there = noisy(smooth(1, side=96), 8.0, RNG(0), grey=False)
    assert (with_sensor_noise(there, np.full((1, 3), 4.0), RNG(1)) == there).all()
    more = noise_levels(with_sensor_noise(there, np.full((1, 3), 12.0), RNG(1)))
    np.testing.assert_allclose(more, 12, rtol=0.1)


# A release

GREY = 8.0
"""Deviation of the private images' noise, the same in all colours of a pixel."""


def gradients(folder, per_class, seed, deviation):
    """Two classes of gradients, upwards and sideways, and what the camera adds."""
    rng = np.random.default_rng(seed)
    for label, name in enumerate(("up", "across")):
        (folder / name).mkdir(parents=True)
        for number in range(per_class):
            along = np.linspace(*sorted(rng.uniform(40, 200, 2)), 24)
            plain = np.broadcast_to(along[:, None] if label == 0 else along[None, :], (24, 24))
            tinted = plain[..., None] * rng.uniform(0.7, 1.0, 3)
            values = tinted + deviation * rng.normal(size=(24, 24, 1))
            save(values.round().clip(0, 255).astype(np.uint8), folder / name / f"{number}.png")
    return folder


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    return gradients(folder / "private", 150, 0, GREY), gradients(folder / "base", 60, 1, 0.0)


def level(homes, out, epsilon=20.0, **settings):
    """Mean noise levels of a release, and its stages."""
    private, base = homes
    out.mkdir(exist_ok=True)
    options = {"method": "alignment", "encoder": "embedded:dct", "decoder": "embedded:dct"}
    options |= {"base": str(base), "count": None, "settings": {"clusters": 1, **settings}}
    made = quick_run(private, out, epsilon=epsilon, **options)
    (batch,) = open_source(made.release).batches(1000)
    return noise_levels(batch.values).mean(axis=0), [stage.stage for stage in made.receipt.stages]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"clusters": 2}, {"conditional": False}])
def test_a_release_has_as_much_noise_as_the_private_images(homes, tmp_path, settings):
    found, stages = level(homes, tmp_path, **settings)
    assert found[0] == pytest.approx(GREY * 3**0.5, rel=0.15)
    assert found[1:].max() < 2.0  # it is the same in all colours
    assert "sensor noise" not in stages  # it costs no release of its own


@pytest.mark.slow
def test_a_gap_that_may_be_privacy_noise_is_not_drawn(homes, tmp_path):
    # Noise passes for a gap now and then: the middle of five runs is looked at.
    levels = [level(homes, tmp_path / str(run), epsilon=0.01)[0].max() for run in range(5)]
    assert np.median(levels) < 2.0


@pytest.mark.slow
def test_clean_images_stay_clean(homes, tmp_path):
    clean = gradients(tmp_path / "clean", 150, 2, 0.0)
    assert level((clean, homes[1]), tmp_path)[0].max() < 2.0
