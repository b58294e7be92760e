"""Families of drawings: any size, the same for the same name, and what sets each apart."""

import numpy as np
import pytest

from understudy.core.errors import ConfigError
from understudy.data import open_source
from understudy.data.drawings.plane import Plane, spline
from understudy.data.procedural import FAMILIES


def pixels(name, batch=16, **options):
    return np.concatenate([b.values for b in open_source(name, **options).batches(batch)])


def grey(family, count=24, size=24):
    return pixels(f"procedural:{family}?count={count}&channels=1", size=size)[..., 0] / 255


def slope(images):
    """Of the logarithm of the mean power over that of the frequency."""
    power = (np.abs(np.fft.fft2(images)) ** 2).mean(axis=0)
    rows = np.hypot(*np.meshgrid(*[np.fft.fftfreq(images.shape[1])] * 2))
    inside = (rows > 0) & (rows < 0.5)
    return np.polyfit(np.log(rows[inside]), np.log(power[inside]), 1)[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_draws_at_any_size_the_same_again(family):
    name = f"procedural:{family}?count=6&seed=3"
    images = pixels(name, size=(24, 40))
    assert (images.shape, images.dtype) == ((6, 24, 40, 3), np.uint8)
    np.testing.assert_array_equal(images, pixels(name, batch=2, size=(24, 40)))
    assert (images != pixels(f"procedural:{family}?count=6&seed=4", size=(24, 40))).any()
    assert len({image.tobytes() for image in images}) == 6
    assert pixels(f"procedural:{family}?count=1&channels=1", size=7).shape == (1, 7, 7, 1)


@pytest.mark.parametrize("family", FAMILIES)
def test_images_of_a_family_differ_in_light_and_have_contrast(family):
    images = grey(family)
    assert images.mean(axis=(1, 2)).std() > 0.05
    assert np.median(images.std(axis=(1, 2))) > 0.05


def test_all_is_every_family_in_turn_and_names_them():
    source = open_source("procedural:all?count=10&seed=3", size=8)
    assert source.classes == tuple(FAMILIES)
    labels = np.concatenate([batch.labels for batch in source.batches(7)])
    assert labels.tolist() == [row % len(FAMILIES) for row in range(10)]
    images = pixels("procedural:all?count=10&seed=3", size=8)
    for label, family in enumerate(FAMILIES):
        alone = pixels(f"procedural:{family}?count=10&seed=3", size=8)
        np.testing.assert_array_equal(images[labels == label], alone[labels == label])


def test_smooth_drawings_are_smoother_than_surfaces():
    assert slope(grey("gradients")) < slope(grey("textures")) - 0.5


def test_handwriting_is_mostly_ground_and_about_the_middle():
    images = grey("strokes", 50, 28)
    ground = np.median(images, axis=(1, 2), keepdims=True)
    ink = np.abs(images - ground) > 0.25
    assert 0.02 < ink.mean() < 0.35
    assert ink[:, 10:18, 10:18].mean() > 2 * ink[:, [0, 1, -2, -1]].mean()


def test_garments_fill_the_middle_and_leave_the_corners():
    images = grey("garments", 40, 28)
    corners = images[:, [0, 0, -1, -1], [0, -1, 0, -1]].mean(axis=1)
    off = np.abs(images - corners[:, None, None])
    assert off[:, 10:18, 10:18].mean() > 2 * off[:, [0, -1]].mean()


def test_a_spline_goes_through_its_points():
    points = np.array([[0.0, 0.0], [1.0, 0.5], [0.5, 1.0], [-0.5, 0.2]])
    np.testing.assert_allclose(spline(points, 4)[::4], points)
    closed = spline(points, 4, closed=True)
    np.testing.assert_allclose(closed[::4], points)
    assert len(closed) == 16


def test_curves_and_outlines_are_where_their_coordinates_say():
    plane = Plane.of(20, 40, 1, np.random.default_rng(0))
    square = np.array([[0.5, -0.25], [1.0, -0.25], [1.0, 0.25], [0.5, 0.25]])
    shown = plane.polygons([(square, 1.0)]) > 0.5
    inside = (plane.across > 0.5) & (np.abs(plane.down) < 0.25)
    assert (shown == inside).mean() > 0.97
    line = plane.curves([(np.array([[-0.9, 0.2], [0.9, 0.2]]), np.full(2, 0.1), 0.5)])
    near = np.abs(plane.down - 0.2) < 0.04
    assert (line[near & (np.abs(plane.across) < 0.8)] > 0.35).all()
    assert line[plane.down < 0].max() == 0


def test_grey_and_large_images():
    grey = open_source("procedural:leaves?count=2&channels=1", size=160)
    assert grey.shape == (160, 160, 1)
    assert next(iter(grey.batches(2))).values.shape == (2, 160, 160, 1)
    assert open_source("procedural:leaves").shape == (64, 64, 3)
    assert len(open_source("procedural:leaves")) == 4000
    assert len(open_source("procedural:scenes")) == 6000


def test_images_have_edges_black_ground_and_a_falling_spectrum():
    images = pixels("procedural:leaves?count=200&channels=1", size=32)[..., 0] / 255
    assert 0.1 < (images == 0).mean() < 0.7
    power = (np.abs(np.fft.fft2(images)) ** 2).mean(axis=0)[0, 1:17]
    slope = np.polyfit(np.log(np.arange(1, 17)), np.log(power), 1)[0]
    assert -3.2 < slope < -1.2


def test_digests_depend_on_key_and_image():
    source = open_source("procedural:leaves?count=3", size=16)
    one, other = list(source.digests(b"a" * 16)), list(source.digests(b"b" * 16))
    assert len(set(one + other)) == 6


@pytest.mark.parametrize(
    "name",
    [
        "procedural:fractals",
        "procedural:leaves?size=3",
        "procedural:leaves?count=many",
        "procedural:leaves?count=0",
        "procedural:leaves?channels=2",
        "procedural:scenes?count=0",
        "procedural:scenes?seed=-1",
    ],
)
def test_what_does_not_exist_is_refused(name):
    with pytest.raises(ConfigError, match="procedural:"):
        open_source(name)


@pytest.fixture(scope="module")
def scenes():
    return pixels("procedural:scenes?count=60&seed=3", size=(32, 48))


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
