"""Methods come by entry points, whoever wrote them, and no package takes over another one's."""

from __future__ import annotations

import importlib
import sys
import tomllib
from pathlib import Path

import pytest

import understudy
from understudy.core.errors import ConfigError
from understudy.run import methods as registry
from understudy.run.methods import method, methods

PLUGIN = """
from dataclasses import replace
from understudy.methods.clustering.algorithm import METHOD

METHOD = replace(METHOD, name="mine", summary="a method from outside")
"""


def install(folder: Path, name: str, code: str) -> None:
    """Put a package with a method on ``folder`` as pip would: a module and its dist-info."""
    (folder / "toy_method.py").write_text(code)
    info = folder / "toy_method-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy_method\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{registry.GROUP}]\n{name} = toy_method:METHOD\n")
    importlib.invalidate_caches()  # the folder may have been listed within the clock's last tick


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "toy_method", raising=False)
    return tmp_path


def test_a_method_from_outside_needs_no_change_here(site: Path) -> None:
    install(site, "mine", PLUGIN)
    assert list(methods()) == ["alignment", "clustering", "evolution", "mine"]
    assert isinstance(method("mine"), understudy.Method)
    assert method("mine").summary == "a method from outside"


def test_a_method_cannot_take_over_a_name(site: Path) -> None:
    install(site, "clustering", PLUGIN)
    with pytest.raises(ConfigError, match=r"'clustering' is registered more than once.*toy_method"):
        method("clustering")
    assert method("evolution").name == "evolution"


@pytest.mark.parametrize(
    ("name", "code", "words"),
    [
        ("mine", "raise RuntimeError('no such chip')", "cannot be loaded: RuntimeError: no such"),
        ("mine", "METHOD = 3", "is no understudy.Method, found a value of type int"),
        ("yours", PLUGIN, "calls itself 'mine': give the entry point that name"),
    ],
)
def test_what_an_entry_point_gives_is_checked(site: Path, name: str, code: str, words: str) -> None:
    install(site, name, code)
    with pytest.raises(ConfigError, match=words):
        method(name)


def test_an_unknown_method_is_told_the_nearest() -> None:
    with pytest.raises(ConfigError, match=r"unknown method 'clusterin'.*'clustering'"):
        method("clusterin")


def test_the_project_declares_its_own_methods(repository: Path) -> None:
    """The entry points that an installation registers are the ones a source tree falls back on."""
    declared = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))
    assert declared["project"]["entry-points"][registry.GROUP] == registry.BUILT_IN
