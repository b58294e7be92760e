"""``hf:MODEL`` as a detector: boxes, and masks where the network gives one for each object.

hf:facebook/detr-resnet-50?threshold=0.7
hf:PekingU/rtdetr_r18vd
hf:facebook/mask2former-swin-tiny-coco-instance
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from understudy.backends.arrays import index_slices, require_any_images
from understudy.backends.hub.pretrained import load_image_processor
from understudy.backends.plugin import read_options
from understudy.backends.vision.dense import DenseNetwork, VisionOptions, network_kind
from understudy.core.option import Option
from understudy.core.types import Found, Images


@dataclass(frozen=True, slots=True)
class DetectorOptions(VisionOptions):
    """Options of a detector, besides those of a segmenter.

    Attributes:
        threshold: Objects with a lower score are left out, in [0, 1].
    """

    threshold: Annotated[float, Option("", least=0, most=1)] = 0.5


class BoxDetector(DenseNetwork):
    """DETR and its relatives: boxes."""

    def __init__(self, model: str, options: DetectorOptions, kind: Any) -> None:
        super().__init__(model, options, kind, "detector")
        self._threshold = options.threshold
        # What the numbers mean differs from network to network; its processor knows.
        self._processor = load_image_processor(model, options.revision)

    def detect(self, images: Images) -> list[Found]:
        """The boxes in each image."""
        require_any_images(images, self.name)
        detections: list[Found] = []
        height, width = images.shape[1:3]
        for rows in index_slices(len(images), self._options.batch):
            results = self._processor.post_process_object_detection(
                self._run(images[rows]),
                threshold=self._threshold,
                target_sizes=[(height, width)] * len(images[rows]),
            )
            for result in results:
                parts = (result[key].float().cpu().numpy() for key in ("boxes", "labels", "scores"))
                detections.append(_best_first(*parts, masks=None, size=(height, width)))
        return detections


class MaskDetector(DenseNetwork):
    """Mask2Former and its relatives: a mask an object."""

    def __init__(self, model: str, options: DetectorOptions, kind: Any) -> None:
        super().__init__(model, options, kind, "detector")
        self._threshold = options.threshold

    def detect(self, images: Images) -> list[Found]:
        """The objects in each image, with masks."""
        require_any_images(images, self.name)
        detections: list[Found] = []
        for rows in index_slices(len(images), self._options.batch):
            outputs = self._run(images[rows])
            pairs = zip(outputs.class_queries_logits, outputs.masks_queries_logits, strict=True)
            detections += [self._objects(*pair, images.shape[1:3]) for pair in pairs]
        return detections

    def _objects(self, classes: torch.Tensor, masks: torch.Tensor, size: tuple[int, ...]) -> Found:
        """Objects of one image: how sure the class is, times how sure the mask is."""
        logits = functional.interpolate(masks[None].float(), size=size, mode="bilinear")[0]
        sure = classes.float().softmax(dim=-1)[:, :-1]  # the last class is "nothing"
        scores, places = sure.flatten().topk(len(sure))
        logits = logits[places // sure.shape[1]]
        inside = logits > 0
        area = inside.flatten(1).sum(dim=1)
        mean = (logits.sigmoid() * inside).flatten(1).sum(dim=1) / area.clamp(min=1)
        scores = scores * mean
        keep = (scores >= self._threshold) & (area > 0)
        shapes = inside[keep].cpu().numpy()
        return _best_first(
            _boxes(shapes),
            (places % sure.shape[1])[keep].cpu().numpy(),
            scores[keep].cpu().numpy(),
            masks=shapes,
            size=size,
        )


def _boxes(masks: NDArray[np.bool_]) -> NDArray[np.float32]:
    """(k, 4): the smallest box around each of (k, height, width) masks that are not empty."""
    boxes = np.empty((len(masks), 4), dtype=np.float32)
    for box, mask in zip(boxes, masks, strict=True):
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        box[:] = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    return boxes


def _best_first(
    boxes: NDArray[np.float32],
    labels: NDArray[np.int64],
    scores: NDArray[np.float32],
    *,
    masks: NDArray[np.bool_] | None,
    size: tuple[int, ...],
) -> Found:
    """Objects in order, boxes inside the image."""
    order = np.argsort(-scores, kind="stable")
    height, width = size
    limits = np.array([width, height, width, height], dtype=np.float32)
    return Found(
        boxes=np.clip(boxes[order].astype(np.float32), 0, limits),
        labels=labels[order].astype(np.int64),
        scores=np.clip(scores[order].astype(np.float32), 0, 1),
        masks=None if masks is None else masks[order],
    )


def load_detector(rest: str, options: Mapping[str, Any]) -> BoxDetector | MaskDetector:
    """The detector of a model of the hub; see `DetectorOptions`."""
    read = read_options(options, DetectorOptions, name=f"hf:{rest}")
    kind, queries = network_kind(rest, read, port="detector", head="ForObjectDetection")
    return (MaskDetector if queries else BoxDetector)(rest, read, kind)
