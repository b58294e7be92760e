"""The first pages: a folder is chosen or a file dropped, read once, and looked at. Owner-only."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar

from fastapi import Query
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response

from understudy.core.errors import ConfigError
from understudy.core.option import list_of_names
from understudy.web.confinement import FolderRoots, new_name
from understudy.web.option_forms import READING, form_options, reading_fields, words_of
from understudy.web.studio import (
    StudioPages,
    command_line_of,
    dataset_stamp,
    form_of,
    link,
    moved,
    needed,
    store_upload,
)

PlaceName = Annotated[str, Query(max_length=4096)]
"""A file or folder, as `FolderRoots` names it."""

_UPLOADS = "understudy-uploads"


class DataPages(StudioPages):
    """Choosing and checking a dataset."""

    addresses: ClassVar[Mapping[str, str]] = {
        "GET /": "home",
        "GET /data": "data",
        "GET /data/sheet": "sheet",
        "POST /data/evaluate": "evaluate",
        "PUT /upload": "upload",
    }

    def home(self, request: Request, place: PlaceName = "") -> Response:
        """The folders of a place."""
        roots = self.studio.roots
        if not place and len(roots.folders) == 1:
            place = next(iter(roots.folders))
        entries = roots.entries(place)
        parts = [part for part in place.split("/") if part]
        crumbs = [(name, "/".join(parts[: k + 1])) for k, name in enumerate(parts)]
        return self.studio.page(
            request,
            "home.html",
            place=place,
            crumbs=crumbs,
            entries=entries,
            command_words=command_line_of(["runs", *map(str, roots.folders.values())]),
        )

    def data(self, request: Request, source: PlaceName) -> Response:
        """What is wrong with a dataset, and what it holds."""
        studio = self.studio
        path, name = studio.roots.source(source)
        values = form_options(request.query_params.multi_items(), READING)
        words = ["check", name, *words_of(studio.roots, values)]
        sheet = studio.drawing("sheet", words)
        job, report = studio.ask(
            "check",
            [*words, f"--sheet={sheet}", "--json", "--progress=json"],
            about=path,
            stamp=dataset_stamp(path),
        )
        check = studio.jobs.json(job) if report.state == "finished" else None
        proposed = {} if check is None else check["options"]
        units = {name: value for name, value in proposed.items() if name.startswith("unit")}
        pairs, planned = [*values.items()], _planned(values, proposed)
        return studio.page(
            request,
            "data.html",
            source=source,
            values=values,
            check=check,
            job=job,
            report=report,
            fields=reading_fields(values),
            asked_unit=any(name.startswith("unit") for name in values),
            unit_options=units,
            plan_link=link("/plan", *planned, source=source),
            of_total={"source": source} | {n: value for n, value in planned if n == "skip_bad"},
            sheet=link("/data/sheet", *pairs, source=source) if sheet.is_file() else "",
            evaluations=[
                (job, studio.jobs.report(job), studio.jobs.out(job).strip())
                for job in studio.jobs.of(path, "evaluate")[-1:]
            ],
            command_words=command_line_of(words),
        )

    def evaluate(self, request: Request) -> Response:
        """Measure somebody else's synthetic images against real ones; nothing is spent."""
        form, studio = form_of(request), self.studio
        source = needed(form, "source")
        path, name = studio.roots.source(source)
        words = evaluate_words(studio.roots, name, form)
        stamp = studio.jobs.newest(path, "evaluate")
        studio.ask("evaluate", words, about=path, stamp=stamp)
        return moved("/data", source=source)

    def sheet(self, request: Request, source: PlaceName) -> Response:
        """A few private images of each class, as the check drew them."""
        values = form_options(request.query_params.multi_items(), READING)
        _, name = self.studio.roots.source(source)
        words = ["check", name, *words_of(self.studio.roots, values)]
        sheet = self.studio.drawing("sheet", words)
        if not sheet.is_file():
            raise ConfigError("there is no contact sheet of this dataset: check it first")
        return FileResponse(sheet, media_type="image/png")

    async def upload(
        self, request: Request, name: Annotated[str, Query(max_length=255)]
    ) -> Response:
        """Take in a file that was dropped on the page; what comes back is its place."""
        root = next(iter(self.studio.roots.folders.values()))
        suffix = Path(name).suffix.lower()
        if suffix not in (".zip", ".npz"):
            raise ConfigError("a file that is dropped here is a .zip or an .npz")
        folder = root / _UPLOADS
        folder.mkdir(mode=0o700, exist_ok=True)
        if folder.is_symlink():
            raise ConfigError(f"{_UPLOADS} is a link: remove it")
        place = self.studio.roots.new(
            self.studio.roots.place(folder),
            f"{new_name(Path(name).stem)}-{secrets.token_hex(3)}{suffix}",
        )
        await store_upload(request, place)
        return JSONResponse({"place": self.studio.roots.place(place)})


def evaluate_words(roots: FolderRoots, synthetic: str, form: Mapping[str, str]) -> list[str]:
    """The command that measures synthetic images as a form asks for it."""
    real = roots.source(needed(form, "real"))[1]
    words = ["evaluate", synthetic, f"--real={real}", "--progress=json"]
    if test := form.get("test"):
        words.append(f"--test={roots.source(test)[1]}")
    flags = {"full": "--full", "skip_bad": "--skip-bad"}
    return [*words, *(word for name, word in flags.items() if form.get(name))]


def _planned(values: Mapping[str, str], proposed: Mapping[str, object]) -> list[tuple[str, str]]:
    """How a run reads the dataset: as it was asked, and by what is proposed, but for the unit."""
    pairs = dict(values)
    for name, value in proposed.items():
        if not name.startswith("unit"):
            text = list_of_names(value) if isinstance(value, list) else str(value)
            pairs.setdefault(name, "on" if value is True else text)
    return list(pairs.items())
