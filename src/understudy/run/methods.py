"""The methods that are installed; built-ins and plug-ins come through the same door."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

from understudy.core.entry_points import METHODS, registered, registration_of
from understudy.core.errors import ConfigError
from understudy.core.option import declared_options, option_of
from understudy.methods.base import AUTO, Method
from understudy.run.codec_rules import AUTO_IN_WORDS
from understudy.run.config import unknown


def methods() -> dict[str, Method]:
    """Every method by its name: those that installed packages register, this one among them.

    `broken_methods` says which are left out.

    Raises:
        ConfigError: Two packages register one name.
    """
    return {name: one for name, one in _registered_methods() if isinstance(one, Method)}


def broken_methods() -> list[str]:
    """What is wrong with each method that a package registers and that cannot be used."""
    return [str(one) for _, one in _registered_methods() if isinstance(one, ConfigError)]


def _registered_methods() -> Iterator[tuple[str, Method | ConfigError]]:
    for name in sorted(registered(METHODS)):
        registration_of(METHODS, name, "method", ConfigError)  # two of one name are refused
        try:
            yield name, method(name)
        except ConfigError as error:
            yield name, error


def method(name: str) -> Method:
    """One method.

    Raises:
        ConfigError: No method of that name, or it cannot be imported, or two packages register it.
    """
    registration = registration_of(METHODS, name, "method", ConfigError)
    if registration is None:
        raise unknown("method", name, sorted(registered(METHODS)))
    loaded = registration.load("method", ConfigError)
    if not isinstance(loaded, Method):
        raise ConfigError(
            f"{registration.value} of the package {registration.package} is a "
            f"{type(loaded).__name__}, no Method: the entry point must name an instance"
        )
    if loaded.name != name:
        raise ConfigError(
            f"the package {registration.package} registers the method {loaded.name!r} under the "
            f"name {name!r}: give both one name"
        )
    return loaded


def method_as_dict(method: Method) -> dict[str, Any]:
    """A method with its settings and the models and datasets that it takes, as JSON values."""
    declared = declared_options(method.params)
    return {
        "name": method.name,
        "summary": method.summary,
        "source": method.source,
        "takes": dict(takes := method.roles(method.params(), frozenset())),
        "auto": AUTO_IN_WORDS if AUTO in takes.values() else None,
        "settings": [
            {
                "name": field.name,
                "default": None if field.default is dataclasses.MISSING else field.default,
                "meaning": option_of(declared[field.name]).help,
                "range": option_of(declared[field.name]).range,
            }
            for field in dataclasses.fields(method.params)
        ],
    }
