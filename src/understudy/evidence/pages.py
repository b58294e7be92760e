"""The pages of a pack: what may be shared is made of a `Subject` and the owner's words alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

from understudy.core.results import Interval, MetricValue
from understudy.evidence.claims import pyramid
from understudy.evidence.measured import MeasuredRisk
from understudy.evidence.owner_facts import SLOT, OwnerFacts
from understudy.evidence.subject import OwnerSide, Subject
from understudy.report import RunRecord, privacy_json
from understudy.report.meaning import GROUPS, guess_bound, percent
from understudy.report.rendering import rendered


@dataclass(frozen=True, slots=True)
class PackSection:
    """A part of a page: a heading, a sentence or two, and perhaps a table."""

    title: str
    text: str = ""
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    kind: str = "public"  # as `report.templates` marks it: ``"public"`` or ``"owner-only"``


_NOT_SHARED = (
    "These attacks are run on private records without noise and without a charge, so their results "
    "are owner only and stand in the owner's part of this pack. A guarantee above bounds every "
    "attack, these too; without one, nothing here does."
)
_ADAPTED = (
    "The method of Anonymeter (Giomi et al. 2023), which is for tables, adapted to embeddings: a "
    "ball about a sample for a predicate, two halves of the coordinates for two sets of columns, "
    "the class for the secret column. Rates do not compare with those of tables. Main: on private "
    "records. Control: on records that took no part. Naive: without a look at the samples. Risk: "
    "(main - control) / (1 - control). 95 % intervals. An attack that finds nothing is no proof."
)


def shared_page(subject: Subject, facts: OwnerFacts) -> str:
    """The page that may be shared, as HTML."""
    return rendered(
        "evidence.html",
        title=f"Evidence: {subject.title}",
        owner=False,
        sections=shared_sections(subject, facts),
    )


def shared_sections(subject: Subject, facts: OwnerFacts) -> list[PackSection]:
    """What may be shared, in the order in which a reviewer asks for it."""
    record = subject.record
    sections = [_what(subject, facts), _guarantee(subject), _pyramid(subject)]
    sections.append(PackSection("EDPB and WP216: three tests", _NOT_SHARED))
    if record is not None and record.attacks:
        rows = tuple(
            (one.subject, one.attack, _rate(Interval(*one.tpr)), f"{one.auc[0]:.3f}")
            for one in record.attacks
        )
        head = ("attacked", "attack", "members named at 1 % false alarms", "area under the ROC")
        text = "The release has no guarantee, and states what attacks on it gained:"
        sections.append(PackSection("Attacks that the release states", text, head, rows))
    rule = f"The publisher's rule: {facts.retention}"
    stores = PackSection("Retention", rule, ("what", "where", "until when"), subject.stored)
    sections += [_access(subject), stores, *_limits(record)]
    sections += [_proofs(subject), _review(subject, facts)]
    return sections


def _what(subject: Subject, facts: OwnerFacts) -> PackSection:
    record = subject.record
    rows: list[tuple[str, ...]] = [("what", subject.title), ("day", subject.date)]
    rows += [(name, getattr(facts, name.replace(" ", "_"))) for name in (
        "curator", "intended use", "region", "recipients", "justification", "author")]  # fmt: skip
    rows.append(("made with", f"Understudy {subject.version}"))
    if record is not None:
        rows += [("method", f"{record.method}: {record.how}"), ("samples", f"{record.count:,}"),
                 ("classes", ", ".join(record.classes) or "none"), ("licence", record.licence),
                 ("contact", record.contact or "not stated")]  # fmt: skip
    return PackSection("What this is about", "", ("", ""), tuple(rows))


def _guarantee(subject: Subject) -> PackSection:
    record = subject.record
    if record is None or record.guarantee != "differential privacy" or not subject.sound:
        return PackSection("Guarantee", subject.guarantee)
    rows = tuple((f"{k}", percent(guess_bound(record.receipt, k))) for k in GROUPS)
    text = f"{subject.guarantee} Residual risk, also to groups of units that belong together:"
    return PackSection("Guarantee", text, ("units", "a guess is right at most"), rows)


def _pyramid(subject: Subject) -> PackSection:
    rows = tuple(
        (one.layer, one.block, one.status, one.claim, "\n".join(one.proof) or "none")
        for one in pyramid(subject)
    )
    text = (
        "The pyramid of NIST SP 800-226: a block holds as far as those below it do. A proof is a "
        "file of the release, a command, or a document or test in the program's source."
    )
    head = ("layer", "block", "status", "claim", "proof")
    return PackSection("NIST SP 800-226", text, head, rows)


def _access(subject: Subject) -> PackSection:
    text = " ".join(subject.readers)
    if subject.hosts is None:
        text += " Which hosts were called is not known here: its run or ledger is not at hand."
    elif not subject.hosts:
        text += " No host was sent private data, by the owner's ledger."
    rows = tuple((one.name, one.received, one.until) for one in subject.hosts or ())
    head = ("host", "received", "stores it until") if rows else ()
    return PackSection("Who saw the data, and hosts called", text, head, rows)


def _limits(record: RunRecord | None) -> list[PackSection]:
    if record is None:
        text = (
            "Sanitised messages show what they show: docs/device.md and docs/weaknesses.md of the "
            "program list what a curious server learns. Attacks may improve; nothing that left can "
            "be called back."
        )
        return [PackSection("Limits and residual risk", text)]
    stated = privacy_json(record)
    return [
        PackSection(title, "", (head,), tuple((line,) for line in stated[key]))
        for title, head, key in (
            ("Limits and residual risk", "not covered", "not_covered"),
            ("Assumptions", "assumed", "assumptions"),
        )
        if stated[key]
    ]


def _proofs(subject: Subject) -> PackSection:
    rows: list[tuple[str, ...]] = []
    if subject.record is not None:
        faults = "; ".join(subject.faults[:3]) or "nothing is wrong"
        rows += [("understudy verify", faults), ("SHA-256 of SHA256SUMS", subject.digest or "none"),
                 ("signed by", subject.signed_by or "nobody: understudy sign")]  # fmt: skip
    rows += [("replay", command) for command in subject.replay]
    text = (
        "Noise is never seeded: a run that is replayed, with everything else as it was, has the "
        "same guarantee and other samples, and is charged once more."
    )
    return PackSection("Digests, signature and replay", text, ("", ""), tuple(rows))


def review_day(subject: Subject, facts: OwnerFacts) -> str:
    """The day that the owner states, or a year after the release."""
    if facts.review != SLOT:
        return facts.review
    return (date.fromisoformat(subject.date) + timedelta(days=365)).isoformat()


def _review(subject: Subject, facts: OwnerFacts) -> PackSection:
    slots = ", ".join(facts.open_slots) or "none"
    text = (
        f"Next review: {review_day(subject, facts)}, and whenever another release is made of the "
        "same images, an attack is published, or the recipients change. Slots that are still to "
        f"be filled in: {slots}."
    )
    return PackSection("Review", text)


def owner_page(subject: Subject, owner: OwnerSide, risk: MeasuredRisk | None) -> str:
    """The page that only the owner may see, as HTML."""
    sections = [PackSection("The private side", "", ("", ""), owner.facts, "owner-only")]
    sections += measured_sections(risk)
    if owner.disclosures:
        head = ("time", "what", "details")
        sections.append(PackSection("Disclosures", "", head, owner.disclosures, "owner-only"))
    return rendered(
        "evidence.html", title=f"Owner only: {subject.title}", owner=True, sections=sections
    )


def measured_sections(risk: MeasuredRisk | None) -> list[PackSection]:
    """What attacks gave; that they were not run, where they were not."""
    if risk is None:
        text = "Not measured: give the private dataset (--real, --test). It applies to releases."
        return [PackSection("EDPB and WP216: three tests", text, kind="owner-only")]
    rows = tuple(
        (one.name, _rate(one.main), _rate(one.control), _rate(one.naive), _rate(one.risk),
         f"{one.guesses:,}", one.verdict)
        for one in risk.tests
    )  # fmt: skip
    head = ("test", "main", "control", "naive", "risk", "guesses", "verdict")
    text = f"{_ADAPTED} Compared in {risk.space}. {'; '.join(risk.notes)}"
    verdicts = tuple((one.group, one.grade, one.sentence) for one in risk.evaluation.verdicts)
    return [
        PackSection("EDPB and WP216: three tests", text, head, rows, "owner-only"),
        PackSection("Verdicts", "", ("on", "grade", "why"), verdicts, "owner-only"),
        PackSection(
            "Membership, near-copies and reconstruction",
            "Each beside its baseline; the report of the run explains them (understudy report).",
            ("measured", "with", "release", "95 % interval", "baseline"),
            tuple(map(_value_row, risk.values)),
            "owner-only",
        ),
    ]


def _rate(interval: Interval) -> str:
    return f"{interval.value:.1%} ({interval.low:.1%} to {interval.high:.1%})"


def _value_row(value: MetricValue) -> tuple[str, ...]:
    def number(one: float | None) -> str:
        if one is None:
            return ""
        return f"{one:.2%}" if value.unit == "%" else f"{one:.4g}"

    has_interval = value.low is not None and value.high is not None
    between = f"{number(value.low)} to {number(value.high)}" if has_interval else ""
    return value.name, value.measured, number(value.value), between, number(value.baseline)
