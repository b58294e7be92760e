"""Rows whose leading directions are made shorter, so that no few numbers fill the norm of a row.

What is clipped to a norm, and gets noise in proportion to it, is better measured where that norm is
spread over many directions: of real embeddings, a few carry most of the length and little of what
tells classes apart. Whitening would go too far, since in the last directions there is noise alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from understudy.core.independence import Projection
from understudy.core.types import Vector

_DIRECTIONS = 64  # at most; the others stay as they are
_POWER = 0.25  # of a direction's second moment, by which it is divided
_FLOOR = 0.1  # of the mean second moment, added to each


@dataclass(frozen=True)
class Shortening:
    """Divides leading directions by a power of their second moments, over that of the next one.

    Attributes:
        onto: From rows (n, D) to what is taken off them: (n, k).
        back: From there to rows.
    """

    onto: Projection
    back: Projection

    @classmethod
    def of(cls, rows: Vector) -> Shortening:
        """The one that fits to rows about zero: (n, D)."""
        dim = rows.shape[1]
        first = max(0, dim - _DIRECTIONS - 1)  # the leading directions come last
        moments, axes = scipy.linalg.eigh(
            rows.T @ rows / len(rows), subset_by_index=[first, dim - 1]
        )
        floor = _FLOOR * float(np.square(rows).sum(axis=1).mean()) / dim
        raised = np.maximum(moments, 0.0) + max(floor, 1e-12)
        factors = (raised[0] / raised) ** _POWER
        return cls(Projection(axes * (1.0 - factors)), Projection(axes.T))

    def __call__(self, rows: Vector) -> Vector:
        """Rows (n, D) with those directions shortened, each row by itself to the last bit."""
        return np.asarray(rows - self.back(self.onto(rows)))
