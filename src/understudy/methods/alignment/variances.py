"""Variances of moved rows, aligned with the private ones by DP second moments."""

from __future__ import annotations

import numpy as np

from understudy.core.independence import Projection
from understudy.core.types import Embeddings, Labels, Vector
from understudy.methods import dp_estimators
from understudy.methods.alignment.place import Place
from understudy.privacy.cells import Cells
from understudy.privacy.queries import clip_rows
from understudy.steps import alignment as steps

_SPREAD_AXES = 16  # principal axes along which variances are aligned


def align_variances(
    place: Place, moved: Embeddings, labels: Labels, counts: Vector, clip_radius: float
) -> Embeddings:
    """Beyond the paper: DP variances along the leading axes, about the means just aligned.

    ``clip_radius`` is in usual distances of the moved rows to the mean of their class.
    """
    means = steps.group_means(moved, labels, place.classes)
    axes = place.axes[:, :_SPREAD_AXES]
    scales = np.maximum(((moved - means[labels]) @ axes).std(axis=0), 1e-9)
    turn = axes / scales
    radius = clip_radius * float(np.sqrt(axes.shape[1]))
    cells = Cells((means @ turn)[:, None])
    squares, sd = dp_estimators.squared_moments(
        place.values.view(Projection(turn)), cells, radius, "spread"
    )
    seen = (moved - means[labels]) @ turn
    clipped = clip_rows(seen, radius, np.empty_like(seen))
    synthetic = np.maximum(steps.group_means(clipped**2, labels, place.classes), 1e-6)
    factors = steps.variance_factors(squares / counts[:, None], sd / counts, synthetic, scales**2)
    return steps.stretch(moved, labels, means, axes, factors)
