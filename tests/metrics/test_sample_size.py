"""The curve grows where there is more to learn, and says what it trained on."""

import numpy as np
import pytest

from understudy.core.errors import InputError
from understudy.metrics.sample_size import accuracy_by_size
from understudy.metrics.utility import Labelled


def cloud(n: int, seed: int, spread: float = 3.0) -> Labelled:
    corners = np.random.default_rng(50).choice([-2.0, 2.0], (3, 10))
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    x = corners[y] + spread * rng.normal(size=(n, 10))
    return Labelled(x.astype(np.float32), y, ("cat", "dog", "eel"))


def test_more_rows_are_better() -> None:
    sizes = (10, 40, 1600)
    results = accuracy_by_size(
        cloud(1600, 1), cloud(2000, 2), network="two-layer", sizes=sizes, epochs=6
    )
    assert tuple(one.n_train for one in results) == sizes
    least, middle, most = (one.balanced for one in results)
    assert least + 0.05 < middle + 0.02 < most


@pytest.mark.parametrize("sizes", [(), (0, 5), (5, 21)])
def test_parts_that_there_are_not_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="in 1 to 20"):
        accuracy_by_size(cloud(20, 1), cloud(20, 2), network="two-layer", sizes=sizes)
