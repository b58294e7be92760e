"""Public pictures: the same every time, true to their attributes, with masks that fit."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy.ndimage import binary_dilation

from understudy.playhouse import SEGMENT_CLASSES, World
from understudy.playhouse.attributes import TARGETS
from understudy.playhouse.dice import Dice
from understudy.playhouse.render import TARGET_KEYPOINTS, render
from understudy.playhouse.scene import Light
from understudy.playhouse.staging import sample_scene

EVERYTHING = World(targets=TARGETS)


def scene(target, seed, **asked):
    """A scene in plain light, so that colours are those that were painted."""
    return replace(sample_scene(target, asked, Dice(seed), Dice(seed, "vary")), light=Light())


def changed(one, other):
    return (one.image != other.image).any(axis=2)


def test_a_seed_is_a_picture():
    first = [EVERYTHING.draw(seed) for seed in range(12)]
    again = [World(targets=TARGETS).draw(seed) for seed in reversed(range(12))]
    for one, other in zip(first, reversed(again), strict=True):
        assert (one.image == other.image).all()
        assert (one.segments == other.segments).all()
        assert one.caption == other.caption
        assert one.image.shape == (64, 64, 3)
        assert one.image.dtype == one.segments.dtype == np.uint8
    assert len({one.image.tobytes() for one in first}) == 12


def test_another_process_draws_the_same():
    code = "from understudy.playhouse import World; print(World().draw(5).image.sum())"
    told = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert int(told) == World().draw(5).image.sum()


@pytest.mark.parametrize("kind", ["dog", "person", "bottle", "frame"])
def test_a_mask_is_where_the_target_is(kind):
    for seed in range(12):
        whole = scene(kind, seed)
        picture = render(whole, 64)
        (instance,) = picture.instances
        # A person's table, plate, cup or book goes with them, a dog's bowl and ball too.
        props = (picture.segments == SEGMENT_CLASSES.index("prop")) | (
            picture.segments == SEGMENT_CLASSES.index("furniture")
        )
        gone = changed(picture, render(replace(whole, actors=()), 64))
        assert gone[instance.mask].mean() > 0.97
        # What changes outside is the outline, half of it, and the shadow on the ground.
        outside = gone & ~binary_dilation(instance.mask | props, np.ones((5, 5)))
        left, _, right, bottom = instance.box.astype(int)
        outside[max(0, bottom - 9) :, max(0, left - 9) : right + 9] = False
        assert outside.sum() <= 4  # the tips of pointed ears


def test_recolouring_a_dog_changes_its_mask_only():
    for seed in range(10):
        whole = scene("dog", seed, status="sitting", coat="brown")
        (actor,) = whole.actors
        blue = replace(actor, look=replace(actor.look, coat=(40, 60, 220)))
        picture, other = render(whole, 64), render(replace(whole, actors=(blue,)), 64)
        mask = picture.instances[0].mask
        assert (other.instances[0].mask == mask).all()
        edge = binary_dilation(mask, np.ones((3, 3)))
        assert not (changed(picture, other) & ~edge).any()
        assert changed(picture, other)[mask].mean() > 0.85


@pytest.mark.parametrize("target", TARGETS)
def test_boxes_and_keypoints_fit_the_masks(target):
    world = World(targets=(target,))
    for seed in range(25):
        picture = world.draw(seed)
        assert len(picture.instances) == (2 if target == "two-objects" else 1)
        for instance in picture.instances:
            rows, columns = np.nonzero(instance.mask)
            box = (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)
            assert tuple(instance.box) == box
            index = SEGMENT_CLASSES.index(instance.name)
            assert (instance.mask == (picture.segments == index)).all()
            assert instance.names == TARGET_KEYPOINTS[instance.name]
            assert instance.keypoints.shape == (len(instance.names), 3)
            left, top, right, bottom = instance.box
            x, y, seen = instance.keypoints.T
            assert set(seen) <= {0.0, 1.0}
            assert ((seen == 0) | ((x >= 0) & (x < 64) & (y >= 0) & (y < 64))).all()
            near = (x > left - 3) & (x < right + 3) & (y > top - 3) & (y < bottom + 3)
            assert (near | (seen == 0)).all()
