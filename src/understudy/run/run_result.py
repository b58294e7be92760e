"""What a run gives back to whoever called it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.core.types import Receipt
from understudy.report import BudgetState, PublicQuality, StatedAttack, StatedCopies
from understudy.report.meaning import budget
from understudy.run.accuracy import Accuracy


@dataclass(frozen=True, repr=False)
class Result:
    """What a run made; a path to its folder, so that every function that takes one takes this.

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
        copies: How many of its samples are copies of private records; None: not counted.
        quality: What was measured of its quality and published; None: nothing.
        spending: The dataset's budget and what is left of it; owner-only. None: none was asked.
        private_samples: What the private records are, ``"images"`` or ``"embeddings"``.
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
    copies: StatedCopies | None = None
    quality: PublicQuality | None = None
    spending: BudgetState | None = None
    private_samples: str = "images"

    @property
    def folder(self) -> Path:
        """The folder of the run: ``release`` and ``owner``."""
        return self.release.parent

    def __fspath__(self) -> str:
        return str(self.folder)

    def __repr__(self) -> str:
        """A line, for a notebook; the attributes have the rest."""
        guarantee = budget(self.receipt)
        return f"<Result {self.folder}: {self.facts.get('rows', 0):,} samples, {guarantee}>"
