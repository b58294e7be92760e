"""The runs of the folders: which there are, how far one is, to stop it and to go on. Owner-only."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_args

from fastapi import APIRouter, Query
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from understudy.core.errors import ConfigError, UnderstudyError
from understudy.core.results import Evaluation, MetricValue
from understudy.metrics.copies import NEAR_COPIES
from understudy.metrics.fidelity import FRECHET_DISTANCE
from understudy.metrics.nearest_neighbours import RECALL
from understudy.metrics.utility import BALANCED_ACCURACY
from understudy.release.outputs import RunPaths
from understudy.release.runs import RunState, RunSummary, list_runs
from understudy.run import report as reports
from understudy.web.child_jobs import ChildJob, JobReport, required_job
from understudy.web.confinement import OutsideRoots
from understudy.web.data_pages import PlaceName
from understudy.web.studio import (
    StudioPages,
    WebStudio,
    command_line_of,
    form_of,
    moved,
    needed,
    progress_line,
    time_left,
)

_LOOK_SECONDS = 0.5
_LONGEST_STREAM = 1200  # looks; the browser asks again by itself

MEASURES = {one.key: one for one in (BALANCED_ACCURACY, FRECHET_DISTANCE, RECALL, NEAR_COPIES)}
"""The metrics by which runs stand beside each other and are put in order, by key."""


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run as the table of runs has it."""

    place: str
    state: str
    method: str | None = None
    epsilon: Any = None
    samples: int | None = None
    date: str | None = None
    problem: str | None = None
    values: Mapping[str, MetricValue] = field(default_factory=dict)


class RunPages(StudioPages):
    """Runs, and the progress of every job."""

    addresses: ClassVar[Mapping[str, str]] = {
        "GET /runs": "runs",
        "GET /run": "run",
        "POST /runs/cancel": "cancel",
        "POST /runs/resume": "resume",
    }

    def runs(
        self,
        request: Request,
        word: Annotated[str, Query(max_length=200)] = "",
        state: Annotated[str, Query(max_length=20)] = "",
        order: Annotated[str, Query(max_length=40)] = "",
    ) -> Response:
        """A table of the runs in the roots and of those that wait, the best of a metric first."""
        studio, roots = self.studio, self.studio.roots
        # a root may lie in another one
        by_folder = {one.folder: one for root in roots.folders.values() for one in list_runs(root)}
        runs = [_listed(studio, one) for one in by_folder.values()]
        places = {one.place for one in runs}
        for job in studio.jobs.all():
            if job.kind == "synthesize" and not studio.jobs.report(job).is_over:
                with suppress(OutsideRoots):  # asked for in a studio of other folders
                    place = roots.place(Path(job.about))
                    if place not in places:
                        runs.append(ListedRun(place, studio.jobs.report(job).state))
        page = [
            one
            for one in runs
            if (not state or one.state == state)
            and word.lower() in f"{one.place} {one.method} {one.epsilon}".lower()
        ]
        if order in MEASURES:
            page.sort(key=lambda one: _place_by(one.values.get(order)))
        return studio.page(
            request,
            "runs.html",
            runs=page,
            word=word,
            state=state,
            order=order,
            measures=MEASURES,
            states=(*get_args(RunState), "queued"),
            command_words=command_line_of(["runs", *map(str, roots.folders.values())]),
        )

    def run(self, request: Request, run: PlaceName) -> Response:
        """How far a run is, whoever started it."""
        studio = self.studio
        path = run_path(studio, run)
        job, report = self._latest(path)
        summary = _summary(path)
        state = summary.state if summary is not None else report.state if report else ""
        if summary is None and report is None:
            raise OutsideRoots
        if report is not None and not report.is_over:
            state = report.state
        return studio.page(
            request,
            "run.html",
            run=run,
            summary=summary,
            state=state,
            job=job,
            report=report,
            resumable=job is not None
            and state in ("unfinished", "stopped")
            and (summary is None or summary.state == "unfinished"),
            command_words=command_line_of(job.words) if job else "",
        )

    def cancel(self, request: Request) -> Response:
        """Stop a run; what it has paid for stays in its folder."""
        run = needed(form_of(request), "run")
        job, _ = self._latest(run_path(self.studio, run))
        self.studio.jobs.cancel(required_job(job))
        return moved("/run", run=run)

    def resume(self, request: Request) -> Response:
        """Go on with a run that was stopped; nothing is charged twice."""
        run = needed(form_of(request), "run")
        path = run_path(self.studio, run)
        job, report = self._latest(path)
        job, summary = required_job(job), _summary(path)
        if report is None or not report.is_over:
            raise ConfigError("this run is at work")
        words = [word for word in job.words if word != "--resume"]
        words += ["--resume"] if summary is not None else []  # else it had not begun
        self.studio.ask(
            "synthesize",
            words,
            about=path,
            queue=self.studio.ledger_queue,
            stamp=job.id,
            plan=job.plan,
        )
        return moved("/run", run=run)

    def _latest(self, path: Path) -> tuple[ChildJob | None, JobReport | None]:
        jobs = self.studio.jobs.of(path, "synthesize")
        return (jobs[-1], self.studio.jobs.report(jobs[-1])) if jobs else (None, None)


def progress_router(studio: WebStudio) -> APIRouter:
    """The address at which a page hears how far a job is, as server-sent events."""

    async def events(request: Request, job: Annotated[str, Query(max_length=32)]) -> Response:
        stored = required_job(studio.jobs.get(job))
        return StreamingResponse(_stream(studio, request, stored), media_type="text/event-stream")

    router = APIRouter()
    router.add_api_route("/jobs/events", events, methods=["GET"])
    return router


async def _stream(studio: WebStudio, request: Request, job: ChildJob) -> AsyncIterator[str]:
    said = ""
    for _ in range(_LONGEST_STREAM):
        report = await run_in_threadpool(studio.jobs.report, job)
        percent = None if report.fraction is None else round(100 * report.fraction)
        content = {
            "line": progress_line(report),
            "percent": percent,
            "left": time_left(report),
            "notes": report.notes,
            "over": report.is_over,
        }
        if said != (said := json.dumps(content)):
            yield f"data: {said}\n\n"
        if report.is_over or await request.is_disconnected():
            return
        await asyncio.sleep(_LOOK_SECONDS)


def run_path(studio: WebStudio, run: str) -> Path:
    """The folder of a run, which a run that waits has not made yet."""
    try:
        return studio.roots.path(run)
    except OutsideRoots:
        folder, _, name = run.rpartition("/")
        path = studio.roots.new(folder, name)
        if path.is_symlink():
            raise
        return path


def _summary(path: Path) -> RunSummary | None:
    """What the folder of a run says; None where it is none."""
    files = RunPaths(path)
    if not (files.start.is_file() or (files.release / "privacy.json").is_file()):
        return None
    return next((one for one in list_runs(path) if one.folder == path), None)


def _listed(studio: WebStudio, one: RunSummary) -> ListedRun:
    return ListedRun(
        studio.roots.place(one.folder),
        one.state,
        one.method,
        one.epsilon,
        one.samples,
        one.date,
        one.problem,
        _measured(one.folder) if one.state == "finished" else {},
    )


def _measured(folder: Path) -> dict[str, MetricValue]:
    """The values of a run; none where a file of it cannot be read."""
    try:
        return metric_values(reports.measured_of_run(folder))
    except (UnderstudyError, LookupError, ArithmeticError):
        return {}


def metric_values(evaluation: Evaluation | None) -> dict[str, MetricValue]:
    """The values of `MEASURES`, by key; of several networks' accuracies the best. Owner-only."""
    best: dict[str, MetricValue] = {}
    for value in evaluation.values if evaluation else ():
        key = value.metric.key
        if key in MEASURES and not value.label and _place_by(value) < _place_by(best.get(key)):
            best[key] = value
    return best


def _place_by(value: MetricValue | None) -> float:
    """Where a value stands, the best first; what was not measured is last."""
    if value is None or not math.isfinite(value.value):
        return math.inf
    return -value.value if value.better == "higher" else value.value
