"""``understudy synthesize``: private images in, a release out."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from understudy.backends.pixels import fit_images
from understudy.core.errors import RunError
from understudy.core.types import Receipt, Release
from understudy.data import write_release
from understudy.engine.local import LocalEngine
from understudy.methods.parts.interface import Materials
from understudy.privacy.account import Account
from understudy.privacy.ledger import Dataset, Ledger
from understudy.privacy.vault import Vault
from understudy.report import Spending
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
from understudy.run.folder import RunFolder, private_cache, run_folder
from understudy.run.measure import Accuracy, measure
from understudy.run.prepare import Prepared, prepare
from understudy.run.progress import Bars, progress_bars
from understudy.run.released import open_release
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


def run(config: RunConfig) -> Result:
    """Carry out a configuration (see `synthesize`)."""
    with progress_bars() as bars:
        prepared = prepare(config)
        with (
            run_folder(config.out, config.identity(), resume=config.resume) as folder,
            Ledger(config.ledger) as ledger,
        ):
            if folder.done:
                raise RunError(f"{config.out}: this run is complete; there is nothing to resume")
            return _Run(prepared, folder, ledger, bars).carry_out()


class _Run:
    """One run, from the ledger to the report."""

    def __init__(self, prepared: Prepared, folder: RunFolder, ledger: Ledger, bars: Bars) -> None:
        self.prepared, self.folder, self.ledger, self.bars = prepared, folder, ledger, bars
        self.seconds: dict[str, float] = {}

    @contextmanager
    def _timed(self, part: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[part] = round(time.perf_counter() - start, 2)

    def carry_out(self) -> Result:
        prepared, config, folder = self.prepared, self.prepared.config, self.folder
        with self._timed("recognise the dataset"):
            dataset = self.ledger.register(prepared.source)
        account = Account(
            self.ledger, dataset.id, config.privacy_unit, prepared.plan, folder.stages, folder.run
        )
        account.check()
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
        return self._report(dataset, release, account.receipt(), facts)

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
        write_owner(folder, prepared, record, charged, accuracies, images, self.seconds)
        return Result(
            folder.release,
            folder.owner,
            receipt,
            record.facts,
            accuracies,
            self.seconds,
            pictures,
            _warnings(spent, receipt.delta, release.facts.get("noisy_rows")),
        )


def _warnings(spent: Spending, delta: float, noisy_rows: int | None) -> tuple[str, ...]:
    """What the owner should know. ``noisy_rows`` is a DP count: the true one is not looked at."""
    found = []
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
    return tuple(found)
