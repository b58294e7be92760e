"""A run on the terminal: its plan before the charge and what it made, in twelve lines or in all."""

from __future__ import annotations

import itertools
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer

from understudy.cli.printing import console as _console
from understudy.cli.printing import table as _table
from understudy.core.errors import Declined, count_words, listed

if TYPE_CHECKING:  # importing them takes a second, which every command would pay
    from understudy.core.remote_models import PlannedCalls
    from understudy.report import Premise
    from understudy.run.accuracy import Accuracy
    from understudy.run.run_plan import RunPlan, StagePlan
    from understudy.run.run_result import Result

_MOST_LINES, _MOST_NOTES = 12, 3
_NOTES_OF_PLAN = 2  # of these, at most so many before the charge
_LAST_LINES = 4  # where everything lies, and what is next


class RunPrinter:
    """Prints one run: the plan, which is confirmed on a terminal, and the result."""

    def __init__(self, *, yes: bool = False, verbose: bool = False) -> None:
        self.yes, self.verbose = yes, verbose
        self._lines, self._notes = 0, 0

    def confirm(self, plan: RunPlan) -> None:
        """Show a plan before its charge and, where somebody is there to answer, ask."""
        if self.verbose:
            whole_plan(plan)
        else:
            stages = count_words(len(plan.stages), "stage")
            self._print(f"plan:      {_budget_words(plan)}; {stages} (all of it: --verbose)")
            self._print(f"ledger:    {_ledger_words(plan)}")
            if plan.calls:
                self._print(f"requests:  {_all_calls(plan.calls)}")
            self._print_notes(plan.notes, _NOTES_OF_PLAN - bool(plan.calls))
        if self.yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
            return
        name = plan.dataset or "this dataset"
        try:
            answer = typer.confirm(f"Charge epsilon {plan.epsilon:g} to {name} for good?", err=True)
        except typer.Abort as abort:
            raise Declined from abort
        if not answer:
            raise Declined

    def _print(self, line: str) -> None:
        _console.print(line)
        self._lines += 1

    def _print_notes(self, notes: Sequence[str], most: int) -> int:
        """Print some notes, the first ones; how many were left out."""
        first = notes[:most]
        for note in first:
            self._print(f"note: {note}")
        self._notes += len(first)
        return len(notes) - len(first)

    def result(self, result: Result) -> None:
        """What a run made."""
        if self.verbose:
            whole_result(result)
            return
        from understudy.report.meaning import guarantee_words, is_unprotected

        elsewhere = any(stage.origin for stage in result.receipt.stages)
        uncharged = result.spending is None or elsewhere or is_unprotected(result.receipt)
        label = "guarantee:" if uncharged else "charged:  "
        self._print(
            f"{label} {guarantee_words(result.receipt, result.private_samples)}{_remaining(result)}"
        )
        sampler = f", drawn from {words}" if (words := result.facts.get("sampler")) else ""
        kind = "embeddings" if result.contact_sheet is None else "images"
        rows = result.facts.get("rows", 0)
        self._print(f"made:      {rows:,} synthetic {kind}{sampler}")
        for line in (*_selection_lines(result), *_quality_lines(result)):
            self._print(line)
        if result.accuracy:
            self._print(f"accuracy:  {_accuracy_words(result.accuracy)}")
        room = _MOST_LINES - _LAST_LINES - self._lines
        more = self._print_notes(result.warnings, max(0, min(room, _MOST_NOTES - self._notes)))
        others = f" (with {count_words(more, 'more note')})" if more else ""
        _places(result, others)
        _console.print(f"next:      {_evaluation(result)}")


def _places(result: Result, others: str = "") -> None:
    """Where everything lies; what else there is stands behind the report."""
    _console.print(f"to share:  {result.release}")
    if result.contact_sheet is not None:
        _console.print(f"images:    {result.contact_sheet}")
    _console.print(f"to keep:   {result.owner / 'report.html'}{others}")


def _evaluation(result: Result) -> str:
    """The command that measures it."""
    from understudy.run.held_out import is_test_held_out

    held_out = is_test_held_out(result.owner, unprotected=result.copies is not None)
    test = "" if held_out else " --test OTHER_REAL_RECORDS"
    return f"understudy evaluate {shlex.quote(str(result.folder))} --real SOURCE{test}"


def _remaining(result: Result) -> str:
    """What is left of the dataset's budget, in words."""
    spending = result.spending
    if spending is None:
        return ""
    if spending.epsilon is None:
        return f"; spent in all {spending.spent:.4g}, of no total budget"
    what = "nothing" if not spending.remaining else f"epsilon {spending.remaining:g} as one run"
    return f"; {what} remains of {spending.epsilon:g}"


def _selection_lines(result: Result) -> Iterator[str]:
    """What a selection without a guarantee tells of private records."""
    copies = result.copies
    if copies is not None and not copies.exact + copies.near:  # else a note says it
        yield f"copies: none of {copies.samples:,} rows is a copy or near-copy of a private record"
    if result.attacks:
        worst = max(result.attacks, key=lambda attack: attack.tpr[0])
        yield (
            f"{worst.subject}: an attacker by {worst.attack} names {worst.tpr[0]:.1%} of the "
            f"private records at 1 % false alarms (AUC {worst.auc[0]:.3f}); stated in the release"
        )


def _quality_lines(result: Result) -> Iterator[str]:
    if result.quality is not None:
        value, low, high = result.quality.balanced_accuracy
        yield (
            f"quality, published (DP): balanced accuracy {value:.1%} ({low:.1%} to {high:.1%}) on "
            f"the private records, by a {result.quality.classifier} trained on the release"
        )


def _accuracy_words(measurements: Sequence[Accuracy]) -> str:
    """Balanced accuracies on real test data in a line; they are the owner's own."""
    best = max((one.score for one in measurements), key=lambda score: score.synthetic)
    real = "" if best.real is None else f", {best.real:.1%} on real data"
    return f"{best.synthetic:.1%} balanced by a {best.model} on the release{real} (owner only)"


def plan_alone(dry: RunPlan) -> None:
    """The plan of a run that is not to begin."""
    whole_plan(dry)
    if dry.refused:
        _console.print(f"the run would be refused: {dry.refused}")
    _console.print("dry run: nothing was spent")


def whole_plan(dry: RunPlan) -> None:
    """All that is known of what a run is about to do and to spend."""
    costs(dry)
    if len({tuple(one.columns.values()) for one in dry.carried}) > 1:  # else of no use in a table
        table = _table("a class of about", *dry.carried[0].columns)
        for one in dry.carried:
            table.add_row(f"{one.size:,} images", *one.columns.values())
        _console.print(table)
    _console.print("settings: " + ", ".join(f"{k}={v}" for k, v in dry.settings.items()))
    _premises(dry.premises)
    if dry.held_out is not None:
        part = f"{dry.held_out:.3g}" if isinstance(dry.held_out, float) else dry.held_out
        _console.print(f"held out: {part} of the {dry.unit}s, each by a secret coin of its own")
    for note in dry.notes:
        _console.print(f"note: {note}")
    for role, sampling in dry.sampling.items():
        _console.print(f"{role}: {sampling}")
    for fit in dry.fits:
        chance = "" if fit.chance is None else f" ({fit.chance:.1%} by chance)"
        _console.print(f"fit: {fit.measure}: {fit.value:.1%}{chance}")


def costs(dry: RunPlan) -> None:
    """What a run would spend, stage by stage, and how its dataset would stand after it."""
    mu = "" if dry.mu is None else f"; mu {dry.mu:.4f}"
    _console.print(f"{_budget_words(dry)}{mu}")
    table = _table("stage", "share", "noise / sensitivity")
    for name, stage in _folded(dry.stages):
        table.add_row(name, f"{stage.share:.3f}", f"{stage.noise:.3f}")
    _console.print(table)
    _console.print(f"ledger: {_ledger_words(dry)}")
    _console.print(f"time: {dry.time.words}")
    for line in _call_lines(dry.calls):
        _console.print(line)


def _call_lines(calls: Sequence[PlannedCalls]) -> Iterator[str]:
    """What models that servers run are to be asked, and what it costs, a line each."""
    for one in calls:
        tokens = f", {one.tokens_in:,} tokens read and {one.tokens_out:,} written"
        tokens = tokens if one.tokens_in else ""
        cost = "no price is stated" if one.cost is None else f"cost {one.cost:.2f}"
        yield f"requests to {one.host} ({one.role}): about {one.calls:,}{tokens}; {cost}"


def _all_calls(calls: Sequence[PlannedCalls]) -> str:
    """What those of all roles come to, in a line."""
    hosts = ", ".join(dict.fromkeys(one.host for one in calls))
    priced = [one.cost for one in calls if one.cost is not None]
    cost = f"cost {sum(priced):.2f}" if len(priced) == len(calls) else "not all have a price"
    return f"about {sum(one.calls for one in calls):,} to {hosts}; {cost}"


def _budget_words(dry: RunPlan) -> str:
    return (
        f"{dry.method}: epsilon {dry.epsilon:g}, delta {dry.delta:g}, "
        f"unit: {dry.unit_words}, adjacency: {dry.adjacency}"
    )


def _ledger_words(dry: RunPlan) -> str:
    name = dry.dataset or "this dataset, new to the ledger"
    total = "no total set" if dry.budget is None else f"total epsilon {dry.budget:g}"
    words = (
        f"{name}: {total}, spent {dry.spent:.4f}, after this run {dry.after:.4f} "
        f"(at delta {dry.at_delta:g})"
    )
    if not dry.concerned:
        return words
    return f"{words}; charged too, for they share records: {', '.join(dry.concerned)}"


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


def _premises(premises: Sequence[Premise]) -> None:
    """What a run takes for public of the private dataset, by where it is from."""
    words = {"declared": "declared", "inferred": "inferred from the private records"}
    for origin, name in words.items():
        parts = [f"{one.name} {_short(one.value)}" for one in premises if one.origin == origin]
        if parts:
            _console.print(f"{name}: {'; '.join(parts)}")


def _short(value: object) -> str:
    """A JSON value in a few words; numbers are a size."""
    if isinstance(value, list) and all(isinstance(part, int) for part in value):
        return " x ".join(map(str, value))
    names = [str(part) for part in value] if isinstance(value, list) else [str(value)]
    return listed(names, 8)


def whole_result(result: Result) -> None:
    """All that is known of what a run made."""
    from understudy.report.meaning import guarantee_words

    _console.print(guarantee_words(result.receipt, result.private_samples) + _remaining(result))
    for line in _selection_lines(result):
        _console.print(line)
    _class_table(result.facts)
    for warning in result.warnings:
        _console.print(f"note: {warning}")
    for line in _quality_lines(result):
        _console.print(line)
    _accuracy_table(result.accuracy)
    _places(result)


def _class_table(facts: Mapping[str, Any]) -> None:
    """The facts of a release that say something of each class, a column each."""
    from understudy.report.readable_names import readable

    columns = {name: value for name, value in facts.items() if isinstance(value, Mapping)}
    classes = next(iter(columns.values()), {})
    columns = {name: value for name, value in columns.items() if value.keys() == classes.keys()}
    if not columns:
        return
    table = _table("class", *(readable(name) for name in columns))
    for label in classes:
        table.add_row(label, *(str(value[label]) for value in columns.values()))
    _console.print(table)


def _accuracy_table(measurements: Sequence[Accuracy]) -> None:
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
