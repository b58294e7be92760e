"""Latents on a grid: described by how they look, and made again out of public ones."""

import numpy as np
import pytest
import scipy

from understudy.steps.grid import GridSpace, description_parts

SHAPE = (5, 8, 8)
LAYOUT = slice(5, 37)


def latents(count, shape=SHAPE, seed=0):
    """Patches, ramps and noise, with channels that go together."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(count, *shape)) * rng.lognormal(0, 0.5, (count, shape[0], 1, 1))
    rows[:, :, : shape[1] // 2] += rng.normal(size=(count, shape[0], 1, 1))
    mix = np.random.default_rng(99).normal(size=(shape[0], shape[0]))
    mixed = np.einsum("cd,ndhw->nchw", mix, rows) + rng.normal(size=(count, shape[0], 1, 1))
    return mixed.reshape(count, -1).astype(np.float32)


@pytest.fixture(scope="module")
def space():
    return GridSpace.of(latents(400), SHAPE)


def test_a_description_does_not_say_where_things_are(space):
    rows = latents(20, seed=1).reshape(20, *SHAPE)
    seen = np.delete(space.forward(rows.reshape(20, -1)), LAYOUT, axis=1)
    for moved in (rows[..., ::-1], rows[:, :, ::-1], rows.swapaxes(2, 3)):
        described = np.delete(space.forward(moved.reshape(20, -1)), LAYOUT, axis=1)
        np.testing.assert_allclose(described, seen, atol=2e-2)
    brighter = np.delete(space.forward(1.5 * rows.reshape(20, -1)), LAYOUT, axis=1)
    assert np.abs(brighter - seen).mean() > 0.2


def test_the_layout_says_where_things_are(space):
    rows = latents(20, seed=1).reshape(20, *SHAPE)
    upright = space.forward(rows.reshape(20, -1))[:, LAYOUT]
    mirrored = space.forward(rows[..., ::-1].reshape(20, -1))[:, LAYOUT]
    assert np.abs(mirrored - upright).mean() > 0.3
    described = space.description
    wanted = upright * described.usual[1, LAYOUT] + described.usual[0, LAYOUT]
    axes = described.layout
    waves = scipy.fft.dctn(rows, axes=(2, 3), norm="ortho")
    flipped = (waves[:, :, :4, :4].reshape(20, 5, 16)[:, :, 1:]).reshape(20, -1)
    np.testing.assert_allclose(flipped @ axes, wanted, atol=1e-2)


def test_a_public_latent_comes_back_as_it_was(space):
    back = space.backward(space.forward(space.public[:40]).astype(np.float64), None)
    off = np.abs(back - space.public[:40])
    assert np.median(off) < 0.02
    assert off.mean() < 0.05


def test_means_energies_and_correlations_are_those_wanted(space):
    wanted = space.forward(latents(200, seed=3))
    got = space.forward(space.backward(wanted.astype(np.float64), None))
    unmoved = slice(LAYOUT.start, description_parts(SHAPE)[0])
    off = np.delete(np.sqrt(((got - wanted) ** 2).mean(axis=0)), unmoved)
    assert off.max() < 0.35
    assert off.mean() < 0.1
    near = space.forward(space.public[space._nearest(wanted)])
    assert off.mean() < 0.3 * np.sqrt(((near - wanted) ** 2).mean(axis=0)).mean()


def test_gathered_detail_and_skewness_are_seen(space):
    rng = np.random.default_rng(4)
    even = rng.choice([-1.0, 1.0], (50, *SHAPE))
    gathered = even.copy()
    gathered[:, :, 2:] *= 0.1
    seen = [space.forward(rows.reshape(50, -1).astype(np.float32)) for rows in (even, gathered)]
    gathering = slice(LAYOUT.stop + 4, LAYOUT.stop + 6)
    assert (seen[1][:, gathering] > seen[0][:, gathering] + 1).mean() > 0.9
    skewed = -np.log(rng.random((50, *SHAPE))).reshape(50, -1).astype(np.float32)
    place = slice(LAYOUT.stop, LAYOUT.stop + 4)
    sums = (
        space.forward(skewed)[:, place] * space.description.usual[1, place]
        + space.description.usual[0, place]
    )
    opposite = (
        space.forward(-skewed)[:, place] * space.description.usual[1, place]
        + space.description.usual[0, place]
    )
    np.testing.assert_allclose(sums, -opposite, atol=1e-3)
    assert np.abs(sums).mean() > 0.2
