"""How much of a photo is in what was sent of it: mutual information by parts (SpinML, Eq. 1).

The plug-in estimate from histograms is never 0: of a part of a few hundred pixels it reads 10 to
20 % where nothing was sent. So the same estimate is made with the same part of other photos, which
have nothing to do with the message, and taken off. Nothing in here is DP: owner-only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Interval, Metric
from understudy.core.types import Images, Masks, Vector
from understudy.steps.row_arithmetic import evenly_spread

Codes = NDArray[np.int64]

_OTHERS = 48
_BINS = 16  # of the luminance of a photo and of each message

DISCLOSED_INFORMATION = Metric(
    key="disclosed_information",
    group="leakage",
    name="mutual information of a part of the photo and what was sent",
    explanation="Part of the entropy of an object or of the background that is in the messages of "
    "a device, all of them together; the same with the parts of other photos is taken off.",
    better="lower",
    unit="%",
    baseline="0",
)


@dataclass(frozen=True, slots=True)
class PartMessages:
    """Photos, one part of each, and what was sent of them.

    Attributes:
        photos: (n, height, width, channels) uint8.
        parts: (n, height, width): the pixels of the object, or of the background.
        messages: Each (n, height, width, channels) uint8: an image of what was sent, all of it:
            edges, a drawn skeleton, a filled box, the segment, black where nothing was sent.
            None at all: nothing was sent.
    """

    photos: Images
    parts: Masks
    messages: tuple[Images, ...] = ()

    def __post_init__(self) -> None:
        shape = self.photos.shape
        if len(shape) != 4 or not len(self.photos) or self.photos.dtype != np.uint8:
            raise InputError(
                "photos are (n, height, width, channels) uint8, n at least 1, found "
                f"{self.photos.dtype} {shape}"
            )
        if self.parts.shape != shape[:3] or self.parts.dtype != np.bool_:
            raise InputError(
                f"the part of a photo is a mask: {shape[:3]} bool, found "
                f"{self.parts.dtype} {self.parts.shape}"
            )
        for message in self.messages:
            if message.shape[:3] != shape[:3] or message.dtype != np.uint8:
                raise InputError(
                    f"a message is drawn at the size of its photo, {shape[:3]} uint8, found "
                    f"{message.dtype} {message.shape}"
                )

    def binned(self) -> tuple[Codes, Codes]:
        """(n, height, width) codes each: of the photo's luminance, of all messages together."""
        sent = np.zeros(self.photos.shape[:3], dtype=np.int64)
        for message in self.messages:
            joint = sent * _BINS + _binned(message)
            sent = np.unique(joint, return_inverse=True)[1].reshape(sent.shape)
        return _binned(self.photos), sent


@dataclass(frozen=True, slots=True)
class DisclosedInformation:
    """What a set of messages tells of one part of the photos. Owner-only.

    Attributes:
        corrected: Part of the entropy that is disclosed, bias removed, with an interval over the
            photos. It may be a little below 0.
        uncorrected: The plug-in estimate of Eq. 1, before the bias is removed.
        photos: How many photos show the part.
    """

    corrected: Interval
    uncorrected: float
    photos: int


def disclosed_information(own: PartMessages, others: PartMessages) -> DisclosedInformation:
    """MI(X, {Y1, Y2, ...}) of SpinML, Eq. 1: mean of I(x; y1, y2, ...) / I(x; x) over the photos.

    x is the luminance of the part's pixels, y the values of all messages at the same places,
    jointly. Text tells nothing of one photo in particular and is left out, as in the paper.

    What the estimate reads of unrelated pairs grows with the diversity of either side, so that of
    (x, y) is I(x; y') I(x'; y) / I(x'; y''), with photos x' and messages y', y'' of other homes,
    the part of theirs laid over this one.

    Args:
        own: The photos, and what was sent of them.
        others: Photos of other homes, and the same kinds of messages of those. 48 are used,
            spread over the order they come in.

    Raises:
        InputError: Other sizes, or no photo in which the part is visible.
    """
    if own.photos.shape[1:3] != others.photos.shape[1:3]:
        raise InputError(
            f"photos of {own.photos.shape[1:3]} and of {others.photos.shape[1:3]} pixels do not "
            "compare: resize one of them"
        )
    donors = np.flatnonzero(others.parts.any(axis=(1, 2)))
    if not len(donors):
        raise InputError("the bias needs other photos that show the part, and there is none")
    # Spread over the photos, for those of one home may stand together.
    donors = donors[evenly_spread(len(donors), _OTHERS)]
    unrelated = [one[donors] for one in others.binned()]
    layers = [_Layer(part) for part in others.parts[donors]]
    plain, corrected = [], []
    for x, y, part in zip(*own.binned(), own.parts, strict=True):
        entropy = _entropy(x[part]) if part.any() else 0.0
        if entropy > 0:
            places = [layer.under(part) for layer in layers]
            shifts = [
                [codes[at] for codes, at in zip(side, places, strict=True)] for side in unrelated
            ]
            information = _information(x[part], y[part])
            plain.append(information / entropy)
            bias = _bias(x[part], y[part], *shifts)
            corrected.append((information - bias) / entropy)
    if not plain:
        raise InputError("the part has no pixels of more than one brightness in any photo")
    return DisclosedInformation(_interval(np.asarray(corrected)), float(np.mean(plain)), len(plain))


def _bias(x: Codes, y: Codes, photos: list[Codes], messages: list[Codes]) -> float:
    """What I(x; y) reads where x and y have nothing to do with each other."""
    to_messages = np.mean([_information(x, other) for other in messages])
    to_photos = np.mean([_information(other, y) for other in photos])
    pairs = zip(photos, [*messages[1:], messages[0]], strict=True)
    apart = np.mean([_information(*pair) for pair in pairs])
    return float(to_messages * to_photos / apart) if apart > 0 else 0.0


def _information(x: Codes, y: Codes) -> float:
    """I(x; y) in bits, from the joint histogram."""
    return _entropy(x) + _entropy(y) - _entropy(x * (int(y.max()) + 1) + y)


def _entropy(codes: Codes) -> float:
    counts = np.bincount(codes)
    p = counts[counts > 0] / len(codes)
    return float(-(p * np.log2(p)).sum())


def _binned(images: Images) -> Codes:
    """(n, height, width): the bin of each pixel's luminance."""
    return np.asarray(images.mean(axis=3) * _BINS / 256, dtype=np.int64)


class _Layer:
    """A part of another photo, to be laid over the parts of the own ones, box over box."""

    def __init__(self, part: NDArray[np.bool_]) -> None:
        self._nearest = scipy.ndimage.distance_transform_edt(
            ~part, return_distances=False, return_indices=True
        )
        self._extents = [np.flatnonzero(part.any(axis=1 - axis)) for axis in (0, 1)]

    def under(self, part: NDArray[np.bool_]) -> tuple[Codes, Codes]:
        """Row and column of the other photo's part for each pixel of this one."""
        pixels = np.nonzero(part)
        at = []
        for pixel, extent in zip(pixels, self._extents, strict=True):
            along = (pixel - pixel.min() + 0.5) / (pixel.max() - pixel.min() + 1)
            at.append((extent[0] + along * (extent[-1] - extent[0] + 1)).astype(np.int64))
        rows, columns = self._nearest[:, at[0], at[1]]
        return rows, columns


def _interval(values: Vector) -> Interval:
    """Student's interval (95 %) of a mean over photos; without spread where there is one photo."""
    mean = float(values.mean())
    if len(values) < 2:
        return Interval(mean, mean, mean)
    half = float(scipy.stats.t.ppf(0.975, len(values) - 1) * scipy.stats.sem(values))
    return Interval(mean, mean - half, mean + half)
