"""The release of a selection, the owner's table, and the documents of both."""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from understudy.core.files import owner_file, write_whole
from understudy.core.types import Receipt, Release, Vector
from understudy.core.version import understudy_version
from understudy.methods.selection.algorithm import Selection
from understudy.methods.selection.candidate_set import CandidateSet
from understudy.release.documents import (
    Charged,
    release_scatter,
    stated_premises,
    write_contact_sheet,
    write_release_documents,
)
from understudy.release.galleries import release_pools, sheets, write_gallery
from understudy.release.outputs import RunFolder, open_release, write_json
from understudy.release.provenance import made_of
from understudy.report import ModelRecord, OwnerRecord, RunRecord, owner_report
from understudy.report.meaning import NO_GUARANTEE
from understudy.run.run_record import premises_of
from understudy.run.run_result import Result
from understudy.run.selection.select_config import METHOD
from understudy.run.selection.select_inputs import Opened, parts_of_release
from understudy.run.selection.selection_leak import Leak
from understudy.run.selection.spaces import EmbeddedRows

_UNPROVEN = (
    "rows of a set of images, chosen as those on which a model trains best; nothing sound says "
    "that no private image had a part in them, so they count as private images, released as they "
    "are without noise"
)
_HOW = {
    "no guarantee": "rows of a set of candidates, chosen as those on which a model trains best for "
    "records that steered the choice without noise, less a penalty for what is near to private "
    "images",
    "post-processing": "rows of a release, chosen as those on which a model trains best for rows "
    "of a release; no private data was read",
}
TABLE = "selection.csv"
"""In the owner's folder: each candidate, its weight, its score and its distance."""


def release_of(opened: Opened, candidates: EmbeddedRows, chosen: Selection) -> Release:
    """The selected candidates in their order: images or embeddings, labels and captions.

    Args:
        opened: The source of the candidates.
        candidates: Their labels.
        chosen: Which are selected.
    """
    kinds = {"candidates_guarantee": opened.origin.guarantee}
    if opened.reference_origin is not None:
        kinds["reference_guarantee"] = opened.reference_origin.guarantee
    candidate_set = CandidateSet(opened.candidates, candidates.proxy, candidates.labels)
    return candidate_set.release(opened.candidates.classes, chosen.indices, METHOD, kinds)


def write_candidates(
    owner: Path,
    opened: Opened,
    candidates: EmbeddedRows,
    chosen: Selection,
    distances: Vector | None,
) -> None:
    """Write the owner's table: each candidate with its weight, its score and its distance.

    Args:
        owner: The owner's folder.
        opened: The names of the candidates.
        candidates: Their labels.
        chosen: Their weights and scores, and which are released.
        distances: (M,) calibrated; None where there are none.
    """
    classes = opened.candidates.classes
    samples = {int(row): number for number, row in enumerate(chosen.indices)}
    with owner_file(owner / TABLE, "w") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerow(["candidate", "class", "sample", "gamma", "score", "distance"])
        for row, label in enumerate(candidates.labels.tolist()):
            name = opened.names[row] if opened.names else f"row {row}"
            weights = f"{chosen.gamma[row]:.6g}", f"{chosen.scores[row]:.6g}"
            distance = "" if distances is None else f"{distances[row]:.6g}"
            lines.writerow([name, classes[label], samples.get(row, ""), *weights, distance])


def record_of(
    opened: Opened,
    release: Release,
    facts: Mapping[str, Any],
    leak: Leak,
) -> RunRecord:
    """The public facts of a selection.

    Args:
        opened: What was read.
        release: What was selected.
        facts: More public facts of it.
        leak: What was measured of it, where there is no guarantee.
    """
    config = opened.config
    record = opened.origin.record
    receipt = _receipt(opened)
    premises = [] if opened.private is None else [*premises_of(opened.private, config.run.data)]
    parts = opened.origin, opened.reference_origin, *opened.others
    stated = stated_premises([part for part in parts if part is not None])
    premises += [one for one in stated if one not in premises]
    licence = config.licence
    if licence == "unknown" and record is not None:
        licence = record.licence
    return RunRecord(
        method=METHOD,
        receipt=receipt,
        classes=release.classes,
        count=release.count,
        format=config.format if release.image_shape else "embeddings",
        version=understudy_version(),
        date=datetime.now(UTC).date().isoformat(),
        params={"keep": config.keep, **asdict(opened.settings), "seed": config.seed},
        image_shape=release.image_shape,
        dim=release.dim,
        models=_models(opened),
        public_sources=_public_sources(opened),
        facts={**release.facts, **facts},
        how=_UNPROVEN if opened.private is None and opened.unproven else _HOW[config.form],
        licence=licence,
        contact="" if record is None else record.contact,
        premises=tuple(premises),
        attacks=leak.attacks,
        copies=leak.copies,
    )


def _receipt(opened: Opened) -> Receipt:
    if opened.private is not None:
        return NO_GUARANTEE
    parts = parts_of_release(opened.origin, opened.reference_origin, opened.others)
    if any(part.unproven for _, part in parts):
        return NO_GUARANTEE
    return made_of(parts)


def _models(opened: Opened) -> tuple[ModelRecord, ...]:
    """What rows are compared by, and the models that the candidates were made with."""
    spaces = opened.spaces
    models = {
        "encoder": spaces.proxy,
        "penalty encoder": spaces.distance,
        "perceptual distance": spaces.perceptual,
    }
    own = [
        ModelRecord(role, model.name, model.licence)
        for role, model in models.items()
        if model is not None
    ]
    record = opened.origin.record
    return (*own, *(one for one in (record.models if record else ()) if one not in own))


def _public_sources(opened: Opened) -> tuple[str, ...]:
    record = opened.origin.record
    names = [*(record.public_sources if record else ())]
    private = [one for one in opened.others if one.guarantee != "no private data"]
    if opened.public is not None and all(one.role != "public" for one in private):
        names.append(opened.public.name)
    if opened.origin.declared_public:
        names.append(opened.candidates.name)
    return tuple(dict.fromkeys(names))


def write_documents(
    opened: Opened,
    folder: RunFolder,
    release: Release,
    record: RunRecord,
    *,
    seconds: Mapping[str, float],
    rows_held_out: int,
    charged: Charged | None,
) -> Result:
    """The documents of the release and of the owner; ``run.json``, which ends the run, last."""
    from understudy.release.run_file import RunFile  # imports pydantic

    write_release_documents(folder.draft, record)
    folder.publish()
    images = None
    if release.image_shape is not None:
        images = release_pools(open_release(folder.release, release.image_shape), release.classes)
    contact_sheet = None if images is None else write_contact_sheet(folder, images)
    private = opened.private
    owner = OwnerRecord(
        dataset=opened.origin.name if private is None else private.name,
        rows=0 if private is None else len(private) - rows_held_out,
        skipped=(private or opened.candidates).skipped,
        spending=None if charged is None else charged.spending,
        sheets=() if private is None or images is None else sheets(private, images),
        seconds=seconds,
        scatter=release_scatter(folder.release, record),
    )
    if owner.sheets:
        write_gallery(folder.owner, owner.sheets)
    write_whole(folder.owner / "report.html", owner_report(record, owner).encode())
    content = RunFile(
        run=folder.run,
        dataset=owner.dataset,
        dataset_id=None if charged is None else charged.dataset,
        ledger=None if charged is None else charged.ledger,
        settings=opened.config.identity(),
        premises=list(record.premises),
        receipt=None if record.unprotected else record.receipt,
        spending=owner.spending,
        rows=owner.rows,
        rows_held_out=rows_held_out,
        skipped=owner.skipped,
        seconds=dict(seconds),
        version=record.version,
    )
    write_json(folder.record, content.as_dict())
    return Result(
        folder.release,
        folder.owner,
        record.receipt,
        record.facts,
        (),
        seconds,
        contact_sheet,
        attacks=record.attacks,
        copies=record.copies,
    )
