"""The curve grows where there is more to learn, and says what it trained on."""

from __future__ import annotations

import numpy as np
import pytest

from understudy.metrics.sample_size import accuracy_by_size
from understudy.metrics.utility import Labelled


def cloud(n: int, seed: int, spread: float = 3.0) -> Labelled:
    corners = np.random.default_rng(50).choice([-2.0, 2.0], (3, 10))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = corners[y] + spread * rng.normal(size=(n, 10))
    return Labelled(x.astype(np.float32), y, ("cat", "dog", "eel"))


def test_more_rows_are_better() -> None:
    curve = accuracy_by_size(
        cloud(1600, 1),
        cloud(2000, 2),
        network="two-layer",
        sizes=(1600, 10, 40),
        seeds=(0, 1, 2),
        epochs=6,
    )
    assert curve.sizes == (10, 40, 1600)
    assert curve.means[0] + 0.05 < curve.means[1] + 0.02 < curve.means[2]
    assert [[one.n_train for one in each] for each in curve.results] == [
        [10] * 3,
        [40] * 3,
        [1600] * 3,
    ]
    assert curve.spreads[0] > 0
    accuracies = [one.balanced for one in curve.results[0]]
    assert curve.spreads[0] == pytest.approx(np.std(accuracies, ddof=1))
