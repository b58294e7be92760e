"""The playhouse by name: sources that stream and read again identically."""

import pytest

from understudy.data import open_source
from understudy.playhouse import World, open_playhouse
from understudy.testing.source_suite import sound_rows

SMALL = "homes=3&per_home=4&size=32"


@pytest.mark.parametrize(
    ("name", "classes"),
    [
        (f"playhouse:pet-status?{SMALL}", ("eating", "playing", "sitting", "sleeping")),
        (f"playhouse:activity?{SMALL}", ("drinking", "eating", "reading", "walking")),
        (f"playhouse:bottle?{SMALL}", ("all",)),
        (f"playhouse:two-objects?{SMALL}&gap=2", ("all",)),
    ],
)
def test_homes_hold_to_what_sources_must(name, classes):
    source = open_source(name)
    values, _, units = sound_rows(source)
    assert source.classes == classes
    assert values.shape == (12, 32, 32, 3)
    assert units.tolist() == ["home-0", "home-1", "home-2"] * 4
    assert len({image.tobytes() for image in values}) == 12


def test_splits_are_other_pictures_of_the_same_homes():
    name = f"playhouse:pet-status?{SMALL}"
    train, test = open_playhouse(name), open_playhouse(f"{name}&split=test")
    seen = {train.drawn_image(row).image.tobytes() for row in range(12)}
    assert not seen & {test.drawn_image(row).image.tobytes() for row in range(12)}
    for row in range(3):
        assert train.drawn_image(row).unit == test.drawn_image(row).unit
        assert train.drawn_image(row).attributes["coat"] == test.drawn_image(row).attributes["coat"]
    # `--test NAME` asks for the other half without saying so in the name.
    by_option = open_source(name, split="test")
    assert (by_option.drawn_image(5).image == test.drawn_image(5).image).all()
    public = [open_playhouse(f"playhouse:world?count=2&split={half}") for half in ("train", "test")]
    assert (public[0].drawn_image(0).image != public[1].drawn_image(0).image).any()


def test_other_homes_and_other_streets():
    name = f"playhouse:pet-status?{SMALL}"
    later, street = open_playhouse(f"{name}&first=2"), open_playhouse(f"{name}&seed=1")
    first = open_playhouse(name)
    assert (later.drawn_image(0).image == first.drawn_image(2).image).all()
    assert (street.drawn_image(0).image != first.drawn_image(0).image).any()
    worlds = [open_playhouse(f"playhouse:world?seed={seed}&count=2") for seed in (0, 1)]
    assert (worlds[0].drawn_image(0).image == World().draw(0).image).all()
    assert (worlds[0].drawn_image(0).image != worlds[1].drawn_image(0).image).any()
