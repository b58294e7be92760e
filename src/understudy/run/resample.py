"""``understudy resample``: more samples from the answers that a run has paid for, free of charge.

All that a method makes of private records are noisy answers, which every run stores
(``owner/stages``). The method runs again with a vault that gives those answers back (`StoredVault`
of `understudy.privacy.vault`), so that it fits the same model, and draws samples by another seed.
No private record is read and no ledger is opened.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from numbers import Integral
from os import PathLike
from pathlib import Path
from typing import Any, Literal

from understudy.core.errors import ConfigError, RunComplete, RunError
from understudy.core.files import folder_of, home_path
from understudy.core.ports import Events, Source
from understudy.core.types import Batch, Release, Shape
from understudy.core.version import understudy_version
from understudy.data import write_release
from understudy.data.open_source import CONTACT_SHEET
from understudy.methods.base import UNLABELLED, Arrays, Make, Materials, Resampling
from understudy.privacy.account import StoredReleases
from understudy.privacy.vault import StoredVault
from understudy.release.documents import publish, write_owner
from understudy.release.galleries import sheets
from understudy.release.outputs import (
    RunFolder,
    RunPaths,
    read_arrays,
    run_folder,
)
from understudy.release.provenance import made_of, provenance_of
from understudy.release.run_file import RecordFacts, RunFile, read_run_file
from understudy.report import OwnerRecord, RunRecord
from understudy.report.meaning import EARLIER_RUN
from understudy.run.config import make_config
from understudy.run.methods import method as method_of
from understudy.run.prepare import Prepared, prepare, weights_digest
from understudy.run.progress import ProgressMode, reporting
from understudy.run.run_result import Result
from understudy.run.safeguards import require_apart, require_room

_SAME = (
    "this is the seed of the run itself: samples of its release may come again. Take another --seed"
)


@dataclass
class AbsentSource:
    """A private dataset that is not read: what is public of it, and no record."""

    name: str
    kind: Literal["images", "embeddings"]
    shape: Shape
    classes: tuple[str, ...]
    phrases: tuple[str, ...]
    window_premise: tuple[Any, bool] | None = None
    has_units: bool = True
    skipped: int = 0

    def __len__(self) -> int:
        """No record."""
        return 0

    def batches(self, size: int) -> Iterator[Batch]:
        """No record."""
        return iter(())

    def digests(self, key: bytes) -> Iterator[bytes]:
        """No record."""
        return iter(())


@dataclass(frozen=True)
class EarlierRun:
    """A finished run whose answers are sampled from."""

    paths: RunPaths
    run: RunFile
    record: RunRecord
    prepared: Prepared

    def materials(self, resampling: Resampling, events: Events) -> Materials:
        """What the method works with."""
        prepared, config = self.prepared, self.prepared.config
        releases = StoredReleases(config.privacy.privacy_unit, prepared.plan, self.paths.stages)
        vault = StoredVault(releases)
        return prepared.materials(vault, events.step, self._stored, resampling=resampling)

    def _stored(self, name: str, make: Make) -> Arrays:
        """What the run made besides its answers; made again where it is missing."""
        path = self.paths.stored(name)
        return read_arrays(path) if path.is_file() else make()


def resample(
    folder: str | PathLike[str],
    *,
    count: int | None = None,
    per_class: int | None = None,
    seed: int = 1,
    out: str | Path | None = None,
    progress: ProgressMode | Events = "auto",
) -> Result:
    """Draw more samples from what a run has paid for.

    No private record is read, and nothing is charged: the samples follow from the noisy answers
    that the run stored. They and the run's release have one guarantee together, that of the run.

    Args:
        folder: The folder of a finished run, its ``owner`` part included.
        count: Samples in all, in proportion to the released class sizes.
        per_class: Samples of each class instead.
        seed: The same seed gives the same samples; the run's own seed gives those of its release.
        out: Folder of the result; None: beside the run's, ``NAME-seed-SEED``.
        progress: Where events go, as for `understudy.synthesize`.

    Returns:
        As `understudy.synthesize`.

    Raises:
        ConfigError: Not one of count and per_class, or a method or settings that allow no more.
        RunError: The folder is no finished run of this version, answers are missing or damaged, or
            ``out`` is taken.
    """
    if (count is None) == (per_class is None):
        raise ConfigError("say how many samples to draw: --count N, or --per-class N, and not both")
    number = per_class if count is None else count
    if not isinstance(number, Integral) or number < 1:
        raise ConfigError(f"at least one sample is drawn, a whole number of them, found {number!r}")
    count, per_class = (int(number), None) if per_class is None else (None, int(number))
    root = folder_of(folder)
    place = Path(
        root.parent / f"{root.resolve().name}-seed-{seed}" if out is None else home_path(out)
    )
    with reporting(progress) as events:
        opening = events.step("opening the run and its models")
        earlier = open_run(root, place)
        opening.finish()
        samples = _samples(earlier, count, per_class)
        require_room(place, samples, earlier.record.image_shape, earlier.record.dim, samples)
        identity = {"resampled": str(root), "run": earlier.run.run, "seed": seed}
        identity |= {"count": count, "per_class": per_class}
        is_resumed = RunPaths(place).start.is_file()
        with run_folder(place, identity, resume=is_resumed) as new:
            if new.done:
                raise RunComplete(place)
            resampling = Resampling(seed, samples, per_class, new.keep)
            result = _draw(earlier, new, resampling, events)
    return (
        result
        if seed != earlier.prepared.config.output.seed
        else replace(result, warnings=(_SAME,))
    )


def open_run(folder: Path, out: Path) -> EarlierRun:
    """A finished run, without its records.

    Raises:
        RunError: It is no finished run, or one of an earlier version.
        ConfigError: Its method or its settings allow no more samples, or its release is not sound.
    """
    paths = RunPaths(folder)
    if not paths.record.is_file():
        raise RunError(
            f"{folder}: is no folder of a finished run (owner/run.json is missing). More samples "
            "are drawn from the noisy answers in owner/stages, so the owner draws them"
        )
    run, origin = read_run_file(paths.record), provenance_of(str(folder), "run")
    if origin.faults:
        origin.require_guarantee("run")
    if (record := origin.record) is None:
        raise RunError(f"{folder}: has lost its release, which says what it guarantees")
    if "resampled" in run.settings:
        raise RunError(
            f"{folder}: was itself drawn from {run.settings['resampled']}: draw from that run"
        )
    method = method_of(str(run.settings.get("method")))
    if method.check_resample is None:
        raise ConfigError(
            f"{folder}: the method {method.name} draws no more samples of a finished run"
        )
    if "instead_of" in record.facts:
        raise ConfigError(
            f"{folder}: was made with what {record.facts['instead_of']} left of the budget, by "
            f"{record.method}; no more samples are drawn from such a run"
        )
    if run.records is None or run.receipt is None:
        raise RunError(
            f"{folder}: was made by Understudy {run.version}, which did not store what is public "
            "of the records (records in owner/run.json): run it again with this version"
        )
    # What was paid, in numbers: the settings may say it in other words.
    guarantee = {"epsilon": run.receipt.epsilon, "delta": run.receipt.delta, "accept_epsilon": True}
    require_apart(str(folder), out)
    try:
        config = make_config({**run.settings, **guarantee, "out": out})
        prepared = prepare(config, _absent(run, run.records), probe=False)
        method.check_resample(prepared.params, prepared.context)
    except ConfigError as error:
        raise ConfigError(f"{folder} cannot be sampled anew: {error}") from error
    own = record.models[: len(prepared.context.models)]  # those of public datasets come after
    if prepared.weights != weights_digest(own):
        raise RunError(
            f"{folder}: was made by Understudy {run.version} with other weights of "
            f"{prepared.context.models['encoder'].name} than are installed: what it released says "
            "nothing in these. Use the version that made it, or run it again with this one"
        )
    return EarlierRun(paths, run, record, prepared)


def _absent(run: RunFile, records: RecordFacts) -> Source:
    """The private dataset of a run, without records."""
    stated, name = ("intensity window", "declared"), str(run.settings["source"])
    windows = [(one.value, True) for one in run.premises if (one.name, one.origin) == stated]
    window = windows[0] if windows else None
    return AbsentSource(name, records.kind, records.shape, records.classes, records.phrases, window)


def _samples(earlier: EarlierRun, count: int | None, per_class: int | None) -> int:
    """Samples in all."""
    if count is not None or per_class is None:
        return count or 0
    classes = earlier.record.classes
    if len(classes) < 2 or classes == UNLABELLED:
        raise ConfigError("--per-class is for releases with classes: give --count")
    return per_class * len(classes)


def _draw(earlier: EarlierRun, folder: RunFolder, resampling: Resampling, events: Events) -> Result:
    """Fit again, draw, write."""
    start, prepared = time.perf_counter(), earlier.prepared
    release = prepared.method.run(earlier.materials(resampling, events), prepared.params)
    fit_end = time.perf_counter()
    folder.start_release()
    step = events.step("sampling and writing the release", release.count)
    sums: dict[str, str] = {}
    facts = write_release(
        release, folder.draft, format=prepared.config.output.format, progress=step, sums=sums
    )
    if prepared.quality is not None:
        facts |= prepared.quality.facts
    seconds = {"fit": fit_end - start, "sample and write": time.perf_counter() - fit_end}
    rounded = {part: round(number, 2) for part, number in seconds.items()}
    facts |= {"seed": resampling.seed}
    return _documents(earlier, folder, release, facts, sums, rounded)


def _documents(
    earlier: EarlierRun,
    folder: RunFolder,
    release: Release,
    facts: Mapping[str, Any],
    sums: Mapping[str, str],
    seconds: Mapping[str, float],
) -> Result:
    """The documents of the release and of the owner; ``run.json``, which ends it, last."""
    origin = provenance_of(str(earlier.paths.out))
    record = replace(
        earlier.record,
        receipt=made_of([(EARLIER_RUN, origin)]),
        count=release.count,
        version=understudy_version(),
        date=datetime.now(UTC).date().isoformat(),
        facts={**release.facts, **facts},
        total=None,  # which is of then
        quality=None,  # which is of that release
    )
    images = publish(folder, record, sums)
    gallery = () if images is None else sheets(earlier.prepared.source, images)
    owner = OwnerRecord(earlier.run.dataset, 0, sheets=gallery, seconds=seconds)
    settings = {"resampled": str(earlier.paths.out), "method": record.method, **facts}
    write_owner(folder, record, owner, dataset_id=None, ledger=None, settings=settings)
    return Result(
        folder.release,
        folder.owner,
        record.receipt,
        record.facts,
        seconds=seconds,
        contact_sheet=None if images is None else folder.out / CONTACT_SHEET,
        private_samples=record.private_samples,
    )
