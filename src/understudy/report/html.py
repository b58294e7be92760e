"""The owner's report: one HTML file that needs no network and shows what must not be shared."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from understudy.core.types import Images
from understudy.report import meaning
from understudy.report.record import OwnerRecord, RunRecord, Score, Sheet
from understudy.report.rendering import environment
from understudy.report.sheets import contact_sheet

HUES = 8
"""How many colours the template has for stages; more stages begin again with the first."""


@dataclass(frozen=True, slots=True)
class _Segment:
    """A piece of a bar: where it begins and how long it is, in percent, and its colour."""

    x: float
    width: float
    hue: int
    label: str


@dataclass(frozen=True, slots=True)
class _Picture:
    """A contact sheet as a data URI; empty where there are no images of the class."""

    uri: str
    count: int


def owner_report(record: RunRecord, owner: OwnerRecord) -> str:
    """The report as one HTML page, for the owner only.

    Args:
        record: The public facts of the run.
        owner: What only the owner may see.
    """
    template = environment().get_template("report.html")
    return template.render(
        record=record,
        receipt=record.receipt,
        owner=owner,
        unit=meaning.unit_in_words(record.receipt),
        bound=meaning.guess_bound(record.receipt),
        best=_best(owner.scores),
        stage_bar=_bar([(stage.stage, stage.share) for stage in record.receipt.stages]),
        budget_bar=_budget_bar(record, owner),
        pictures=[(sheet.name, *_pictures(sheet)) for sheet in owner.sheets],
        total_seconds=sum(owner.seconds.values()),
    )


def _best(scores: tuple[Score, ...]) -> Score | None:
    return max(scores, key=lambda score: score.synthetic, default=None)


def _bar(parts: list[tuple[str, float]]) -> list[_Segment]:
    """The parts one behind the other, from 0 to 100."""
    segments: list[_Segment] = []
    x = 0.0
    for index, (label, part) in enumerate(parts):
        segments.append(_Segment(x, 100 * part, index % HUES, label))
        x += 100 * part
    return segments


def _budget_bar(record: RunRecord, owner: OwnerRecord) -> list[_Segment]:
    """Spent before, by this run, and left, as parts of the total. Empty without a total.

    Epsilons do not simply add up, so what this run took is the rest of what was spent, no more
    than its own epsilon.
    """
    spending = owner.spending
    if spending is None or not spending.epsilon:
        return []
    spent = min(spending.spent / spending.epsilon, 1.0)
    this = min(record.receipt.epsilon / spending.epsilon, spent)
    return _bar([("spent before", spent - this), ("this run", this), ("left", 1.0 - spent)])


def _pictures(sheet: Sheet) -> tuple[_Picture, _Picture]:
    return _picture(sheet.real), _picture(sheet.synthetic)


def _picture(images: Images) -> _Picture:
    if len(images) == 0:
        return _Picture("", 0)
    encoded = base64.b64encode(contact_sheet(images)).decode("ascii")
    return _Picture(f"data:image/png;base64,{encoded}", len(images))
