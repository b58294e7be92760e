"""Results as text on a terminal."""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.cli.printing import console as _console
from understudy.cli.printing import table as _table
from understudy.core.option import declared_options, option_of
from understudy.core.roles import flag_of

if TYPE_CHECKING:  # importing them takes a second, which every command would pay
    from understudy.backends.registry import BackendInfo
    from understudy.core.types import Receipt
    from understudy.methods.base import Method
    from understudy.methods.clustering.capacity import Carried
    from understudy.planning.doctor import Check
    from understudy.planning.dry import RunPlan, StagePlan
    from understudy.release.runs import RunSummary
    from understudy.release.verify import Verification
    from understudy.report import Premise
    from understudy.run.accuracy import Accuracy
    from understudy.run.books import DatasetAccount
    from understudy.run.run_result import Result
    from understudy.run.sample import BaseSet, Samples


def plan_alone(dry: RunPlan) -> None:
    """The plan of a run that is not to begin."""
    plan(dry)
    if dry.refused:
        _console.print(f"the run would be refused: {dry.refused}")
    _console.print("dry run: nothing was spent")


def plan(dry: RunPlan) -> None:
    """What a run is about to do and to spend."""
    costs(dry)
    capacity_table(dry.carried)
    _console.print("settings: " + ", ".join(f"{k}={v}" for k, v in dry.settings.items()))
    premises(dry.premises)
    if dry.held_out is not None:
        held = f"{dry.held_out:.3g}" if isinstance(dry.held_out, float) else dry.held_out
        _console.print(f"held out: {held} of the {dry.unit}s, each by a secret coin of its own")
    for note in dry.notes:
        _console.print(f"note: {note}")
    for role, sampling in dry.sampling.items():
        _console.print(f"{role}: {sampling}")
    for fit in dry.fits:
        chance = "" if fit.chance is None else f" ({fit.chance:.1%} by chance)"
        _console.print(f"fit: {fit.measure}: {fit.value:.1%}{chance}")
        if fit.warning is not None:
            _console.print(f"note: {fit.warning}")


def costs(dry: RunPlan) -> None:
    """What a run would spend, stage by stage, and how its dataset would stand after it."""
    from understudy.report.meaning import unit_in_words

    _console.print(f"{dry.method}: epsilon {dry.epsilon:g}, delta {dry.delta:g}, mu {dry.mu:.4f}")
    _console.print(f"unit: {unit_in_words(dry.unit)}; adjacency: {dry.adjacency}")
    table = _table("stage", "share", "noise / sensitivity")
    for name, stage in _folded(dry.stages):
        table.add_row(name, f"{stage.share:.3f}", f"{stage.noise:.3f}")
    _console.print(table)
    name = dry.dataset or "this dataset, new to the ledger"
    total = "no total set" if dry.budget is None else f"total epsilon {dry.budget:g}"
    _console.print(
        f"ledger: {name}: {total}, spent {dry.spent:.4f}, after this run {dry.after:.4f} "
        f"(at delta {dry.at_delta:g})"
    )
    if dry.concerned:
        _console.print(f"charged too, for they share records: {', '.join(dry.concerned)}")


def _folded(stages: Sequence[StagePlan]) -> Iterator[tuple[str, StagePlan]]:
    """Stages and their names; numbered ones that cost the same are one, if three or more."""

    def kind(stage: StagePlan) -> tuple[str, float, float]:
        return re.sub(r" \d+$", " ", stage.name), stage.share, stage.noise

    for (words, *_), alike in itertools.groupby(stages, key=kind):
        first, *others = alike
        if len(others) > 1 and words.endswith(" "):
            yield f"{first.name} to {others[-1].name.removeprefix(words)}, each", first
        else:
            yield from ((stage.name, stage) for stage in (first, *others))


def premises(assumptions: Sequence[Premise]) -> None:
    """What a run takes for public of the private dataset, by where it is from."""
    from understudy.release.documents import declaring_options

    for origin, words in (
        ("declared", "declared"),
        ("inferred", "inferred from the private records"),
    ):
        of_origin = [premise for premise in assumptions if premise.origin == origin]
        if of_origin:
            listed = "; ".join(f"{premise.name} {_short(premise.value)}" for premise in of_origin)
            _console.print(f"{words}: {listed}")
    if options := declaring_options(assumptions):
        _console.print(f"not covered unless it is declared: {' '.join(options)}")


def _short(value: object) -> str:
    """A JSON value in a few words; numbers are a size."""
    if isinstance(value, list) and all(isinstance(part, int) for part in value):
        return " x ".join(map(str, value))
    names = [str(part) for part in value] if isinstance(value, list) else [str(value)]
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")


def capacity_table(classes: Sequence[Carried]) -> None:
    """What classes of several sizes can carry at this epsilon; nothing where that is not known."""
    if not classes:
        return
    table = _table(
        "a class of about", "size known within", "mean", "clusters", "covariance of its own"
    )
    for carried in classes:
        table.add_row(
            f"{carried.size:,} images",
            f"{carried.size_sd:.0f}",
            "its own" if carried.own_mean else "near that of all",
            str(carried.clusters),
            _directions(carried),
        )
    _console.print(table)


def _directions(carried: Carried) -> str:
    """Directions of a covariance in a plan."""
    if not carried.directions:
        return "none: the pooled one"
    return f"{carried.directions}{' or more' if carried.or_more else ''} directions"


def class_shares(facts: Mapping[str, Any]) -> None:
    """What each class of a release got, where its facts say so."""
    if "clusters_per_class" not in facts:
        return
    table = _table("class", "size (DP)", "mean", "clusters", "covariance of its own")
    for name, size in facts["class_sizes"].items():
        directions = facts["own_directions_per_class"][name]
        table.add_row(
            name,
            f"{size:,} within {facts['class_size_noise']:.0f}",
            "its own" if facts["own_mean_per_class"][name] else "that of all",
            str(facts["clusters_per_class"][name]),
            f"{directions} directions" if directions else "none: the pooled one",
        )
    _console.print(table)


def result(run_result: Result) -> None:
    """What a run made."""
    _console.print(_guarantee(run_result.receipt))
    if (copies := run_result.copies) is not None:
        _console.print(
            f"copies: of {copies.samples:,} rows {copies.exact:,} are exact copies of private "
            f"records, {copies.near:,} more are near-copies; stated in the release"
        )
        if not run_result.attacks:
            _console.print("leak: not measured: name held-out records (--reference SOURCE)")
    for attack in run_result.attacks:
        _console.print(
            f"{attack.subject}: an attacker by {attack.attack} names {attack.tpr[0]:.1%} of the "
            f"private records at 1 % false alarms (AUC {attack.auc[0]:.3f}); stated in the release"
        )
    class_shares(run_result.facts)
    for warning in run_result.warnings:
        _console.print(f"note: {warning}")
    if run_result.quality is not None:
        value, low, high = run_result.quality.balanced_accuracy
        _console.print(
            f"quality, published (DP): balanced accuracy {value:.1%} ({low:.1%} to {high:.1%}) on "
            f"the private records, by a {run_result.quality.classifier} trained on the release"
        )
    accuracies(run_result.accuracy)
    _console.print(f"to share:  {run_result.release}")
    if run_result.contact_sheet is not None:
        _console.print(f"pictures:  {run_result.contact_sheet}")
    _console.print(f"to keep:   {run_result.owner / 'report.html'}")


def verification(checked: Verification) -> None:
    """What was checked of a release, what is wrong, and what cannot be checked."""
    for fault in checked.faults:
        _console.print(f"WRONG: {fault}")
    record = checked.record
    if checked.sound and record is not None:
        _console.print(f"files:      {checked.files:,}, each as its hash says")
        computed = "" if not record.receipt.stages else ", computed anew from its stages"
        _console.print(f"guarantee:  {_guarantee(record.receipt)}{computed}")
        _console.print(f"licence:    {record.licence}")
        _console.print(f"contact:    {record.contact or 'not stated'}")
        if record.total is not None:
            total = record.total
            _console.print(
                f"in all:     epsilon {total.epsilon:.4g} at delta {total.delta:g} by "
                f"{total.releases} runs, as the owner states"
            )
        _console.print(f"signed by:  {checked.signed_by or 'nobody'}")
    _console.print("cannot be checked from outside:")
    for line in checked.unverified:
        _console.print(f"- {line}")
    count = len(checked.faults)
    words = f"NOT sound: {count} fault{'' if count == 1 else 's'}" if count else "sound"
    _console.print(f"{checked.release}: {words}")


def _guarantee(receipt: Receipt) -> str:
    """The guarantee of a release in a line."""
    from understudy.report.meaning import unit_in_words

    if receipt.epsilon == float("inf"):
        return "no guarantee: private images steered this without noise; no epsilon stands for it"
    if receipt.unit == "none":
        return "no private data was used"
    inherited = sum(bool(stage.origin) for stage in receipt.stages)
    words = (
        f"epsilon {receipt.epsilon:g}, delta {receipt.delta:g}, "
        f"unit: {unit_in_words(receipt.unit)}, adjacency: {receipt.adjacency}"
    )
    if not inherited:
        return words
    return f"{words}; {inherited} of {len(receipt.stages)} stages were paid for by other releases"


def run_list(runs: Sequence[RunSummary]) -> None:
    """Runs, one a line, and how to go on with those that are not finished."""
    table = _table("folder", "state", "method", "dataset", "epsilon", "samples", "date")
    for run in runs:
        table.add_row(
            str(run.folder),
            run.state,
            run.method or "",
            run.dataset or "",
            _epsilon(run),
            "" if run.samples is None else f"{run.samples:,}",
            run.date or "",
        )
    if not runs:
        _console.print("no runs here: understudy runs FOLDER")
        return
    _console.print(table)
    for run in runs:
        if run.problem is not None:
            _console.print(f"damaged: {run.problem}")
    if any(run.state == "unfinished" for run in runs):
        _console.print(
            "go on with an unfinished run: the same command with --resume; what it paid for is "
            "not paid again"
        )


def _epsilon(run: RunSummary) -> str:
    """The epsilon of a run, or the kind of its guarantee where it has none."""
    if run.guarantee == "none":
        return "no guarantee"
    if run.guarantee == "no private data":
        return "no private data"
    return "" if run.epsilon is None else f"{run.epsilon:g}"


def accuracies(measurements: Sequence[Accuracy]) -> None:
    """Balanced accuracies with what stands beside them, marked as the owner's own."""
    if not measurements:
        return
    columns = "release", "real data", "majority class"
    table = _table("on real test data (owner only), trained on", *columns)
    for score in (accuracy.score for accuracy in measurements):
        lowest = score.recalls[0]
        table.add_row(f"{score.model}:", style="dim")
        for words, *values in (
            ("  balanced accuracy", score.synthetic, score.real, score.majority_balanced),
            ("  accuracy", score.accuracy, score.accuracy_real, score.majority),
            (f"  lowest recall: {lowest.label}", lowest.synthetic, lowest.real, None),
        ):
            table.add_row(words, *("" if value is None else f"{value:.1%}" for value in values))
    _console.print(table)
    from understudy.metrics.verdicts import sampling_loss
    from understudy.run.accuracy import evaluation_of_scores

    evaluation = evaluation_of_scores([accuracy.score for accuracy in measurements])
    if loss := sampling_loss(evaluation.values if evaluation else ()).strip():
        _console.print(f"owner only: {loss}")


def method_table(methods: Mapping[str, Method]) -> None:
    """The methods with their settings."""
    from understudy.methods.base import AUTO
    from understudy.run.codec_rules import rules_in_words

    for method in methods.values():
        _console.print(f"{method.name}: {method.summary} ({method.source})")
        roles = method.roles(method.params(), frozenset())
        listed = (f"{flag_of(role)} ({default or 'none'})" for role, default in roles.items())
        _console.print(f"  takes, and by default works with: {', '.join(listed)}")
        if AUTO in roles.values():
            _console.print(f"  {AUTO}: {rules_in_words()}")
        table = _table("  --set", "default", "meaning")
        declared = declared_options(method.params)
        for field in dataclasses.fields(method.params):
            default = "" if field.default is dataclasses.MISSING else str(field.default)
            table.add_row(f"  {field.name}", default, option_of(declared[field.name]).help)
        _console.print(table)


def backend_table(backends: Sequence[BackendInfo]) -> None:
    """The backends."""
    table = _table("name", "makes", "needs", "what")
    for info in backends:
        needs = "ready" if info.available else f"pip install 'understudy[{info.extra}]'"
        table.add_row(info.name, info.kind, needs, info.what)
    _console.print(table)


def checks(findings: Sequence[Check]) -> None:
    """The findings of a check-up."""
    table = _table("", "what", "found")
    for check in findings:
        table.add_row("ok" if check.good else "!!", check.name, check.finding)
    _console.print(table)


def _total(entry: DatasetAccount) -> str:
    budget = entry.dataset.budget
    return "none set" if budget is None else f"{budget.epsilon:g}"


def _next_run(entry: DatasetAccount) -> str:
    """The largest run that the ledger would accept now."""
    if entry.next_run is None:
        return "any: no budget is set"
    return f"{entry.next_run:g}" if entry.next_run else "none: used up"


def datasets(entries: Sequence[DatasetAccount]) -> None:
    """Every dataset of a ledger."""
    disclosed = ["disclosures"] if any(entry.spent.disclosures for entry in entries) else []
    columns = ("id", "dataset", "budget", "spent", "next run at most", "delta", "runs", "unit")
    table = _table(*columns, *disclosed)
    for entry in entries:
        spent = entry.spent
        table.add_row(
            entry.dataset.id,
            entry.dataset.name,
            _total(entry),
            f"{spent.epsilon:.4f}",
            _next_run(entry),
            f"{spent.delta:g}",
            str(len(spent.runs)),
            entry.dataset.unit or "",
            *([str(len(spent.disclosures))] if disclosed else []),
        )
    _console.print(table)
    if disclosed:
        _console.print("disclosures: releases without a guarantee, which no epsilon covers")


def dataset_charges(entry: DatasetAccount) -> None:
    """One dataset with every row."""
    datasets([entry])
    if entry.next_run:
        _console.print(f"the largest next run: epsilon {entry.next_run:g} more, as one run")
        _console.print("(--epsilon rest; runs compose to less than the sum of their epsilons)")
    if entry.concerned:
        names = ", ".join(f"{other.name} ({other.id})" for other in entry.concerned)
        _console.print(f"shares records with, so that a run on it is charged to them too: {names}")
    table = _table("row", "time", "what", "run", "stage", "event")
    for row in entry.rows:
        event = row.data.get("event") or {
            k: row.data[k] for k in ("epsilon", "delta") if k in row.data
        }
        words = " ".join(f"{k}={v:.4g}" for k, v in event.items() if isinstance(v, float))
        words = words or str(row.data.get("what", "")) or _measured(row.data.get("details", {}))
        table.add_row(
            str(row.seq),
            row.time,
            row.kind,
            str(row.data.get("run", ""))[:8],
            str(row.data.get("stage", "")),
            words,
        )
    _console.print(table)


def budget_set(entry: DatasetAccount) -> None:
    """A new total."""
    _console.print(
        f"{entry.dataset.name}: total epsilon {_total(entry)} at delta {entry.spent.delta:g}, "
        f"spent {entry.spent.epsilon:.4f} ({entry.ledger})"
    )
    if entry.dataset.budget and entry.spent.epsilon > entry.dataset.budget.epsilon:
        _console.print("more than that is spent already: every further run will be refused")
    if entry.spent.disclosures:
        _console.print(f"and {_disclosures(len(entry.spent.disclosures))} that no epsilon covers")


def _measured(details: Mapping[str, Any]) -> str:
    """What was measured of a selection, in a few words; empty where nothing was."""
    words = []
    if copies := details.get("copies"):
        words.append(f"copies: {copies['exact']:,} exact, {copies['near']:,} near")
    attacks = details.get("attacks")
    if isinstance(attacks, str):
        words.append(f"leak: {attacks}")
    elif attacks:
        words.append(f"leak: {max(attack['tpr'][0] for attack in attacks):.1%} named")
    return "; ".join(words)


def _disclosures(count: int) -> str:
    return f"{count:,} disclosure{'' if count == 1 else 's'}"


def ledger_findings(findings: Sequence[str]) -> None:
    """What is wrong with a ledger."""
    for finding in findings:
        _console.print(finding)
    if not findings:
        _console.print("every row is as it was written")


def studio(stages: Sequence[str], out: Path) -> None:
    """A studio that was trained."""
    _console.print(f"trained: {', '.join(stages)}")
    _console.print(f"use it:  embedded:studio?folder={out}")


def exported(path: Path) -> None:
    """Something that was written."""
    _console.print(f"written: {path}")


def axes(file: Path, images: int) -> None:
    """Axes of public images that were written."""
    _console.print(f"axes of {images:,} public images: {file}")


def drawn_images(samples: Samples) -> None:
    """Pictures that were drawn."""
    _console.print(f"pictures: {len(samples.image_paths)} in {samples.sheet.parent}")
    _console.print(f"sheet:    {samples.sheet}")


def base_set_summary(base: BaseSet) -> None:
    """A release of a generator alone."""
    _console.print(f"{base.count:,} images, no private data was used")
    _console.print(f"to share:  {base.release}")
    _console.print(f"pictures:  {base.contact_sheet}")
