"""A mixture whose samples a DP classifier labels: where classes end is asked of the records.

In hundreds of dimensions the Gaussians of classes hardly overlap, and real classes do. So a part of
the budget trains a softmax regression on the records (`dp_descent`), from the classifier of the
mixture's own samples on. Samples are drawn more widely than the mixture, and go to the class that
it gives them.

A gradient is clipped to a norm, and noise goes by that norm. So inputs are made long, for the
intercept to fill little of it, and the few directions in which all embeddings vary most are made
short.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import scipy

from understudy.core.errors import ConfigError
from understudy.core.types import Embeddings, Labels, Stage, SyntheticBatch, Vector
from understudy.methods.base import Materials, stages_of
from understudy.methods.clustering.embedding_space import EmbeddingSpace
from understudy.methods.clustering.samplers.mixture import (
    FittedMixture,
    MixtureSampler,
    MixtureStages,
)
from understudy.methods.clustering.sampling import Producer
from understudy.methods.dp_descent import (
    INPUT_LENGTH,
    MOMENTUM,
    Descent,
    descend,
    descend_on_records,
)
from understudy.steps.gaussians import Mixture, RectifiedGaussians
from understudy.steps.row_arithmetic import unit_rows
from understudy.steps.space import Shortening, Space

_LONG_GRADIENT = 20_000  # numbers: of 60,000 records a step then takes several seconds
_FIRST_STEPS = 40  # on the mixture's samples, without any noise
_RIDGE = 1e-3  # of the second moments there: a classifier that is not too sure learns more
_SAMPLES = 16_384
_ROUNDS = 20  # in which samples are drawn again that the classifier gives another class
_SHARE = 0.7  # of the budget, for the classifier's steps
_WIDER = 1.5  # than the mixture, in deviations, are samples that show where classes end

_MANY_STEPS = Descent(80, 0.2, 48.0)
_FEW_STEPS = Descent(20, 0.5, 32.0)
"""Where each step takes long."""


@dataclass(frozen=True)
class ClassifiedMixture(FittedMixture):
    """A mixture, and the classifier that says where its classes end."""

    classifier: LabelClassifier


class ClassifierSampler(MixtureSampler):
    """A mixture for embeddings, whose samples are labelled by a classifier of the records."""

    reason = (
        "a Gaussian mixture of each class, whose samples a DP classifier labels: "
        "labels=classifier was asked for"
    )

    @cached_property
    def descent(self) -> Descent:
        """How the classifier is trained: in few steps where a gradient is long."""
        numbers = self.settings.total * self.params.class_count(self.context)
        return _MANY_STEPS if numbers <= _LONG_GRADIENT else _FEW_STEPS

    @cached_property
    def stages(self) -> MixtureStages:
        """Those of a mixture, and a step of the classifier each."""
        plan, steps = super().stages, self.descent.steps
        each = math.fsum(stage.weight for stage in stages_of(plan)) * _SHARE / (1 - _SHARE) / steps
        gradients = (Stage(f"label gradient {step + 1}", each) for step in range(steps))
        return replace(plan, gradients=tuple(gradients))

    def check(self) -> None:
        """Refuse where there is nothing to tell apart, or what it was not built for."""
        super().check()
        reason = ""
        if self.params.class_count(self.context) < 2:
            reason = "this run has one class: there is nothing to tell apart"
        elif self.context.decoder is not None:
            reason = "this run releases images, and samples between two classes decode to neither"
        elif self.params.filter != "none":
            filtered = self.params.filter
            reason = f"filter={filtered} chooses among other samples: take one of the two"
        if reason:
            raise ConfigError(f"labels=classifier is for embeddings of several classes: {reason}")

    def fit(self, materials: Materials, space: EmbeddingSpace) -> ClassifiedMixture:
        """Lines 3 to 8, and then the classifier of the mixture's samples, moved by the records."""
        whole = super().fit(materials, space)
        classifier = trained_on_records(materials, whole, self.descent, self.stages.gradients)
        return ClassifiedMixture(space, whole.mixture, whole.size, whole.shares, classifier)

    def batches(self, producer: Producer, fitted: Any, sizes: Labels) -> Iterator[SyntheticBatch]:
        """Lines 10 to 13: so many samples of each component, as the classifier labels them."""
        materials, labels = producer.materials, fitted.mixture.labels
        for first, part in producer.blocks(sizes, np.random.default_rng(materials.seed)):
            rng = materials.rng_of(f"classified {first}")
            yield SyntheticBatch(labels[part], embeddings=fitted.classifier.embeddings(part, rng))


@dataclass(frozen=True)
class MixtureSamples:
    """What a classifier of a mixture reads, ten long, and the samples that it labels."""

    space: EmbeddingSpace
    mixture: Mixture

    def inputs(self, points: Vector) -> Vector:
        """What the classifier reads of points of the space, each by itself: (n, d) to (n, p)."""
        return INPUT_LENGTH * points / self.space.radius

    def of(self, components: Labels, rng: np.random.Generator) -> Embeddings:
        """An embedding of each of these components: (n, D)."""
        return self.space.backward(self.mixture.draw(components, rng), rng)

    def points(self, components: Labels, rng: np.random.Generator) -> Vector:
        """A point of the space of each of these components: (n, d)."""
        return self.mixture.draw(components, rng)

    def near(self, components: Labels, rng: np.random.Generator) -> Embeddings:
        """Embeddings between wide draws of these components and of any: (n, D)."""
        weights = self.mixture.weights
        others = rng.choice(len(weights), len(components), p=weights)
        own, other = self._wide(components, rng), self._wide(others, rng)
        points = own + rng.uniform(0.0, 0.5, (len(own), 1)) * (other - own)
        if self.space.sphere is not None:
            points /= np.linalg.norm(points, axis=1, keepdims=True)
        return self.space.backward(points, rng)

    def _wide(self, components: Labels, rng: np.random.Generator) -> Vector:
        means = self.mixture.means[components]
        return np.asarray(means + _WIDER * (self.mixture.draw(components, rng) - means))


@dataclass(frozen=True)
class RectifiedSamples(MixtureSamples):
    """The same of features that are never negative, from Gaussians that are cut off at zero.

    These overlap as real ones do, and are read as directions in the encoder's own space, as
    networks read them.
    """

    coordinates: Space
    gaussians: RectifiedGaussians  # of the mixture's components
    centre: Vector  # (D,) of directions: the mean embedding of the mixture
    shortening: Shortening | None = None  # of the leading directions

    def _directions(self, points: Vector) -> Vector:
        offsets = self.coordinates.own(points) - self.centre
        return unit_rows(offsets if self.shortening is None else self.shortening(offsets))

    def inputs(self, points: Vector) -> Vector:
        """Directions from the centre to points of the space."""
        return INPUT_LENGTH * self._directions(points)

    def shortened(self, points: Vector) -> RectifiedSamples:
        """With the leading directions to these points shortened."""
        return replace(self, shortening=Shortening.of(self._directions(points)))

    def of(self, components: Labels, rng: np.random.Generator, width: float = 1.0) -> Embeddings:
        """An embedding of each of these components, so much wider: (n, D)."""
        samples = self.gaussians.draw(components, rng, width)
        return np.asarray(self.coordinates.unpowered(samples), dtype=np.float32)

    def points(self, components: Labels, rng: np.random.Generator) -> Vector:
        """A point of the space of each of these components: (n, d)."""
        return np.asarray(self.space.forward(self.of(components, rng)), dtype=np.float64)

    def near(self, components: Labels, rng: np.random.Generator) -> Embeddings:
        """Wide draws: they overlap."""
        return self.of(components, rng, _WIDER)


def samples_of(space: EmbeddingSpace, mixture: Mixture) -> MixtureSamples:
    """Samples of a mixture: rectified where features are never negative and on no sphere."""
    coordinates, weights = space.coordinates, mixture.weights
    if not isinstance(coordinates, Space) or not coordinates.positive or space.sphere:
        return MixtureSamples(space, mixture)
    parts = np.bincount(mixture.root_of, weights, len(mixture.roots))
    covariance = np.zeros((mixture.dim, mixture.dim))
    for index, part in enumerate(parts):
        covariance = covariance + part * mixture.root(index) @ mixture.root(index).T
    means, covariance = coordinates.moments(mixture.means, covariance)
    gaussians = RectifiedGaussians.of(means, covariance, weights)
    centre = weights @ coordinates.own(mixture.means)
    return RectifiedSamples(space, mixture, coordinates, gaussians, centre)


@dataclass(frozen=True)
class LabelClassifier:
    """A softmax regression that says where the classes of a mixture end; it is released: public."""

    theta: Vector  # (p + 1, C) weights of `inputs`; the last row is the intercept's
    samples: MixtureSamples

    def predict(self, points: Vector) -> Labels:
        """The class of each point of the space: (n, d) to (n,)."""
        logits = self.samples.inputs(points) @ self.theta[:-1] + self.theta[-1]
        return np.asarray(logits.argmax(axis=1), dtype=np.int64)

    def embeddings(self, components: Labels, rng: np.random.Generator) -> Embeddings:
        """An embedding for each of these components that is given the component's class: (n, D).

        Each embedding that is drawn goes to a component of the class that it is given. What is left
        after some rounds is drawn from the component itself: every class keeps its share.
        """
        samples, empty = self.samples, np.arange(len(components))
        labels, embeddings = samples.mixture.labels[components], samples.of(components, rng)
        for _ in range(_ROUNDS):
            near = samples.near(rng.permutation(components[empty]), rng)
            predicted, parts = self.predict(samples.space.forward(near)), [empty[:0]]
            for label in np.unique(labels[empty]):
                slots, mine = empty[labels[empty] == label], np.flatnonzero(predicted == label)
                parts.append(slots[: len(mine)])
                embeddings[parts[-1]] = near[mine[: len(slots)]]
            empty = np.setdiff1d(empty, np.concatenate(parts))
        return embeddings


def trained_on_records(
    materials: Materials, fitted: FittedMixture, descent: Descent, stages: tuple[Stage, ...]
) -> LabelClassifier:
    """The classifier of the mixture's samples, moved by a noisy gradient of the records a stage."""
    space, mixture = fitted.space, fitted.mixture
    count = mixture.allot(_SAMPLES)
    components = np.repeat(np.arange(len(count)), count)
    samples = samples_of(space, mixture)
    points = samples.points(components, materials.rng_of("label classifier"))
    if isinstance(samples, RectifiedSamples):
        samples = samples.shortened(points)
    inputs = samples.inputs(points)
    rows = np.column_stack([inputs, np.ones(len(inputs))])
    truth = np.eye(space.classes)[mixture.labels[components]]
    moments, ridge = rows.T @ rows / len(rows), _RIDGE * INPUT_LENGTH**2 * np.eye(rows.shape[1])

    def of_samples(theta: Vector) -> Vector:
        residuals = scipy.special.softmax(rows @ theta, axis=1) - truth
        return np.asarray(rows.T @ residuals / len(rows) + ridge @ theta)

    start = np.zeros((rows.shape[1], space.classes))
    start = descend(start, of_samples, moments + ridge, _FIRST_STEPS, MOMENTUM)
    vault = space.vault.view(samples.inputs)
    theta = descend_on_records(materials, vault, stages, descent, start, moments, fitted.size)
    return LabelClassifier(theta, samples)
