"""Every benchmark can be started."""

import pytest
from benchmarks.__main__ import NAMES, Chosen


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_imports_what_there_is(name: str) -> None:
    assert callable(Chosen(name).module.main)
