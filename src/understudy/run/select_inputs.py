"""What a selection without noise reads, opened, and whatever does not fit refused before that.

And who steers it, who calibrates its distances, and on whom its leak is measured.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.core.errors import ConfigError, SourceError
from understudy.core.ports import Source
from understudy.core.types import Shape
from understudy.data import open_source
from understudy.data.captions import with_captions
from understudy.data.encoded_images import RecordSource
from understudy.data.labels import NO_LABELS
from understudy.methods.base import Context
from understudy.privacy.budget_plan import Plan
from understudy.release.outputs import open_release
from understudy.release.provenance import Provenance, made_of, origins_of, provenance_of
from understudy.run.prepare import Prepared, open_labelled, require_classes, require_same_kind
from understudy.run.safeguards import require_apart
from understudy.run.select_config import HELD_OUT_PART, SelectConfig
from understudy.run.select_spaces import EmbeddedRows, Spaces
from understudy.run.shared_records import PublicInput, shared_count

_AT_ONCE = 512
_FEW_HELD_OUT = 32
"""Records of a reference that are not parted any more: all of them steer, none measures."""


@dataclass(frozen=True, kw_only=True)
class PreparedSelection(Prepared):
    """A selection without noise that is ready to start; ``source``: private, or the candidates.

    Attributes:
        pool: The candidates.
        names: What each candidate is called, for the owner's table.
        reference: Records that steer; None: the private ones, or the candidates themselves.
        spaces: What rows are compared in.
        non_members: Whether the reference holds real records that are not private.
    """

    select: SelectConfig
    pool: Source
    names: tuple[str, ...]
    reference: Source | None
    spaces: Spaces
    non_members: bool

    @property
    def unproven(self) -> list[Source]:
        """Candidates and reference that count as private: nothing sound says that they are not."""
        roles = {one.role for one in self.origins if one.unproven}
        sources = {"candidates": self.pool, "reference": self.reference}
        return [one for role, one in sources.items() if role in roles and one is not None]

    @property
    def settings(self) -> dict[str, Any]:
        """What was asked of a selection, as JSON values."""
        return self.select.identity()

    @property
    def compared(self) -> list[PublicInput]:
        """Everything but the private dataset, to be compared with it and with the ledger."""
        inputs = {"candidates": self.pool, "--reference": self.reference, "--public": self.public}
        is_measured = self.select.no_guarantee and not self.declared_public
        return [
            PublicInput(
                role,
                source,
                recorded=any(source is one for one in self.unproven),
                measured=is_measured and source is self.pool,
            )
            for role, source in inputs.items()
            if source is not None
        ]

    @property
    def declared_public(self) -> bool:
        """Whether the owner says that no private image had a part in the candidates."""
        return self.origin is not None and self.origin.declared_public


def prepare_selection(config: SelectConfig) -> PreparedSelection:
    """Open everything, and refuse what does not fit, before anything is disclosed."""
    run = config.run
    if config.private is not None:
        require_apart(config.private, run.output.out)
    require_apart(config.candidates, run.output.out, "dataset of the candidates")
    reference_origin = None
    if config.reference is not None and config.reference != HELD_OUT_PART:
        reference_origin = provenance_of(config.reference, "reference")
    origins = _origins(config, reference_origin)
    candidates = _open(config.candidates, origins[0], None, config)
    if config.form == "post-processing" and not config.no_guarantee:
        made_of([(one.role, one) for one in origins])
    private, reference, public = _others(config, candidates, reference_origin)
    names = candidates.locations() if isinstance(candidates, RecordSource) else ()
    candidates = with_captions(candidates)
    params = config.openly.settle(config.params, private is not None)
    spaces = Spaces.load(candidates, config, by_distance=params.by_distance)
    non_members = reference_origin is not None and reference_origin.record is None
    share = config.share_held_out(non_members=non_members)
    prepared = PreparedSelection(
        run.changed(hold_out=share),
        config.method,
        params,
        Plan(run.privacy.budget, {"nothing is asked through a vault": 1.0}),
        source=candidates if private is None else private,
        test=None,
        public=public,
        base=None,
        contrast=None,
        candidates=candidates,
        context=Context(
            candidates.shape,
            public=public is not None,
            mu=0.0,
            classes=candidates.classes,
            encoder=spaces.proxy,
        ),
        released_shape=candidates.shape if candidates.kind == "images" else None,
        origins=origins,
        private=private is not None,
        select=config,
        pool=candidates,
        names=tuple(names),
        reference=reference,
        spaces=spaces,
        non_members=non_members,
    )
    _require_non_members(prepared)
    return prepared


def _origins(config: SelectConfig, reference: Provenance | None) -> tuple[Provenance, ...]:
    """Where the candidates, the reference, the public images and the models come from."""
    roles = config.run.models.roles
    names = {
        "candidates": config.candidates,
        "public": roles.get("public"),
        "encoder": roles.get("encoder"),
        "penalty encoder": config.penalty_encoder,
        "perceptual distance": config.lpips,
    }
    first, *others = origins_of(names, None, config.run.models.candidates_public, None)
    return (first, *([] if reference is None else [reference]), *others)


def _others(
    config: SelectConfig, candidates: Source, reference_origin: Provenance | None
) -> tuple[Source | None, Source | None, Source | None]:
    """The private dataset, the reference and the public images, each like the candidates."""
    data, unit = config.run.data, config.run.privacy.unit_column
    like: dict[str, Any] = {"skip_bad": data.skip_bad}
    if candidates.kind == "images":
        like |= {"size": candidates.shape[:2], "channels": candidates.shape[2], "fit": data.fit}
    private = reference = public = None
    if config.private is not None:
        private = open_source(
            config.private, unit=unit, label=data.label, classes=data.classes, **like
        )
        if unit is not None and not private.has_units:
            problem = f"has no column {unit!r} that says whose row it is"
            raise SourceError(problem, config.private)
    if reference_origin is not None:
        reference = _open(reference_origin.name, reference_origin, candidates.shape, config)
    if (public_name := config.run.models.roles.get("public")) is not None:
        public = open_source(public_name, label=NO_LABELS, **like)
    may_lack = data.classes is not None, reference_origin is not None
    if public is not None:
        require_same_kind(candidates, public)
    for other, is_counted in zip((private, reference), may_lack, strict=True):
        if other is not None:
            require_same_kind(candidates, other)
            require_classes(candidates, other, all_of_them=True)
            if is_counted:
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
    """Candidates, or a reference of their shape: a release, or a dataset with the same columns."""
    data = config.run.data
    if origin.place is not None and origin.record is not None:
        own = origin.record.image_shape
        if own is not None and shape is not None:
            own = shape
        elif own is not None:
            size = own[:2] if data.size is None else (data.size, data.size)
            own = (*size, data.channels or own[2])
        return open_release(origin.place, own)
    options: dict[str, Any] = {"skip_bad": data.skip_bad}
    if shape is None:
        options |= {"size": data.size, "fit": data.fit, "channels": data.channels}
    elif len(shape) == 3:
        options |= {"size": (shape[0], shape[1]), "channels": shape[2], "fit": data.fit}
    return open_labelled(name, label=data.label, **options)


def _require_non_members(prepared: PreparedSelection) -> None:
    """Refuse penalties without records to calibrate them, and references that are candidates."""
    config, share = prepared.select, prepared.config.privacy.hold_out
    reference = prepared.reference
    if not prepared.private:
        return
    if prepared.non_members and share is not None:
        raise ConfigError(
            "the records of --reference are the held-out ones, half to calibrate distances and "
            "half to measure what leaks: leave out --hold-out"
        )
    if prepared.non_members and reference is not None:
        overlap = shared_count(reference, prepared.pool)
        if overlap:
            raise ConfigError(
                f"{overlap:,} of {len(reference):,} records of --reference {reference.name} are "
                "candidates too: a reference of real records is of others, on whom the leak is "
                "measured. Leave them out, or name other records. Nothing was spent or disclosed"
            )
    if prepared.non_members or share is not None:
        return
    if prepared.params.penalised:
        raise ConfigError(
            "a penalty is calibrated with records that are not private: leave out --hold-out 0, "
            f"name some (--reference SOURCE), or take none ({config.openly.unpenalised})"
        )
    if config.reference == HELD_OUT_PART:
        raise ConfigError("--reference held-out needs a part that is held out: --hold-out 20%")


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


def steering_of(
    prepared: PreparedSelection,
    held_out: Source | None,
    candidates: EmbeddedRows,
    embedded: Callable[[Source], EmbeddedRows],
) -> Steering:
    """The reference, the private records, and those that are not among them.

    Args:
        prepared: The datasets, the private one without what is held out of it.
        held_out: That; None: nothing is.
        candidates: What steers where neither private records nor a reference do.
        embedded: The rows of a dataset in the spaces.
    """
    reference = None if prepared.reference is None else embedded(prepared.reference)
    if not prepared.private:
        return Steering(reference or candidates)
    members = embedded(prepared.source)
    if prepared.non_members and reference is not None:
        # Half of the reference steers and calibrates, half measures.
        reference, measured = _halves(reference, prepared.config.output.seed)
        return Steering(reference, members, reference, measured)
    calibrating = None if held_out is None else embedded(held_out)
    if prepared.select.reference == HELD_OUT_PART:
        reference = calibrating
    return Steering(reference or members, members, calibrating, None, calibrating)


def _halves(rows: EmbeddedRows, seed: int) -> tuple[EmbeddedRows, EmbeddedRows | None]:
    """Records that steer and others that measure; all steer where there are few."""
    if len(rows.labels) < _FEW_HELD_OUT:
        return rows, None
    order = np.random.default_rng(seed).permutation(len(rows.labels))
    # Class by class in a random order, every second one: both halves have all classes.
    order = order[np.argsort(rows.labels[order], kind="stable")]
    return rows.at(np.sort(order[::2])), rows.at(np.sort(order[1::2]))
