"""Who steers a selection, who calibrates its distances, and on whom its leak is measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.core.ports import Source
from understudy.data.holdout import split
from understudy.run.held_out import keep_hold_out
from understudy.run.selection.select_config import HELD_OUT_PART
from understudy.run.selection.select_inputs import Opened
from understudy.run.selection.spaces import EmbeddedRows

_FEW_HELD_OUT = 32
"""Records of a reference that are not parted any more: all of them steer, none measures."""


@dataclass(frozen=True)
class Steering:
    """What steers a selection, embedded.

    Attributes:
        reference: What the proxy is to do well on.
        members: The private records that take part; None without private data.
        calibrating: Records that are not among them, by which distances are calibrated.
        measured: Others of the reference, which are not private, had no part in the candidates and
            steer nothing: the attack is measured on them. None where no such records were named: a
            part of the private dataset may have had a part in the candidates.
        held_out: Private records that were set aside.
    """

    reference: EmbeddedRows
    members: EmbeddedRows | None = None
    calibrating: EmbeddedRows | None = None
    measured: EmbeddedRows | None = None
    held_out: EmbeddedRows | None = None

    @property
    def rows_held_out(self) -> int:
        """How many private records were set aside."""
        return 0 if self.held_out is None else len(self.held_out.labels)


def steering_of(
    opened: Opened,
    owner: Path,
    candidates: EmbeddedRows,
    embedded: Callable[[Source], EmbeddedRows],
) -> Steering:
    """The reference, the private records, and those that are not among them.

    Args:
        opened: The datasets.
        owner: The owner's folder, where the draw of the held-out records is stored.
        candidates: What steers where neither private records nor a reference do.
        embedded: The rows of a dataset in the spaces.
    """
    reference = None if opened.reference is None else embedded(opened.reference)
    if opened.private is None:
        return Steering(reference or candidates)
    if opened.non_members and reference is not None:
        # Half of the reference steers and calibrates, half measures.
        reference, measured = _halves(reference, opened.config.seed)
        return Steering(reference, embedded(opened.private), reference, measured)
    private, held_out = _parts(opened, opened.private, owner)
    members = embedded(private)
    calibrating = None if held_out is None else embedded(held_out)
    if opened.config.reference == HELD_OUT_PART:
        reference = calibrating
    return Steering(reference or members, members, calibrating, None, calibrating)


def _parts(opened: Opened, private: Source, owner: Path) -> tuple[Source, Source | None]:
    """The members, and what is held out of them; None where nothing is."""
    share = opened.share_held_out
    if share is None:
        return private, None
    hold_out = keep_hold_out(owner, private, share, opened.config.run.privacy.privacy_unit)
    return split(private, hold_out)


def _halves(rows: EmbeddedRows, seed: int) -> tuple[EmbeddedRows, EmbeddedRows | None]:
    """Records that steer and others that measure; all steer where there are few."""
    if len(rows.labels) < _FEW_HELD_OUT:
        return rows, None
    order = np.random.default_rng(seed).permutation(len(rows.labels))
    # Class by class in a random order, every second one: both halves have all classes.
    order = order[np.argsort(rows.labels[order], kind="stable")]
    return rows.at(np.sort(order[::2])), rows.at(np.sort(order[1::2]))
