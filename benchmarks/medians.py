"""What runs on several sets come to: medians over the sets, falls along epsilon, left-out choices.

The claims that are made of defaults are medians over sets, not the figure of the best one; and a
setting that is chosen by such a median is shown on a set that had no say in it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from benchmarks.tables import Table, percent
from understudy.core.errors import InputError

FALL = 0.02  # of accuracy along epsilon that is flagged
HEADS = (
    *("set", "records", "samples %", "real %", "of real %", "train %", "released %", "of real %"),
    *("seconds", "core s", "own domain % (real)", "largest other domain"),
)
"""Of a table: in brackets the deviation over the seeds, and the same of real test images."""


@dataclass(frozen=True, slots=True)
class Summary:
    """Means over the seeds of one set at one epsilon; accuracies are balanced, in [0, 1]."""

    name: str  # of the set
    setting: str  # name of the setting
    epsilon: float  # of the run
    records: int  # private images
    accuracy: float  # of the judge trained on samples
    spread: float  # its standard deviation over the seeds; 0 for one
    real: float  # of the judge trained on the real images
    trained: float | None  # of what ``understudy train`` makes; None where that is the judge
    released: float | None  # of the released classifier; None where the run states none
    seconds: float  # of a run, on the wall
    processor: float  # seconds of a run, of all cores together
    domains: Mapping[str, float]  # for each domain the part of the samples that looks like it
    own_recall: float  # part of the real test images that look like their own domain
    outdated: int = 0  # runs that other code than the present made

    @property
    def ratio(self) -> float:
        """Accuracy over real accuracy."""
        return self.accuracy / self.real

    @property
    def released_ratio(self) -> float | None:
        """The released classifier's accuracy over real accuracy."""
        return None if self.released is None else self.released / self.real

    @property
    def wrong(self) -> tuple[str, float]:
        """The largest other domain and its part."""
        others = [(share, name) for name, share in self.domains.items() if name != self.name]
        share, name = max(others, default=(0.0, ""))
        return name, share

    def cells(self) -> tuple[object, ...]:
        """Under `HEADS`."""
        name, share = self.wrong
        return (
            *(self.name, self.records, f"{percent(self.accuracy)} ({percent(self.spread)})"),
            *(percent(self.real), percent(self.ratio)),
            *(_percent(value) for value in (self.trained, self.released, self.released_ratio)),
            *(f"{self.seconds:.0f}", f"{self.processor:.0f}"),
            f"{percent(self.domains[self.name])} ({percent(self.own_recall)})",
            f"{name} {percent(share)}" if share else "",
        )


def write_results(file: Path, summaries: Sequence[Summary]) -> None:
    """All summaries as JSON, with the ratios."""
    content = [
        {**asdict(each), "ratio": each.ratio, "released_ratio": each.released_ratio}
        for each in summaries
    ]
    file.write_text(json.dumps(content, indent=1), encoding="utf-8")


def median_cells(summaries: Sequence[Summary], setting: str, epsilon: float) -> tuple[object, ...]:
    """Under `HEADS`: the medians over the sets, of what is a part of the real accuracy."""
    rows = [each for each in summaries if (each.setting, each.epsilon) == (setting, epsilon)]
    if not rows:
        return ("median",)
    ratios = [row.released_ratio for row in rows if row.released_ratio is not None]
    own = percent(float(np.median([row.domains[row.name] for row in rows])))
    return (
        *(f"median of {len(rows)}", "", "", ""),
        percent(float(np.median([row.ratio for row in rows]))),
        *("", "", percent(float(np.median(ratios))) if ratios else None),
        f"{np.median([row.seconds for row in rows]):.0f}",
        f"{np.median([row.processor for row in rows]):.0f}",
        own,
    )


def largest_fall(accuracies: Sequence[float]) -> float:
    """By how much an accuracy is below the best at a smaller epsilon; 0: never."""
    best = np.maximum.accumulate(accuracies)
    return float(np.max(best - accuracies))


def print_falls(summaries: Sequence[Summary]) -> None:
    """For each setting and set the accuracies along epsilon, and by how many points they fall."""
    epsilons = sorted({each.epsilon for each in summaries})
    table = Table(
        f"Accuracy % along epsilon; a star where it falls by more than {100 * FALL:g} points",
        ("setting, set", *(f"{epsilon:g}" for epsilon in epsilons), "largest fall"),
    )
    for setting, name in dict.fromkeys((each.setting, each.name) for each in summaries):
        means = {
            each.epsilon: each.accuracy
            for each in summaries
            if (each.setting, each.name) == (setting, name)
        }
        along = [means[epsilon] for epsilon in epsilons if epsilon in means]
        fall = largest_fall(along)
        star = " *" if fall > FALL else ""
        cells = (_percent(means.get(epsilon)) for epsilon in epsilons)
        table.row(f"{setting}, {name}", *cells, f"{percent(fall)}{star}")


@dataclass(frozen=True, slots=True)
class Choice:
    """A setting that was chosen on all sets but one."""

    name: str  # of the set that was left out
    setting: str  # the best by the median over the others
    median: float  # that median of accuracy over real accuracy
    ratio: float  # what the setting gives on the set that was left out


def left_out_medians(ratios: Mapping[str, Mapping[str, float]]) -> list[Choice]:
    """For each set the setting with the best median over the others, and what it gives here."""
    names = [
        name
        for name in next(iter(ratios.values()), {})
        if all(name in each for each in ratios.values())
    ]
    if len(names) < 2:
        raise InputError(f"a set is left out of two or more, found {len(names)}")
    choices = []
    for name in names:
        others = [other for other in names if other != name]
        medians = {
            setting: float(np.median([each[other] for other in others]))
            for setting, each in ratios.items()
        }
        best = max(medians, key=medians.__getitem__)
        choices.append(Choice(name, best, medians[best], ratios[best][name]))
    return choices


def print_choices(summaries: Sequence[Summary]) -> None:
    """For each epsilon, what settings that were chosen without a set give on it."""
    for epsilon in sorted({each.epsilon for each in summaries}):
        ratios: dict[str, dict[str, float]] = {}
        for each in summaries:
            if each.epsilon == epsilon:
                ratios.setdefault(each.setting, {})[each.name] = each.ratio
        try:
            choices = left_out_medians(ratios)
        except InputError as error:
            print(f"\nepsilon {epsilon:g}: {error}")
            continue
        table = Table(
            f"Chosen with one set left out, epsilon {epsilon:g}; accuracy over real accuracy, %",
            ("left out", "setting", "median of the others", "left out"),
        )
        for choice in choices:
            table.row(choice.name, choice.setting, percent(choice.median), percent(choice.ratio))
        median = percent(float(np.median([choice.ratio for choice in choices])))
        table.row("median", "", "", median)


def _percent(value: float | None) -> str | None:
    return None if value is None else percent(value)
