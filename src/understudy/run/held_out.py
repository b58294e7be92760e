"""``--hold-out``: which part of the private set a run leaves out, kept in the owner's folder."""

from __future__ import annotations

from pathlib import Path

from understudy.core.damaged_files import from_json
from understudy.core.errors import ConfigError, RunError
from understudy.core.option import read_share
from understudy.data.holdout import HoldOut
from understudy.release.outputs import write_json

FILE = "holdout.json"
"""In the owner's folder: the secret key, the share and the unit column."""


def left_of(records: int, share: float | str | None) -> int:
    """How many of the private records a run reads, on average, where some are held out."""
    return records - round(0.0 if share is None else read_share("--hold-out", share) * records)


def is_test_held_out(owner: Path, *, unprotected: bool) -> bool:
    """Whether a run held a test set out; what one without a guarantee set aside is none."""
    return not unprotected and read_hold_out(owner) is not None


def keep_hold_out(owner: Path, share: float | str, unit: str | None) -> HoldOut:
    """Who is held out of a run: drawn when it begins, and read back by a resumed one.

    Raises:
        RunError: What was kept is damaged.
    """
    former = read_hold_out(owner)
    if former is not None:
        return former
    hold_out = HoldOut.draw(read_share("--hold-out", share), unit)
    content = {
        "key": hold_out.key.hex(),
        "share": hold_out.share,
        "unit": unit,
        "kind": "owner-only",
    }
    write_json(owner / FILE, content)
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
