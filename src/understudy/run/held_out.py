"""``--hold-out``: which part of the private set a run leaves out, kept in the owner's folder."""

from __future__ import annotations

import json
from pathlib import Path

from understudy.core.errors import ConfigError, RunError
from understudy.core.option import read_share
from understudy.core.ports import Source
from understudy.data.holdout import HoldOut
from understudy.privacy.unit import Unit
from understudy.release.outputs import write_json

FILE = "holdout.json"
"""In the owner's folder: the secret key, the share and the unit column."""

_MOST = 0.5
_HOW = "such as --hold-out 5%"


def check_hold_out(asked: float | str, unit: Unit) -> None:
    """Refuse what is neither a share nor a number that may be asked for."""
    number = read_share("--hold-out", asked)
    if number < 1:
        if not 0 < number <= _MOST:
            raise ConfigError(f"hold out a share above 0 and up to {_MOST:.0%}, found {asked}")
        return
    if number != int(number):
        raise ConfigError(f"hold out a share, {_HOW}, or a whole number of images, found {asked}")
    if unit.adjacency != "replace-one" or unit.column is not None:
        raise ConfigError(
            f"--hold-out {number:,.0f} asks for a number of images, and whether one takes part "
            "would then depend on how many others there are, which is private (add-remove, or "
            f"units of several images): ask for a share, {_HOW}"
        )


def left_of(records: int, asked: float | str | None) -> int:
    """How many of the private records a run reads, on average, where some are held out."""
    number = 0.0 if asked is None else read_share("--hold-out", asked)
    return records - round(number if number >= 1 else number * records)


def is_test_held_out(owner: Path, *, unprotected: bool) -> bool:
    """Whether a run held a test set out; what one without a guarantee set aside is none."""
    return not unprotected and read_hold_out(owner) is not None


def keep_hold_out(owner: Path, source: Source, asked: float | str, unit: Unit) -> HoldOut:
    """Who is held out of a run: drawn when it begins, and read back by a resumed one.

    Raises:
        ConfigError: More images are asked for than half of all.
        RunError: What was kept is damaged.
    """
    known = read_hold_out(owner)
    if known is not None:
        return known
    number = read_share("--hold-out", asked)
    share = number if number < 1 else number / len(source)
    if share > _MOST:
        raise ConfigError(f"hold out {_MOST:.0%} of the images at most, found {asked}")
    drawn = HoldOut.draw(share, unit.column)
    path = owner / FILE
    content = {"key": drawn.key.hex(), "share": share, "unit": drawn.unit, "kind": "owner-only"}
    write_json(path, content)
    return drawn


def read_hold_out(owner: Path) -> HoldOut | None:
    """Who was held out of a run; None where nobody was."""
    path = owner / FILE
    if not path.is_file():
        return None
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return HoldOut(bytes.fromhex(content["key"]), float(content["share"]), content["unit"])
    except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:
        raise RunError(f"{path}: damaged, so nobody can tell who was held out: {error}") from error
