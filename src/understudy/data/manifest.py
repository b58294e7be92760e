"""A manifest: which images a flat folder has, their classes, and who they belong to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from understudy.core.errors import SourceError
from understudy.data.encoded_images import Options, Records, RecordSource
from understudy.data.labels import label_column, real_label, real_numbers
from understudy.data.table_files import LABELS_FILE, Table
from understudy.data.units import DICOM_UNITS, person_columns, rule_of

PATHS = ("path", "file_name", "filename", "image_id")
"""Columns that hold the path of an image: this project's name, then those of the hub's
``metadata.csv``, of other tools, and of CelebA's ``list_attr_celeba.csv``."""

_ROWS_READ = 20  # of which it is seen whether a column names images


class ImageNames:
    """The images beside a manifest, whose names may stand in it without their folder or ending."""

    def __init__(self, paths: Callable[[], Iterable[str]]) -> None:
        """``paths`` gives them, relative to the manifest's folder, when it is first needed."""
        self.paths = paths

    def path_of(self, name: str) -> tuple[str, str | None]:
        """The path of the one image of this name, else the name; a fault where several have it."""
        matching = self._paths_of(name)
        if len(matching) > 1:
            return name, f"is the name of {len(matching)} images: list paths, such as {matching[0]}"
        return (matching[0] if matching else name), None

    def has(self, name: str) -> bool:
        """Whether it is the name of an image, or of several."""
        return bool(self._paths_of(name))

    def _paths_of(self, name: str) -> list[str]:
        query = PurePosixPath(name)
        folders = query.parent.parts
        return [
            path
            for path in self._by_name.get(query.name, ())
            if not folders or PurePosixPath(path).parent.parts[-len(folders) :] == folders
        ]

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        """The paths of each name, with and without its ending."""
        paths: dict[str, list[str]] = {}
        for path in self.paths():
            for name in {PurePosixPath(path).name, PurePosixPath(path).stem}:
                paths.setdefault(name, []).append(path)
        return paths


class ManifestLine(NamedTuple):
    """One row of a manifest; ``path`` is relative to the manifest's folder."""

    path: str
    label: str | None
    unit: str | None
    fault: str | None


@dataclass(frozen=True, slots=True)
class Manifest:
    """A table with a column of paths, perhaps one of classes and one of units."""

    table: Table
    files: str  # the column that holds the paths of the images
    images: ImageNames
    label: str | None  # the column that holds the class; None for images without labels
    # the column that says who an image belongs to; None where every image is a unit
    unit: str | None
    dicom_units: bool = False  # whether a field of each DICOM file says it instead of a column
    person_columns: tuple[str, ...] = ()  # columns that may say it, that one too

    @property
    def path(self) -> Path:
        """The file of the table."""
        return self.table.path

    def rows(self) -> Iterator[ManifestLine]:
        """Every row in order."""
        columns = [name for name in (self.files, self.label, self.unit) if name is not None]
        for row in self.table.rows(list(dict.fromkeys(columns))):
            label = (row.get(self.label) or None) if self.label is not None else None
            unit = (row.get(self.unit) or None) if self.unit is not None else None
            unlabelled = self.label is not None and label is None
            fault = "has no label in the manifest" if unlabelled else None
            yield ManifestLine(row.get(self.files) or "", label, unit, fault)

    def unlisted(self, names: Container[str]) -> Iterator[str]:
        """The images that a `LABELS_FILE` leaves out; other manifests may leave some out."""
        if self.path.name == LABELS_FILE:
            yield from (name for name in self.images.paths() if name not in names)

    @property
    def leaves_out(self) -> str:
        """The fault of those."""
        return f"is not listed in {self.path.name}, so its class is not known"

    def source(self, records: Records, options: Options) -> RecordSource:
        """The images of the rows."""
        return RecordSource(
            records,
            options,
            label_column=self.label,
            dicom_units=self.dicom_units,
            person_columns=self.person_columns,
        )


def path_column(table: Table, images: ImageNames) -> str | None:
    """The column that names the images: one of `PATHS`, else the only one that does; None."""
    names = [column.name for column in table.columns()]
    for name in PATHS:
        if name in names:
            return name
    rows = list(islice(table.rows(names), _ROWS_READ))
    naming = []
    for name in names:
        cells = [row.get(name) or "" for row in rows]
        if cells and len(set(cells)) == len(cells) and all(map(images.has, cells)):
            naming.append(name)
    return naming[0] if len(naming) == 1 else None


def read_manifest(
    table: Table, images: ImageNames, unit: str | None, label: str | None = None
) -> Manifest:
    """Open a manifest and check its columns; an error lists those that it has.

    ``unit`` is a column, a rule as text, or a DICOM field; ``label`` as for `label_column`.
    """
    columns, path = table.columns(), table.path
    names = [column.name for column in columns]
    column_names = ", ".join(names) or "none"
    files = path_column(table, images)
    if files is None:
        raise SourceError(
            f"a manifest needs a column 'path'; its columns are: {column_names}. The names "
            f"{', '.join(PATHS[1:])} serve too, and so does the one column that names the images, "
            "with or without their folders and endings",
            path,
        )
    of_files = unit in DICOM_UNITS and unit not in names
    column = None if of_files or rule_of(unit) is not None else unit
    if column is not None and column not in names:
        raise SourceError(
            f"there is no unit column {column!r}; the columns are: {column_names}", path
        )
    twice = sorted(name for name, count in Counter(names).items() if count > 1 and name)
    if twice:
        raise SourceError(f"has the column {twice[0]!r} twice: rename one of them", path)
    class_column = label_column(columns, label, path, others=(files, column), usual=("label",))
    if class_column is not None and table.untyped:
        cells = (row.get(class_column) for row in table.rows([class_column]))
        if real_numbers(cells):
            raise SourceError(real_label(class_column), path)
    persons = person_columns(name for name in names if name not in (files, class_column))
    return Manifest(table, files, images, class_column, column, of_files, persons)
