"""One run, from the ledger to the report: what `understudy.run.synthesize` carries out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from understudy.backends.arrays import fit_images
from understudy.core.errors import MethodStopped
from understudy.core.ports import Events
from understudy.core.types import Fit, Receipt, Release
from understudy.data import write_release
from understudy.data.holdout import split
from understudy.engine.local import LocalEngine
from understudy.methods.base import Materials
from understudy.privacy.account import Account
from understudy.privacy.ledger.ledger import Dataset, Ledger
from understudy.privacy.vault import PrivateVault, Vault
from understudy.release.documents import (
    Charged,
    spending,
    stated_total,
    write_contact_sheet,
    write_release_documents,
)
from understudy.release.galleries import release_pools
from understudy.release.outputs import RunFolder, open_release, private_cache
from understudy.report import PublicQuality
from understudy.run.accuracy import Accuracy, Watch, measure
from understudy.run.early_stop import (
    read_stop,
    rest_of,
    stop_explained,
    whole_receipt,
    write_stop,
)
from understudy.run.fitness import measured_quality
from understudy.run.held_out import keep_hold_out
from understudy.run.model_fit import words_fit
from understudy.run.prepare import Prepared, claim
from understudy.run.progress import paused
from understudy.run.quality_filter import quality_warnings, write_dropped
from understudy.run.remote_run import end_remote, start_remote
from understudy.run.run_plan import RunPlan, plan_of
from understudy.run.run_record import ONE_CLASS, is_unlabelled, run_record, write_owner
from understudy.run.run_result import Result


class Session:
    """One run."""

    def __init__(
        self,
        prepared: Prepared,
        folder: RunFolder,
        ledger: Ledger,
        events: Events,
        charged: list[str],
    ) -> None:
        self.prepared, self.folder, self.ledger, self.events = prepared, folder, ledger, events
        self.charged, self.calls = charged, prepared.calls
        self.seconds: dict[str, float] = {}
        self.concerned: list[Dataset] = []
        self.account: Account
        self.dataset: Dataset
        self.stopped: Receipt | None = None  # what a method had released that stopped
        self.fits: list[Fit] = []
        self.plan_notes: tuple[str, ...] = ()
        self.notes: tuple[str, ...] = ()  # of the filters

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] = round(time.perf_counter() - start, 2)

    def carry_out(self, plan: Callable[[RunPlan], None] | None) -> Result:
        """Ask, pay, sample and write; ``plan`` as for `understudy.run.synthesize.run`."""
        prepared, config, folder = self.prepared, self.prepared.config, self.folder
        with self._timed("recognise the dataset"):
            dataset = self.ledger.register(prepared.source)  # all of it, held-out records included
            self.dataset, self.concerned = dataset, self.ledger.concerned(dataset.id)
        opened, self.prepared = prepared, self._without_held_out()
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
            if not self.charged:  # else it is resumed, and free
                self._show(plan, opened, dataset)
            if (known := words_fit(prepared)) is not None:
                _report_fit(self.fits, self.events, known)
        with self._timed("embed and fit"):
            release = self._fitted(stop, dataset)
        prepared = self.prepared
        with self._timed("sample and write"):
            folder.start_release()
            sums: dict[str, str] = {}
            facts = write_release(
                release,
                folder.draft,
                format=config.output.format,
                sums=sums,
                progress=self.events.step("sampling and writing the release", release.count),
            )
            if prepared.quality is not None:
                facts |= prepared.quality.facts
                self.notes += tuple(quality_warnings(prepared.quality, release.count))
                write_dropped(prepared.quality, folder.owner)
        quality = None
        if config.privacy.quality_part:
            with self._timed("measure the quality"):
                quality = measured_quality(prepared, release, self.account, folder, self.events)
        receipt = claim(prepared, whole_receipt(self.account.receipt(), self.stopped))
        if self.calls.calls:
            self.notes += (f"models that servers run: {self.calls.words}",)
        result = self._report(dataset, release, receipt, facts, quality, sums)
        end_remote(self.calls, folder)
        return result

    def _fitted(self, stop: MethodStopped | None, dataset: Dataset) -> Release:
        """What the method makes of the records; or, where it stops, another one that was named."""
        if stop is None:
            try:
                return self._run_method()
            except MethodStopped as stopped:
                stop = stopped
                write_stop(self.folder, stop)
        first, run = self.prepared, self.account
        following = rest_of(first, run)
        if following is None:
            raise stop_explained(stop, run.settle())
        self.prepared = replace(following, rows_held_out=first.rows_held_out)
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
        release = self._run_method(f"{part} ")
        instead = {"instead_of": first.method.name, "reason": stop.reason}
        return replace(release, facts={**release.facts, **instead})

    def _run_method(self, part: str = "") -> Release:
        """What the method makes of the records, with the names that it stores begun by ``part``."""
        prepared = self.prepared
        start_remote(prepared.context, self.calls, self.folder, self.ledger, self.dataset)
        with private_cache(self.folder.cache) as cache:
            vault = PrivateVault(
                prepared.source,
                self.account,
                LocalEngine(),
                cache,
                lambda name: self.events.step(name, len(prepared.source), owner_only=True),
            )
            try:
                return prepared.method.run(self._materials(vault, part), prepared.params)
            finally:
                vault.close()  # what is sampled from now on is post-processing

    def _note_charge(self) -> None:
        self.folder.begun = True
        self.charged.append(f"epsilon {self.prepared.config.privacy.budget.epsilon:g} was charged")

    def _show(
        self, plan: Callable[[RunPlan], None] | None, opened: Prepared, dataset: Dataset
    ) -> None:
        """The plan of the whole dataset, before the charge; who sees it may end the run."""
        shown = plan_of(opened, self.ledger, dataset, self.concerned)
        self.plan_notes = shown.notes
        if plan is None:
            self.notes = shown.notes
            for note in shown.notes:
                self.events.warning(note)
            return
        with paused(self.events):
            plan(shown)

    def _without_held_out(self) -> Prepared:
        """The run on its members alone, where a part of the dataset is held out."""
        prepared, config = self.prepared, self.prepared.config
        if config.privacy.hold_out is None:
            return prepared
        with self._timed("hold out"):
            hold_out = keep_hold_out(
                self.folder.owner,
                prepared.source,
                config.privacy.hold_out,
                config.privacy.privacy_unit,
            )
            members, held_out = split(prepared.source, hold_out)
            return replace(prepared, source=members, rows_held_out=len(held_out))

    def _materials(self, vault: Vault, part: str) -> Materials:
        prepared, keep = self.prepared, self.folder.keep
        config, context = prepared.config, prepared.context
        watch = None
        if config.output.watch:
            watch = Watch(prepared.source, context.encoder, self.folder.owner, self.events)
        return Materials(
            context=context,
            vault=vault,
            public=prepared.public,
            seed=config.output.seed,
            progress=self.events.step,
            base=prepared.base,
            contrast=prepared.contrast,
            candidates=prepared.candidates,
            resized=fit_images,
            fit=partial(fit_images, shape=context.shape),
            keep=lambda name, make: keep(part + name, make),
            watch=watch,
            report_fit=partial(_report_fit, self.fits, self.events),
            quality=prepared.quality,
        )

    def _report(
        self,
        dataset: Dataset,
        release: Release,
        receipt: Receipt,
        facts: Mapping[str, Any],
        quality: PublicQuality | None,
        sums: Mapping[str, str],
    ) -> Result:
        """The documents, and accuracy if there is a test set."""
        prepared, folder = self.prepared, self.folder
        record = run_record(prepared, release, receipt, facts, quality)
        if prepared.config.output.publish_total:
            record = replace(record, total=stated_total(self.ledger, dataset.id))
        write_release_documents(folder.draft, record, sums)
        folder.publish()
        synthetic = open_release(folder.release, release.image_shape)
        accuracies: tuple[Accuracy, ...] = ()
        if prepared.test is not None:
            with self._timed("measure accuracy"):
                accuracies = measure(
                    synthetic,
                    prepared.source,
                    prepared.test,
                    prepared.context.encoder,
                    self.events.step,
                    rows=prepared.config.data.test_rows,
                    classifier=release.classifier,
                )
        images = None
        if release.image_shape is not None:
            images = release_pools(synthetic, release.classes)
        contact_sheet = None if images is None else write_contact_sheet(folder, images)
        spent = spending(self.ledger, dataset.id)
        charged = Charged(self.ledger.address, dataset.id, spent)
        notes = (*self._warnings(), *release.facts.get("notes", ()), *self.notes)
        write_owner(
            folder,
            prepared,
            record,
            charged,
            accuracies,
            images,
            self.seconds,
            self.fits,
            (*self.plan_notes, *notes),
        )
        return Result(
            folder.release,
            folder.owner,
            receipt,
            record.facts,
            accuracies,
            self.seconds,
            contact_sheet,
            notes,
            quality=quality,
            spending=spent,
        )

    def _warnings(self) -> Iterator[str]:
        """What the owner should know after the run; the plan said the rest before it."""
        yield from (fit.warning for fit in self.fits if fit.warning is not None)
        if self.concerned:
            names = ", ".join(dataset.name for dataset in self.concerned)
            yield f"this run was charged to {names} too: half or more of the records are shared"
        if not self.plan_notes and is_unlabelled(self.prepared.source, self.prepared.config.data):
            yield ONE_CLASS


def _report_fit(fits: list[Fit], events: Events, fit: Fit) -> None:
    """Record a measure of how well the models fit, and report its warning at once.

    A release holds on to this function, so it holds on to nothing private of the run.
    """
    fits.append(fit)
    if fit.warning is not None:
        events.warning(fit.warning)
