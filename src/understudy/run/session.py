"""One run, from the ledger to the report: what `understudy.run.synthesize` carries out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from understudy.core.blocks import in_blocks
from understudy.core.errors import MethodStopped, RunComplete, RunError
from understudy.core.ports import Engine, Events, Source
from understudy.core.types import Fit, Receipt, Release
from understudy.data import write_release
from understudy.data.holdout import split
from understudy.data.open_source import CONTACT_SHEET
from understudy.engine.local import LocalEngine
from understudy.privacy.account import Account
from understudy.privacy.ledger.ledger import Dataset, Ledger
from understudy.privacy.rows import DistantEngine
from understudy.privacy.vault import PrivateVault
from understudy.release.documents import publish, spending, stated_total, write_owner
from understudy.release.galleries import sheets
from understudy.release.outputs import RunFolder, open_release, private_cache, run_folder
from understudy.report import OwnerRecord, PublicQuality, RunRecord
from understudy.run.accuracy import Accuracy, Watch, measure, utility_of_scores
from understudy.run.config import OutputOptions
from understudy.run.early_stop import (
    read_stop,
    rest_of,
    stop_explained,
    whole_receipt,
    write_stop,
)
from understudy.run.fitness import measured_quality
from understudy.run.held_out import is_test_held_out, keep_hold_out
from understudy.run.model_fit import words_fit
from understudy.run.models import model_of, require_images_made
from understudy.run.prepare import Prepared, claim
from understudy.run.progress import paused, timed
from understudy.run.quality_filter import quality_warnings, write_dropped
from understudy.run.remote_run import end_remote, start_remote
from understudy.run.run_plan import RunPlan, faint_class_notes, plan_of
from understudy.run.run_record import ONE_CLASS, is_unlabelled, run_record
from understudy.run.run_result import Result
from understudy.run.safeguards import stops_explained
from understudy.run.shared_records import require_no_shared_records, require_unseen_test


@dataclass(frozen=True)
class WrittenRelease:
    """A release as a method has made it, before its documents, with public facts of the writing."""

    release: Release
    facts: Mapping[str, Any]
    sums: Mapping[str, str]  # of the written files
    quality: PublicQuality | None  # what was measured on the private records


@contextmanager
def engine_of(prepared: Prepared) -> Iterator[Engine]:
    """Where a run's private records are read and added up, while the context lasts."""
    output = prepared.config.output
    if output.engine == "local":
        yield LocalEngine()
        return
    require_own_cluster(output)
    from understudy.engine.ray_engine import ray_engine  # an extra

    with ray_engine(output.ray_address, trusted=output.ray_trusted) as engine:
        yield engine


def require_own_cluster(output: OutputOptions) -> None:
    """Refuse an address on another machine that the owner does not vouch for: nothing is sent."""
    host, _, port = (output.ray_address or "").removeprefix("ray://").rpartition(":")
    if output.engine == "ray" and not output.ray_trusted:
        from understudy.engine.ray_cluster import require_this_machine  # an extra

        require_this_machine([host.strip("[]")] if port.isdecimal() else [])


def with_workers(prepared: Prepared, engine: Engine) -> Prepared:
    """The run with models that the workers have too, and image makers that work there."""
    if isinstance(engine, LocalEngine):  # Ray is an extra
        return prepared
    from understudy.engine.ray_engine import ModelRecipe, RayEngine

    if not isinstance(engine, RayEngine):
        return prepared
    context, shape = prepared.context, prepared.source.shape
    for role, model in context.models.items():  # the encoder first, by which a decoder is made
        encoder = context.encoder if role == "decoder" else None
        device = prepared.config.models.device
        recipe = partial(model_of, role, model.name, shape, device, encoder)
        engine.share(model, ModelRecipe(recipe))
    makers: dict[str, Any] = {}
    if context.decoder is not None:
        makers["decoder"] = engine.decoder(context.decoder)
    for role in ("generator", "renderer"):
        if role in context.models:
            makers[role] = engine.generator(context.models[role])
    return replace(prepared, context=replace(context, **makers))


class Session:
    """One run: all that is asked of records, and the release and the documents made of it."""

    def __init__(
        self,
        prepared: Prepared,
        folder: RunFolder,
        ledger: Ledger,
        events: Events,
        charged: list[str],
        engine: Engine,
    ) -> None:
        self.prepared, self.folder, self.ledger, self.events = prepared, folder, ledger, events
        self.charged, self.calls, self.engine = charged, prepared.calls, engine
        self.seconds: dict[str, float] = {}
        self.dataset: Dataset | None = None  # that is charged, or disclosed
        self.concerned: list[Dataset] = []
        self.account: Account
        self.stopped: Receipt | None = None  # what a method had released that stopped
        self.fits: list[Fit] = []
        self.plan_notes: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()  # of the filters

    def carry_out(self, plan: Callable[[RunPlan], None] | None) -> Result:
        """Ask, pay, sample and write; ``plan`` as for `understudy.run.synthesize.run`."""
        release = self._written(self._released(plan))
        result = self._report(release, self._recorded(release))
        end_remote(self.calls, self.folder)
        return result

    def _released(self, plan: Callable[[RunPlan], None] | None) -> Release:
        """What the method makes of the records, once it is paid for."""
        prepared, config, folder = self.prepared, self.prepared.config, self.folder
        with timed(self.seconds, "recognise the dataset"):
            dataset = self.ledger.register(prepared.source)  # all of it, held-out records included
            self.dataset, self.concerned = dataset, self.ledger.concerned(dataset.id)
        charged = self.ledger.charged(folder.run)
        if charged is not None and charged.id != dataset.id:
            raise RunError(
                f"{folder.out}: {prepared.source.name} has changed since this run was charged for "
                f"{charged.name}: it is another dataset to the ledger. Put its records back, or "
                "start a new run in another folder. What was charged stays spent"
            )
        opened = prepared
        self._hold_out()
        prepared = self.prepared
        self.account = Account(
            self.ledger,
            dataset.id,
            config.privacy.privacy_unit,
            prepared.plan,
            folder.stages,
            folder.run,
            on_charge=self._note_charge,
        )
        stop = read_stop(folder)
        if stop is None:
            self.account.check()
            if (fit := words_fit(prepared)) is not None:
                self.fits.append(fit)  # its warning is a note of the plan
            if not self.charged:  # else it is resumed, and free
                self._show(plan, opened, dataset)
                require_images_made(prepared.context)
        with timed(self.seconds, "embed and fit"):
            return self._fitted(stop, dataset)

    def _written(self, release: Release) -> WrittenRelease:
        """The release in the draft of its folder, and its measured quality."""
        prepared, folder, quality = self.prepared, self.folder, None
        with timed(self.seconds, "sample and write"):
            folder.start_release()
            sums: dict[str, str] = {}
            facts = write_release(
                release,
                folder.draft,
                format=prepared.config.output.format,
                sums=sums,
                progress=self.events.step("sampling and writing the release", release.count),
            )
            if prepared.quality is not None:
                facts |= prepared.quality.facts
                self.notes += tuple(quality_warnings(prepared.quality, release.count))
                write_dropped(prepared.quality, folder.owner)
        if prepared.config.privacy.quality_part:
            with timed(self.seconds, "measure the quality"):
                quality = measured_quality(
                    prepared, release, self.account, folder, self.events, self.engine
                )
        return WrittenRelease(release, facts, sums, quality)

    def _recorded(self, written: WrittenRelease) -> RunRecord:
        """The public facts of the run, once the release is written."""
        receipt = claim(self.prepared, whole_receipt(self.account.receipt(), self.stopped))
        if self.calls.calls:
            self.notes += (f"models that servers run: {self.calls.words}",)
        record = run_record(self.prepared, written.release, receipt, written.facts)
        record = replace(record, quality=written.quality)
        if self.prepared.config.output.publish_total and self.dataset is not None:
            record = replace(record, total=stated_total(self.ledger, self.dataset.id))
        return record

    def _fitted(self, stop: MethodStopped | None, dataset: Dataset) -> Release:
        """What the method makes of the records; or, where it stops, another one that was named."""
        if stop is None:
            try:
                return self._run_method(dataset)
            except MethodStopped as stopped:
                stop = stopped
                write_stop(self.folder, stop)
        first, run = self.prepared, self.account
        following = rest_of(first, run)
        if following is None:
            raise stop_explained(stop, run)
        origins = [one for one in first.origins if one not in following.origins]
        self.prepared = replace(
            with_workers(following, self.engine),
            origins=(*following.origins, *origins),
            asked_epsilon=first.asked_epsilon,
            rows_held_out=first.rows_held_out,
        )
        part = Path(following.method.name)
        self.account = Account(
            self.ledger,
            dataset.id,
            run.unit,
            following.plan,
            self.folder.stages / part,
            f"{self.folder.run}-{part}",
        )
        self.stopped = run.settle(self.account)
        self.events.warning(f"{stop.reason}: the rest of the budget goes to {part}")
        release = self._run_method(dataset, f"{part} ")
        instead = {"instead_of": first.method.name, "reason": stop.reason}
        return replace(release, facts={**release.facts, **instead})

    def _run_method(self, dataset: Dataset, part: str = "") -> Release:
        """What the method makes of the records, with the names that it stores begun by ``part``."""
        prepared = self.prepared
        start_remote(prepared.context, self.calls, self.folder, self.ledger, dataset)
        with private_cache(self.folder.cache) as cache:
            vault = PrivateVault(
                prepared.source,
                self.account,
                self.engine,
                cache,
                lambda name: self.events.step(name, len(prepared.source), owner_only=True),
            )
            watch = None
            if prepared.config.output.watch:
                encoder = prepared.context.encoder
                watch = Watch(prepared.source, encoder, self.folder.owner, self.events)
            keep = self.folder.keep  # which a release holds on to, and to nothing private
            materials = prepared.materials(
                vault,
                self.events.step,
                lambda name, make: keep(part + name, make),
                watch=watch,
                report_fit=partial(_report_fit, self.fits, self.events),
                in_blocks=(
                    self.engine.in_blocks if isinstance(self.engine, DistantEngine) else in_blocks
                ),
            )
            try:
                release = prepared.method.run(materials, prepared.params)
            finally:
                vault.close()  # what is sampled from now on is post-processing
        if not isinstance(release, Release):
            kind = type(release).__name__
            raise RunError(f"the method {prepared.method.name!r} gave a {kind}, no Release")
        return release

    def _note_charge(self) -> None:
        self.folder.begun = True
        self.charged.append(f"epsilon {self.prepared.config.privacy.budget.epsilon:g} was charged")

    def _show(
        self, plan: Callable[[RunPlan], None] | None, opened: Prepared, dataset: Dataset
    ) -> None:
        """The plan of the whole dataset, before the charge; who sees it may end the run."""
        run_plan = plan_of(opened, self.ledger, dataset, self.concerned)
        self.plan_notes = run_plan.notes
        if plan is None:
            self.notes = run_plan.notes
            for note in run_plan.notes:
                self.events.warning(note)
            return
        with paused(self.events):
            plan(run_plan)

    def _hold_out(self) -> Source | None:
        """Go on with the members alone; what is held out of the dataset, if anything is."""
        source, privacy = self.prepared.source, self.prepared.config.privacy
        if privacy.hold_out is None:
            return None
        with timed(self.seconds, "hold out"):
            hold_out = keep_hold_out(self.folder.owner, privacy.hold_out, privacy.unit_column)
            members, held_out = split(source, hold_out)
            self.prepared = replace(self.prepared, source=members, rows_held_out=len(held_out))
        return held_out

    def _report(self, written: WrittenRelease, record: RunRecord) -> Result:
        """The documents, and accuracy if there is a test set."""
        prepared, folder, source = self.prepared, self.folder, self.prepared.source
        release, images = written.release, publish(folder, record, written.sums)
        accuracies: tuple[Accuracy, ...] = ()
        if prepared.test is not None:
            with timed(self.seconds, "measure accuracy"):
                accuracies = measure(
                    open_release(folder.release, release.image_shape),
                    source,
                    prepared.test,
                    prepared.context.encoder,
                    self.events.step,
                    rows=prepared.config.data.test_rows,
                    classifier=release.classifier,
                    facts=release.facts,
                )
        dataset, scores = self.dataset, tuple(one.score for one in accuracies)
        notes = (*self._warnings(release.facts), *self.notes)
        owner = OwnerRecord(
            dataset=prepared.dataset,
            rows=len(source) if prepared.private else 0,
            skipped=source.skipped,
            spending=None if dataset is None else spending(self.ledger, dataset.id),
            scores=scores,
            utility=utility_of_scores(scores),
            held_out=is_test_held_out(folder.owner, unprotected=record.unprotected),
            sheets=sheets(source, images) if prepared.private and images is not None else (),
            seconds=self.seconds,
            notes=tuple(dict.fromkeys((*self.plan_notes, *notes))),
        )
        write_owner(
            folder,
            record,
            owner,
            dataset_id=None if dataset is None else dataset.id,
            ledger=None if dataset is None else self.ledger.address,
            settings=prepared.settings,
            accuracy=[one.as_dict() for one in accuracies],
            rows_held_out=prepared.rows_held_out,
            fit=self.fits,
            records={"kind": source.kind}
            | {name: getattr(prepared.context, name) for name in ("shape", "classes", "phrases")},
        )
        return Result(
            folder.release,
            folder.owner,
            record.receipt,
            record.facts,
            accuracies,
            self.seconds,
            None if images is None else folder.out / CONTACT_SHEET,
            notes,
            record.attacks,
            record.copies,
            record.quality,
            owner.spending,
            record.private_samples,
        )

    def _warnings(self, facts: Mapping[str, Any]) -> Iterator[str]:
        """What the owner should know after the run; the plan said the rest before it."""
        for fit in self.fits:
            if fit.warning is not None and fit.warning not in self.plan_notes:
                yield fit.warning
        if self.concerned:
            names = ", ".join(dataset.name for dataset in self.concerned)
            yield f"this run was charged to {names} too: half or more of the records are shared"
        if not self.plan_notes and is_unlabelled(self.prepared.source, self.prepared.config.data):
            yield ONE_CLASS
        yield from facts.get("notes", ())
        yield from faint_class_notes(facts)


def execute(
    prepared: Prepared,
    events: Events,
    plan: Callable[[RunPlan], None] | None = None,
    session: type[Session] = Session,
) -> Result:
    """Carry out a run that is prepared, in its folder and with its ledger.

    Args:
        prepared: What cannot be refused any more, but for what it shares with private records.
        events: Where progress goes.
        plan: As for `understudy.run.synthesize.run`.
        session: What the run consists of.
    """
    config = prepared.config
    output, private = config.output, prepared.source if prepared.private else None
    with (
        stops_explained(output.out) as charged,
        run_folder(output.out, prepared.identity, resume=output.resume) as folder,
        Ledger(config.privacy.ledger, on_wait=events.warning) as ledger,
        engine_of(prepared) as engine,
    ):
        if folder.done:
            raise RunComplete(output.out)
        require_no_shared_records(prepared.compared, private, ledger)
        if prepared.test is not None:
            require_unseen_test(prepared.test, prepared.source)
        prepared = with_workers(prepared, engine)
        return session(prepared, folder, ledger, events, charged, engine).carry_out(plan)


def _report_fit(fits: list[Fit], events: Events, fit: Fit) -> None:
    """Record a fit, and report its warning; a release holds on to this, and to nothing private."""
    fits.append(fit)
    if fit.warning is not None:
        events.warning(fit.warning)
