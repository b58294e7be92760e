"""Sanitizers: what of an object or of the background leaves the device, and at which level.

SpinML, section 3.2: L0 sends text alone, L1 a feature (edges, a pose, a box), L2 the segment;
section 5.5: the segment with noise. Not one of them is differentially private; `noisy_maps` is.
Other packages add theirs by entry points of the group ``understudy.sanitizers``.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np
import scipy.special
from numpy.typing import NDArray
from PIL import Image

from understudy.core.entry_points import SANITIZERS, registered, registration_of
from understudy.core.errors import ConfigError, InputError
from understudy.core.ports import PoseEstimator
from understudy.core.types import Images, Masks, Vector
from understudy.methods.sanitize.wire_items import (
    FILL,
    SKELETONS,
    BackgroundItem,
    BoxItem,
    EdgesItem,
    Item,
    PoseItem,
    TargetItem,
)
from understudy.steps.hints import LIMBS, edges

POSE_MARGIN = 1.2  # sides of the square that a pose is looked for in, in sides of the object's box


@dataclass(frozen=True, slots=True)
class PhotoPart:
    """One object, or the background, of some photos.

    Attributes:
        photos: (n, height, width, channels) uint8; of a background with its holes filled.
        mask: (n, height, width): the pixels that may be sent, none of a more private object.
    """

    photos: Images
    mask: Masks
    noun: str

    def __post_init__(self) -> None:
        if self.photos.ndim != 4 or self.mask.shape != self.photos.shape[:3]:
            raise InputError(
                f"every photo has its mask, found photos {self.photos.shape} and masks "
                f"{self.mask.shape}"
            )


@dataclass(frozen=True, slots=True)
class Sanitized:
    """What is sent of one part.

    Attributes:
        kind: ``"text"``, ``"box"``, ``"pose"``, ``"edges"`` or ``"segment"``; another package's
            sanitizer may have another.
        values: One array a photo in its first axis: boxes (n, 4), poses (n, k, 3), edges
            (n, height, width) bool, segments (n, height, width, channels) uint8; (n, 0) of text.
        empty: (n,) bool: photos of which nothing can be sent, for the object is not in them.
    """

    kind: str
    values: NDArray[Any]
    empty: NDArray[np.bool_]


@runtime_checkable
class Sanitizer(Protocol):
    """Keeps of a part what its level allows.

    What it gives depends on the photos through the pixels inside the masks alone.

    Attributes:
        level: 0, 1 or 2.
    """

    kind: ClassVar[str]
    level: ClassVar[int]

    def sanitize(self, part: PhotoPart, *, seed: int = 0) -> Sanitized:
        """What is sent of a part.

        The device gives it one photo at a time. The seed is that photo's own and secret, the same
        for every object, level and request: whatever is random follows it.
        """
        ...


@dataclass(frozen=True, slots=True)
class TextSanitizer:
    """L0: nothing of the photo; the request holds the noun."""

    kind: ClassVar[str] = "text"
    level: ClassVar[int] = 0

    def sanitize(self, part: PhotoPart, *, seed: int = 0) -> Sanitized:
        """Nothing."""
        return Sanitized(self.kind, np.zeros((len(part.photos), 0)), _none(part))


@dataclass(frozen=True, slots=True)
class BoxSanitizer:
    """L1: the object's box, grown to the lines of a grid.

    A tight box tells the status in 9 photos of 10; on a grid of half the image it hardly does.
    """

    kind: ClassVar[str] = "box"
    level: ClassVar[int] = 1

    grid: int = 32

    def sanitize(self, part: PhotoPart, *, seed: int = 0) -> Sanitized:
        """(n, 4) float32: left, top, right, bottom in pixels."""
        boxes = np.zeros((len(part.photos), 4), dtype=np.float32)
        height, width = part.mask.shape[1:]
        for box, mask in zip(boxes, part.mask, strict=True):
            if mask.any():
                box[[1, 3]] = self._sides(mask.any(axis=1), height)
                box[[0, 2]] = self._sides(mask.any(axis=0), width)
        return Sanitized(self.kind, boxes, _none(part))

    def _sides(self, along: NDArray[np.bool_], side: int) -> tuple[int, int]:
        pixels = np.flatnonzero(along)
        low, high = int(pixels[0]), int(pixels[-1]) + 1
        return low // self.grid * self.grid, min(side, -(-high // self.grid) * self.grid)


@dataclass(frozen=True, slots=True)
class EdgesSanitizer:
    """L1: Canny's edges of the part alone; pixels outside of it have no edges.

    The part is laid on grey first, so an edge depends on its pixels alone; its own outline is one.

    Attributes:
        sigma: Of the Gaussian that smooths first, in pixels.
    """

    kind: ClassVar[str] = "edges"
    level: ClassVar[int] = 1

    sigma: float = 0.8

    def sanitize(self, part: PhotoPart, *, seed: int = 0) -> Sanitized:
        """(n, height, width) bool, True on an edge."""
        alone = np.where(part.mask[..., None], part.photos, np.uint8(FILL))
        lines = (edges(alone, sigma=self.sigma) > 0) & part.mask
        return Sanitized(self.kind, lines, _none(part))


_MIDDLES = {"head": ("nose",), "neck": ("left shoulder", "right shoulder")}
"""Keypoints of a drawn person that COCO has no name for, as the middle of those that it has."""


def skeleton_of(keypoints: Sequence[str]) -> str | None:
    """The first of `LIMBS` whose keypoints a model finds, or the middle of which; None: none."""
    return next((name for name in LIMBS if not _keypoint_gaps(name, keypoints)), None)


def _keypoint_gaps(name: str, keypoints: Sequence[str]) -> list[str]:
    """The keypoints of a skeleton that a model neither finds nor has the ends of."""
    middles = {name for name, ends in _MIDDLES.items() if set(ends) <= set(keypoints)}
    return [one for one in SKELETONS[name] if one not in {*keypoints, *middles}]


@dataclass(frozen=True, slots=True)
class PoseSanitizer:
    """L1: the object's keypoints.

    The estimator is shown the part on grey alone, enlarged. Of several poses the surest is taken.

    Attributes:
        skeleton: ``"person"`` or ``"dog"``, whose keypoints are sent, in the order of `SKELETONS`.
    """

    kind: ClassVar[str] = "pose"
    level: ClassVar[int] = 1

    estimator: PoseEstimator
    skeleton: str
    certainty: float = 0.3

    def __post_init__(self) -> None:
        if gaps := _keypoint_gaps(self.skeleton, self.estimator.keypoints):
            raise ConfigError(
                f"{self.estimator.name} has no keypoints for the skeleton {self.skeleton!r}: it "
                f"lacks {', '.join(gaps)}"
            )

    def sanitize(self, part: PhotoPart, *, seed: int = 0) -> Sanitized:
        """(n, keypoints, 3) float32: x and y in pixels, and 1 where the keypoint is sent."""
        height, width = part.mask.shape[1:]
        points = np.zeros((len(part.mask), len(SKELETONS[self.skeleton]), 3), dtype=np.float32)
        for row, people in enumerate(self.people(part)):
            if len(people) and part.mask[row].any():
                best = self.surest(people)
                inside = (best[:, :2] >= 0).all(axis=1) & (best[:, :2] <= (width, height)).all(1)
                sure = (best[:, 2] >= self.certainty) & inside
                points[row][sure] = np.column_stack([best[sure, :2], np.ones(sure.sum())])
        return Sanitized(self.kind, points, np.asarray(~points[..., 2].any(axis=1)))

    def people(self, part: PhotoPart) -> list[NDArray[np.float32]]:
        """The poses in each photo (people, keypoints, 3): x and y in its pixels, and a score."""
        alone = np.where(part.mask[..., None], part.photos, np.uint8(FILL))
        size = np.array(part.mask.shape[:0:-1])
        cuts = [square_about(mask) for mask in part.mask]
        squares = np.stack([*map(_enlarged, alone, cuts)]) if cuts else alone
        return [
            np.concatenate([one[..., :2] * (side / size) + (left, top), one[..., 2:]], axis=-1)
            for (left, top, side), one in zip(cuts, self.estimator.pose(squares), strict=True)
        ]

    def surest(self, people: NDArray[np.float32]) -> NDArray[np.float32]:
        """(keypoints sent, 3) of the surest of poses (people, keypoints, 3).

        A middle is as sure as the less sure end.
        """
        pose = people[people[:, :, 2].mean(axis=1).argmax()]
        at = {name: pose[row] for row, name in enumerate(self.estimator.keypoints)}
        rows = []
        for name in SKELETONS[self.skeleton]:
            ends = np.stack([at[one] for one in ((name,) if name in at else _MIDDLES[name])])
            rows.append([*ends[:, :2].mean(axis=0), ends[:, 2].min()])
        return np.array(rows, dtype=np.float32)


def square_about(mask: NDArray[np.bool_]) -> tuple[float, float, float]:
    """Left, top and side, in pixels, of a square about what a mask shows, with a margin.

    About the whole, where it shows nothing.
    """
    area = mask if mask.any() else np.ones_like(mask)
    down, across = (np.flatnonzero(area.any(axis=axis)) for axis in (1, 0))
    side = POSE_MARGIN * max(down[-1] - down[0], across[-1] - across[0], 1)
    middle_x, middle_y = (across[0] + across[-1] + 1) / 2, (down[0] + down[-1] + 1) / 2
    return middle_x - side / 2, middle_y - side / 2, side


def _enlarged(image: Images, cut: tuple[float, float, float]) -> Images:
    """What a square shows, at the size of the image; grey outside of it."""
    left, top, side = cut
    height, width = image.shape[:2]
    pad = math.ceil(side)
    wider = np.pad(image, ((pad, pad), (pad, pad), (0, 0)), constant_values=FILL)
    box = (left + pad, top + pad, left + pad + side, top + pad + side)
    planes = [
        np.asarray(Image.fromarray(plane).resize((width, height), Image.Resampling.BILINEAR, box))
        for plane in np.moveaxis(wider, -1, 0)
    ]
    return np.stack(planes, axis=-1)


@dataclass(frozen=True, slots=True)
class SegmentSanitizer:
    """L2: the part as it is, on grey."""

    kind: ClassVar[str] = "segment"
    level: ClassVar[int] = 2

    def sanitize(self, part: PhotoPart, *, seed: int = 0) -> Sanitized:
        """(n, height, width, channels) uint8; 127 outside of the part."""
        values = np.where(part.mask[..., None], part.photos, np.uint8(FILL))
        return Sanitized(self.kind, values, _none(part))


@dataclass(frozen=True, slots=True)
class NoiseSanitizer:
    """The segment with Gaussian noise on its pixels (SpinML, section 5.5).

    The paper's deviations are 5, 10 and 50 of 255. It is no differential privacy to speak of:
    at 50 and one photo of 64 x 64 pixels epsilon is above a thousand.

    The noise of a seed is a random walk, a step for each whole deviation: a larger deviation is a
    smaller one with more noise on it. So who has a photo at deviations 5, 10 and 50 knows what the
    one at 5 tells and no more. Of independent noise the mean could be taken, and one noise that is
    scaled could be solved for: twice the one at 5 less the one at 10 is the photo.

    Attributes:
        deviation: Standard deviation of the noise, of 255, a whole number.
    """

    kind: ClassVar[str] = "segment"
    level: ClassVar[int] = 2

    deviation: float = 50.0

    def __post_init__(self) -> None:
        if self.deviation not in range(1, 256):
            raise ConfigError(
                "the deviation of the noise must be a whole number of 1 to 255, found "
                f"{self.deviation:g}"
            )

    def sanitize(self, part: PhotoPart, *, seed: int = 0) -> Sanitized:
        """(n, height, width, channels) uint8; 127 outside of the part."""
        shape = part.photos.shape[1:]
        noise = np.stack([self._noise(seed, row, shape) for row in range(len(part.photos))])
        noisy = np.rint(np.clip(part.photos + noise, 0, 255)).astype(np.uint8)
        return SegmentSanitizer().sanitize(PhotoPart(noisy, part.mask, part.noun))

    def _noise(self, seed: int, row: int, shape: tuple[int, ...]) -> Vector:
        """From SHAKE-256: parts of the noise that are known tell nothing of the rest."""
        noise = np.zeros(math.prod(shape))
        for step in range(1, int(self.deviation) + 1):
            stream = hashlib.shake_256(f"noise {seed} {row} {step}".encode("ascii"))
            numbers = np.frombuffer(stream.digest(4 * noise.size), dtype="<u4")
            # The walk's variance is deviation squared: this step adds 2 step - 1.
            noise += math.sqrt(2 * step - 1) * scipy.special.ndtri((numbers + 0.5) * 2.0**-32)
        return noise.reshape(shape)


EVEN_SANITIZERS = (
    TextSanitizer,
    BoxSanitizer,
    EdgesSanitizer,
    PoseSanitizer,
    SegmentSanitizer,
)
"""Those that draw nothing at random: their seed is of no account."""


def _none(part: PhotoPart) -> NDArray[np.bool_]:
    return np.asarray(~part.mask.any(axis=(1, 2)))


def items_of(message: Sanitized, part: PhotoPart, number: int) -> list[Item]:
    """What is sent of a part as items of the wire, one a photo; photos without it have none.

    ``number`` of the part in the request: 0 is the background.

    Raises:
        WireError: Photos that are not squares of a size that the wire has.
        InputError: The kind of another package's sanitizer, which the wire has no item for.
    """
    side = part.photos.shape[1]
    make: Mapping[str, Callable[[int], Item]] = {
        "box": lambda row: BoxItem.of(number, side, message.values[row]),
        "pose": lambda row: PoseItem.of(number, side, message.values[row]),
        "edges": lambda row: EdgesItem.of(number, message.values[row]),
        "segment": lambda row: (
            TargetItem.of(number, message.values[row], part.mask[row])
            if number
            else BackgroundItem.of(message.values[row])
        ),
    }
    if message.kind == "text":
        return []
    if message.kind not in make:
        raise InputError(
            f"the wire has no item for {message.kind!r}; it has {', '.join(sorted(make))}"
        )
    return [make[message.kind](int(row)) for row in np.flatnonzero(~message.empty)]


def load_sanitizer(name: str, **options: Any) -> Sanitizer:
    """A sanitizer by its name, of this package or of another.

    Names are those of entry points of the group ``understudy.sanitizers``.

    Raises:
        ConfigError: There is none of the name, it cannot be loaded, or it takes other options.
    """
    registration = registration_of(SANITIZERS, name, "sanitizer", ConfigError)
    if registration is None:
        names = ", ".join(sorted(registered(SANITIZERS)))
        raise ConfigError(f"there is no sanitizer {name!r}; there are {names}")
    make: Callable[..., object] = registration.load("sanitizer", ConfigError)
    try:
        sanitizer = make(**options)
    except TypeError as error:
        raise ConfigError(f"the sanitizer {name!r} takes other options: {error}") from error
    if not isinstance(sanitizer, Sanitizer):
        raise ConfigError(
            f"the sanitizer {name!r} ({registration.value}) gave a {type(sanitizer).__name__} "
            "without kind, level or sanitize"
        )
    return sanitizer
