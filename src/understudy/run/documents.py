"""The papers of a run: the release's own, which are public, and the owner's report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.ports import Source
from understudy.core.types import Fit, Images, Labels, Receipt, Release
from understudy.data.open_source import CONTACT_SHEET
from understudy.privacy.ledger.ledger import Ledger
from understudy.report import (
    BudgetState,
    ModelRecord,
    OwnerRecord,
    RunRecord,
    Sheet,
    contact_sheet,
    owner_report,
    public_documents,
)
from understudy.run.accuracy import Accuracy
from understudy.run.premises import premises_of
from understudy.run.prepare import Prepared
from understudy.run.run_folder import RunFolder, read_arrays, write_arrays, write_json

_SHEET = 16  # images of a class on each side of the contact sheet


def understudy_version() -> str:
    """The installed version, or ``"unknown"`` when run from a bare source tree."""
    try:
        return version("understudy")
    except PackageNotFoundError:
        return "unknown"


def run_record(
    prepared: Prepared, release: Release, receipt: Receipt, facts: Mapping[str, Any]
) -> RunRecord:
    """The public facts of a run."""
    config = prepared.config
    models = [
        ModelRecord(role.replace("_", " "), model.name, model.licence)
        for role, model in prepared.context.models.items()
    ]
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
            source.name for source in (prepared.public, prepared.base) if source is not None
        ),
        facts={**release.facts, **facts},
        how=prepared.method.summary,
        licence=config.licence,
        premises=premises_of(prepared.source, config),
    )


def write_public(folder: RunFolder, record: RunRecord) -> None:
    """The dataset card, the privacy statement and ``privacy.json``, into the release."""
    for name, text in public_documents(record).items():
        (folder.release / name).write_text(text, encoding="utf-8")


def write_pictures(folder: RunFolder, synthetic: Mapping[int, Images]) -> Path:
    """A contact sheet of the release, a row a class, beside it."""
    path = folder.out / CONTACT_SHEET
    path.write_bytes(contact_sheet_of(synthetic))
    return path


def contact_sheet_of(synthetic: Mapping[int, Images]) -> bytes:
    """A contact sheet as a PNG, a row a class."""
    columns = min(_SHEET, min(len(images) for images in synthetic.values()))
    images = np.concatenate([synthetic[label][:columns] for label in sorted(synthetic)])
    return contact_sheet(images, columns)


def spending(ledger: Ledger, dataset_id: str) -> BudgetState:
    """The dataset's budget and what is left of it.

    Raises:
        LedgerError: The ledger does not know it.
    """
    current = ledger.find(dataset_id)
    spent = ledger.spent(current.id)
    total = None if current.budget is None else current.budget.epsilon
    left = None if total is None else max(0.0, total - spent.epsilon)
    return BudgetState(total, spent.delta, spent.epsilon, left)


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
    source = prepared.source
    owner = OwnerRecord(
        dataset=source.name,
        rows=len(source),
        skipped=source.skipped,
        spending=charged.spending,
        scores=tuple(one.score for one in accuracies),
        sheets=sheets(source, synthetic) if synthetic is not None else (),
        seconds=seconds,
    )
    if owner.sheets:
        write_gallery(folder.owner, owner.sheets)
    (folder.owner / "report.html").write_text(owner_report(record, owner), encoding="utf-8")
    write_json(
        folder.owner / "run.json",
        {
            "run": folder.run,
            "dataset": owner.dataset,
            "dataset_id": charged.dataset,
            "ledger": charged.ledger,
            "settings": prepared.config.identity(),
            "premises": [asdict(premise) for premise in record.premises],
            "receipt": asdict(record.receipt),
            "spending": asdict(charged.spending),
            "accuracy": [a.as_dict() for a in accuracies],
            "rows": owner.rows,
            "rows_held_out": prepared.rows_held_out,
            "skipped": owner.skipped,
            "seconds": dict(seconds),
            "fit": [asdict(fit) for fit in fits],
            "version": record.version,
            "kind": "owner-only",
        },
    )


def write_gallery(owner: Path, found: Sequence[Sheet]) -> None:
    """Keep a gallery, so that the report can be written anew without the private dataset."""
    sides = {"real": [s.real for s in found], "synthetic": [s.synthetic for s in found]}
    arrays: dict[str, Any] = {"names": np.array([sheet.name for sheet in found])}
    for side, images in sides.items():
        arrays[side] = np.concatenate(images)
        arrays[f"{side}_of"] = np.repeat(np.arange(len(found)), [len(part) for part in images])
    write_arrays(owner / "gallery.npz", arrays)


def read_gallery(owner: Path) -> tuple[Sheet, ...]:
    """The gallery that was kept; empty where there is none."""
    path = owner / "gallery.npz"
    if not path.is_file():
        return ()
    kept = read_arrays(path)
    return tuple(
        Sheet(
            str(name),
            kept["real"][kept["real_of"] == index],
            kept["synthetic"][kept["synthetic_of"] == index],
        )
        for index, name in enumerate(kept["names"])
    )


def sheets(real: Source, synthetic: Mapping[int, Images]) -> tuple[Sheet, ...]:
    """A few images of each class, real beside synthetic."""
    pairs = ((batch.labels, batch.values) for batch in real.batches(512))
    left = first_of_each(pairs, len(real.classes))
    empty: Images = np.zeros((0, *real.shape), dtype=np.uint8)
    return tuple(
        Sheet(name, left.get(index, empty), synthetic.get(index, empty))
        for index, name in enumerate(real.classes)
    )


def synthetic_sample(release: Release) -> dict[int, Images]:
    """The first few synthetic images of each class, by label."""
    pairs = ((batch.labels, batch.images) for batch in release.batches())
    return first_of_each(
        ((labels, images) for labels, images in pairs if images is not None), len(release.classes)
    )


def first_of_each(pairs: Iterable[tuple[Labels, Images]], classes: int) -> dict[int, Images]:
    """The first few images of each class; stops reading once every class has them."""
    kept: dict[int, list[Images]] = {}
    for labels, images in pairs:
        for label in np.unique(labels).tolist():
            mine = kept.setdefault(label, [])
            missing = _SHEET - sum(map(len, mine))
            if missing > 0:
                mine.append(images[labels == label][:missing])
        if len(kept) >= classes and all(sum(map(len, k)) >= _SHEET for k in kept.values()):
            break
    return {label: np.concatenate(parts) for label, parts in kept.items()}
