"""What audits found, as figures, curves and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from understudy.core.figures import Curve, Evaluation, Figure, Kind, Verdict
from understudy.evaluate.audit import Audit
from understudy.evaluate.roc import Roc
from understudy.privacy.accounting import epsilon_of_mu
from understudy.privacy.budget import Budget
from understudy.run.auditing.pairs import Whole
from understudy.run.auditing.shadows import Lira

BOUND, GAUSSIAN_BOUND = "epsilon, lower bound", "epsilon, lower bound if Gaussian"
_TOO_LONG = 1 + 1e-9  # what float arithmetic is off by


def of_whole(found: Whole, budget: Budget, what: str) -> Evaluation:
    """Of an audit by pairs of runs or by canaries."""
    figures, reasons = [], []
    for box, bound in found.bounds.items():
        figures += _bounds(bound, f"{what}, {box}")
        reasons += refutations(bound, f"{what}, {box}")
    if (ratio := found.noise) is not None:
        name = "noise over stated noise"
        figures.append(Figure("audit", name, ratio.value, low=ratio.low, high=ratio.high,
                              measured=what, better="higher"))  # fmt: skip
        if ratio.high < 1:
            reasons.append(f"the noise is {ratio.value:.3g} times what is stated")
    name = "longest contribution over stated sensitivity"
    figures.append(Figure("audit", name, found.longest, measured=what, better="lower"))
    if found.longest > _TOO_LONG:
        reasons.append(f"a row adds {found.longest:.3g} times the stated sensitivity")
    inside, outside = (hits / tries for hits, tries in found.given_away)
    name = "runs whose questions tell who was in"
    figures.append(Figure("audit", name, inside, baseline=outside, measured=what, better="lower",
                          unit="%"))  # fmt: skip
    if found.tells:
        reasons.append("what is asked depends on private rows without noise")
    return _told(figures, reasons, budget, found.confidence)


def of_mechanisms(found: Mapping[str, Audit], budget: Budget, confidence: float) -> Evaluation:
    """Of audits of the mechanisms, one by one; the confidence is of all together."""
    figures, reasons = [], []
    for name, bound in found.items():
        figures += _bounds(bound, f"mechanism {name}, {bound.runs:,} draws")
        reasons += refutations(bound, name)
    return _told(figures, reasons, budget, confidence)


def of_lira(found: Lira, budget: Budget, what: str, confidence: float) -> Evaluation:
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
    told = _told(figures, refutations(found.bound, what), budget, confidence)
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
    figures: Sequence[Figure], reasons: Sequence[str], budget: Budget, confidence: float
) -> Evaluation:
    public: Kind = "public"
    stated = Figure("audit", "epsilon, stated", budget.epsilon, public)
    proven = max((one.value for one in figures if one.name in (BOUND, GAUSSIAN_BOUND)), default=0)
    if reasons:
        sentence = f"Epsilon {budget.epsilon:g} is refuted: {'; '.join(reasons)}."
    else:
        sentence = (
            f"Nothing refutes epsilon {budget.epsilon:g} (delta {budget.delta:g}): the runs prove "
            f"that it is at least {proven:.3g}."
        )
    rule = (
        f"Refuted if a lower bound on epsilon lies above the stated one, the noise is less than "
        f"stated, a row adds more than stated, or questions depend on private rows; a promise that "
        f"holds is refuted by chance in at most {1 - confidence:.2g} of audits."
    )
    settings: dict[str, Any] = {
        "epsilon": budget.epsilon, "delta": budget.delta, "confidence": confidence,
    }  # fmt: skip
    verdict = Verdict("audit", "poor" if reasons else "good", sentence, rule)
    return Evaluation((stated, *figures), verdicts=(verdict,), settings=settings)
