"""Backgrounds tell nothing of their object, and a segmenter that lies does not get past."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.methods.sanitize.painted_world import (
    SIDE,
    ColourSegmenter,
    LyingSegmenter,
    is_red,
    rooms,
)

from understudy.core.errors import InputError
from understudy.core.types import Images, Maps, Masks
from understudy.methods.sanitize.background import HoleSettings, backgrounds, holes_of
from understudy.methods.sanitize.sanitizers import PhotoPart, SegmentSanitizer
from understudy.methods.sanitize.segments import SearchSettings, SecondLook, search

LOOK = SecondLook(segmenters=(ColourSegmenter(),), bound=0.002)
ONCE = SearchSettings(scales=(1.0,), flips=False, growth=1)


def sent(photos: Images, hidden: Masks, **options):
    holes = HoleSettings(**{"grid": 8, "distance": 2, **options})
    return backgrounds(photos, hidden, ["dog"], LOOK, settings=holes)


def test_the_room_behind_the_dog_is_taken_from_other_photos() -> None:
    photos, masks = rooms(8)
    room = np.median(photos, axis=0)
    result = sent(photos, masks)
    assert not result.remnants.held_back.any()
    assert result.unseen == 0
    assert np.abs(result.images.astype(int) - room).max() <= 2
    assert result.images.shape == photos.shape


def test_all_photos_of_a_camera_have_one_hole_of_whole_cells() -> None:
    _, masks = rooms(4)
    holes = holes_of(masks, HoleSettings(grid=8))
    assert (holes == holes[0]).all()
    cells = holes[0].reshape(4, 8, 4, 8)
    assert (cells.all(axis=(1, 3)) == cells.any(axis=(1, 3))).all()
    alone = holes_of(masks, HoleSettings(grid=8, shared=False))
    assert (alone.any(axis=0) == holes[0]).all()
    assert not (masks & ~alone).any()


def test_a_hole_does_not_depend_on_the_outline_inside_its_cells() -> None:
    photos, masks = rooms(5)
    corners = np.zeros_like(masks)
    for mask, corner in zip(masks, corners, strict=True):
        rows, columns = np.nonzero(mask)
        corner[rows.min() : rows.max() + 1, columns.min()] = True
        corner[rows.max(), columns.min() : columns.max() + 1] = True
    one, other = sent(photos, masks), sent(photos, corners)
    np.testing.assert_array_equal(one.images, other.images)


@pytest.mark.parametrize("colour", [(20, 20, 220), (250, 250, 40)])
def test_the_fill_has_nothing_of_the_objects_colour(colour: tuple[int, int, int]) -> None:
    """Also where the place was free in no photo, and at the rim, where pixels are mixed."""
    photos, masks = rooms(1)
    rim = np.zeros_like(masks)
    rows, columns = np.nonzero(masks[0])
    rim[0, rows.min() - 1 : rows.max() + 2, columns.min() - 1 : columns.max() + 2] = True
    others = photos.copy()
    others[masks] = colour
    mixed = rim & ~masks
    photos[mixed] = photos[mixed] // 2 + np.array((105, 20, 15), dtype=np.uint8)
    others[mixed] = others[mixed] // 2 + np.array(colour, dtype=np.uint8) // 2
    np.testing.assert_array_equal(sent(photos, masks).images, sent(others, masks).images)


def test_what_the_first_search_missed_is_taken_out_by_the_second() -> None:
    photos, masks = rooms(6)
    missed = masks.copy()
    missed[:, :, ::2] = False
    missed[0] = False
    assert sent(photos, missed, rounds=0).remnants.held_back.any()
    result = sent(photos, missed, rounds=1)
    assert not result.remnants.held_back.any()
    assert not is_red(result.images).any()


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    lies=arrays(np.bool_, (3, SIDE, SIDE), elements=st.booleans(), fill=st.booleans()),
    orange=st.booleans(),
    shared=st.booleans(),
    rounds=st.integers(0, 2),
)
def test_a_segmenter_that_lies_cannot_get_past_the_second_look(
    lies: Masks, orange: bool, shared: bool, rounds: int
) -> None:
    photos, _ = rooms(3, orange=orange)
    segments = search(photos, ["dog"], LyingSegmenter(lies), ONCE)
    result = sent(photos, segments.hidden[0], shared=shared, rounds=rounds)
    left = is_red(result.images[~result.remnants.held_back]).mean(axis=(1, 2))
    assert (left <= LOOK.bound).all()


@settings(max_examples=40, deadline=None)
@given(lies=arrays(np.int64, (3, SIDE, SIDE), elements=st.integers(0, 2), fill=st.integers(0, 2)))
def test_nor_with_another_object_that_is_sent_whole(lies: Maps) -> None:
    photos, _ = rooms(3, orange=True)
    segments = search(photos, ["dog", "cat"], LyingSegmenter(lies), ONCE)
    part = PhotoPart(photos, segments.visible((0, 2), 1), "cat")
    values = SegmentSanitizer().sanitize(part).values
    strict = SecondLook(
        segmenters=(ColourSegmenter(),), settings=SearchSettings(look_alikes=False), bound=0.002
    )
    passed = values[~strict(values, ["dog"]).held_back]
    assert (is_red(passed).mean(axis=(1, 2)) <= strict.bound).all()


def test_an_object_that_covers_everything_leaves_a_flat_image() -> None:
    photos, _ = rooms(2)
    result = sent(photos, np.ones(photos.shape[:3], dtype=bool))
    assert result.unseen == 1
    assert (result.images == 127).all()


def test_refused() -> None:
    photos, masks = rooms(2)
    with pytest.raises(InputError, match="every photo has its mask"):
        sent(photos, masks[:1])
