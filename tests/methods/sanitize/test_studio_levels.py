"""The server's pipeline over the mini studio itself: every way that a part can come."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("diffusers")
pytest.importorskip("peft")

from tests.methods.sanitize.test_training_set import Recorder

from understudy.backends.registry import load_model
from understudy.core.ports import Generator, Segmenter, Tuner
from understudy.methods.sanitize import wire
from understudy.methods.sanitize.compose import ComposeSettings
from understudy.methods.sanitize.customise import TuningPlan
from understudy.methods.sanitize.jobs import JobMaterial
from understudy.methods.sanitize.sanitizers import (
    EdgesSanitizer,
    PhotoPart,
    SegmentSanitizer,
    items_of,
)
from understudy.methods.sanitize.spinml_pipeline import SpinmlPipeline
from understudy.methods.sanitize.training_set import LabelledSet
from understudy.methods.sanitize.wire_items import Item
from understudy.playhouse import Home

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("one_thread")]

STUDIO = "embedded:studio"


def composed(
    task: str, noun: str, classes: tuple[str, ...], levels: tuple[int, int]
) -> LabelledSet:
    """The images of two references of a home at these levels of object and background."""
    drawn = [Home(3, task=task).draw(day) for day in range(2)]
    images = np.stack([one.image for one in drawn])
    masks = np.stack([one.instances[0].mask for one in drawn])
    parts = [
        PhotoPart(np.where(masks[..., None], np.uint8(120), images), np.ones_like(masks), "room"),
        PhotoPart(images, masks, noun),
    ]
    items: dict[int, tuple[Item, ...]] = {}
    for number, level in ((1, levels[0]), (0, levels[1])):
        if level:
            sanitizer = EdgesSanitizer() if level == 1 else SegmentSanitizer()
            sanitized = sanitizer.sanitize(parts[number])
            items[number] = tuple(items_of(sanitized, parts[number], number))
    asked = [
        wire.PartRequest(noun=name, level=level, feature="edges" if level == 1 else None)
        for name, level in ((noun, levels[0]), ("room", levels[1]))
    ]
    request = wire.JobRequest(
        target_object=(asked[0],),
        background=asked[1],
        training_object="classifier" if len(classes) > 1 else "detector",
        label_classes=classes,
        side=64,
        references=2 if items else 0,
        images_per_class=4,
    )
    pipeline = SpinmlPipeline(
        load_model(Generator, STUDIO, seam=0),
        load_model(Segmenter, STUDIO),
        Recorder(),
        tuner=load_model(Tuner, STUDIO, seam=0),
        plan=TuningPlan({"steps": 2, "class_images": 2}),
        settings=ComposeSettings(pool=6, second_target=1.0),
    )
    assert pipeline.objection(request) is None
    results: dict[str, dict[str, bytes]] = {}
    material = JobMaterial(
        request=request,
        items=lambda part: items.get(part, ()),
        result=lambda stage, name: results[stage][name],
        seed=1,
        beat=lambda: None,
    )
    for stage in ("customise", "compose"):
        results[stage] = dict(pipeline.run(stage, material))
    return LabelledSet.from_bytes(results["compose"]["images.npy"])


@pytest.mark.parametrize("levels", [(0, 0), (1, 1), (2, 0), (2, 2)])
def test_a_dog_at_every_level(levels: tuple[int, int]) -> None:
    images = composed("pet-status", "dog", ("eating", "sleeping"), levels)
    assert images.labels.tolist() == [0] * 4 + [1] * 4
    assert images.images.shape == (8, 64, 64, 3)
    assert images.images.std(axis=(1, 2, 3)).min() > 10


@pytest.mark.parametrize("levels", [(0, 0), (1, 2), (2, 2)])
def test_a_bottle_has_a_box_in_every_image(levels: tuple[int, int]) -> None:
    images = composed("bottle", "medicine bottle", ("medicine bottle",), levels)
    assert images.box_images.tolist() == [0, 1, 2, 3]
    sides = images.boxes[:, 2:] - images.boxes[:, :2]
    assert sides.min() >= 3
    assert sides.max() <= 40
