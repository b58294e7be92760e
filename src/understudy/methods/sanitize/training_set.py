"""What the specialised model is trained on: images with classes, or with boxes (Section 3.3).

Labels come for nothing: a class from the prompt, a box from where the object was put. Sets of
several preferences may be mixed (Section 5.1), and labelled references added (Section 7).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Found, Images, Labels, Shape
from understudy.methods.sanitize.jobs import array_bytes, stored_arrays_of
from understudy.methods.sanitize.wire import ModelKind

HELD_OUT = 0.1
"""Part of the synthetic images that choose the best epoch (appendix B.2)."""


@dataclass(frozen=True, slots=True, eq=False)
class LabelledSet:
    """Labelled images.

    Attributes:
        images: (n, height, width, channels) uint8.
        labels: (n,) classes; of a detector's images the group that a tenth is left out of.
        boxes: (m, 4) float32 of all images, left, top, right, bottom in pixels; none of a
            classifier's.
    """

    images: Images
    labels: Labels
    boxes: NDArray[np.float32]
    box_images: Labels
    box_labels: Labels

    @classmethod
    def of_classes(cls, images: Images, labels: Labels) -> LabelledSet:
        """A classifier's."""
        none = np.zeros(0, np.int64)
        return cls(images, labels.astype(np.int64), np.zeros((0, 4), np.float32), none, none)

    @classmethod
    def of_boxes(cls, images: Images, truth: Sequence[Found]) -> LabelledSet:
        """A detector's, in one group."""
        count = np.array([len(one.labels) for one in truth], np.int64)
        return cls(
            images,
            np.zeros(len(images), np.int64),
            np.concatenate([one.boxes for one in truth]).astype(np.float32).reshape(-1, 4),
            np.repeat(np.arange(len(truth)), count),
            np.concatenate([one.labels for one in truth]).astype(np.int64),
        )

    def __len__(self) -> int:
        return len(self.images)

    @property
    def truth(self) -> list[Found]:
        """The boxes in each image."""
        owners = [np.flatnonzero(self.box_images == row) for row in range(len(self))]
        return [
            Found(self.boxes[own], self.box_labels[own], np.ones(len(own), np.float32))
            for own in owners
        ]

    def rows(self, index: NDArray[np.int64]) -> LabelledSet:
        """Some of the images, in this order, an image more than once if so listed."""
        if not len(self.boxes):
            return LabelledSet.of_classes(self.images[index], self.labels[index])
        truth = self.truth
        subset = LabelledSet.of_boxes(self.images[index], [truth[row] for row in index])
        return replace(subset, labels=self.labels[index])

    def to_bytes(self) -> bytes:
        """The arrays in NumPy's format, one after another; the same set has the same bytes."""
        return array_bytes(self.images, self.labels, self.boxes, self.box_images, self.box_labels)

    @classmethod
    def from_bytes(cls, data: bytes) -> LabelledSet:
        """The set that `to_bytes` wrote."""
        return cls(*stored_arrays_of(data))


@dataclass(frozen=True, slots=True)
class TrainedModel:
    """What a training gives.

    Attributes:
        validation: Accuracy or AP50 on the images left out.
    """

    state: bytes
    validation: float


class ModelTraining(Protocol):
    """How the specialised model is built, trained and exported."""

    def train(
        self,
        kind: ModelKind,
        training_set: LabelledSet,
        held_out: LabelledSet,
        classes: int,
        seed: int,
        beat: Callable[[], None],
    ) -> TrainedModel:
        """Train it; of all epochs the best on the images left out; ``beat`` after every epoch."""
        ...

    def export(self, kind: ModelKind, state: bytes, shape: Shape, classes: int) -> bytes:
        """The trained model as ONNX."""
        ...


def train_model(
    training: ModelTraining,
    kind: ModelKind,
    whole: LabelledSet,
    classes: int,
    seed: int,
    *,
    beat: Callable[[], None] = lambda: None,
) -> TrainedModel:
    """The model of a synthetic set: nine tenths train it, a tenth chooses the epoch.

    Args:
        training: Builds and trains.
        kind: Of the model.
        whole: The synthetic images.
        classes: Number of classes.
        seed: Of the split and the training.
        beat: Called after every epoch.
    """
    rows, held_out = validation_split(whole.labels, seed)
    return training.train(kind, whole.rows(rows), whole.rows(held_out), classes, seed, beat)


def mixed_set(sets: Sequence[LabelledSet], seed: int) -> LabelledSet:
    """As many images as the first set has, an equal share of every class from each set."""
    rng = np.random.default_rng(seed)
    parts = []
    for number, one in enumerate(sets):
        rows: list[NDArray[np.int64]] = []
        for label in np.unique(sets[0].labels):
            class_size = int((sets[0].labels == label).sum())
            share = class_size * (number + 1) // len(sets) - class_size * number // len(sets)
            class_rows = rng.permutation(np.flatnonzero(one.labels == label))
            rows.append(class_rows[:share])
        parts.append(one.rows(np.concatenate(rows)))
    return joined_sets(parts)


def joined_sets(sets: Sequence[LabelledSet]) -> LabelledSet:
    """All images of several sets."""
    starts = np.cumsum([0, *(len(one) for one in sets)])
    return LabelledSet(
        np.concatenate([one.images for one in sets]),
        np.concatenate([one.labels for one in sets]),
        np.concatenate([one.boxes for one in sets]),
        np.concatenate([one.box_images + start for one, start in zip(sets, starts, strict=False)]),
        np.concatenate([one.box_labels for one in sets]),
    )


def validation_split(labels: Labels, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices to train on and to validate by: a tenth of every class, at least one, is left out.

    Raises:
        InputError: A class has a single image.
    """
    rng = np.random.default_rng(seed)
    validation_parts = []
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        if len(rows) < 2:
            raise InputError(f"class {label} has one image: a training needs two or more of each")
        validation_parts.append(rows[: max(1, round(HELD_OUT * len(rows)))])
    validation_rows = np.sort(np.concatenate(validation_parts))
    return np.setdiff1d(np.arange(len(labels)), validation_rows), validation_rows
