"""Methods of this package and of others, found by the names that they register."""

import re
import sys
from pathlib import Path

import pytest
from tests.plugin_packages import install
from tests.run.samples import embeddings

import understudy
from understudy.core.entry_points import BUILT_IN, METHODS
from understudy.core.errors import ConfigError
from understudy.run.methods import broken_methods, method, methods

MODULE = """
from dataclasses import replace
from understudy.methods.clustering.algorithm import METHOD as clustering

mine = replace(clustering, name="mine")
number = 3
"""


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "mine_module", raising=False)
    return tmp_path


def register(site: Path, name: str, value: str, package: str = "mine-package") -> None:
    install(site, package, {"mine_module": MODULE}, {METHODS: {name: value}})


def test_a_method_of_another_package_stands_beside_the_built_in_ones(site: Path) -> None:
    register(site, "mine", "mine_module:mine")
    assert list(methods()) == sorted([*BUILT_IN[METHODS], "mine"])
    assert method("mine").name == "mine"


def test_a_name_clash_is_refused_and_names_both_packages(site: Path) -> None:
    register(site, "clustering", "mine_module:mine")
    with pytest.raises(ConfigError, match=r"mine-package \(mine_module:mine\) and understudy \("):
        method("clustering")
    with pytest.raises(ConfigError, match="more than once"):
        methods()
    assert method("alignment").name == "alignment"


def test_two_packages_from_outside_may_not_share_a_name_either(site: Path) -> None:
    register(site, "mine", "mine_module:mine")
    register(site, "mine", "mine_module:mine", package="other-package")
    with pytest.raises(ConfigError, match=r"mine-package \(.*\) and other-package \("):
        method("mine")


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("mine", "mine_module:missing", "mine-package.*cannot be loaded: AttributeError"),
        ("mine", "no_such_module:mine", "mine-package.*cannot be loaded: ModuleNotFoundError"),
        ("mine", "mine_module:number", "is a int, no Method"),
        ("yours", "mine_module:mine", "registers the method 'mine' under the name 'yours'"),
    ],
)
def test_what_is_no_method_is_named(site: Path, name: str, value: str, message: str) -> None:
    register(site, name, value)
    with pytest.raises(ConfigError, match=message):
        method(name)
    assert list(methods()) == sorted(BUILT_IN[METHODS])  # the others work
    (fault,) = broken_methods()
    assert re.search(message, fault)
    source = embeddings(site / "vectors.npz")
    plan = understudy.plan(source, epsilon=1.0, progress="none")
    assert fault in [fact.value for fact in plan.facts]
    assert plan.plan is not None
