"""Composing: cutouts, places that bear them, exact boxes, no second object."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import ndimage
from tests.methods.sanitize.painted_models import RED, SIZES, Painter
from tests.methods.sanitize.painted_world import SIDE, ColourSegmenter, is_red, rooms

from understudy.core.errors import RunError
from understudy.core.types import Images, Texts
from understudy.methods.sanitize import wire
from understudy.methods.sanitize.compose import Composer, ComposeSettings, Material
from understudy.methods.sanitize.customise import References
from understudy.methods.sanitize.cutouts import Cutout, box_of, placed
from understudy.methods.sanitize.scene_prompts import RARE_WORD, ScenePrompts
from understudy.methods.sanitize.training_set import LabelledSet

NO_CHANGE = ComposeSettings(scale=(1.0, 1.0), pool=8, soft=False, as_drawn=0)


def request(kind: str = "classifier", **changes: object) -> wire.JobRequest:
    classes = ("sitting", "sleeping") if kind == "classifier" else ("dog",)
    fields: dict[str, object] = {
        "target_object": (wire.PartRequest(noun="dog"),),
        "background": wire.PartRequest(noun="room"),
        "training_object": kind,
        "label_classes": classes,
        "side": SIDE,
        "images_per_class": 12,
    }
    return wire.JobRequest(**{**fields, **changes})


def composed(
    asked: wire.JobRequest,
    painter: Painter | None = None,
    references: dict[int, References] | None = None,
    how: ComposeSettings = NO_CHANGE,
    seed: int = 3,
) -> LabelledSet:
    known = dict.fromkeys(range(len(asked.parts)), painter or Painter())
    material = Material(known, references or {}, frozenset(), known[0])
    composer = Composer(asked, material, ColourSegmenter(), ScenePrompts("room"), how)
    return composer.compose(seed)


def test_every_class_has_its_images_of_objects_that_do_what_it_says() -> None:
    whole = composed(request())
    assert np.bincount(whole.labels).tolist() == [12, 12]
    for image, label in zip(whole.images, whole.labels, strict=True):
        left, top, right, bottom = box_of(is_red(image[None])[0])
        height, width = list(SIZES.values())[label]
        assert (bottom - top, right - left) == (height, width)


def test_boxes_are_exact_to_the_pixel() -> None:
    whole = composed(request("detector"))
    assert len(whole.boxes) == len(whole) == 12
    for image, truth in zip(whole.images, whole.truth, strict=True):
        assert_array_equal(truth.boxes[0], box_of(is_red(image[None])[0]))


def test_images_with_a_second_object_are_dropped_and_drawn_again() -> None:
    painter = Painter(second=0.6)
    areas = is_red(composed(request(), painter).images).sum(axis=(1, 2))
    assert (areas < 14 * 6 + 64).all()  # a second dog has 64 pixels, if it stands by itself
    assert set(painter.negatives) == {"dog"}


ONCE = ComposeSettings(rooms=1, rounds=1, pool=4, as_drawn=0)


def test_a_generator_that_always_draws_a_second_object_is_an_error() -> None:
    with pytest.raises(RunError, match="second object"):
        composed(request(), Painter(second=1.0), how=ONCE)


@pytest.mark.parametrize(("level", "of_words"), [(1, 0.5), (2, 0.0)])
def test_half_of_a_class_is_of_words_alone_where_only_its_lines_are_known(
    level: int, of_words: float
) -> None:
    class Noting(Painter):
        def __init__(self) -> None:
            super().__init__()
            self.heard: list[str] = []

        def generate(self, prompts: Texts, *, seed: int = 0) -> Images:
            self.heard += prompts
            return super().generate(prompts, seed=seed)

    feature = "edges" if level == 1 else None
    part = wire.PartRequest(noun="dog", level=level, feature=feature)
    asked = request(target_object=(part,), references=1)
    tuned, untuned = Noting(), Noting()
    material = Material({0: untuned, 1: tuned}, {}, frozenset({1}), untuned)
    how = replace(NO_CHANGE, as_drawn=1.0, rounds=1)
    Composer(asked, material, ColourSegmenter(), ScenePrompts("room"), how).compose(0)
    assert all(RARE_WORD in text for text in tuned.heard)
    assert not any(RARE_WORD in text for text in untuned.heard)
    assert len(untuned.heard) == 24 * of_words
    assert len(tuned.heard) == 24 * (1 - of_words)


def test_an_image_that_shows_two_objects_as_drawn_is_dropped() -> None:
    class Twice(Painter):
        def generate(self, prompts: Texts, *, seed: int = 0) -> Images:
            images = super().generate(prompts, seed=seed)
            for image in images[::2]:
                free = image[:, -8:] if not is_red(image[None])[0][:, -12:].any() else image[:, :8]
                free[2:10] = RED
            return images

    how = replace(NO_CHANGE, as_drawn=1.0)
    for mask in is_red(composed(request(), Twice(), how=how).images):
        assert ndimage.label(mask)[1] == 1


def test_what_the_device_sent_is_pasted_on_its_own_background() -> None:
    images, masks = rooms(4)
    backgrounds = np.repeat(np.where(masks[:1, ..., None], 200, images[:1]), 4, axis=0)
    references = {
        0: References(backgrounds.astype(np.uint8), np.ones_like(masks)),
        1: References(images, masks),
    }
    asked = request(
        "detector",
        target_object=(wire.PartRequest(noun="dog", level=2),),
        background=wire.PartRequest(noun="room", level=2),
        references=4,
    )
    painter = Painter((1, 2, 3))  # what it draws must not be used
    how = ComposeSettings(scale=(1.0, 1.0), light=0.0, soft=False, drawn_rooms=0)
    whole = composed(asked, painter, references, how)
    assert not painter.negatives
    for image, truth in zip(whole.images, whole.truth, strict=True):
        left, top, right, bottom = truth.boxes[0].astype(int)
        assert (right - left, bottom - top) == (10, 8)
        outside = np.ones((SIDE, SIDE), bool)
        outside[top:bottom, left:right] = False
        assert_array_equal(image[outside], backgrounds[0][outside])


def test_half_of_a_detectors_images_get_a_drawn_room_beside_the_owners_own() -> None:
    images, masks = rooms(4)
    grey = np.full_like(images, 200)
    references = {0: References(grey, np.ones_like(masks))}
    asked = request("detector", background=wire.PartRequest(noun="room", level=2), references=4)
    for part in (0.0, 0.5, 1.0):
        how = replace(NO_CHANGE, light=0.0, drawn_rooms=part)
        whole = composed(asked, references=references, how=how)
        own = [(image == 200).all(axis=2).mean() > 0.5 for image in whole.images]
        assert np.mean(own) == 1 - part
        for image, truth in zip(whole.images, whole.truth, strict=True):
            assert_array_equal(truth.boxes[0], box_of(is_red(image[None])[0]))


def test_of_several_objects_each_has_its_box_and_the_others_have_none() -> None:
    class Cats(Painter):
        def generate(self, prompts, *, seed=0):
            images = super().generate(prompts, seed=seed)
            cats = np.array(["cat" in prompt for prompt in prompts])[:, None, None]
            images[is_red(images) & cats] = (200, 140, 40)
            return images

    parts = tuple(wire.PartRequest(noun=noun) for noun in ("dog", "cat"))
    for classes in (("dog",), ("cat", "dog")):
        asked = request("detector", target_object=parts, label_classes=classes)
        whole = composed(asked, Cats())
        assert len(whole) == 12 * len(classes)
        assert set(whole.box_labels) == set(range(len(classes)))
        dogs = whole.boxes[whole.box_labels == classes.index("dog")]
        image = whole.images[int(whole.box_images[whole.box_labels == classes.index("dog")][0])]
        assert_array_equal(dogs[0], box_of(is_red(image[None])[0]))


def test_the_papers_pipeline_without_masks_gives_the_images_of_the_prompts() -> None:
    whole = composed(request(), how=ComposeSettings(mask="none"))
    assert np.bincount(whole.labels).tolist() == [12, 12]
    assert (is_red(whole.images).sum(axis=(1, 2)) == 84).all()


def test_a_random_mask_is_anywhere_in_the_image() -> None:
    """As high and as low as it fits, whatever bears things; the same objects otherwise."""
    borne, anywhere = (
        composed(request(), how=replace(NO_CHANGE, mask=mask)).images
        for mask in ("borne", "random")
    )
    for images in (borne, anywhere):
        assert (is_red(images).sum(axis=(1, 2)) == 84).all()
    tops = [np.array([box_of(one)[1] for one in is_red(images)]) for images in (borne, anywhere)]
    assert not np.array_equal(*tops)
    support = np.zeros((SIDE, SIDE), bool)
    support[-1] = True
    cutout = Cutout.of(np.full((10, 4, 3), 9, np.uint8), np.ones((10, 4), bool))
    assert cutout is not None
    rng = np.random.default_rng(0)
    places = [placed(cutout, SIDE, rng, support=support, anywhere=True) for _ in range(4000)]
    assert {one.top for one in places} == set(range(SIDE - 10 + 1))
    assert {one.left for one in places} == set(range(SIDE - 4 + 1))
