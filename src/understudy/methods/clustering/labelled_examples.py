"""Public examples of the private images' kind, with labels by a DP classifier.

A run may have public images, and a generator that draws others like them. Where most
private images look like one of them, samples are better drawn from the examples than from a
mixture: what a mixture has to learn of the shape of the data, the examples have for free. What is
left to ask is which of the examples look like private ones, and what their labels would be: PATE's
way (Papernot et al. 2017), with a softmax regression trained by noisy gradients for its teachers.

1. For each class, how many private images look like an example of each kind, and how many like
   none (`near_records`). Where too many do, the budget that is left makes a mixture
   (`ExampleStages.pools`).
2. Private images vote for the cluster of the example that is nearest to them (`voted_examples`).
   Kinds and clusters without votes are left out, so the examples may show more than the private
   images do.
3. Noisy gradients train the classifier on features of private images. The examples that are left
   whiten the features first, and their second moments precondition the descent: both are free.
4. The classifier labels the examples, by logits that are adjusted to classes of one size (Menon et
   al. 2021), and samples of a class are drawn from those of its label.

A large budget pays for a mixture that teaches as much, and both together teach more: then the
examples get a small part of it (`StagesBesideMixture`), and a part of the samples.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from understudy.core.independence import Projection, row_squares
from understudy.core.public_examples import PublicExamples
from understudy.core.types import Images, Labels, Release, Stage, SyntheticBatch, Vector
from understudy.methods.base import Materials
from understudy.methods.clustering.example_images import FEWEST_EXAMPLES
from understudy.methods.clustering.label_classifier import (
    INPUT_LENGTH,
    Descent,
    descend_on_records,
)
from understudy.methods.clustering.near_records import NearRecords, voted_examples
from understudy.steps.apportionment import apportion

_STEPS = Descent(40, 0.3, 48.0, momentum=0.85)
_POWER = 0.25  # of the variances that features are divided by
_RIDGE = 0.02  # of the mean variance, that every axis is granted
_BLOCK = 512  # samples that are drawn at a time
_SHARE_BESIDE = 0.1  # of the budget: labels cost little of one that pays for a mixture
_COUNTS = 0.05  # of the budget of examples, for nearness and for votes each


@dataclass(frozen=True)
class ExampleStages:
    """The releases of a run that may draw from public examples, besides the class sizes.

    Attributes:
        nearness: How many images of each class look like an example.
        votes: Which clusters of examples they look like.
        steps: The steps of the classifier; or else, in `pools`, the releases of the mixture.
        in_place: Whether they are planned in place of those of the mixture, or beside them.
    """

    in_place: ClassVar[bool] = True

    nearness: Stage
    votes: Stage
    steps: tuple[Stage, ...]

    @classmethod
    def of(cls, mixture: Sequence[Stage]) -> Self:
        """With the budget that the stages of a mixture would have."""
        return cls._of(5.0, math.fsum(stage.weight for stage in mixture))

    @classmethod
    def _of(cls, count: float, steps: float) -> Self:
        """With the weights of each of the two counts and of all steps together."""
        each = steps / _STEPS.steps
        fits = tuple(Stage(f"fit {number + 1}", each) for number in range(_STEPS.steps))
        return cls(Stage("nearness", count), Stage("example votes", count), fits)

    def pools(self, mixture: Sequence[Stage]) -> dict[str, tuple[str, ...]]:
        """What pays for each stage of a mixture, by its weight: the votes and the steps."""
        weights = np.array([stage.weight for stage in mixture])
        count = len(self.steps) + 1
        beyond_one = weights - weights.sum() / count
        return self._paid_by(mixture, 1 + apportion(count - len(mixture), beyond_one))

    def _paid_by(self, mixture: Sequence[Stage], parts: Labels) -> dict[str, tuple[str, ...]]:
        """So many of the steps and of the votes for each stage of a mixture."""
        names = iter(stage.name for stage in (*self.steps, self.votes))
        return {
            stage.name: tuple(next(names) for _ in range(part))
            for stage, part in zip(mixture, parts.tolist(), strict=True)
        }


@dataclass(frozen=True)
class StagesBesideMixture(ExampleStages):
    """The releases of a run that draws a part of its samples from examples, the others not."""

    in_place: ClassVar[bool] = False

    @classmethod
    def of(cls, others: Sequence[Stage]) -> Self:
        """With their share of a budget that pays for all ``others``, too."""
        weight = math.fsum(stage.weight for stage in others) * _SHARE_BESIDE / (1 - _SHARE_BESIDE)
        return cls._of(_COUNTS * weight, (1 - 2 * _COUNTS) * weight)

    def pools(self, mixture: Sequence[Stage]) -> dict[str, tuple[str, ...]]:
        """What pays for each of these stages of a mixture: itself, and of votes and steps some."""
        parts = apportion(len(self.steps) + 1, np.array([stage.weight for stage in mixture]))
        pools = self._paid_by(mixture, parts)
        return {name: (name, *others) for name, others in pools.items()}


@dataclass(frozen=True)
class Whitened:
    """Features as the classifier reads them: whitened in part by examples, all of one length.

    Attributes:
        centre: (p,) mean of the examples.
        projection: Divides each of their axes by a power of its variance, and turns back to the
            features' own: so it does not depend on how equal variances are told apart, and a run
            that is sampled anew elsewhere reads the same.
    """

    centre: Vector
    projection: Projection

    @classmethod
    def of(cls, features: Vector) -> Whitened:
        """By the features (n, p) of examples."""
        centre = features.mean(axis=0)
        variances, axes = np.linalg.eigh(np.cov(features, rowvar=False))
        scales = (np.maximum(variances, 0.0) + _RIDGE * variances.mean()) ** _POWER
        return cls(centre, Projection((axes / scales) @ axes.T))

    def __call__(self, features: NDArray[np.floating]) -> Vector:
        """(n, p) to (n, p), each by itself."""
        rows = self.projection(features - self.centre)
        lengths = np.sqrt(row_squares(rows))
        return np.asarray(INPUT_LENGTH * rows / np.maximum(lengths, 1e-12)[:, None])


@dataclass(frozen=True)
class LabelledExamples:
    """Public examples with a class each; all of it is public.

    Attributes:
        rows: For each class the examples that its samples are drawn from.
    """

    rows: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(cls, logits: Vector, chosen: NDArray[np.int64], sizes: Vector) -> LabelledExamples:
        """Each example by its largest logit; a class of few takes the next best for it besides.

        The logits are adjusted: how frequent classes are among examples is not how frequent they
        are among records.

        Args:
            logits: (n, classes) of the examples.
            chosen: (n,) which examples they are.
            sizes: (classes,) released numbers of the records that the logits were learnt from.
        """
        logits = logits - np.log(np.maximum(sizes, 1.0))
        labels = logits.argmax(axis=1)
        margins = logits - logits.max(axis=1, keepdims=True)
        rows = []
        for label in range(logits.shape[1]):
            count = max(int((labels == label).sum()), min(FEWEST_EXAMPLES, len(chosen)))
            best = np.argsort(-margins[:, label], kind="stable")[:count]
            rows.append(np.sort(chosen[best]))
        return cls(tuple(rows))


def labelled_examples(
    materials: Materials, records: NearRecords, stages: ExampleStages
) -> LabelledExamples:
    """The examples that look like private records, labelled by a classifier of these."""
    chosen = voted_examples(records, stages.votes)
    features = records.examples.features[chosen].astype(np.float64)
    whitened, classes = Whitened.of(features), len(materials.classes)
    inputs = whitened(features)
    rows = np.column_stack([inputs, np.ones(len(inputs))])
    theta = descend_on_records(
        materials,
        records.vault.view(lambda values: whitened(values[:, :-1])),
        stages.steps,
        _STEPS,
        np.zeros((rows.shape[1], classes)),
        rows.T @ rows / len(rows),
        float(records.sizes.sum()),
    )
    return LabelledExamples.of(rows @ theta, chosen, records.sizes)


@dataclass(frozen=True)
class ExampleProducer:
    """Draws samples of public examples: the same seed gives the same samples.

    Attributes:
        materials: Seed, quality.
        examples: The examples.
        labels: (n,) class of each sample.
        places: (n,) number of each sample in its class.
        order: For each class its examples, in the order in which they are drawn, over and over.
    """

    materials: Materials
    examples: PublicExamples
    labels: Labels
    places: Labels
    order: tuple[NDArray[np.int64], ...]

    @classmethod
    def of(
        cls,
        materials: Materials,
        examples: PublicExamples,
        labelled: LabelledExamples,
        sizes: Labels,
    ) -> ExampleProducer:
        """So many samples of each class, (classes,), in a random order."""
        labels = np.repeat(np.arange(len(sizes)), sizes)
        places = np.concatenate([np.arange(size) for size in sizes])
        shuffled = materials.rng_of("classes of samples").permutation(len(labels))
        order = tuple(
            materials.rng_of(f"examples of class {label}").permutation(rows)
            for label, rows in enumerate(labelled.rows)
        )
        return cls(materials, examples, labels[shuffled], places[shuffled], order)

    def batches(self) -> Iterator[SyntheticBatch]:
        """All samples, block by block."""
        for first in range(0, len(self.labels), _BLOCK):
            labels = self.labels[first : first + _BLOCK]
            images = self.materials.selected(len(labels), partial(self._drawn, first))
            yield SyntheticBatch(labels, images=images)

    def _drawn(self, first: int, samples: Labels, number: int, image: int) -> Images:
        """Images of these samples from ``first`` on, of other examples in every round."""
        samples = first + samples
        labels = self.labels[samples]
        places = self.places[samples] + number * np.bincount(self.labels)[labels]
        examples = [
            self.order[label][place % len(self.order[label])]
            for label, place in zip(labels, places, strict=True)
        ]
        seeds = self.materials.seeds_of(f"examples round {number} image {image}", samples)
        return self.examples.draw(np.array(examples), seeds=seeds)


def drawn_from_examples(
    materials: Materials,
    records: NearRecords,
    labelled: LabelledExamples,
    method: str,
    sizes: Labels,
    others: int,
) -> Release:
    """Samples of each class, drawn from the examples that have its label.

    Args:
        materials: Seed, classes, count.
        records: What was released of the records.
        labelled: The examples.
        method: The method's name.
        sizes: (classes,) samples of each class.
        others: Samples of all classes that will be drawn otherwise beside these.
    """
    materials, classes, count = materials.for_samples, materials.classes, int(sizes.sum())
    producer = ExampleProducer.of(materials, records.examples, labelled, sizes)
    facts = _facts(classes, records, labelled, count, others)
    return Release(
        method,
        classes,
        count,
        producer.batches,
        image_shape=materials.shape,
        facts=facts,
        how=f"{records.examples.how}, which a DP classifier labels",
        public_source=None if materials.public is not None else str(facts["public_examples"]),
    )


def _facts(
    classes: tuple[str, ...],
    records: NearRecords,
    labelled: LabelledExamples,
    count: int,
    others: int,
) -> dict[str, object]:
    counts = [len(rows) for rows in labelled.rows]
    examples = records.examples
    clusters = np.unique(examples.clusters[np.concatenate(labelled.rows)])
    names = " and ".join(examples.kind_names[kind] for kind in np.unique(examples.kinds[clusters]))
    part = "" if not others else f"{count / (count + others):.0%} of the "
    rest = "the others" if others else "not"
    notes = [
        f"{part}samples are {examples.how} ({names}), {rest} from a mixture: {records.words}. A DP "
        "classifier of the private images gave each example its class"
    ]
    if scarce := [
        name for name, count in zip(classes, counts, strict=True) if count <= FEWEST_EXAMPLES
    ]:
        notes.append(
            f"{', '.join(scarce)}: hardly any public example looks like this class, so its samples "
            f"like examples are drawn from {FEWEST_EXAMPLES} that come nearest; --examples none "
            "makes a mixture"
        )
    return {
        "noisy_rows": round(float(records.sizes.sum())),
        "public_examples": names,
        "example_samples": count,
        "class_sizes": {
            name: round(float(size)) for name, size in zip(classes, records.sizes, strict=True)
        },
        "class_size_noise": round(records.size_sd, 1),
        "near_examples_per_class": {
            name: round(float(part), 3) for name, part in zip(classes, records.near, strict=True)
        },
        "examples_per_class": dict(zip(classes, counts, strict=True)),
        "notes": notes,
    }
