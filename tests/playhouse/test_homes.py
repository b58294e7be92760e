"""Homes keep their look and their room; the gap moves them away from the public world."""

import pytest

from understudy.playhouse import Home
from understudy.playhouse.homes import TASKS

LOOKS = {
    "pet-status": ("coat", "size", "pattern", "collar"),
    "activity": ("shirt", "trousers", "hair"),
    "bottle": ("bottle", "cap"),
    "two-objects": ("bottle", "cap", "frame"),
}


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("gap", [0.0, 1.0])
def test_a_home_keeps_its_look_and_its_room(task, gap):
    home = Home(4, gap, task)
    found = [home.draw(seed) for seed in range(30)]
    for key in (*LOOKS[task], "wall", "paper", "floor", "window", "style"):
        assert len({picture.attributes.get(key) for picture in found}) == 1
    assert {picture.unit for picture in found} == {"home-4"}
    assert len({picture.image.tobytes() for picture in found}) == 30
    assert len({picture.attributes["place"] for picture in found} & {"sofa", "bed"}) <= 1
    assert len({picture.attributes["light"] for picture in found}) > 1


def test_homes_differ_and_repeat():
    looks = {
        tuple(Home(number).draw(0).attributes.get(key) for key in ("coat", "size", "wall", "floor"))
        for number in range(20)
    }
    assert len(looks) > 12
    one, again = Home(3).draw(8), Home(3).draw(8)
    assert (one.image == again.image).all()
    assert one.caption == again.caption
    assert (one.image != Home(3, seed=1).draw(8).image).any()


def test_masks_follow_the_tilted_camera():
    for number in range(10):
        picture = Home(number, 2.0).draw(0)
        (dog,) = picture.instances
        assert dog.mask.mean() > 0.04
        seen = dog.keypoints[dog.keypoints[:, 2] == 1]
        left, top, right, bottom = dog.box
        assert ((seen[:, 0] > left - 3) & (seen[:, 0] < right + 3)).all()
        assert ((seen[:, 1] > top - 3) & (seen[:, 1] < bottom + 3)).all()
