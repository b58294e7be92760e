"""What a selection reads, opened, and whatever does not fit refused before it is disclosed.

And who steers it, who calibrates its distances, and on whom its leak is measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.errors import ConfigError, SourceError
from understudy.core.ports import Source
from understudy.core.types import Shape
from understudy.data import open_source
from understudy.data.captions import with_captions
from understudy.data.encoded_images import RecordSource
from understudy.data.holdout import split
from understudy.data.labels import NO_LABELS, NoColumns
from understudy.methods.selection.base import SteeredSettings
from understudy.release.outputs import open_release
from understudy.release.provenance import (
    Provenance,
    made_of,
    provenance_of,
    provenance_of_model,
    provenance_of_role,
)
from understudy.run.held_out import keep_hold_out
from understudy.run.prepare import require_classes, require_same_kind
from understudy.run.selection.select_config import HELD_OUT_PART, SelectConfig
from understudy.run.selection.spaces import EmbeddedRows, Spaces
from understudy.run.shared_records import PublicInput, shared_count

_AT_ONCE = 512
_FEW_HELD_OUT = 32
"""Records of a reference that are not parted any more: all of them steer, none measures."""


@dataclass(frozen=True)
class Opened:
    """What a selection reads, opened and known to fit together.

    Attributes:
        config: What was asked.
        settings: Settings of the selection.
        candidates: All candidates.
        origin: Where they come from.
        names: What each candidate is called, for the owner's table.
        reference_origin: Where the reference comes from; None: the private records or none.
        others: Where the public images and the models come from, as far as that is stated.
        reference: Records that steer; None: the private ones, or the candidates themselves.
        private: The private dataset, in the candidates' shape; None without one.
        public: Public images that the space is whitened on; None: the candidates.
        spaces: The encoders.
    """

    config: SelectConfig
    settings: SteeredSettings
    candidates: Source
    origin: Provenance
    names: tuple[str, ...]
    reference_origin: Provenance | None
    reference: Source | None
    private: Source | None
    public: Source | None
    spaces: Spaces
    others: tuple[Provenance, ...] = ()

    @property
    def unproven(self) -> list[Source]:
        """Candidates and reference that count as private: nothing sound says that they are not."""
        pairs = (self.origin, self.candidates), (self.reference_origin, self.reference)
        return [
            source for origin, source in pairs if origin and source is not None and origin.unproven
        ]

    @property
    def inputs(self) -> list[PublicInput]:
        """Everything but the private dataset, to be compared with it and with the ledger."""
        roles = {
            "candidates": self.candidates,
            "--reference": self.reference,
            "--public": self.public,
        }
        measured = self.config.no_guarantee and not self.origin.declared_public
        return [
            PublicInput(
                role,
                source,
                recorded=any(source is one for one in self.unproven),
                measured=measured and source is self.candidates,
            )
            for role, source in roles.items()
            if source is not None
        ]

    @property
    def non_members(self) -> bool:
        """Whether the reference holds real records that are not private."""
        return self.reference_origin is not None and self.reference_origin.record is None

    @property
    def share_held_out(self) -> float | str | None:
        """The share of the private dataset that is set aside; None: nothing."""
        if self.private is None:
            return None
        return self.config.share_held_out(non_members=self.non_members)


def open_selection(config: SelectConfig) -> Opened:
    """Open everything, and refuse what does not fit, before anything is disclosed."""
    settings = config.chosen
    origin = provenance_of(config.candidates, declared_public=config.candidates_public)
    reference_origin = None
    if config.reference is not None and config.reference != HELD_OUT_PART:
        reference_origin = provenance_of(config.reference, "reference")
    models = ("encoder", config.encoder), ("penalty encoder", config.penalty_encoder)
    named = [
        None if config.public is None else provenance_of_role(config.public, "public"),
        *(None if name is None else provenance_of_model(name, role) for role, name in models),
        None if config.lpips is None else provenance_of_model(config.lpips, "perceptual distance"),
    ]
    others = tuple(one for one in named if one is not None)
    if config.form == "post-processing" and not config.no_guarantee:
        made_of(parts_of_release(origin, reference_origin, others))
    candidates = _open(config.candidates, origin, None, config)
    private, reference, public = _others(config, candidates, reference_origin)
    names = candidates.locations() if isinstance(candidates, RecordSource) else ()
    candidates = with_captions(candidates)
    if settings.reconstruction is None:
        settings = replace(settings, reconstruction=0.0 if private is None else 1.0)
    spaces = Spaces.load(candidates, config, penalised=settings.reconstruction != 0)
    opened = Opened(
        config,
        settings,
        candidates,
        origin,
        tuple(names),
        reference_origin,
        reference,
        private,
        public,
        spaces,
        others,
    )
    _require_non_members(opened)
    return opened


def _others(
    config: SelectConfig, candidates: Source, reference_origin: Provenance | None
) -> tuple[Source | None, Source | None, Source | None]:
    """The private dataset, the reference and the public images, each like the candidates."""
    images = candidates.kind == "images"
    like: dict[str, Any] = {"skip_bad": config.skip_bad}
    if images:
        like |= {"size": candidates.shape[:2], "channels": candidates.shape[2]}
        like["fit"] = config.fit
    private = reference = public = None
    if config.private is not None:
        private = open_source(
            config.private, unit=config.unit, label=config.label, classes=config.classes, **like
        )
        if config.unit is not None and not private.has_units:
            problem = f"has no column {config.unit!r} that says whose row it is"
            raise SourceError(problem, config.private)
    if reference_origin is not None:
        reference = _open(reference_origin.name, reference_origin, candidates.shape, config)
    if config.public is not None:
        public = open_source(config.public, label=NO_LABELS, **like)
    may_lack = config.classes is not None, reference_origin is not None
    if public is not None:
        require_same_kind(candidates, public)
    for other, counted in zip((private, reference), may_lack, strict=True):
        if other is not None:
            require_same_kind(candidates, other)
            require_classes(candidates, other, all_of_them=True)
            if counted:
                _require_records(other)
    return private, reference, public


def _require_records(source: Source) -> None:
    """Refuse a class that the proxy would be taught nothing of."""
    counts = np.zeros(len(source.classes), dtype=np.int64)
    for batch in source.batches(_AT_ONCE):
        counts += np.bincount(batch.labels, minlength=len(counts))
    empty = [name for name, count in zip(source.classes, counts, strict=True) if count == 0]
    if empty:
        raise SourceError(
            f"has no record of {', '.join(empty[:10])}, so no candidate of it could be told from "
            "another: leave the class out of the candidates, or add records",
            source.name,
        )


def _open(name: str, origin: Provenance, shape: Shape | None, config: SelectConfig) -> Source:
    """Candidates or a reference: a release, or a dataset with the private one's columns.

    Args:
        name: As the user named it.
        origin: The release that it is of, if it is.
        shape: That of the candidates; None: these are they.
        config: The columns.
    """
    if origin.place is not None and origin.record is not None:
        own = origin.record.image_shape
        if own is not None and shape is not None:
            own = shape
        elif own is not None and config.size is not None:
            own = (config.size, config.size, own[2])
        return open_release(origin.place, own)
    options: dict[str, Any] = {"skip_bad": config.skip_bad}
    if shape is None:
        options |= {"size": config.size, "fit": config.fit}
    elif len(shape) == 3:
        options |= {"size": (shape[0], shape[1]), "channels": shape[2], "fit": config.fit}
    try:
        return open_source(name, label=config.label, **options)
    except NoColumns:  # class folders, for one, name their classes themselves
        return open_source(name, **options)


def _require_non_members(opened: Opened) -> None:
    """Refuse penalties and references that there are no held-out records for."""
    if opened.private is None:
        return
    if opened.non_members:
        _require_others(opened)
    if opened.non_members or opened.share_held_out is not None:
        return
    if opened.settings.penalised:
        raise ConfigError(
            "a penalty is calibrated with records that are not private: leave out --hold-out 0, "
            "name some (--reference SOURCE), or take none (--set reconstruction=0)"
        )
    if opened.config.reference == HELD_OUT_PART:
        raise ConfigError("--reference held-out needs a part that is held out: --hold-out 20%")


def _require_others(opened: Opened) -> None:
    """Refuse a reference of real records that are candidates too, and one held-out part too many.

    (`require_no_shared_records` refuses private ones among them.)
    """
    if opened.share_held_out is not None:
        raise ConfigError(
            "the records of --reference are the held-out ones, half to calibrate distances and "
            "half to measure what leaks: leave out --hold-out"
        )
    if opened.reference is None:
        return
    shared = shared_count(opened.reference, opened.candidates)
    if shared:
        raise ConfigError(
            f"{shared:,} of {len(opened.reference):,} records of --reference "
            f"{opened.reference.name} are candidates too: a reference of real records is of "
            "others, on whom the leak is measured. Leave them out, or name other records. Nothing "
            "was spent or disclosed"
        )


def parts_of_release(
    origin: Provenance, reference: Provenance | None, others: Sequence[Provenance]
) -> list[tuple[str, Provenance]]:
    """What a release is made of without private data."""
    parts = [("candidates", origin)]
    if reference is not None:
        parts.append(("reference", reference))
    return [*parts, *((one.role, one) for one in others)]


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
