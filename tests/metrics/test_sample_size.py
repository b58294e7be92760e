"""The curve grows where there is more to learn, and says what it trained on."""

import pytest
from tests.metrics.test_utility import cloud

from understudy.core.errors import InputError
from understudy.metrics.sample_size import accuracy_by_size


def test_more_rows_are_better() -> None:
    sizes = (10, 40, 1600)
    results = accuracy_by_size(
        cloud(1600, 1, spread=3.0),
        cloud(2000, 2, spread=3.0),
        network="two-layer",
        sizes=sizes,
        epochs=6,
    )
    least, middle, most = (one.balanced for one in results)
    assert least + 0.05 < middle + 0.01 < most


@pytest.mark.parametrize("sizes", [(), (0, 5), (5, 21)])
def test_parts_that_there_are_not_are_refused(sizes: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match="in 1 to 20"):
        accuracy_by_size(cloud(20, 1), cloud(20, 2), network="two-layer", sizes=sizes)
