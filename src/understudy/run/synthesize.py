"""``understudy synthesize``: private images in, a release out."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from understudy.backends.registry import load_encoder
from understudy.core.types import Receipt, Release
from understudy.data import write_release
from understudy.engine.local import LocalEngine
from understudy.methods.interface import Materials
from understudy.privacy.account import Account
from understudy.privacy.ledger import Dataset, Ledger
from understudy.privacy.vault import Vault
from understudy.run.config import RunConfig, make_config
from understudy.run.documents import run_record, spending, write_owner, write_public
from understudy.run.evaluate import open_release
from understudy.run.folder import RunFolder, private_cache, run_folder
from understudy.run.measure import Accuracy, measure
from understudy.run.prepare import Prepared, prepare
from understudy.run.progress import Bars, progress_bars


@dataclass(frozen=True)
class Result:
    """What a run made.

    Attributes:
        release: The folder that may be shared.
        owner: The folder that may not.
        receipt: The guarantee, and what each stage of it cost.
        facts: Public facts of the release.
        accuracy: Accuracy on the real test set; owner-only. Empty without ``test``.
        seconds: Wall-clock seconds of each part of the run.
    """

    release: Path
    owner: Path
    receipt: Receipt
    facts: Mapping[str, Any]
    accuracy: tuple[Accuracy, ...] = ()
    seconds: Mapping[str, float] = field(default_factory=dict)


class Stopwatch:
    """Seconds of the parts of a run, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, part: str) -> Iterator[None]:
        """Time a part."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] = round(time.perf_counter() - start, 3)


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
            return _run(prepared, folder, ledger, bars)


def _run(prepared: Prepared, folder: RunFolder, ledger: Ledger, bars: Bars) -> Result:
    config, watch = prepared.config, Stopwatch()
    with watch("recognise the dataset"):
        dataset = ledger.register(prepared.source)
    account = Account(
        ledger, dataset.id, config.privacy_unit, prepared.plan, folder.stages, folder.run
    )
    with private_cache(folder.cache) as cache:
        account.check()
        vault = Vault(
            prepared.source,
            account,
            LocalEngine(),
            cache,
            lambda words: bars(words, len(prepared.source)),
        )
        with watch("fit"):
            release = prepared.method.run(_materials(prepared, vault, bars), prepared.params)
        with watch("sample and write"):
            facts = write_release(
                release,
                folder.release,
                format=config.format,
                progress=bars("writing the release", release.count),
            )
    receipt = account.receipt()
    return _finish(prepared, folder, ledger, dataset, release, receipt, facts, watch, bars)


def _materials(prepared: Prepared, vault: Vault, bars: Bars) -> Materials:
    return Materials(
        vault=vault,
        classes=prepared.source.classes,
        shape=prepared.source.shape,
        encoder=prepared.encoder,
        decoder=prepared.decoder,
        public=prepared.public,
        count=prepared.config.count,
        seed=prepared.config.seed,
        progress=bars,
        load=partial(load_encoder, shape=prepared.source.shape),
    )


def _finish(
    prepared: Prepared,
    folder: RunFolder,
    ledger: Ledger,
    dataset: Dataset,
    release: Release,
    receipt: Receipt,
    facts: Mapping[str, Any],
    watch: Stopwatch,
    bars: Bars,
) -> Result:
    """The documents, and accuracy if there is a test set."""
    record = run_record(prepared, release, receipt, facts)
    write_public(folder, record)
    accuracies: tuple[Accuracy, ...] = ()
    synthetic = open_release(folder.release, release.image_shape)
    if prepared.test is not None:
        with watch("measure accuracy"):
            accuracies = measure(
                synthetic, prepared.source, prepared.test, prepared.encoder, bars
            )
    images = synthetic if release.image_shape and prepared.source.kind == "images" else None
    spent = spending(ledger, dataset)
    write_owner(folder, prepared, record, spent, accuracies, images, watch.seconds)
    return Result(folder.release, folder.owner, receipt, record.facts, accuracies, watch.seconds)
