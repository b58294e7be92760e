"""Estimates from noisy sums: what of them is signal, given the noise that is known to be in them.

All of it is post-processing of released values, so it costs no privacy. Of vectors (m, d),
``variances`` (m,) are those of the noise in each number; of symmetric matrices (d, d), ``noise_sd``
is the standard deviation of the diagonal's noise, and off the diagonal it is smaller by sqrt(2).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.independence import row_squares
from understudy.core.types import Vector
from understudy.steps.row_arithmetic import moving_average

CLEAR_DEVIATIONS = 2.5  # of its noise that a block of an image's mean must exceed
_CHANCE_DEVIATIONS = 2.0  # of noise that the variance between numbers must exceed
_REST_DEVIATIONS = 4.0  # of the noise in the mean variance of a block that no axis explains
_FAINT = 0.1  # of a target's energy
_LEAST_VARIANCE = 0.05  # of a block, over that of public images
_LEAST_PART = 0.1  # of a block's mean variance, that of a number in it
_SPANS = (27, 9, 3, 1)  # neighbouring numbers of a block
_LEAST_EIGENVALUE = 1e-4  # of the correlations
_LEAST_BETWEEN = 1e-6  # variance between means
_CLEAR_AXES, _FEWEST_AXES, _MOST_AXES = 0.13, 24, 48  # of the covariances of classes
_FINE = 0.5  # where the noise's eigenvalues end, of one that finds what varies less
_LEAST_OF_CLASS = 0.02  # of the mean eigenvalue of a class's covariance
_DRAWS = 2000  # of a Gaussian, for how much their lengths vary
_PURE = 0.5  # of an eigenvector that is signal, at least, for it to be drawn along


def chance_ratio(freedom: float, deviations: float) -> float:
    """How much the mean square of noise may be by chance, over the variance of the noise.

    Of ``freedom`` independent numbers it has a mean of 1 and a deviation of sqrt(2 / freedom).
    """
    return 1 + deviations * float(np.sqrt(2 / freedom))


def noisy_means(
    counts: Vector, sums: Vector, count_sd: float, sum_sd: float
) -> tuple[Vector, Vector, Vector]:
    """Means (m, d) from noisy counts (m,) and sums (m, d), and the variances of their noise.

    The counts, returned first, are raised to twice their noise: none is divided by that is all
    noise.
    """
    counts = np.maximum(counts, max(2 * count_sd, 1.0))
    return counts, sums / counts[:, None], (sum_sd / counts) ** 2


def shrink_to_common(means: Vector, variances: Vector, origin: Vector | None = None) -> Vector:
    """Positive-part James-Stein estimates (m, d) of means, towards their weighted average.

    A mean that is all noise becomes the average; one mean alone stays. With an ``origin`` (d,), of
    numbers in order of importance, blocks are shrunk each by its own noise, and the average towards
    the origin.
    """
    average = weighted_average(means, variances)
    if origin is not None:
        common = common_mean(means, variances, origin)
        return np.asarray(common + shrink_in_blocks(means - average, variances, CLEAR_DEVIATIONS))
    if len(means) == 1:
        return means
    return np.asarray(average + shrink_to_zero(means - average, variances))


def shrink_to_average(values: Vector, variances: Vector, weights: Vector) -> Vector:
    """Noisy numbers (m,), each moved to their weighted average by signal / (signal + noise).

    The signal is the variance between the numbers beyond what noise alone may have by chance: of a
    few numbers that is much.
    """
    weights = weights / weights.sum()
    average = float(weights @ values)
    noise = chance_ratio(len(values), _CHANCE_DEVIATIONS) * float(weights @ variances)
    signal = max(0.0, float(weights @ (values - average) ** 2) - noise)
    return np.asarray(average + signal / np.maximum(signal + variances, 1e-12) * (values - average))


def shrink_in_parts(values: Vector, variances: Vector, weights: Vector) -> Vector:
    """Noisy numbers (m, parts), the mean of a row and what a part differs by each shrunk to others.

    ``variances``: (m,) of the noise in a number.
    """
    parts, whole = values.shape[1], values.mean(axis=1)
    own = [
        shrink_to_average(part, variances * (1 - 1 / parts), weights)
        for part in (values - whole[:, None]).T
    ]
    return shrink_to_average(whole, variances / parts, weights)[:, None] + np.stack(own, axis=1)


def shrink_to_prior(
    values: Vector, variances: Vector, weights: Vector, mean: float, deviation: float
) -> Vector:
    """Noisy numbers (m,), moved to their average, and that to the mean of a normal prior."""
    values = shrink_to_average(values, variances, weights)
    weights = weights / weights.sum()
    noise = float(weights**2 @ variances)
    return np.asarray(values + noise / (noise + deviation**2) * (mean - weights @ values))


def shrink_to_neighbours(
    own: Vector, noise: Vector, parts: Vector, blocks: Sequence[slice], span: int
) -> Vector:
    """Noisy deviations of means from their average, (m, d), by Wiener's factor.

    Args:
        own: The deviations.
        noise: (m,) its variance in each number of a mean.
        parts: (m,) of the average, that are of each mean.
        blocks: Of numbers, within which the variance between means is averaged.
        span: Over so many neighbours.
    """
    excess = own**2 - (noise * (1 - parts))[:, None]
    between = np.maximum(excess.mean(axis=0) * len(own) / max(len(own) - 1, 1), 0.0)
    smooth = np.concatenate([moving_average(between[block], span) for block in blocks])
    smooth = np.maximum(smooth, _LEAST_BETWEEN)
    return np.asarray(own * smooth / (smooth + noise[:, None]))


def variance_of_lengths(root: Vector, blocks: Sequence[slice]) -> float:
    """Of draws of a Gaussian, the variance of the logarithm of their length, averaged over blocks.

    ``root``: (d, d) a square root of its covariance.
    """
    draws = np.random.default_rng(0).standard_normal((_DRAWS, len(root))) @ root.T
    squares = [np.maximum(row_squares(draws[:, block]), 1e-12) for block in blocks]
    return float((np.log(squares) / 2).mean(axis=0).var())


def weighted_average(means: Vector, variances: Vector) -> Vector:
    """The average of noisy means (m, d), each weighted by 1 / variance: (d,)."""
    weights = 1 / np.maximum(variances, 1e-300)
    return np.asarray((weights[:, None] * means).sum(axis=0) / weights.sum())


def common_mean(means: Vector, variances: Vector, origin: Vector | None = None) -> Vector:
    """What `shrink_to_common` makes of a mean that is all noise: (d,)."""
    average = weighted_average(means, variances)
    if origin is None:
        return average
    variance = 1 / (1 / np.maximum(variances, 1e-300)).sum(keepdims=True)
    return np.asarray(
        origin + shrink_in_blocks((average - origin)[None], variance, CLEAR_DEVIATIONS)[0]
    )


def shrink_to_zero(vectors: Vector, variances: Vector) -> Vector:
    """Positive-part James-Stein estimates towards zero: vectors times signal / (signal + noise)."""
    energy = np.maximum((vectors**2).sum(axis=1), 1e-300)
    keep = np.clip(1 - vectors.shape[1] * variances / energy, 0.0, 1.0)
    return np.asarray(keep[:, None] * vectors)


def shrink_in_blocks(vectors: Vector, variances: Vector, deviations: float = 1.0) -> Vector:
    """Vectors shrunk towards zero in blocks of 8, 8, 16, 32, ... numbers, the most important first.

    Noise is the same in all numbers, and signal lies mostly in the leading ones. So each block is
    kept by its own signal / (signal + noise), as in Cai's block James-Stein rule (1999).
    """
    shrunk = np.empty_like(vectors)
    for numbers in importance_blocks(vectors.shape[1]):
        block = vectors[:, numbers]
        shrunk[:, numbers] = block * signal_part(block, block.shape[1], variances, deviations)
    return shrunk


def importance_blocks(dim: int) -> Iterator[slice]:
    """Blocks of 8, 8, 16, 32, ... numbers that come in order of importance."""
    start, size = 0, 8
    while start < dim:
        yield slice(start, min(start + size, dim))
        start, size = start + size, max(size, start + size)


def left_variances(matrix: Vector, explained: Vector, noise_sd: float) -> Vector:
    """What a noisy covariance has beyond its kept axes, which explain so much of each number: (d,).

    One variance for each block of numbers: many axes that each drown in noise have a clear sum. A
    block that is no clearer is left out: were it noise, all samples would show it, as static.
    """
    left, smooth = np.diag(matrix) - explained, np.zeros(len(matrix))
    for block in importance_blocks(len(matrix)):
        mean = float(left[block].mean())
        if mean > _REST_DEVIATIONS * noise_sd / np.sqrt(len(left[block])):
            smooth[block] = mean
    return smooth


def signal_part(vectors: Vector, dim: int, variances: Vector, deviations: float = 1.0) -> Vector:
    """What part of each vector to keep, (m, 1): none where its energy is what noise alone may have.

    A vector that noise has moved is worse than one that stayed, so one deviation of the noise's
    energy is allowed for, or more where noise would be seen: as static in an image.
    """
    noise = dim * chance_ratio(dim, deviations) * variances
    energy = np.maximum((vectors**2).sum(axis=1), 1e-300)
    return np.asarray(np.clip(1 - noise / energy, 0.0, 1.0)[:, None])


def shrink_variances(variances: Vector, noise: float | Vector, floor: float) -> Vector:
    """Noisy variances (m, d), shrunk towards the mean of their row by the noise: positive.

    ``noise``: its variance, broadcastable. ``floor``: least variance, as a part of the mean.
    """
    noise = np.broadcast_to(np.asarray(noise, dtype=np.float64), variances.shape)
    mean = np.maximum(variances.mean(axis=1, keepdims=True), 1e-12)
    spread = ((variances - mean) ** 2).mean(axis=1, keepdims=True)
    signal = np.maximum(spread - noise.mean(axis=1, keepdims=True), 0.0)
    keep = signal / np.maximum(spread, 1e-300)
    return np.asarray(np.maximum(mean + keep * (variances - mean), floor * mean))


def shrink_to_target(
    variances: Vector, target: Vector, noise: float | Vector, floor: float
) -> tuple[Vector, Vector]:
    """Noisy variances (m, d), moved towards a target by the noise; and the parts kept, (m,).

    ``noise``: its variance, broadcastable. ``floor``: least variance, as a part of the target.
    """
    noise = np.broadcast_to(np.asarray(noise, dtype=np.float64), variances.shape)
    keep = signal_part(variances - target, variances.shape[1], noise.mean(axis=1))
    return np.maximum(target + keep * (variances - target), floor * target), keep[:, 0]


def denoise_covariance(matrix: Vector, noise_sd: float, floor: float = 0.02) -> Vector:
    """A noisy symmetric matrix with its eigenvalues cleaned of the noise: positive definite.

    For C + E with E a Gaussian orthogonal ensemble, the best estimate that keeps the eigenvectors
    has eigenvalues l - 2 s^2 H(l), where H is the Hilbert transform of the observed spectrum and
    s^2 the variance of E's semicircle (Bun, Allez, Bouchaud and Potters 2016, equation 18).
    ``floor``: of the mean eigenvalue.
    """
    values, vectors = np.linalg.eigh(matrix)
    clean = denoise_spectrum(values, len(values) * noise_sd**2 / 2)
    mean = max(float(values.mean()), 1e-12)
    return np.asarray((vectors * np.maximum(clean, floor * mean)) @ vectors.T)


def clear_values(values: Vector, noise_sd: float) -> tuple[NDArray[np.bool_], Vector]:
    """Which eigenvalues (d,) of a noisy symmetric matrix are clear of the noise; and their signal.

    Noise reaches eigenvalues of 2 s, s^2 = d noise_sd^2 / 2. An observed one l above it comes of a
    true one of t = (l + sqrt(l^2 - 4 s^2)) / 2, and a part 1 - s^2 / t^2 of its noisy eigenvector
    lies along the true one (the spiked model: Benaych-Georges and Nadakuditi 2011): clear where
    that is ``_PURE`` or more. The signal along it is t - s^2 / t = sqrt(l^2 - 4 s^2).
    """
    deviation = np.sqrt(len(values) / 2) * noise_sd
    least = deviation / np.sqrt(1 - _PURE)
    above = np.maximum(values, 0.0) ** 2 - 4 * deviation**2
    return values > least + deviation**2 / max(least, 1e-300), np.sqrt(np.maximum(above, 0.0))


def clear_block(matrix: Vector, noise_sd: float) -> tuple[int, int]:
    """The leading coordinates whose covariance shows most signal, and its number of clear axes.

    Of a noisy matrix (d, d), the coordinates in falling order of importance: noise reaches lower
    eigenvalues in fewer of them (`clear_values`).
    """
    best, result, block = -1.0, (1, 0), 1
    while True:
        values = np.asarray(np.linalg.eigvalsh(matrix[:block, :block]), dtype=np.float64)
        clear, signals = clear_values(values, noise_sd)
        if (signal := float(signals[clear].sum())) > best:
            best, result = signal, (block, int(clear.sum()))
        if block == len(matrix):
            return result
        block = min(2 * block, len(matrix))


def clear_part(matrix: Vector, noise_sd: float) -> Vector:
    """A noisy covariance along its clear axes (`clear_values`), or the leading one: (d, d)."""
    values, vectors = np.linalg.eigh(matrix)
    clear, signals = clear_values(values, noise_sd)
    if not clear.any():
        clear[-1] = True
    signals = np.maximum(signals, 0.02 * max(float(values.mean()), 1e-12))
    return np.asarray((vectors[:, clear] * signals[clear]) @ vectors[:, clear].T)


def denoise_spectrum(values: Vector, semicircle: float) -> Vector:
    """The cleaned eigenvalues, in increasing order as given (see `denoise_covariance`)."""
    if semicircle <= 0:
        return values
    gaps = values[:, None] - values[None]
    smoothing = semicircle / len(values)
    hilbert = (gaps / (gaps**2 + smoothing)).mean(axis=1)
    monotone = scipy.optimize.isotonic_regression(values - 2 * semicircle * hilbert)
    return np.asarray(monotone.x)


def shrink_leading(
    matrix: Vector, target: Vector, noise_sd: float, *, clear: bool
) -> tuple[Vector, int, float]:
    """A noisy symmetric matrix moved to a target, but for the leading block that shows most signal.

    Of a difference to the target, the leading (b, b) block of noise has an expected energy of
    noise_sd^2 b (b + 1) / 2 with a deviation of noise_sd^2 b. The block is kept whose energy
    exceeds the former by two of the latter and most, by signal / (signal + noise), but none that is
    less than half signal, unless the noise that stays is faint beside the target, which is known
    where every coordinate of it is ``clear``.

    Returns the matrix; b, which is 0 where nothing stands out; and the part of the difference that
    is kept.
    """
    difference = matrix - target
    squares = difference**2
    energies = np.diag(squares.cumsum(axis=0).cumsum(axis=1))
    sizes = np.arange(1, len(matrix) + 1)
    signals = energies - noise_sd**2 * (sizes * (sizes + 1) / 2 + 2 * sizes)
    best = int(signals.argmax())
    keep = max(0.0, float(signals[best] / max(energies[best], 1e-300)))
    block = int(sizes[best])
    noise = keep**2 * (energies[best] - max(signals[best], 0.0))
    faint = noise <= _FAINT * float((target[:block, :block] ** 2).sum())
    if not keep or (keep < _PURE and not (clear and faint)):
        return target.copy(), 0, 0.0
    result = target.copy()
    result[:block, :block] += keep * difference[:block, :block]
    return result, block, keep


def square_root(covariance: Vector) -> Vector:
    """A (d, d) with A A^T = covariance, by eigenvalues."""
    values, vectors = np.linalg.eigh(covariance)
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))


def smooth_variances(variances: Vector, noise_sd: float) -> Vector:
    """Noisy variances (d,) of numbers whose neighbours are alike, without most of the noise.

    They begin at their mean. What averages over 27, 9, 3 and 1 neighbours differ by from what the
    wider ones say is added, each as far as the noise is no less (James and Stein 1961).
    """
    mean = max(float(variances.mean()), _LEAST_VARIANCE)
    result = np.full(len(variances), mean)
    for span in _SPANS:
        if span < len(variances):
            beyond = moving_average(variances - result, span)
            noise = noise_sd**2 / span
            by_chance = chance_ratio(len(variances) / span, _CHANCE_DEVIATIONS) * noise
            signal = max(float((beyond**2).mean()) - by_chance, 0.0)
            result += signal / (signal + noise) * beyond
    return np.asarray(np.maximum(result, _LEAST_PART * mean))


@dataclass(frozen=True)
class SpikedCovariance:
    """A diagonal, and directions in which more stands out (Johnstone 2001; Donoho et al. 2018)."""

    diagonal: Vector  # (d,)
    spikes: Vector  # (d, d): what stands out
    noise_sd: float

    @classmethod
    def of(cls, matrix: Vector, block_of: NDArray[np.int64], noise_sd: float) -> SpikedCovariance:
        """What of a noisy matrix (d, d) in standard units stands out of the noise.

        Variances are smoothed within each block of neighbours; ``block_of``: (d,), ascending.
        Eigenvalues of the rest count beyond the edge of the noise's.
        """
        blocks = np.split(np.diag(matrix), np.flatnonzero(np.diff(block_of)) + 1)
        diagonal = np.concatenate([smooth_variances(block, noise_sd) for block in blocks])
        values, axes = np.linalg.eigh(matrix - np.diag(diagonal))
        spikes = spiked_values(values, edge_of_noise(len(matrix), noise_sd))
        return cls(diagonal, (axes * spikes) @ axes.T, noise_sd)

    def root(self, part: float = 1.0, noises: float = 0.0) -> Vector:
        """A square root (d, d) of the covariance, no eigenvalue of its correlations near 0.

        Args:
            part: Of the diagonal's deviations.
            noises: So many deviations of the noise are added to each variance, and eigenvalues are
                no less than what noise may be of one: by less an inverse would tell of noise alone.
        """
        diagonal = self.diagonal + noises * self.noise_sd
        scale = np.sqrt(diagonal)
        matrix = np.diag(part**2 * diagonal) + self.spikes
        values, axes = np.linalg.eigh(matrix / np.outer(scale, scale))
        edge = edge_of_noise(len(matrix), self.noise_sd) if noises else 0.0
        least = max(_LEAST_EIGENVALUE, min(edge, _FINE) / 2)
        return np.asarray(scale[:, None] * axes * np.sqrt(np.maximum(values, least)))


def axes_of_classes(size: float) -> int:
    """Along how many axes the covariances of classes are clear of the noise; 0: of too few to tell.

    ``size``: records of a class times mu. Noise in eigenvalues grows with r^(3/2) / size. X-rays
    with 15 taught a small network less than without, though the noise was small.
    """
    rank = int((_CLEAR_AXES * size) ** (2 / 3))
    return min(rank, _MOST_AXES) if rank >= _FEWEST_AXES else 0


@dataclass(frozen=True)
class ClassShapes:
    """What tells the covariances of classes from those of a model, along its leading axes."""

    axes: Vector  # (d, r), each as long as the model's deviation along it
    coordinates: Vector  # (r, d): numbers to multiples of the axes
    lengths: Vector  # (classes,) the model's deviation of a coordinate in each class
    targets: Vector  # (classes, r, r): the model's covariances over their squares
    turns: Vector  # (classes, r, r): from a class's draws of the model to what was measured

    @classmethod
    def along(cls, root: Vector, widths: Vector, rank: int) -> ClassShapes:
        """None yet, of classes of ``widths`` (classes, d) times a covariance with a root (d, d)."""
        values, axes = np.linalg.eigh(root @ root.T)
        leading = np.arange(len(root))[::-1][:rank]
        deviations = np.sqrt(np.maximum(values[leading], _LEAST_EIGENVALUE))
        coordinates = (axes[:, leading] / deviations).T
        parts = np.stack([coordinates @ (wide[:, None] * root) for wide in widths])
        covariances = parts @ parts.swapaxes(1, 2)
        squares = np.trace(covariances, axis1=1, axis2=2) / max(rank, 1)
        targets = covariances / squares[:, None, None]
        turns = np.tile(np.eye(rank), (len(widths), 1, 1))
        return cls(axes[:, leading] * deviations, coordinates, np.sqrt(squares), targets, turns)

    def measured(self, sums: Vector, noise_sd: float) -> ClassShapes:
        """Noisy sums of outer products (classes, r, r), as far as they are clear of the model."""
        rank = len(self.coordinates)
        traces = np.maximum(np.trace(sums, axis1=1, axis2=2), rank * noise_sd)
        turns = [
            _power(
                shrink_leading(part * rank / trace, target, noise_sd * rank / trace, clear=True)[0],
                0.5,
            )
            @ _power(target, -0.5)
            for part, trace, target in zip(sums, traces, self.targets, strict=True)
        ]
        return replace(self, turns=np.stack(turns))

    def pooled(self, root: Vector, widths: Vector) -> Vector:
        """The mean of the classes' covariances, (d, d): of `widths` (classes, d) times the model's.

        ``root``: of the model's covariance (d, d).
        """
        of_classes = [
            self.turned((wide[:, None] * root).T, np.full(len(root), number))
            for number, wide in enumerate(widths)
        ]
        return np.asarray(np.mean([one.T @ one for one in of_classes], axis=0))

    def turned(self, noise: Vector, labels: NDArray[np.int64]) -> Vector:
        """Draws about their classes' means, (n, d), with the covariances that were measured."""
        part = noise @ self.coordinates.T
        change = np.einsum("nij,nj->ni", self.turns[labels], part) - part
        return np.asarray(noise + change @ self.axes.T)


def _power(matrix: Vector, power: float) -> Vector:
    """A power of a symmetric matrix, whose eigenvalues are no less than a part of the mean one."""
    values, vectors = np.linalg.eigh(matrix)
    values = np.maximum(values, _LEAST_OF_CLASS * max(float(values.mean()), 1e-12))
    return np.asarray((vectors * values**power) @ vectors.T)


def edge_of_noise(dim: int, noise_sd: float) -> float:
    """Where the eigenvalues of the noise in a matrix (d, d) end (Wigner 1955)."""
    return float(np.sqrt(2 * dim)) * noise_sd


def spiked_values(values: Vector, edge: float) -> Vector:
    """Eigenvalues without noise, 0 where they do not reach beyond the edge of the noise's.

    Of a spike theta in noise whose eigenvalues end at ``edge`` the measured value is
    theta + (edge / 2)^2 / theta, along a direction that is its own by 1 - (edge / 2)^2 / theta^2
    (Benaych-Georges and Nadakuditi 2011). Negative ones count where the noise is small.
    """
    beyond = np.where(values > 0, values > edge, (-values > edge) & (edge < _FINE))
    lengths = np.abs(values)
    spike = (lengths + np.sqrt(np.maximum(lengths**2 - edge**2, 0.0))) / 2
    purity = np.clip(1 - (edge / 2) ** 2 / np.maximum(spike**2, 1e-12), 0.0, 1.0)
    return np.where(beyond, np.sign(values) * spike * purity, 0.0)
