"""What a run gives back to whoever called it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.core.types import Receipt
from understudy.report import PublicQuality, StatedAttack
from understudy.run.accuracy import Accuracy


@dataclass(frozen=True)
class Result:
    """What a run made.

    Attributes:
        release: The folder that may be shared.
        owner: The folder that may not.
        receipt: The guarantee, and what each stage of it cost.
        facts: Public facts of the release.
        accuracy: Balanced accuracy on the real test set; owner-only. Empty without ``test``.
        seconds: Wall-clock seconds of each part of the run; owner-only.
        contact_sheet: Synthetic images on one sheet; None for embeddings alone.
        warnings: What the owner should know; empty if all is well.
        attacks: What attacks gained on a selection that has no guarantee.
        quality: What was measured of its quality and published; None: nothing.
    """

    release: Path
    owner: Path
    receipt: Receipt
    facts: Mapping[str, Any]
    accuracy: tuple[Accuracy, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    contact_sheet: Path | None = None
    warnings: tuple[str, ...] = ()
    attacks: tuple[StatedAttack, ...] = ()
    quality: PublicQuality | None = None
