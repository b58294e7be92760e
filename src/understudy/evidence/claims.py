"""The pyramid of NIST SP 800-226: each claim with its proof, or that it is not claimed.

NIST SP 800-226, Guidelines for Evaluating Differential Privacy Guarantees (March 2025): what stands
above holds only as far as what lies below it does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from understudy.evidence.subject import Subject
from understudy.report import RunRecord, privacy_json
from understudy.report.meaning import guess_bound, percent, stated

Status = Literal["claimed", "not claimed"]


@dataclass(frozen=True, slots=True)
class Claim:
    """One block of the pyramid.

    Attributes:
        layer: ``"top"``, ``"middle"`` or ``"base"``.
        block: What it is about, in NIST's words.
        claim: What is claimed, or why nothing is.
        proof: Files of this pack and of the release, documents and tests of the program's source
            that show it; none where nothing is claimed.
    """

    layer: Literal["top", "middle", "base"]
    block: str
    claim: str
    proof: tuple[str, ...] = ()

    @property
    def status(self) -> Status:
        """A claim without a proof is none."""
        return "claimed" if self.proof else "not claimed"


def pyramid(subject: Subject) -> tuple[Claim, ...]:
    """The claims of a release or a job, from the top."""
    record = subject.record
    if record is None or record.guarantee == "none":
        return (*_none(subject), *_BASE)
    words = "No private data was used, so there is nothing for epsilon to bound."
    claims: tuple[Claim, ...] = (Claim("top", "privacy parameters", words, _VERIFIED),)
    if record.guarantee != "no private data":
        claims = _of_guarantee(record)
    if not subject.sound:
        words = " `understudy verify` finds faults, so it is not claimed."
        claims = tuple(
            replace(one, claim=one.claim + words, proof=()) if one.proof else one for one in claims
        )
    return (*claims, *_BASE)


_STATEMENT = "release: privacy.json"
_VERIFIED = (_STATEMENT, "understudy verify")


def _of_guarantee(record: RunRecord) -> tuple[Claim, ...]:
    receipt, mechanism = record.receipt, privacy_json(record)["mechanism"]
    conditional = ", ".join(record.conditional_on)
    quality = "Nothing about utility was measured under the guarantee."
    if record.quality is not None:
        quality = f"Balanced accuracy {record.quality.balanced_accuracy[0]:.3f}, under it."
    return (
        Claim(
            "top",
            "privacy parameters",
            f"Epsilon {stated(receipt.epsilon)} at delta {stated(receipt.delta)}: a guess about "
            f"{record.unit} is right at most {percent(guess_bound(receipt))} of "
            "the time.",
            _VERIFIED,
        ),
        Claim(
            "top",
            "unit of privacy",
            f"{record.unit}, {receipt.adjacency}."
            + (f" Conditional on what was inferred: {conditional}." if conditional else ""),
            (_STATEMENT, "source: tests/privacy/test_partitioned.py"),
        ),
        Claim(
            "middle",
            "mechanism and sensitivity",
            "Exact integer sums of bounded contributions with discrete Gaussian noise.",
            ("source: docs/promise.md", "source: tests/privacy/test_sums.py",
             "source: tests/independence/test_records.py"),
        ),
        Claim(
            "middle",
            "composition and accounting",
            f"{len(receipt.stages)} stages; {mechanism['composition']}; epsilon is recomputed from "
            "them.",
            (*_VERIFIED, "source: tests/privacy/test_accounting.py"),
        ),
        Claim(
            "middle",
            "implementation: floating point and randomness",
            "The noise is of integers, sampled exactly from the operating system's generator.",
            ("source: tests/statistical/test_noise.py",),
        ),
        Claim("middle", "implementation: side channels", "Time and memory are not protected."),
        Claim("middle", "utility", quality, (_STATEMENT,) if record.quality else ()),
        Claim("middle", "bias", "How groups within a class fare was not measured under it."),
        _trust_model(record),
        Claim(
            "middle",
            "query model",
            "One release, not interactive; further releases add up in the owner's ledger.",
            ("source: tests/privacy/test_ledger.py", "source: tests/privacy/test_ledger_races.py"),
        ),
    )  # fmt: skip


def _trust_model(record: RunRecord) -> Claim:
    words = "Central: the owner's machine saw the images and added the noise."
    if hosts := " and ".join(record.disclosed_to):
        words += f" No guarantee holds towards {hosts}, which was sent them."
    return Claim("middle", "trust model", words, (_STATEMENT,))


def _none(subject: Subject) -> tuple[Claim, ...]:
    blocks = ("privacy parameters", "unit of privacy", "mechanism and sensitivity",
              "composition and accounting")  # fmt: skip
    why = "There is no differential privacy here: private images had a part in it without noise."
    claims = tuple(
        Claim("middle" if place > 1 else "top", name, why) for place, name in enumerate(blocks)
    )
    if subject.kind == "release":
        return claims
    return (
        *claims,
        Claim(
            "middle",
            "trust model",
            "What leaves is itemised, agreed to digest by digest, and recorded before it leaves.",
            ("source: docs/device.md", "source: tests/device/test_sending.py",
             "source: tests/device/test_disclosure_rows.py"),
        ),
        Claim(
            "middle",
            "deletion",
            "A job is deleted after 24 hours at most, with a receipt that the server signs.",
            ("source: docs/server.md", "source: tests/server/test_protocol.py"),
        ),
    )  # fmt: skip


_BASE = (
    Claim(
        "base",
        "data security and access control",
        "What is the owner's is written for the owner alone (modes 0700 and 0600); the machine, "
        "its disk and its backups are the owner's matter.",
        ("source: tests/run/test_owner_files.py",),
    ),
    Claim("base", "data collection exposure", "How the images were collected is not known here."),
)
