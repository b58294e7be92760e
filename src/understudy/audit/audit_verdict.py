"""Findings of audits as metric values, curves and a verdict."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from understudy.audit.mechanisms import MechanismFindings
from understudy.audit.pairs import MethodFindings
from understudy.audit.shadow_runs import LiraFindings
from understudy.core.results import Evaluation, Grade, MetricValue, Verdict
from understudy.metrics.attacks import LIRA_AUC
from understudy.metrics.noise_checks import (
    NOISE_CORRELATION,
    NOISE_RATIO,
    NOISE_REPEATS,
    NoiseFindings,
)
from understudy.metrics.privacy_bounds import (
    DEPENDENCE,
    EPSILON_BOUND,
    GAUSSIAN_EPSILON_BOUND,
    LARGEST_BOUND,
    LONGEST_CONTRIBUTION,
    REVEALING_QUESTIONS,
    STATED_EPSILON,
    Audit,
)
from understudy.metrics.roc import roc_curve
from understudy.privacy.accounting import epsilon_of_mu
from understudy.privacy.budget import Budget

_TOO_LONG = 1 + 1e-9  # what float arithmetic is off by
_LITTLE = 2.0  # times the stated epsilon: what must be within reach, for no attacker is perfect
_COARSE = 1.3 / 0.7  # ends of an interval that leaves noise of 30 % less or more unseen

_NO_REPLAY = (
    "Nothing was looked at: given its answers, no run asks again what it asked, with the record or "
    "without. So noise and contributions were not checked, and more --runs will not help: the "
    "method keeps something from one run to the next, draws without the seed of the run, or goes "
    "by private records in every run."
)

_STOPPED = (
    "Runs that stopped early, for the method did not suit the records: {}. What it asks after "
    "that was not tried in them: take more --rows."
)


def evaluation_of_method(findings: MethodFindings, budget: Budget, what: str) -> Evaluation:
    """Of an audit by pairs of runs or by canaries."""
    values, reasons, coarse = [], [], False
    for box, bound in findings.bounds.items():
        values += _bounds(bound, f"{what}, {box}")
        reasons += refutations(bound, f"{what}, {box}")
    if findings.noise is not None:
        values += _noise(findings.noise, what)
        reasons += findings.noise.faults
        coarse = findings.noise.ratio.high > _COARSE * findings.noise.ratio.low
    values.append(LONGEST_CONTRIBUTION.value(findings.longest_contribution, measured=what))
    if findings.longest_contribution > _TOO_LONG:
        reasons.append(
            f"a record adds {findings.longest_contribution:.3g} times the stated sensitivity"
        )
    values.append(DEPENDENCE.value(findings.dependence, measured=what))
    if findings.dependence > 0:
        reasons.append(
            "what a record adds depends on the other records (the sums differ by "
            f"{findings.dependence:.3g} times the stated sensitivity)"
        )
    inside, outside = (hits / tries for hits, tries in findings.diverged_runs)
    values.append(REVEALING_QUESTIONS.value(inside, baseline=outside, measured=what))
    if findings.questions_reveal:
        reasons.append("what is asked depends on private records without noise")
    largest_bound = max(_largest_bound(bound) for bound in findings.bounds.values())
    evaluation = _evaluation(values, reasons, budget, findings.confidence, largest_bound, coarse)
    (verdict,) = evaluation.verdicts
    if findings.noise is None and not reasons:
        verdict = dataclasses.replace(verdict, grade="unknown", sentence=_NO_REPLAY)
    if findings.stopped_runs:
        sentence = f"{verdict.sentence} {_STOPPED.format(findings.stopped_runs)}"
        verdict = dataclasses.replace(verdict, sentence=sentence)
    return dataclasses.replace(evaluation, verdicts=(verdict,))


def evaluation_of_mechanisms(
    findings: Mapping[str, MechanismFindings], budget: Budget, confidence: float
) -> Evaluation:
    """Of audits of the mechanisms, one by one; the confidence is of all together."""
    values, reasons = [], []
    for name, mechanism_findings in findings.items():
        what = f"mechanism {name}, {mechanism_findings.bound.runs:,} draws"
        values += _bounds(mechanism_findings.bound, what) + _noise(mechanism_findings.noise, what)
        reasons += refutations(mechanism_findings.bound, name)
        reasons += [f"{name}: {fault}" for fault in mechanism_findings.noise.faults]
    largest_bound = min(
        _largest_bound(mechanism_findings.bound) for mechanism_findings in findings.values()
    )
    return _evaluation(values, reasons, budget, confidence, largest_bound)


def evaluation_of_lira(
    findings: LiraFindings, budget: Budget, what: str, confidence: float
) -> Evaluation:
    """Of LiRA."""
    area, direct_area = findings.release.auc, findings.direct.auc
    values = [
        *_bounds(findings.bound, what),
        LIRA_AUC.value(area, measured=f"{what}, two-layer network on releases"),
        LIRA_AUC.value(direct_area, measured="two-layer network on the private records"),
    ]
    curves = tuple(
        roc_curve(f"LiRA against networks trained on {words}", curve)
        for words, curve in (
            ("releases", findings.release),
            ("the private records", findings.direct),
        )
    )
    # Not what perfect guesses would prove: an attack on a network is far from those.
    largest_bound = findings.direct_bound.epsilon
    evaluation = _evaluation(
        values, refutations(findings.bound, what), budget, confidence, largest_bound
    )
    return evaluation.and_also(Evaluation(curves=curves))


def refutations(bound: Audit, what: str) -> list[str]:
    """Sentences on what a bound refutes; none where the claim stands."""
    proven = max(bound.epsilon, _by_mu(bound))
    return [f"{what}: epsilon is at least {proven:.3g}"] if bound.broken else []


def _by_mu(bound: Audit) -> float:
    return epsilon_of_mu(bound.mu, bound.delta)


def _bounds(bound: Audit, measured: str) -> list[MetricValue]:
    bounds = [(EPSILON_BOUND, bound.epsilon)]
    if bound.claimed_mu is not None:
        bounds.append((GAUSSIAN_EPSILON_BOUND, _by_mu(bound)))
    return [metric.value(number, low=number, measured=measured) for metric, number in bounds]


def _largest_bound(bound: Audit) -> float:
    """The epsilon that would have been proven, had every guess been right."""
    gaussian = 0.0 if bound.claimed_mu is None else epsilon_of_mu(bound.most_mu, bound.delta)
    return max(bound.most, gaussian)


def _noise(noise: NoiseFindings, measured: str) -> list[MetricValue]:
    return [
        NOISE_RATIO.value(noise.ratio, measured=measured),
        NOISE_REPEATS.value(noise.repeats, baseline=noise.expected, measured=measured),
        *(
            NOISE_CORRELATION.value(value, subject=subject, measured=measured)
            for subject, value in noise.correlations.items()
        ),
    ]


def _evaluation(
    values: Sequence[MetricValue],
    reasons: Sequence[str],
    budget: Budget,
    confidence: float,
    largest_bound: float,
    coarse: bool = False,
) -> Evaluation:
    """All of an audit.

    ``largest_bound`` is the largest epsilon that it could have proven, and ``coarse`` says that
    noise of 30 % less or more would not have shown.

    An audit that could not have refuted twice the stated epsilon with every guess right finds
    hardly anything, whatever the method does: that is no reason to call the guarantee good.
    """
    stated_epsilon = STATED_EPSILON.value(budget.epsilon, kind="public")
    within = LARGEST_BOUND.value(largest_bound)
    grade: Grade
    bounds = (EPSILON_BOUND.key, GAUSSIAN_EPSILON_BOUND.key)
    proven = max((value.value for value in values if value.metric.key in bounds), default=0)
    if reasons:
        grade = "poor"
        sentence = f"Refuted, at a stated epsilon of {budget.epsilon:g}: {'; '.join(reasons)}."
    elif coarse or largest_bound <= _LITTLE * budget.epsilon:
        unseen = ", and noise of 30 % less would not have shown" if coarse else ""
        grade = "unknown"
        sentence = (
            f"Nothing found, and little could have been: of the stated epsilon {budget.epsilon:g} "
            f"this audit could prove {largest_bound:.3g} at most, with every guess right{unseen}. "
            "Give more --runs."
        )
    else:
        grade = "good"
        sentence = (
            f"Nothing refutes epsilon {budget.epsilon:g} (delta {budget.delta:g}): the runs prove "
            f"that it is at least {proven:.3g}, and could have proven {largest_bound:.3g}."
        )
    rule = (
        f"Refuted if a lower bound on epsilon lies above the stated one, the noise is less or more "
        f"than stated, repeated or correlated, a record adds more than stated or changes what "
        f"others add, or questions depend on private records; a guarantee that holds is refuted by "
        f"chance in at most {1 - confidence:.2g} of audits. Nothing found, where the largest bound "
        f"within reach is not above {_LITTLE:g} times the stated epsilon."
    )
    settings: dict[str, Any] = {
        "epsilon": budget.epsilon, "delta": budget.delta, "confidence": confidence,
    }  # fmt: skip
    verdict = Verdict("audit", grade, sentence, rule)
    return Evaluation((stated_epsilon, within, *values), verdicts=(verdict,), settings=settings)
