"""LiRA against a method end to end: shadow runs on random halves, a network trained on each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.audit.adjacent_datasets import InMemorySource
from understudy.audit.bench import Bench, temporary_folder
from understudy.core.errors import ConfigError
from understudy.core.types import Embeddings, Labels
from understudy.metrics.attacks import Shadows, Trained
from understudy.metrics.privacy_bounds import LEAST_CANARIES, Audit, audit_one_run
from understudy.metrics.roc import Roc

_EPOCHS = 100  # twice the recipe's: a network that fits its rows is what the attack is about


@dataclass(frozen=True)
class LiraFindings:
    """Findings of LiRA.

    Attributes:
        release: Against networks trained on releases of the method.
        direct: Against the same networks trained on the private records themselves.
        bound: What the first shadow model alone proves: every record is a canary of it.
        direct_bound: The same of a network trained on the private records: what could be proven
            of a method that hides nothing.
    """

    release: Roc
    direct: Roc
    bound: Audit
    direct_bound: Audit


def audit_by_lira(
    bench: Bench,
    records: InMemorySource,
    models: int,
    *,
    confidence: float = 0.95,
    progress: Callable[[int], None] = lambda _: None,
) -> LiraFindings:
    """Shadow runs of the method on random halves of the records (Carlini et al. 2022, online).

    Raises:
        ConfigError: No classes to train a network for, or a guarantee that is of something else
            than one record more or less.
        MissingExtra: The package that trains networks is not installed.
    """
    from understudy.metrics.networks.classifier_training import (
        trainer,
    )  # imports torch, which is an extra

    _require_lone_records(bench, records)
    if len(records) < LEAST_CANARIES:
        raise ConfigError(
            f"LiRA guesses of {LEAST_CANARIES} records or more whether they were in, found "
            f"{len(records)}: raise --rows, or take a larger dataset"
        )
    if len(records.classes) < 2 or not bench.method.keeps_classes(bench.params):
        raise ConfigError("LiRA trains classifiers: take a dataset and settings with classes")
    embeddings, indices = _embeddings(bench, records.values), np.arange(len(records))
    fit = trainer("two-layer", len(records.classes), epochs=_EPOCHS)

    def direct(members: NDArray[Any], labels: Labels, seed: int) -> Trained:
        model = fit(embeddings[members], labels, seed)
        return lambda queried: model(embeddings[queried])

    def by_release(members: NDArray[Any], labels: Labels, seed: int) -> Trained:
        del labels
        model = fit(*_released(bench, records.subset(members)), seed)
        return lambda queried: model(embeddings[queried])

    shadows, direct_shadows = (
        Shadows.train(
            train, indices, records.labels, models=models, seed=bench.seed, progress=progress
        )
        for train in (by_release, direct)
    )
    budget = bench.plan.budget
    claim = {"delta": budget.delta, "claimed": budget.epsilon}
    bound, direct_bound = (
        audit_one_run(
            shadow.score(shadow.confidences[0], leave_out=0),
            shadow.inside[0],
            **claim,
            confidence=confidence,
        )
        for shadow in (shadows, direct_shadows)
    )
    return LiraFindings(shadows.attack(), direct_shadows.attack(), bound, direct_bound)


def _require_lone_records(bench: Bench, records: InMemorySource) -> None:
    """Refuse a stated epsilon that does not bound what a shadow run changes: one record each."""
    several = records.units is not None and len(np.unique(records.units)) < len(records)
    if several or bench.unit.adjacency == "replace-one":
        raise ConfigError(
            "LiRA takes each record in or out by itself, and a guarantee of units of several "
            "records, or of one that is replaced, is not of that: its epsilon would be refuted "
            "wrongly, or hardly. Take --how canaries, or --how pairs"
        )


def _released(bench: Bench, records: InMemorySource) -> tuple[Embeddings, Labels]:
    """A release of some records, as the network takes it."""
    with temporary_folder() as folder:
        observed = bench.observe(records, folder / "run")
    samples = observed.embeddings if observed.images is None else observed.images
    if samples is None or len(samples) == 0:
        raise ConfigError("the release holds no samples to train on: raise --rows or --epsilon")
    return _embeddings(bench, samples), observed.labels


def _embeddings(bench: Bench, values: NDArray[Any]) -> Embeddings:
    """Records or samples as the network takes them."""
    encoder = bench.context.encoder
    if values.ndim == 2:
        return values.astype(np.float32)
    if encoder is None:
        raise ConfigError("LiRA trains on embeddings, and these images have no --encoder")
    return encoder.encode(values)
