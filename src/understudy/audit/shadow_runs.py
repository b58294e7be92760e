"""LiRA against a method end to end: shadow runs on random halves, a network trained on each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.audit.adjacent_datasets import Rows
from understudy.audit.bench import Bench, workplace
from understudy.core.errors import ConfigError
from understudy.core.types import Embeddings, Labels
from understudy.metrics.attacks import Shadows, Trained
from understudy.metrics.privacy_bounds import Audit, audit_one_run
from understudy.metrics.roc import Roc

_EPOCHS = 100  # twice the recipe's: a network that fits its rows is what the attack is about


@dataclass(frozen=True)
class Lira:
    """What LiRA found.

    Attributes:
        release: Against networks trained on releases of the method.
        direct: Against the same networks trained on the private rows themselves.
        bound: What the first shadow model alone proves: every row is a canary of it.
        direct_bound: The same of a network trained on the private rows: what could be proven of a
            method that hides nothing.
    """

    release: Roc
    direct: Roc
    bound: Audit
    direct_bound: Audit


def audit_by_lira(
    bench: Bench,
    rows: Rows,
    models: int,
    *,
    confidence: float = 0.95,
    progress: Callable[[int], None] = lambda _: None,
) -> Lira:
    """Shadow runs of the method on random halves of the rows (Carlini et al. 2022, online).

    Args:
        bench: The method.
        rows: Whose membership is in question.
        models: Shadow models; an even number.
        confidence: Of the bound.
        progress: Told of each network.

    Raises:
        ConfigError: No classes to train a network for.
        MissingExtra: The package that trains networks is not installed.
    """
    from understudy.metrics.networks.classifier_training import (
        trainer,
    )  # imports torch, which is an extra

    _require_classes(bench, rows)
    seen, everyone = _embedded(bench, rows.values), np.arange(len(rows))
    fit = trainer("two-layer", len(rows.classes), epochs=_EPOCHS)

    def direct(chosen: NDArray[Any], labels: Labels, seed: int) -> Trained:
        model = fit(seen[chosen], labels, seed)
        return lambda asked: model(seen[asked])

    def by_release(chosen: NDArray[Any], labels: Labels, seed: int) -> Trained:
        del labels
        model = fit(*_released(bench, rows.only(chosen)), seed)
        return lambda asked: model(seen[asked])

    shadows, plain = (
        Shadows.train(
            train, everyone, rows.labels, models=models, seed=bench.seed, progress=progress
        )
        for train in (by_release, direct)
    )
    budget = bench.plan.budget
    promise = {"delta": budget.delta, "claimed": budget.epsilon}
    proven, direct_bound = (
        audit_one_run(
            one.score(one.confidences[0], leave_out=0),
            one.inside[0],
            **promise,
            confidence=confidence,
        )
        for one in (shadows, plain)
    )
    return Lira(shadows.attack(), plain.attack(), proven, direct_bound)


def _require_classes(bench: Bench, rows: Rows) -> None:
    if len(rows.classes) < 2 or not getattr(bench.params, "conditional", True):
        raise ConfigError("LiRA trains classifiers: take a dataset and settings with classes")


def _released(bench: Bench, rows: Rows) -> tuple[Embeddings, Labels]:
    """A release of some rows, as the network sees it.

    Raises:
        ConfigError: It holds no rows.
    """
    with workplace() as place:
        observed = bench.observe(rows, place / "run")
    made = observed.embeddings if observed.images is None else observed.images
    if made is None or len(made) == 0:
        raise ConfigError("the release holds no rows to train on: raise --rows or --epsilon")
    return _embedded(bench, made), observed.labels


def _embedded(bench: Bench, values: NDArray[Any]) -> Embeddings:
    """Rows as the network sees them."""
    encoder = bench.context.encoder
    if values.ndim == 2:
        return values.astype(np.float32)
    if encoder is None:
        raise ConfigError("LiRA trains on embeddings, and these images have no --encoder")
    return encoder.encode(values)
