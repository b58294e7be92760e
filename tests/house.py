"""What `test_house` counts: names, basenames, modules and who imports them."""

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "understudy"
SOURCES = sorted(PACKAGE.rglob("*.py"))

SHARED_BASENAMES = {"__init__", "base", "algorithm", "arithmetic"}
SHARED_NAMES = {
    "METHOD": "what the entry point of a method names",
    "backend": "what the entry point of a backend names",
    "main": "what a script begins with",
}
"""Public names that may be defined twice, and why; type variables and commands of the command
line, which are called what they call, may be too."""

SHORT_MODULES = {"understudy.engine.local": "a port: where a map over images runs"}
"""Modules of one importer under `SHORT` lines, and why they stand by themselves."""

SHORT = 60

DENIED = frozenset(
    {
        *("told", "found", "seen", "made", "kept", "joined", "turn", "beside", "entering"),
        *("spots", "reach", "Alphabet", "Nature", "Entered", "Entry", "Place"),
        *("picture", "pictures", "Picture", "stranger", "strangers", "promise"),
        *("grain", "cue", "whoever", "somebody", "nobody"),
        *("known", "chosen", "drawn", "wanted"),
    }
)
"""The left column of the vocabulary: names that say when a thing appeared, or another field's."""


@cache
def tree_of(path: Path) -> ast.Module:
    """The syntax tree of a module; parsing all of them takes seconds."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def walked(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Every node of a module's tree."""
    return tuple(ast.walk(tree))


def trees() -> tuple[tuple[Path, ast.Module], ...]:
    """Every module of the package with its syntax tree."""
    return tuple((path, tree_of(path)) for path in SOURCES)


def module_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts).removesuffix(".__init__")


def _is_type_variable(node: ast.Assign) -> bool:
    call = node.value
    return isinstance(call, ast.Call) and getattr(call.func, "id", "") in ("TypeVar", "ParamSpec")


def _is_command(node: ast.AST) -> bool:
    return any(
        isinstance(one, ast.Call) and getattr(one.func, "attr", "") in ("command", "callback")
        for one in getattr(node, "decorator_list", [])
    )


def defined_names(tree: ast.Module) -> set[str]:
    """The public functions, classes and constants of a module."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names |= set() if _is_command(node) else {node.name}
        elif isinstance(node, ast.Assign) and not _is_type_variable(node):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {name for name in names if not name.startswith("_") and name not in SHARED_NAMES}


def repeated_names() -> dict[str, list[str]]:
    """Public names that more than one module defines, and the modules."""
    owners: dict[str, list[str]] = {}
    for path, tree in trees():
        for name in defined_names(tree):
            owners.setdefault(name, []).append(module_of(path))
    return {name: modules for name, modules in sorted(owners.items()) if len(modules) > 1}


def identifiers(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Line and name of every function, class, argument and variable."""
    for node in walked(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.lineno, node.name
        elif isinstance(node, ast.arg):
            yield node.lineno, node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.lineno, node.id


def denied_identifiers() -> list[str]:
    """Where names of the deny list stand, and the names."""
    return [
        f"{path.relative_to(ROOT)}:{line} {name}"
        for path, tree in trees()
        for line, name in identifiers(tree)
        if name.strip("_") in DENIED
    ]


def importers() -> dict[str, set[str]]:
    """The modules of this package that import each module of it."""
    modules = {module_of(path) for path in SOURCES}
    found_by: dict[str, set[str]] = {module: set() for module in modules}
    for path, tree in trees():
        for node in walked(tree):
            names: list[str] = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{one.name}" for one in node.names)]
            elif isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            for name in names:
                if name in modules and name != module_of(path):
                    found_by[name].add(module_of(path))
    return found_by


def repeated_basenames() -> dict[str, int]:
    counts = Counter(path.stem for path in SOURCES)
    return {name: n for name, n in counts.items() if n > 1 and name not in SHARED_BASENAMES}
