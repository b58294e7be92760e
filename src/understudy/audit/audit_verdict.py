"""What audits found, as figures, curves and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from understudy.audit.mechanisms import MechanismFindings
from understudy.audit.pairs import MethodFindings
from understudy.audit.shadow_runs import LiraFindings
from understudy.core.results import Curve, Evaluation, Figure, Grade, Kind, Verdict
from understudy.metrics.noise_checks import NoiseFindings
from understudy.metrics.privacy_bounds import Audit
from understudy.metrics.roc import Roc
from understudy.privacy.accounting import epsilon_of_mu
from understudy.privacy.budget import Budget

BOUND, GAUSSIAN_BOUND = "epsilon, lower bound", "epsilon, lower bound if Gaussian"
WITHIN_REACH = "epsilon, largest bound within reach"
_TOO_LONG = 1 + 1e-9  # what float arithmetic is off by
_LITTLE = 2.0  # times the stated epsilon: what must be within reach, for no attacker is perfect
_COARSE = 1.3 / 0.7  # ends of an interval that leaves noise of 30 % less or more unseen


def evaluation_of_method(found: MethodFindings, budget: Budget, what: str) -> Evaluation:
    """Of an audit by pairs of runs or by canaries."""
    figures, reasons, coarse = [], [], False
    for box, bound in found.bounds.items():
        figures += _bounds(bound, f"{what}, {box}")
        reasons += refutations(bound, f"{what}, {box}")
    if found.noise is not None:
        figures += _noise(found.noise, what)
        reasons += found.noise.faults
        coarse = found.noise.ratio.high > _COARSE * found.noise.ratio.low
    name = "longest contribution over stated sensitivity"
    figures.append(Figure("audit", name, found.longest_contribution, measured=what, better="lower"))
    if found.longest_contribution > _TOO_LONG:
        reasons.append(f"a row adds {found.longest_contribution:.3g} times the stated sensitivity")
    name = "sums over the sum of single contributions, largest difference"
    figures.append(Figure("audit", name, found.dependence, measured=what, better="lower"))
    if found.dependence > 0:
        reasons.append(
            "what a record adds depends on the other records (the sums differ by "
            f"{found.dependence:.3g} times the stated sensitivity)"
        )
    inside, outside = (hits / tries for hits, tries in found.diverged_runs)
    name = "runs whose questions tell who was in"
    figures.append(Figure("audit", name, inside, baseline=outside, measured=what, better="lower",
                          unit="%"))  # fmt: skip
    if found.questions_reveal:
        reasons.append("what is asked depends on private rows without noise")
    reach = max(_reach(bound) for bound in found.bounds.values())
    return _told(figures, reasons, budget, found.confidence, reach, coarse)


def evaluation_of_mechanisms(
    found: Mapping[str, MechanismFindings], budget: Budget, confidence: float
) -> Evaluation:
    """Of audits of the mechanisms, one by one; the confidence is of all together."""
    figures, reasons = [], []
    for name, drawn in found.items():
        what = f"mechanism {name}, {drawn.bound.runs:,} draws"
        figures += _bounds(drawn.bound, what) + _noise(drawn.noise, what)
        reasons += refutations(drawn.bound, name)
        reasons += [f"{name}: {fault}" for fault in drawn.noise.faults]
    reach = min(_reach(drawn.bound) for drawn in found.values())
    return _told(figures, reasons, budget, confidence, reach)


def evaluation_of_lira(
    found: LiraFindings, budget: Budget, what: str, confidence: float
) -> Evaluation:
    """Of LiRA."""
    area, plain = found.release.auc, found.direct.auc
    figures = [
        *_bounds(found.bound, what),
        Figure("attack", "LiRA, AUC", area.value, low=area.low, high=area.high,
               measured=f"{what}, two-layer network on releases", better="lower"),
        Figure("attack", "LiRA, AUC", plain.value, low=plain.low, high=plain.high,
               measured="two-layer network on the private rows", better="lower"),
    ]  # fmt: skip
    curves = (_curve("releases", found.release), _curve("the private rows", found.direct))
    # Not what perfect guesses would prove: an attack on a network is far from those.
    reach = found.direct_bound.epsilon
    told = _told(figures, refutations(found.bound, what), budget, confidence, reach)
    return told.and_also(Evaluation(curves=curves))


def refutations(bound: Audit, what: str) -> list[str]:
    """Sentences on what a bound refutes; none where the claim stands."""
    proven = max(bound.epsilon, _by_mu(bound))
    return [f"{what}: epsilon is at least {proven:.3g}"] if bound.broken else []


def _by_mu(bound: Audit) -> float:
    return epsilon_of_mu(bound.mu, bound.delta)


def _bounds(bound: Audit, measured: str) -> list[Figure]:
    pairs = {BOUND: bound.epsilon}
    if bound.claimed_mu is not None:
        pairs[GAUSSIAN_BOUND] = _by_mu(bound)
    return [
        Figure("audit", name, value, low=value, measured=measured, better="lower")
        for name, value in pairs.items()
    ]


def _reach(bound: Audit) -> float:
    """The epsilon that would have been proven, had every guess been right."""
    gaussian = 0.0 if bound.claimed_mu is None else epsilon_of_mu(bound.most_mu, bound.delta)
    return max(bound.most, gaussian)


def _noise(noise: NoiseFindings, measured: str) -> list[Figure]:
    ratio = noise.ratio
    figures = [
        Figure("audit", "noise over stated noise", ratio.value, low=ratio.low, high=ratio.high,
               measured=measured, better="higher"),
        Figure("audit", "pairs of equal noise values", noise.repeats, baseline=noise.expected,
               measured=measured, better="lower"),
    ]  # fmt: skip
    for where, one in noise.correlations.items():
        name = f"correlation of the noise {where}"
        figures.append(
            Figure("audit", name, one.value, low=one.low, high=one.high, measured=measured)
        )
    return figures


def _curve(of: str, found: Roc) -> Curve:
    return Curve(
        "attack",
        f"ROC of LiRA against networks trained on {of}",
        "false positive rate",
        "true positive rate",
        tuple(found.fpr.tolist()),
        tuple(found.tpr.tolist()),
    )


def _told(
    figures: Sequence[Figure],
    reasons: Sequence[str],
    budget: Budget,
    confidence: float,
    reach: float,
    coarse: bool = False,
) -> Evaluation:
    """All of an audit.

    ``reach`` is the largest epsilon that it could have proven, and ``coarse`` says that noise of
    30 % less or more would not have shown.

    An audit that could not have refuted twice the stated epsilon with every guess right finds
    hardly anything, whatever the method does: that is no reason to call the guarantee good.
    """
    public: Kind = "public"
    stated = Figure("audit", "epsilon, stated", budget.epsilon, public)
    within = Figure("audit", WITHIN_REACH, reach)
    grade: Grade
    proven = max((one.value for one in figures if one.name in (BOUND, GAUSSIAN_BOUND)), default=0)
    if reasons:
        grade = "poor"
        sentence = f"Refuted, at a stated epsilon of {budget.epsilon:g}: {'; '.join(reasons)}."
    elif coarse or reach <= _LITTLE * budget.epsilon:
        unseen = ", and noise of 30 % less would not have shown" if coarse else ""
        grade = "unknown"
        sentence = (
            f"Nothing found, and little could have been: of the stated epsilon {budget.epsilon:g} "
            f"this audit could prove {reach:.3g} at most, with every guess right{unseen}. Give "
            "more --runs."
        )
    else:
        grade = "good"
        sentence = (
            f"Nothing refutes epsilon {budget.epsilon:g} (delta {budget.delta:g}): the runs prove "
            f"that it is at least {proven:.3g}, and could have proven {reach:.3g}."
        )
    rule = (
        f"Refuted if a lower bound on epsilon lies above the stated one, the noise is less or more "
        f"than stated, repeated or correlated, a row adds more than stated or changes what others "
        f"add, or questions depend on private rows; a promise that holds is refuted by chance in "
        f"at most {1 - confidence:.2g} of audits. Nothing found, where the largest bound within "
        f"reach is not above {_LITTLE:g} times the stated epsilon."
    )
    settings: dict[str, Any] = {
        "epsilon": budget.epsilon, "delta": budget.delta, "confidence": confidence,
    }  # fmt: skip
    verdict = Verdict("audit", grade, sentence, rule)
    return Evaluation((stated, within, *figures), verdicts=(verdict,), settings=settings)
