"""What every page of the studio works with: folders, jobs, sessions, words and templates."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlencode

import yaml

from understudy.core.errors import ConfigError, escaped, packages_for
from understudy.core.files import owner_file
from understudy.privacy.ledger.database import default_path, public_address
from understudy.report.rendering import environment as report_environment
from understudy.report.tables import shown
from understudy.run.books import ledger_rows
from understudy.run.progress import duration
from understudy.web.child_jobs import ChildJob, ChildJobs, JobReport
from understudy.web.confinement import FolderRoots
from understudy.web.copy_texts import copy_texts
from understudy.web.local_guard import Sessions

with packages_for("the web studio", "web"):
    from fastapi import APIRouter
    from jinja2 import ChoiceLoader, Environment, PackageLoader
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, RedirectResponse

STATIC_FILES: Mapping[str, tuple[Path, str]] = {
    name: (Path(__file__).with_name("static") / name, kind)
    for name, kind in (
        ("htmx.min.js", "text/javascript"),
        ("htmx.LICENSE.txt", "text/plain"),
        ("studio.js", "text/javascript"),
        ("studio.css", "text/css"),
        ("icon.svg", "image/svg+xml"),
    )
} | {"report.css": (Path(__file__).parents[1] / "report" / "templates" / "report.css", "text/css")}
"""The files that pages load, with their types; the style of reports is that of the report."""


@cache
def strings() -> Mapping[str, Any]:
    """Every word of the pages, by its name: ``english.yaml``."""
    text = Path(__file__).with_name("english.yaml").read_text(encoding="utf-8")
    content: Mapping[str, Any] = yaml.safe_load(text)
    return content


def progress_line(report: JobReport) -> str:
    """Where a job is, in one line."""
    words = strings()["job"]
    if report.state == "queued" and report.ahead:
        return str(words["queued"]).format(n=report.ahead)
    if report.state not in ("queued", "running"):
        return str(words[report.state])
    return report.step or str(words["starting"])


def time_left(report: JobReport) -> str:
    """How long the step of a job will take, as far as that can be told."""
    words = strings()["job"]
    if report.left is not None:
        return str(words["left"]).format(time=duration(report.left))
    if report.state == "running" and report.seconds >= 1:
        return str(words["since"]).format(time=duration(report.seconds))
    return ""


@cache
def page_environment() -> Environment:
    """The templates of the studio, beside those of the report and with their filters."""
    loader = ChoiceLoader([PackageLoader("understudy.web"), PackageLoader("understudy.report")])
    jinja = report_environment().overlay(loader=loader)
    jinja.filters = {
        **jinja.filters,
        "fill": lambda text, **values: str(text).format(**values),
        "anchor": lambda text: "c-" + hashlib.blake2b(text.encode(), digest_size=4).hexdigest(),
        "command_line": command_line_of,
        "copy_texts": copy_texts,
        "line": progress_line,
        "shown": shown,
        "time_left": time_left,
        "visible": escaped,
    }
    jinja.globals = {**jinja.globals, "t": strings()}
    return jinja


def message_page(status: int, reason: str, navigation: Iterable[tuple[str, str]] = ()) -> str:
    """HTML of a refusal."""
    titles = strings()["refusals"]
    return (
        page_environment()
        .get_template("message.html")
        .render(
            title=titles.get(str(status), titles["other"]),
            reason=reason,
            navigation=list(navigation),
            active="",
            form_token="",
        )
    )


@dataclass(frozen=True)
class WebStudio:
    """One studio.

    Attributes:
        ledger: Path or URL of the ledger that runs are charged to; None: the owner's own.
        home: The device's folder, of `understudy device web`; None: the studio of datasets.
    """

    roots: FolderRoots
    jobs: ChildJobs
    sessions: Sessions
    ledger: str | None = None
    home: Path | None = None
    navigation: tuple[tuple[str, str], ...] = field(default=())

    def page(
        self, request: Request, template: str, *, status: int = 200, **values: Any
    ) -> HTMLResponse:
        """A page, of a template and its values."""
        session = request.state.session
        text = (
            page_environment()
            .get_template(template)
            .render(
                active=request.url.path,
                navigation=self.navigation,
                form_token=self.sessions.form_token(session),
                **values,
            )
        )
        return HTMLResponse(text, status)

    def ask(
        self,
        kind: str,
        words: Iterable[str],
        *,
        about: Path | str = "",
        queue: str = "",
        stamp: str = "",
        plan: str = "",
    ) -> tuple[ChildJob, JobReport]:
        """A command that was asked for, now or before, and how far it is."""
        job = self.jobs.ask(
            kind, list(words), about=str(about), queue=queue, stamp=stamp, plan=plan
        )
        return job, self.jobs.report(job)

    def ledger_words(self) -> list[str]:
        """The option that names the ledger, where it is not the owner's own."""
        return [] if self.ledger is None else [f"--ledger={self.ledger}"]

    def drawing(self, kind: str, words: Iterable[str], stamp: str = "") -> Path:
        """Where what a command draws lies, whether or not it has drawn it yet."""
        folder = self.jobs.folder.parent / "sheets"
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder / f"{self.jobs.id_of(kind, list(words), stamp)}.png"

    @property
    def ledger_queue(self) -> str:
        """The queue of the runs that are charged to this studio's ledger."""
        return f"ledger {self.ledger or default_path()}"

    def stamp(self, dataset: Path) -> str:
        """What changes when a dataset, or the ledger, does."""
        if self.ledger is not None and "://" in self.ledger:
            return f"{dataset_stamp(dataset)} {sum(1 for _ in ledger_rows(self.ledger))}"
        return f"{dataset_stamp(dataset)} {_changed(Path(self.ledger or default_path()))}"


class StudioPages:
    """Some of the studio's pages, by their addresses: ``GET /plan`` and the like, and a method."""

    addresses: ClassVar[Mapping[str, str]] = {}

    def __init__(self, studio: WebStudio) -> None:
        self.studio = studio

    def router(self) -> APIRouter:
        """Their addresses, to be included in an application."""
        router = APIRouter()
        for address, name in self.addresses.items():
            method, path = address.split()
            router.add_api_route(path, getattr(self, name), methods=[method])
        return router


def dataset_stamp(dataset: Path) -> str:
    """What changes when a file of a dataset comes, goes or is written anew, however deep."""
    inner = (
        os.path.join(folder, name)
        for folder, folders, files in os.walk(dataset)
        for name in (*folders, *files)
    )
    return str(max(map(_changed, (str(dataset), *inner))))


def _changed(path: Path | str) -> int:
    try:
        return os.lstat(path).st_ctime_ns
    except OSError:
        return 0


def command_line_of(words: Iterable[str]) -> str:
    """A command as it is typed in the folder that the studio was started in."""
    here = re.compile(f"(^|[=:]){re.escape(os.getcwd() + os.sep)}")
    dash = re.compile(f"^{re.escape(os.getcwd())}(?=/-)")  # a name that would be an option
    typed_words = [
        here.sub(r"\1", dash.sub(".", word), count=1) for word in words if word != "--progress=json"
    ]
    option = "--ledger="
    typed_words = [
        option + public_address(word.removeprefix(option)) if word.startswith(option) else word
        for word in typed_words
    ]
    return shlex.join(["understudy", *typed_words])


def form_of(request: Request) -> dict[str, str]:
    """The fields of a form, which the guard has read; of one that comes twice, the last."""
    return dict(request.state.form)


async def store_upload(request: Request, path: Path) -> None:
    """Write a file that is being sent; nothing is left where it does not arrive whole."""
    try:
        with owner_file(path, "wb") as file:
            async for chunk in request.stream():
                file.write(chunk)
    except BaseException:  # the browser has gone, or the disk is full
        path.unlink()
        raise


def needed(form: Mapping[str, str], name: str) -> str:
    """A field that a form has to have.

    Raises:
        ConfigError: It has not.
    """
    if not form.get(name):
        raise ConfigError(f"{name} is missing from this form")
    return form[name]


def moved(path: str, **query: str) -> RedirectResponse:
    """The answer to a form: another page, to be read."""
    return RedirectResponse(path + ("?" + urlencode(query) if query else ""), 303)


def link(path: str, *pairs: tuple[str, str], **query: str) -> str:
    """A page with what it is asked."""
    return path + "?" + urlencode([*query.items(), *pairs])
