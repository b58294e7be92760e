"""Recipes: several commands from one file, each once.

A recipe is a YAML list of steps; a step is a command with its options, by their names. Every step
is checked before the first one runs, and one that is done is passed over.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.backends.yaml_files import read_yaml
from understudy.core.damaged_files import from_json
from understudy.core.errors import ConfigError, RunComplete, RunError
from understudy.core.files import home_path, write_whole
from understudy.core.option import list_of_names
from understudy.data.open_source import paths_of
from understudy.run.config import (
    make_config,
    make_params,
    parse_settings,
    read_config,
    require_known,
    unknown,
)
from understudy.run.methods import method
from understudy.run.select_config import make_select_config

COMMANDS = ("sample", "synthesize", "select", "evaluate", "report")
"""What a step may be: a release is generated, selected from, evaluated and reported."""

_INPUTS = (
    *("source", "candidates", "private", "reference", "public", "base", "real", "test", "lpips"),
)
_NO_PATHS = ("hf:", "procedural:", "playhouse:")
_STATE = "recipe.json"
_RESUMED = ("synthesize", "select")
_OF_THE_COMMAND = ("progress", "yes", "verbose", "as_json", "help_all")  # and not of a run
_OF_THE_RECIPE = ("resume", "progress", "yes", "help", "help_all")
_AGAIN = ("evaluate", "report")
"""Steps that run again after an earlier step did: they read what it wrote."""


@dataclass(frozen=True)
class RecipeStep:
    """One command of a recipe.

    Attributes:
        name: What messages call it: ``"step 2 (select)"``.
        options: Its options by name, as the file has them.
        words: The same as words of the command line.
        place: The folder that it writes to.
    """

    name: str
    command: str
    options: Mapping[str, Any]
    words: tuple[str, ...]
    place: Path

    @property
    def state(self) -> Path:
        """Where it is recorded that the step is done."""
        return self.place / "owner" / _STATE

    @property
    def begun(self) -> bool:
        """Whether the folder holds a run of this step, finished or not."""
        return (self.place / "owner" / "start.json").is_file()

    @property
    def recorded(self) -> bool:
        """Whether it was done with these options, and what it wrote is there."""
        return self.place.is_dir() and _read(self.state).get(self.command) == _plain(self.options)

    def record(self) -> None:
        """Record that it is done."""
        if self.state.parent.is_dir():
            finished_steps = {**_read(self.state), self.command: _plain(self.options)}
            write_whole(self.state, f"{json.dumps(finished_steps, indent=2)}\n".encode())


def carry_out(
    steps: Sequence[RecipeStep], commands: Mapping[str, Any], say: Callable[[str], None]
) -> None:
    """Run the steps in their order, and pass over those that are done."""
    ran = False
    for step in steps:
        if step.recorded and not (ran and step.command in _AGAIN):
            say(f"{step.name}: done before")
            continue
        say(step.name)
        resume = ["--resume"] if step.command in _RESUMED and step.begun else []
        command, words = commands[step.command], [*step.words, *resume]
        try:
            # not by its `main`, which would return where the step was stopped
            with command.make_context(f"understudy {step.command}", words) as context:
                command.invoke(context)
            ran = True
        except RunComplete:  # killed after its last word, before that was recorded here
            say(f"{step.name}: done before")
        step.record()


def read_steps(
    path: Path, commands: Mapping[str, Any], progress: str, *, yes: bool = False
) -> list[RecipeStep]:
    """The steps of a recipe, each checked as far as it can be before any has run.

    Raises:
        ConfigError: The file is no recipe, an option does not exist or has no such value, or an
            input is neither there nor written by an earlier step.
        RunError: A folder holds something else.
    """
    steps: list[RecipeStep] = []
    for number, (command, options) in enumerate(_entries(path), 1):
        name = f"step {number} ({command})"
        require_known(f"command in {path}:", [command], COMMANDS)
        words = _words(name, commands[command], options)
        if any(one.name == "progress" for one in commands[command].params):
            words += ("--progress", progress)
        if yes and any(one.name == "yes" for one in commands[command].params):
            words += ("--yes",)
        key = "folder" if command in _AGAIN else "out"
        if not options.get(key):
            raise ConfigError(f"{name} names no {key}: say where it lies")
        step = RecipeStep(name, command, options, words, home_path(str(options[key])))
        _check_line(step, commands[command])
        _check_inputs(step, steps)
        _check_place(step, steps)
        steps.append(step)
    return steps


def _entries(path: Path) -> list[tuple[str, Mapping[str, Any]]]:
    """The commands of the file and their options."""
    content = read_yaml(path, "recipe")
    form = "a list with a command and its options in each step, '- select: {keep: 50%, ...}'"
    if not isinstance(content, list) or not content:
        raise ConfigError(f"{path}: a recipe is {form}; found {type(content).__name__}")
    entries: list[tuple[str, Mapping[str, Any]]] = []
    for number, entry in enumerate(content, 1):
        if not isinstance(entry, dict) or len(entry) != 1:
            raise ConfigError(f"{path}: step {number} is no command with options: it is {form}")
        ((command, options),) = entry.items()
        if not isinstance(options, dict):
            raise ConfigError(f"{path}: step {number} ({command}) has no options")
        by_name = {str(key).replace("-", "_"): value for key, value in options.items()}
        entries.append((str(command), by_name))
    return entries


def _words(name: str, command: Any, options: Mapping[str, Any]) -> tuple[str, ...]:
    """The options as words of the command line."""
    by_name = {alias: one for one in command.params for alias in _names(one)}
    words: list[str] = []
    for key, value in options.items():
        if key not in by_name or key in _OF_THE_RECIPE:
            names = sorted(set(by_name) - {*_OF_THE_RECIPE, "set_"})
            raise unknown(f"option of {name}", key, names)
        words += _value_words(by_name[key], value)
    return tuple(words)


def _names(parameter: Any) -> tuple[str, ...]:
    """What an option may be called: as Python has it, or as it is written; settings by both."""
    option = str(max(parameter.opts, key=len)).lstrip("-").replace("-", "_")
    settings = ("settings",) if option == "set" else ()
    return (str(parameter.name), option, *settings)


def _value_words(parameter: Any, value: Any) -> list[str]:
    if value is None or value is False:
        return []
    flag = [] if parameter.param_type_name == "argument" else [max(parameter.opts, key=len)]
    if value is True:
        return flag
    if isinstance(value, Mapping):
        return [word for key, one in value.items() for word in (*flag, f"{key}={_text(one)}")]
    if isinstance(value, list):
        if getattr(parameter, "multiple", False):
            return [word for one in value for word in (*flag, _text(one))]
        return [*flag, list_of_names(map(_text, value))]
    return [*flag, _text(value)]


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _check_line(step: RecipeStep, command: Any) -> None:
    """Refuse what the command would refuse before it opens anything."""
    try:
        values = command.make_context(step.command, list(step.words)).params
    except Exception as error:
        message = getattr(error, "format_message", None)  # of the command line's own errors
        if message is None:
            raise
        raise ConfigError(f"{step.name}: {message()}") from error
    arguments = {key: value for key, value in values.items() if value is not None}
    for name in _OF_THE_COMMAND:
        arguments.pop(name, None)
    try:
        if step.command in _RESUMED:
            settings: Mapping[str, Any] = parse_settings(arguments.pop("set_", ()))
            if step.command == "select":
                make_select_config({**arguments, "settings": settings})
                return
            file = arguments.pop("config", None)
            options = {} if file is None else read_config(file)
            settings = {**(options.get("settings") or {}), **settings}
            config = make_config({**options, **arguments, "settings": settings})
            make_params(method(config.models.method).params, settings)
        elif step.command == "sample" and "classes" not in arguments:
            raise ConfigError("a recipe draws a release: say classes, and no prompt")
    except ConfigError as error:
        raise ConfigError(f"{step.name}: {error}") from error


def _check_inputs(step: RecipeStep, earlier: Sequence[RecipeStep]) -> None:
    """Refuse inputs that are not there and that no earlier step writes."""
    outputs = [one.place.absolute() for one in earlier if one.command not in _AGAIN]
    names = ["folder"] if step.command == "report" else [*_INPUTS, "folder"]
    for key in names:
        value = step.options.get(key)
        if not isinstance(value, str) or value in ("none", "held-out"):
            continue
        if value.startswith(_NO_PATHS) or paths_of(value):
            continue
        path = home_path(value)
        if any(path.absolute().is_relative_to(output) for output in outputs):
            continue
        raise ConfigError(
            f"{step.name}: {key} is {value}, and there is no such file or folder, nor does an "
            "earlier step write it"
        )


def _check_place(step: RecipeStep, earlier: Sequence[RecipeStep]) -> None:
    """Refuse a folder that another step writes to, or that holds other things."""
    if step.command in _AGAIN:
        return
    if any(one.place == step.place for one in earlier if one.command not in _AGAIN):
        raise ConfigError(f"{step.name}: an earlier step writes to {step.place}, too")
    is_full = step.place.is_dir() and any(step.place.iterdir())
    if is_full and not step.recorded and (step.command == "sample" or not step.begun):
        raise RunError(
            f"{step.name}: {step.place} exists and is not of this step with these options: choose "
            "another out, or remove it"
        )


def _read(path: Path) -> dict[str, Any]:
    """What is recorded; nothing where it cannot be read."""
    try:
        content = from_json(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}


def _plain(options: Mapping[str, Any]) -> Any:
    """Options as they come back from JSON."""
    return json.loads(json.dumps(options, default=str))
