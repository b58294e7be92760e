"""The verdicts at the head of a report: a word, the numbers that decided, and the thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from understudy.core.results import Evaluation, Grade, Group, ValueKind
from understudy.core.types import Receipt
from understudy.report import meaning
from understudy.report.record import ModelScore, RunRecord

STRONG, MODERATE = 0.60, 0.80
"""How often a guess about one unit may be right for the guarantee to be called so."""

_WORDS: dict[Group | str, dict[Grade, str]] = {
    "guarantee": {"good": "strong", "fair": "moderate", "poor": "weak"},
    "fidelity": {"good": "close to real", "fair": "fair", "poor": "far from real"},
    "utility": {"good": "useful", "fair": "fair", "poor": "of little use"},
    "leakage": {"good": "none found", "fair": "look closer", "poor": "found"},
    "attack": {"good": "gain nothing", "fair": "gain a little", "poor": "succeed"},
    "audit": {
        "good": "guarantee holds",
        "fair": "look closer",
        "poor": "guarantee broken",
        "unknown": "nothing found",
    },
}
_TITLES: dict[Group | str, str] = {
    "guarantee": "Guarantee",
    "fidelity": "Fidelity",
    "utility": "Utility",
    "leakage": "Leakage",
    "attack": "Attacks",
    "audit": "Audit",
}
_ASKED: dict[Group | str, str] = {
    "guarantee": "What is guaranteed, whatever anyone does?",
    "fidelity": "Do the rows look like the real ones?",
    "utility": "Can models be trained on them?",
    "leakage": "Is a private image in them?",
    "attack": "Can an attacker tell who took part?",
    "audit": "Does the program keep its guarantee?",
}
_SIGNS: dict[Grade, str] = {"good": "✓", "fair": "!", "poor": "✕", "unknown": "?"}
_UNPROTECTED = (
    "There is no guarantee: private images steered what is in the release, without noise, and no "
    "bound holds on what it tells about them."
)
_NOT_YET = "Not measured yet: run `understudy evaluate FOLDER --real SOURCE --test SOURCE"


@dataclass(frozen=True, slots=True)
class Card:
    """A verdict as a reader sees it.

    Attributes:
        title: What it is about: ``"Leakage"``.
        asked: The question it answers.
        grade: How good.
        word: The grade in a word that fits the question: ``"none found"``.
        sign: The grade as a sign, for readers who see no colours.
        sentence: The numbers that decided.
        rule: The thresholds; may be empty.
        kind: Whether it may be told.
        section: Where the drill-down is: the id of a section.
    """

    title: str
    asked: str
    grade: Grade
    word: str
    sign: str
    sentence: str
    rule: str
    kind: ValueKind
    section: str


def guarantee_sentence(receipt: Receipt) -> str:
    """The guarantee in one sentence."""
    if meaning.is_public(receipt):
        return "No private data was used, so the release gives nothing away."
    if meaning.is_unprotected(receipt):
        return _UNPROTECTED
    what = (
        "which of two candidates a certain unit was"
        if receipt.adjacency == "replace-one"
        else "whether a certain unit was used"
    )
    unit, bound = meaning.unit_in_words(receipt), meaning.percent(meaning.guess_bound(receipt))
    return (
        f"An attacker who sees the release and guesses {what} (unit: {unit}) is right at most "
        f"{bound} of the time, whatever else is known; a coin flip is right 50 % of the time."
    )


def guarantee_card(receipt: Receipt) -> Card:
    """The verdict on the guarantee, from the receipt alone. Public."""
    if meaning.is_public(receipt):
        return _card("guarantee", "good", guarantee_sentence(receipt), "", "public")
    if meaning.is_unprotected(receipt):
        return replace(_card("guarantee", "poor", _UNPROTECTED, "", "public"), word="none")
    bound = meaning.guess_bound(receipt)
    grade: Grade = "good" if bound <= STRONG else "fair" if bound <= MODERATE else "poor"
    budget = f"{meaning.stated(receipt.epsilon)} at delta {meaning.stated(receipt.delta)}"
    return _card(
        "guarantee",
        grade,
        f"Epsilon {budget}: a guess about {meaning.unit_in_words(receipt)} is right at most "
        f"{meaning.percent(bound)} of the time (50 % is a coin flip).",
        f"Strong: at most {STRONG:.0%}. Moderate: at most {MODERATE:.0%}. Weak: above.",
        "public",
    )


def cards(
    record: RunRecord, evaluation: Evaluation | None, scores: Sequence[ModelScore] = ()
) -> list[Card]:
    """The four verdicts, and those on attacks and the audit where there are any."""
    verdicts = {one.group: one for one in (evaluation.verdicts if evaluation else ())}
    verdict_cards = [guarantee_card(record.receipt)]
    for group in ("fidelity", "utility", "leakage", "attack", "audit"):
        if group in verdicts:
            one = verdicts[group]
            known = _known(scores) if (group, one.grade) == ("utility", "unknown") else ""
            verdict_cards.append(_card(group, one.grade, known + one.sentence, one.rule, one.kind))
        elif group == "utility":
            # Models are trained only if asked for.
            sentence = f"{_known(scores)}{_NOT_YET} --full`."
            verdict_cards.append(_card(group, "unknown", sentence, "", "owner-only"))
        elif group in ("fidelity", "leakage"):
            verdict_cards.append(_card(group, "unknown", f"{_NOT_YET}`.", "", "owner-only"))
    return verdict_cards


def _known(scores: Sequence[ModelScore]) -> str:
    """What the run itself measured of utility, where it did."""
    best = max(scores, key=lambda score: score.synthetic, default=None)
    if best is None:
        return ""
    real = "" if best.real is None else f", {best.real:.1%} when trained on the real data"
    words = (
        f"The {best.model} trained on the release reaches a balanced accuracy of "
        f"{best.synthetic:.1%} on real test rows{real}."
    )
    if best.recalls:
        lowest = best.recalls[0]
        words += f" It finds {lowest.synthetic:.1%} of {lowest.label}, the fewest of any class."
    return words + " "


def _card(group: str, grade: Grade, sentence: str, rule: str, kind: ValueKind) -> Card:
    missing = "not measured yet" if "Not measured" in sentence else "not sure"
    word = _WORDS[group].get(grade, missing)
    return Card(
        _TITLES[group], _ASKED[group], grade, word, _SIGNS[grade], sentence, rule, kind, group
    )
