"""The house rules that no linter knows: sizes, names, what the core may import, honest tests."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from importlinter.cli import EXIT_STATUS_SUCCESS
from scripts import check_methods

import understudy
from tests import house
from tests.house import PACKAGE, ROOT, SOURCES

TESTS = sorted((ROOT / "tests").rglob("test_*.py"))
SUITES = sorted((PACKAGE / "testing").glob("*_suite*.py"))
WRITTEN = sorted(
    path
    for folder in ("src", "tests", "benchmarks", "scripts", "docs", ".ci")
    for path in (ROOT / folder).rglob("*")
    if path.suffix in {".py", ".md", ".sh", ".yaml", ".toml", ".html", ""} and path.is_file()
) + [path for path in ROOT.iterdir() if path.suffix in {".md", ".toml", ".txt"}]

MODULE_LINES, FUNCTION_LINES = 500, 60
CHECKS = re.compile(r"^(assert|check|expect)_?|^(raises|warns|fail|missing)$")
# Somebody's disk: the folders that programs themselves use (/usr, /etc, /dev, /proc) are fine.
MACHINE_PATH = re.compile(r"(?<![\w./<>:~-])/(?:home|root|work|mnt|media|Users)/\w")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(tree: ast.AST) -> Iterator[Function]:
    return (node for node in ast.walk(tree) if isinstance(node, Function))


def lines(path: Path) -> int:
    return len(path.read_text(encoding="utf-8").splitlines())


def test_modules_stay_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines(path) for path in SOURCES if lines(path) >= MODULE_LINES
    }
    assert not long


def test_functions_stay_short() -> None:
    long = {
        f"{path.relative_to(ROOT)}:{function.name}": length(function)
        for path, tree in house.trees()
        for function in functions(tree)
        if length(function) >= FUNCTION_LINES
    }
    assert not long


def length(function: Function) -> int:
    """Lines of a function; of the public API those of its body, for every option is written out."""
    public = function.name in understudy.__all__ and ast.get_docstring(function)
    first = function.body[1].lineno if public and function.body[1:] else function.lineno
    return (function.end_lineno or first) - first + 1


def test_a_basename_is_unique() -> None:
    assert not house.repeated_basenames()


def test_a_public_name_is_defined_once() -> None:
    assert not house.repeated_names()


def test_names_are_nouns_of_the_field() -> None:
    assert not house.denied_identifiers()


def test_a_module_of_one_importer_is_no_fragment() -> None:
    importers = house.importers()
    fragments = [
        house.module_of(path)
        for path in SOURCES
        if path.stem != "__init__"
        and lines(path) < house.SHORT
        and len(importers[house.module_of(path)]) == 1
        and house.module_of(path) not in house.SHORT_MODULES
    ]
    assert not fragments


def test_every_exception_to_the_rules_is_still_needed() -> None:
    for module in house.SHORT_MODULES:
        path = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
        assert lines(path) < house.SHORT
    names = {name for _, tree in house.trees() for _, name in house.identifiers(tree)}
    assert set(house.SHARED_NAMES) <= names


def test_no_path_of_one_machine() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in WRITTEN
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert not found


def test_core_imports_numpy_and_the_standard_library_only() -> None:
    allowed = {*sys.stdlib_module_names, "numpy", "understudy"}
    found = {
        name.split(".")[0]
        for path in (PACKAGE / "core").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    assert found <= allowed


def test_no_assert_guards_input() -> None:
    """The conformance suites are tests, and assert like tests."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in house.trees()
        if PACKAGE / "testing" not in path.parents
        for node in house.walked(tree)
        if isinstance(node, ast.Assert)
    ]
    assert not found


def test_no_bare_or_blanket_except_in_the_private_boundary() -> None:
    """Defect 4 of the field: an ``except`` around the noise that returns the clean value."""
    found = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path, tree in house.trees()
        for node in house.walked(tree)
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ("privacy" in path.parts and "Exception" in _names(node.type)))
    ]
    assert not found


def _names(node: ast.AST) -> set[str]:
    return {child.id for child in ast.walk(node) if isinstance(child, ast.Name)}


def checks(function: Function) -> bool:
    """Whether a test can fail: an assert, ``pytest.raises`` or a call of a check by its name."""
    for node in ast.walk(function):
        if isinstance(node, ast.Assert | ast.Raise):
            return True
        if isinstance(node, ast.Call):
            callee = node.func
            name = callee.attr if isinstance(callee, ast.Attribute) else getattr(callee, "id", "")
            if CHECKS.match(name):
                return True
    return False


def test_every_test_can_fail() -> None:
    idle = [
        f"{path.stem}: {function.name}"
        for path in (*TESTS, *SUITES)
        for function in functions(ast.parse(path.read_text(encoding="utf-8")))
        if function.name.startswith("test_") and not checks(function)
    ]
    assert not idle


PLANTED = {
    "from understudy.methods.clustering.capacity import about": "imports",
    "import understudy.methods.evolution.algorithm": "imports",
    "def labels(prepared):\n    return prepared.params.labels": "reads",
    "def one(params):\n    return getattr(params, 'filter', 'none')": "reads",
    "def one(params):\n    return vars(params).get('labels')": "reads",
    "def one(params):\n    return params['labels']": "reads",
    "from ..methods.evolution import params": "imports",
    "from ..methods import evolution": "imports",
    "MODULE = 'understudy.methods.evolution.params'": "names",
    "WORDS = 'take --method alignment'": "names",
    "METHOD = 'evolution'": "names",
}


@pytest.mark.parametrize("code", PLANTED)
def test_a_module_that_knows_a_method_fails_lint(code: str, tmp_path: Path) -> None:
    planted = tmp_path / "planted.py"
    planted.write_text(code)
    (fault,) = check_methods.faults([planted])
    assert PLANTED[code] in fault


def test_no_module_outside_of_methods_knows_a_method() -> None:
    assert not check_methods.faults()
    assert "scripts/check_methods.py" in (ROOT / "Makefile").read_text().partition("\nlint:")[2]
    for place in check_methods.ALLOWED:
        assert (PACKAGE / place).exists()


def test_the_layers_hold() -> None:
    # In a process of its own: it sets up logging anew and silences the loggers of other tests.
    script = "import sys, importlinter.cli as cli; sys.exit(cli.lint_imports(no_cache=True))"
    linted = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert linted.returncode == EXIT_STATUS_SUCCESS, linted.stdout + linted.stderr
