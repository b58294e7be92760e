"""What a guarantee means: bounds that a reader can use, and numbers in words."""

from __future__ import annotations

import math
import re
from decimal import ROUND_CEILING, Context, Decimal
from typing import Literal

from understudy.core.phrases import people_of
from understudy.core.types import Receipt, StageReceipt

GROUPS = (1, 2, 5, 10)  # sizes of groups of units that the documents state a bound for


def composed_mu(receipt: Receipt) -> float | None:
    """Mu of the stages composed: the root of the sum of mu_k squared (Dong, Roth and Su 2022).

    None where a stage sampled the units: no mu says what samples cost.
    """
    if any(stage.sampled for stage in receipt.stages):
        return None
    return math.sqrt(math.fsum(stage.mu**2 for stage in receipt.stages))


def released(stage: StageReceipt) -> str:
    """What a stage released, in words; its noise and mu are those of a step, where it has steps."""
    if not stage.sampled:
        return stage.query
    return (
        f"{stage.query}, in {stage.steps:,} steps, each on a sample of the units (rate "
        f"{number(stage.rate)}); sensitivity, noise and mu are of a step"
    )


Guarantee = Literal["differential privacy", "no private data", "none"]
"""The kinds of guarantee. Only the first has an epsilon that may be stated or compared."""

NO_PRIVATE_DATA = Receipt("none", "add-remove", 0.0, 0.0, 0.0, ())
"""What a release of public data costs: nothing, and it says so without an epsilon."""

NO_GUARANTEE = Receipt("none", "none", math.inf, 1.0, 0.0, ())
"""The receipt of a release that private data steered without noise: a kind of its own."""


EARLIER_RUN = "earlier run"  # the origin of stages whose stored answers were sampled from again


def guarantee_of(receipt: Receipt) -> Guarantee:
    """The kind of a guarantee."""
    if math.isinf(receipt.epsilon):
        return "none"
    return "no private data" if receipt == NO_PRIVATE_DATA else "differential privacy"


def is_public(receipt: Receipt) -> bool:
    """Whether a release was made without private data."""
    return guarantee_of(receipt) == "no private data"


def is_unprotected(receipt: Receipt) -> bool:
    """Whether a release has no guarantee: private data steered it without noise."""
    return guarantee_of(receipt) == "none"


def guess_bound(receipt: Receipt, units: int = 1) -> float:
    """How often an attacker can be right, at most, about whether a group took part: 0.5 to 1.

    The attacker knows everything but that, starts from a coin flip and sees the release. The
    smaller of two bounds: (e^eps + delta) / (e^eps + 1) holds for any (epsilon, delta)
    (Kairouz, Oh and Viswanath 2015), and Phi(mu / 2) for Gaussian releases (Dong, Roth and Su
    2022), plus sinh(slack) for the noise being discrete. A group of k units has k epsilon,
    k slack, k mu and delta (e^(k eps) - 1) / (e^eps - 1).
    """
    epsilon = receipt.epsilon * units
    if epsilon > 700:
        general = 1.0
    else:
        single = math.expm1(receipt.epsilon)
        delta = receipt.delta * (math.expm1(epsilon) / single if single else units)
        general = (math.exp(epsilon) + delta) / (math.exp(epsilon) + 1)
    mu, slack = composed_mu(receipt), min(receipt.slack * units, 1.0)
    if mu is None or not receipt.stages or receipt.runs is not None:
        return min(general, 1.0)  # neither samples nor the best of several runs have a mu
    gaussian = 0.5 * (1 + math.erf(mu * units / 2 / math.sqrt(2))) + math.sinh(slack)
    return min(general, gaussian, 1.0)


def stated(value: float) -> str:
    """A bound with four digits, rounded up so that the words never promise more than the number."""
    rounded = Context(prec=4, rounding=ROUND_CEILING).create_decimal(repr(value))
    return _plain(rounded)


def percent(value: float) -> str:
    """A bound on a probability as a percentage, rounded up to one decimal.

    Where that would be certainty, and the bound is less, it has up to four.
    """
    for decimals in range(1, 5):
        parts = 10 ** (decimals + 2)
        rounded = math.ceil(round(value * parts, 9)) / parts
        if rounded < 1:
            return f"{100 * rounded:.{decimals}f} %"
    return "100.0 %"


def number(value: float) -> str:
    """A number with six digits, for tables; the exact one is in ``privacy.json``."""
    return _plain(Context(prec=6).create_decimal(repr(float(value))))


def _plain(value: Decimal) -> str:
    if value and not -5 < value.adjusted() < 7:
        mantissa, _, exponent = f"{value.normalize():e}".partition("e")
        return f"{mantissa}e{int(exponent)}"
    text = f"{value:f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def unit_in_words(unit: str, samples: str = "images") -> str:
    """The unit of protection: ``"one image"``, ``"all records sharing 'patient'"``.

    ``samples``: what the private records are, ``"images"`` or ``"embeddings"``.
    """
    if unit == "image":
        return f"one {samples.removesuffix('s')}"
    if unit.startswith(("one ", "all ")):
        return unit
    return f"all records{unit[4:]}" if unit.startswith("rows ") else f"one {unit}"


def guarantee_words(receipt: Receipt, samples: str = "images") -> str:
    """The guarantee of a release in a line; ``samples`` as for `unit_in_words`."""
    if is_unprotected(receipt):
        return (
            f"no guarantee: private {samples} steered this without noise; no epsilon stands for it"
        )
    if is_public(receipt):
        return "no private data was used"
    inherited = sum(bool(stage.origin) for stage in receipt.stages)
    words = (
        f"epsilon {stated(receipt.epsilon)}, delta {receipt.delta:g}, "
        f"unit: {unit_in_words(receipt.unit, samples)}, adjacency: {receipt.adjacency}"
    )
    if not inherited:
        return words
    return f"{words}; {inherited} of {len(receipt.stages)} stages were paid for by other releases"


def people_in_words(unit: str) -> str | None:
    """What units of several images are called, such as ``"patients"``; None: images."""
    match = re.fullmatch(r"rows sharing '(.*)'", unit)
    return None if match is None else people_of(match[1])


def neighbours_in_words(receipt: Receipt, samples: str = "images") -> str:
    """What two datasets that the guarantee makes hard to tell apart may differ in."""
    if is_public(receipt):
        return "any private datasets at all: none was used"
    if is_unprotected(receipt):
        return "nothing: there is no guarantee"
    unit = unit_in_words(receipt.unit, samples)
    if receipt.adjacency == "replace-one":
        return (
            f"{unit} replaced by any other. The number of units is then public; what they show "
            "and which class they belong to is not."
        )
    return (
        f"{unit} added or removed. The number of {samples} and the size of every class are then "
        "private too."
    )


def budget(receipt: Receipt) -> str:
    """The kind of a guarantee and its numbers, in a few words: for titles and lists."""
    if is_public(receipt):
        return "no private data"
    if is_unprotected(receipt):
        return "no guarantee"
    return f"epsilon {stated(receipt.epsilon)}"


def odds(receipt: Receipt) -> str:
    """e^epsilon in words: how much more likely any outcome may become, delta apart."""
    return stated(math.exp(receipt.epsilon)) if receipt.epsilon < 20 else "a huge number of"
