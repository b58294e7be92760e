"""``understudy synthesize``: private images in, a release out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Literal

from understudy.backends.arrays import fit_images
from understudy.core.errors import InputError, RunComplete, RunError
from understudy.core.ports import Events
from understudy.core.types import Fit, Receipt, Release
from understudy.data import write_release
from understudy.data.holdout import split
from understudy.engine.local import LocalEngine
from understudy.methods.base import Materials
from understudy.privacy.account import Account
from understudy.privacy.ledger.ledger import Dataset, Ledger
from understudy.privacy.unit import Adjacency
from understudy.privacy.vault import Vault
from understudy.report import PublicQuality
from understudy.run.accuracy import Accuracy, Watch, measure
from understudy.run.config import RunConfig, make_config, source_name
from understudy.run.documents import (
    Charged,
    is_unlabelled,
    run_record,
    spending,
    stated_total,
    warnings_of,
    write_contact_sheet,
    write_owner,
    write_release_documents,
)
from understudy.run.dry import RunPlan, plan_of
from understudy.run.fitness import measured_quality
from understudy.run.galleries import release_pools
from understudy.run.held_out import keep_hold_out
from understudy.run.model_fit import words_fit
from understudy.run.outputs import RunFolder, open_release, private_cache, run_folder
from understudy.run.prepare import Prepared, claim, prepare, require_room_of
from understudy.run.progress import ProgressMode, paused, reporting
from understudy.run.quality_filter import quality_warnings, write_dropped
from understudy.run.run_result import Result
from understudy.run.safeguards import stops_explained

DEBIAN_FOLDER = Path("/usr/share/datasets/fashion-mnist")
"""Where Debian's package dataset-fashion-mnist puts the four idx files."""


def synthesize(
    source: str | Path,
    *,
    out: str | Path,
    epsilon: float | str,
    method: str = "clustering",
    delta: float = 1e-5,
    accept_epsilon: bool = False,
    encoder: str | None = None,
    decoder: str | None = None,
    public: str | None = None,
    base: str | None = None,
    candidates: str | None = None,
    cluster_encoder: str | None = None,
    generator: str | None = None,
    renderer: str | None = None,
    writer: str | None = None,
    captioner: str | None = None,
    settings: Mapping[str, Any] | None = None,
    count: int | None = None,
    seed: int = 0,
    unit: str | None = None,
    unit_from: Literal["folder", "file"] | None = None,
    unit_from_name: str | None = None,
    unit_rows: int = 64,
    adjacency: Adjacency = "add-remove",
    ledger: str | None = None,
    test: str | Path | None = None,
    test_rows: int | None = None,
    size: int | None = None,
    fit: Literal["stretch", "crop", "pad"] = "stretch",
    label: str | None = None,
    classes: Sequence[str] | str | None = None,
    channels: Literal[1, 3] | None = None,
    hold_out: float | str | None = None,
    quality_share: float | str | None = None,
    candidates_public: bool = False,
    format: Literal["png", "parquet"] = "png",
    licence: str = "unknown",
    contact: str | None = None,
    publish_total: bool = False,
    resume: bool = False,
    skip_bad: bool = False,
    watch: bool = False,
    quality: str | None = None,
    quality_threshold: float | None = None,
    images_per_embedding: int | None = None,
    progress: ProgressMode | Events = "auto",
) -> Result:
    """Make a differentially private synthetic copy of a private image dataset.

    Args:
        source: The private dataset: a folder, a file or ``hf:NAME`` (docs/sources.md).
        out: Folder of the result; ``out/release`` may be shared, ``out/owner`` may not. It must not
            exist, unless ``resume``.
        epsilon: Privacy budget of this run: a number, or a part of the dataset's budget in the
            ledger: ``"rest"``, or a share of its squared mu such as ``"10%"``.
        method: Name of a method (``understudy methods``).
        delta: Its delta.
        accept_epsilon: Whether an epsilon above 100 is meant, which protects next to nothing.
        encoder: Name of an encoder; None or ``auto``: the method's, which for clustering is chosen
            by the size of the images (`understudy methods` says how).
        decoder: Name of a decoder; None: the encoder's own, if it has one; ``"none"``: release
            embeddings only.
        public: A public dataset that the method may learn from for free; None: procedural images
            for an encoder whose numbers come in no order; ``"none"``: no dataset at all.
        base: A public or synthetic dataset of the same classes that the method starts from instead
            of generating one.
        candidates: A synthetic or public dataset whose best samples the method selects.
        cluster_encoder: Encoder whose space is partitioned, where it is not ``encoder``'s.
        generator: Name of a text-to-image generator.
        renderer: Name of the generator of the final images; None: ``generator``.
        writer: Name of a caption writer.
        captioner: Name of a captioner.
        settings: Parameters of the method, such as ``{"clusters": 8}``.
        count: Synthetic rows; None: about as many as there are private ones (noisy).
        seed: Seed of the public part (sampling). The noise takes none.
        unit: Column that says whose row it is, or a DICOM field such as ``"PatientID"``; None:
            every image is a unit.
        unit_from: Instead of ``unit``: an image's ``"folder"`` below that of its class, or its
            ``"file"``, of which each frame or slice is an image.
        unit_from_name: Instead of ``unit``: a regular expression that is searched in an image's
            path; its group is the unit.
        unit_rows: At most so many rows of a unit are used; 50,000 or fewer, for the exact sums take
            a unit's rows in one block.
        adjacency: What makes two datasets adjacent.
        ledger: Where spending is recorded: a path or a database URL; None: the user's own ledger.
        test: A real test set, to measure accuracy on; owner-only.
        test_rows: Train on at most so many rows when accuracy is measured; None: on all.
        size: Resize all images to size x size pixels.
        fit: How an image of another ratio is brought to ``size``: stretched, cropped about its
            middle, or padded with black.
        label: Column that holds the class; ``"none"``: images without labels; None: the only one.
        classes: The class names, in label order, as the owner declares them: public whatever the
            images are. None: those that the private records have.
        channels: 1 or 3, to convert images to, as the owner declares it; None: those they have.
        hold_out: Share of the units that is set aside before the run, such as ``"5%"`` or 0.05;
            under replace-one also a number of images. None: nothing is.
        quality_share: Part of the budget, such as ``"2%"`` or 0.02, that measures how good the
            release is: the recall of each class by a classifier that is trained on the release,
            under differential privacy, published with it. None: no quality is published.
        candidates_public: You declare that no private image of this dataset had a part in making
            the candidates, where they are no release that says so itself.
        format: How images are written.
        licence: Licence of the released dataset, for its card; ``"unknown"`` is the hub's word for
            "not said".
        contact: Whom to ask about the release, such as a name or an address; for its documents.
        publish_total: Whether the release states what all releases of the dataset come to so far.
        resume: Go on with an interrupted run in ``out``.
        skip_bad: Pass over unreadable files, and count them.
        watch: Tell the owner, as the method goes on, how far its rows are from the private ones.
        quality: A measure that looks at no private data, by which images are chosen: ``"piqe"``,
            ``"niqe"`` (fitted to ``public`` or ``base``) or ``"niqe:FILE"``; None: the first that
            is drawn of each sample is released.
        quality_threshold: Images that do not score below it are drawn again; lower is better.
        images_per_embedding: Images drawn of each embedding, of which the best is taken; None: 2
            with ``quality`` where the decoder draws another one for another seed.
        progress: Bars on a terminal and lines elsewhere, on standard error (``"auto"``); one of
            ``"rich"``, ``"plain"``, ``"json"`` and ``"none"``; or an object of your own
            (`understudy.core.ports.Events`).

    Returns:
        Where everything lies, the receipt and the accuracies.

    Raises:
        InputError: Bad input; nothing was spent.
        BudgetRefused: The dataset's budget does not cover the run; nothing was spent.
    """
    return run(
        make_config(
            {
                "source": source_name("source", source),
                "out": out,
                "method": method,
                "epsilon": epsilon,
                "delta": delta,
                "accept_epsilon": accept_epsilon,
                "encoder": encoder,
                "decoder": decoder,
                "public": public,
                "base": base,
                "candidates": candidates,
                "cluster_encoder": cluster_encoder,
                "generator": generator,
                "renderer": renderer,
                "writer": writer,
                "captioner": captioner,
                "settings": settings or {},
                "count": count,
                "seed": seed,
                "unit": unit,
                "unit_from": unit_from,
                "unit_from_name": unit_from_name,
                "unit_rows": unit_rows,
                "adjacency": adjacency,
                "ledger": ledger,
                "test": None if test is None else source_name("test", test),
                "test_rows": test_rows,
                "size": size,
                "fit": fit,
                "label": label,
                "classes": classes,
                "channels": channels,
                "hold_out": hold_out,
                "quality_share": quality_share,
                "candidates_public": candidates_public,
                "format": format,
                "licence": licence,
                "contact": contact,
                "publish_total": publish_total,
                "resume": resume,
                "skip_bad": skip_bad,
                "watch": watch,
                "quality": quality,
                "quality_threshold": quality_threshold,
                "images_per_embedding": images_per_embedding,
            }
        ),
        progress=progress,
    )


def run(
    config: RunConfig,
    plan: Callable[[RunPlan], None] | None = None,
    *,
    progress: ProgressMode | Events = "auto",
) -> Result:
    """Carry out a configuration (see `synthesize`).

    Args:
        config: What to do.
        plan: Given the plan once the budget is known to cover the run and before anything is
            charged; an error that it raises ends the run. None: its notes become warnings.
        progress: Where events go, as for `synthesize`.
    """
    with reporting(progress) as events:
        opening = events.step("opening the datasets and the models")
        prepared = prepare(config)
        config = prepared.config
        claim(prepared)
        opening.finish()
        require_room_of(prepared)
        with (
            stops_explained(config.out) as charged,
            run_folder(config.out, config.identity(), resume=config.resume) as folder,
            Ledger(config.ledger, on_wait=events.warning) as ledger,
        ):
            if folder.done:
                raise RunComplete(config.out)
            return _Run(prepared, folder, ledger, events, charged).carry_out(plan)


class _Run:
    """One run, from the ledger to the report."""

    def __init__(
        self,
        prepared: Prepared,
        folder: RunFolder,
        ledger: Ledger,
        events: Events,
        charged: list[str],
    ) -> None:
        self.prepared, self.folder, self.ledger, self.events = prepared, folder, ledger, events
        self.charged = charged
        self.seconds: dict[str, float] = {}
        self.concerned: list[Dataset] = []
        self.fits: list[Fit] = []
        self.notes: tuple[str, ...] = ()  # of the plan that nobody is shown, and of the filters

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] = round(time.perf_counter() - start, 2)

    def carry_out(self, plan: Callable[[RunPlan], None] | None) -> Result:
        prepared, config, folder = self.prepared, self.prepared.config, self.folder
        with self._timed("recognise the dataset"):
            dataset = self.ledger.register(prepared.source)  # all of it, held-out records included
            self.concerned = self.ledger.concerned(dataset.id)
        opened, self.prepared = prepared, self._without_held_out()
        prepared = self.prepared
        account = Account(
            self.ledger,
            dataset.id,
            config.privacy_unit,
            prepared.plan,
            folder.stages,
            folder.run,
            on_charge=self._note_charge,
        )
        account.check()
        if not self.charged:  # else it is resumed, and free
            self._show(plan, opened, dataset)
        if (known := words_fit(prepared)) is not None:
            _report_fit(self.fits, self.events, known)
        with private_cache(folder.cache) as cache:
            vault = Vault(
                prepared.source,
                account,
                LocalEngine(),
                cache,
                lambda name: self.events.step(name, len(prepared.source), owner_only=True),
            )
            with self._timed("embed and fit"):
                release = prepared.method.run(self._materials(vault), prepared.params)
            vault.close()  # what is sampled from now on is post-processing
        with self._timed("sample and write"):
            shutil.rmtree(folder.release, ignore_errors=True)  # of a run that was killed
            sums: dict[str, str] = {}
            facts = write_release(
                release,
                folder.release,
                format=config.format,
                sums=sums,
                progress=self.events.step("sampling and writing the release", release.count),
            )
            if prepared.quality is not None:
                facts |= prepared.quality.facts
                self.notes += tuple(quality_warnings(prepared.quality, release.count))
                write_dropped(prepared.quality, folder.owner)
        quality = None
        if config.quality_part:
            with self._timed("measure the quality"):
                quality = measured_quality(prepared, release, account, folder, self.events)
        receipt = claim(prepared, account.receipt())
        return self._report(dataset, release, receipt, facts, quality, sums)

    def _note_charge(self) -> None:
        self.folder.begun = True
        self.charged.append(f"epsilon {self.prepared.config.budget.epsilon:g} was charged")

    def _show(
        self, plan: Callable[[RunPlan], None] | None, opened: Prepared, dataset: Dataset
    ) -> None:
        """The plan of the whole dataset, before the charge; who sees it may end the run."""
        shown = plan_of(opened, self.ledger, dataset, self.concerned)
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
        if config.hold_out is None:
            return prepared
        with self._timed("hold out"):
            hold_out = keep_hold_out(
                self.folder.owner, prepared.source, config.hold_out, config.privacy_unit
            )
            members, held_out = split(prepared.source, hold_out)
            return replace(prepared, source=members, rows_held_out=len(held_out))

    def _materials(self, vault: Vault) -> Materials:
        prepared = self.prepared
        config, context = prepared.config, prepared.context
        watch = None
        if config.watch:
            watch = Watch(prepared.source, context.encoder, self.folder.owner, self.events)
        return Materials(
            context=context,
            vault=vault,
            public=prepared.public,
            seed=config.seed,
            progress=self.events.step,
            base=prepared.base,
            candidates=prepared.candidates,
            fit=partial(fit_images, shape=context.shape),
            keep=self.folder.keep,
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
        if prepared.config.publish_total:
            record = replace(record, total=stated_total(self.ledger, dataset.id))
        write_release_documents(folder.release, record, sums)
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
                    rows=prepared.config.test_rows,
                    classifier=release.classifier,
                )
        images = None
        if release.image_shape is not None:
            images = release_pools(synthetic, release.classes)
        contact_sheet = None if images is None else write_contact_sheet(folder, images)
        spent = spending(self.ledger, dataset.id)
        charged = Charged(self.ledger.address, dataset.id, spent)
        write_owner(folder, prepared, record, charged, accuracies, images, self.seconds, self.fits)
        return Result(
            folder.release,
            folder.owner,
            receipt,
            record.facts,
            accuracies,
            self.seconds,
            contact_sheet,
            (
                *(fit.warning for fit in self.fits if fit.warning is not None),
                *warnings_of(
                    self.concerned,
                    release.facts,
                    unlabelled=is_unlabelled(prepared.source, prepared.config),
                ),
                *release.facts.get("notes", ()),
                *self.notes,
            ),
            quality=quality,
        )


def _report_fit(fits: list[Fit], events: Events, fit: Fit) -> None:
    """Record a measure of how well the models fit, and report its warning at once.

    A release holds on to this function, so it holds on to nothing private of the run.
    """
    fits.append(fit)
    if fit.warning is not None:
        events.warning(fit.warning)


def demo(out: Path, epsilon: float = 1.0, *, progress: ProgressMode | Events = "auto") -> Result:
    """Make a release of Fashion-MNIST with the default settings.

    The demo keeps a ledger of its own inside ``out``, so that it can be repeated; a real dataset's
    spending belongs in the owner's ledger, which is what ``synthesize`` uses.

    Raises:
        InputError: Fashion-MNIST is neither installed nor to be had from the hub.
    """
    source = str(DEBIAN_FOLDER) if DEBIAN_FOLDER.is_dir() else "hf:fashion_mnist"
    if out.exists():
        if not (out / "demo-ledger.db").exists() and any(out.iterdir()):
            raise RunError(f"{out}: exists and is not an earlier demo; choose another --out")
        shutil.rmtree(out)
    out.mkdir(parents=True)
    try:
        return synthesize(
            source,
            out=out / "fashion-mnist",
            epsilon=epsilon,
            test=source,
            test_rows=20_000,
            ledger=str(out / "demo-ledger.db"),
            progress=progress,
        )
    except InputError as error:
        if source.startswith("hf:"):
            raise InputError(
                f"{error}\nThe demo needs Fashion-MNIST: apt-get install dataset-fashion-mnist, or "
                "a connection to the hub"
            ) from error
        raise
