"""What a run made: to look at, to measure, to hand over; and releases of others, to be checked.

The reports are the very pages that the command line writes, each under a policy of its own that
allows its one style sheet by its hash, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import re
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Annotated, ClassVar

from fastapi import Query
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from understudy.core.errors import ConfigError
from understudy.core.option import list_of_names
from understudy.core.roles import ROLES
from understudy.data.reading_options import split_name
from understudy.release.outputs import RunPaths, read_json, release_folder
from understudy.release.run_file import read_run_file
from understudy.release.verify import verify
from understudy.report import read_record
from understudy.report.images import gallery, nearest_pairs
from understudy.report.meaning import budget
from understudy.report.verdict_table import cards, guarantee_card
from understudy.run import report as reports
from understudy.run.config import AUDITED, option_defaults
from understudy.run.released_classifier import has_statistics
from understudy.web.child_jobs import required_job
from understudy.web.confinement import OutsideRoots
from understudy.web.data_pages import PlaceName, evaluate_words
from understudy.web.export_pages import figures, published_points
from understudy.web.option_forms import SETTING, words_of
from understudy.web.sample_index import PAGE, SampleIndex
from understudy.web.studio import (
    StudioPages,
    command_line_of,
    dataset_stamp,
    form_of,
    link,
    moved,
    needed,
)

_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)

SampleNumber = Annotated[int, Query(ge=0, le=2**31)]


class ResultPages(StudioPages):
    """A release, and what is done with it."""

    addresses: ClassVar[Mapping[str, str]] = {
        "GET /result": "result",
        "GET /result/sample": "sample",
        "GET /result/report": "report",
        "GET /result/public": "public",
        "GET /compare": "compare",
        "GET /compare/report": "comparison",
        "GET /verify": "verify",
        "POST /result/do": "do",
        "POST /result/cancel": "cancel",
    }

    def result(
        self, request: Request, run: PlaceName, label: SampleNumber = 0, page: SampleNumber = 0
    ) -> Response:
        """A release, with what only its owner may see of it."""
        path, release = self._release(run)
        record = read_record(read_json(release / "privacy.json"))
        owned = RunPaths(path).record.is_file()
        faults = _faults(release, dataset_stamp(release))
        owner = replace(reports.load(path).owner, faults=faults) if owned else None
        comparable = published_points(record, owner) if owner else ()
        classes = SampleIndex(release).classes()
        label = min(label, max(0, len(classes) - 1))
        count = classes[label].count if classes else 0
        jobs = self.studio.jobs
        done = [
            # what evaluate prints stands on the page
            (job, jobs.report(job), "" if job.kind == "evaluate" else jobs.out(job).strip())
            for job in jobs.of(path)
            if job.kind != "synthesize"
        ]
        return self.studio.page(
            request,
            "result.html",
            run=run,
            record=record,
            budget=budget(record.receipt),
            owned=owned,
            cards=cards(record, owner)
            if owner
            else [guarantee_card(record.receipt, faults, record.private_samples)],
            gallery=gallery(owner.sheets) if owner else [],
            pairs=nearest_pairs(owner.pairs)[0] if owner else [],
            real=self._real(owner.dataset) if owner else "",
            plots=figures(path, record, owner) if owner else [],
            statistics=owned and has_statistics(release, record),
            measured=owner is not None and owner.evaluation is not None,
            comparable=comparable,
            classes=classes,
            label=label,
            page=page,
            pages=-(-count // PAGE),
            numbers=range(page * PAGE, min((page + 1) * PAGE, count)),
            jobs=done[-6:],
            command_words=command_line_of(["report", str(path)]),
        )

    def sample(self, run: PlaceName, label: SampleNumber, number: SampleNumber) -> Response:
        """One synthetic image."""
        path = self.studio.roots.path(run)
        data = SampleIndex(release_folder(path)).thumbnail(label, number)
        return Response(data, media_type="image/png")

    def report(self, run: PlaceName) -> Response:
        """The owner's report, as the command line writes it."""
        path, release = self._release(run)
        loaded = reports.load(path)
        from understudy.report import owner_report

        owner = replace(loaded.owner, faults=_faults(release, dataset_stamp(release)))
        return document(owner_report(loaded.record, owner))

    def public(self, run: PlaceName) -> Response:
        """The public report, exactly as a recipient sees it."""
        path, _ = self._release(run)
        return document(reports.public_page(path))

    def do(self, request: Request) -> Response:
        """Begin one of the commands that are done with a release; none of them spends anything."""
        form = form_of(request)
        run = needed(form, "run")
        path, _ = self._release(run)
        kind, words = self._action(needed(form, "action"), path, form)
        stamp = self.studio.jobs.newest(path, kind)
        self.studio.ask(kind, words, about=path, stamp=stamp)
        return moved("/result", run=run)

    def cancel(self, request: Request) -> Response:
        """Stop one of these commands; the release stays as it is."""
        form, jobs = form_of(request), self.studio.jobs
        run, id = needed(form, "run"), needed(form, "job")
        path, _ = self._release(run)
        jobs.cancel(required_job(next((job for job in jobs.of(path) if job.id == id), None)))
        return moved("/result", run=run)

    def _action(self, action: str, path: Path, form: Mapping[str, str]) -> tuple[str, list[str]]:
        progress = "--progress=json"
        if action == "resample":
            count = _whole(needed(form, "count"), "count")
            out = self.studio.roots.new(self.studio.roots.place(path.parent), needed(form, "out"))
            seed = _whole(form.get("seed") or "1", "seed")
            words = [action, str(path), f"--count={count}", f"--seed={seed}", f"--out={out}"]
            return action, [*words, progress]
        if action == "train":
            origin = "statistics" if "statistics" in form else "samples"
            export = f"--export={path / f'model-of-{origin}.onnx'}"
            return action, [action, str(path), f"--from={origin}", export, progress]
        if action == "evaluate":
            return action, evaluate_words(self.studio.roots, str(path), form)
        if action == "audit":
            real = self.studio.roots.source(needed(form, "real"))[1]
            receipt = read_record(read_json(path / "release" / "privacy.json")).receipt
            claim = [f"--epsilon={receipt.epsilon}", f"--delta={receipt.delta}"]
            words = [action, real, *claim, *self._run_words(path)]
            return action, [*words, f"--out={path / 'owner' / 'audit.json'}", progress]
        raise ConfigError("this page knows resample, train, evaluate and audit")

    def _run_words(self, path: Path) -> list[str]:
        """The options of a run that an audit of it takes as well."""
        settings, usual = read_run_file(RunPaths(path).record).settings, option_defaults()
        given = settings.get("settings", {}).items()
        values = {SETTING + name: str(value) for name, value in given}
        for name in AUDITED:
            value = settings.get(name)
            if value is None or value == usual.get(name):
                continue
            values[name] = list_of_names(value) if isinstance(value, list) else str(value)
            if name in ROLES and ROLES[name].port == "Source" and value != "none":
                values[name] = self._real(value)
                if not values[name]:
                    raise OutsideRoots
        return words_of(self.studio.roots, values)

    def compare(
        self,
        request: Request,
        run: Annotated[list[str], Query(max_length=20)] = [],  # noqa: B006
    ) -> Response:
        """Two or more releases to be put side by side."""
        places = [self.studio.roots.place(self._release(one)[0]) for one in run]
        paths = [str(self.studio.roots.path(place)) for place in places]
        return self.studio.page(
            request,
            "side_by_side.html",
            runs=places,
            report=link("/compare/report", *(("run", one) for one in places)),
            command_words=command_line_of(["compare", *paths]),
        )

    def comparison(self, run: Annotated[list[str], Query(min_length=2, max_length=20)]) -> Response:
        """The page of a comparison, as the command line writes it."""
        paths = [self._release(one)[0] for one in run]
        from understudy.evaluation.side_by_side import compare

        with tempfile.TemporaryDirectory(dir=self.studio.jobs.folder) as folder:
            page = Path(folder) / "page.html"
            reports.write_comparison(paths, compare(paths), page)
            return document(page.read_text(encoding="utf-8"))

    def verify(self, request: Request, file: PlaceName = "") -> Response:
        """What can be checked of a release from outside: of a folder, or of a zip."""
        checked, name = None, "RELEASE"
        if file:
            path = self.studio.roots.dataset(file)
            name = str(path)
            checked = verify(path)
        record = checked.record if checked is not None and checked.sound else None
        return self.studio.page(
            request,
            "verify.html",
            file=file,
            checked=checked,
            # of a release that is not sound, what it states is no guarantee
            guarantee=None
            if record is None
            else guarantee_card(record.receipt, (), record.private_samples),
            command_words=command_line_of(["verify", name]),
        )

    def _real(self, dataset: str) -> str:
        """The place of a run's private dataset, as it was read; empty where it lies elsewhere."""
        try:
            plain, _ = split_name(dataset)
            place = self.studio.roots.place(Path(plain).resolve(strict=True))
            return place + dataset.removeprefix(plain)
        except (OSError, ValueError, RuntimeError, ConfigError):
            return ""

    def _release(self, run: str) -> tuple[Path, Path]:
        """A run's folder, or that of a release alone, and the release; no link leads out of it."""
        path = self.studio.roots.dataset(run)
        release = release_folder(path)
        return (release.parent if release != path else path), release


@lru_cache(maxsize=64)
def _faults(release: Path, stamp: str) -> tuple[str, ...]:
    """What `verify` finds wrong with a release, once for each stamp of its files."""
    return verify(release).faults


def document(page: str) -> Response:
    """A page that is whole by itself, under a policy that allows its own style and nothing else."""
    hashes = " ".join(
        f"'sha256-{base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()}'"
        for style in _STYLE.findall(page)
    )
    hashes = hashes or "'none'"
    policy = (
        f"default-src 'none'; img-src data:; style-src {hashes}; base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'; sandbox"
    )
    return HTMLResponse(page, headers={"content-security-policy": policy})


def _whole(text: str, name: str) -> int:
    if not (text.isascii() and text.isdigit() and 0 <= int(text[:12]) < 10**9):
        raise ConfigError(f"{name} is a whole number, found {text!r}")
    return int(text)
