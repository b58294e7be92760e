"""What a result leaves as files: the release, other formats of it, its figures and numbers."""

from __future__ import annotations

import csv
import io
import os
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, get_args

from fastapi import Query
from starlette.background import BackgroundTask
from starlette.responses import FileResponse, Response

from understudy.core.errors import ConfigError
from understudy.core.files import ReleaseFormat, files_below
from understudy.metrics.utility import BALANCED_ACCURACY
from understudy.planning.benchmark_results import (
    BenchmarkResult,
    accuracy_over_epsilon,
    comparable_results,
)
from understudy.release.outputs import read_json, release_folder, write_images
from understudy.report import OwnerRecord, Released, RunRecord, as_csv, read_record
from understudy.report.html import DrawnPlot, drawn_plots, owner_plots, plot_svg
from understudy.run import report as reports
from understudy.web.data_pages import PlaceName
from understudy.web.run_pages import metric_values
from understudy.web.studio import StudioPages

Export = Literal["release", "handover", "npz", "parquet"]
"""The release; the same beside a page that says what it is; its images in another format."""


class ExportPages(StudioPages):
    """Files of one result."""

    addresses: ClassVar[Mapping[str, str]] = {
        "GET /result/download": "download",
        "GET /result/figure": "figure",
        "GET /result/values": "values",
    }

    def download(self, run: PlaceName, what: Export = "release") -> Response:
        """One zip; another format of the images has the release's card beside it."""
        path = self.studio.roots.dataset(run)
        release = release_folder(path)
        name = (release.parent if release != path else path).name
        descriptor, file = tempfile.mkstemp(suffix=".zip", dir=self.studio.jobs.folder)
        try:
            with (
                os.fdopen(descriptor, "wb") as opened,
                zipfile.ZipFile(opened, "w", strict_timestamps=False) as archive,
            ):
                if what in get_args(ReleaseFormat):
                    self._add_format(archive, release, what)
                else:
                    for inner in files_below(release):
                        archive.write(release / inner, f"{name}/release/{inner}")
                if what == "handover":
                    archive.writestr(f"{name}/what-this-is.html", reports.public_page(path))
        except BaseException:
            os.unlink(file)
            raise
        return FileResponse(
            file,
            media_type="application/zip",
            filename=f"{name}-{what}.zip",
            background=BackgroundTask(os.unlink, file),
        )

    def figure(
        self,
        run: PlaceName,
        number: Annotated[int, Query(ge=0, le=1000)],
        form: Literal["svg", "csv"] = "svg",
    ) -> Response:
        """A figure of the owner's as SVG, or its points as CSV."""
        path = self.studio.roots.dataset(run)
        loaded = reports.load(path)
        plots = figures(path, loaded.record, loaded.owner)
        if number >= len(plots):
            raise ConfigError("this result has no such figure")
        one, name = plots[number], f"{path.name}-{plots[number].key}.{form}"
        if form == "svg":
            return _file(plot_svg(one), name, "image/svg+xml")
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(one.plot.rows())
        return _file(text.getvalue(), name, "text/csv")

    def values(self, run: PlaceName) -> Response:
        """Every metric value, as ``understudy report --table`` writes them."""
        path = self.studio.roots.dataset(run)
        evaluation = reports.load(path).owner.evaluation
        text = as_csv(evaluation.rows() if evaluation else [])
        return _file(text, f"{path.name}-values.csv", "text/csv")

    def _add_format(self, archive: zipfile.ZipFile, release: Path, format: Any) -> None:
        shape = read_record(read_json(release / "privacy.json")).image_shape
        if shape is None:
            raise ConfigError("this release has no images that another format could hold")
        with tempfile.TemporaryDirectory(dir=self.studio.jobs.folder) as folder:
            write_images(release, shape, Path(folder) / "images", format)
            for inner in files_below(Path(folder) / "images"):
                archive.write(Path(folder) / "images" / inner, inner)
        for document in ("README.md", "PRIVACY.md", "privacy.json"):
            archive.write(release / document, document)


def figures(path: Path, record: RunRecord, owner: OwnerRecord) -> list[DrawnPlot]:
    """The figures of a run: accuracy over epsilon beside published points, and the report's."""
    own = []
    releases = owner.releases or [Released(path.name, record, reports.measured_of_run(path))]
    for other in releases:
        accuracy = metric_values(other.evaluation).get(BALANCED_ACCURACY.key)
        if accuracy and not other.record.unprotected and other.record.method == record.method:
            own.append((other.record.receipt.epsilon, accuracy.value, other.name))
    published = published_points(record, owner)
    curves = [accuracy_over_epsilon(own, published)] if own else []
    return drawn_plots("epsilon", curves) + owner_plots(owner)


def published_points(record: RunRecord, owner: OwnerRecord) -> tuple[BenchmarkResult, ...]:
    """What was published of data and a run like these."""
    encoder = next((one.name for one in record.models if one.role == "encoder"), "")
    shape = record.image_shape
    return comparable_results(
        record.method,
        encoder,
        "images" if shape else "embeddings",
        images=owner.rows,
        classes=len(record.classes),
        side=shape[0] if shape else None,
    )


def _file(text: str, name: str, kind: str) -> Response:
    """A text to be stored, under a name of letters alone."""
    plain = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "-" for c in name)
    headers = {"content-disposition": f'attachment; filename="{plain}"'}
    return Response(text, media_type=kind, headers=headers)
