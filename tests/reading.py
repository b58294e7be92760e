"""Why a command line or a snippet of the documents would fail, asked of the program itself."""

import ast
import contextlib
import dataclasses
import functools
import importlib
import importlib.util
import inspect
import io
import re
import typing
from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer

import understudy
from tests.conftest import REPOSITORY
from tests.documents import Command, Snippet
from understudy.backends.registry import backends
from understudy.cli.main import app
from understudy.core.entry_points import BACKENDS, BUILT_IN
from understudy.core.errors import UnderstudyError
from understudy.core.roles import MODEL_ROLES, ROLES
from understudy.run.config import make_config, make_params
from understudy.run.methods import method

PROGRAM = typer.main.get_command(app)
NUMBERS = {"E", "N", "K", "SEED"}
"""Words of the documents that stand for a number."""

MODELS = (*MODEL_ROLES, "model", "features")
"""Options that name a model."""


def problem_of_command(command: Command) -> str | None:
    """Why it would fail before it did anything; None where it would not."""
    program, *arguments = command.words
    if program.startswith("--"):
        return _mention_of_option(list(command.words))
    checks: dict[str, Callable[[list[str], bool], str | None]] = {
        "understudy": _understudy,
        "make": _make,
        "python": _python,
    }
    check = checks.get(Path(program).name)
    return check(arguments, command.whole) if check else None


def _understudy(arguments: list[str], whole: bool) -> str | None:
    command: Any = PROGRAM
    context = command.context_class(command, info_name="understudy")
    arguments = ["1" if one in NUMBERS else one for one in arguments]
    while hasattr(command, "commands"):
        if not arguments:
            return None
        if command.invoke_without_command and arguments[0].startswith("-"):
            break  # the options of a group that is a command by itself, such as serve
        name = arguments.pop(0)
        child = command.get_command(context, name)
        if child is None:
            return f"there is no command {name}; there are {', '.join(command.commands)}"
        command, context = child, child.context_class(child, parent=context, info_name=name)
    read = _whole if whole else _part
    return refusal_of(lambda: _wrong_values(command.name, read(command, arguments, context)))


def refusal_of(call: Callable[[], str | None]) -> str | None:
    """What a call returns, or the message of the program, or of its parser, that refuses it."""
    try:
        return call()
    except UnderstudyError as error:
        return str(error)
    except Exception as error:  # click's own, whichever package they come from
        if not hasattr(error, "format_message"):
            raise
        return str(error.format_message())


def _whole(command: Any, arguments: list[str], context: Any) -> dict[str, Any]:
    """The options of a command that is to be typed as it stands."""
    with contextlib.redirect_stdout(io.StringIO()):
        made = command.make_context(command.name, list(arguments), parent=context.parent)
    return {name: value for name, value in made.params.items() if value is not None}


def _part(command: Any, arguments: list[str], context: Any) -> dict[str, Any]:
    """The options of inline code: any may be missing, and the last may have no value."""
    options = {name: one for one in command.params for name in one.opts}
    last = options.get(arguments[-1]) if arguments else None
    if last is not None and not getattr(last, "is_flag", False):
        arguments = arguments[:-1]
    values, left, _ = command.make_parser(context).parse_args(list(arguments))
    if left and left[0] not in getattr(command, "commands", ()):  # of `serve`, after its options
        context.fail(f"Got unexpected extra arguments ({' '.join(left)})")
    try:
        return _whole(command, arguments, context)
    except Exception as error:  # click's own, whichever package they come from
        if type(error).__name__ != "MissingParameter":
            raise
    return {key: value for key, value in values.items() if isinstance(value, str | list | bool)}


def _wrong_values(name: str, values: dict[str, Any]) -> str | None:
    """A model whose backend does not exist; a method or a setting that there is not."""
    for option, model in values.items():
        if (name, option) == ("evaluate", "model"):  # a file
            continue
        if option in MODELS and (problem := _wrong_model(str(model))):
            return problem
    if name != "synthesize" or "config" in values:
        return None
    for of_the_command in ("progress", "yes", "verbose", "as_json", "help_all"):
        values.pop(of_the_command, None)
    settings = dict(pair.split("=", 1) for pair in values.pop("set_", None) or ())
    chosen = {"source": "photos/", "out": "out/", "epsilon": 1.0, **values, "settings": settings}
    config = make_config(chosen)
    make_params(method(config.models.method).params, config.models.settings)
    return None


def _wrong_model(name: str) -> str | None:
    family, colon, _ = name.partition(":")
    if name == "none" or (colon and family in _families()):
        return None
    return f"{name}: there is no backend {family!r}; there are {', '.join(sorted(_families()))}"


@functools.cache
def _families() -> set[str]:
    return {one.name.partition(":")[0] for one in backends()} | set(BUILT_IN[BACKENDS])


def _mention_of_option(words: list[str]) -> str | None:
    """An option by itself in a sentence: some command has it, of the program or of a benchmark."""
    option, value = words[0].partition("=")[0], words[1] if len(words) > 1 else None
    found = [one for one in _options(PROGRAM) if option in (*one.opts, *one.secondary_opts)]
    if not found:
        scripts = [
            *(REPOSITORY / "benchmarks").glob("*.py"),
            *(one for one in (REPOSITORY / "scripts").glob("*") if one.is_file()),
        ]
        if any(f'"{option}"' in file.read_text(encoding="utf-8") for file in scripts):
            return None
        return f"no command has the option {option}"
    return _wrong_model(value) if value and ":" in value and found[0].name in MODELS else None


def _options(command: Any) -> list[Any]:
    children = getattr(command, "commands", {}).values()
    return [*command.params, *(option for child in children for option in _options(child))]


def _make(arguments: list[str], whole: bool) -> str | None:
    text = (REPOSITORY / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][a-z-]*):", text, re.MULTILINE))
    strange = [one for one in arguments if one not in targets]
    return f"the Makefile has no target {', '.join(strange)}" if strange else None


def _python(arguments: list[str], whole: bool) -> str | None:
    if arguments[0] == "-c":
        return problem_of_snippet(Snippet("", arguments[1]))
    if arguments[0] != "-m":
        there = (REPOSITORY / arguments[0]).is_file()
        return None if there else f"there is no file {arguments[0]}"
    module, *rest = arguments[1:]
    if module.partition(".")[0] != "benchmarks":
        return None  # of the standard library, or another project's
    found = importlib.util.find_spec(module)
    if found is None:
        return f"there is no module {module}"
    text = "" if found.origin is None else Path(found.origin).read_text(encoding="utf-8")
    if module != "benchmarks" and "__main__" not in text:
        return f"{module} does nothing by itself: python -m benchmarks {module.partition('.')[2]}"
    try:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            if module == "benchmarks":
                words = [str(REPOSITORY) if one == "FOLDER" else one for one in rest]
                importlib.import_module("benchmarks.__main__").parse(words)
            elif rest:
                made = importlib.import_module(module)
                if not hasattr(made, "parser"):
                    strange = [one for one in rest if one[:2] == "--" and f'"{one}"' not in text]
                    return f"{module} takes no {', '.join(strange)}" if strange else None
                made.parser().parse_args(rest)
    except SystemExit:
        return said.getvalue().strip().splitlines()[-1]
    return None


def problem_of_snippet(snippet: Snippet) -> str | None:
    """Why Python of the documents would not compile or call something as it cannot be called."""
    try:
        tree = ast.parse(snippet.text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    reader = _Reader()
    try:
        for statement in tree.body:
            reader.visit(statement)
    except (AttributeError, ImportError, TypeError) as error:
        return str(error)
    return None


class _Reader(ast.NodeVisitor):
    """Follows names of this package through a snippet, and binds every call of one of them."""

    def __init__(self) -> None:
        self.names: dict[str, Any] = {"understudy": understudy}

    def visit_Import(self, node: ast.Import) -> None:
        for one in node.names:
            if one.name.partition(".")[0] == "understudy":
                self.names[one.asname or "understudy"] = importlib.import_module(one.name)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if (node.module or "").partition(".")[0] == "understudy":
            module = importlib.import_module(node.module or "")
            for one in node.names:
                self.names[one.asname or one.name] = getattr(module, one.name)

    def visit_Assign(self, node: ast.Assign) -> None:
        value = self.value(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                self.names[target.id] = value
        self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.value(node)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.value(node)
        self.generic_visit(node)

    def value(self, node: ast.expr) -> Any:
        """What an expression is, as far as it can be known; of an instance, its class."""
        if isinstance(node, ast.Name):
            return self.names.get(node.id)
        if isinstance(node, ast.Attribute):
            owner = self.value(node.value)
            return None if owner is None else _attribute(owner, node.attr)
        if isinstance(node, ast.Call):
            return self.call(node)
        return None

    def call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        if not callable(function):
            return None
        arguments: list[Any] = [None for _ in node.args]
        if not any(isinstance(one, ast.Constant) and one.value is ... for one in node.args):
            of_instance = (
                isinstance(node.func, ast.Attribute)
                and inspect.isclass(self.value(node.func.value))
                and inspect.isfunction(function)
            )
            keywords = {one.arg: None for one in node.keywords if one.arg}
            _bind(function, [None] * of_instance + arguments, keywords)
        if inspect.isclass(function):
            return function
        made = typing.get_type_hints(function).get("return")
        return made if inspect.isclass(made) else None


def _attribute(owner: Any, name: str) -> Any:
    """An attribute; a field of a dataclass has no value of the class, and none is needed."""
    if inspect.ismodule(owner) and not hasattr(owner, name):
        return importlib.import_module(f"{owner.__name__}.{name}")
    if dataclasses.is_dataclass(owner) and name in {one.name for one in dataclasses.fields(owner)}:
        return None
    if inspect.isclass(owner) and not hasattr(owner, name):
        if name in getattr(owner, "__annotations__", {}):
            return None
        raise AttributeError(f"{owner.__name__} has no {name}")
    return getattr(owner, name)


def _bind(function: Any, arguments: list[Any], keywords: dict[str, Any]) -> None:
    """Raise TypeError where the arguments do not fit; free keyword arguments are roles."""
    try:
        signature = inspect.signature(function)
    except ValueError:  # a builtin constructor, such as an exception's, takes anything
        return
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise TypeError(f"{function.__name__}: {error}") from error
    if "RoleNames" in str(signature) and (strange := set(keywords) - _takes(signature)):
        raise TypeError(f"{function.__name__} takes no {', '.join(sorted(strange))}")


def _takes(signature: inspect.Signature) -> set[str]:
    return {*signature.parameters, *ROLES}
