"""Every benchmark can be started."""

import re
from pathlib import Path

import pytest
from benchmarks.__main__ import NAMES, Chosen


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_imports_what_there_is(name: str) -> None:
    assert callable(Chosen(name).module.main)


def test_every_benchmark_is_listed(repository: Path) -> None:
    page = (repository / "benchmarks" / "README.md").read_text(encoding="utf-8")
    entries = re.findall(r"^- (`[^:]+`):", page, re.MULTILINE)
    assert set(NAMES) == {name for entry in entries for name in re.findall(r"`(\w+)`", entry)}
