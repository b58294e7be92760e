"""``hf:MODEL`` as a pose estimator: keypoints of the one person (or dog) in an image.

    hf:usyd-community/vitpose-base-simple
    hf:OUT/pose    what `understudy studio pose` made

ViTPose looks at the whole image as one box. A dense network has a map for each keypoint.
"""

from __future__ import annotations

from collections.abc import Mapping
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
from understudy.backends.vision.dense import DenseNetwork, VisionOptions
from understudy.core.types import Images


class HubPoseEstimator:
    """Images to keypoints by ViTPose."""

    def __init__(self, model: str, options: HubOptions) -> None:
        self.name = full_name(f"hf:{model}", options)
        self.licence = licence_of(model, options.revision)
        self._options = options
        self._processor = load_image_processor(model, options.revision)
        from transformers import AutoModelForPoseEstimation

        self._network: Any = load_network(
            AutoModelForPoseEstimation, model, options, port="pose estimator"
        )
        self._forward = torch.compile(self._network) if options.compile else self._network
        self.keypoints = network_classes(self._network.config)

    def pose(self, images: Images) -> list[NDArray[np.float32]]:
        """For each image (1, keypoints, 3): x and y in pixels, and a score in [0, 1]."""
        require_any_images(images, self.name)
        poses: list[NDArray[np.float32]] = []
        for part in index_slices(len(images), self._options.batch):
            poses += list(self._of_images(images[part])[:, None])
        return poses

    def _of_images(self, images: Images) -> NDArray[np.float32]:
        """(n, keypoints, 3)."""
        device, dtype = self._options.placement()
        height, width = images.shape[1:3]
        corners = [[[0.0, 0.0, float(width), float(height)]]] * len(images)
        rows = [Image.fromarray(image) for image in with_channels(images, 3)]
        pixels = self._processor(rows, boxes=corners, return_tensors="pt")["pixel_values"]
        with running(self._network, self._options):
            outputs = self._forward(pixels.to(device, dtype))
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
    """The pose estimator of a model of the hub: `HubOptions`, of dense ones `VisionOptions`."""
    name = f"hf:{rest}"
    config = config_of(rest, revision=options.get("revision"))
    if built_for(config, "ForSemanticSegmentation"):
        return MapPoseEstimator(rest, read_options(options, VisionOptions, name=name))
    read = read_options(options, HubOptions, name=name)
    if not built_for(config, "ForPoseEstimation"):
        raise wrong_kind(name, "pose estimator", config)
    return HubPoseEstimator(rest, read)
