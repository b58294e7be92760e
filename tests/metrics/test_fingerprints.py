"""Digests find exact copies, hashes near-duplicates, and means keep the light of an image."""

import numpy as np
import pytest

from understudy.metrics.fingerprints import (
    copied,
    nearest_hashes,
    perceptual_hashes,
    pixel_digests,
    twins,
)


def pictures(seed, count=40, shape=(48, 40, 3)):
    """Smooth random pictures."""
    rng = np.random.default_rng(seed)
    coarse = rng.uniform(0, 255, size=(count, 12, 10, shape[2]))
    return coarse.repeat(4, axis=1).repeat(4, axis=2).astype(np.uint8)


def test_a_copy_is_known_by_its_digest_and_a_changed_pixel_is_not():
    private, release = pictures(0), pictures(1)
    release[3], release[7] = private[9], private[2]
    release[7, 0, 0, 0] ^= 1
    found = copied(pixel_digests(release), pixel_digests(private))
    assert np.flatnonzero(found).tolist() == [3]


def test_blank_images_are_nobodys_copies():
    blank = np.full((2, 8, 8, 3), 200, dtype=np.uint8)
    assert not copied(pixel_digests(blank), pixel_digests(blank)).any()
    assert not twins(pixel_digests(blank)).any()
    grey = blank.copy()
    grey[1, :, :, 0] = 0  # one colour, still nothing in it
    assert not copied(pixel_digests(grey), pixel_digests(grey)).any()


def test_twins_are_rows_that_a_set_holds_twice():
    drawn = pictures(0)
    drawn[5] = drawn[30]
    assert np.flatnonzero(twins(pixel_digests(drawn))).tolist() == [5, 30]


def test_hashes_stay_where_pictures_hardly_change():
    drawn = pictures(0)
    rng = np.random.default_rng(1)
    grain = np.clip(drawn + rng.normal(0, 6, drawn.shape), 0, 255).astype(np.uint8)
    lighter = np.clip(drawn * 0.8 + 20, 0, 255).astype(np.uint8)
    own = perceptual_hashes(drawn)
    for changed in (grain, lighter, drawn[:, ::2, ::2]):
        assert np.bitwise_count(own ^ perceptual_hashes(changed)).max() <= 6
    others = np.bitwise_count(own[:, None] ^ own[None])[~np.eye(40, dtype=bool)]
    assert others.min() > 10
    assert 28 < others.mean() < 36


@pytest.mark.parametrize("block", [7, 2048])
def test_the_nearest_hash_of_each_picture(monkeypatch, block):
    monkeypatch.setattr("understudy.metrics.nearest_neighbours._BLOCK", block)
    private, release = perceptual_hashes(pictures(0)), perceptual_hashes(pictures(5))
    release[3] = private[9] ^ np.uint64(0b101)
    release[30] = private[2]
    found, bits = nearest_hashes(release, private)
    every = np.bitwise_count(release[:, None] ^ private[None])
    assert bits.tolist() == every.min(axis=1).tolist()
    assert (every[np.arange(40), found] == bits).all()
    assert (found[3], bits[3], found[30], bits[30]) == (9, 2, 2, 0)
