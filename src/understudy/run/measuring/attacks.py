"""Quick attacks: can private rows be told from strangers' by the release alone?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.figures import Curve, Figure
from understudy.core.types import Embeddings, Vector
from understudy.evaluate.attacks import (
    DENSITY_DIMS,
    Trained,
    by_calibrated_distance,
    by_density_ratio,
    by_distance,
    by_loss,
)
from understudy.evaluate.labelled import Labelled, match_classes
from understudy.evaluate.roc import Roc, roc
from understudy.evaluate.subsets import some
from understudy.run.measuring.part import with_ends
from understudy.run.progress import Bars

NAMES = ("distance", "calibrated distance", "density ratio (DOMIAS)")
_POINTS = 200
_LOSS_ROWS = 10_000  # of each side
_LEAST = 20  # rows of others and of a reference, each


@dataclass(frozen=True, slots=True)
class Attacked:
    """What attacks gave.

    Attributes:
        figures: AUC, rates and advantage of each.
        curves: Their ROC.
        rocs: By name.
    """

    figures: list[Figure]
    curves: list[Curve]
    rocs: dict[str, Roc]


def attack(
    private: Embeddings,
    release: Embeddings,
    test: Embeddings,
    measured: str,
    bars: Bars,
    seed: int = 0,
) -> Attacked:
    """Attack a release with its features.

    Half of the test rows are those that took no part, the other half is the reference that
    some attacks need; as many private rows as were not the reference are the members.

    Args:
        private: (p, d) the members.
        release: (n, d).
        test: (m, d) real rows that took no part.
        measured: With what features, as a figure says it.
        bars: Progress.
        seed: Of the choice.
    """
    if len(test) < 2 * _LEAST or len(private) < _LEAST or len(release) <= DENSITY_DIMS:
        return Attacked([], [], {})
    order = np.random.default_rng(seed).permutation(len(test))
    others, reference = test[order[::2]], test[order[1::2]]
    members = private[some(len(private), max(len(others), 10_000), seed)]
    rows = np.concatenate([members, others])
    scores: dict[str, Callable[[], Vector]] = {
        NAMES[0]: lambda: by_distance(rows, release),
        NAMES[1]: lambda: by_calibrated_distance(rows, release, reference),
        NAMES[2]: lambda: by_density_ratio(rows, release, reference),
    }
    bar = bars("attacks", len(scores))
    found = {}
    for name, score in scores.items():
        values = score()
        found[name] = roc(values[: len(members)], values[len(members) :])
        bar(1)
    figures = [one for name, each in found.items() for one in _figures(name, each, measured)]
    return Attacked(figures, [curve(name, each) for name, each in found.items()], found)


def _figures(name: str, found: Roc, measured: str) -> list[Figure]:
    """One attack's."""
    rates = [
        with_ends(
            "attack",
            f"{name}: members found at {rate:.1%} false alarms",
            one,
            baseline=rate,
            measured=measured,
            better="lower",
            unit="%",
        )
        for rate, one in found.tpr_at.items()
    ]
    return [
        with_ends(
            "attack",
            f"{name}: AUC",
            found.auc,
            baseline=0.5,
            measured=measured,
            better="lower",
        ),
        *rates,
        Figure(
            "attack",
            f"{name}: advantage",
            found.advantage,
            baseline=0.0,
            measured=measured,
            better="lower",
        ),
    ]


def curve(name: str, found: Roc) -> Curve:
    """Its ROC with few enough points for a page, those at small false positive rates kept."""
    rates = np.concatenate([[0.0], np.geomspace(1e-4, 1, _POINTS // 2 - 1)])
    at = np.searchsorted(found.fpr, rates, side="right") - 1
    even = np.linspace(0, len(found.fpr) - 1, _POINTS // 2).round().astype(np.int64)
    points = np.unique(np.concatenate([at, even]))
    return Curve(
        "attack",
        f"ROC of {name}",
        "false positive rate",
        "true positive rate",
        tuple(found.fpr[points].tolist()),
        tuple(found.tpr[points].tolist()),
    )


def attack_by_loss(
    model: Trained,
    private: Labelled,
    test: Labelled,
    classes: Sequence[str],
    words: str,
) -> Attacked:
    """Attack a model that was trained on the release by its loss on real rows (Yeom et al. 2018).

    Args:
        model: Rows to class probabilities.
        private: The members.
        test: Real rows that took no part.
        classes: What the model tells apart.
        words: What model it is.
    """
    sides = []
    for one in (private, test):
        few = one.at_most(_LOSS_ROWS)
        labels = match_classes(few.labels, few.classes, classes)
        sides.append(by_loss(model, few.values, labels))
    found = roc(*sides)
    name = "loss of a model trained on the release"
    return Attacked(list(_figures(name, found, words)), [curve(name, found)], {name: found})
