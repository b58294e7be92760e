"""``hf:MODEL`` as a pose estimator: keypoints of each person (or dog) in an image.

    hf:usyd-community/vitpose-base-simple?detector=hf:PekingU/rtdetr_r18vd
    hf:OUT/pose    what `understudy studio pose` made

ViTPose looks at one box at a time. Boxes come from a detector, those of one of its classes; without
a detector the whole image is one box, right for images of one subject. A dense network with a map
for each keypoint finds one subject in the whole image.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from understudy.backends.arrays import index_slices, require_any_images, with_channels
from understudy.backends.hub.hub_models import HubOptions
from understudy.backends.hub.pretrained import (
    built_for,
    config_of,
    licence_of,
    load_image_processor,
    load_network,
    network_classes,
    running,
    wrong_kind,
)
from understudy.backends.plugin import full_name, read_options
from understudy.backends.registry import load_model
from understudy.backends.vision.dense import DenseNetwork, VisionOptions
from understudy.core.errors import BackendError
from understudy.core.ports import Detector
from understudy.core.types import Images

Boxes = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PoseOptions(HubOptions):
    """Options of a pose estimator, besides those of `HubOptions`.

    Attributes:
        detector: Name of the model that finds the boxes; None takes the whole image.
        dataset: Of ViTPose++: which of its data sets' experts are asked.
    """

    detector: str | None = None
    target: str = "person"
    dataset: int = 0


class HubPoseEstimator:
    """Images to keypoints by ViTPose."""

    def __init__(self, model: str, options: PoseOptions) -> None:
        self.name = full_name(f"hf:{model}", options)
        self.licence = licence_of(model, options.revision)
        self._options = options
        self._processor = load_image_processor(model, options)
        from transformers import AutoModelForPoseEstimation

        self._network: Any = load_network(
            AutoModelForPoseEstimation, model, options, port="pose estimator"
        )
        self._forward = torch.compile(self._network) if options.compile else self._network
        self.keypoints = network_classes(self._network.config)
        backbone: Any = self._network.config.backbone_config
        self._experts = getattr(backbone, "num_experts", 1) > 1
        self._detector: Detector | None = None
        if options.detector is not None:
            self._detector = load_model(Detector, options.detector)
            if options.target not in self._detector.classes:
                raise BackendError(
                    f"{self.name}: its detector knows no {options.target!r}; it knows "
                    f"{', '.join(self._detector.classes)}. Choose one with ?target="
                )

    def pose(self, images: Images) -> list[NDArray[np.float32]]:
        """For each image (people, keypoints, 3): x and y in pixels, and a score in [0, 1]."""
        require_any_images(images, self.name)
        boxes = self._boxes(images)
        owners = [row for row, image_boxes in enumerate(boxes) for _ in image_boxes]
        flat = [box for image_boxes in boxes for box in image_boxes]
        poses = np.empty((len(flat), len(self.keypoints), 3), dtype=np.float32)
        for part in index_slices(len(flat), self._options.batch):
            poses[part] = self._of_boxes(images[owners[part]], flat[part])
        ends = np.cumsum([len(image_boxes) for image_boxes in boxes])[:-1]
        return list(np.split(poses, ends)) if len(images) else []

    def _boxes(self, images: Images) -> list[Boxes]:
        """For each image (people, 4): left, top, width, height."""
        if self._detector is None:
            height, width = images.shape[1:3]
            return [np.array([[0, 0, width, height]], dtype=np.float32)] * len(images)
        target = self._detector.classes.index(self._options.target)
        boxes = [
            detection.boxes[detection.labels == target]
            for detection in self._detector.detect(images)
        ]
        return [np.hstack([box[:, :2], box[:, 2:] - box[:, :2]]) for box in boxes]

    def _of_boxes(self, images: Images, boxes: list[Boxes]) -> NDArray[np.float32]:
        """(n, keypoints, 3) for one box of each image."""
        device, dtype = self._options.placement()
        corners = [[box.tolist()] for box in boxes]
        rows = [Image.fromarray(image) for image in with_channels(images, 3)]
        pixels = self._processor(rows, boxes=corners, return_tensors="pt")["pixel_values"]
        more = {}
        if self._experts:
            more["dataset_index"] = torch.full((len(rows),), self._options.dataset, device=device)
        with running(self._network, self._options):
            outputs = self._forward(pixels.to(device, dtype), **more)
        outputs.heatmaps = outputs.heatmaps.float()
        poses = self._processor.post_process_pose_estimation(outputs, boxes=corners)
        places = np.stack([pose["keypoints"].numpy() for (pose,) in poses])
        scores = np.stack([pose["scores"].numpy() for (pose,) in poses])
        return np.concatenate([places, np.clip(scores, 0, 1)[..., None]], axis=2)


class MapPoseEstimator(DenseNetwork):
    """Images of one subject to keypoints, by a map for each: 1 where it is, 0 elsewhere."""

    def __init__(self, model: str, options: VisionOptions) -> None:
        from transformers import AutoModelForSemanticSegmentation

        super().__init__(model, options, AutoModelForSemanticSegmentation, "pose estimator")
        self.keypoints = self.classes

    def pose(self, images: Images) -> list[NDArray[np.float32]]:
        """For each image (1, keypoints, 3): x and y in pixels, and a score in [0, 1]."""
        require_any_images(images, self.name)
        size = np.array(images.shape[2:0:-1], dtype=np.float32)
        poses: list[NDArray[np.float32]] = []
        for rows in index_slices(len(images), self._options.batch):
            maps = self._run(images[rows]).logits.float().cpu().numpy()
            for one in maps:  # where each is highest, and how high
                flat = one.reshape(len(one), -1)
                down, across = np.unravel_index(flat.argmax(axis=1), one.shape[1:])
                places = (np.stack([across, down], axis=1) + 0.5) / one.shape[:0:-1] * size
                pose = np.column_stack([places, flat.max(axis=1).clip(0, 1)])
                poses.append(pose.astype(np.float32)[None])
        return poses


def load_pose_estimator(
    rest: str, options: Mapping[str, Any]
) -> HubPoseEstimator | MapPoseEstimator:
    """The pose estimator of a model of the hub: `PoseOptions`, of dense ones `VisionOptions`."""
    name = f"hf:{rest}"
    config = config_of(rest, revision=options.get("revision"))
    if built_for(config, "ForSemanticSegmentation"):
        return MapPoseEstimator(rest, read_options(options, VisionOptions, name=name))
    read = read_options(options, PoseOptions, name=name)
    if not built_for(config, "ForPoseEstimation"):
        raise wrong_kind(name, "pose estimator", config)
    return HubPoseEstimator(rest, read)
