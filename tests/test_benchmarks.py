"""Every benchmark can be started."""

import re
from pathlib import Path

import pytest
from benchmarks.__main__ import NAMES, Chosen, parse


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_imports_what_there_is(name: str) -> None:
    assert callable(Chosen(name).module.main)


def test_every_benchmark_is_listed(repository: Path) -> None:
    page = (repository / "benchmarks" / "README.md").read_text(encoding="utf-8")
    entries = re.findall(r"^- (`[^:]+`):", page, re.MULTILINE)
    assert set(NAMES) == {name for entry in entries for name in re.findall(r"`(\w+)`", entry)}


def test_a_list_of_nothing_named_is_that_of_the_benchmarks(capsys: pytest.CaptureFixture) -> None:
    """It ran all of them, for hours."""
    with pytest.raises(SystemExit) as ended:
        parse(["--list"])
    assert ended.value.code == 0
    assert capsys.readouterr().out.split() == list(NAMES)
    assert [one.options for one in parse(["papers", "--list"])] == [{"list_only": True}]
