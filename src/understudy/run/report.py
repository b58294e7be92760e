"""``understudy report`` and ``understudy compare``: pages and tables from what runs have left."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.core.errors import ConfigError, InputError, LedgerError, RunError
from understudy.core.files import folder_of, write_private, write_whole
from understudy.core.results import Evaluation, Pairs
from understudy.core.types import Images
from understudy.privacy.ledger.ledger import Ledger
from understudy.release.documents import release_scatter, spending
from understudy.release.galleries import read_gallery, release_samples
from understudy.release.outputs import open_release, read_arrays, read_json, release_folder
from understudy.release.verify import fault_words, sound_record, verify
from understudy.report import (
    BudgetState,
    Comparison,
    OwnerRecord,
    Released,
    RunRecord,
    Sample,
    Sheet,
    as_csv,
    compare_releases,
    comparison_report,
    owner_json,
    owner_report,
    public_json,
    public_report,
    read_evaluation,
    read_owner,
    read_record,
)
from understudy.run.accuracy import evaluation_of_scores, utility_of_scores
from understudy.run.held_out import is_test_held_out

if TYPE_CHECKING:  # it takes a while to import
    from understudy.release.run_file import RunFile

_SAMPLES = 8  # images of a release in a comparison


@dataclass(frozen=True)
class RunReport:
    """A run as its owner's report tells it. Owner-only."""

    record: RunRecord
    owner: OwnerRecord
    folder: Path

    def __repr__(self) -> str:
        """A line, for a notebook; `as_dict` has the rest."""
        return f"<RunReport {self.folder}: {self.record.method}; write() makes its page>"

    @property
    def page(self) -> Path:
        """Where its page is."""
        return self.folder / "owner" / "report.html"

    def write(self) -> Path:
        """Write the page, ``owner/report.html``."""
        require_folder(self.page)
        write_whole(self.page, owner_report(self.record, self._verified).encode())
        return self.page

    def as_dict(self) -> dict[str, Any]:
        """Everything as JSON values."""
        return owner_json(self.record, self._verified)

    @cached_property
    def _verified(self) -> OwnerRecord:
        """The owner's record, with what `verify` found wrong with the release, read once."""
        return replace(self.owner, faults=verify(self.folder / "release").faults)

    def write_table(self, path: Path) -> Path:
        """Write the metric values as CSV or Parquet, a line each."""
        rows = self.owner.evaluation.rows() if self.owner.evaluation else []
        return write_table(rows, path)


def load(folder: str | PathLike[str], *, ledger: str | None = None) -> RunReport:
    """Read back what a run and its evaluation left.

    The runs in the same parent folder that were charged to the same dataset are in its
    privacy-utility curve.

    Args:
        folder: A run's folder, complete.
        ledger: Where the dataset's budget is read; by default where the run was charged.

    Raises:
        RunError: It is no folder of a complete run, or a file of it is damaged.
        LedgerError: The ledger that was named does not know the dataset.
    """
    place = release_folder(folder_of(folder))
    root = place.parent
    run_json = root / "owner" / "run.json"
    if place.name != "release" or not run_json.is_file():
        raise RunError(
            f"{folder}: is a release without its run (no owner/run.json beside it); its public "
            "report can be written: understudy report --public OUT.html"
        )
    from understudy.release.run_file import read_run_file  # imports pydantic

    run, record = read_run_file(run_json), read_record(read_json(place / "privacy.json"))
    owner = read_owner(run.as_dict())
    now = _budget(run, ledger)
    others = _siblings(root, run)
    owner = replace(
        owner,
        spending=now or owner.spending,
        budget_from="run" if now is None else "ledger",
        sheets=read_gallery(root / "owner") or _synthetic_only(place, record),
        evaluation=stored_evaluation(root),
        utility=utility_of_scores(owner.scores),
        held_out=is_test_held_out(root / "owner", unprotected=record.unprotected),
        pairs=read_pairs(root / "owner" / "pairs.npz"),
        releases=_named([root, *others]) if others else (),
        scatter=release_scatter(place, record),
    )
    return RunReport(record, owner, root)


def refresh(folder: str | PathLike[str]) -> Path:
    """Write ``owner/report.html`` anew from what the run and its evaluation left."""
    return load(folder).write()


def public_page(folder: str | Path) -> str:
    """The part of the report that may go with the release, as HTML.

    Reads the folder of the release and nothing else: nothing of the owner's is opened.
    """
    record, place = _public(folder)
    return public_report(record, _samples(place, record), release_scatter(place, record))


def write_public_report(folder: str | Path, out: Path) -> Path:
    """Write `public_page`."""
    require_folder(out)
    out.write_text(public_page(folder), encoding="utf-8")
    return out


def public_as_dict(folder: str | Path) -> dict[str, Any]:
    """The public report as JSON values; reads what `write_public_report` reads."""
    return public_json(_public(folder)[0])


def compare_folders(
    folders: Sequence[str | PathLike[str]], evaluations: Sequence[Evaluation] = ()
) -> Comparison:
    """Put several releases side by side.

    Args:
        folders: Two or more releases, or folders of runs.
        evaluations: What was measured of each; none: what its run and its evaluation left.
    """
    places = different_folders(folders)
    if len(places) < 2:
        raise ConfigError(
            f"a comparison needs two or more different releases, found {len(places)}: "
            "understudy compare FOLDER FOLDER"
        )
    releases = _named(places)
    if evaluations:
        releases = tuple(
            replace(one, evaluation=measured)
            for one, measured in zip(releases, evaluations, strict=True)
        )
    comparison = compare_releases(releases)
    notes = [
        f"What {one.name} states is unverified: {fault_words(checked.faults)} (understudy verify)."
        for one, checked in zip(releases, map(verify, places), strict=True)
        if checked.faults
    ]
    return replace(comparison, notes=(*notes, *comparison.notes))


def write_comparison(folders: Sequence[str | Path], comparison: Comparison, out: Path) -> Path:
    """Write a comparison as a page with a few images of each release."""
    samples = []
    for place, one in zip(different_folders(folders), comparison.releases, strict=True):
        images = [s.images for s in _samples(release_folder(place), one.record)]
        if images:
            each = -(-_SAMPLES // len(images))
            first = np.concatenate([part[:each] for part in images])
            samples.append(Sample(one.name, first[:_SAMPLES]))
    return _write(out, comparison_report(comparison, samples))


def write_table(rows: Sequence[dict[str, Any]], path: Path) -> Path:
    """Write rows of metric values, as ``pandas.read_csv`` takes them."""
    require_table(path)
    return _write(path, as_csv(rows))


def require_table(path: Path) -> None:
    """Refuse a table that cannot be written, before anything else is.

    Raises:
        ConfigError: Another ending than ``.csv``, or no such folder.
    """
    if path.suffix != ".csv":
        raise ConfigError(f"the table is written as CSV: name it {path.stem}.csv, not {path.name}")
    require_folder(path)


def stored_evaluation(root: Path) -> Evaluation | None:
    """What an evaluation measured of a run's release; None where there was none."""
    path = root / "owner" / "evaluation.json"
    if not path.is_file():
        return None
    return read_evaluation(read_json(path))


def measured_of_run(root: Path) -> Evaluation | None:
    """What an evaluation measured of a run's release, beside what the run measured by itself."""
    evaluation, path = stored_evaluation(root), root / "owner" / "run.json"
    if not path.is_file():
        return evaluation
    from understudy.release.run_file import read_run_file

    own = evaluation_of_scores(read_owner(read_run_file(path).as_dict()).scores)
    return own.and_also(evaluation) if own and evaluation else own or evaluation


def read_pairs(path: Path) -> Pairs | None:
    """The nearest pairs that an evaluation left, or None."""
    if not path.is_file():
        return None
    arrays = read_arrays(path)
    try:
        values = {name: arrays[name] for name in ("synthetic", "real", "distances", "rows")}
        return Pairs(**values, how=str(arrays["how"]))
    except KeyError as error:
        raise RunError(f"{path}: has no array {error}; evaluate the release again") from error


def _budget(run: RunFile, ledger: str | None) -> BudgetState | None:
    """How the dataset stands now; None where the ledger of the run is not at hand."""
    address = ledger or run.ledger
    if address is None or run.dataset_id is None:
        return None  # a run without private data
    if ledger is None and not Path(address).is_file():
        return None
    try:
        with Ledger(address, make=False) as book:
            return spending(book, run.dataset_id)
    except LedgerError:
        if ledger is not None:
            raise
        return None


def _siblings(root: Path, run: RunFile) -> list[Path]:
    """Complete runs in the same parent folder that were charged to the same dataset.

    A damaged one is passed over: the report of this run does not depend on its neighbours.
    """
    from understudy.release.run_file import read_run_file

    siblings = []
    for path in sorted(root.resolve().parent.glob("*/owner/run.json")):
        folder = path.parent.parent
        with suppress(InputError, RunError):
            if folder != root.resolve() and read_run_file(path).dataset_id == run.dataset_id:
                _released(folder, folder.name)
                siblings.append(folder)
    return siblings


def different_folders(folders: Sequence[str | PathLike[str]]) -> list[Path]:
    """Each folder once, in their order; a single one may stand for itself."""
    folders = [folders] if isinstance(folders, str | PathLike) else folders
    return list(dict.fromkeys(folder_of(folder).resolve() for folder in folders))


def _named(folders: Sequence[Path]) -> tuple[Released, ...]:
    """Releases under names that tell them apart."""
    names = [folder.resolve().name for folder in folders]
    if len(set(names)) < len(names):
        names = ["/".join(folder.resolve().parts[-2:]) for folder in folders]
    return tuple(_released(folder, name) for folder, name in zip(folders, names, strict=True))


def _released(folder: Path, name: str) -> Released:
    place = release_folder(folder)
    record = read_record(read_json(place / "privacy.json"))
    is_of_run = place.name == "release"
    return Released(name, record, measured_of_run(place.parent) if is_of_run else None)


def _public(folder: str | Path) -> tuple[RunRecord, Path]:
    place = release_folder(Path(folder))
    return sound_record(place), place


def _samples(place: Path, record: RunRecord) -> list[Sample]:
    """A few images of each class of a release; none where it holds embeddings."""
    if record.image_shape is None:
        return []
    return release_samples(open_release(place, record.image_shape))


def _synthetic_only(place: Path, record: RunRecord) -> tuple[Sheet, ...]:
    """A gallery without private images, of a run that kept none."""
    none: Images = np.zeros((0, *(record.image_shape or (1, 1, 1))), dtype=np.uint8)
    return tuple(Sheet(one.name, none, one.images, one.worst) for one in _samples(place, record))


def require_folder(path: Path) -> None:
    """Refuse a file that cannot be written, before minutes are spent on what it is to hold."""
    if not path.parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent} to write {path.name} to: make it")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder: name a file in it")


def _write(path: Path, text: str) -> Path:
    require_folder(path)
    write_private(path, text.encode())
    return path
