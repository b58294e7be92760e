"""The papers of a release, and what of its run goes into them and into the owner's report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from understudy.core.types import Images
from understudy.data.open_source import CONTACT_SHEET
from understudy.privacy.ledger.ledger import Ledger
from understudy.release.checksums import write_checksums
from understudy.release.galleries import contact_sheet_of
from understudy.release.outputs import RunFolder, open_release
from understudy.release.provenance import Provenance
from understudy.report import (
    BudgetState,
    Premise,
    RunRecord,
    Scatter,
    StatedTotal,
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


def write_contact_sheet(folder: RunFolder, synthetic: Mapping[int, Images]) -> Path:
    """A contact sheet of the release, a row a class, beside it."""
    path = folder.out / CONTACT_SHEET
    path.write_bytes(contact_sheet_of(synthetic))
    return path


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


@dataclass(frozen=True, slots=True)
class Charged:
    """Where a run was charged, and how the dataset stands after it."""

    ledger: str
    dataset: str
    spending: BudgetState


def release_scatter(release: Path, record: RunRecord) -> Scatter | None:
    """The embeddings of a release as points; None where it holds images."""
    if record.image_shape is not None:
        return None
    source = open_release(release, None)
    batch = next(source.batches(POINTS))
    return scatter_of(batch.values, batch.labels, record.classes)
