"""Labels by a DP classifier: where the classes of a mixture end is asked of the private records.

A Gaussian mixture says where a class lies and little of where it ends: in hundreds of dimensions
its classes hardly overlap, and those of real records do. So a part of the budget trains a softmax
regression on the private records, by full-batch gradient descent on noisy sums of clipped gradients
(Song, Chaudhuri and Sarwate 2013; Abadi et al. 2016, with every record in every step). Samples are
then drawn more widely than the mixture, and those are released that the classifier gives the class
they stand for.

The mixture helps twice, at no cost. Descent begins at the classifier of the mixture's own samples,
and their second moments precondition it (Boehning 1992: softmax regression's Hessian is at most
half of them), damped by the noise that is known to be in a gradient. So a few steps are enough.

A gradient is clipped to a norm, and noise goes by that norm. So nothing should fill it that says
little of classes: neither the intercept, nor the few directions in which all embeddings vary most.
Inputs are made long, and those directions short.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy

from understudy.core.independence import row_squares
from understudy.core.types import Embeddings, Labels, Stage, Vector
from understudy.methods.base import Materials
from understudy.methods.clustering.embedding_space import EmbeddingSpace
from understudy.methods.dp_descent import (
    INPUT_LENGTH,
    MOMENTUM,
    Descent,
    descend,
    descend_on_records,
)
from understudy.steps.mixture import Mixture
from understudy.steps.rectified import RectifiedGaussians
from understudy.steps.space import Shortening, Space

Labelling = Literal["mixture", "classifier"]

_LONG_GRADIENT = 20_000  # numbers: of 60,000 records a step then takes several seconds
_FIRST_STEPS = 40  # on the mixture's samples, without any noise
_RIDGE = 1e-3  # of the second moments there: a classifier that is not too sure learns more
_SAMPLES = 16_384
_ROUNDS = 20  # in which samples are drawn again that the classifier gives another class
_PROBES = 500  # samples of each component
_WIDER = 1.5  # than the mixture, in deviations, are samples that show where classes end

_MANY_STEPS = Descent(80, 0.2, 48.0)
_FEW_STEPS = Descent(20, 0.5, 32.0)
"""Where each step takes long."""


def gradient_stages(
    kind: Labelling, share: float, weight: float, numbers: int
) -> tuple[Stage, ...]:
    """The steps of the classifier, which together get ``share`` of the budget.

    Args:
        kind: ``"mixture"``: there are none.
        share: In (0, 1).
        weight: Of all other stages together.
        numbers: Of an embedding and all classes together, in a gradient.
    """
    if kind == "mixture":
        return ()
    steps = (_MANY_STEPS if numbers <= _LONG_GRADIENT else _FEW_STEPS).steps
    each = weight * share / (1 - share) / steps
    return tuple(Stage(f"label gradient {step + 1}", each) for step in range(steps))


@dataclass(frozen=True)
class RectifiedSamples:
    """Samples of a mixture whose features are never negative, in the encoder's own space.

    Attributes:
        coordinates: From there into the space of the mixture.
        gaussians: Cut off at zero, of the mixture's components.
        centre: (D,) of directions: the mean embedding of the mixture.
        shortening: Of the leading directions; None: not known yet.
    """

    coordinates: Space
    gaussians: RectifiedGaussians
    centre: Vector
    shortening: Shortening | None = None

    @classmethod
    def of_mixture(cls, space: EmbeddingSpace, mixture: Mixture) -> RectifiedSamples | None:
        """Those of a mixture of a space; None where features may be negative, or on a sphere."""
        coordinates, weights = space.coordinates, mixture.weights
        if not isinstance(coordinates, Space) or not coordinates.positive or space.sphere:
            return None
        parts = np.bincount(mixture.root_of, weights, len(mixture.roots))
        roots = [mixture.root(index) for index in range(len(parts))]
        covariance = sum(
            (part * root @ root.T for part, root in zip(parts, roots, strict=True)),
            np.zeros((mixture.dim, mixture.dim)),
        )
        means, covariance = coordinates.moments(mixture.means, covariance)
        gaussians = RectifiedGaussians.of(means, covariance, weights)
        return cls(coordinates, gaussians, weights @ coordinates.own(mixture.means))

    def directions(self, points: Vector) -> Vector:
        """Directions from the centre to points of the mixture's space: (n, d) to (n, D)."""
        moved = self.coordinates.own(points) - self.centre
        if self.shortening is not None:
            moved = self.shortening(moved)
        norms = np.sqrt(row_squares(moved))
        return np.asarray(moved / np.maximum(norms, 1e-12)[:, None])

    def shortened(self, points: Vector) -> RectifiedSamples:
        """With the leading directions to these points shortened: (n, d)."""
        return replace(self, shortening=Shortening.of(self.directions(points)))

    def of(self, components: Labels, rng: np.random.Generator, width: float = 1.0) -> Embeddings:
        """An embedding of each of these components, so much wider: (n, D)."""
        drawn = self.gaussians.draw(components, rng, width)
        return np.asarray(self.coordinates.unpowered(drawn), dtype=np.float32)


@dataclass(frozen=True)
class ClassifiedSamples:
    """What a classifier of a mixture reads, ten long, and the samples that it labels.

    Features that are never negative are sampled from Gaussians that are cut off at zero
    (`RectifiedGaussians`), which overlap as real ones do. The classifier then reads directions in
    the encoder's own space, in which networks read, too.

    Attributes:
        space: The space of the mixture.
        mixture: The released mixture.
        rectified: Of the same components; None: features may be negative, or were projected on a
            sphere.
    """

    space: EmbeddingSpace
    mixture: Mixture
    rectified: RectifiedSamples | None

    @classmethod
    def of_mixture(cls, space: EmbeddingSpace, mixture: Mixture) -> ClassifiedSamples:
        """Those of a mixture of a space."""
        return cls(space, mixture, RectifiedSamples.of_mixture(space, mixture))

    def inputs(self, points: Vector) -> Vector:
        """What the classifier reads of points of the space, each by itself: (n, d) to (n, p)."""
        if self.rectified is None:
            return INPUT_LENGTH * points / self.space.radius
        return INPUT_LENGTH * self.rectified.directions(points)

    def shortened(self, points: Vector) -> ClassifiedSamples:
        """With directions whose leading ones, of these points of the space, are shortened."""
        if self.rectified is None:
            return self
        return replace(self, rectified=self.rectified.shortened(points))

    def of(self, components: Labels, rng: np.random.Generator) -> Embeddings:
        """An embedding of each of these components: (n, D)."""
        if self.rectified is None:
            return self.space.backward(self.mixture.draw(components, rng), rng)
        return self.rectified.of(components, rng)

    def points(self, components: Labels, rng: np.random.Generator) -> Vector:
        """A point of the space of each of these components: (n, d)."""
        if self.rectified is None:
            return self.mixture.draw(components, rng)
        return np.asarray(self.space.forward(self.of(components, rng)), dtype=np.float64)

    def near(self, components: Labels, rng: np.random.Generator) -> Embeddings:
        """Embeddings near these components and in reach of others, for the classifier: (n, D)."""
        if self.rectified is not None:
            return self.rectified.of(components, rng, _WIDER)
        return self.space.backward(self._between(components, rng), rng)

    def _between(self, components: Labels, rng: np.random.Generator) -> Vector:
        """Points between wide draws of these components and of any, nearer to the former."""
        weights = self.mixture.weights
        others = rng.choice(len(weights), len(components), p=weights)
        own, other = self._wide(components, rng), self._wide(others, rng)
        drawn = own + rng.uniform(0.0, 0.5, (len(own), 1)) * (other - own)
        if self.space.sphere is not None:
            drawn /= np.linalg.norm(drawn, axis=1, keepdims=True)
        return np.asarray(drawn)

    def _wide(self, components: Labels, rng: np.random.Generator) -> Vector:
        means = self.mixture.means[components]
        return np.asarray(means + _WIDER * (self.mixture.draw(components, rng) - means))


@dataclass(frozen=True)
class LabelClassifier:
    """A softmax regression that says where the classes of a mixture end; it is released: public.

    Attributes:
        theta: (p + 1, C) weights of `inputs`; the last row is the intercept's.
        samples: What it reads, and what it labels.
    """

    theta: Vector
    samples: ClassifiedSamples

    def predict(self, points: Vector) -> Labels:
        """The class of each point of the space: (n, d) to (n,)."""
        logits = self.samples.inputs(points) @ self.theta[:-1] + self.theta[-1]
        return np.asarray(logits.argmax(axis=1), dtype=np.int64)

    def embeddings(self, components: Labels, rng: np.random.Generator) -> Embeddings:
        """An embedding for each of these components that is given the component's class: (n, D).

        Embeddings are drawn near several components (`ClassifiedSamples.near`), and each goes to a
        component of the class that it is given. What is left after some rounds is drawn from the
        component itself: every class keeps its share.
        """
        samples, left = self.samples, np.arange(len(components))
        labels, embeddings = samples.mixture.labels[components], samples.of(components, rng)
        for _ in range(_ROUNDS):
            drawn = samples.near(rng.permutation(components[left]), rng)
            given, filled = self.predict(samples.space.forward(drawn)), [left[:0]]
            for label in np.unique(labels[left]):
                slots, mine = left[labels[left] == label], np.flatnonzero(given == label)
                filled.append(slots[: len(mine)])
                embeddings[filled[-1]] = drawn[mine[: len(slots)]]
            left = np.setdiff1d(left, np.concatenate(filled))
        return embeddings

    def agreement(self, seed: int) -> Vector:
        """For each class the part of the mixture's samples to which it is given: (C,)."""
        rng, mixture = np.random.default_rng(seed), self.samples.mixture
        components = np.repeat(np.arange(len(mixture.weights)), _PROBES)
        labels = mixture.labels[components]
        agree = self.predict(self.samples.points(components, rng)) == labels
        classes = self.theta.shape[1]
        sizes = np.bincount(labels, minlength=classes)
        return np.asarray(np.bincount(labels, agree, classes) / np.maximum(sizes, 1))


def trained_on_records(
    materials: Materials,
    space: EmbeddingSpace,
    mixture: Mixture,
    size: float,
    stages: tuple[Stage, ...],
) -> LabelClassifier | None:
    """The classifier of the mixture's samples, moved by a noisy gradient a stage.

    Args:
        materials: Keeps the weights that a step asks at, so that a resumed run asks the same again.
        space: The private records.
        mixture: Where descent begins.
        size: Noisy number of records.
        stages: A release each; (): None is given.
    """
    if not stages:
        return None
    count = mixture.allot(_SAMPLES)
    components = np.repeat(np.arange(len(count)), count)
    samples = ClassifiedSamples.of_mixture(space, mixture)
    points = samples.points(components, materials.rng_of("label classifier"))
    samples = samples.shortened(points)
    inputs = samples.inputs(points)
    rows = np.column_stack([inputs, np.ones(len(inputs))])
    truth = np.eye(space.classes)[mixture.labels[components]]
    moments, ridge = rows.T @ rows / len(rows), _RIDGE * INPUT_LENGTH**2 * np.eye(rows.shape[1])

    def of_samples(theta: Vector) -> Vector:
        residuals = scipy.special.softmax(rows @ theta, axis=1) - truth
        return np.asarray(rows.T @ residuals / len(rows) + ridge @ theta)

    descent = next(one for one in (_MANY_STEPS, _FEW_STEPS) if one.steps == len(stages))
    start = np.zeros((rows.shape[1], space.classes))
    start = descend(start, of_samples, moments + ridge, _FIRST_STEPS, MOMENTUM)
    vault = space.vault.view(samples.inputs)
    theta = descend_on_records(materials, vault, stages, descent, start, moments, size)
    return LabelClassifier(theta, samples)
