"""Composing: cutouts, places that bear them, exact boxes, no second object."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.testing import assert_array_equal
from scipy import ndimage
from tests.methods.sanitize.painted_models import RED, SIZES, Painter
from tests.methods.sanitize.painted_world import SIDE, ColourSegmenter, is_red, rooms

from understudy.core.types import Images, Texts
from understudy.methods.sanitize import wire
from understudy.methods.sanitize.compose import Composer, ComposeSettings, Composition, Material
from understudy.methods.sanitize.customise import References
from understudy.methods.sanitize.cutouts import box_of
from understudy.methods.sanitize.scene_prompts import ScenePrompts

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
) -> Composition:
    known = dict.fromkeys(range(len(asked.parts)), painter or Painter())
    material = Material(known, references or {}, frozenset(), known[0])
    composer = Composer(asked, material, ColourSegmenter(), ScenePrompts("room"), how)
    return composer.compose(seed)


def test_every_class_has_its_images_of_objects_that_do_what_it_says() -> None:
    whole = composed(request()).images
    assert np.bincount(whole.labels).tolist() == [12, 12]
    for image, label in zip(whole.images, whole.labels, strict=True):
        left, top, right, bottom = box_of(is_red(image[None])[0])
        height, width = list(SIZES.values())[label]
        assert (bottom - top, right - left) == (height, width)


def test_boxes_are_exact_to_the_pixel() -> None:
    whole = composed(request("detector")).images
    assert len(whole.boxes) == len(whole) == 12
    for image, truth in zip(whole.images, whole.truth, strict=True):
        assert_array_equal(truth.boxes[0], box_of(is_red(image[None])[0]))


def test_an_image_that_shows_two_objects_as_drawn_is_dropped() -> None:
    class Twice(Painter):
        def generate(self, prompts: Texts, *, seed: int = 0) -> Images:
            images = super().generate(prompts, seed=seed)
            for image in images[::2]:
                free = image[:, -8:] if not is_red(image[None])[0][:, -12:].any() else image[:, :8]
                free[2:10] = RED
            return images

    how = replace(NO_CHANGE, as_drawn=1.0)
    result = composed(request(), Twice(), how=how)
    assert result.dropped > 0
    for mask in is_red(result.images.images):
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
    whole = composed(asked, painter, references, how).images
    assert not painter.negatives
    for image, truth in zip(whole.images, whole.truth, strict=True):
        left, top, right, bottom = truth.boxes[0].astype(int)
        assert (right - left, bottom - top) == (10, 8)
        outside = np.ones((SIDE, SIDE), bool)
        outside[top:bottom, left:right] = False
        assert_array_equal(image[outside], backgrounds[0][outside])


def test_the_papers_pipeline_without_masks_gives_the_images_of_the_prompts() -> None:
    whole = composed(request(), how=ComposeSettings(mask="none")).images
    assert np.bincount(whole.labels).tolist() == [12, 12]
    assert (is_red(whole.images).sum(axis=(1, 2)) == 84).all()
