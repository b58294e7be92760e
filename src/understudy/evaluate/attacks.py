"""Attacks on a release: was this row in the private data? Scores, higher for members.

Each attack is given candidates, some of which were in the private data, and says how likely each
was. `understudy.evaluate.roc` says how well it told them apart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from understudy.core.errors import InputError
from understudy.core.types import Labels, Vector
from understudy.evaluate.neighbours import clouds, nearest
from understudy.evaluate.roc import Roc, roc

_DENSITY_DIMS = 8
_DENSITY_ROWS = 4000


def by_distance(candidates: NDArray[Any], release: NDArray[Any]) -> Vector:
    """Minus the distance to the nearest synthetic row (Chen et al. 2020, GAN-Leaks, black box).

    Args:
        candidates: (n, d) embeddings, or flattened images.
        release: (m, d) of the release.
    """
    asked, rows = clouds(candidates, release)
    return -nearest(asked, rows)[1][:, 0]


def by_calibrated_distance(
    candidates: NDArray[Any], release: NDArray[Any], reference: NDArray[Any]
) -> Vector:
    """How much nearer the release is than a reference set drawn like the candidates.

    Rows in dense places are near everything; the reference takes that out (GAN-Leaks, calibrated).

    Args:
        candidates: (n, d).
        release: (m, d).
        reference: (r, d) real rows that were not in the private data.
    """
    return by_distance(candidates, release) - by_distance(candidates, reference)


def by_density_ratio(
    candidates: NDArray[Any],
    release: NDArray[Any],
    reference: NDArray[Any],
    *,
    dims: int = _DENSITY_DIMS,
    seed: int = 0,
) -> Vector:
    """Log of the density of the release over that of the reference (DOMIAS, van Breugel 2023).

    Both densities are Gaussian kernel estimates on the first principal axes of the reference.

    Args:
        candidates: (n, d).
        release: (m, d).
        reference: (r, d) real rows that were not in the private data.
        dims: Principal axes: kernel estimates need few.
        seed: Of the choice of rows where there are more than 4,000.

    Raises:
        InputError: Not more rows than axes.
    """
    dims = min(dims, candidates.shape[1])
    for name, rows in (("the release", release), ("the reference", reference)):
        if len(rows) <= dims:
            raise InputError(f"{name} has {len(rows)} rows; a density of {dims} axes needs more")
    centre = reference.mean(axis=0, dtype=np.float64)
    _, spread, axes = np.linalg.svd(
        _some(reference, _DENSITY_ROWS, seed) - centre, full_matrices=False
    )
    scale = np.maximum(spread[:dims], spread[0] * 1e-6)
    frame = (axes[:dims] / scale[:, None]).T
    densities = [
        stats.gaussian_kde(((_some(rows, _DENSITY_ROWS, seed) - centre) @ frame).T)
        for rows in (release, reference)
    ]
    points = ((candidates - centre) @ frame).T
    over, under = (density.logpdf(points) for density in densities)
    return np.asarray(over - under, dtype=np.float64)


def _some(rows: NDArray[Any], most: int, seed: int) -> NDArray[Any]:
    if len(rows) <= most:
        return rows
    return rows[np.sort(np.random.default_rng(seed).choice(len(rows), most, replace=False))]


Trained = Callable[[NDArray[Any]], Vector]
"""What a training gives: rows to class probabilities, (n, classes)."""

Trainer = Callable[[NDArray[Any], Labels, int], Trained]
"""Trains on rows and labels with a seed."""


def by_loss(model: Trained, rows: NDArray[Any], labels: Labels) -> Vector:
    """Minus the loss of a model on each row (Yeom et al. 2018): members are fitted better."""
    chosen = model(rows)[np.arange(len(rows)), labels]
    return np.asarray(np.log(np.maximum(chosen, 1e-12)), dtype=np.float64)


def confidence(model: Trained, rows: NDArray[Any], labels: Labels) -> Vector:
    """log(p / (1 - p)) of each row's class: near to normal over models (Carlini et al. 2022)."""
    p = np.clip(model(rows)[np.arange(len(rows)), labels].astype(np.float64), 1e-9, 1 - 1e-9)
    return np.asarray(np.log(p) - np.log1p(-p))


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
        """Train them; every row is inside exactly half of them, chosen at random.

        Raises:
            InputError: Fewer than four models.
        """
        if models < 4:
            raise InputError(f"LiRA needs four shadow models or more, found {models}")
        rng = np.random.default_rng(seed)
        order = rng.random((models, len(rows))).argsort(axis=0)
        inside = order < models // 2
        found = np.empty((models, len(rows)))
        for at in range(models):
            model = trainer(rows[inside[at]], labels[inside[at]], seed + 1 + at)
            found[at] = confidence(model, rows, labels)
            if progress is not None:
                progress(1)
        return cls(inside, found)

    def score(self, target: Vector, *, leave_out: int | None = None) -> Vector:
        """LiRA, online: log likelihood of a target's confidences inside over outside.

        Args:
            target: (n,) what `confidence` says of the model under attack.
            leave_out: The shadow model that is the one under attack, which must not be asked.
        """
        use = np.ones(len(self.inside), dtype=np.bool_)
        if leave_out is not None:
            use[leave_out] = False
        inside, found = self.inside[use], self.confidences[use]
        likelihoods = []
        for side in (inside, ~inside):
            count = np.maximum(side.sum(axis=0), 1)
            mean = (found * side).sum(axis=0) / count
            # One variance for all rows: few models do not give one a row (paper, section VI.A).
            spread = np.sqrt(((found - mean) ** 2 * side).sum() / max(1, side.sum() - len(mean)))
            likelihoods.append(stats.norm.logpdf(target, mean, max(spread, 1e-6)))
        return np.asarray(likelihoods[0] - likelihoods[1])

    def attack(self, models: Sequence[int] | None = None) -> Roc:
        """Each shadow model in turn is the one under attack; all their scores in one curve."""
        members, others = [], []
        for at in range(len(self.inside)) if models is None else models:
            scores = self.score(self.confidences[at], leave_out=at)
            members.append(scores[self.inside[at]])
            others.append(scores[~self.inside[at]])
        return roc(np.concatenate(members), np.concatenate(others))
