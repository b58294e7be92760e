"""Classes of public images, by a classifier that is trained on private ones by noisy gradients.

What the classifier reads is whitened by the public images, and their second moments precondition
the descent: both are free.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Images, Labels, Stage, SyntheticBatch, Vector
from understudy.methods.base import Materials
from understudy.methods.dp_descent import INPUT_LENGTH, Descent, descend_on_records
from understudy.methods.labelling.likeness import ClassCounts
from understudy.privacy.queries import RecallCounts
from understudy.steps.row_arithmetic import unit_rows

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

DESCENT = Descent(40, 0.3, 48.0, momentum=0.85)

FEWEST_IMAGES_OF_CLASS = 20
"""That samples of a class are drawn from, at least."""

_LEAST_AXES = 12  # that a classifier reads
_SURE = 2.0  # standard deviations of the noise
_BLOCK = 512  # samples that are drawn at a time

Redraw = Callable[[Images, Labels, str], Images]
"""Public images (n, height, width, c), the class of each and a name for the seed, to samples."""


def readable_axes(mu: float, total: float, most: int) -> int:
    """How many leading axes a classifier reads of so many records: noise drowns the others.

    Measured on four sets, at epsilon 1 and 8: no other number up to 300 was better by a point.
    """
    return min(most, max(_LEAST_AXES, round(math.pow(mu * total, 2 / 3))))


def leading_inputs(rows: NDArray[np.floating], count: int) -> Vector:
    """The first numbers of inputs (n, p), of the length of inputs again, each row by itself."""
    return unit_rows(rows[:, :count].astype(np.float64), INPUT_LENGTH)


def fitted_classifier(
    materials: Materials,
    vault: Vault,
    inputs: Vector,
    counts: ClassCounts,
    stages: tuple[Stage, ...],
) -> Vector:
    """Weights of a softmax regression of the private records' classes: (p + 1, classes).

    Its logits are adjusted to classes of one size (Menon et al. 2021): how frequent classes are
    among private images is not how frequent they are among public ones. ``inputs``: (m, p) of the
    public images.
    """
    rows = np.column_stack([inputs, np.ones(len(inputs))])
    start = np.zeros((rows.shape[1], len(counts.values)))
    moments = rows.T @ rows / len(rows)
    theta = descend_on_records(materials, vault, stages, DESCENT, start, moments, counts.units)
    theta[-1] -= np.log(counts.sizes / counts.total)
    return theta


@dataclass(frozen=True)
class Recalls:
    """Private records whose class the classifier gets right; all of it is DP."""

    counts: ClassCounts  # class sizes, as released by then
    right: Vector  # (classes,) released numbers of records that it gets right
    sd: float  # standard deviation of the noise in each
    public_shares: Vector  # (classes,) part of the public images that it gives to each class

    @property
    def recalls(self) -> Vector:
        """Part of the records of each class that it gets right: (classes,)."""
        return np.asarray(np.clip(self.right / self.counts.sizes, 0.0, 1.0))

    @property
    def failure(self) -> str | None:
        """Why its labels would say nothing, as a clause; None: they say something.

        A classifier that looks at nothing gives private images of every class to the classes as
        often as it gives public ones, which look alike by now; so it would get right by chance.
        """
        total = self.counts.total
        noise = _SURE * self.sd * len(self.right) ** 0.5 / total
        accuracy = float(self.right.sum()) / total
        chance = float(self.public_shares @ self.counts.sizes) / float(self.counts.sizes.sum())
        if accuracy - noise > chance:
            return None
        return (
            f"the classifier of the private images gets {np.clip(accuracy, 0.0, 1.0):.0%} of them "
            f"right (DP count), which is not clearly more than chance ({chance:.0%})"
        )


def counted_recalls(
    vault: Vault, theta: Vector, inputs: Vector, counts: ClassCounts, stage: Stage
) -> Recalls:
    """How many private records of each class the classifier gets right."""
    query = RecallCounts(theta)
    answer = vault.release(query, stage=stage.name).reshape(len(counts.values), 2)
    sd = vault.noise_sd(query, stage=stage.name)
    labels = (inputs @ theta[:-1] + theta[-1]).argmax(axis=1)
    shares = np.bincount(labels, minlength=len(counts.values)) / len(labels)
    return Recalls(counts.combined(answer.sum(axis=1), sd * 2**0.5), answer[:, 1], sd, shares)


@dataclass(frozen=True)
class LabelledImages:
    """Public images with a class each; all of it is public."""

    images: Images  # (m, height, width, c) uint8
    rows: tuple[NDArray[np.int64], ...]  # for each class the images that its samples are drawn from
    labelled: Labels  # (classes,) how many images the classifier gives to each

    @classmethod
    def of(cls, images: Images, logits: Vector) -> LabelledImages:
        """Each image by its largest logit (m, classes); a class of few takes the next best, too."""
        labels = logits.argmax(axis=1)
        margins = logits - logits.max(axis=1, keepdims=True)
        labelled, rows = np.bincount(labels, minlength=logits.shape[1]), []
        for label, number in enumerate(labelled):
            count = max(int(number), min(FEWEST_IMAGES_OF_CLASS, len(images)))
            best = np.argsort(-margins[:, label], kind="stable")[:count]
            rows.append(np.sort(best))
        return cls(images, tuple(rows), labelled)


@dataclass(frozen=True)
class LabelledSampler:
    """Draws samples from labelled public images: the same seed gives the same samples."""

    materials: Materials  # seed, quality
    images: Images
    redraw: Redraw | None  # what is made of an image; None: it is released as it is
    labels: Labels  # (n,) class of each sample
    places: Labels  # (n,) number of each sample in its class
    order: tuple[NDArray[np.int64], ...]  # for each class its images, drawn in turn over and over

    @classmethod
    def of(
        cls, materials: Materials, labelled: LabelledImages, sizes: Labels, redraw: Redraw | None
    ) -> LabelledSampler:
        """So many samples of each class, (classes,), in a random order."""
        labels = np.repeat(np.arange(len(sizes)), sizes)
        places = np.concatenate([np.arange(size) for size in sizes])
        shuffled = materials.rng_of("classes of samples").permutation(len(labels))
        order = tuple(
            materials.rng_of(f"public images of class {label}").permutation(rows)
            for label, rows in enumerate(labelled.rows)
        )
        return cls(materials, labelled.images, redraw, labels[shuffled], places[shuffled], order)

    def batches(self) -> Iterator[SyntheticBatch]:
        """All samples, block by block."""
        for first in range(0, len(self.labels), _BLOCK):
            labels = self.labels[first : first + _BLOCK]
            images = self.materials.selected(len(labels), partial(self._draw, first))
            yield SyntheticBatch(labels, images=images)

    def _draw(self, first: int, samples: Labels, number: int, image: int) -> Images:
        """Images of these samples from ``first`` on, of other public images in every round."""
        samples = first + samples
        labels = self.labels[samples]
        places = self.places[samples] + number * np.bincount(self.labels)[labels]
        rows = np.array(
            [
                self.order[label][place % len(self.order[label])]
                for label, place in zip(labels, places, strict=True)
            ],
            dtype=np.int64,
        )
        images = self.images[rows]
        if self.redraw is None:
            return images
        return self.redraw(images, labels, f"samples from {first} round {number} image {image}")
