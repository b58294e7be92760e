"""``understudy select``: the candidates that train well and leak little, as a release.

Three forms (`SelectConfig.form`). Under differential privacy it is a run like any other
(`understudy.run.synthesize`). Without private data it is post-processing of releases, whose
guarantee it inherits. With private data and without noise it has no guarantee: the ledger records a
disclosure before the private records are used, and the release is named so.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.files import ReleaseFormat, owner_file
from understudy.core.ports import Events, Source
from understudy.core.types import Release, Vector
from understudy.data.batches import batch_size
from understudy.methods.open_selection import OpenMaterials, Selection, require_same
from understudy.metrics.fingerprints import record_digests
from understudy.privacy.ledger.fingerprint import Sketch
from understudy.privacy.ledger.ledger import Dataset, Disclosure
from understudy.privacy.unit import Adjacency
from understudy.release.provenance import made_of
from understudy.report import ModelRecord, RunRecord
from understudy.report.meaning import NO_GUARANTEE
from understudy.run.accuracy import collect
from understudy.run.progress import ProgressMode, reporting, timed
from understudy.run.run_plan import RunPlan
from understudy.run.run_record import run_record
from understudy.run.run_result import Result
from understudy.run.safeguards import opening_explained
from understudy.run.select_config import SelectConfig, make_select_config
from understudy.run.select_inputs import PreparedSelection, Steering, prepare_selection, steering_of
from understudy.run.select_leak import Fingerprints, Leak, content_digest, leak_of
from understudy.run.select_spaces import EmbeddedRows, nearest_distances
from understudy.run.session import Session, WrittenRelease, execute
from understudy.run.synthesize import run

TABLE = "selection.csv"
"""In the owner's folder: each candidate, its weight, its score and its distance."""

_UNPROVEN = (
    "rows of a set of images, chosen as those on which a model trains best; nothing sound says "
    "that no private image had a part in them, so they count as private images, released as they "
    "are without noise"
)
_HOW = {
    "no guarantee": "rows of a set of candidates, chosen as those on which a model trains best for "
    "records that steered the choice without noise, less a penalty for what is near to private "
    "images",
    "post-processing": "rows of a release, chosen as those on which a model trains best for rows "
    "of a release; no private data was read",
}
_UNMEASURED = (
    "what an attacker gains was not measured: name held-out records, real ones that are not "
    "private and had no part in the candidates (--reference SOURCE, 32 or more). A part of the "
    "private dataset cannot stand for them: the candidates may have been made from it"
)


def select(
    candidates: str | PathLike[str],
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
    unit_from: Literal["folder", "file"] | None = None,
    unit_from_name: str | None = None,
    unit_rows: int = 64,
    adjacency: Adjacency = "add-remove",
    ledger: str | None = None,
    size: int | None = None,
    fit: Literal["stretch", "crop", "pad"] = "stretch",
    label: str | None = None,
    classes: Sequence[str] | None = None,
    channels: int | None = None,
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
        unit_from: Instead of ``unit``: an image's ``"folder"`` or ``"file"`` says so.
        unit_from_name: Instead of ``unit``: a pattern whose one group, found in the path, does.
        unit_rows: With ``epsilon``: at most so many records of a unit are used.
        adjacency: With ``epsilon``: what makes two datasets adjacent.
        ledger: Where spending and disclosures are recorded; None: the user's own ledger.
        size: Resize all images to so many pixels a side; None: candidates keep their size, and
            private images are brought to it. With ``epsilon`` they keep it in any case.
        fit: How an image of another ratio is brought to ``size``.
        label: Column of the private dataset that holds the class.
        classes: Class names of the private dataset, as its owner declares them.
        channels: Colour channels that images are compared in: 1 or 3.
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
    """Carry out a configuration (see `select`), shown as `understudy.run.synthesize.run` does."""
    if config.form == "differential privacy":
        return run(config.run, plan, progress=progress)
    with reporting(progress) as events:
        with opening_explained(events):
            prepared = prepare_selection(config)
        return execute(prepared, events, session=OpenSession)


class OpenSession(Session):
    """A selection without noise: what it discloses stands in the ledger before it is used."""

    prepared: PreparedSelection
    leak = Leak()

    def _released(self, plan: Callable[[RunPlan], None] | None) -> Release:
        """The selected candidates in their order."""
        prepared, classes = self.prepared, self.prepared.context.classes
        with timed(self.seconds, "embed the candidates"):
            candidates = self._embedded(prepared.pool)
        prints = Fingerprints.of(prepared.pool)
        content = content_digest(candidates.labels, prints.digests)
        _require_candidates(candidates, classes)
        method = prepared.select.openly
        selected = int(method.sizes(candidates.labels, len(classes), prepared.params).sum())
        held_out = self._hold_out()  # which may part nothing, and then nothing has begun
        require_same(self.folder.keep, prepared.select.candidates, content)
        self._require_same_steering(prepared)
        disclosed = self._disclose(prepared, prints, selected)
        with timed(self.seconds, "embed the records"):
            steering = steering_of(self.prepared, held_out, candidates, self._embedded)
        with timed(self.seconds, "select"):
            release, result = method.run(self._open(candidates, steering), prepared.params)
        self.notes += result.warnings
        if prepared.private:
            with timed(self.seconds, "attack"):
                self.leak = leak_of(candidates, result.indices, steering, prints, prepared.spaces)
            self.notes = (*self._notes_of_leak(), *self.notes)  # the worst first
        for dataset, disclosure in disclosed:
            details = {**disclosure.details, **self.leak.as_dict()}
            self.ledger.disclose(dataset.id, replace(disclosure, details=details))
        self._write_table(candidates, result)
        return release

    def _recorded(self, written: WrittenRelease) -> RunRecord:
        """The public facts of the selection, what was measured of its leak among them."""
        prepared, spaces = self.prepared, self.prepared.spaces
        parts = [(one.role, one) for one in prepared.origins]
        bare = prepared.private or any(one.unproven for one in prepared.origins)
        receipt = NO_GUARANTEE if bare else made_of(parts)
        record = run_record(prepared, written.release, receipt, written.facts)
        roles = {"penalty encoder": spaces.distance, "perceptual distance": spaces.perceptual}
        models = [ModelRecord.of(role, one) for role, one in roles.items() if one is not None]
        unproven = bare and not prepared.private
        return replace(
            record,
            models=(*record.models, *models),
            how=_UNPROVEN if unproven else _HOW[prepared.select.form],
            attacks=self.leak.attacks,
            copies=self.leak.copies,
        )

    def _require_same_steering(self, prepared: PreparedSelection) -> None:
        """Refuse to go on with other records that steer: weights of the first ones are stored.

        Their digests are keyed, for the store holds nothing private.
        """
        private = prepared.source if prepared.private else None
        steering = {"reference records": prepared.reference, "private records": private}
        for role, source in steering.items():
            if source is not None:
                labels, digests = [], []
                for batch in source.batches(batch_size(source)):
                    labels.append(batch.labels)
                    digests.append(record_digests(batch.values))
                content = content_digest(
                    np.concatenate(labels), np.concatenate(digests), self.ledger.key
                )
                require_same(self.folder.keep, source.name, content, role)

    def _embedded(self, source: Source) -> EmbeddedRows:
        prepared = self.prepared
        return EmbeddedRows.read(source, prepared.spaces, prepared.context.classes, self.events)

    def _open(self, candidates: EmbeddedRows, steering: Steering) -> OpenMaterials:
        """What steers, in the space of the proxy."""
        prepared, public = self.prepared, None
        members, calibrating = steering.members, steering.calibrating
        if prepared.public is not None:
            public = collect(prepared.public, prepared.spaces.proxy, self.events.step).values

        def distances() -> tuple[Vector, Vector]:
            if members is None or calibrating is None:
                raise ConfigError("there are no private records to take distances to")
            sides = members, calibrating
            perceptual, events = prepared.spaces.perceptual, self.events
            nearest = [nearest_distances(candidates, one, perceptual, events) for one in sides]
            return nearest[0], nearest[1]

        return OpenMaterials(
            source=prepared.pool,
            candidates=candidates.of_proxy,
            reference=steering.reference.of_proxy,
            names=prepared.context.classes,
            members=None if members is None else members.of_proxy,
            non_members=None if calibrating is None else calibrating.of_proxy,
            public=public,
            distances=distances,
            progress=self.events.step,
            keep=self.folder.keep,
        )

    def _disclose(
        self, prepared: PreparedSelection, prints: Fingerprints, selected: int
    ) -> list[tuple[Dataset, Disclosure]]:
        """Record what is disclosed, before any private record is used; empty: nothing is.

        Of a reference of real records too, and of candidates that nothing sound calls public.
        """
        ledger, count = self.ledger, len(prints.digests)
        name = prepared.select.candidates
        which = f"which {selected:,} of {count:,} candidates ({name}) are released"
        steered = f"{which}, chosen by these records without noise"
        sources = [(prepared.source, steered)] if prepared.private else []
        for source in prepared.unproven:
            rows = f"{selected:,} of these {count:,} records as they are, without noise"
            sources.append((source, rows if source is prepared.pool else steered))
        if not sources:
            return []
        pool = Sketch.of(prints.keyed_looks(ledger.key))
        digest = Sketch.of(prints.keyed(ledger.key)).to_json()["total"]
        self._warn_of_earlier(pool)
        details = {
            "candidates": {"count": count, "digest": digest},
            "keep": prepared.select.keep,
            "settings": asdict(prepared.params),
        }
        disclosed = [
            (ledger.register(source), Disclosure(self.folder.run, what, details, pool))
            for source, what in sources
        ]
        self.dataset, self.folder.begun = disclosed[0][0], True
        self.charged.append("what is disclosed was recorded")
        for dataset, disclosure in disclosed:
            ledger.disclose(dataset.id, disclosure)
        return disclosed

    def _warn_of_earlier(self, pool: Sketch) -> None:
        """Say at once where candidates of this pool were selected before, and what that tells."""
        runs: dict[str, str] = {}
        for dataset, one in self.ledger.selections_of(pool):
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
        self.notes += (warning,)
        self.events.warning(warning)

    def _notes_of_leak(self) -> Iterator[str]:
        """What the owner should know of what was measured, and of what was not."""
        copies, prepared = self.leak.copies, self.prepared
        if copies is not None and copies.exact + copies.near:
            yield (
                f"of {copies.samples:,} released rows {copies.exact:,} are exact copies of private "
                f"records, and {copies.near:,} more are near-copies: the release states it"
            )
        if not self.leak.attacks:
            yield _UNMEASURED
        share = prepared.config.privacy.hold_out
        if prepared.select.hold_out is None and share is not None:
            yield (
                f"{share} of the private records were set aside to calibrate the distances "
                "(--hold-out)"
            )

    def _write_table(self, candidates: EmbeddedRows, result: Selection) -> None:
        """The owner's table: each candidate with its weight, its score and its distance."""
        names, classes = self.prepared.names, self.prepared.context.classes
        samples = {int(row): number for number, row in enumerate(result.indices)}
        with owner_file(self.folder.owner / TABLE, "w") as file:
            lines = csv.writer(file, lineterminator="\n")
            lines.writerow(["candidate", "class", "sample", "gamma", "score", "distance"])
            for row, label in enumerate(candidates.labels.tolist()):
                name = names[row] if names else f"row {row}"
                weights = f"{result.gamma[row]:.6g}", f"{result.scores[row]:.6g}"
                distance = "" if result.distances is None else f"{result.distances[row]:.6g}"
                lines.writerow([name, classes[label], samples.get(row, ""), *weights, distance])


def _require_candidates(candidates: EmbeddedRows, classes: Sequence[str]) -> None:
    """Refuse a class that there is nothing to choose from."""
    sizes = np.bincount(candidates.labels, minlength=len(classes))
    empty = [name for name, size in zip(classes, sizes, strict=True) if size == 0]
    if empty:
        raise ConfigError(
            f"no candidate is of {', '.join(empty[:10])}: generate some, or leave the class out of "
            "all datasets. Nothing was spent or disclosed"
        )
