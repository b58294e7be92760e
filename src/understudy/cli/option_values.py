"""``--set NAME=VALUE``: settings of a method."""

from __future__ import annotations

from understudy.core.errors import ConfigError


def parse_settings(pairs: list[str]) -> dict[str, str]:
    """``NAME=VALUE`` texts as a mapping.

    Raises:
        ConfigError: A text without ``=``.
    """
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set takes NAME=VALUE, found {pair!r}")
        settings[name.strip()] = value.strip()
    return settings
