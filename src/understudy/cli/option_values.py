"""Options that several commands have: ``--progress``, and ``--set NAME=VALUE``."""

from __future__ import annotations

from typing import Annotated

import typer

from understudy.core.errors import ConfigError
from understudy.run.progress import ProgressMode

Progress = Annotated[
    ProgressMode,
    typer.Option(help="How progress is shown, on standard error; auto: bars on a terminal."),
]
"""``--progress`` of every long command."""


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
