"""The server's four stages at every pair of levels: they run, they repeat, levels count."""

from itertools import cycle, product

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy.ndimage import binary_erosion
from tests.methods.sanitize.painted_models import ColourTuner, Painter
from tests.methods.sanitize.painted_world import SIDE, ColourSegmenter, rooms

from understudy.methods.sanitize import wire
from understudy.methods.sanitize.compose import ComposeSettings
from understudy.methods.sanitize.customise import References, TuningPlan, along_lines
from understudy.methods.sanitize.jobs import MODEL_FILE, VALIDATION_FILE, JobMaterial, JobPipeline
from understudy.methods.sanitize.spinml_pipeline import SpinmlPipeline
from understudy.methods.sanitize.training_set import LabelledSet, TrainedModel
from understudy.methods.sanitize.wire_items import (
    BackgroundItem,
    BoxItem,
    EdgesItem,
    Item,
    PoseItem,
    TargetItem,
)

COUNT = 3
PAIRS = [
    ((target, target_feature), (background, background_feature))
    for (target, target_feature), (background, background_feature) in product(
        [(0, None), (1, "edges"), (1, "box"), (2, None)], [(0, None), (1, "edges"), (2, None)]
    )
]


def request(
    target: tuple[int, str | None],
    background: tuple[int, str | None],
    kind: str = "classifier",
    **changes: object,
) -> wire.JobRequest:
    disclosed = target[0] + background[0] > 0
    fields: dict[str, object] = {
        "target_object": (wire.PartRequest(noun="dog", level=target[0], feature=target[1]),),
        "background": wire.PartRequest(noun="room", level=background[0], feature=background[1]),
        "training_object": kind,
        "label_classes": ("sitting", "sleeping") if kind == "classifier" else ("dog",),
        "side": SIDE,
        "references": COUNT if disclosed else 0,
        "images_per_class": 6,
    }
    return wire.JobRequest(**{**fields, **changes})


def items_of(asked: wire.JobRequest, number: int) -> tuple[Item, ...]:
    """Photos of a darker red dog, as the device would send them."""
    images, masks = rooms(COUNT)
    images[masks] = (160, 20, 20)
    outlines = np.stack([mask & ~binary_erosion(mask) for mask in masks])
    kind = asked.item_of(number)
    if kind is BoxItem:
        return tuple(BoxItem.of(number, SIDE, np.array([4, 4, 20, 12])) for _ in masks)
    if kind is EdgesItem:
        return tuple(EdgesItem.of(number, one) for one in outlines)
    if kind is TargetItem:
        return tuple(TargetItem.of(number, *pair) for pair in zip(images, masks, strict=True))
    if kind is BackgroundItem:
        images[masks] = 99
        return tuple(BackgroundItem.of(one) for one in images)
    return ()


class NoTraining:
    """A model of nothing, right for every second image."""

    def train(self, *arguments: object) -> TrainedModel:
        return TrainedModel(b"state", 0.5)

    def export(self, kind: str, state: bytes, shape: tuple[int, ...], classes: int) -> bytes:
        return state


def pipeline(**options: object) -> SpinmlPipeline:
    fields: dict[str, object] = {
        "tuner": ColourTuner(),
        "plan": TuningPlan({}),
        "settings": ComposeSettings(soft=False),
    }
    return SpinmlPipeline(Painter(), ColourSegmenter(), NoTraining(), **{**fields, **options})  # type: ignore[arg-type]


def run(
    one: SpinmlPipeline, asked: wire.JobRequest, done: dict[str, dict[str, bytes]] | None = None
) -> dict[str, dict[str, bytes]]:
    """All stages, or those that are not done yet."""
    results = dict(done or {})
    material = JobMaterial(
        request=asked,
        items=lambda part: items_of(asked, part),
        result=lambda stage, name: results[stage][name],
        seed=7,
        beat=lambda: None,
    )
    for stage in one.stages:
        if stage not in results:
            results[stage] = dict(one.run(stage, material))
    return results


@pytest.mark.parametrize(
    ("target", "background", "kind"),
    [(*pair, kind) for pair, kind in zip(PAIRS, cycle(("classifier", "detector")), strict=False)],
)
def test_every_pair_of_levels_gives_a_model_and_resumes_with_the_same_result(
    target: tuple[int, str | None], background: tuple[int, str | None], kind: str
) -> None:
    one, asked = pipeline(), request(target, background, kind)
    assert isinstance(one, JobPipeline)
    assert one.objection(asked) is None
    whole = run(one, asked)
    assert float(whole["export"][VALIDATION_FILE]) == 0.5
    assert whole["export"][MODEL_FILE]
    images = LabelledSet.from_bytes(whole["compose"]["images.npy"])
    assert len(images) == 6 * len(asked.label_classes)
    for stages in (1, 2, 3):  # another process goes on after any stage
        done = {stage: whole[stage] for stage in one.stages[:stages]}
        assert run(pipeline(), asked, done) == whole


def test_an_object_looks_like_its_references_where_they_are_sent() -> None:
    shades = {}
    for level in (0, 2):
        result = run(pipeline(), request((level, None), (0, None)))
        images = LabelledSet.from_bytes(result["compose"]["images.npy"]).images
        red = (images[..., 0] > 150) & (images[..., 1] < 90)
        shades[level] = images[red][:, 0].mean()
    assert shades[0] == pytest.approx(210, abs=3)
    assert shades[2] == pytest.approx(160, abs=3)


@pytest.mark.parametrize("equal_shares", [False, True])
def test_preferences_are_mixed_as_the_request_says(equal_shares: bool) -> None:
    """All images of both, or half of each: a darker dog where it was sent, a red one of words."""
    asked = request((2, None), (0, None), mixture=((1,),), equal_shares=equal_shares)
    whole = LabelledSet.from_bytes(run(pipeline(), asked)["compose"]["images.npy"])
    assert np.bincount(whole.labels).tolist() == [6 if equal_shares else 12] * 2
    dog = (whole.images[..., 0] > 140) & (whole.images[..., 1] < 90)
    shades = [image[mask][:, 0].mean() for image, mask in zip(whole.images, dog, strict=True)]
    words = np.array(shades) > 185
    assert words.sum() == len(whole) // 2


def test_a_control_net_draws_references_in_the_outlines_of_the_edges() -> None:
    result = run(pipeline(), request((1, "edges"), (0, None), "detector"))
    references = References.from_bytes(result["customise"]["part-1.references"])
    _, masks = rooms(COUNT)
    assert len(references.images) == 4 * COUNT
    for row, mask in enumerate(references.masks):
        assert (mask & masks[row // 4]).sum() / (mask | masks[row // 4]).sum() > 0.9


def test_an_object_drawn_along_lines_is_cut_out_whole_and_nothing_else_is() -> None:
    """Lines about its lower part alone, as where a cap's are not closed."""
    images, hints = np.zeros((2, 1, SIDE, SIDE, 3), np.uint8)
    hints[0, 12:21, 8], hints[0, 12:21, 16], hints[0, 12, 8:17], hints[0, 20, 8:17] = (255,) * 4
    thing, other = np.zeros((2, 1, SIDE, SIDE), bool)
    thing[0, 6:20, 9:16], other[0, 4:10, 24:30] = True, True
    references = along_lines(images, hints, thing | other, closed=True)
    assert_array_equal(references.masks, thing)
    through = along_lines(images, hints, thing | other, closed=False)
    assert through.masks.sum() < thing.sum()  # a skeleton's lines say how far it goes


def test_weights_of_the_background_are_merged_where_the_paper_is_followed() -> None:
    asked = request((0, None), (2, None))
    plain = run(pipeline(), asked)["customise"]
    merged = run(pipeline(plan=TuningPlan({}, merge_background=True)), asked)["customise"]
    assert plain["tuned.txt"] == b""
    assert merged["tuned.txt"] == b"0"


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"side": 64}, "32 pixels"),
        ({"target_object": (wire.PartRequest(noun="zebra"),)}, "no class for an object"),
        (
            {
                "target_object": (
                    wire.PartRequest(noun="dog", level=1, feature="pose", skeleton="dog"),
                ),
                "references": 3,
            },
            "cannot follow pose",
        ),
    ],
)
def test_what_it_cannot_do_is_said_before_anything_is_spent(
    changes: dict[str, object], reason: str
) -> None:
    assert reason in (pipeline().objection(request((0, None), (0, None), **changes)) or "")


def test_without_a_tuner_only_what_needs_none_is_taken() -> None:
    one = pipeline(tuner=None)
    assert "level 0" in (one.objection(request((2, None), (0, None))) or "")
    assert one.objection(request((2, None), (2, None), "detector")) is None


def test_a_pose_is_drawn_for_the_control_net() -> None:
    from understudy.methods.sanitize.customise import references_of
    from understudy.methods.sanitize.scene_prompts import ScenePrompts

    points = np.array([[4 + k, 6 + 2 * k, 1] for k in range(11)], np.float32)
    part = wire.PartRequest(noun="dog", level=1, feature="pose", skeleton="dog")
    references = references_of(
        part,
        [PoseItem.of(1, SIDE, points)],
        SIDE,
        Painter(),
        ColourSegmenter(),
        ScenePrompts("room"),
        0,
    )
    assert len(references.images) == 4
    assert references.masks.any(axis=(1, 2)).all()
