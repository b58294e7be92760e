"""``--hold-out``: which part of the private set a run leaves out, kept in the owner's folder."""

from __future__ import annotations

from pathlib import Path

from understudy.core.damaged_files import from_json
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


def check_hold_out(amount: float | str, unit: Unit) -> None:
    """Refuse what is neither a share nor a number that may be asked for."""
    number = read_share("--hold-out", amount)
    if number < 1:
        if not 0 < number <= _MOST:
            raise ConfigError(f"hold out a share above 0 and up to {_MOST:.0%}, found {amount}")
        return
    if number != int(number):
        raise ConfigError(f"hold out a share, {_HOW}, or a whole number of images, found {amount}")
    if unit.adjacency != "replace-one" or unit.column is not None:
        raise ConfigError(
            f"--hold-out {number:,.0f} asks for a number of images, and whether one takes part "
            "would then depend on how many others there are, which is private (add-remove, or "
            f"units of several images): ask for a share, {_HOW}"
        )


def left_of(records: int, amount: float | str | None) -> int:
    """How many of the private records a run reads, on average, where some are held out."""
    number = 0.0 if amount is None else read_share("--hold-out", amount)
    return records - round(number if number >= 1 else number * records)


def is_test_held_out(owner: Path, *, unprotected: bool) -> bool:
    """Whether a run held a test set out; what one without a guarantee set aside is none."""
    return not unprotected and read_hold_out(owner) is not None


def keep_hold_out(owner: Path, source: Source, amount: float | str, unit: Unit) -> HoldOut:
    """Who is held out of a run: drawn when it begins, and read back by a resumed one.

    Raises:
        ConfigError: More images are asked for than half of all.
        RunError: What was kept is damaged.
    """
    former = read_hold_out(owner)
    if former is not None:
        return former
    number = read_share("--hold-out", amount)
    share = number if number < 1 else number / len(source)
    if share > _MOST:
        raise ConfigError(f"hold out {_MOST:.0%} of the images at most, found {amount}")
    hold_out = HoldOut.draw(share, unit.column)
    path = owner / FILE
    content = {
        "key": hold_out.key.hex(),
        "share": share,
        "unit": hold_out.unit,
        "kind": "owner-only",
    }
    write_json(path, content)
    return hold_out


def read_hold_out(owner: Path) -> HoldOut | None:
    """Who was held out of a run; None where nobody was."""
    path = owner / FILE
    if not path.is_file():
        return None
    try:
        content = from_json(path.read_text(encoding="utf-8"))
        return HoldOut(bytes.fromhex(content["key"]), float(content["share"]), content["unit"])
    except (OSError, ValueError, KeyError, TypeError, ConfigError) as error:
        raise RunError(f"{path}: damaged, so nobody can tell who was held out: {error}") from error
