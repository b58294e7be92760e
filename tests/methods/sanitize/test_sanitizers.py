"""What leaves at each level depends on the pixels of the part alone."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.methods.sanitize.painted_world import SIDE, rooms

from understudy.backends.litert import COCO_KEYPOINTS as COCO
from understudy.core.errors import ConfigError, InputError
from understudy.core.types import Images
from understudy.methods.sanitize.sanitizers import (
    BoxSanitizer,
    EdgesSanitizer,
    NoiseSanitizer,
    PhotoPart,
    PoseSanitizer,
    Sanitizer,
    SegmentSanitizer,
    TextSanitizer,
    items_of,
    skeleton_of,
)
from understudy.methods.sanitize.wire_items import SKELETONS, decode_item, encode_item


class MarkedPoses:
    """Nose and eye in the darkest and the brightest pixel; a less sure pose is elsewhere."""

    name, licence, keypoints = "test:poses", "none", SKELETONS["dog"]

    def pose(self, images: Images) -> list[np.ndarray]:
        poses = []
        for image in images.sum(axis=3):
            ends = [np.unravel_index(at, image.shape) for at in (image.argmin(), image.argmax())]
            sure = [(column, row, 0.9) for row, column in ends]
            rest = [(3, 3, 0.2), (9 * SIDE, 3, 0.8), *[(1, 1, 0.1)] * 7]
            people = [[(1, 1, 0.1)] * 11, [*sure, *rest]]
            poses.append(np.array(people, dtype=np.float32))
        return poses


ALL: tuple[Sanitizer, ...] = (
    TextSanitizer(),
    BoxSanitizer(8),
    EdgesSanitizer(),
    PoseSanitizer(MarkedPoses(), "dog"),
    SegmentSanitizer(),
    NoiseSanitizer(20),
)


def part(count: int = 3) -> PhotoPart:
    photos, masks = rooms(count)
    return PhotoPart(photos, masks, "dog")


@pytest.mark.parametrize("sanitizer", ALL, ids=lambda one: type(one).__name__)
def test_a_sanitizer_gives_a_value_a_photo(sanitizer: Sanitizer) -> None:
    assert isinstance(sanitizer, Sanitizer)
    own = part()
    result = sanitizer.sanitize(own)
    assert result.kind == sanitizer.kind
    assert len(result.values) == 3
    assert not result.empty.any() or sanitizer.kind == "text"
    absent = PhotoPart(own.photos, np.zeros_like(own.mask), "dog")
    assert sanitizer.sanitize(absent).empty.all()


@pytest.mark.parametrize("sanitizer", ALL, ids=lambda one: type(one).__name__)
@settings(max_examples=15, deadline=None)
@given(rest=arrays(np.uint8, (3, SIDE, SIDE, 3), elements=st.integers(0, 255)))
def test_nothing_outside_of_the_part_changes_what_is_sent(
    sanitizer: Sanitizer, rest: Images
) -> None:
    own = part()
    other = PhotoPart(np.where(own.mask[..., None], own.photos, rest), own.mask, "dog")
    one, two = sanitizer.sanitize(own), sanitizer.sanitize(other)
    np.testing.assert_array_equal(one.values, two.values)


def test_a_box_lies_on_the_grid_and_holds_the_object() -> None:
    own = part(8)
    tight = BoxSanitizer(1).sanitize(own).values
    assert ((tight[:, 2] - tight[:, 0] == 10) & (tight[:, 3] - tight[:, 1] == 8)).all()
    snapped = BoxSanitizer(16).sanitize(own)
    assert (snapped.values % 16 == 0).all()
    assert (snapped.values[:, :2] <= tight[:, :2]).all()
    assert (snapped.values[:, 2:] >= tight[:, 2:]).all()
    odd = BoxSanitizer(20).sanitize(own).values
    assert odd.max() <= SIDE


def test_edges_are_those_of_the_part() -> None:
    photos, masks = rooms(1)
    rows, columns = np.nonzero(masks[0])
    photos[0, rows.min() + 2 : rows.min() + 6, columns.min() + 4] = 0
    lines = EdgesSanitizer().sanitize(PhotoPart(photos, masks, "dog")).values
    assert lines.dtype == np.bool_
    assert lines.any()
    assert not (lines & ~masks).any()


def test_the_surest_pose_is_sent_without_keypoints_that_are_not_sure_or_not_there() -> None:
    own = part()
    result = PoseSanitizer(MarkedPoses(), "dog", certainty=0.5).sanitize(own)
    assert result.values.shape == (3, 11, 3)
    assert result.values[:, :, 2].tolist() == [[1, 1, *[0] * 9]] * 3
    assert (result.values[:, 2:] == 0).all()
    dark = result.values[:, 0, :2].astype(int)
    assert own.mask[np.arange(3), dark[:, 1], dark[:, 0]].all()


class BrightestPixel:
    """COCO's keypoints: the nose in the brightest pixel, the left side a pixel to its right."""

    name, licence, keypoints = "test:brightest", "none", COCO

    def pose(self, images: Images) -> list[np.ndarray]:
        poses = []
        for image in images.sum(axis=3):
            y, x = np.unravel_index(image.argmax(), image.shape)
            sides = [1 if name.startswith("left") else 0 for name in self.keypoints]
            poses.append(np.array([[(x + 0.5 + s, y + 0.5, 0.9) for s in sides]], np.float32))
        return poses


def test_a_pose_of_cocos_keypoints_is_a_drawn_persons_where_they_are_in_the_photo() -> None:
    """The estimator is shown the part enlarged, and has no head and no neck."""
    assert skeleton_of(COCO) == skeleton_of(SKELETONS["person"]) == "person"
    assert skeleton_of(SKELETONS["dog"]) == "dog"
    assert skeleton_of(("nose", "left eye")) is None
    photos, masks = np.full((1, 64, 64, 3), 90, np.uint8), np.zeros((1, 64, 64), bool)
    masks[0, 30:42, 8:16] = True
    photos[0, 33, 10] = 255
    sanitizer = PoseSanitizer(BrightestPixel(), "person")
    points = sanitizer.sanitize(PhotoPart(photos, masks, "person")).values[0]
    at = dict(zip(SKELETONS["person"], points, strict=True))
    assert len(points) == 14
    assert at["head"][:2] == pytest.approx((10.5, 33.5), abs=0.3)
    scale = 1.2 * 11 / 64  # pixels of the photo in a pixel of what is shown
    assert at["left knee"][0] - at["head"][0] == pytest.approx(scale, abs=0.01)
    assert at["right knee"][0] == at["head"][0]
    assert at["neck"][0] - at["head"][0] == pytest.approx(scale / 2, abs=0.01)


def test_a_pose_without_the_keypoints_of_its_skeleton_is_refused() -> None:
    with pytest.raises(ConfigError, match="no keypoints for the skeleton 'dog': it lacks eye, ear"):
        PoseSanitizer(BrightestPixel(), "dog")


def test_noise_has_its_deviation_and_follows_the_seed() -> None:
    photos = np.full((20, SIDE, SIDE, 3), 127, dtype=np.uint8)
    flat = PhotoPart(photos, np.ones(photos.shape[:3], dtype=bool), "wall")
    one = NoiseSanitizer(10).sanitize(flat, seed=1).values.astype(float)
    assert one.std() == pytest.approx(10, rel=0.05)
    assert one.mean() == pytest.approx(127, abs=0.3)
    assert (one == NoiseSanitizer(10).sanitize(flat, seed=1).values).all()
    assert (one != NoiseSanitizer(10).sanitize(flat, seed=2).values).any()


def test_the_items_of_the_wire_are_what_was_drawn() -> None:
    own = part()
    background = PhotoPart(own.photos, np.ones_like(own.mask), "room")

    def sent(sanitizer: Sanitizer, of: PhotoPart, number: int) -> list:
        items = items_of(sanitizer.sanitize(of), of, number)
        return [decode_item(encode_item(item)) for item in items]

    edges = EdgesSanitizer().sanitize(own)
    assert [item.edges().tolist() for item in sent(EdgesSanitizer(), own, 1)] == [
        one.tolist() for one in edges.values
    ]
    boxes = [item.box().tolist() for item in sent(BoxSanitizer(8), own, 1)]
    assert boxes == BoxSanitizer(8).sanitize(own).values.tolist()
    for item, image, mask in zip(
        sent(SegmentSanitizer(), own, 2), own.photos, own.mask, strict=True
    ):
        np.testing.assert_array_equal(item.mask(), mask)
        np.testing.assert_array_equal(item.image()[mask], image[mask])
    rooms_sent = [item.image() for item in sent(SegmentSanitizer(), background, 0)]
    np.testing.assert_array_equal(rooms_sent, own.photos)
    poses = sent(PoseSanitizer(MarkedPoses(), "dog", certainty=0.5), own, 1)
    assert [item.points()[:4, 2].tolist() for item in poses] == [[1, 1, 0, 0]] * 3
    assert sent(TextSanitizer(), own, 1) == []
    own.mask[1] = False
    assert len(sent(BoxSanitizer(8), own, 1)) == 2
    stamped = replace(edges, kind="stamp")
    with pytest.raises(InputError, match="no item for 'stamp'"):
        items_of(stamped, own, 1)
