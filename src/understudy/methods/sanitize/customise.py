"""The first stage of the server: what a part's items say, as reference images (Section 3.3).

At L2 the references are what the device sent. At L1 a ControlNet draws new ones that follow the
edges or the pose that it sent. The generator is then tuned on the references (DreamBooth).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.ports import Generator, Segmenter, Tuner
from understudy.core.types import Images, Masks
from understudy.methods.sanitize.cutouts import cut_out
from understudy.methods.sanitize.jobs import array_bytes, stored_arrays_of
from understudy.methods.sanitize.scene_prompts import RARE_WORD, ScenePrompts
from understudy.methods.sanitize.wire import PartRequest
from understudy.methods.sanitize.wire_items import (
    SKELETONS,
    BackgroundItem,
    BoxItem,
    EdgesItem,
    Item,
    PoseItem,
    TargetItem,
)
from understudy.steps.hints import skeleton

EACH = 4
"""Images that a ControlNet draws of every reference's feature."""
_NEAR = 2  # pixels outside of the lines that an object may have
_LEAST = 0.25  # part of the area inside of the lines that it has at least
_WITHIN = 0.5  # part of a piece of the object that lies there at least
_SHOWN = 0.4
"""Part of what was drawn along the lines that has to show the object: below it words do better."""


@dataclass(frozen=True, slots=True, eq=False)
class References:
    """What a part looks like, as far as the server knows.

    Attributes:
        images: (n, side, side, 3) uint8; none where only boxes came.
        masks: (n, side, side): the part's pixels in them; all of a background.
        boxes: (m, 4) float32 where the object was in the references; none but of L1 boxes.
    """

    images: Images
    masks: Masks
    boxes: NDArray[np.float32] = field(default_factory=lambda: np.zeros((0, 4), np.float32))

    def to_bytes(self) -> bytes:
        """The arrays in NumPy's format."""
        return array_bytes(self.images, self.masks, self.boxes)

    @classmethod
    def from_bytes(cls, data: bytes) -> References:
        """The references that `to_bytes` wrote."""
        return cls(*stored_arrays_of(data))


def references_of(
    part: PartRequest,
    items: Sequence[Item],
    side: int,
    generator: Generator,
    segmenter: Segmenter,
    prompts: ScenePrompts,
    seed: int,
) -> References:
    """The reference images of a part; none at L0.

    `generator`: With a ControlNet for edges or poses, where these were sent.

    Raises:
        InputError: Items of several kinds.
    """
    none = np.zeros((0, side, side, 3), np.uint8)
    kinds = {type(item) for item in items}
    if len(kinds) > 1:
        raise InputError("the items of a part are of one kind")
    if not items:
        return References(none, none[..., 0].astype(bool))
    if isinstance(items[0], TargetItem | BackgroundItem):
        return _sent(items)
    if isinstance(items[0], BoxItem):
        boxes = np.stack([item.box() for item in items if isinstance(item, BoxItem)])
        return References(none, none[..., 0].astype(bool), boxes)
    hints = np.stack([_hint(item, part, side) for item in items]).repeat(EACH, axis=0)
    rng = np.random.default_rng(seed)
    background = items[0].part == 0
    texts = [
        prompts.room(rng) if background else prompts.target(part.noun, None, rng) for _ in hints
    ]
    kind = "edges" if isinstance(items[0], EdgesItem) else "pose"
    images = generator.control(kind, hints, texts, seed=seed)
    if background:
        return References(images, np.ones(images.shape[:3], bool))
    objects = cut_out(images, part.noun, segmenter)
    return along_lines(images, hints, objects, closed=kind == "edges")


def _sent(items: Sequence[Item]) -> References:
    """What the device sent, as it is."""
    sent = [item for item in items if isinstance(item, TargetItem | BackgroundItem)]
    images = np.stack([item.image() for item in sent])
    whole = np.ones(images.shape[1:3], bool)
    masks = [item.mask() if isinstance(item, TargetItem) else whole for item in sent]
    return References(images, np.stack(masks))


def _hint(item: Item, part: PartRequest, side: int) -> NDArray[np.uint8]:
    """(side, side, 3): what a ControlNet follows."""
    if isinstance(item, PoseItem) and part.skeleton is not None:
        names = SKELETONS[part.skeleton]
        return skeleton(item.points()[: len(names)], names, part.skeleton, (side, side))
    if isinstance(item, EdgesItem):
        return np.repeat(item.edges()[..., None], 3, axis=2).astype(np.uint8) * 255
    raise InputError(f"nothing can be drawn of a {item.name}")


def along_lines(images: Images, hints: Images, objects: Masks, *, closed: bool) -> References:
    """The images in which the object is where the lines are, and its pixels there.

    None where the ControlNet hardly ever drew it: the few would all be alike, and mostly wrong.

    `closed`: Whether lines go about the object; a skeleton's go through it.
    """
    outlines = [scipy.ndimage.binary_dilation(hint.any(axis=2), iterations=_NEAR) for hint in hints]
    inside = np.stack([scipy.ndimage.binary_fill_holes(outline) for outline in outlines])
    masks = objects & inside
    visible = masks.sum(axis=(1, 2)) >= _LEAST * np.maximum(1, inside.sum(axis=(1, 2)))
    if closed:
        pairs = zip(objects, inside, strict=True)
        masks = np.stack([_pieces_within(mask, area) for mask, area in pairs])
        visible &= masks.any(axis=(1, 2))
    if visible.mean() < _SHOWN:
        visible[:] = False
    return References(images[visible], masks[visible])


def _pieces_within(mask: NDArray[np.bool_], area: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The pieces of a mask that lie in an area by half or more, whole: lines are seldom closed."""
    pieces, count = scipy.ndimage.label(mask)
    inside = scipy.ndimage.mean(area, pieces, np.arange(1, count + 1))
    return np.isin(pieces, 1 + np.flatnonzero(inside >= _WITHIN))


@dataclass(frozen=True, slots=True)
class TuningPlan:
    """How generators are tuned on references.

    Attributes:
        settings: Of the tuner (`TuningSettings`); those of the paper are 800 steps at 2e-6 for
            Stable Diffusion 1.5 (appendix B.1).
        merge_background: Tune on the background's references, too, and inpaint with the merged
            weights, as the paper does; else objects are pasted on the references themselves.
    """

    settings: Mapping[str, Any]
    merge_background: bool = False


STUDIO_TUNING: Mapping[str, Any] = {"steps": 400, "rate": 1e-4, "rank": 16, "batch": 2}
"""How the mini studio is tuned (LoRA, docs/studio.md): at the paper's rate it learns nothing."""


def tuned_changes(
    tuner: Tuner,
    references: References,
    noun: str,
    plan: TuningPlan,
    seed: int,
    beat: Callable[[], None],
) -> bytes:
    """The weights of a generator tuned on references, known by `scene_prompts.RARE_WORD`.

    Only the part's pixels count in the loss, so that the grey about a segment is not learned.

    `noun`: Of the part; it is also the class for prior preservation.
    """
    beat()
    tuned = tuner.tune(
        references.images,
        f"a {RARE_WORD} {noun}",
        class_prompt=f"a {noun}",
        settings=plan.settings,
        seed=seed,
        masks=references.masks,
    )
    beat()
    return tuner.changes(tuned)
