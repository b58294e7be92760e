"""The methods that are installed; built-in ones and those from outside come by the same door."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

from understudy.core.errors import ConfigError
from understudy.methods.base import Method
from understudy.run.config import unknown

GROUP = "understudy.methods"
"""The entry points: each loads a `Method`, whose ``name`` is the entry point's."""

BUILT_IN = {
    "alignment": "understudy.methods.alignment.algorithm:METHOD",
    "clustering": "understudy.methods.clustering.algorithm:METHOD",
    "evolution": "understudy.methods.evolution.algorithm:METHOD",
}
"""The entry points of this package, for a source tree on the path that was never installed."""


def methods() -> dict[str, Method]:
    """Every method by its name.

    Raises:
        ConfigError: Two packages register the same name, or a method cannot be loaded.
    """
    return {name: method(name) for name in sorted(_registered())}


def method(name: str) -> Method:
    """One method.

    Raises:
        ConfigError: No method of that name, or it cannot be loaded.
    """
    registered = _registered()
    if name not in registered:
        raise unknown("method", name, list(registered))
    values = sorted(registered[name])
    if len(values) > 1:
        # Private images go to whatever is loaded here, so no package may take over a name.
        raise ConfigError(
            f"the method {name!r} is registered more than once: {', '.join(values)}. "
            "Uninstall all but one of these packages"
        )
    try:
        loaded = EntryPoint(name=name, value=values[0], group=GROUP).load()
    except Exception as error:  # whatever a plug-in raises while it is imported
        raise ConfigError(
            f"the method {name!r} ({values[0]}) cannot be loaded: {type(error).__name__}: {error}"
        ) from error
    if not isinstance(loaded, Method):
        raise ConfigError(
            f"the method {name!r} ({values[0]}) is no understudy.Method, found a value of type "
            f"{type(loaded).__name__}"
        )
    if loaded.name != name:
        raise ConfigError(
            f"the method {name!r} ({values[0]}) calls itself {loaded.name!r}: give the entry point "
            "that name"
        )
    return loaded


def _registered() -> dict[str, set[str]]:
    """Name to what is registered under it; more than one is a conflict."""
    found = {name: {value} for name, value in BUILT_IN.items()}
    for entry in entry_points(group=GROUP):
        found.setdefault(entry.name, set()).add(entry.value)
    return found
