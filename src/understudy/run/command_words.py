"""A run as it is typed: what `check` and `plan` propose."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from understudy.core.option import list_of_names
from understudy.privacy.ledger.database import public_address
from understudy.run.config import RunConfig

PROPOSED_SIDES = (16, 32, 48, 64, 96, 128)
"""Pixels a side that are proposed."""

USUAL_SIDE = 64
"""The largest side that is proposed for images that are larger: most was measured there."""

USUAL_FIT = "pad"
"""How images of other ratios are brought to a size where nothing is known of them: all is kept."""

_READING = (
    *("label", "classes", "channels", "size", "fit", "unit", "unit_from", "unit_from_name"),
    "skip_bad",
)
"""The options that say how a dataset is read."""


def command_line(
    config: RunConfig, options: Mapping[str, Any], epsilon: float | str, out: str = "out/"
) -> str:
    """A run with what was asked and what is needed besides, as it is typed, but for passwords.

    Args:
        config: What was asked: of it, how the dataset is read.
        options: More options of the run.
        epsilon: Of the run.
        out: Folder of the result.
    """
    words = ["understudy", "synthesize", shlex.quote(config.data.source)]
    values = config.as_options()
    reading = {name: values[name] for name in _READING}
    for name, value in (reading | dict(options)).items():
        if value in (None, False) or (name == "fit" and value == "stretch"):
            continue
        words += option_words(name, public_address(value) if name == "ledger" else value)
    return " ".join([*words, "--epsilon", amount_words(epsilon), "--out", shlex.quote(out)])


def amount_words(epsilon: float | str) -> str:
    """An epsilon as it is typed."""
    return epsilon if isinstance(epsilon, str) else f"{epsilon:g}"


def option_words(name: str, value: Any) -> list[str]:
    """An option and its value as they are typed; of settings, each of them."""
    if isinstance(value, Mapping):
        return [
            word
            for pair in value.items()
            for word in ("--set", shlex.quote("=".join(map(str, pair))))
        ]
    flag = "--" + name.replace("_", "-")
    text = list_of_names(value) if isinstance(value, tuple) else str(value)
    return [flag] if value is True else [flag, shlex.quote(text)]
