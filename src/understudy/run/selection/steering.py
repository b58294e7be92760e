"""Who steers a selection, who calibrates its distances, and on whom its leak is measured."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from understudy.core.errors import SourceError
from understudy.core.ports import Source
from understudy.core.types import Embeddings
from understudy.data.holdout import HoldOut, split
from understudy.run.held_out import keep_hold_out
from understudy.run.selection.select_config import HELD_OUT_PART
from understudy.run.selection.select_inputs import Opened
from understudy.run.selection.spaces import EmbeddedRows

_FEW_HELD_OUT = 16
"""Held-out records that are not parted any more: all of them calibrate, none measures."""


@dataclass(frozen=True)
class Steering:
    """What steers a selection, embedded.

    Attributes:
        reference: What the proxy is to do well on.
        members: The private records that take part; None without private data.
        calibrating: Records that are not among them, by which distances are calibrated.
        measured: (h, D) others of their pool in the proxy's space, which steer nothing: the attack
            is measured on them.
        rows_held_out: Private records that were set aside.
    """

    reference: EmbeddedRows
    members: EmbeddedRows | None = None
    calibrating: EmbeddedRows | None = None
    measured: Embeddings | None = None
    rows_held_out: int = 0


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
    private, held_out, last = _parts(opened, opened.private, owner)
    members = embedded(private)
    calibrating, others = (None if one is None else embedded(one) for one in (held_out, last))
    aside = sum(len(one.labels) for one in (calibrating, others) if one is not None)
    measured = None if others is None else others.proxy
    if opened.non_members and reference is not None:
        if calibrating is None:  # half of the reference steers and calibrates, half measures
            reference, measured = _halves(reference, opened.config.seed)
            return Steering(reference, members, reference, measured)
        parts = [one.proxy for one in (calibrating, others) if one is not None]
        return Steering(reference, members, reference, np.concatenate(parts), aside)
    if opened.config.reference == HELD_OUT_PART:
        reference = calibrating
    return Steering(reference or members, members, calibrating, measured, aside)


def _parts(
    opened: Opened, private: Source, owner: Path
) -> tuple[Source, Source | None, Source | None]:
    """The members, and the two halves of what is held out; None where nothing is."""
    asked = opened.share_held_out
    if asked is None:
        return private, None, None
    hold_out = keep_hold_out(owner, private, asked, opened.config.run.privacy_unit)
    members, held_out = split(private, hold_out)
    if len(held_out) < _FEW_HELD_OUT:
        return members, held_out, None
    key = hashlib.blake2b(hold_out.key, digest_size=32, person=b"measured").digest()
    try:
        return members, *split(held_out, HoldOut(key, 0.5, hold_out.unit))
    except SourceError:  # one unit has all of them
        return members, held_out, None


def _halves(rows: EmbeddedRows, seed: int) -> tuple[EmbeddedRows, Embeddings | None]:
    """Records that steer and others that measure; all steer where there are few."""
    if len(rows.labels) < _FEW_HELD_OUT:
        return rows, None
    order = np.random.default_rng(seed).permutation(len(rows.labels))
    # Class by class in a random order, every second one: both halves have all classes.
    order = order[np.argsort(rows.labels[order], kind="stable")]
    return rows.at(np.sort(order[::2])), rows.proxy[np.sort(order[1::2])]
