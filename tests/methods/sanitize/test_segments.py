"""Objects are searched for generously, and what is left of them is found again."""

from dataclasses import replace

import numpy as np
import pytest
from tests.methods.sanitize.painted_world import (
    ColourDetector,
    ColourSegmenter,
    UnsureSegmenter,
    is_red,
    rooms,
)

from understudy.core.errors import InputError
from understudy.core.types import Images, Maps
from understudy.methods.sanitize.segments import SearchSettings, SecondLook, classes_of, search

PLAIN = SearchSettings(scales=(1.0,), flips=False, growth=0)


@pytest.mark.parametrize(
    ("noun", "classes"),
    [
        ("dog", ("dog",)),
        ("Dogs", ("dog",)),
        ("my old dog", ("dog",)),
        ("pill bottle", ("bottle",)),
        ("tv monitor", ("tv monitor, television",)),
        ("bus", ("bus",)),
    ],
)
def test_a_noun_names_classes(noun: str, classes: tuple[str, ...]) -> None:
    known = ("wall", "dog", "bottle", "tv monitor, television", "bus")
    assert classes_of(noun, known) == classes


def test_the_object_is_found_at_every_scale_and_mirrored() -> None:
    images, masks = rooms(3)
    for settings in (PLAIN, SearchSettings(growth=0), SearchSettings(scales=(2.0,), growth=0)):
        segments = search(images, ["dog"], ColourSegmenter(), settings)
        assert (segments.masks[0] == masks).mean() > 0.97
        assert not (masks & ~segments.hidden[0]).any()


def test_a_low_score_is_enough_to_hide_and_not_enough_to_be_the_object() -> None:
    images, masks = rooms(2)
    segments = search(images, ["dog"], UnsureSegmenter(), PLAIN)
    assert not segments.masks.any()
    np.testing.assert_array_equal(segments.hidden[0], masks)


def test_a_head_that_is_taken_for_a_cats_is_hidden_too() -> None:
    images, masks = rooms(3, orange=True)
    with_cats = search(images, ["dog"], ColourSegmenter(), PLAIN)
    assert not (masks & ~with_cats.hidden[0]).any()
    without = SearchSettings(scales=(1.0,), flips=False, growth=0, look_alikes=False)
    assert (masks & ~search(images, ["dog"], ColourSegmenter(), without).hidden[0]).any()


def test_what_is_an_object_of_its_own_is_no_look_alike() -> None:
    images, _ = rooms(2, orange=True)
    segments = search(images, ["dog", "cat"], ColourSegmenter(), PLAIN)
    np.testing.assert_array_equal(segments.masks[0], is_red(images))
    assert not segments.masks.all(axis=0).any()
    assert not (segments.hidden[0] & segments.masks[1]).any()


def test_no_pixel_of_a_more_private_object_is_visible() -> None:
    images, _ = rooms(2, orange=True)
    settings = SearchSettings(scales=(1.0,), flips=False, growth=2)
    segments = search(images, ["dog", "cat"], ColourSegmenter(), settings)
    dog, cat = segments.visible((2, 0), 0), segments.visible((2, 0), 1)
    assert dog.any()
    assert not (dog & segments.hidden[1]).any()
    np.testing.assert_array_equal(cat, segments.masks[1])
    np.testing.assert_array_equal(segments.secret((2, 0), below=2), segments.hidden[1])
    assert not segments.secret((2, 2), below=2).any()
    with pytest.raises(InputError, match="2 objects"):
        segments.visible((2,), 0)


def test_a_second_look_holds_back_what_a_segmenter_or_a_detector_finds() -> None:
    images, masks = rooms(4)
    clean = np.where(masks[..., None], np.uint8(80), images)
    images[:2] = clean[:2]
    for models in (
        {"segmenters": (ColourSegmenter(),)},
        {"segmenters": (), "detectors": (ColourDetector(),)},
    ):
        remnants = SecondLook(**models)(images, ["dog"])
        assert remnants.held_back.tolist() == [False, False, True, True]
        assert not (masks[2:] & ~remnants.masks[2:]).any()
        assert remnants.masks[2:].sum() < 1.3 * masks[2:].sum()
        assert not remnants.masks[:2].any()


class SmoothSegmenter(ColourSegmenter):
    """Takes everything flat for a dog, as a segmenter does that never met an empty room."""

    def segment(self, images: Images) -> Maps:
        flat = (np.abs(np.diff(images.astype(int), axis=2, append=0)).sum(axis=3) == 0).astype(int)
        return np.maximum(super().segment(images), flat)


def test_a_fill_that_looks_like_the_object_holds_nothing_back_and_the_object_does() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 140, (2, 32, 32, 3), dtype=np.uint8)
    filler = np.zeros(images.shape[:3], dtype=bool)
    filler[:, 8:24, 8:24] = True
    images[filler] = 90
    images[1, 2:7, 2:7] = (210, 40, 30)
    images[0, 12:16, 12:16] = (210, 40, 30)  # drawn by a fill: of no photo
    rooms_without = rng.integers(0, 140, (3, 32, 32, 3), dtype=np.uint8)
    settings = SearchSettings(scales=(1.0,), threshold=0.5)
    plain = SecondLook(segmenters=(SmoothSegmenter(),), settings=settings)
    assert plain(images, ["dog"], filler).held_back.all()
    compared = replace(plain, rooms=rooms_without)
    remnants = compared(images, ["dog"], filler)
    assert remnants.held_back.tolist() == [False, True]
    assert not (remnants.masks & filler).any()
    assert compared(images, ["dog"]).held_back.all()  # without a filler all of it is of the photo
    with pytest.raises(InputError, match="do not fill"):
        replace(plain, rooms=rooms_without[:, :16])(images, ["dog"], filler)


def test_the_bound_is_a_part_of_the_pixels() -> None:
    images, masks = rooms(1)
    images[0] = np.where(masks[0][..., None], np.uint8(80), images[0])
    images[0, 5, 5:8] = (210, 40, 30)
    settings = SearchSettings(scales=(1.0,), flips=False, threshold=0.5)
    for bound, held_back in ((2.5 / 1024, True), (3.5 / 1024, False)):
        look = SecondLook(segmenters=(ColourSegmenter(),), settings=settings, bound=bound)
        remnants = look(images, ["dog"])
        assert remnants.areas.tolist() == [3 / 1024]
        assert remnants.held_back.tolist() == [held_back]
