"""Selection by Pontryagin's principle (PrivSynth) beside its baselines: the paper's Tables 3, 4, 5.

Candidates imitate a generator that memorises (`benchmarks.selection_protocols`). Of each release
that is selected: balanced accuracy of a linear head that is trained on it, the part of the private
images that an attack on it finds at 1 % false alarms, the attack's area under the curve, and how
near its samples come to private images. Three seeds, mean and deviation.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from benchmarks.selection_judge import accuracy, nearest_distance, release_attack
from benchmarks.selection_protocols import Samples, SelectionTask, clothing, eurosat
from understudy.core.types import Vector
from understudy.methods.selection.algorithm import Penalties
from understudy.methods.selection.arithmetic import class_budgets
from understudy.methods.selection.base import ProxySettings
from understudy.methods.selection.baselines import BASELINES, LabelledFeatures, SelectionFacts
from understudy.methods.selection.penalties import membership_penalty, reconstruction_penalty
from understudy.methods.selection.reference import RecordReference
from understudy.metrics.nearest_neighbours import clouds, nearest_rows

TASKS = {"clothing": clothing, "eurosat": eurosat}


@dataclass(frozen=True)
class Variant:
    """How a selection is run.

    Attributes:
        reconstruction: Weight of L_pix.
        membership: Weight of L_mem.
        held_out: Whether the reference is the held-out records and not the private ones.
        balanced: Whether each class counts the same in the reference.
        cut: Whether candidates that are farther than usual get no bonus for it: penalties in
            [0, 4], not in [-4, 4].
        settings: Of the proxy.
        rounds: R.
        step_size: a.
    """

    reconstruction: float = 0.0
    membership: float = 0.0
    held_out: bool = False
    balanced: bool = False
    cut: bool = False
    settings: ProxySettings = ProxySettings()
    rounds: int = 8
    step_size: float = 0.25


@dataclass(frozen=True)
class Outcome:
    """What a release comes to.

    Attributes:
        accuracy: Balanced, in [0, 1].
        found: True positive rate of the attack at 1 % false alarms.
        auc: Of the attack.
        distance: See `nearest_distance`.
    """

    accuracy: float
    found: float
    auc: float
    distance: float


def facts_of(task: SelectionTask, keep: float, seed: int = 0) -> SelectionFacts:
    """What the baselines may know of a world's candidates."""
    budgets = class_budgets(task.candidates.labels, task.classes, keep)
    candidates, private, held_out = clouds(
        task.candidates.penalty, task.private.penalty, task.held_out.penalty
    )
    severity = np.array([2, 1, 0])[task.kinds]
    return SelectionFacts(
        candidates=_features(task.candidates),
        budgets=budgets,
        private=_features(task.private),
        non_members=_features(task.held_out),
        to_private=nearest_rows(candidates, private)[1][:, 0],
        to_non_members=nearest_rows(candidates, held_out)[1][:, 0],
        embeddings=task.candidates.penalty,
        severity=np.where(task.mislabelled, 3, severity),
        seed=seed,
    )


def _features(samples: Samples) -> LabelledFeatures:
    return LabelledFeatures(samples.proxy, samples.labels)


def varied(facts: SelectionFacts, variant: Variant) -> SelectionFacts:
    """The facts of a selection by a variant."""
    facts = replace(facts, settings=variant.settings)
    records = facts.non_members if variant.held_out else facts.private
    reference = RecordReference.of(records.features, records.labels, balanced=variant.balanced)

    def cut(penalty: Vector) -> Vector:
        return np.maximum(penalty, 0.0) if variant.cut else penalty

    penalties = Penalties(
        cut(reconstruction_penalty(facts.to_private, facts.to_non_members)),
        cut(membership_penalty(facts.private_losses, facts.non_member_losses))
        if variant.membership
        else None,
        variant.reconstruction,
        variant.membership,
    )
    return replace(
        facts,
        reference=reference,
        penalties=penalties if variant.reconstruction or variant.membership else None,
        rounds=variant.rounds,
        step_size=variant.step_size,
    )


def outcome(task: SelectionTask, release: Samples) -> Outcome:
    """Judge a release."""
    curve = release_attack(task, release)
    return Outcome(
        accuracy(task, release),
        curve.tpr_at[0.01].value,
        curve.auc.value,
        nearest_distance(task, release),
    )
