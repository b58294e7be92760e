"""`understudy studio pose`: a small network learns where a person's keypoints are.

It learns from persons of public photos, with what a larger network says of them, and from drawn
persons of the playhouse, whose keypoints are known. Its answer is a map for each keypoint (Xiao et
al. 2018, *Simple Baselines for Human Pose Estimation*): 1 where it is, falling off as a Gaussian.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from understudy.core.errors import ConfigError
from understudy.core.ports import PoseEstimator, Segmenter
from understudy.core.types import Images
from understudy.methods.sanitize.sanitizers import PhotoPart, PoseSanitizer, square_about
from understudy.methods.sanitize.segments import classes_of
from understudy.methods.sanitize.wire_items import FILL, SKELETONS
from understudy.playhouse.picture import Instance
from understudy.playhouse.source import open_playhouse
from understudy.studio.autoencoder import from_network, in_pairs, to_network
from understudy.studio.segmenter import relit
from understudy.studio.segmenter_distillation import PHOTO_SIDE, SHOWN_SIDE, labelled_rows

PERSON = SKELETONS["person"]
"""The keypoints, in the order of the network's answers."""

_MIRRORED = [
    PERSON.index({"left": "right", "right": "left"}.get(side, side) + blank + rest)
    for side, blank, rest in (name.partition(" ") for name in PERSON)
]
_LEAST_PART = 0.06  # of a photo's pixels, for a person to learn from
_SEEN, _UNSEEN = 0.4, 0.2  # a teacher's scores from which on, and up to which, it is believed
_LEAST_SEEN = 5  # keypoints of a person to learn from
_CELLS = SHOWN_SIDE // 4  # along a side of the network's answer
_WIDTH = 1.2  # standard deviation of a keypoint's Gaussian, in cells
_ANGLE, _SIZES, _SHIFT = 0.35, (0.8, 1.3), 0.15
"""How far a person is turned (radians), how large a square about them is shown, how far off."""


@dataclass(frozen=True, slots=True)
class Persons:
    """What the network learns from.

    Attributes:
        images: (n, side, side, 3) uint8.
        masks: (n, side, side) bool: the person's pixels.
        points: (n, keypoints, 3) float32: x and y in pixels, and 1 where the keypoint is, 0 where
            it is not seen, -1 where nobody knows.
    """

    images: Images
    masks: NDArray[np.bool_]
    points: NDArray[np.float32]

    def save(self, file: Path) -> None:
        """Write them."""
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, images=self.images, masks=self.masks, points=self.points)

    @classmethod
    def read(cls, file: Path) -> Persons:
        """Those of a file."""
        with np.load(file, allow_pickle=False) as values:
            return cls(values["images"], values["masks"], values["points"])

    @classmethod
    def of(
        cls, images: Sequence[str], count: int, segmenter: Segmenter, teacher: PoseEstimator
    ) -> Persons:
        """Persons of so many photos, and half as many drawn ones as these.

        Raises:
            ConfigError: The photos show too few, or the teacher lacks keypoints.
        """
        rows = list(_photographed(images, count, segmenter, teacher))
        if len(rows) < 8:
            raise ConfigError(f"{len(rows)} persons were found in {count} photos: name others")
        rows += _stick_figures(len(rows) // 2)
        return cls(*(np.stack(column) for column in zip(*rows, strict=True)))


def _photographed(
    images: Sequence[str], count: int, segmenter: Segmenter, teacher: PoseEstimator
) -> Iterator[tuple[Images, NDArray[np.bool_], NDArray[np.float32]]]:
    """Persons whom a segmenter finds, with the keypoints that a teacher finds about them."""
    numbers = [segmenter.classes.index(name) for name in classes_of("person", segmenter.classes)]
    sanitizer = PoseSanitizer(teacher, "person", 0.0)
    for row in labelled_rows(images, count, segmenter):
        mask = np.isin(np.asarray(row.segments), numbers)
        if mask.mean() < _LEAST_PART:
            continue
        # The teacher sees what stands about the person as well.
        down, across = (np.flatnonzero(mask.any(axis=axis)) for axis in (1, 0))
        box = np.zeros_like(mask)
        box[down[0] : down[-1] + 1, across[0] : across[-1] + 1] = True
        (people,) = sanitizer.people(PhotoPart(row.image[None], box[None], "person"))
        if not len(people):
            continue
        points = sanitizer.surest(people)
        score, inside = points[:, 2], ((points[:, :2] >= 0) & (points[:, :2] < PHOTO_SIDE)).all(1)
        points[:, 2] = np.where(score >= _SEEN, 1, np.where(score <= _UNSEEN, 0, -1))
        points[~inside, 2] = 0
        if (points[:, 2] == 1).sum() >= _LEAST_SEEN:
            yield row.image, mask, points


def _stick_figures(count: int) -> list[tuple[Images, NDArray[np.bool_], NDArray[np.float32]]]:
    """So many persons of the playhouse's public world."""
    source = open_playhouse(f"world?target=person&count={count}&size={PHOTO_SIDE}")
    rows = []
    for number in range(count):
        image = source.drawn_image(number)
        for one in image.instances:
            if one.name == "person" and one.keypoints is not None and one.mask.any():
                rows.append((image.image, one.mask, drawn_keypoints(one)))
                break
    return rows


def drawn_keypoints(person: Instance) -> NDArray[np.float32]:
    """The keypoints of a drawn person (keypoints, 3) with left and right as the person has them.

    Drawn persons face who looks at them, and mirrored drawings keep the names of what is mirrored.
    """
    points = np.asarray(person.keypoints)[[person.names.index(name) for name in PERSON]]
    left, right = (PERSON.index(f"{side} shoulder") for side in ("left", "right"))
    return points if points[left, 0] >= points[right, 0] else points[_MIRRORED]


class PoseStage:
    """Squares between a network's maps and those of the keypoints.

    Persons come turned, mirrored, larger and smaller, in another light; on grey as a rule, as the
    device shows them, and else before what is behind them.
    """

    name = "pose"

    def __init__(self, persons: Persons, network: Any, device: torch.device) -> None:
        self.network, self.rows = network, len(persons.images)
        self._persons, self._device = persons, device
        squares = np.array([square_about(mask) for mask in persons.masks], dtype=np.float32)
        side = persons.masks.shape[1]
        # Middle and half a side of each square, with the photo from -1 to 1.
        self._middles = (squares[:, :2] + squares[:, 2:] / 2) * (2 / side) - 1
        self._halves = squares[:, 2] / side

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Of the keypoints of which it is known whether they are seen."""
        rng = np.random.default_rng(random.initial_seed())
        pixels, points = self._shown(rows.numpy(), rng)
        pixels = relit(pixels, random).contiguous(memory_format=torch.channels_last)
        maps = self.network.decode_head(self.network.backbone(pixels).feature_maps)
        errors = (maps - heatmaps(points)).square().sum(dim=(2, 3))
        mask = (points[..., 2] >= 0).float()
        return {"keypoints": (errors * mask).sum() / mask.sum().clamp(min=1)}

    def _shown(
        self, rows: NDArray[np.int64], rng: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """What a pass sees (n, 3, side, side), and the keypoints in it, from -1 to 1."""
        persons, count = self._persons, len(rows)
        on_grey = rng.random(count) < 0.7
        masks = persons.masks[rows] | ~on_grey[:, None, None]
        images = np.where(masks[..., None], persons.images[rows], np.uint8(FILL))
        angle = rng.uniform(-_ANGLE, _ANGLE, count)
        size = self._halves[rows] * rng.uniform(*_SIZES, count)
        middle = self._middles[rows] + rng.uniform(-_SHIFT, _SHIFT, (count, 2)) * size[:, None]
        mirror = np.where(rng.random(count) < 0.5, -1.0, 1.0)
        cos, sin = np.cos(angle) * size, np.sin(angle) * size
        # From what is shown to the photo: x' = A x + middle.
        matrix = np.stack([[mirror * cos, -sin], [mirror * sin, cos]]).transpose(2, 0, 1)
        theta = np.concatenate([matrix, middle[..., None]], axis=2).astype(np.float32)
        shape = [count, 3, SHOWN_SIDE, SHOWN_SIDE]
        grid = functional.affine_grid(torch.from_numpy(theta), shape, align_corners=False)
        grey = 2 * FILL / 255 - 1
        pixels = to_network(images, torch.device("cpu")) - grey
        pixels = functional.grid_sample(pixels, grid, align_corners=False) + grey
        points = persons.points[rows].copy()
        at = points[..., :2] * (2 / persons.masks.shape[1]) - 1 - middle[:, None]
        points[..., :2] = np.einsum("nij,nkj->nki", np.linalg.inv(matrix), at)
        points[mirror < 0] = points[mirror < 0][:, _MIRRORED]
        outside = (np.abs(points[..., :2]) > 1).any(axis=2) & (points[..., 2] > 0)
        points[outside, 2] = 0
        return pixels.to(self._device), torch.from_numpy(points).to(self._device)

    @torch.no_grad()
    def sheet(self) -> Images:
        """Sixteen persons, each above the largest of their maps at each place."""
        rows = np.linspace(0, self.rows - 1, 16).astype(np.int64)
        pixels, _ = self._shown(rows, np.random.default_rng(0))
        maps = self.network(pixel_values=pixels).logits.amax(dim=1, keepdim=True)
        maps = functional.interpolate(maps, SHOWN_SIDE).expand(-1, 3, -1, -1)
        return in_pairs(from_network(pixels), from_network(maps.clamp(0, 1) * 2 - 1))


def heatmaps(points: torch.Tensor) -> torch.Tensor:
    """(n, keypoints, cells, cells): a Gaussian of height 1 about each keypoint that is seen.

    ``points``: (n, keypoints, 3): x and y from -1 to 1, and 1 where it is seen.
    """
    cells = (torch.arange(_CELLS, device=points.device) + 0.5) * (2 / _CELLS) - 1
    width = _WIDTH * 2 / _CELLS
    across, down = (
        torch.exp(-((cells - points[..., axis, None]) ** 2) / (2 * width**2)) for axis in (0, 1)
    )
    return down[..., :, None] * across[..., None, :] * (points[..., 2, None, None] > 0)
