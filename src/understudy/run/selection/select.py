"""``understudy select``: the candidates that train well and leak little, as a release.

Three forms (`SelectConfig.form`). Under differential privacy it is a run of the method
``selection`` (`understudy.run.synthesize`). Without private data it is post-processing of releases,
whose guarantee it inherits. With private data and without noise it has no guarantee: the ledger
records a disclosure before the private records are used, and the release is named so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError, RunComplete, RunError
from understudy.core.files import ReleaseFormat
from understudy.core.ports import Events, Source
from understudy.core.types import Vector
from understudy.data import write_release
from understudy.methods.selection.algorithm import Selection, select_candidates
from understudy.methods.selection.arithmetic import class_budgets
from understudy.methods.selection.linear_proxy import LinearProxy, proxy_space
from understudy.methods.selection.penalties import calibrated_distances, penalties_of
from understudy.methods.selection.reference import RecordReference
from understudy.privacy.ledger.fingerprint import Sketch
from understudy.privacy.ledger.ledger import Dataset, Disclosure, Ledger
from understudy.privacy.unit import Adjacency
from understudy.release.documents import Charged, spending
from understudy.release.outputs import RunFolder, run_folder
from understudy.run.accuracy import collect
from understudy.run.progress import ProgressMode, reporting
from understudy.run.run_plan import RunPlan
from understudy.run.run_result import Result
from understudy.run.safeguards import require_apart, stops_explained
from understudy.run.selection.select_config import SelectConfig, make_select_config
from understudy.run.selection.select_documents import (
    record_of,
    release_of,
    write_candidates,
    write_documents,
)
from understudy.run.selection.select_inputs import (
    Opened,
    Steering,
    open_selection,
    steering_of,
)
from understudy.run.selection.selection_leak import Fingerprints, Leak, leak_of
from understudy.run.selection.spaces import EmbeddedRows, embedded_rows, nearest_distances
from understudy.run.shared_records import require_no_shared_records
from understudy.run.synthesize import run
from understudy.steps.space import Space


def select(
    candidates: str | Path,
    *,
    out: str | Path,
    keep: float | str,
    private: str | Path | None = None,
    reference: str | Path | None = None,
    epsilon: float | str | None = None,
    no_guarantee: bool = False,
    candidates_public: bool = False,
    delta: float = 1e-5,
    accept_epsilon: bool = False,
    encoder: str | None = None,
    penalty_encoder: str | None = None,
    lpips: str | Path | None = None,
    public: str | None = None,
    settings: Mapping[str, Any] | None = None,
    hold_out: float | str | None = None,
    unit: str | None = None,
    unit_rows: int = 64,
    adjacency: Adjacency = "add-remove",
    ledger: str | None = None,
    size: int | None = None,
    fit: Literal["stretch", "crop", "pad"] = "stretch",
    label: str | None = None,
    classes: Sequence[str] | None = None,
    seed: int = 0,
    format: ReleaseFormat = "png",
    licence: str = "unknown",
    resume: bool = False,
    skip_bad: bool = False,
    progress: ProgressMode | Events = "auto",
) -> Result:
    """Keep the candidates that train well and leak little.

    Options without a description are those of `understudy.synthesize`, on the private dataset.

    Args:
        candidates: A dataset, a release, or a run's folder.
        out: Folder of the result; must not exist, be empty, or hold a run to resume.
        keep: A share such as ``"50%"`` or 0.5, or a number of samples.
        private: The private dataset; None: the candidates are post-processed, which is free.
        reference: Records that steer instead of the private ones: real records that are not
            private, a release, or ``"held-out"`` for a part of the private dataset that is set
            aside. Without ``private``: another release; None: the candidates themselves.
        epsilon: Select under differential privacy; None: without noise, or without private data.
        no_guarantee: Private images steer without noise, and the release has no guarantee.
        candidates_public: You declare that no private image of this dataset had a part in making
            the candidates, where they are no release that says so itself.
        delta: With ``epsilon``: its delta.
        accept_epsilon: Whether an epsilon above 100 or a delta above 1e-3 is meant.
        encoder: In whose space candidates are chosen; None: embedded:dct.
        penalty_encoder: Of the distances to private images; None: another one.
        lpips: A TorchScript file of a perceptual distance, which takes the place of that space.
        public: Images that the space is whitened on; None: the candidates.
        settings: Settings of the selection, such as ``{"reconstruction": 2}``.
        hold_out: Share of the private records set aside to calibrate distances; None: 20 % where
            the reference holds no records that are not private; 0: nothing.
        unit: Column that says whose record it is; None: every image is a unit.
        unit_rows: With ``epsilon``: at most so many records of a unit are used.
        adjacency: With ``epsilon``: what makes two datasets adjacent.
        ledger: Where spending and disclosures are recorded; None: the user's own ledger.
        size: Resize all images to so many pixels a side; None: candidates keep their size, and
            private images are brought to it.
        fit: How an image of another ratio is brought to ``size``.
        label: Column of the private dataset that holds the class.
        classes: Class names of the private dataset, as its owner declares them.
        seed: Seed of everything public.
        format: How images are written.
        licence: Of the release; ``"unknown"``: that of the candidates' release.
        resume: Go on with an interrupted selection in ``out``.
        skip_bad: Pass over unreadable files, and count them.
        progress: Where events go.

    Raises:
        InputError: Bad input, or a selection without noise that nobody said is meant; nothing was
            spent or disclosed.
        BudgetRefused: The dataset's budget does not cover the run; nothing was spent.
    """
    options = {name: value for name, value in locals().items() if name != "progress"}
    return run_selection(make_select_config(options), progress=progress)


def run_selection(
    config: SelectConfig,
    plan: Callable[[RunPlan], None] | None = None,
    *,
    progress: ProgressMode | Events = "auto",
) -> Result:
    """Carry out a configuration (see `select`).

    Args:
        config: What to do.
        plan: With ``epsilon``: as for `understudy.run.synthesize.run`.
        progress: Where events go, as for `understudy.synthesize`.
    """
    if config.form == "differential privacy":
        return run(config.run, plan, progress=progress)  # of the method ``selection``
    if config.private is not None:
        require_apart(config.private, config.out)
    with reporting(progress) as events:
        opening = events.step("opening the datasets and the models")
        opened = open_selection(config)
        opening.finish()
        with (
            stops_explained(config.out) as disclosed,
            run_folder(config.out, config.identity(), resume=config.resume) as folder,
        ):
            if folder.done:
                raise RunComplete(config.out)
            return _Choice(opened, folder, events, disclosed).carry_out()


class _Choice:
    """One selection without noise, from the ledger to the report."""

    def __init__(
        self, opened: Opened, folder: RunFolder, events: Events, disclosed: list[str]
    ) -> None:
        self.opened, self.folder, self.events = opened, folder, events
        self.disclosed = disclosed
        self.config, self.settings = opened.config, opened.settings
        self.classes = opened.candidates.classes
        self.seconds: dict[str, float] = {}
        self.distances: Vector | None = None
        self.warnings: list[str] = []

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] = round(time.perf_counter() - start, 2)

    def carry_out(self) -> Result:
        leak, charged = Leak(), None
        with Ledger(self.config.ledger) as ledger:
            with self._timed("compare the datasets"):
                require_no_shared_records(self.opened.inputs, self.opened.private, ledger)
            with self._timed("embed the candidates"):
                rows = self._embedded(self.opened.candidates)
                _require_candidates(rows, self.classes)
                keep = float(self.config.keep)
                sizes = len(self.classes), keep, self.settings.budgets
                budgets = class_budgets(rows.labels, *sizes)
            prints = Fingerprints.of(self.opened.candidates)
            disclosed = self._disclose(ledger, prints, int(budgets.sum()))
            with self._timed("embed the records"):
                steering = steering_of(self.opened, self.folder.owner, rows, self._embedded)
            with self._timed("select"):
                chosen = self._selection(rows, budgets, steering)
            if self.opened.private is not None:
                with self._timed("attack"):
                    leak = leak_of(rows, chosen.indices, steering, prints, self.opened.spaces)
                self._warn_of(leak)
            for dataset, disclosure in disclosed:
                details = {**disclosure.details, **leak.as_dict()}
                ledger.disclose(dataset.id, replace(disclosure, details=details))
            if disclosed:
                first = disclosed[0][0].id
                charged = Charged(ledger.address, first, spending(ledger, first))
        with self._timed("write"):
            release = release_of(self.opened, rows, chosen)
            self.folder.start_release()
            step = self.events.step("writing the release", release.count)
            form = self.config.format
            facts = write_release(release, self.folder.draft, format=form, progress=step)
            write_candidates(self.folder.owner, self.opened, rows, chosen, self.distances)
        record = record_of(self.opened, release, {**chosen.facts, **facts}, leak)
        result = write_documents(
            self.opened,
            self.folder,
            release,
            record,
            seconds=self.seconds,
            rows_held_out=steering.rows_held_out,
            charged=charged,
        )
        return replace(result, warnings=(*chosen.warnings, *self.warnings))

    def _embedded(self, source: Source) -> EmbeddedRows:
        return embedded_rows(source, self.opened.spaces, self.classes, self.events)

    def _disclose(
        self, ledger: Ledger, prints: Fingerprints, selected: int
    ) -> list[tuple[Dataset, Disclosure]]:
        """Record what is disclosed, before any private record is used; empty: nothing is.

        Of a reference of real records too: it steers as they do. And of candidates of which
        nothing sound says that they are not private: their rows are released as they are.
        """
        opened, count = self.opened, len(prints.digests)
        which = f"which {selected:,} of {count:,} candidates ({opened.origin.name}) are released"
        steered = f"{which}, chosen by these records without noise"
        sources = [] if opened.private is None else [(opened.private, steered)]
        for source in opened.unproven:
            rows = f"{selected:,} of these {count:,} records as they are, without noise"
            sources.append((source, rows if source is opened.candidates else steered))
        if not sources:
            return []
        pool = Sketch.of(prints.keyed_looks(ledger.key))
        digest = Sketch.of(prints.keyed(ledger.key)).to_json()["total"]
        self._warn_of_earlier(ledger, pool)
        details = {
            "candidates": {"count": count, "digest": digest},
            "keep": self.config.keep,
            "settings": asdict(self.settings),
        }
        disclosed = [
            (ledger.register(source), Disclosure(self.folder.run, what, details, pool))
            for source, what in sources
        ]
        self.folder.begun = True
        self.disclosed.append("what is disclosed was recorded")
        for dataset, disclosure in disclosed:
            ledger.disclose(dataset.id, disclosure)
        return disclosed

    def _warn_of_earlier(self, ledger: Ledger, pool: Sketch) -> None:
        """Say at once where candidates of this pool were selected before, and what that tells."""
        runs: dict[str, str] = {}
        for dataset, one in ledger.selections_of(pool):
            if one.run != self.folder.run:
                runs.setdefault(one.run, dataset.name)  # the private dataset before a reference
        if not runs:
            return
        times = "once" if len(runs) == 1 else f"{len(runs)} times"
        warning = (
            f"these candidates, or many of them, were selected {times} before (run "
            f"{', '.join(run[:8] for run in runs)}; by {', '.join(sorted(set(runs.values())))}): "
            "whoever has two releases of one pool compares them. Candidates that are in none of "
            "them are those that private images kept away, most of them near-copies, and what is "
            "in all of them is what private images asked for. Give the releases to different "
            "people, or draw new candidates"
        )
        self.warnings.append(warning)
        self.events.warning(warning)

    def _selection(
        self, candidates: EmbeddedRows, budgets: NDArray[np.int64], steering: Steering
    ) -> Selection:
        settings = self.settings
        self._require_same(candidates)
        space = self._space(candidates)
        proxy = LinearProxy(
            space.forward(candidates.proxy),
            candidates.labels,
            len(self.classes),
            float(budgets.sum()),
            self.opened.settings.proxy,
        )
        records = steering.reference
        penalties = None
        if steering.members is not None and steering.calibrating is not None:
            to_private, to_others = (
                nearest_distances(candidates, rows, self.opened.spaces.perceptual, self.events)
                for rows in (steering.members, steering.calibrating)
            )
            self.distances = calibrated_distances(to_private, to_others)
            penalties = penalties_of(
                settings,
                candidates.of_proxy,
                steering.members.of_proxy,
                steering.calibrating.of_proxy,
                len(self.classes),
                (to_private, to_others),
            )
        return select_candidates(
            proxy,
            candidates.labels,
            budgets,
            RecordReference.of(
                space.forward(records.proxy), records.labels, balanced=settings.balanced
            ),
            rounds=settings.rounds,
            step_size=settings.step_size,
            penalties=penalties,
            class_names=self.classes,
            progress=self.events.step("selecting candidates", settings.rounds),
            keep=self.folder.keep,
        )

    def _require_same(self, candidates: EmbeddedRows) -> None:
        """Refuse to go on with other candidates than the selection was begun with."""
        known = self.folder.keep("candidates", lambda: {"labels": candidates.labels})
        if not np.array_equal(known["labels"], candidates.labels):
            raise RunError(
                f"{self.opened.origin.name}: the candidates have changed since the selection was "
                "begun: start a new one in another folder"
            )

    def _space(self, candidates: EmbeddedRows) -> Space:
        """The leading whitened axes of public images; of the candidates, where there are none."""
        public = None
        if (source := self.opened.public) is not None:
            public = collect(source, self.opened.spaces.proxy, self.events.step).values
        return proxy_space(candidates.proxy, public, self.settings.axes)

    def _warn_of(self, leak: Leak) -> None:
        """What the owner should know of what was measured, and of what was not."""
        copies = leak.copies
        if copies is not None and copies.exact + copies.near:
            self.warnings.append(
                f"of {copies.samples:,} released rows {copies.exact:,} are exact copies of private "
                f"records, and {copies.near:,} more are near-copies: the release states it"
            )
        if not leak.attacks:
            self.warnings.append(_UNMEASURED)
        if self.config.hold_out is None and (share := self.opened.share_held_out) is not None:
            self.warnings.append(
                f"{share} of the private records were set aside to calibrate the distances "
                "(--hold-out)"
            )


_UNMEASURED = (
    "what an attacker gains was not measured: name held-out records, real ones that are not "
    "private and had no part in the candidates (--reference SOURCE, 32 or more). A part of the "
    "private dataset cannot stand for them: the candidates may have been made from it"
)


def _require_candidates(candidates: EmbeddedRows, classes: Sequence[str]) -> None:
    """Refuse a class that there is nothing to choose from."""
    sizes = np.bincount(candidates.labels, minlength=len(classes))
    empty = [name for name, size in zip(classes, sizes, strict=True) if size == 0]
    if empty:
        raise ConfigError(
            f"no candidate is of {', '.join(empty[:10])}: generate some, or leave the class out of "
            "all datasets. Nothing was spent or disclosed"
        )
