"""The verdicts at the head of a report: a word, the numbers that decided, and the thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from understudy.core.results import Grade, Group, ValueKind
from understudy.core.types import Receipt
from understudy.report import meaning
from understudy.report.record import OwnerRecord, RunRecord, StatedCopies

STRONG, MODERATE = 0.60, 0.80
"""How often a guess about one unit may be right for the guarantee to be called so."""

USEFUL, FAIR = 0.70, 0.30
"""Of the way from guessing to always right, for a published quality to be called so."""

_GRADES: tuple[Grade, ...] = ("good", "fair", "poor", "unknown")
_LITTLE = ("useful", "fair", "of little use")
_KINDS: dict[Group | str, tuple[str, str, tuple[str, ...]]] = {
    "guarantee": (
        "Guarantee",
        "What is guaranteed, whatever anyone does?",
        ("strong", "moderate", "weak"),
    ),
    "quality": (
        "Fitness for use",
        "What can be learned from it?",
        (*_LITTLE, "not measured publicly"),
    ),
    "fidelity": (
        "Fidelity",
        "Do the samples look like the real ones?",
        ("close to real", "fair", "far from real"),
    ),
    "utility": ("Utility", "Can models be trained on them?", _LITTLE),
    "leakage": ("Leakage", "Is a private record in them?", ("none found", "look closer", "found")),
    "attack": (
        "Attacks",
        "Can an attacker tell who took part?",
        ("gain nothing", "gain a little", "succeed"),
    ),
    "audit": (
        "Audit",
        "Does the program keep its guarantee?",
        ("guarantee holds", "look closer", "guarantee broken", "nothing found"),
    ),
}
"""The title of a card, the question that it answers, and a word for each of `_GRADES`."""

_SIGNS: dict[Grade, str] = {"good": "✓", "fair": "!", "poor": "✕", "unknown": "?"}
NOT_MEASURED = (
    "Its quality was not measured publicly: nothing in it says how much a model that is trained on "
    "it would learn about real images. Look at the samples, and test what you train on real data."
)
"""What is said of the quality of a release whose run did not pay for measuring it."""

_PUBLIC = "No private data was used, so the release gives nothing away."
_UNPROTECTED = (
    "There is no guarantee: private images steered what is in the release, without noise, and no "
    "bound holds on what it tells about them."
)
_NOT_YET = "Not measured yet: run `understudy evaluate FOLDER --real SOURCE"


@dataclass(frozen=True, slots=True)
class Card:
    """A verdict as a reader sees it."""

    title: str  # what it is about: ``"Leakage"``
    question: str  # the question it answers
    grade: Grade  # how good
    word: str  # the grade in a word that fits the question: ``"none found"``
    sign: str  # the grade as a sign, for readers who see no colours
    sentence: str  # the numbers that decided
    rule: str  # the thresholds; may be empty
    kind: ValueKind  # whether it may be told
    section: str  # where the drill-down is: the id of a section

    @property
    def measured(self) -> bool:
        """Whether there is anything behind it."""
        return not self.word.startswith("not measured")


def guarantee_sentence(record: RunRecord) -> str:
    """The guarantee in a sentence, what it is conditional on, and towards whom it does not hold."""
    if record.public:
        return _PUBLIC
    sentence = _UNPROTECTED if record.unprotected else _bound_sentence(record)
    if record.conditional_on:
        sentence += (
            f" This is conditional on what was inferred from the private {record.private_samples}, "
            f"which itself is outside of the guarantee: {', '.join(record.conditional_on)}."
        )
    if hosts := " and ".join(record.disclosed_to):
        sentence += (
            f" No guarantee holds towards {hosts}: private {record.private_samples}, or what was "
            "said of them, were sent there without noise, to run a model."
        )
    return sentence


def _bound_sentence(record: RunRecord) -> str:
    receipt = record.receipt
    what = (
        "which of two candidates a certain unit was"
        if receipt.adjacency == "replace-one"
        else "whether a certain unit was used"
    )
    bound = meaning.percent(meaning.guess_bound(receipt))
    return (
        f"An attacker who sees the release and guesses {what} (unit: {record.unit}) is right at "
        f"most {bound} of the time, whatever else is known; a coin flip is right 50 % of the time."
    )


def guarantee_card(receipt: Receipt, faults: Sequence[str] = (), samples: str = "images") -> Card:
    """The verdict on the guarantee, from the receipt alone. Public, where nothing is at fault."""
    if faults:
        words = f"What the release states is unverified: {faults[0]} (understudy verify)."
        return replace(_card("guarantee", "poor", words, "", "owner-only"), word="unverified")
    if meaning.is_public(receipt):
        return _card("guarantee", "good", _PUBLIC, "", "public")
    if meaning.is_unprotected(receipt):
        return replace(_card("guarantee", "poor", _UNPROTECTED, "", "public"), word="none")
    bound = meaning.guess_bound(receipt)
    grade: Grade = "good" if bound <= STRONG else "fair" if bound <= MODERATE else "poor"
    budget = f"{meaning.stated(receipt.epsilon)} at delta {meaning.stated(receipt.delta)}"
    return _card(
        "guarantee",
        grade,
        f"Epsilon {budget}: a guess about {meaning.unit_in_words(receipt.unit, samples)} is right "
        f"at most {meaning.percent(bound)} of the time (50 % is a coin flip).",
        f"Strong: at most {STRONG:.0%}. Moderate: at most {MODERATE:.0%}. Weak: above.",
        "public",
    )


def quality_sentence(record: RunRecord) -> str:
    """What is publicly known of a release's fitness for use, in one sentence or two."""
    quality = record.quality
    if quality is None:
        return NOT_MEASURED
    value, low, high = (f"{100 * number:.1f}" for number in quality.balanced_accuracy)
    label, worst = quality.worst_first[0]
    return (
        f"A {quality.classifier} trained on this release finds the class of {value} % of the "
        f"private {'images' if record.image_shape else 'records'}, where every class counts the "
        f"same ({low} to {high} %; guessing: {100 * quality.chance:.1f} %). Of the class {label} "
        f"it finds the fewest: {100 * worst[0]:.1f} % ({100 * worst[1]:.1f} to "
        f"{100 * worst[2]:.1f} %)."
    )


def quality_card(record: RunRecord) -> Card:
    """The verdict on fitness for use, by what the run paid to measure. Public."""
    quality, sentence = record.quality, quality_sentence(record)
    if quality is None:
        return _card("quality", "unknown", sentence, "", "public")
    _, low, _ = quality.balanced_accuracy
    gained = (low - quality.chance) / (1 - quality.chance)
    grade: Grade = "good" if gained >= USEFUL else "fair" if gained >= FAIR else "poor"
    rule = (
        f"By the lower end of the interval, from guessing (0 %) to always right (100 %): useful "
        f"from {USEFUL:.0%}, fair from {FAIR:.0%}. A hard task lowers it as poor samples do: what "
        "real images would teach the same classifier is not public."
    )
    return _card("quality", grade, sentence, rule, "dp")


def cards(record: RunRecord, owner: OwnerRecord) -> list[Card]:
    """The four verdicts, and those on attacks, the audit and the published quality, if any."""
    results = owner.evaluation.verdicts if owner.evaluation else ()
    verdicts = {one.group: one for one in results if one.grade != "unknown"}
    if owner.utility is not None:  # models that the run itself trained, where nobody trained more
        verdicts.setdefault("utility", owner.utility)
    verdicts = {one.group: one for one in results} | verdicts
    verdict_cards = [guarantee_card(record.receipt, owner.faults, record.private_samples)]
    missing = _NOT_YET if owner.held_out else f"{_NOT_YET} --test SOURCE"
    if record.quality is not None:
        verdict_cards.append(quality_card(record))
    for group in ("fidelity", "utility", "leakage", "attack", "audit"):
        if group in verdicts:
            one = verdicts[group]
            section = "accuracy" if one is owner.utility else group
            card = _card(group, one.grade, one.sentence, one.rule, one.kind)
            verdict_cards.append(replace(card, section=section))
        elif group == "utility":
            # Models are trained only if asked for.
            verdict_cards.append(_card(group, "unknown", f"{missing} --full`.", "", "owner-only"))
        elif group == "leakage" and record.copies is not None:
            verdict_cards.append(_copies_card(record.copies))
        elif group in ("fidelity", "leakage"):
            verdict_cards.append(_card(group, "unknown", f"{missing}`.", "", "owner-only"))
    return verdict_cards


def _copies_card(copies: StatedCopies) -> Card:
    """What a release without a guarantee states of copies, until it is evaluated."""
    words = (
        f"Of {copies.samples:,} samples {copies.exact:,} are exact copies of private records and "
        f"{copies.near:,} more near-copies, as the release states. For a verdict run `understudy "
        "evaluate FOLDER --real SOURCE --test SOURCE`."
    )
    grade: Grade = "fair" if copies.exact + copies.near else "unknown"
    card = _card("leakage", grade, words, "", "owner-only")
    return replace(card, section="guarantee")


def _card(group: str, grade: Grade, sentence: str, rule: str, kind: ValueKind) -> Card:
    missing = "not measured yet" if "Not measured" in sentence else "not sure"
    title, question, words = _KINDS[group]
    word = dict(zip(_GRADES, words, strict=False)).get(grade, missing)
    return Card(title, question, grade, word, _SIGNS[grade], sentence, rule, kind, group)
