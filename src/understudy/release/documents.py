"""The papers of a release, and what of its run goes into them and into the owner's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from understudy.core.files import write_whole
from understudy.data.open_source import CONTACT_SHEET
from understudy.privacy.ledger.ledger import Ledger
from understudy.release.checksums import write_checksums
from understudy.release.galleries import Pools, contact_sheet_of, release_pools, write_gallery
from understudy.release.outputs import RunFolder, open_release, write_json
from understudy.release.provenance import Provenance
from understudy.report import (
    BudgetState,
    OwnerRecord,
    Premise,
    RunRecord,
    Scatter,
    StatedTotal,
    owner_report,
    public_documents,
    scatter_of,
)
from understudy.report.scatter import POINTS


def stated_premises(origins: Sequence[Provenance]) -> list[Premise]:
    """What is taken for public of everything that entered a run, each once."""
    premises: list[Premise] = []
    for one in origins:
        premises += [premise for premise in one.premises if premise not in premises]
    return premises


def write_release_documents(
    release: Path, record: RunRecord, sums: Mapping[str, str] = MappingProxyType({})
) -> None:
    """The dataset card, the privacy statement and ``privacy.json``; the checksums, which end it."""
    for name, text in public_documents(record).items():
        (release / name).write_text(text, encoding="utf-8")
    write_checksums(release, sums)


def publish(folder: RunFolder, record: RunRecord, sums: Mapping[str, str]) -> Pools | None:
    """Write the documents of a release, give it its name, and its contact sheet beside it.

    Returns:
        Some of its images by their class; None of embeddings.
    """
    write_release_documents(folder.draft, record, sums)
    folder.publish()
    if record.image_shape is None:
        return None
    images = release_pools(open_release(folder.release, record.image_shape), record.classes)
    (folder.out / CONTACT_SHEET).write_bytes(contact_sheet_of(images))
    return images


def write_owner(folder: RunFolder, record: RunRecord, owner: OwnerRecord, **more: Any) -> None:
    """The owner's report, its gallery, and ``run.json``, which says that the run is complete.

    Args:
        folder: Of the run, its release written.
        record: What the release says of itself.
        owner: What is for the owner alone.
        more: Fields of `understudy.release.run_file.RunFile` that these do not say.
    """
    from understudy.release.run_file import RunFile  # imports pydantic

    owner = replace(owner, scatter=release_scatter(folder.release, record))
    if owner.sheets:
        write_gallery(folder.owner, owner.sheets)
    write_whole(folder.owner / "report.html", owner_report(record, owner).encode())
    content = RunFile(
        run=folder.run,
        dataset=owner.dataset,
        premises=list(record.premises),
        receipt=None if record.unprotected else record.receipt,
        spending=owner.spending,
        rows=owner.rows,
        skipped=owner.skipped,
        seconds=dict(owner.seconds),
        notes=list(owner.notes),
        version=record.version,
        **more,
    )
    write_json(folder.record, content.as_dict())


def spending(ledger: Ledger, dataset_id: str) -> BudgetState:
    """The dataset's budget and what is left of it."""
    current = ledger.find(dataset_id)
    spent = ledger.spent(current.id)
    total = None if current.budget is None else current.budget.epsilon
    remaining = ledger.next_run(current.id)
    return BudgetState(total, spent.delta, spent.epsilon, remaining, len(spent.disclosures))


def stated_total(ledger: Ledger, dataset_id: str) -> StatedTotal:
    """What all releases of a dataset come to, for the documents of a release."""
    spent = ledger.spent(dataset_id)
    # What was sent to the host of a model is no release; each release states its own hosts.
    unprotected = [one for one in spent.disclosures if "remote models" not in one.details]
    return StatedTotal(spent.epsilon, spent.delta, len(spent.runs), len(unprotected))


def release_scatter(release: Path, record: RunRecord) -> Scatter | None:
    """The embeddings of a release as points; None where it holds images."""
    if record.image_shape is not None:
        return None
    source = open_release(release, None)
    batch = next(source.batches(POINTS))
    return scatter_of(batch.values, batch.labels, record.classes)
