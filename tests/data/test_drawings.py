"""Families of drawings: any size, the same for the same name, and what sets each apart."""

import numpy as np
import pytest

from understudy.data import open_source
from understudy.data.procedural import FAMILIES


def pixels(name, batch=16, **options):
    return np.concatenate([b.values for b in open_source(name, **options).batches(batch)])


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_draws_at_any_size_the_same_again(family):
    name = f"procedural:{family}?count=6&seed=3"
    images = pixels(name, size=(24, 40))
    assert (images.shape, images.dtype) == ((6, 24, 40, 3), np.uint8)
    np.testing.assert_array_equal(images, pixels(name, batch=2, size=(24, 40)))
    assert (images != pixels(f"procedural:{family}?count=6&seed=4", size=(24, 40))).any()
    assert len({image.tobytes() for image in images}) == 6
    assert pixels(f"procedural:{family}?count=1&channels=1", size=7).shape == (1, 7, 7, 1)


def test_all_is_every_family_in_turn_and_names_them():
    source = open_source("procedural:all?count=10&seed=3", size=8)
    assert source.classes == tuple(FAMILIES)
    labels = np.concatenate([batch.labels for batch in source.batches(7)])
    assert labels.tolist() == [row % len(FAMILIES) for row in range(10)]
    images = pixels("procedural:all?count=10&seed=3", size=8)
    for label, family in enumerate(FAMILIES):
        alone = pixels(f"procedural:{family}?count=10&seed=3", size=8)
        np.testing.assert_array_equal(images[labels == label], alone[labels == label])


def test_digests_depend_on_key_and_image():
    source = open_source("procedural:leaves?count=3", size=16)
    one, other = list(source.digests(b"a" * 16)), list(source.digests(b"b" * 16))
    assert len(set(one + other)) == 6
