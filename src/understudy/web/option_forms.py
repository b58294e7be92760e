"""Fields of forms, from the declarations that the options of the command line are made from."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from understudy.core.option import declared_options, kinds_of, option_of
from understudy.run.config import OPTION_GROUPS, group_of_options, option_defaults, run_options
from understudy.run.methods import method
from understudy.web.confinement import FolderRoots

READING = (
    *("size", "fit", "channels", "label", "classes", "skip_bad"),
    *("unit", "unit_from", "unit_from_name"),
)
"""The options that say how a dataset is read: those of `check`."""

_ELSEWHERE = frozenset({"source", "epsilon", "settings", "ledger", "out", "resume", "dry_run"})
"""Options of a run that a page has another place for, or that the studio was started with."""

SETTING = "set."
"""How the name of a field begins that holds a parameter of the method."""

FieldKind = Literal["text", "number", "choice", "check"]
_MOST_LETTERS = 4096


@dataclass(frozen=True, slots=True)
class FormField:
    """One field.

    Attributes:
        name: Of the option, or ``set.`` and the parameter's.
        default: What holds where it is left empty, in words.
        value: As it is typed; ``"on"`` of a check.
    """

    name: str
    label: str
    help: str
    kind: FieldKind
    choices: tuple[str, ...]
    default: str
    value: str

    @property
    def is_set(self) -> bool:
        """Whether it says something else than the default."""
        return self.value not in ("", self.default)


def run_fields(values: Mapping[str, str]) -> dict[str, list[FormField]]:
    """The options of a run by their groups, and the parameters of its method as one more.

    Raises:
        ConfigError: There is no such method.
    """
    defaults, groups = option_defaults(), group_of_options()
    fields: dict[str, list[FormField]] = {group: [] for group in OPTION_GROUPS}
    for name, hint in run_options().items():
        if name not in _ELSEWHERE:
            fields[groups[name]].append(_field(name, name, hint, defaults.get(name), values))
    params = method(values.get("method") or defaults["method"]).params
    own = {one.name: one.default for one in dataclasses.fields(params)}
    fields["method"] = [
        _field(SETTING + name, name, hint, own[name], values)
        for name, hint in declared_options(params).items()
    ]
    return fields


def reading_fields(values: Mapping[str, str]) -> list[FormField]:
    """The options that say how a dataset is read."""
    annotations, defaults = run_options(), option_defaults()
    return [_field(name, name, annotations[name], defaults.get(name), values) for name in READING]


def _field(name: str, label: str, hint: Any, default: Any, values: Mapping[str, str]) -> FormField:
    option = option_of(hint)
    kinds = [kind for kind in kinds_of(hint) if kind is not type(None)]
    choices = tuple(
        str(choice)
        for kind in kinds
        if typing.get_origin(kind) is Literal
        for choice in typing.get_args(kind)
    )
    field_kind: FieldKind = "text"
    if kinds == [bool]:
        field_kind = "check"
    elif choices and len(kinds) == 1:
        field_kind = "choice"
    elif kinds in ([int], [float]):
        field_kind = "number"
    missing = default is None or default is dataclasses.MISSING
    words = "" if missing or default is False else str(default)
    value = values.get(name, "")
    label = label.replace("_", " ")
    return FormField(name, label, option.help, field_kind, choices, words, value)


def form_options(
    pairs: Iterable[tuple[str, str]], names: Collection[str] | None = None
) -> dict[str, str]:
    """The options among the pairs of a query or a form, without those that were left empty.

    ``names``: those that are taken; None: every option of a run that a page has a field for.
    """
    option_names = set(run_options()) - _ELSEWHERE if names is None else set(names)
    values: dict[str, str] = {}
    for name, value in pairs:
        setting = names is None and name.startswith(SETTING)
        if value.strip() and (name in option_names or setting) and len(value) <= _MOST_LETTERS:
            values[name] = value.strip()
    return values


def words_of(roots: FolderRoots, values: Mapping[str, str]) -> list[str]:
    """Options as words of the command line; a file that one names is one of the roots.

    Raises:
        OutsideRoots: A file elsewhere.
        ConfigError: A model that a page does not take.
    """
    annotations, words = run_options(), []
    for name, value in values.items():
        if name.startswith(SETTING):
            words.append(f"--set={name.removeprefix(SETTING)}={value}")
        elif kinds_of(annotations[name]) == (bool,):
            words.append("--" + name.replace("_", "-"))
        else:
            words.append(f"--{name.replace('_', '-')}={roots.named(name, value)}")
    return words
