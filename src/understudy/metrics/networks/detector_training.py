"""Train a one-stage detector: augmentation that moves boxes with pixels, and the loss.

Everything random follows ``seed`` and nothing else, as in `classifier_training`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.errors import InputError
from understudy.core.types import Found, Images
from understudy.metrics.networks.camera_variation import as_other_cameras
from understudy.metrics.networks.classifier import input_statistics
from understudy.metrics.networks.classifier_training import even_batches, seeded_torch
from understudy.metrics.networks.detector import BoxNetwork, detector_ap50, one_stage_detector
from understudy.metrics.networks.recipes import DETECTOR, Recipe, optimiser_of, rate_at
from understudy.metrics.utility import EpochProgress

import torch  # isort: skip  (after detector, which says what to install where it is missing)
from torch import Tensor  # isort: skip
from torch.nn import functional  # isort: skip

LEAST_VISIBLE = 0.4
"""A box of which augmentation leaves a smaller part inside the image is dropped."""
_ASPECT = 6.0  # standard deviations of the Gaussian about a middle, in a box
_TRUE_CELL = 0.3  # cells of a larger value in that Gaussian learn where the sides are
_SCALE, _SHIFT = 1.3, 0.15  # factor of an image's size, and part of its side, either way at most
_LIGHT, _NOISE = 0.25, 6.0  # relative change of brightness, twice that of a colour; noise, of 255


@dataclass(frozen=True, slots=True)
class BoxGoals:
    """The boxes of some images, as many for each.

    Attributes:
        sides: (n, k, 4) left, top, right and bottom in parts of the image's sides.
        labels: (n, k) classes; -1 where there is no box.
    """

    sides: Tensor
    labels: Tensor

    @classmethod
    def of(cls, truth: Sequence[Found], size: tuple[int, int]) -> BoxGoals:
        """Of boxes in images of (height, width) pixels."""
        most = max(1, max(len(one.labels) for one in truth))
        sides, labels = torch.zeros(len(truth), most, 4), torch.full((len(truth), most), -1)
        scale = torch.tensor([size[1], size[0], size[1], size[0]])
        for row, one in enumerate(truth):
            sides[row, : len(one.labels)] = torch.from_numpy(one.boxes).float() / scale
            labels[row, : len(one.labels)] = torch.from_numpy(one.labels)
        return cls(sides, labels)

    def rows(self, index: Tensor) -> BoxGoals:
        """Of some of the images."""
        return BoxGoals(self.sides[index], self.labels[index])

    def on(self, device: torch.device) -> BoxGoals:
        """The same on another device."""
        return BoxGoals(self.sides.to(device), self.labels.to(device))


def train_detector(
    images: Images,
    truth: Sequence[Found],
    *,
    classes: int,
    seed: int = 0,
    epochs: int | None = None,
    camera: bool = False,
    validation: tuple[Images, Sequence[Found]] | None = None,
    device: str = "cpu",
    progress: EpochProgress | None = None,
) -> BoxNetwork:
    """Train the one-stage detector. Memory beyond ``images`` is that of one batch.

    Args:
        images: (n, height, width, channels) uint8.
        truth: The boxes in each image; scores and masks are not looked at.
        classes: Number of classes, which the labels index.
        seed: Of the weights, the order and the augmentation.
        epochs: Passes over the images; None: those of the recipe, more where images are few.
        camera: Vary whatever cameras and homes differ in first, but for places.
        validation: Images and boxes: of all epochs the weights of the best AP50 on them are given.
        device: Where it is trained, and stays: ``"cpu"`` or ``"cuda"``.
        progress: Called after every epoch.

    Raises:
        InputError: No images, other images, or boxes that do not fit them.
    """
    _check(images, truth, classes)
    recipe = DETECTOR.for_rows(len(images), epochs)
    with seeded_torch(seed, device):
        network = one_stage_detector(images.shape[1:], classes).to(device)
        mean, gain = (part.to(device) for part in input_statistics(images))
        detector = BoxNetwork(network, images.shape[1:], classes, mean, gain)
        _fit(detector, images, truth, recipe, validation, progress, camera=camera)
    return detector


def _fit(
    detector: BoxNetwork,
    images: Images,
    truth: Sequence[Found],
    recipe: Recipe,
    validation: tuple[Images, Sequence[Found]] | None,
    progress: EpochProgress | None,
    *,
    camera: bool,
) -> None:
    model, device = detector.model, detector.mean.device
    boxes = BoxGoals.of(truth, images.shape[1:3]).on(device)
    optimiser = optimiser_of(model, recipe)
    steps = recipe.epochs * math.ceil(len(images) / recipe.batch)
    rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: rate_at(i, steps, recipe.warmup))
    best, weights = -1.0, None
    for epoch in range(recipe.epochs):
        model.train()
        for index in even_batches(len(images), recipe.batch):
            pixels = torch.from_numpy(images[index]).to(device)
            optimiser.zero_grad()
            with device:
                goals = boxes.rows(torch.from_numpy(index))
                pixels = as_other_cameras(pixels, still=True) if camera else pixels
                changed, goal = augmented(pixels, goals)
                loss = detection_loss(model(detector.prepare(changed)), goal)
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            rate.step()
        model.eval()
        if validation is not None and (score := detector_ap50(detector, *validation)) >= best:
            best, weights = score, copy.deepcopy(model.state_dict())
        if progress is not None:
            progress(epoch + 1, recipe.epochs)
    if weights is not None:
        model.load_state_dict(weights)


def augmented(images: Tensor, boxes: BoxGoals) -> tuple[Tensor, BoxGoals]:
    """Images scaled, shifted, mirrored and relit, and their boxes where they are then.

    ``images``: (n, height, width, channels) uint8, each changed by draws of its own; what moves in
    has the image's mean colour.

    Returns:
        (n, height, width, channels) float32 in [0, 255], and the boxes; of a box that is cut by
        the rim the part inside, and none where less than `LEAST_VISIBLE` of it is.
    """
    n, _, _, channels = images.shape
    scale = _SCALE ** (2 * torch.rand(n) - 1)
    mirror = torch.where(torch.rand(n) < 0.5, -1.0, 1.0)
    shift = _SHIFT * (2 * torch.rand(n, 2) - 1)
    # Sampling goes from the new image to the old one: x_old = a x_new + b, in -1 to 1.
    matrix = torch.zeros(n, 2, 3)
    matrix[:, 0, 0], matrix[:, 1, 1] = mirror / scale, 1 / scale
    matrix[:, :, 2] = -2 * shift * torch.stack([mirror / scale, 1 / scale], 1)
    planes = images.permute(0, 3, 1, 2).float()
    mean = planes.mean((2, 3), keepdim=True)  # a repeated rim would draw objects out of their boxes
    grid = functional.affine_grid(matrix, list(planes.shape), align_corners=False)
    views = functional.grid_sample(planes - mean, grid, align_corners=False) + mean
    light = 1 + _LIGHT * (2 * torch.rand(n, 1, 1, 1) - 1)
    tint = 1 + _LIGHT / 2 * (2 * torch.rand(n, channels, 1, 1) - 1)
    noise = _NOISE * torch.rand(n, 1, 1, 1) * torch.randn_like(views)
    relit = (views * light * tint + noise).clamp(0, 255).permute(0, 2, 3, 1)
    return relit, _moved_boxes(boxes, scale, mirror, shift)


def _moved_boxes(boxes: BoxGoals, scale: Tensor, mirror: Tensor, shift: Tensor) -> BoxGoals:
    """Boxes under x -> (x - 1/2) scale mirror + 1/2 + shift, cut off at the rim."""
    corners = boxes.sides.view(*boxes.labels.shape, 2, 2) - 0.5
    factors = torch.stack([scale * mirror, scale], 1)[:, None, None]
    corners = corners * factors + 0.5 + shift[:, None, None]
    corners = torch.stack([corners.amin(2), corners.amax(2)], 2)
    inside = corners.clamp(0, 1)
    areas = [(one[:, :, 1] - one[:, :, 0]).prod(2) for one in (inside, corners)]
    visible = areas[0] > LEAST_VISIBLE * areas[1]
    labels = torch.where(visible, boxes.labels, torch.full_like(boxes.labels, -1))
    return BoxGoals(inside.flatten(2), labels)


def detection_loss(maps: Tensor, boxes: BoxGoals) -> Tensor:
    """The focal loss of the middles and the generalised IoU of the boxes.

    ``maps``: (n, classes + 4, rows, columns) of the network; ``boxes``: what is there.
    """
    scores, sides = maps[:, :-4], maps[:, -4:].clamp(-6, 6).exp()
    rows, columns = maps.shape[2:]
    cells = boxes.sides * torch.tensor([columns, rows, columns, rows])
    near = _nearness(cells, boxes.labels, rows, columns)  # (n, k, rows, columns)
    one_hot = functional.one_hot(boxes.labels.clamp(min=0), scores.shape[1])
    goal = (near[:, :, None] * one_hot[..., None, None]).amax(1)
    middles = (goal == 1).float()
    # Zhou et al., Eq. 1: what is near a middle counts little as a mistake.
    likely = scores.sigmoid()
    missed = -functional.logsigmoid(scores) * (1 - likely) ** 2 * middles
    wrong = -functional.logsigmoid(-scores) * likely**2 * (1 - goal) ** 4
    focal = (missed + wrong).sum() / middles.sum().clamp(min=1)
    weight, owner = near.max(1)
    weight = weight * (weight > _TRUE_CELL)
    own = torch.gather(cells, 1, owner.flatten(1)[..., None].expand(-1, -1, 4))
    left, top, right, bottom = sides.unbind(1)  # in cells, from the middle of each
    x, y = torch.arange(columns) + 0.5, torch.arange(rows)[:, None] + 0.5
    stated = torch.stack([x - left, y - top, x + right, y + bottom], 3)
    loss = 1 - _generalised_iou(stated, own.view(len(own), rows, columns, 4))
    return focal + 2 * (loss * weight).sum() / weight.sum().clamp(min=1)


def _nearness(cells: Tensor, labels: Tensor, rows: int, columns: int) -> Tensor:
    """(n, k, rows, columns): a Gaussian about the middle of each box, 1 in the cell it is in."""
    middle = (cells[..., :2] + cells[..., 2:]) / 2
    spread = ((cells[..., 2:] - cells[..., :2]) / _ASPECT).clamp(min=0.5)
    x = torch.arange(columns) + 0.5 - middle[..., :1]
    y = torch.arange(rows) + 0.5 - middle[..., 1:]
    across = torch.exp(-0.5 * (x / spread[..., :1]) ** 2)
    down = torch.exp(-0.5 * (y / spread[..., 1:]) ** 2)
    near = down[..., :, None] * across[..., None, :] * 0.99
    here = (y.abs() == y.abs().amin(2, keepdim=True))[..., :, None]
    here = here & (x.abs() == x.abs().amin(2, keepdim=True))[..., None, :]
    near = torch.where(here, torch.ones_like(near), near)
    return near * (labels >= 0)[..., None, None]


def _generalised_iou(one: Tensor, two: Tensor) -> Tensor:
    """Of boxes (..., 4), in [-1, 1] (Rezatofighi et al. 2019)."""
    low, high = one[..., :2], one[..., 2:]
    shared = _area(torch.maximum(low, two[..., :2]), torch.minimum(high, two[..., 2:]))
    hull = _area(torch.minimum(low, two[..., :2]), torch.maximum(high, two[..., 2:]))
    union = _area(low, high) + _area(two[..., :2], two[..., 2:]) - shared
    return shared / union.clamp(min=1e-6) - (hull - union) / hull.clamp(min=1e-6)


def _area(low: Tensor, high: Tensor) -> Tensor:
    return (high - low).clamp(min=0).prod(-1)


def _check(images: Images, truth: Sequence[Found], classes: int) -> None:
    if images.ndim != 4 or images.dtype != np.uint8 or not len(images):
        raise InputError(
            "images must be (n, height, width, channels) uint8, n > 0, "
            f"found {images.dtype} of shape {images.shape}"
        )
    if len(truth) != len(images):
        raise InputError(f"every image has its boxes: {len(images)} images, {len(truth)} of boxes")
    labels = np.concatenate([one.labels for one in truth])
    if not len(labels) or not 0 <= labels.min() <= labels.max() < classes:
        raise InputError(
            f"the {classes} classes need boxes with labels from 0 on, found {sorted(set(labels))}"
        )
