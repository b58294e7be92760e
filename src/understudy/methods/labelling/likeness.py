"""Whether private images look like the public ones that the owner names: two tests, charged first.

Both cost about a hundredth of a run's squared mu, and both have to be passed.

*The kind.* A classifier of the named public images against other public images (the role
``contrast``, and the named images with scrambled phases, which have their colours and spectra and
nothing of their shapes) is trained on public images alone. A DP count says how many private records
of each class it takes for the kind; beside it stands the part of public images that it takes for it
and has never seen.

*The depth.* A classifier knows only what it was shown. So the DP mean of the private images, in the
leading axes of the public ones, is a point; its half-space depth (Tukey 1975) along the line to the
public mean is the part of the public images that lie beyond it. Where a part of the public images
is distributed as the private ones are, half of that part does; where none is, next to none do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.independence import Projection
from understudy.core.types import Embeddings, Images, Stage, Vector
from understudy.methods.dp_descent import INPUT_LENGTH
from understudy.privacy.cells import Cells
from understudy.privacy.queries import ClippedSums, Counts, clip_rows
from understudy.steps.row_arithmetic import unit_rows

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

FEWEST_IMAGES = 100
"""Public images that are needed at least, in all."""

FEWEST_OF_CLASS = 10
"""And times the number of classes."""

_INPUTS = 300  # axes of public features that classifiers read, at most
_POWER = 0.25  # of the variances that those are divided by
_RIDGE = 0.02  # of the mean variance, that every axis is granted
_AXES = 16  # in which the private mean is released
_HELD_OUT = 3  # one public image in so many is kept from the classifier of the kind
_PENALTY = 1e-3  # of the classifier of the kind, on squared weights
_ITERATIONS = 200

_LEAST_HELD_OUT = 0.7  # of held-out public images are taken for their kind
_LEAST_SHARE = 0.75  # of that part, as much of the private records is
_LEAST_SHARE_OF_CLASS = 0.5  # and of every class that stands out of the noise
_LEAST_DEPTH = 0.1  # sets of one kind: 0.25 and more; of two: 0.06 and less (docs/methods)
_MOST_NOISE = 1.0  # in each number of the private mean, in public deviations
_SURE = 2.0  # standard deviations of the noise
_CLEAR = 3.0  # standard deviations of the noise that a count has which is judged by itself


@dataclass(frozen=True)
class ClassCounts:
    """Released numbers of records of each class."""

    values: Vector  # (classes,)
    sd: float  # standard deviation of the noise in each
    counted: float | None = None  # released number of units; None: each is of one class

    def combined(self, values: Vector, sd: float) -> ClassCounts:
        """With a second count of the same: the mean that has the least noise."""
        own, other = self.sd**-2, sd**-2
        mean = (own * self.values + other * values) / (own + other)
        return ClassCounts(mean, (own + other) ** -0.5, self.counted)

    @property
    def sizes(self) -> Vector:
        """(classes,), at least 1 each."""
        return np.maximum(self.values, 1.0)

    @property
    def total(self) -> float:
        """Of all classes, at least 1."""
        return max(float(self.values.sum()), 1.0)

    @property
    def units(self) -> float:
        """How many units there are, at least 1."""
        return self.total if self.counted is None else self.counted

    @property
    def clear(self) -> NDArray[np.bool_]:
        """(classes,) which stand out of the noise."""
        return np.asarray(self.values >= _CLEAR * self.sd)


@dataclass(frozen=True)
class Whitened:
    """Features as classifiers read them: whitened in part by public images, all of one length."""

    centre: Vector  # (d,) mean of the public features
    projection: Projection  # (d, p) their leading axes, each divided by a power of its variance

    def __call__(self, features: NDArray[np.floating]) -> Vector:
        """(n, d) to (n, p), each by itself."""
        return unit_rows(self.projection(features - self.centre), INPUT_LENGTH)


@dataclass(frozen=True)
class PublicKind:
    """What the named public images are, for tests of likeness; all of it is public."""

    inputs: Whitened  # what classifiers read of features
    theta: Vector  # (p + 1,) of the classifier of the kind against others; intercept last
    held_out: float  # part of the public images kept from it that it takes for the kind
    leading: Projection  # (d, k) leading axes, divided by the deviation along each
    points: Vector  # (m, k) the public images there, clipped as private records are

    @classmethod
    def of(cls, public: Embeddings, contrast: Embeddings, rng: np.random.Generator) -> PublicKind:
        """By the features of the named images (m, d) and of others (l, d).

        Raises:
            ConfigError: The named images are not told from the others, so a test would say nothing.
        """
        rows = public.astype(np.float64)
        centre, (variances, axes) = rows.mean(axis=0), _principal(rows)
        count = min(_INPUTS, rows.shape[1], len(rows) // 2)
        scales = (variances[:count] + _RIDGE * variances[:count].mean()) ** _POWER
        inputs = Whitened(centre, Projection(axes[:, :count] / scales))
        order = rng.permutation(len(rows))
        test, train = order[::_HELD_OUT], np.setdiff1d(order, order[::_HELD_OUT])
        read = inputs(rows)
        theta = _separator(read[train], inputs(contrast.astype(np.float64)))
        held_out = float((read[test] @ theta[:-1] + theta[-1] > 0).mean())
        if held_out < _LEAST_HELD_OUT:
            raise ConfigError(
                f"a classifier takes only {held_out:.0%} of the public images for what they are: "
                "they look like those that they are held against, so a test of likeness would say "
                "nothing. Nothing was spent. Name other images of another kind (--contrast)"
            )
        leading = Projection(axes[:, :_AXES] / np.sqrt(np.maximum(variances[:_AXES], 1e-12)))
        points = leading(rows - centre)
        clipped = clip_rows(points, _radius(points), np.empty_like(points))  # as `ClippedSums` does
        return cls(inputs, theta, held_out, leading, clipped)

    def described(self, features: Embeddings) -> Embeddings:
        """Features (n, d) to what is asked about, each by itself: (n, p + 1 + k) float32.

        What classifiers read, 1 where a record is taken for the kind (or else 0), its place in the
        leading axes.
        """
        rows = features.astype(np.float64)
        inputs = self.inputs(rows)
        # A projection, so that the sum depends on no other record.
        likeness = Projection(self.theta[:-1, None])(inputs) + self.theta[-1] > 0
        parts = [inputs, likeness, self.leading(rows - self.inputs.centre)]
        return np.concatenate(parts, axis=1, dtype=np.float32)

    @property
    def length(self) -> int:
        """p."""
        return len(self.theta) - 1


@dataclass(frozen=True)
class LikenessStages:
    """The releases of the tests."""

    counts: Stage  # private records of each class that are taken for the kind, and the others
    mean: Stage  # their mean in the leading axes


@dataclass(frozen=True)
class Likeness:
    """What the tests said; all of it is DP or public."""

    classes: Sequence[str]
    counts: ClassCounts  # class sizes, as released so far
    taken: Vector  # (classes,) released numbers of records taken for the kind
    taken_sd: float  # standard deviation of the noise in each
    held_out: float  # part of held-out public images that is taken for the kind
    depth: float  # of the private mean among the public images, 0 to 1
    mean_sd: float  # noise in each number of that mean, in public deviations

    @property
    def share(self) -> float:
        """Part of the private records that is taken for the kind."""
        return float(np.clip(self.taken.sum() / self.counts.total, 0.0, 1.0))

    @property
    def shares(self) -> Vector:
        """The same of each class: (classes,)."""
        return np.clip(self.taken / self.counts.sizes, 0.0, 1.0)

    @property
    def difference(self) -> str | None:
        """Why the private images are not like the public ones, as a clause; None: they are."""
        if self.mean_sd > _MOST_NOISE:
            return (
                f"about {self.counts.total:,.0f} private images (DP count) are too few to tell, "
                "under the noise of this epsilon, whether they look like the public ones"
            )
        if self.depth < _LEAST_DEPTH:
            return (
                f"the private images differ from the public ones in their mean: {self.depth:.0%} "
                f"of the public images lie beyond the DP mean of the private ones, and "
                f"{_LEAST_DEPTH:.0%} would have to (parts of one source differ so where its order "
                "is not random)"
            )
        noise = _SURE * self.taken_sd * len(self.taken) ** 0.5 / self.counts.total
        share = float(self.taken.sum()) / self.counts.total
        if share + noise < _LEAST_SHARE * self.held_out:
            return (
                f"the private images are not taken for the public kind: {self.share:.0%} of them "
                f"(DP count) are, and {self.held_out:.0%} of held-out public images"
            )
        noises = _SURE * self.taken_sd / self.counts.sizes
        unlike = self.taken / self.counts.sizes + noises < _LEAST_SHARE_OF_CLASS * self.held_out
        if (unlike := unlike & self.counts.clear).any():
            names = ", ".join(
                f"{name} ({share:.0%})"
                for name, share, odd in zip(self.classes, self.shares, unlike, strict=True)
                if odd
            )
            return (
                f"classes without likeness to the public images: {names} of the private images (DP "
                f"count) are taken for their kind, and {self.held_out:.0%} of public images"
            )
        return None

    def facts(self) -> dict[str, object]:
        """What a release says of it: JSON values."""
        return {
            "taken_for_public_kind": round(self.share, 3),
            "taken_for_public_kind_per_class": {
                name: round(float(share), 3)
                for name, share in zip(self.classes, self.shares, strict=True)
            },
            "held_out_public_images_taken": round(self.held_out, 3),
            "depth_among_public_images": round(self.depth, 3),
        }


def tested_likeness(
    vault: Vault,
    kind: PublicKind,
    classes: Sequence[str],
    sizes: ClassCounts,
    stages: LikenessStages,
) -> Likeness:
    """Ask both tests of records as `PublicKind.described` describes them."""
    length, count = kind.length, len(classes)
    codes = Cells(np.tile(np.array([[0.0], [1.0]]), (count, 1, 1)))
    query = Counts(codes)
    outcomes = vault.view(lambda rows: rows[:, length : length + 1].astype(np.float64))
    answer = outcomes.release(query, stage=stages.counts.name).reshape(count, 2)
    sd = vault.noise_sd(query, stage=stages.counts.name)
    counts = sizes.combined(answer.sum(axis=1), sd * 2**0.5)
    places = vault.unconditional().view(lambda rows: rows[:, length + 1 :].astype(np.float64))
    sums = ClippedSums(Cells(np.zeros((1, 1, kind.points.shape[1]))), _radius(kind.points))
    total = places.release(sums, stage=stages.mean.name)[0]
    mean_sd = vault.noise_sd(sums, stage=stages.mean.name) / counts.units
    # The records and the public images are samples, whose means differ by chance besides.
    sampled = 1 / counts.units + 1 / len(kind.points)
    depth = half_space_depth(kind.points, total / counts.units, (mean_sd**2 + sampled) ** 0.5)
    return Likeness(classes, counts, answer[:, 1], sd, kind.held_out, depth, mean_sd)


def least_units(noise: float) -> float:
    """Units below which the noise of the test of depth, over its sensitivity, may end a run."""
    return 2.0 * math.sqrt(_AXES) * noise / _MOST_NOISE


def half_space_depth(points: Vector, mean: Vector, noise: float) -> float:
    """Part of the points (m, k) beyond a noisy mean (k,), on the line to it from theirs.

    The length of the noise, of a deviation in each number, is taken off: a mean of noise alone is
    deep.
    """
    offset = mean - points.mean(axis=0)
    length = float(np.linalg.norm(offset))
    if length == 0.0:
        return 0.5
    beyond = (length**2 - len(offset) * noise**2) / length
    along = (points - points.mean(axis=0)) @ (offset / length)
    return float((along >= max(beyond, 0.0)).mean())


def scrambled(images: Images, rng: np.random.Generator) -> Images:
    """Images (n, height, width, c) of the same spectra and mean colours, with random phases."""
    spectra = np.fft.fft2(images.astype(np.float64), axes=(1, 2))
    noise = np.fft.fft2(rng.standard_normal(images.shape[:3]), axes=(1, 2))
    turned = spectra * np.exp(1j * np.angle(noise))[..., None]
    turned[:, 0, 0] = spectra[:, 0, 0]
    pixels = np.fft.ifft2(turned, axes=(1, 2)).real
    return np.clip(np.rint(pixels), 0, 255).astype(np.uint8)


def _principal(rows: Vector) -> tuple[Vector, Vector]:
    """Variances, largest first, and the axes (d, d) that they are along."""
    variances, axes = np.linalg.eigh(np.cov(rows, rowvar=False))
    return np.maximum(variances[::-1], 0.0), axes[:, ::-1]


def _radius(points: Vector) -> float:
    """What places in k axes of unit variance are clipped to."""
    return float(points.shape[1] ** 0.5)


def _separator(kind: Vector, contrast: Vector) -> Vector:
    """A logistic regression of two sets that count the same: (p + 1,)."""
    rows = np.concatenate([kind, contrast])
    rows = np.column_stack([rows, np.ones(len(rows))])
    signs = np.concatenate([np.ones(len(kind)), -np.ones(len(contrast))])
    weights = np.where(signs > 0, 0.5 / len(kind), 0.5 / len(contrast))
    shrunk = np.append(np.full(rows.shape[1] - 1, _PENALTY), 0.0)

    def loss(theta: Vector) -> tuple[float, Vector]:
        margins = signs * (rows @ theta)
        pull = -signs * weights * scipy.special.expit(-margins)
        value = weights @ np.logaddexp(0.0, -margins) + 0.5 * shrunk @ theta**2
        return float(value), rows.T @ pull + shrunk * theta

    start, options = np.zeros(rows.shape[1]), {"maxiter": _ITERATIONS}
    fit = scipy.optimize.minimize(loss, start, jac=True, method="L-BFGS-B", options=options)
    return np.asarray(fit.x, dtype=np.float64)
