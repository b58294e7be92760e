"""Quick attacks: are private records told from non-members by the release, and not without it?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.results import Metric, MetricValue
from understudy.core.types import Embeddings, Labels, Vector
from understudy.evaluation import Part
from understudy.evaluation.embedding_pass import EmbeddedDataset, flat_means
from understudy.metrics.attacks import (
    DENSITY_DIMS,
    LOSS_AUC,
    RELEASE_ATTACKS,
    Trained,
    by_distance,
    by_loss,
)
from understudy.metrics.attribute_inference import INFERRED, INFERRED_MORE, infer_attribute
from understudy.metrics.blind_attack import (
    ADDED_ADVANTAGE,
    ADDED_AUC,
    ADDED_MEMBERS_FOUND,
    BLIND_AUC,
    BLIND_DISTANCE_AUC,
    BLIND_MEMBERS_FOUND,
    AttackGain,
    Blind,
)
from understudy.metrics.labelled import Labelled, match_classes
from understudy.metrics.roc import ADVANTAGE, MEMBERS_FOUND, Roc, roc, roc_curve, stronger_roc
from understudy.metrics.subsets import some
from understudy.metrics.verdicts import Attacks
from understudy.run.progress import Bars

_LOSS_ROWS = 10_000  # of each side
_INFERRED_ROWS = 5_000  # private records whose class is inferred, at most, and held-out ones
_LEAST = 20  # rows of non-members and of a reference, each


def attack_release(
    private: Embeddings,
    release: Embeddings,
    non_members: Embeddings,
    measured: str,
    bars: Bars,
    *,
    reference: Embeddings | None = None,
    held_out: bool = False,
) -> tuple[Part, Attacks]:
    """Attack a release with its features, and again without it.

    What was measured: AUC, rates and advantage of each attack, what the release adds, and the
    curves; and what decides on the verdict.

    As many private records (p, d) as there are ``non_members`` (m, d), or 10,000, are the members.
    ``reference`` are (r, d) further real records that took no part, which some attacks need; None:
    a half of the non-members, which then are the other half. ``held_out`` says that the non-members
    are a random part of the private dataset.
    """
    if reference is None:
        order = np.random.default_rng(0).permutation(len(non_members))
        non_members, reference = non_members[order[::2]], non_members[order[1::2]]
    fewest = min(map(len, (private, non_members, reference)))
    if fewest < _LEAST or min(len(release), len(reference)) <= DENSITY_DIMS:
        return Part(), Attacks()
    members = private[some(len(private), max(len(non_members), 10_000), 0)]
    rows = np.concatenate([members, non_members])
    bar = bars("attacks", len(RELEASE_ATTACKS) + 1)
    blind = Blind.of(members, non_members, reference=reference)
    bar(1)
    comparison = _BlindComparison(blind, measured, BLIND_AUC.subject)
    rocs: dict[str, Roc] = {}
    gains: dict[str, AttackGain] = {}
    values: list[MetricValue] = []
    for name, (metric, scores_of) in RELEASE_ATTACKS.items():
        scores = scores_of(rows, release, reference)
        rocs[name], gains[name] = comparison.judge(scores)
        values += comparison.values(metric, rocs[name], gains[name])
        bar(1)
    apart = -by_distance(rows, reference)
    blind_distance = roc(apart[: len(members)], apart[len(members) :]).auc
    values += comparison.blind_values()
    values.append(BLIND_DISTANCE_AUC.value(blind_distance, baseline=0.5, measured=measured))
    every = {**rocs, BLIND_AUC.subject: blind.roc}
    curves = [roc_curve(name, each) for name, each in every.items()]
    return Part(values, curves), Attacks(blind.roc, rocs, gains, held_out)


@dataclass(frozen=True, slots=True)
class _BlindComparison:
    """Attacks, and the blind attack on the same rows."""

    blind: Blind
    measured: str  # with what, as a value says it
    name: str  # of the blind attack

    def judge(self, scores: Vector) -> tuple[Roc, AttackGain]:
        """The curve of an attack's scores by the stronger sign, and what they add to the blind."""
        member = self.blind.member
        curve = stronger_roc(scores[member], scores[~member])
        return curve, self.blind.gain(-scores if curve.reversed else scores)

    def values(self, area: Metric, each: Roc, gain: AttackGain) -> list[MetricValue]:
        """One attack's: what it reaches, with the blind attack's baseline, and what it adds."""
        blind, measured, subject = self.blind.roc, self.measured, area.subject
        values = [
            area.value(each.auc, baseline=blind.auc.value, measured=measured),
            ADDED_AUC.value(gain.auc, subject=subject, baseline=0.0, measured=measured),
        ]
        for rate, part in each.tpr_at.items():
            values += [
                MEMBERS_FOUND[rate].value(
                    part, subject=subject, baseline=blind.tpr_at[rate].value, measured=measured
                ),
                ADDED_MEMBERS_FOUND[rate].value(
                    gain.tpr_at[rate], subject=subject, baseline=0.0, measured=measured
                ),
            ]
        return [
            *values,
            ADVANTAGE.value(
                each.advantage, subject=subject, baseline=blind.advantage, measured=measured
            ),
            ADDED_ADVANTAGE.value(gain.advantage, subject=subject, baseline=0.0, measured=measured),
        ]

    def blind_values(self) -> list[MetricValue]:
        """The blind attack's own: neither good nor bad of the release."""
        name, measured = self.name, self.measured
        return [
            BLIND_AUC.value(self.blind.roc.auc, subject=name, baseline=0.5, measured=measured),
            *(
                BLIND_MEMBERS_FOUND[rate].value(
                    part, subject=name, baseline=rate, measured=measured
                )
                for rate, part in self.blind.roc.tpr_at.items()
            ),
        ]


def attack_trained_model(
    model: Trained, private: Labelled, non_members: Labelled, classes: Sequence[str], measured: str
) -> tuple[Part, Attacks]:
    """Attack a model trained on the release by its loss on real records (Yeom et al. 2018).

    The loss knows a row's class, so the blind attack knows it as well. Of too few rows nothing is
    said.
    """
    if min(len(private.labels), len(non_members.labels)) < _LEAST:
        return Part(), Attacks()
    losses, values, class_columns = [], [], []
    for side in (private, non_members):
        few = side.at_most(_LOSS_ROWS)
        labels = match_classes(few.labels, few.classes, classes)
        losses.append(by_loss(model, few.values, labels))
        values.append(flat_means(few.values))
        class_columns.append(np.eye(len(classes))[labels])
    blind = Blind.of(*values, side_information=np.concatenate(class_columns))
    name = LOSS_AUC.subject
    comparison = _BlindComparison(blind, measured, f"{BLIND_AUC.subject} for the loss")
    curve, gain = comparison.judge(np.concatenate(losses))
    measures = [*comparison.values(LOSS_AUC, curve, gain), *comparison.blind_values()]
    part = Part(measures, [roc_curve(name, curve)])
    return part, Attacks(blind.roc, {name: curve}, {name: gain})


def infer_classes(
    private: EmbeddedDataset, release: EmbeddedDataset, test: EmbeddedDataset, measured: str
) -> list[MetricValue]:
    """What an attacker with a row's features learns of its class from the nearest sample.

    The labels of all sides index the same classes.
    """
    inferred = infer_attribute(
        _labelled(release, None),
        _labelled(private, _INFERRED_ROWS),
        _labelled(test, _INFERRED_ROWS),
    )
    baseline = inferred.held_out.value
    return [
        INFERRED.value(inferred.private, baseline=baseline, measured=measured),
        INFERRED_MORE.value(inferred.leakage, baseline=0.0, measured=measured),
    ]


def _labelled(side: EmbeddedDataset, most: int | None) -> tuple[Embeddings, Labels]:
    rows = some(len(side.features), most)
    return side.features[rows], side.labels[rows]
