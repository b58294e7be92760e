"""Every fault that `scripts/plant_faults.py` plants in the private boundary turns a test red."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.minutes
@pytest.mark.slow
def test_every_planted_fault_is_caught(repository: Path) -> None:
    ended = subprocess.run(
        [sys.executable, repository / "scripts" / "plant_faults.py"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert ended.stdout.count("\ncaught ") >= 20


def test_every_planted_fault_fits_the_code_that_it_is_planted_in(repository: Path) -> None:
    """Seconds, so that a change of the boundary takes its fault along."""
    code = (
        "import sys; sys.path.insert(0, 'scripts')\n"
        "from plant_faults import FAULTS, PACKAGE\n"
        "for fault in FAULTS:\n"
        "    text = (PACKAGE / 'privacy' / fault.file).read_text(encoding='utf-8')\n"
        "    assert text.count(fault.right) == 1, fault\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=repository, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize(("word", "code"), [("--help", 0), ("nowhere", 2)])
def test_no_fault_is_planted_where_none_is_named(repository: Path, word: str, code: int) -> None:
    """`--help` was a word that names no fault, and the whole suite ran without one."""
    script = repository / "scripts" / "plant_faults.py"
    ended = subprocess.run(
        [sys.executable, script, word], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == code
    assert "usage:" in ended.stdout + ended.stderr
