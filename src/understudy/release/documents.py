"""The papers of a run: the release's own, which are public, and the owner's report."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any

from understudy.core.files import write_whole
from understudy.core.ports import Source
from understudy.core.types import Fit, Images, Receipt, Release
from understudy.core.version import understudy_version
from understudy.data.labels import NO_LABELS, label_column_of
from understudy.data.names import UNLABELLED_NAME
from understudy.data.open_source import CONTACT_SHEET
from understudy.data.reading_options import window_premise
from understudy.privacy.ledger.ledger import Dataset, Ledger
from understudy.release.checksums import write_checksums
from understudy.release.galleries import contact_sheet_of, sheets, write_gallery
from understudy.release.outputs import RunFolder, open_release, write_json
from understudy.release.provenance import Provenance
from understudy.report import (
    BudgetState,
    ModelRecord,
    OwnerRecord,
    Premise,
    PublicQuality,
    RunRecord,
    Scatter,
    StatedTotal,
    owner_report,
    public_documents,
    scatter_of,
)
from understudy.report.scatter import POINTS
from understudy.run.accuracy import Accuracy, utility_of_scores
from understudy.run.config import RunConfig
from understudy.run.prepare import Prepared

OPTIONS = {
    "class names": "--classes",
    "label column": "--label",
    "image size": "--size",
    "colour channels": "--channels",
    "intensity window": "SOURCE?window=CENTRE,WIDTH",
    "epsilon": "--epsilon NUMBER",
}
"""The option that declares each premise; the length of embeddings has none."""


def declaring_options(premises: Sequence[Premise]) -> list[str]:
    """The options that declare what is inferred as it is, as they are typed."""
    words: list[str] = []
    for premise in premises:
        value, flag = premise.value, OPTIONS.get(premise.name)
        if premise.origin == "declared" or flag is None:
            continue
        if premise.name == "image size":
            height, width = value
            value = height if height == width else "N"
        elif premise.name == "class names" and len(value) > 1:
            if any("," in name for name in value):
                continue  # the option cannot say them
            value = ",".join(value)
        elif premise.name == "class names":
            flag, value = OPTIONS["label column"], NO_LABELS
        elif premise.name not in ("label column", "colour channels"):
            value = ""
        words.append(f"{flag} {shlex.quote(str(value))}" if value != "" else flag)
    return list(dict.fromkeys(words))


ONE_CLASS = (
    "nothing in the dataset says what the class is, so it is one class, 'all'; --label none says "
    "that this is meant"
)
"""The note on a dataset without labels that nobody declared to be without."""


def run_record(
    prepared: Prepared,
    release: Release,
    receipt: Receipt,
    facts: Mapping[str, Any],
    quality: PublicQuality | None = None,
) -> RunRecord:
    """The public facts of a run."""
    config = prepared.config
    models = [
        ModelRecord(role.replace("_", " "), model.name, model.licence)
        for role, model in prepared.context.models.items()
    ]
    origins = prepared.origins
    released = [one for one in origins if one.record is not None or one.role == "candidates"]
    given = {f"{one.role}_guarantee": one.guarantee for one in released}
    private = {one.role for one in origins if one.guarantee != "no private data"}
    public = [(role, getattr(prepared, role)) for role in ("public", "base", "contrast")]
    public += [("candidates", prepared.candidates)]
    for record in (one.record for one in released if one.record is not None):
        models += [model for model in record.models if model not in models]
    return RunRecord(
        method=release.method,
        receipt=receipt,
        classes=release.classes,
        count=release.count,
        format=config.format if release.image_shape else "embeddings",
        version=understudy_version(),
        date=datetime.now(UTC).date().isoformat(),
        params=asdict(prepared.params),
        image_shape=release.image_shape,
        dim=release.dim,
        models=tuple(models),
        public_sources=tuple(
            source.name for role, source in public if source is not None and role not in private
        ),
        facts={**release.facts, **facts, **given},
        how=prepared.method.summary,
        licence=config.licence,
        contact=config.contact or "",
        quality=quality,
        premises=(
            *premises_of_run(prepared),
            *stated_premises(origins),
        ),
    )


def stated_premises(origins: Sequence[Provenance]) -> list[Premise]:
    """What is taken for public of everything that entered a run, each once."""
    premises: list[Premise] = []
    for one in origins:
        premises += [premise for premise in one.premises if premise not in premises]
    return premises


def is_unlabelled(source: Source, config: RunConfig) -> bool:
    """Whether a dataset was taken for one class, and nobody declared that."""
    return source.classes == UNLABELLED_NAME and config.label != NO_LABELS


def premises_of(source: Source, config: RunConfig) -> tuple[Premise, ...]:
    """Everything about the private dataset that steers a run without noise, by where it is from.

    The guarantee takes all of it for public. What no option declares is called inferred, also
    where a schema or a header says it: those are part of the private dataset.
    """
    unlabelled = config.label == NO_LABELS
    by_name = unlabelled or config.classes is not None
    premises = [Premise.of("class names", list(source.classes), declared=by_name)]
    column = label_column_of(source)
    if column is not None or unlabelled or source.classes == UNLABELLED_NAME:
        declared = config.label is not None
        premises.append(Premise.of("label column", column or NO_LABELS, declared=declared))
    if source.kind == "embeddings":
        return (*premises, Premise.of("embedding length", source.shape[0], declared=False))
    height, width, channels = source.shape
    size, colour = config.size is not None, config.channels is not None
    premises.append(Premise.of("image size", [height, width], declared=size))
    premises.append(Premise.of("colour channels", channels, declared=colour))
    if (window := window_premise(source)) is not None:
        premises.append(Premise.of("intensity window", window[0], declared=window[1]))
    if config.fit != "stretch":
        premises.append(Premise.of("image fit", config.fit, declared=True))
    return tuple(premises)


def premises_of_run(prepared: Prepared) -> tuple[Premise, ...]:
    """`premises_of` a run, and what follows from them: its codec; and an epsilon of the ledger."""
    premises = premises_of(prepared.source, prepared.config)
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


def write_release_documents(
    release: Path, record: RunRecord, sums: Mapping[str, str] = MappingProxyType({})
) -> None:
    """The dataset card, the privacy statement and ``privacy.json``; the checksums, which end it.

    Args:
        release: Its folder.
        record: What it says of itself.
        sums: Checksums of files that this process wrote (`write_release`).
    """
    for name, text in public_documents(record).items():
        (release / name).write_text(text, encoding="utf-8")
    write_checksums(release, sums)


def write_contact_sheet(folder: RunFolder, synthetic: Mapping[int, Images]) -> Path:
    """A contact sheet of the release, a row a class, beside it."""
    path = folder.out / CONTACT_SHEET
    path.write_bytes(contact_sheet_of(synthetic))
    return path


def spending(ledger: Ledger, dataset_id: str) -> BudgetState:
    """The dataset's budget and what is left of it.

    Raises:
        LedgerError: The ledger does not know it.
    """
    current = ledger.find(dataset_id)
    spent = ledger.spent(current.id)
    total = None if current.budget is None else current.budget.epsilon
    remaining = ledger.next_run(current.id)
    return BudgetState(total, spent.delta, spent.epsilon, remaining, len(spent.disclosures))


def stated_total(ledger: Ledger, dataset_id: str) -> StatedTotal:
    """What all releases of a dataset come to, for the documents of a release."""
    spent = ledger.spent(dataset_id)
    return StatedTotal(spent.epsilon, spent.delta, len(spent.runs), len(spent.disclosures))


@dataclass(frozen=True, slots=True)
class Charged:
    """Where a run was charged, and how the dataset stands after it.

    Attributes:
        ledger: Address of the ledger.
        dataset: The dataset's id in it.
        spending: What is spent and left.
    """

    ledger: str
    dataset: str
    spending: BudgetState


def write_owner(
    folder: RunFolder,
    prepared: Prepared,
    record: RunRecord,
    charged: Charged,
    accuracies: Sequence[Accuracy],
    synthetic: Mapping[int, Images] | None,
    seconds: Mapping[str, float],
    fits: Sequence[Fit] = (),
) -> None:
    """The owner's report, its gallery, and ``run.json``, which says that the run is complete."""
    from understudy.release.run_file import AccuracyRecord, RecordFacts, RunFile  # imports pydantic

    source, context = prepared.source, prepared.context
    scores = tuple(one.score for one in accuracies)
    owner = OwnerRecord(
        dataset=source.name,
        rows=len(source),
        skipped=source.skipped,
        spending=charged.spending,
        scores=scores,
        utility=utility_of_scores(scores),
        sheets=sheets(source, synthetic) if synthetic is not None else (),
        seconds=seconds,
        scatter=release_scatter(folder.release, record),
    )
    if owner.sheets:
        write_gallery(folder.owner, owner.sheets)
    write_whole(folder.owner / "report.html", owner_report(record, owner).encode())
    content = RunFile(
        run=folder.run,
        dataset=owner.dataset,
        dataset_id=charged.dataset,
        ledger=charged.ledger,
        settings=prepared.config.identity(),
        premises=list(record.premises),
        receipt=None if record.unprotected else record.receipt,
        spending=charged.spending,
        accuracy=[AccuracyRecord.model_validate(one.as_dict()) for one in accuracies],
        rows=owner.rows,
        rows_held_out=prepared.rows_held_out,
        skipped=owner.skipped,
        seconds=dict(seconds),
        fit=list(fits),
        records=RecordFacts(
            kind=source.kind,
            shape=context.shape,
            classes=context.classes,
            phrases=context.phrases,
        ),
        version=record.version,
    )
    write_json(folder.record, content.as_dict())


def release_scatter(release: Path, record: RunRecord) -> Scatter | None:
    """The embeddings of a release as points; None where it holds images."""
    if record.image_shape is not None:
        return None
    source = open_release(release, None)
    batch = next(source.batches(POINTS))
    return scatter_of(batch.values, batch.labels, record.classes)


def warnings_of(
    concerned: Sequence[Dataset],
    facts: Mapping[str, Any],
    *,
    unlabelled: bool,
) -> tuple[str, ...]:
    """What the owner should know after a run; the plan said the rest before it."""
    warnings = [ONE_CLASS] if unlabelled else []
    if concerned:
        names = ", ".join(dataset.name for dataset in concerned)
        warnings.append(
            f"this run was charged to {names} too: half or more of the records are shared"
        )
    if (votes := facts.get("votes_per_candidate")) is not None:
        noise_sd = facts["votes_noise_sd"]
        if votes < noise_sd / 2:
            warnings.append(
                f"the filter had {votes:.2g} votes for each candidate and noise of {noise_sd:.2g}: "
                "it chose nearly at random. It needs fewer samples (--count), a larger epsilon or "
                "more private records; filter=none leaves its budget to the mixture"
            )
        if below := facts["below_threshold"]:
            warnings.append(
                f"{below:,} samples are below the threshold of the filter: too few candidates "
                "reach it, and the most voted of the others make up the count of their class"
            )
    return tuple(warnings)
