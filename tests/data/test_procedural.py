"""Public images made as they are read."""

import numpy as np
import pytest

from understudy.core.errors import ConfigError
from understudy.data import open_source


def pixels(name, batch=16, **options):
    return np.concatenate([b.values for b in open_source(name, **options).batches(batch)])


def test_the_same_name_gives_the_same_images_in_any_batches():
    name = "procedural:leaves?count=10&seed=3"
    images = pixels(name, size=(24, 32))
    assert images.shape == (10, 24, 32, 3)
    assert images.dtype == np.uint8
    np.testing.assert_array_equal(images, pixels(name, batch=3, size=(24, 32)))
    assert (images != pixels("procedural:leaves?count=10&seed=4", size=(24, 32))).any()
    assert len({image.tobytes() for image in images}) == 10


def test_grey_and_large_images():
    grey = open_source("procedural:leaves?count=2&channels=1", size=160)
    assert grey.shape == (160, 160, 1)
    assert next(iter(grey.batches(2))).values.shape == (2, 160, 160, 1)
    assert open_source("procedural:leaves").shape == (64, 64, 3)
    assert len(open_source("procedural:leaves")) == 4000


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
