"""What a run would do and cost, the page that asks for the charge, and the charge. Owner-only.

Only `PlanPages.start` leads to a charge. It takes the form of the page that showed the plan, whose
signature covers every option and the numbers that were shown: another epsilon, another folder or a
plan that has changed since is refused.
"""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Any, ClassVar

from fastapi import Query
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from understudy.core.errors import ConfigError, RunError
from understudy.core.types import Receipt, StageReceipt
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import run_mu_of
from understudy.privacy.unit import Adjacency
from understudy.release.outputs import RunPaths, require_free
from understudy.report.html import BarSegment, bar
from understudy.report.meaning import guess_bound, percent
from understudy.report.verdict_table import guarantee_card
from understudy.run import books
from understudy.run.command_words import amount_words
from understudy.run.config import make_config
from understudy.run.methods import method_as_dict, methods
from understudy.web.child_jobs import ChildJob, JobReport
from understudy.web.confinement import new_name
from understudy.web.data_pages import PlaceName
from understudy.web.option_forms import READING, SETTING, form_options, run_fields, words_of
from understudy.web.studio import StudioPages, command_line_of, form_of, link, moved, needed

STOPS = (0.1, 0.2, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0)
"""Values of epsilon on the slider."""

_USUAL_STOP = 3
_MOST_EPSILON = 100.0
_PLANNED = (*READING, "delta", "adjacency", "public", "base", "encoder", "decoder", "generator")
"""The options that a recommendation goes by."""

Amount = Annotated[str, Query(max_length=32)]
Stop = Annotated[str, Query(max_length=4)]


@dataclass(frozen=True, slots=True)
class Risk:
    """What an epsilon means for somebody who is in the data.

    Attributes:
        strength: ``"good"``, ``"fair"`` or ``"poor"``, as the report grades the guarantee.
        general: How often a guess that begins at 50 % is right at most, by any such guarantee.
        gaussian: The same by the Gaussian noise of one run of this budget.
    """

    epsilon: float
    strength: str
    general: str
    gaussian: str


def risk_of(epsilon: float, delta: float) -> Risk:
    """What a budget means.

    Raises:
        ConfigError: It is none.
    """
    budget = Budget(epsilon, delta)
    plain = Receipt("one image", "add-remove", epsilon, delta, 0.0, ())
    mu = run_mu_of(budget)
    stage = StageReceipt("run", "", 1.0, mu, 1.0, mu, 0)
    noisy = Receipt("one image", "add-remove", epsilon, delta, 0.0, (stage,))
    return Risk(
        epsilon,
        guarantee_card(noisy).grade,
        percent(guess_bound(plain)),
        percent(guess_bound(noisy)),
    )


class PlanPages(StudioPages):
    """From a dataset to a charge."""

    addresses: ClassVar[Mapping[str, str]] = {
        "GET /plan": "plan",
        "GET /plan/risk": "risk",
        "GET /plan/method": "method",
        "GET /plan/forecast": "forecast",
        "GET /charge": "charge",
        "POST /runs/start": "start",
    }

    def plan(
        self,
        request: Request,
        source: PlaceName,
        epsilon: Amount = "",
        stop: Stop = "",
        out: PlaceName = "",
        forecast: Annotated[str, Query(max_length=1)] = "",
    ) -> Response:
        """A recommended run, what it costs, and every option to change."""
        studio = self.studio
        path, name = studio.roots.source(source)
        values = form_options(request.query_params.multi_items())
        amount = _epsilon(epsilon, stop)
        words_of(studio.roots, values)  # all of them, also those that the plan does not go by
        options = {name: value for name, value in values.items() if name in _PLANNED}
        words = ["plan", name, *words_of(studio.roots, options)]
        words += [f"--epsilon={amount_words(amount)}", *studio.ledger_words()]
        ask = [*words, "--json", "--progress=json"]
        stamp = studio.stamp(path)
        job, report = studio.ask("plan", ask, about=path, stamp=stamp)
        plan = studio.jobs.json(job) if report.state == "finished" else None
        cost = plan["plan"] if plan else None
        return studio.page(
            request,
            "plan.html",
            source=source,
            stops=STOPS,
            stop=min(range(len(STOPS)), key=lambda k: abs(STOPS[k] - amount)),
            risk=risk_of(amount, _delta(values)),
            plan=plan,
            job=job,
            report=report,
            cost=cost,
            budget_bar=budget_bar(cost["spent"], cost["after"], cost["budget"]) if cost else (),
            methods=[method_as_dict(one) for one in methods().values()],
            fields=run_fields(_proposed(plan) | values),
            out=out or f"{new_name(path.stem)}-{date.today().isoformat()}",
            out_folder=self._folder(source),
            command_words=(plan or {}).get("command") or command_line_of(words),
            **self._forecast(words, path, stamp, source, shows_sheet=bool(forecast)),
        )

    def _forecast(
        self, words: list[str], path: Path, stamp: str, source: str, *, shows_sheet: bool
    ) -> dict[str, Any]:
        """The sheet of what the plan makes of public images, where it was asked for."""
        studio = self.studio
        sheet = studio.drawing("forecast", words, stamp)
        empty = {"forecast_image": "", "forecast_job": None, "forecast_report": None}
        if sheet.is_file():
            return empty | {
                "forecast_image": link("/plan/forecast", source=source, sheet=sheet.stem)
            }
        if not shows_sheet:
            return empty
        ask = [*words, f"--forecast={sheet}", "--json", "--progress=json"]
        job, report = studio.ask("forecast", ask, about=path, stamp=stamp)
        return empty | {"forecast_job": job, "forecast_report": report}

    def forecast(
        self, source: PlaceName, sheet: Annotated[str, Query(pattern="^[0-9a-f]{16}$")]
    ) -> Response:
        """The sheet of a forecast."""
        self.studio.roots.source(source)
        file = self.studio.jobs.folder.parent / "sheets" / f"{sheet}.png"
        if not file.is_file():
            raise ConfigError("there is no such forecast: make it on the page of the plan")
        return FileResponse(file, media_type="image/png")

    def risk(
        self,
        request: Request,
        stop: Stop = "",
        epsilon: Amount = "",
        delta: Amount = "",
        dataset: Annotated[str, Query(max_length=4096)] = "",
        planned_unit: Annotated[str, Query(max_length=4096)] = "",
        planned_adjacency: Adjacency = "add-remove",
    ) -> Response:
        """What a place of the slider means, in words and numbers, and what it would leave."""
        amount, part = _epsilon(epsilon, stop), _delta({"delta": delta})
        cost = None
        if planned_unit:
            cost = books.preview_run(
                self.studio.ledger,
                dataset or None,
                Budget(amount, part),
                planned_unit,
                planned_adjacency,
            )
        bar = () if cost is None else budget_bar(cost.spent, cost.after, cost.budget)
        return self.studio.page(
            request, "risk.html", risk=risk_of(amount, part), cost=cost, budget_bar=bar
        )

    def method(
        self,
        request: Request,
        source: PlaceName,
        method: PlaceName,
        epsilon: Amount = "",
        stop: Stop = "",
    ) -> Response:
        """What a class can carry by another method."""
        studio = self.studio
        values = form_options(request.query_params.multi_items(), (*READING, "delta", "adjacency"))
        values |= {"method": method}
        _, job, report = self._dry(source, values, _epsilon(epsilon, stop))
        plan = studio.jobs.json(job) if report.state == "finished" else None
        query = link("", *values.items(), source=source, epsilon=str(_epsilon(epsilon, stop)))
        return studio.page(
            request, "method_row.html", plan=plan, report=report, query=query.removeprefix("?")
        )

    def charge(
        self, request: Request, source: PlaceName, epsilon: Amount, out: PlaceName
    ) -> Response:
        """The numbers once more, and the button that spends them."""
        studio = self.studio
        values = form_options(request.query_params.multi_items())
        amount = _epsilon(epsilon, "")
        place = self._out(source, out)
        words, job, report = self._dry(source, values, amount)
        plan = studio.jobs.json(job) if report.state == "finished" else None
        options = {**values, "source": source, "epsilon": amount_words(amount), "out": out}
        session, waits = request.state.session, self._waits(place)
        return studio.page(
            request,
            "charge.html",
            plan=plan,
            job=job,
            report=report,
            risk=risk_of(amount, _delta(values)),
            budget_bar=budget_bar(plan["spent"], plan["after"], plan["budget"]) if plan else (),
            values=options,
            shown=""
            if plan is None
            else studio.sessions.sign(session, _shown(options, plan, waits)),
            waits=waits,
            out=studio.roots.place(place),
            taken=_is_taken(place),
            back=link("/plan", *options.items()),
            command_words=command_line_of([*words, f"--out={place}"]),
        )

    def start(self, request: Request) -> Response:
        """Begin the run that was shown, and its charge; the same form again is the same run."""
        studio, form = self.studio, form_of(request)
        source, out = needed(form, "source"), needed(form, "out")
        place = self._out(source, out)
        values = form_options(form.items())
        amount = _epsilon(needed(form, "epsilon"), "")
        options = {**values, "source": source, "epsilon": amount_words(amount), "out": out}
        words, job, _ = self._dry(source, values, amount)
        plan = studio.jobs.json(job)
        terms = None if plan is None else _shown(options, plan, self._waits(place))
        signature = needed(form, "shown")
        if terms is None or not studio.sessions.signed(request.state.session, terms, signature):
            raise ConfigError(
                "this is not what the page of the charge has shown, or the ledger or the images "
                "have changed since, or another run waits: look again. Nothing was charged"
            )
        before = studio.jobs.of(place, "synthesize")
        is_resumed = RunPaths(place).start.is_file()
        if not before or (not is_resumed and studio.jobs.report(before[-1]).is_over):
            studio.ask(
                "synthesize",
                [*words, f"--out={place}", "--yes", "--progress=json"],
                about=place,
                queue=studio.ledger_queue,
                stamp=before[-1].id if before else "",
                plan=link("/plan", *options.items()),
            )
        return moved("/run", run=studio.roots.place(place))

    def _waits(self, place: Path) -> int:
        """How many other runs are to be charged to the ledger before one into a folder."""
        jobs, queue = self.studio.jobs, self.studio.ledger_queue
        return sum(
            one.queue == queue and one.about != str(place) and not jobs.report(one).is_over
            for one in jobs.all()
        )

    def _dry(
        self, source: str, values: Mapping[str, str], epsilon: float
    ) -> tuple[list[str], ChildJob, JobReport]:
        """The words of a run without its folder, and its plan as it was asked for.

        Raises:
            ConfigError: An option makes no sense.
        """
        studio = self.studio
        path, source = studio.roots.source(source)
        words = ["synthesize", source, *words_of(studio.roots, values)]
        words += [f"--epsilon={amount_words(epsilon)}", *studio.ledger_words()]
        settings = {n.partition(".")[2]: v for n, v in values.items() if n.startswith("set.")}
        plain = {n: v for n, v in values.items() if not n.startswith("set.")}
        plain |= {name: "true" for name, value in plain.items() if value == "on"}
        plain |= {"source": source, "epsilon": amount_words(epsilon), "out": "out"}
        make_config({**plain, "settings": settings})
        ask = [*words, f"--out={path.parent / '.understudy-plan'}", "--dry-run", "--json"]
        job, report = studio.ask(
            "dry run", [*ask, "--progress=json"], about=path, stamp=studio.stamp(path)
        )
        return words, job, report

    def _folder(self, source: str) -> str:
        """The place that the folder of a run is made in: beside the dataset, or another root."""
        place = self.studio.roots.split(source)[0]
        folder = place.rpartition("/")[0]
        others = [name for name in self.studio.roots.folders if name != place]
        if not folder and not others:
            raise ConfigError(
                "the dataset is the only folder of this page, and no run can be written into it: "
                "start the studio with --root and the folder above, too"
            )
        return folder or others[0]

    def _out(self, source: str, out: str) -> Path:
        return self.studio.roots.new(self._folder(source), out)


def budget_bar(spent: float, after: float, total: float | None) -> list[BarSegment]:
    """Spent before, by this run, and left, as parts of the total; without one, of what is spent."""
    whole = max(total or 0.0, after) or 1.0
    amounts = {"spent before": spent, "this run": after - spent}
    if total:
        amounts["left"] = max(0.0, whole - after)
    return bar([(f"{label}: {amount:.3g}", amount / whole) for label, amount in amounts.items()])


def _proposed(plan: Mapping[str, Any] | None) -> dict[str, str]:
    """The options that a recommendation proposes, as a form has them."""
    values: dict[str, str] = {}
    for choice in plan["choices"] if plan else ():
        flag, *value = shlex.split(choice["option"])
        if flag == "--set":
            name, _, text = value[0].partition("=")
            values[SETTING + name] = text
        else:
            values[flag.removeprefix("--").replace("-", "_")] = value[0] if value else "on"
    return values


def _is_taken(place: Path) -> bool:
    """Whether a new run would refuse the folder."""
    try:
        require_free(place, resume=False)
    except RunError:
        return True
    return False


def _shown(options: Mapping[str, str], plan: Mapping[str, Any], waits: int) -> str:
    """What an owner has seen before a charge, as text to be signed."""
    numbers = {
        name: plan[name] for name in ("method", "epsilon", "delta", "spent", "after", "unit")
    }
    return json.dumps([sorted(options.items()), numbers, waits])


def _epsilon(text: str, stop: str) -> float:
    """An epsilon as it was typed, or where the slider stands.

    Raises:
        ConfigError: It is none that a page takes.
    """
    if not text:
        index = int(stop) if stop.isascii() and stop.isdigit() else _USUAL_STOP
        return STOPS[min(index, len(STOPS) - 1)]
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value <= _MOST_EPSILON:
        raise ConfigError(f"epsilon is a number above 0, such as 1, found {text!r}")
    return value


def _delta(values: Mapping[str, str]) -> float:
    try:
        delta = float(values.get("delta") or 1e-5)
    except ValueError:
        delta = math.nan
    if not 1e-11 < delta < 1:
        raise ConfigError(f"delta is a small probability, such as 1e-5, found {values['delta']!r}")
    return delta
