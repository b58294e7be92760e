"""JSON out and in: the reports for programs, and records from the files that a run left."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from understudy.core.errors import ConfigError, InputError, RunError
from understudy.core.results import EVALUATION_SCHEMA, Evaluation
from understudy.core.types import Receipt
from understudy.report import verdict_table
from understudy.report.comparison import release_facts
from understudy.report.record import BudgetState, ModelScore, OwnerRecord, Recall, RunRecord
from understudy.report.statement import PRIVACY_SCHEMA, jsonable, privacy_json

_LARGEST = 1e100  # of a guarantee's numbers, whose squares are taken
_MOST_STEPS, _MOST_SAMPLED = 10**6, 64  # a hundred times those of `finetuning`
_MOST_MU, _MOST_DIVERGENCE = 50.0, 1e4  # of stages of samples: losses beyond fill the memory

REPORT_SCHEMA = "understudy-report/1"  # name and version of the form


def public_json(record: RunRecord) -> dict[str, Any]:
    """What the public page says."""
    return {
        "schema": REPORT_SCHEMA,
        "kind": "public",
        "verdicts": [
            asdict(verdict_table.guarantee_card(record.receipt, (), record.private_samples)),
            asdict(verdict_table.quality_card(record)),
        ],
        "privacy": privacy_json(record),
    }


def owner_json(record: RunRecord, owner: OwnerRecord) -> dict[str, Any]:
    """What the owner's page says. For the owner only."""
    cards = verdict_table.cards(record, owner)
    return {
        "schema": REPORT_SCHEMA,
        "kind": "owner-only",
        "verdicts": [asdict(card) for card in cards],
        "privacy": privacy_json(record),
        "dataset": owner.dataset,
        "rows": owner.rows,
        "skipped": owner.skipped,
        "spending": None if owner.spending is None else asdict(owner.spending),
        "budget_from": owner.budget_from,
        "accuracy": [asdict(score) for score in owner.scores],
        "evaluation": None if owner.evaluation is None else owner.evaluation.as_dict(),
        "nearest_pairs": None
        if owner.pairs is None
        else {name: jsonable(getattr(owner.pairs, name)) for name in ("how", "distances", "rows")},
        "releases": [jsonable(release_facts(one)) for one in owner.releases],
        "seconds": dict(owner.seconds),
    }


def read_record(content: Mapping[str, Any]) -> RunRecord:
    """The public facts of a run from the content of ``privacy.json``.

    Options and facts come back as JSON values; every document made of the record is the same.

    Raises:
        RunError: Another form, or a part of it is missing.
    """
    if content.get("schema") != PRIVACY_SCHEMA:
        raise RunError(
            f"privacy.json has the schema {content.get('schema')!r}, not {PRIVACY_SCHEMA!r}: it "
            "was written by another version of Understudy, or by another program"
        )
    from pydantic import ValidationError

    from understudy.report.json_models import PrivacyFile, first_fault

    try:
        json.dumps(content, allow_nan=False, ensure_ascii=False).encode()
    except ValueError as error:  # one half of a letter, too
        raise RunError("privacy.json: holds numbers that are not finite, or no text") from error
    try:
        record = PrivacyFile.model_validate(content).record()
    except ConfigError as error:
        raise RunError(f"privacy.json: {error}") from error
    except ValidationError as error:
        raise RunError(
            f"privacy.json is not whole ({first_fault(error)}): restore it from a copy"
        ) from error
    if not record.unprotected:
        _require_bounded(record.receipt)
    return record


def _require_bounded(receipt: Receipt) -> None:
    """Refuse numbers of a guarantee that mean nothing, or could be composed for hours."""
    numbers = [receipt.epsilon, receipt.delta, receipt.slack]
    numbers += [n for one in receipt.stages for n in (one.sensitivity, one.sigma, one.mu)]
    if not all(0 <= number < _LARGEST for number in numbers):
        raise RunError("privacy.json: holds numbers that are negative or beyond measure")
    if not all(0 < one.rate <= 1 <= one.steps and one.share > 0 for one in receipt.stages):
        raise RunError("privacy.json: has a stage of a rate, steps or a share that no stage has")
    sampled = [one for one in receipt.stages if one.sampled]
    divergence = math.fsum(one.steps * one.rate * one.mu**2 for one in sampled)
    if (
        sum(one.steps for one in sampled) > _MOST_STEPS
        or divergence > _MOST_DIVERGENCE
        or any(one.mu > _MOST_MU for one in sampled)
        or len(sampled) > _MOST_SAMPLED
    ):
        raise RunError(
            f"privacy.json: has stages of samples beyond {_MOST_STEPS:,} steps in all, "
            f"{_MOST_SAMPLED} stages or an epsilon of thousands: their guarantee is not computed"
        )


def read_evaluation(content: Mapping[str, Any]) -> Evaluation:
    """What `Evaluation.as_dict` wrote, or an `InputError`."""
    if content.get("schema") != EVALUATION_SCHEMA:
        raise InputError(
            f"an evaluation has the schema {EVALUATION_SCHEMA!r}, found "
            f"{content.get('schema')!r}: evaluate the release again"
        )
    from pydantic import ValidationError

    from understudy.report.json_models import EvaluationFile, first_fault

    try:
        return EvaluationFile.model_validate(content).evaluation()
    except ValidationError as error:
        raise InputError(
            f"this is no evaluation ({first_fault(error)}): evaluate the release again"
        ) from error


def read_owner(content: Mapping[str, Any]) -> OwnerRecord:
    """The owner's facts from ``run.json``, without images; a `RunError` where a part is missing."""
    try:
        return OwnerRecord(
            dataset=content.get("dataset") or content["settings"]["source"],
            rows=content["rows"],
            skipped=content["skipped"],
            spending=None if content["spending"] is None else BudgetState(**content["spending"]),
            scores=tuple(map(read_score, content.get("accuracy", ()))),
            seconds=content["seconds"],
            notes=tuple(content.get("notes", ())),
        )
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise RunError(f"run.json is not whole ({error}): restore it from a copy") from error


def read_score(entry: Mapping[str, Any]) -> ModelScore:
    """Means over the seeds of one network's results on the real test split.

    ``entry`` is one of ``accuracy`` in ``run.json``: ``model``, and under ``synthetic`` and
    ``real`` the results of every seed.
    """
    release, real = entry["synthetic"], entry["real"]
    counts = [sum(line) for line in release[0]["confusion"]]
    recalls = [
        Recall(label, _mean(release, label), _mean(real, label))
        for label, recall in release[0]["per_class"].items()
        if recall is not None
    ]
    balanced = [fmean(one["balanced"] for one in side) for side in (release, real)]
    plain = [fmean(one["accuracy"] for one in side) for side in (release, real)]
    return ModelScore(
        entry["model"],
        balanced[0],
        balanced[1],
        accuracy=plain[0],
        accuracy_real=plain[1],
        majority_balanced=1 / len(recalls),
        majority=max(counts) / sum(counts) if counts else None,
        recalls=tuple(sorted(recalls, key=lambda one: one.synthetic)),
        released=entry.get("released", False),
    )


def _mean(results: Sequence[Mapping[str, Any]], label: str) -> float:
    return fmean(one["per_class"][label] for one in results)
