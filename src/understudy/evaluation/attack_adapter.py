"""Quick attacks: can private rows be told from strangers' by the release, and not without it?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from understudy.core.results import Curve, Figure
from understudy.core.types import Embeddings, Vector
from understudy.evaluation.part import with_ends
from understudy.metrics.attacks import (
    DENSITY_DIMS,
    Trained,
    by_calibrated_distance,
    by_density_ratio,
    by_distance,
    by_loss,
)
from understudy.metrics.blind_attack import Added, Blind
from understudy.metrics.fingerprints import area_means
from understudy.metrics.labelled import Labelled, match_classes
from understudy.metrics.roc import Interval, Roc, roc
from understudy.metrics.subsets import some
from understudy.metrics.verdicts import Attacks
from understudy.run.progress import Bars

NAMES = ("distance", "calibrated distance", "density ratio (DOMIAS)")
ADDED = "added by the release"
BLIND, BLIND_DISTANCE = "blind classifier", "blind distance to the reference"

_POINTS = 200
_LOSS_ROWS = 10_000  # of each side
_LEAST = 20  # rows of non-members and of a reference, each
_SIDE = 16  # pixels of an image that a blind classifier looks at


@dataclass(frozen=True, slots=True)
class Attacked:
    """What attacks gave.

    Attributes:
        figures: AUC, rates and advantage of each, and what the release adds.
        curves: Their ROC, and that of the blind attack.
        results: What decides on the verdict.
    """

    figures: list[Figure] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)
    results: Attacks = field(default_factory=Attacks)


def attack(
    private: Embeddings,
    release: Embeddings,
    non_members: Embeddings,
    measured: str,
    bars: Bars,
    *,
    reference: Embeddings | None = None,
    held_out: bool = False,
    seed: int = 0,
) -> Attacked:
    """Attack a release with its features, and again without it.

    As many private rows as there are non-members, or 10,000, are the members.

    Args:
        private: (p, d) the members.
        release: (n, d).
        non_members: (m, d) real rows that took no part.
        measured: With what features, as a figure says it.
        bars: Progress.
        reference: (r, d) further real rows that took no part, which some attacks need; None: a
            half of the non-members, which then are the other half.
        held_out: Whether the non-members are a random part of the private dataset.
        seed: Of the choice.
    """
    if reference is None:
        order = np.random.default_rng(seed).permutation(len(non_members))
        non_members, reference = non_members[order[::2]], non_members[order[1::2]]
    fewest = min(map(len, (private, non_members, reference)))
    if fewest < _LEAST or min(len(release), len(reference)) <= DENSITY_DIMS:
        return Attacked()
    members = private[some(len(private), max(len(non_members), 10_000), seed)]
    rows = np.concatenate([members, non_members])
    scores: dict[str, Callable[[], Vector]] = {
        NAMES[0]: lambda: by_distance(rows, release),
        NAMES[1]: lambda: by_calibrated_distance(rows, release, reference),
        NAMES[2]: lambda: by_density_ratio(rows, release, reference),
    }
    bar = bars("attacks", len(scores) + 1)
    blind = Blind.of(members, non_members, reference=reference, seed=seed)
    bar(1)
    attacked = _Against(blind, measured, BLIND)
    found = {name: attacked.by(name, score(), bar) for name, score in scores.items()}
    rocs = {name: each[0] for name, each in found.items()}
    added = {name: each[1] for name, each in found.items()}
    apart = -by_distance(rows, reference)
    far = roc(apart[: len(members)], apart[len(members) :])
    return Attacked(
        [
            *attacked.figures(rocs, added),
            _area(f"{BLIND_DISTANCE}: AUC", far, measured),
        ],
        [*(curve(name, each) for name, each in rocs.items()), curve(BLIND, blind.roc)],
        Attacks(blind.roc, rocs, added, held_out),
    )


@dataclass(frozen=True, slots=True)
class _Against:
    """Attacks beside the blind attack on the same rows.

    Attributes:
        blind: The blind attack.
        measured: With what, as a figure says it.
        name: Of the blind attack.
    """

    blind: Blind
    measured: str
    name: str

    def by(self, name: str, scores: Vector, bar: Callable[[int], None]) -> tuple[Roc, Added]:
        """One attack: its own curve, and what it adds."""
        member = self.blind.member
        result = roc(scores[member], scores[~member]), self.blind.added(scores)
        bar(1)
        return result

    def figures(self, rocs: Mapping[str, Roc], added: Mapping[str, Added]) -> list[Figure]:
        """Those of the attacks, each beside the blind attack's, then the blind attack's own."""
        blind = self.blind.roc
        found = [
            figure
            for name, each in rocs.items()
            for figure in _figures(name, each, added[name], blind, self.measured)
        ]
        found.append(_area(f"{self.name}: AUC", blind, self.measured))
        for rate, one in blind.tpr_at.items():
            name = f"{self.name}: members found at {rate:.1%} false alarms"
            options = {"baseline": rate, "measured": self.measured, "unit": "%"}
            found.append(with_ends("attack", name, one, **options))
        return found


def _area(name: str, blind: Roc, measured: str) -> Figure:
    """Of a blind attack: neither good nor bad of the release."""
    return with_ends("attack", name, blind.auc, baseline=0.5, measured=measured)


def _figures(name: str, each: Roc, added: Added, blind: Roc, measured: str) -> list[Figure]:
    """One attack's: what it reaches beside the blind attack, and what the release adds."""
    usual = {"measured": measured, "better": "lower"}

    def more(what: str, one: Interval, unit: str = "") -> Figure:
        return with_ends(
            "attack", f"{name}: {what}, {ADDED}", one, baseline=0.0, unit=unit, **usual
        )

    found = [
        with_ends("attack", f"{name}: AUC", each.auc, baseline=blind.auc.value, **usual),
        more("AUC", added.auc),
    ]
    for rate, one in each.tpr_at.items():
        what = f"members found at {rate:.1%} false alarms"
        baseline = blind.tpr_at[rate].value
        found += [
            with_ends("attack", f"{name}: {what}", one, baseline=baseline, unit="%", **usual),
            more(what, added.tpr_at[rate], "%"),
        ]
    advantage = Figure(
        "attack",
        f"{name}: advantage",
        each.advantage,
        baseline=blind.advantage,
        measured=measured,
        better="lower",
    )
    return [*found, advantage, more("advantage", added.advantage)]


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
    non_members: Labelled,
    classes: Sequence[str],
    words: str,
) -> Attacked:
    """Attack a model that was trained on the release by its loss on real rows (Yeom et al. 2018).

    The loss knows a row's class, so the blind attack knows it as well.

    Args:
        model: Rows to class probabilities.
        private: The members.
        non_members: Real rows that took no part.
        classes: What the model tells apart.
        words: What model it is.
    """
    losses, values, known = [], [], []
    for side in (private, non_members):
        few = side.at_most(_LOSS_ROWS)
        labels = match_classes(few.labels, few.classes, classes)
        losses.append(by_loss(model, few.values, labels))
        values.append(_small(few.values))
        known.append(np.eye(len(classes))[labels])
    blind = Blind.of(*values, known=np.concatenate(known))
    name = "loss of a model trained on the release"
    attacked = _Against(blind, words, f"{BLIND} for the loss")
    result, added = attacked.by(name, np.concatenate(losses), lambda done: None)
    return Attacked(
        attacked.figures({name: result}, {name: added}),
        [curve(name, result)],
        Attacks(blind.roc, {name: result}, {name: added}),
    )


def _small(values: np.ndarray) -> np.ndarray:
    """Means of 16 x 16 parts of images, flat; embeddings as they are."""
    if values.ndim == 4:
        values = area_means(values, _SIDE, smaller=True)
    return values.reshape(len(values), -1)
