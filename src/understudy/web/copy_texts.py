"""What a page does, as it is written in Python and in a recipe, from the words of its command.

The types of values are those of the declarations that the command line's options are made from.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import yaml

from understudy.core.option import declared_options, kinds_of
from understudy.run.config import option_defaults, run_options
from understudy.run.methods import method
from understudy.run.recipe import COMMANDS

_ARGUMENTS = {
    **dict.fromkeys(("check", "plan", "synthesize", "audit"), "source"),
    **dict.fromkeys(("resample", "evaluate", "report", "verify"), "folder"),
    "compare": "releases",
}
"""The commands that are functions, and what each calls its argument."""

_FLAGS = frozenset({"full", "json", "yes", "dry_run", "resume"})
_COUNTS = frozenset({"count", "seed"})
_OF_THE_COMMAND_LINE = ("json", "yes", "sheet", "progress", "dry_run")


def copy_texts(command_line: str) -> dict[str, str]:
    """The texts of a command besides itself: ``"python"`` and ``"yaml"``, where there are such."""
    _, command, *words = shlex.split(command_line) or ["", ""]
    if command not in _ARGUMENTS:
        return {}
    places, options = _parsed(words)
    texts = {"python": _python(command, places, options)}
    if command in COMMANDS:
        step = {_ARGUMENTS[command]: places[0], **options}
        step.pop("resume", None)  # a recipe goes on by itself
        texts["yaml"] = yaml.safe_dump([{command: step}], sort_keys=False, allow_unicode=True)
    return texts


def _python(command: str, places: Sequence[str], options: Mapping[str, Any]) -> str:
    argument = list(places) if command == "compare" else places[0]
    lines = [f"    {argument!r},", *(f"    {name}={value!r}," for name, value in options.items())]
    page = ".write()" if command == "report" else ""
    call = "\n".join([f"result = understudy.{command}(", *lines, f"){page}"])
    return f"import understudy\n\n{call}\n"


def _parsed(words: Sequence[str]) -> tuple[list[str], dict[str, Any]]:
    """The arguments among words of the command line, and the options by their names."""
    places: list[str] = []
    texts: dict[str, str] = {}
    settings: dict[str, str] = {}
    annotations, rest = run_options(), list(words)
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        name = word.removeprefix("--").replace("-", "_")
        if not word.startswith("--"):
            places.append(word + equals + value)
            continue
        if name in _FLAGS or (name in annotations and kinds_of(annotations[name]) == (bool,)):
            texts[name] = "true"
            continue
        value = value if equals else rest.pop(0)
        if name == "set":
            setting, _, value = value.partition("=")
            settings[setting] = value
        else:
            texts[name] = value
    for name in _OF_THE_COMMAND_LINE:
        texts.pop(name, None)
    options = {name: _typed(name, text, annotations.get(name)) for name, text in texts.items()}
    if settings:
        params = declared_options(method(texts.get("method") or option_defaults()["method"]).params)
        options["settings"] = {
            name: _typed(name, text, params.get(name)) for name, text in settings.items()
        }
    return places, options


def _typed(name: str, text: str, hint: Any) -> Any:
    """The value of an option by its declaration; as it is typed where that says nothing."""
    kinds = kinds_of(hint) if hint is not None else (int,) if name in _COUNTS else ()
    if name in _FLAGS or kinds == (bool,):
        return text == "true"
    for kind in (int, float):
        with suppress(ValueError):
            if kind in kinds:
                return kind(text)
    return text
