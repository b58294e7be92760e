"""Attacks on a release: was this row in the private data? Scores, higher for members.

Each attack is given candidates, some of which were in the private data, and says how likely each
was. `understudy.metrics.roc` says how well it told them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.results import Metric
from understudy.core.types import Labels, Vector
from understudy.metrics.nearest_neighbours import clouds, nearest_rows
from understudy.metrics.roc import Roc, area_by_groups, roc
from understudy.metrics.subsets import some

DENSITY_DIMS = 8
"""Principal axes of a kernel estimate; the rows must be more."""

_DENSITY_ROWS = 4000
_LEAST_DISTANCE = 1e-6  # of the median distance to the reference
_LEAST_VARIANCE = 1e-12  # of the largest, of rows along an axis


ReleaseAttack = Callable[[NDArray[Any], NDArray[Any], NDArray[Any]], Vector]
"""Candidates, a release and a reference set to scores of the candidates."""


def by_distance(candidates: NDArray[Any], release: NDArray[Any]) -> Vector:
    """Minus the distance to the nearest sample (Chen et al. 2020, GAN-Leaks, black box).

    Args:
        candidates: (n, d) embeddings, or flattened images.
        release: (m, d) of the release.
    """
    queries, rows = clouds(candidates, release)
    return -nearest_rows(queries, rows)[1][:, 0]


def by_calibrated_distance(
    candidates: NDArray[Any], release: NDArray[Any], reference: NDArray[Any]
) -> Vector:
    """How much nearer the release is than a reference set drawn like the candidates.

    Rows in dense places are near everything; the reference, (r, d) real records that were not
    in the private data, takes that out (GAN-Leaks, calibrated).
    """
    return by_distance(candidates, release) - by_distance(candidates, reference)


def by_distance_ratio(
    candidates: NDArray[Any], release: NDArray[Any], reference: NDArray[Any]
) -> Vector:
    """How many times nearer the release is than a reference set: the log of the ratio.

    Calibrated as `by_calibrated_distance`, but by a factor: where records lie far apart in some
    parts of the space and close together in others, a difference says little of the close ones.

    Args:
        candidates: (n, d).
        release: (m, d).
        reference: (r, d) real records that were not in the private data.
    """
    to_release, to_reference = (-by_distance(candidates, rows) for rows in (release, reference))
    typical = float(np.median(to_reference)) or 1.0
    least = _LEAST_DISTANCE * typical  # an exact copy has no distance, and no logarithm
    return np.asarray(
        np.log(np.maximum(to_reference, least)) - np.log(np.maximum(to_release, least))
    )


def by_density_ratio(
    candidates: NDArray[Any], release: NDArray[Any], reference: NDArray[Any]
) -> Vector:
    """Log of the density of the release over that of the reference (DOMIAS, van Breugel 2023).

    Both densities are Gaussian kernel estimates on the first principal axes of the reference, as
    many as both vary along; where the samples are all alike every score is 0.

    Args:
        candidates: (n, d).
        release: (m, d).
        reference: (r, d) real records that were not in the private data.

    Raises:
        InputError: Not more rows than axes.
    """
    dims = min(DENSITY_DIMS, candidates.shape[1])
    for name, rows in (("the release", release), ("the reference", reference)):
        if len(rows) <= dims:
            raise InputError(f"{name} has {len(rows)} rows; a density of {dims} axes needs more")
    centre = reference.mean(axis=0, dtype=np.float64)
    theirs, usual = (
        rows[some(len(rows), _DENSITY_ROWS, 0)] - centre for rows in (release, reference)
    )
    _, spread, axes = np.linalg.svd(usual, full_matrices=False)
    scale = np.maximum(spread[:dims], max(spread[0] * 1e-6, _LEAST_VARIANCE))
    frame = (axes[:dims] / scale[:, None]).T
    dims = min(_varied_axes(rows @ frame) for rows in (theirs, usual))
    if dims == 0:  # all samples are alike
        return np.zeros(len(candidates))
    frame = frame[:, :dims]
    densities = [scipy.stats.gaussian_kde((rows @ frame).T) for rows in (theirs, usual)]
    points = ((candidates - centre) @ frame).T
    over, under = (density.logpdf(points) for density in densities)
    return np.asarray(over - under, dtype=np.float64)


def _varied_axes(rows: Vector) -> int:
    """How many of the first axes rows (n, k) have a density along: 0 to k.

    Rows that lie in a plane have none in space.
    """
    for dims in range(rows.shape[1], 0, -1):
        variances = np.linalg.eigvalsh(np.atleast_2d(np.cov(rows[:, :dims].T)))
        if variances[0] > _LEAST_VARIANCE * max(variances[-1], _LEAST_VARIANCE):
            return dims
    return 0


_AREA = (
    "Area under the ROC: 0.5 is guessing, 1 is always right. Of the attack and the same one asked "
    "the other way round, the one that gains more."
)

DISTANCE_AUC = Metric(
    key="distance_auc",
    group="attack",
    name="{subject}: AUC",
    subject="distance",
    explanation="An attack that takes rows near to the release for private ones. " + _AREA,
    better="lower",
    baseline="the blind classifier",
)

CALIBRATED_DISTANCE_AUC = replace(
    DISTANCE_AUC,
    key="calibrated_distance_auc",
    subject="calibrated distance",
    explanation="An attack by distance, less the distance to a reference set: rows in dense places "
    "are near to everything. " + _AREA,
)

DENSITY_RATIO_AUC = replace(
    DISTANCE_AUC,
    key="density_ratio_auc",
    subject="density ratio (DOMIAS)",
    explanation="An attack that asks where the release is denser than a reference set. " + _AREA,
)

LOSS_AUC = replace(
    DISTANCE_AUC,
    key="loss_auc",
    subject="loss of a model trained on the release",
    explanation="An attack that takes rows that a model trained on the release fits well for "
    "private ones. " + _AREA,
    baseline="the blind classifier for the loss",
)

LIRA_AUC = Metric(
    key="lira_auc",
    group="attack",
    name="LiRA, AUC",
    explanation="An attack that compares with models trained with and without the row. " + _AREA,
    better="lower",
)

RELEASE_ATTACKS: Mapping[str, tuple[Metric, ReleaseAttack]] = {
    metric.subject: (metric, attack)
    for metric, attack in (
        (DISTANCE_AUC, lambda rows, release, reference: by_distance(rows, release)),
        (CALIBRATED_DISTANCE_AUC, by_calibrated_distance),
        (DENSITY_RATIO_AUC, by_density_ratio),
    )
}
"""The quick attacks on a release, by name."""


Trained = Callable[[NDArray[Any]], Vector]
"""What a training gives: rows to class probabilities, (n, classes)."""

Trainer = Callable[[NDArray[Any], Labels, int], Trained]
"""Trains on rows and labels with a seed."""


def by_loss(model: Trained, rows: NDArray[Any], labels: Labels) -> Vector:
    """Minus the loss of a model on each row (Yeom et al. 2018): members are fitted better."""
    probabilities = model(rows)[np.arange(len(rows)), labels]
    return np.asarray(np.log(np.maximum(probabilities, 1e-12)), dtype=np.float64)


def confidence(model: Trained, rows: NDArray[Any], labels: Labels) -> Vector:
    """log(p / (1 - p)) of each row's class: near to normal over models (Carlini et al. 2022)."""
    p = np.clip(model(rows)[np.arange(len(rows)), labels].astype(np.float64), 1e-9, 1 - 1e-9)
    return np.asarray(np.log(p) - np.log1p(-p))


def likelihood_ratios(target: Vector, inside: NDArray[np.bool_], confidences: Vector) -> Vector:
    """LiRA, online: log likelihood of a model's confidences inside over outside: (n,).

    Args:
        target: (n,) what `confidence` says of the model under attack.
        inside: (models, n) whether a row was in another model's training.
        confidences: (models, n) what `confidence` says of the other models.
    """
    likelihoods = []
    for side in (inside, ~inside):
        count = np.maximum(side.sum(axis=0), 1)
        mean = (confidences * side).sum(axis=0) / count
        # One variance for all rows: few models do not give one a row (paper, section VI.A).
        spread = np.sqrt(((confidences - mean) ** 2 * side).sum() / max(1, side.sum() - len(mean)))
        likelihoods.append(scipy.stats.norm.logpdf(target, mean, max(spread, 1e-6)))
    return np.asarray(likelihoods[0] - likelihoods[1])


@dataclass(frozen=True, slots=True)
class Shadows:
    """Models trained on random halves of a set of rows, and what each says of every row.

    Attributes:
        inside: (models, n) whether a row was in a model's half.
        confidences: (models, n) what `confidence` says.
    """

    inside: NDArray[np.bool_]
    confidences: Vector

    @classmethod
    def train(
        cls,
        trainer: Trainer,
        rows: NDArray[Any],
        labels: Labels,
        *,
        models: int = 16,
        seed: int = 0,
        progress: Callable[[int], None] | None = None,
    ) -> Shadows:
        """Train them two by two, on a random half and on the other half.

        So every row is inside exactly half of them.

        Raises:
            InputError: Fewer than four models, or an odd number.
        """
        if models < 4 or models % 2:
            raise InputError(f"LiRA needs four shadow models or more, by pairs, found {models}")
        rng = np.random.default_rng(seed)
        halves = rng.random((models // 2, len(rows))) < 0.5
        inside = np.stack([halves, ~halves], axis=1).reshape(models, len(rows))
        confidences = np.empty((models, len(rows)))
        for at in range(models):
            model = trainer(rows[inside[at]], labels[inside[at]], seed + 1 + at)
            confidences[at] = confidence(model, rows, labels)
            if progress is not None:
                progress(1)
        return cls(inside, confidences)

    def score(self, target: Vector, *, leave_out: int | None = None) -> Vector:
        """LiRA, online: log likelihood of a target's confidences inside over outside.

        Args:
            target: (n,) what `confidence` says of the model under attack.
            leave_out: The shadow model that is the one under attack, which must not be asked. Nor
                is its twin on the other half: else each row would have one model fewer on the
                side where it is, and that alone would tell.
        """
        use = np.ones(len(self.inside), dtype=np.bool_)
        if leave_out is not None:
            use[[leave_out, leave_out ^ 1]] = False
        return likelihood_ratios(target, self.inside[use], self.confidences[use])

    def attack(self, models: Sequence[int] | None = None) -> Roc:
        """Each shadow model in turn is the one under attack; all their scores in one curve.

        A row is scored once for each model, so the area's interval takes rows as they come.
        """
        targets = np.arange(len(self.inside)) if models is None else np.asarray(models)
        scores = np.stack(
            [self.score(self.confidences[at], leave_out=at) for at in targets.tolist()]
        )
        inside, row = (
            self.inside[targets],
            np.broadcast_to(np.arange(scores.shape[1]), scores.shape),
        )
        area = area_by_groups(scores[inside], scores[~inside], row[inside], row[~inside])
        return replace(roc(scores[inside], scores[~inside]), auc=area)
