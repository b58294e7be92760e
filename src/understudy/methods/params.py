"""What parameters of a method have to be, whatever the run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.core.errors import ConfigError


def require_at_least(params: Any, least: Mapping[str, int]) -> None:
    """Refuse parameters below their least value; ``None`` is decided later.

    Raises:
        ConfigError: Naming the first.
    """
    for name, low in least.items():
        value = getattr(params, name)
        if value is not None and value < low:
            raise ConfigError(f"{name} must be {low} or more, found {value}")
