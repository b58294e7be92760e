"""The methods that are installed; built-ins and plug-ins come through the same door."""

from __future__ import annotations

from importlib.metadata import entry_points

from understudy.core.errors import ConfigError
from understudy.methods.alignment.algorithm import METHOD as ALIGNMENT
from understudy.methods.base import Method
from understudy.methods.clustering.algorithm import METHOD as CLUSTERING
from understudy.methods.evolution.algorithm import METHOD as EVOLUTION
from understudy.run.config import unknown

GROUP = "understudy.methods"
_BUILT_IN = {method.name: method for method in (ALIGNMENT, CLUSTERING, EVOLUTION)}


def methods() -> dict[str, Method]:
    """Every method by its name: the built-in ones and those of entry points in `GROUP`.

    Raises:
        ConfigError: A plug-in that cannot be imported.
    """
    found = dict(_BUILT_IN)
    for point in entry_points(group=GROUP):
        if point.name not in found:
            try:
                found[point.name] = point.load()
            except (ImportError, AttributeError) as error:
                raise ConfigError(
                    f"the method plug-in {point.value} does not load: {error}"
                ) from error
    return found


def method(name: str) -> Method:
    """One method.

    Raises:
        ConfigError: No method of that name.
    """
    found = methods()
    if name not in found:
        raise unknown("method", name, list(found))
    return found[name]
