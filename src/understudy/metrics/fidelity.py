"""How alike two sets of images are, by their embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Interval, Metric
from understudy.core.types import Labels, Vector
from understudy.metrics.moments import Moments, MomentSums

_RESAMPLED = 8192  # rows copied at a time


FRECHET_DISTANCE = Metric(
    key="frechet_distance",
    group="fidelity",
    name="Frechet distance",
    explanation="How far the cloud of samples is from the cloud of real ones, by mean and "
    "spread of their features. 0: the same. It depends on the features, so compare only like with "
    "like.",
    better="lower",
    baseline="held-out real records",
)

FID = replace(
    FRECHET_DISTANCE,
    key="fid",
    name="FID",
    explanation="Frechet distance on the standard Inception network; comparable with other "
    "people's.",
)

KERNEL_DISTANCE = Metric(
    key="kernel_distance",
    group="fidelity",
    name="kernel distance",
    explanation="Like the Frechet distance, by kernels; fair for few rows. 0: the same. The "
    "interval is 1.96 standard errors to each side.",
    better="lower",
    baseline="held-out real records",
)

KID = replace(
    KERNEL_DISTANCE,
    key="kid",
    name="KID",
    explanation="Like FID, by kernels; fair for few rows. 0: the same. The interval is 1.96 "
    "standard errors to each side.",
)

INCEPTION_SCORE = Metric(
    key="inception_score",
    group="fidelity",
    name="Inception score",
    explanation="Whether rows are clear and of many kinds, by the standard Inception network.",
    better="higher",
    baseline="held-out real records",
)

CLIP_SCORE = Metric(
    key="clip_score",
    group="fidelity",
    name="CLIP score ({subject})",
    explanation="How well images fit their captions, 0 to 100, by an encoder of both. It depends "
    "on the encoder; compare it with the score of the same images with shuffled captions.",
    better="higher",
)

CLIP_SCORE_SHUFFLED = Metric(
    key="clip_score_shuffled",
    group="fidelity",
    name="CLIP score ({subject}), captions shuffled",
    explanation="The CLIP score of the same images with captions of other images: what images "
    "and captions come to that do not belong together.",
)


def frechet_distance(a: Moments | NDArray[Any], b: Moments | NDArray[Any]) -> float:
    """Frechet distance of two sets of embeddings, each taken as a Gaussian.

    ||m_a - m_b||^2 + tr(C_a + C_b - 2 (C_a C_b)^{1/2}): FID where the embeddings are Inception's
    (Heusel et al. 2017, Eq. 6). The trace of the root is that of the root of the symmetric
    C_a^{1/2} C_b C_a^{1/2}, so that no complex number can come up.

    Args:
        a: (n, d) embeddings, or their moments.
        b: (m, d) embeddings, or their moments.

    Returns:
        The squared distance, 0 or more. Biased upwards on few rows: compare equal numbers only.

    Raises:
        InputError: Fewer than two rows, other lengths, or numbers that are not finite.
    """
    one, two = (x if isinstance(x, Moments) else Moments.of(x) for x in (a, b))
    if one.mean.shape != two.mean.shape:
        raise InputError(
            f"embeddings of {len(one.mean)} and of {len(two.mean)} numbers cannot be compared"
        )
    product = one.root @ two.covariance @ one.root
    between = np.sqrt(np.maximum(np.linalg.eigvalsh(product), 0.0)).sum()
    apart = float(np.square(one.mean - two.mean).sum())
    spread = float(np.trace(one.covariance) + np.trace(two.covariance) - 2 * between)
    return max(0.0, apart + spread)


def frechet_interval(
    private: Moments, rows: NDArray[Any], value: float, *, resamples: int, seed: int = 0
) -> Interval:
    """95 % interval of a Frechet distance by the bootstrap over one side's rows.

    The distances of resampled rows lie above the one of the rows themselves, since fewer rows are
    distinct: only their spread is used, about the value (normal interval).

    Args:
        private: The side that is taken as it is.
        rows: (n, d) of the other side, to be resampled.
        value: The distance of all of them.
        resamples: How many.
        seed: Of the resampling.
    """
    rng = np.random.default_rng(seed)
    distances = []
    for _ in range(resamples):
        resample: Labels = np.sort(rng.integers(0, len(rows), len(rows)))
        sums = MomentSums(rows.shape[1])
        for part in np.array_split(resample, -(-len(resample) // _RESAMPLED)):
            sums.add(rows[part])
        distances.append(frechet_distance(private, sums.moments()))
    half_width = 1.96 * float(np.std(distances, ddof=1))
    return Interval(value, max(0.0, value - half_width), value + half_width)


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure with its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Sequence[float] | Vector) -> Estimate:
        """The mean of independent values and its standard error; the latter is 0 for one value."""
        error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
        return cls(float(np.mean(values)), float(error))


def kernel_distance(
    a: NDArray[Any], b: NDArray[Any], *, subsets: int = 100, size: int = 1000, seed: int = 0
) -> Estimate:
    """Kernel distance: the unbiased squared MMD under the kernel (x.y / d + 1)^3.

    KID where the embeddings are Inception's (Binkowski et al. 2018, section 4): the mean over
    random subsets. Subsets of one set share rows, so what they vary by says too little of what
    other sets would give: that is estimated from it as of a part drawn without replacement.

    Args:
        a: (n, d) embeddings.
        b: (m, d) embeddings.
        subsets: How many pairs of subsets.
        size: Rows of a subset, but at most half of the smaller side's.
        seed: Of the choice of subsets.

    Returns:
        The distance; it may be a little below 0 where the sets are alike.

    Raises:
        InputError: Fewer than four rows a side, or other lengths.
    """
    rows = min(len(a), len(b))
    if rows < 4 or a.shape[1] != b.shape[1]:
        raise InputError(
            f"a kernel distance takes four or more embeddings of one length a side, found "
            f"{a.shape} and {b.shape}"
        )
    rng = np.random.default_rng(seed)
    take = min(size, rows // 2)
    distances = []
    for _ in range(subsets):
        x = np.asarray(a[rng.choice(len(a), take, replace=False)], dtype=np.float64)
        y = np.asarray(b[rng.choice(len(b), take, replace=False)], dtype=np.float64)
        distances.append(_squared_mmd(x, y))
    spread = float(np.std(distances, ddof=1))
    error = spread * np.sqrt(take / (rows - take) + 1 / subsets)
    return Estimate(float(np.mean(distances)), float(error))


def _squared_mmd(x: Vector, y: Vector) -> float:
    """Unbiased estimate (Gretton et al. 2012, Eq. 3) for equally many rows."""
    m, d = x.shape
    within = 0.0
    for side in (x, y):
        kernel = _cubic(side, side, d)
        within += (kernel.sum() - np.trace(kernel)) / (m * (m - 1))
    return float(within - 2 * np.mean(_cubic(x, y, d)))


def _cubic(x: Vector, y: Vector, d: int) -> Vector:
    """(x.y / d + 1)^3; the power by products, which are ten times as fast."""
    base = x @ y.T
    base /= d
    base += 1
    return np.asarray(base * base * base)


def inception_score(probabilities: NDArray[Any], *, splits: int = 10) -> Estimate:
    """exp of the mean divergence of p(y|x) from p(y) (Salimans et al. 2016).

    Args:
        probabilities: (n, classes) class probabilities of synthetic images, rows summing to 1.
        splits: Random parts that it is computed on and averaged over: rows may come by classes.

    Raises:
        InputError: Fewer rows than splits, or rows that are no probabilities.
    """
    p = np.asarray(probabilities, dtype=np.float64)
    if p.ndim != 2 or len(p) < splits:
        raise InputError(f"an Inception score takes {splits} or more rows, found {p.shape}")
    if not (np.isfinite(p).all() and (p >= 0).all() and np.allclose(p.sum(axis=1), 1, atol=1e-3)):
        raise InputError("an Inception score takes probabilities: rows that sum to 1")
    scores = []
    for part in np.array_split(np.random.default_rng(0).permutation(p), splits):
        ratio = np.log(np.maximum(part, 1e-16)) - np.log(np.maximum(part.mean(axis=0), 1e-16))
        scores.append(np.exp((part * ratio).sum(axis=1).mean()))
    return Estimate.of(scores)


def clip_score(images: NDArray[Any], texts: NDArray[Any]) -> Estimate:
    """CLIP score: 100 max(cos, 0), on average over pairs of an image and its caption.

    CLIPScore (Hessel et al. 2021, section 3) is w max(cos, 0) with w = 2.5, which spreads what CLIP
    gives over 0 to 1. Everybody reports w = 100, as torchmetrics does, and so does this: divide by
    40 for theirs. torchmetrics takes the mean before it cuts at 0, which is the same where no
    cosine is negative, and less elsewhere.

    Args:
        images: (n, d) embeddings of images, of any length.
        texts: (n, d) embeddings of their captions in the same space.

    Returns:
        0 to 100, and its standard error over the pairs.

    Raises:
        InputError: No pairs, or other shapes.
    """
    if images.shape != texts.shape or not len(images):
        raise InputError(
            f"a CLIP score takes pairs of embeddings, found {images.shape} and {texts.shape}"
        )
    one, two = (np.asarray(side, dtype=np.float64) for side in (images, texts))
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(two, axis=1)
    cosines = np.einsum("nd,nd->n", one, two) / np.maximum(norms, 1e-12)
    return Estimate.of(100 * np.maximum(cosines, 0))
