"""What a run says of itself: its public facts, what they take for public, and the owner's files."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from understudy.core.option import list_of_names
from understudy.core.ports import Source
from understudy.core.types import Receipt, Release
from understudy.core.version import understudy_version
from understudy.data.labels import NO_LABELS, label_column_of
from understudy.data.names import UNLABELLED_NAME
from understudy.data.reading_options import window_premise
from understudy.release.documents import stated_premises
from understudy.report import ModelRecord, Premise, RunRecord
from understudy.run.config import DataOptions
from understudy.run.prepare import Prepared
from understudy.run.remote_run import disclosed_to

OPTIONS = {
    "class names": "--classes",
    "label column": "--label",
    "image size": "--size",
    "colour channels": "--channels",
    "image fit": "--fit",
    "intensity window": "SOURCE?window=CENTRE,WIDTH",
    "epsilon": "--epsilon NUMBER",
}
"""The option that declares each premise; the length of embeddings has none."""


def declaring_options(premises: Sequence[Premise]) -> list[str]:
    """The options that declare what is inferred as it is, as they are typed."""
    return options_of([one for one in premises if one.origin != "declared"])


def options_of(premises: Sequence[Premise]) -> list[str]:
    """The options that declare premises, wherever each is from, as they are typed."""
    words: list[str] = []
    for premise in premises:
        value, flag = premise.value, OPTIONS.get(premise.name)
        if flag is None:
            continue
        if premise.name == "image size":
            height, width = value
            value = height if height == width else "N"
        elif premise.name == "class names" and len(value) > 1:
            value = list_of_names(value)
        elif premise.name == "class names":
            flag, value = OPTIONS["label column"], NO_LABELS
        elif premise.name not in ("label column", "colour channels", "image fit"):
            value = ""
        words.append(f"{flag} {shlex.quote(str(value))}" if value != "" else flag)
    return list(dict.fromkeys(words))


ONE_CLASS = (
    "nothing in the dataset says what the class is, so it is one class, 'all'; --label none says "
    "that this is meant"
)
"""The note on a dataset without labels that nobody declared to be without."""


def run_record(
    prepared: Prepared, release: Release, receipt: Receipt, facts: Mapping[str, Any]
) -> RunRecord:
    """The public facts of a run."""
    config = prepared.config
    hosts = disclosed_to(prepared.context)
    models = [
        ModelRecord.of(role, model, hosts.get(role))
        for role, model in prepared.context.models.items()
    ]
    origins = prepared.origins
    selected = ("candidates", "reference")
    released = [one for one in origins if one.record is not None or one.role in selected]
    guarantees = {f"{one.role}_guarantee": one.guarantee for one in released}
    private = {one.role for one in origins if one.guarantee != "no private data"}
    public = [(role, getattr(prepared, role)) for role in ("public", "base", "contrast")]
    public += [("candidates", prepared.candidates)]
    names = [one.name for role, one in public if one is not None and role not in private]
    licence, contact = config.output.licence, config.output.contact
    for one in released:
        if one.record is None:
            continue
        models += [model for model in one.record.models if model not in models]
        names = [*one.record.public_sources, *names]
        if one.role == "candidates":  # they are released as they are
            licence = one.record.licence if licence == "unknown" else licence
            contact = contact or one.record.contact
    premises = [*premises_of_run(prepared)]
    premises += [one for one in stated_premises(origins) if one not in premises]
    return RunRecord(
        method=release.method,
        receipt=receipt,
        classes=release.classes,
        count=release.count,
        format=config.output.format if release.image_shape else "embeddings",
        version=understudy_version(),
        date=datetime.now(UTC).date().isoformat(),
        params=asdict(prepared.params) if release.settings is None else release.settings,
        image_shape=release.image_shape,
        dim=release.dim,
        models=tuple(models),
        public_sources=tuple(dict.fromkeys(names)),
        facts={**release.facts, **facts, **guarantees},
        how=prepared.method.summary,
        licence=licence,
        contact=contact or "",
        premises=tuple(premises),
    )


def is_unlabelled(source: Source, data: DataOptions) -> bool:
    """Whether a dataset was taken for one class, and nobody declared that."""
    return source.classes == UNLABELLED_NAME and data.label != NO_LABELS


def premises_of(source: Source, data: DataOptions) -> tuple[Premise, ...]:
    """Everything about the private dataset that steers a run without noise, by where it is from.

    The guarantee takes all of it for public. What no option declares is called inferred, also
    where a schema or a header says it: those are part of the private dataset.
    """
    unlabelled = data.label == NO_LABELS
    by_name = unlabelled or data.classes is not None
    premises = [Premise.of("class names", list(source.classes), declared=by_name)]
    column = label_column_of(source)
    if column is not None or unlabelled or source.classes == UNLABELLED_NAME:
        declared = data.label is not None
        premises.append(Premise.of("label column", column or NO_LABELS, declared=declared))
    if source.kind == "embeddings":
        return (*premises, Premise.of("embedding length", source.shape[0], declared=False))
    height, width, channels = source.shape
    size, colour = data.size is not None, data.channels is not None
    premises.append(Premise.of("image size", [height, width], declared=size))
    premises.append(Premise.of("colour channels", channels, declared=colour))
    if (window := window_premise(source)) is not None:
        premises.append(Premise.of("intensity window", window[0], declared=window[1]))
    if data.fit != "stretch":
        premises.append(Premise.of("image fit", data.fit, declared=True))
    return tuple(premises)


def premises_of_run(prepared: Prepared) -> tuple[Premise, ...]:
    """`premises_of` a run, and what follows from them: its codec; and an epsilon of the ledger."""
    if not prepared.private:
        return ()
    premises = premises_of(prepared.source, prepared.config.data)
    origins = {premise.name: premise.origin for premise in premises}
    more: list[Premise] = []
    if prepared.codec is not None:
        declared = {origins.get("image size"), origins.get("colour channels")} == {"declared"}
        codec = prepared.codec.codec
        more.append(Premise.of("encoder and decoder by size", codec, declared=declared))
    if prepared.asked_epsilon is not None:
        what = f"{prepared.asked_epsilon} of the budget that the owner's ledger had left"
        more.append(Premise.of("epsilon", what, declared=False))
    return (*premises, *more)
