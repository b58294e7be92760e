"""The five papers' tables beside ours: ``python -m benchmarks papers [PAPER] [--table T1]``.

`papers_cells.csv` holds every number of the papers' result tables, `papers_ours.csv` what our
benchmarks measured of the same shape, each with its command and date. Our data and models are
others, so numbers are not compared: of every two rows that a table and ours both have, the order
is. ``--list`` prints only which tables there are and what each needs.

Left out, since the text leaves it open which dataset they belong to: PASDA's DP-LDM. Figures that
are plotted without numbers have no cells.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, product
from pathlib import Path
from typing import Literal

from benchmarks.tables import Skipped, Table

PARTS = ("clustering", "alignment", "evolution", "selection", "sanitize")
HERE = Path(__file__).parent

State = Literal["offline", "shape", "hub", "gone"]
"""Runs on our data and models; only the order compares; needs weights or a GPU; cannot be had."""

LOWER_IS_BETTER = ("FID", "Frechet", "MIA", "error", "MI ", "SIM")

SAME_KIND = {"Frechet, studio": "FID", "distance": "LPIPS"}
"""Metrics of ours, and the papers' of the same kind and direction."""


@dataclass(frozen=True)
class PaperTable:
    """A table or figure with numbers of a paper.

    Attributes:
        paper: The method that it is of.
        name: ``T1``, ``F2``.
        shows: In a few words.
        state: Whether it can be had here.
        needs: What it takes, or the command that measures ours.
    """

    paper: str
    name: str
    shows: str
    state: State
    needs: str


TABLES = (
    PaperTable("clustering", "T1", "private training, embeddings", "shape", "benchmarks eurosat"),
    PaperTable(
        "clustering", "T2", "embeddings and images by epsilon", "shape", "benchmarks eurosat"
    ),
    PaperTable("clustering", "F2", "images by epsilon, rivals", "gone", "plotted without numbers"),
    PaperTable(
        "alignment", "T1", "rivals, STL-10 and CIFAR-10", "shape", "benchmarks alignment gap"
    ),
    PaperTable("alignment", "T2", "beside private images", "shape", "benchmarks alignment gap"),
    PaperTable("alignment", "F5", "epsilon and clusters", "gone", "plotted without numbers"),
    PaperTable("alignment", "F6", "number of samples", "gone", "plotted without numbers"),
    PaperTable("evolution", "T1", "FID, SPTI and PE", "shape", "benchmarks evolution"),
    PaperTable("evolution", "T2", "FID, MM-CelebA-HQ", "hub", "SDXL-Turbo, an LDM, MM-CelebA-HQ"),
    PaperTable("evolution", "T3", "image and text voting", "shape", "benchmarks evolution"),
    PaperTable("evolution", "T4", "language and diffusion models", "hub", "SDXL, Infinity, an LLM"),
    PaperTable("evolution", "T5", "few and many kinds of birds", "hub", "ImageNet-100, SDXL-Turbo"),
    PaperTable(
        "evolution", "F7", "accuracy by number of samples", "gone", "plotted without numbers"
    ),
    PaperTable("selection", "T3", "keep ratios", "shape", "benchmarks selection ratios"),
    PaperTable("selection", "T4", "penalty weights", "shape", "benchmarks selection penalties"),
    PaperTable("selection", "T5", "error over epochs", "shape", "benchmarks selection epochs"),
    PaperTable("selection", "F5", "most similar pairs", "gone", "images without numbers"),
    PaperTable("sanitize", "T3", "accuracy by preference", "shape", "benchmarks.sanitize_runs"),
    PaperTable("sanitize", "T4", "MI and SIM by preference", "shape", "benchmarks.sanitize_runs"),
    PaperTable("sanitize", "T5", "noise", "shape", "benchmarks sanitize_models noise"),
    PaperTable("sanitize", "T6", "two objects", "shape", "benchmarks.sanitize_runs"),
    PaperTable("sanitize", "T7", "a generic model", "shape", "benchmarks.sanitize_runs"),
)


@dataclass(frozen=True)
class Cell:
    """A number of a table.

    Attributes:
        dataset: Whose it is.
        row: The method or setting.
        metric: With its unit.
        epsilon: Empty where none is stated.
        value: The number.
        source: Of one of ours, the command and the date.
    """

    paper: str
    table: str
    dataset: str
    row: str
    metric: str
    epsilon: str
    value: float
    source: str = ""


@dataclass(frozen=True)
class Pair:
    """Two rows of a paper that ours has too.

    Attributes:
        published: The better one first.
        ours: The same rows.
    """

    published: tuple[Cell, Cell]
    ours: tuple[Cell, Cell]

    @property
    def agrees(self) -> bool:
        """Whether ours has them in the same order."""
        first, second = (cell.value for cell in self.ours)
        return first <= second if _lower_is_better(self.ours[0]) else first >= second


def cells(file: str) -> list[Cell]:
    """Those of a file of this folder."""
    with (HERE / file).open(newline="", encoding="utf-8") as lines:
        return [
            Cell(
                **{key: row[key] for key in ("paper", "table", "dataset", "row", "metric")},
                epsilon=row["epsilon"],
                value=float(row["value"]),
                source=f"{row['command']}, {row['date']}" if "command" in row else "",
            )
            for row in csv.DictReader(lines)
        ]


def pairs(published: Sequence[Cell], ours: Sequence[Cell]) -> Iterator[Pair]:
    """Of one table: every two rows of each of its datasets beside each of ours."""
    for theirs, own in product(_columns(published), _columns(ours)):
        if _shape(theirs) != _shape(own):
            continue
        for first, second in combinations([row for row in theirs if row in own], 2):
            cells = sorted((theirs[first], theirs[second]), key=lambda cell: cell.value)
            if cells[0].value == cells[1].value:
                continue
            better, worse = cells if _lower_is_better(cells[0]) else reversed(cells)
            yield Pair((better, worse), (own[better.row], own[worse.row]))


def _columns(cells: Sequence[Cell]) -> list[dict[str, Cell]]:
    """The cells of one dataset, metric and epsilon each, by their rows."""
    columns: dict[tuple[str, str, str], dict[str, Cell]] = {}
    for cell in cells:
        columns.setdefault((cell.dataset, cell.metric, cell.epsilon), {})[cell.row] = cell
    return list(columns.values())


def _shape(column: dict[str, Cell]) -> tuple[str, str]:
    """What two columns must share to be compared: an epsilon, and a metric of one kind."""
    cell = next(iter(column.values()))
    metric = cell.metric.replace("mAP50 %", "accuracy %")
    return SAME_KIND.get(metric, metric), cell.epsilon


def _lower_is_better(cell: Cell) -> bool:
    return cell.metric.startswith(LOWER_IS_BETTER)


def main(
    papers: Sequence[str] = PARTS, *, table: str | None = None, list_only: bool = False
) -> None:
    """Print the disagreements of order, the tables beside ours, and the state of every table."""
    selected = [entry for entry in TABLES if entry.paper in papers and table in (None, entry.name)]
    if not selected:
        raise Skipped(f"no table {table} of {', '.join(papers)}")
    published, ours = cells("papers_cells.csv"), cells("papers_ours.csv")
    states = []
    for entry in selected:
        theirs, own = (
            [cell for cell in part if (cell.paper, cell.table) == (entry.paper, entry.name)]
            for part in (published, ours)
        )
        compared = list(pairs(theirs, own))
        states.append((entry, len(theirs), len(own), compared))
    if not list_only:
        _print_disagreements(
            pair for *_, compared in states for pair in compared if not pair.agrees
        )
        for entry, *_ in states:
            _print_cells(entry, published, ours)
    heads = ("table", "state", "cells", "ours", "order agrees", "needs")
    listing = Table("Tables and figures with numbers", heads, first=56)
    for entry, count, own_count, compared in states:
        agreeing = (
            f"{sum(pair.agrees for pair in compared)} of {len(compared)}" if compared else None
        )
        listing.row(
            f"{entry.paper} {entry.name}: {entry.shows}",
            entry.state,
            count,
            own_count or None,
            agreeing,
            f"  {entry.needs}",
        )


def _print_disagreements(disagreements: Iterator[Pair]) -> None:
    heads = ("where our order is another one; the better one first", "theirs", "", "ours", "")
    table = Table("Disagreements", heads, first=92)
    for pair in disagreements:
        first, second = pair.published
        place = f"{first.paper} {first.table}, {first.dataset}, {first.metric}"
        values = (cell.value for cell in (*pair.published, *pair.ours))
        table.row(f"{place}: {first.row} before {second.row}", *values)


def _print_cells(entry: PaperTable, published: Sequence[Cell], ours: Sequence[Cell]) -> None:
    heads = ("dataset, metric, row", "epsilon", "value", "source")
    table = Table(f"{entry.paper} {entry.name}: {entry.shows}", heads, first=76)
    for cell in (*published, *ours):
        if (cell.paper, cell.table) == (entry.paper, entry.name):
            name = f"{cell.dataset}, {cell.metric}: {cell.row}"
            table.row(name, cell.epsilon, cell.value, f"  {cell.source or 'the paper'}")
