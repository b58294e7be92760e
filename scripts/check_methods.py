"""Checks that no module outside of `understudy.methods` knows a method or one of its parameters.

A planning, a run or a report asks a `Method`; what it would know by name, a plug-in could not have.
"""

from __future__ import annotations

import ast
import dataclasses
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "understudy"

ALLOWED = {
    "core/entry_points.py": "the table of entry points, as in pyproject.toml",
    "device": "the owner's side of sanitize, a method of two machines",
    "server": "the other side of it",
    "release/checksums.py": "signatures are those of sanitize's wire",
    "studio/pose_distillation.py": "a pose estimator learns what sanitize shows it",
}
"""Files and folders that may, and why."""


@cache
def method_names() -> frozenset[str]:
    packages = (path.parent.name for path in (PACKAGE / "methods").glob("*/__init__.py"))
    return frozenset(packages)


@cache
def parameters() -> frozenset[str]:
    from understudy.run.methods import methods

    return frozenset(
        field.name for method in methods().values() for field in dataclasses.fields(method.params)
    )


def docstrings(tree: ast.Module) -> set[int]:
    """The ids of the nodes that are documentation."""
    return {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }


def imported(node: ast.Import | ast.ImportFrom) -> set[str]:
    """The methods that a statement imports something of."""
    base = ""
    if isinstance(node, ast.ImportFrom):
        base = "understudy." if node.level else ""  # wherever a relative import begins
        base += f"{node.module}." if node.module else ""
    return {name for one in node.names for name in named_packages(f"{base}{one.name}")}


def named_packages(text: str) -> list[str]:
    """The methods whose packages a text names, as an import or an entry point does."""
    return re.findall(rf"\bunderstudy\.methods\.({'|'.join(sorted(method_names()))})\b", text)


def of_parameters(node: ast.AST) -> bool:
    """Whether an expression is a method's parameters, by its name."""
    return getattr(node, "attr", getattr(node, "id", "")) == "params"


def parts_of(call: ast.Call) -> list[ast.AST]:
    """What a call is of: its arguments, and those of a call that it is a method of."""
    inner = getattr(call.func, "value", None)
    return [*call.args, *(inner.args if isinstance(inner, ast.Call) else [])]


def known_of(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and what a module knows of a method."""
    names = "|".join(sorted(method_names()))
    fields = "|".join(sorted(parameters()))
    typed = re.compile(rf"(--method|method=) ?({names})\b|--set '?({fields})=")
    documentation = docstrings(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((node.lineno, f"imports {name}") for name in imported(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            if id(node) in documentation:
                continue
            named = node.value in method_names() or named_packages(node.value)
            if named or typed.search(node.value):
                yield node.lineno, f"names {node.value!r}"
        elif isinstance(node, ast.Attribute) and node.attr in parameters():
            if of_parameters(node.value):
                yield node.lineno, f"reads the parameter {node.attr}"
        elif isinstance(node, ast.Subscript) and of_parameters(node.value):
            if getattr(node.slice, "value", None) in parameters():
                yield node.lineno, f"reads a parameter: {ast.unparse(node)}"
        elif isinstance(node, ast.Call) and any(map(of_parameters, parts_of(node))):
            values = [one.value for one in node.args if isinstance(one, ast.Constant)]
            if set(values) & parameters():
                yield node.lineno, f"reads a parameter: {ast.unparse(node)}"


def faults(sources: Iterable[Path] | None = None) -> list[str]:
    """What modules know of methods, a line each."""
    wrong = []
    for path in sources or sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix() if path.is_relative_to(PACKAGE) else path.name
        if place.startswith("methods/"):
            continue
        if any(place == one or place.startswith(f"{one}/") for one in ALLOWED):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        wrong += [f"{place}:{line}: {what}" for line, what in known_of(tree)]
    return wrong


if __name__ == "__main__":
    found = faults()
    print("\n".join(found) or "no module outside of methods/ knows a method")
    sys.exit(bool(found))
