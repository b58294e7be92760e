"""The reports: each one HTML file that needs no network and no script.

`owner_report` shows what must not be shared; `public_report` takes public records only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from understudy.core.files import public_name
from understudy.core.results import Evaluation, Group, ValueKind
from understudy.report import comparison, images, meaning, tables, verdict_table
from understudy.report.comparison import Comparison
from understudy.report.plots import Drawing, Plot
from understudy.report.record import OwnerRecord, RunRecord, Sample
from understudy.report.rendering import rendered
from understudy.report.scatter import Scatter

HUES = 8  # how many colours the template has for stages; more stages begin again with the first

_SECTIONS: tuple[tuple[Group, str, str], ...] = (
    (
        "leakage",
        "Leakage: how near the release comes to private records",
        "The baseline is real records that were held out and cannot be in the release. A release "
        "that copies comes nearer to the private records than they do. Copies must also be more "
        "frequent than among the private records themselves, so that a release is not accused of "
        "the style of the private records.",
    ),
    (
        "attack",
        "Attacks: can an attacker tell who took part?",
        "Each attack sees the release and guesses whether a record was among the private ones. The "
        "baseline is a blind attack, which learns from other private records and non-members what "
        "tells them apart and never sees the release. What the release adds to it is a leak; what "
        "the blind attack reaches alone is a difference between the two sets of records.",
    ),
    (
        "fidelity",
        "Fidelity: how like the real records they are",
        "The baseline is real records that were held out: as good as other records can be.",
    ),
    (
        "utility",
        "Utility: models trained on the release, tested on real records",
        "The baseline, where there is one, is the same model trained on the real data.",
    ),
    (
        "audit",
        "Audit: does the program keep its guarantee?",
        "Runs on neighbouring datasets, and how well they can be told apart.",
    ),
)

_OF_CLASSES: dict[Group, str] = {"utility": "trained on the private records"}
"""Groups whose classes stand in order, the worst first, each beside its baseline."""


@dataclass(frozen=True, slots=True)
class BarSegment:
    """A piece of a bar: where it begins and how long it is, in percent, and its colour."""

    x: float
    width: float
    hue: int
    label: str


@dataclass(frozen=True, slots=True)
class DrawnPlot:
    """A plot that is ready to be written."""

    key: str
    plot: Plot
    drawing: Drawing
    kind: ValueKind


@dataclass(frozen=True, slots=True)
class Section:
    """What was measured of one group."""

    key: Group
    title: str
    intro: str
    rows: list[tables.MetricRow]
    classes: tables.ClassTable | None
    plots: list[DrawnPlot]
    words: list[tuple[str, str]]
    confusions: list[tables.Confusion]
    advice: str = ""


def owner_report(record: RunRecord, owner: OwnerRecord) -> str:
    """The report as one HTML page, for the owner only."""
    first, more = images.nearest_pairs(owner.pairs)
    return _render(
        "report.html",
        record,
        owner=owner,
        dataset=public_name(owner.dataset),  # short; the folder is told below
        best=max(
            (score for score in owner.scores if not score.released),
            key=lambda score: score.synthetic,
            default=None,
        ),
        cards=verdict_table.cards(record, owner),
        budget_bar=_budget_bar(record, owner),
        gallery=images.gallery(owner.sheets),
        pairs=first,
        more_pairs=more,
        sections=_sections(owner.evaluation) if owner.evaluation else [],
        trades=drawn_plots("trade", comparison.trades(owner.releases)),
        total_seconds=sum(owner.seconds.values()),
    )


def owner_plots(owner: OwnerRecord) -> list[DrawnPlot]:
    """Every plot of the owner's report."""
    sections = _sections(owner.evaluation) if owner.evaluation else []
    plots = [plot for section in sections for plot in section.plots]
    return [*plots, *drawn_plots("trade", comparison.trades(owner.releases))]


def plot_svg(figure: DrawnPlot) -> str:
    """A plot as an SVG file, which needs no page around it."""
    style = Path(__file__).with_name("templates") / "report.css"
    return rendered("plot.html", figure=figure, style=Markup(style.read_text(encoding="utf-8")))


def public_report(
    record: RunRecord, samples: Sequence[Sample] = (), scatter: Scatter | None = None
) -> str:
    """The part of the report that may go with the release, as one HTML page."""
    return _render(
        "public.html",
        record,
        scatter=scatter,
        cards=[
            verdict_table.guarantee_card(record.receipt, (), record.private_samples),
            verdict_table.quality_card(record),
        ],
        samples=images.sample_strips(tuple(samples)),
        groups=[(k, meaning.guess_bound(record.receipt, k)) for k in meaning.GROUPS],
    )


def comparison_report(comparison: Comparison, samples: Sequence[Sample] = ()) -> str:
    """Several releases side by side, as one HTML page: owner-only, if anything was measured.

    ``samples`` are named as the releases are.
    """
    # Notes may tell of the private records.
    has_values = any(one.evaluation for one in comparison.releases)
    return rendered(
        "compare.html",
        comparison=comparison,
        kind_of_all="owner-only" if has_values else "public",
        trades=drawn_plots("trade", comparison.trades),
        samples=images.sample_images(tuple(samples)),
        words=tables.explained(one.value for one in comparison.shared),
    )


def _render(template: str, record: RunRecord, **more: Any) -> str:
    """A page about one release: with what all such pages show."""
    receipt = record.receipt
    return rendered(
        template,
        record=record,
        receipt=receipt,
        unit=record.unit,
        guarantee=verdict_table.guarantee_sentence(record),
        budget=meaning.budget(receipt),
        part="open" if record.unprotected else "dp",
        stage_bar=bar([(stage.stage, stage.share) for stage in receipt.stages]),
        **more,
    )


def _sections(evaluation: Evaluation) -> list[Section]:
    """The groups of which anything was measured."""
    sections = []
    for key, title, intro in _SECTIONS:
        values = evaluation.of(key)
        plots = tables.plots(evaluation.curves, key)
        section_plots = drawn_plots(key, [plot for plot, _ in plots], [kind for _, kind in plots])
        confusions = tables.confusions(evaluation) if key == "utility" else []
        near = key in ("leakage", "attack")
        if values or section_plots or confusions:
            sections.append(
                Section(
                    key,
                    title,
                    intro,
                    tables.overall(values),
                    tables.by_class(values, baseline=_OF_CLASSES.get(key, "")),
                    section_plots,
                    tables.explained(values),
                    confusions,
                    str(evaluation.settings.get("advice", "")) if near else "",
                )
            )
    return sections


def drawn_plots(
    key: str, plots: Iterable[Plot], kinds: Sequence[ValueKind] = ()
) -> list[DrawnPlot]:
    """Plots that are ready to be written; owner-only, where no kinds are given."""
    return [
        DrawnPlot(f"plot-{key}-{k}", plot, plot.drawing(), kinds[k] if kinds else "owner-only")
        for k, plot in enumerate(plots)
    ]


def bar(parts: list[tuple[str, float]]) -> list[BarSegment]:
    """The parts one behind the other, from 0 to 100."""
    segments: list[BarSegment] = []
    x = 0.0
    for index, (label, part) in enumerate(parts):
        segments.append(BarSegment(x, 100 * part, index % HUES, label))
        x += 100 * part
    return segments


def _budget_bar(record: RunRecord, owner: OwnerRecord) -> list[BarSegment]:
    """Spent by others, by this run, and left, as parts of the total. Empty without a total.

    Epsilons do not simply add up, so what this run took is the rest of what was spent, no more
    than its own epsilon. Of a release whose guarantee is not this run's alone, all runs are one.
    """
    spending = owner.spending
    if spending is None or not spending.epsilon:
        return []
    spent_part = min(spending.spent / spending.epsilon, 1.0)
    if record.unprotected or any(stage.origin for stage in record.receipt.stages):
        return bar([("all runs", spent_part), ("left", 1.0 - spent_part)])
    this = min(record.receipt.epsilon / spending.epsilon, spent_part)
    return bar([("other runs", spent_part - this), ("this run", this), ("left", 1.0 - spent_part)])
