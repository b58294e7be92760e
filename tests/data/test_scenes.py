"""Drawn scenes: lines, blocks and calm areas, the same for the same name."""

import numpy as np
import pytest

from understudy.data import open_source
from understudy.data.drawings.plane import Plane
from understudy.data.drawings.scenes import scene


def pixels(name, batch=16, **options):
    return np.concatenate([b.values for b in open_source(name, **options).batches(batch)])


@pytest.fixture(scope="module")
def scenes():
    return pixels("procedural:scenes?count=60&seed=3", size=(32, 48))


def test_the_same_name_gives_the_same_scenes_in_any_batches(scenes):
    assert scenes.shape == (60, 32, 48, 3)
    again = pixels("procedural:scenes?count=10&seed=3", batch=4, size=(32, 48))
    np.testing.assert_array_equal(again, scenes[:10])
    other = pixels("procedural:scenes?count=10&seed=4", size=(32, 48))
    assert (other != scenes[:10]).any(axis=(1, 2, 3)).all()


def test_grey_scenes_and_their_usual_number():
    grey = open_source("procedural:scenes?count=2&channels=1", size=32)
    assert next(iter(grey.batches(2))).values.shape == (2, 32, 32, 1)
    assert len(open_source("procedural:scenes")) == 6000


def test_scenes_have_sharp_edges_between_calm_areas(scenes):
    """Steps between neighbours have heavy tails: most far below their deviation, some far above."""
    steps = np.diff(scenes.astype(float).mean(axis=3), axis=2).reshape(60, -1)
    steps /= steps.std(axis=1, keepdims=True) + 1e-9
    assert np.median((steps**4).mean(axis=1)) > 5  # 3 if Gaussian
    assert np.median(np.abs(steps)) < 0.5  # 0.67 if Gaussian


def test_scenes_differ_in_light_contrast_and_colour(scenes):
    values = scenes / 255
    assert values.mean(axis=(1, 2, 3)).std() > 0.1
    contrast = values.mean(axis=3).std(axis=(1, 2))
    assert contrast.max() > 4 * contrast.min()
    assert np.ptp(values.mean(axis=(1, 2)), axis=1).mean() > 0.02


def test_a_scene_is_a_picture_of_any_size():
    made = scene(Plane.of(20, 12, 1, np.random.default_rng(0)))
    assert (made.shape, made.dtype) == ((20, 12, 1), np.float32)
    assert 0 <= made.min() <= made.max() <= 1
