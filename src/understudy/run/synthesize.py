"""``understudy synthesize``: private images in, a release out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from understudy.backends.arrays import fit_images
from understudy.core.errors import RunError
from understudy.core.types import Fit, Receipt, Release
from understudy.data import write_release
from understudy.data.holdout import split
from understudy.engine.local import LocalEngine
from understudy.methods.base import Materials
from understudy.methods.clustering.capacity import Carried
from understudy.privacy.account import Account
from understudy.privacy.ledger.ledger import Dataset, Ledger
from understudy.privacy.vault import Vault
from understudy.report import BudgetState
from understudy.run.accuracy import Accuracy, measure
from understudy.run.config import RunConfig, make_config
from understudy.run.documents import (
    Charged,
    run_record,
    spending,
    synthetic_sample,
    write_owner,
    write_pictures,
    write_public,
)
from understudy.run.dry import carried
from understudy.run.held_out import keep_hold_out
from understudy.run.model_fit import notice, words_fit
from understudy.run.premises import ONE_CLASS, is_unlabelled
from understudy.run.prepare import Prepared, prepare
from understudy.run.progress import Bars, progress_bars
from understudy.run.quality_filter import quality_warnings, write_dropped
from understudy.run.released import open_release
from understudy.run.run_folder import RunFolder, private_cache, run_folder
from understudy.run.watch import Watch


@dataclass(frozen=True)
class Result:
    """What a run made.

    Attributes:
        release: The folder that may be shared.
        owner: The folder that may not.
        receipt: The guarantee, and what each stage of it cost.
        facts: Public facts of the release.
        accuracy: Balanced accuracy on the real test set; owner-only. Empty without ``test``.
        seconds: Wall-clock seconds of each part of the run; owner-only.
        pictures: A contact sheet of synthetic images; None for embeddings alone.
        warnings: What the owner should know; empty if all is well.
    """

    release: Path
    owner: Path
    receipt: Receipt
    facts: Mapping[str, Any]
    accuracy: tuple[Accuracy, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)
    pictures: Path | None = None
    warnings: tuple[str, ...] = ()


def synthesize(source: str | Path, *, out: str | Path, **options: Any) -> Result:
    """Make a differentially private synthetic copy of a private image dataset.

    Args:
        source: The private dataset: a folder, a file or ``hf:NAME``.
        out: Folder of the result; ``out/release`` may be shared, ``out/owner`` may not.
        **options: Any other field of `understudy.run.config.RunConfig`, such as ``epsilon=1``,
            ``method="clustering"``, ``settings={"clusters": 8}``, ``test="folder"``.

    Returns:
        Where everything lies, the receipt and the accuracies.

    Raises:
        InputError: Bad input; nothing was spent.
        BudgetRefused: The dataset's budget does not cover the run; nothing was spent.
    """
    return run(make_config({"source": str(source), "out": Path(out), **options}))


def run(config: RunConfig, plan: Callable[[tuple[Carried, ...]], None] = lambda _: None) -> Result:
    """Carry out a configuration (see `synthesize`).

    Args:
        config: What to do.
        plan: Given what classes of several sizes can carry, once the budget is known to cover the
            run and before anything is spent.
    """
    with progress_bars() as bars:
        prepared = prepare(config)
        with (
            run_folder(config.out, config.identity(), resume=config.resume) as folder,
            Ledger(config.ledger) as ledger,
        ):
            if folder.done:
                raise RunError(f"{config.out}: this run is complete; there is nothing to resume")
            return _Run(prepared, folder, ledger, bars).carry_out(plan)


class _Run:
    """One run, from the ledger to the report."""

    def __init__(self, prepared: Prepared, folder: RunFolder, ledger: Ledger, bars: Bars) -> None:
        self.prepared, self.folder, self.ledger, self.bars = prepared, folder, ledger, bars
        self.seconds: dict[str, float] = {}
        self.concerned: list[Dataset] = []
        self.fits: list[Fit] = []
        self.notes: tuple[str, ...] = ()  # of the filters of the release

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] = round(time.perf_counter() - start, 2)

    def carry_out(self, plan: Callable[[tuple[Carried, ...]], None]) -> Result:
        prepared, config, folder = self.prepared, self.prepared.config, self.folder
        with self._timed("recognise the dataset"):
            dataset = self.ledger.register(prepared.source)  # all of it, held-out records included
            self.concerned = self.ledger.concerned(dataset.id)
        self.prepared = prepared = self._without_held_out()
        account = Account(
            self.ledger, dataset.id, config.privacy_unit, prepared.plan, folder.stages, folder.run
        )
        account.check()
        plan(carried(prepared))
        if (known := words_fit(prepared)) is not None:
            _report_fit(self.fits, known)
        with private_cache(folder.cache) as cache:
            vault = Vault(
                prepared.source,
                account,
                LocalEngine(),
                cache,
                lambda words: self.bars(words, len(prepared.source)),
            )
            with self._timed("embed and fit"):
                release = prepared.method.run(self._materials(vault), prepared.params)
            vault.close()  # what is sampled from now on is post-processing
        with self._timed("sample and write"):
            shutil.rmtree(folder.release, ignore_errors=True)  # of a run that was killed
            facts = write_release(
                release,
                folder.release,
                format=config.format,
                progress=self.bars("sampling and writing the release", release.count),
            )
            if prepared.quality is not None:
                facts |= prepared.quality.facts
                self.notes = tuple(quality_warnings(prepared.quality, release.count))
                write_dropped(prepared.quality, folder.owner)
        return self._report(dataset, release, account.receipt(), facts)

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
            watch = Watch(prepared.source, context.encoder, self.folder.owner, self.bars)
        return Materials(
            context=context,
            vault=vault,
            public=prepared.public,
            seed=config.seed,
            progress=self.bars,
            base=prepared.base,
            fit=partial(fit_images, shape=context.shape),
            keep=self.folder.keep,
            watch=watch,
            report_fit=partial(_report_fit, self.fits),
            quality=prepared.quality,
        )

    def _report(
        self, dataset: Dataset, release: Release, receipt: Receipt, facts: Mapping[str, Any]
    ) -> Result:
        """The documents, and accuracy if there is a test set."""
        prepared, folder = self.prepared, self.folder
        record = run_record(prepared, release, receipt, facts)
        write_public(folder, record)
        synthetic = open_release(folder.release, release.image_shape)
        accuracies: tuple[Accuracy, ...] = ()
        if prepared.test is not None:
            with self._timed("measure accuracy"):
                accuracies = measure(
                    synthetic,
                    prepared.source,
                    prepared.test,
                    prepared.context.encoder,
                    self.bars,
                    rows=prepared.config.test_rows,
                )
        images = None if release.image_shape is None else synthetic_sample(release)
        pictures = None if images is None else write_pictures(folder, images)
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
            pictures,
            (
                *(fit.warning for fit in self.fits if fit.warning is not None),
                *_warnings(
                    spent,
                    self.concerned,
                    receipt.delta,
                    release.facts,
                    unlabelled=is_unlabelled(prepared.source, prepared.config),
                ),
                *release.facts.get("notes", ()),
                *self.notes,
            ),
        )


def _report_fit(fits: list[Fit], fit: Fit) -> None:
    """Record a measure of how well the models fit; what it warns of is said at once.

    A release holds on to this function, so it holds on to nothing of the run but the measures.
    """
    fits.append(fit)
    if fit.warning is not None:
        notice(fit.warning)


def _warnings(
    spent: BudgetState,
    concerned: Sequence[Dataset],
    delta: float,
    facts: Mapping[str, Any],
    *,
    unlabelled: bool,
) -> tuple[str, ...]:
    """What the owner should know. ``noisy_rows`` is a DP count: the true one is not looked at."""
    found, noisy_rows = [ONE_CLASS] if unlabelled else [], facts.get("noisy_rows")
    if concerned:
        names = ", ".join(dataset.name for dataset in concerned)
        found.append(f"this run was charged to {names} too: half or more of the records are shared")
    if spent.epsilon is None:
        found.append(
            f"this dataset has no total budget; epsilon {spent.spent:.4g} was spent on it so far. "
            "Set one: understudy ledger set-budget SOURCE --epsilon E --delta D"
        )
    if noisy_rows and delta > 1 / (10 * noisy_rows):
        found.append(
            f"delta {delta:g} is above 1/(10 n) for about {noisy_rows:,} rows: a run may then "
            f"expose a few of them outright. Consider --delta {1 / (10 * noisy_rows):.1g}"
        )
    if (votes := facts.get("votes_per_candidate")) is not None:
        noise_sd = facts["votes_noise_sd"]
        if votes < noise_sd / 2:
            found.append(
                f"the filter had {votes:.2g} votes for each candidate and noise of {noise_sd:.2g}: "
                "it chose nearly at random. It needs fewer samples (--count), a larger epsilon or "
                "more private records; filter=none leaves its budget to the mixture"
            )
        if below := facts["below_threshold"]:
            found.append(
                f"{below:,} samples are below the threshold of the filter: too few candidates "
                "reach it, and the most voted of the others make up the count of their class"
            )
    return tuple(found)
