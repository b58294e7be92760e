"""``understudy verify``: what of a release can be checked from outside, and what cannot.

Reads the folder of a release and nothing else: neither a ledger nor a private record.
"""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from understudy.core.damaged_files import ZIP_DAMAGE, zip_to_read
from understudy.core.errors import InputError, MissingExtra, RunError, count_words
from understudy.core.files import files_below, folder_of
from understudy.core.types import Receipt
from understudy.privacy.accounting import (
    MIN_SCALE,
    Gaussian,
    Selected,
    discretisation_slack,
    epsilon_of,
    epsilon_of_mu,
)
from understudy.privacy.budget_plan import events_of
from understudy.release.checksums import SIGNATURE, checksum_faults, signature_faults
from understudy.release.outputs import read_json, release_folder
from understudy.report import RunRecord, read_record
from understudy.report.meaning import (
    composed_mu,
    guess_bound,
    percent,
    stated,
)
from understudy.report.rendering import markdown, value

_EXACT = 1e-9  # numbers that follow from one another differ by rounding alone
_SAMPLED = 1e-3  # by which epsilon of samples may be more than it comes to: noise is solved for
_SOLVED = 1e-6  # epsilon is the solution of an equation
_UNPACKED_BYTES, _UNPACKED_FILES = 2**34, 2_000_000  # of an archive, at most

_CLAIM = re.compile(r"(epsilon|delta|right at most)(?: | \| )(\d+(?:\.\d+)?(?:e-?\d+)?)")
"""What a document claims of a guarantee: a name and its number."""
_COUNT = re.compile(r"\| Rows \| ([\d,]+)|([\d,]+) synthetic (?:images|embeddings)")
"""How many samples a document says that there are."""

OUTSIDE = (
    "that the noise was drawn as stated, and that nothing else was taken from the private images: "
    "that is the owner's machine and this program's code (`understudy audit` attacks it)",
    "that each sensitivity is that of its query: docs/promise.md proves those of this program",
    "that the owner's ledger knows of every release: what others came to adds up",
    "that the unit is the right one, and that what is called public is (PRIVACY.md, Assumed)",
)
"""What no look at a release can tell."""


@dataclass(frozen=True, repr=False)
class Verification:
    """What was checked of a release.

    Attributes:
        release: Its folder, or its zip.
        record: What it says of itself; None where that cannot be read.
        files: Its files, but for the list of their checksums.
        faults: What is wrong, a sentence each; empty: everything that can be checked is sound.
        signed_by: The public key of the signature, in hexadecimal; None without one that fits.
        key_known: Whether the reader named the key.
        unchecked: Why there is a signature that was not checked; empty otherwise.
    """

    release: Path
    record: RunRecord | None
    files: int
    faults: tuple[str, ...]
    signed_by: str | None
    key_known: bool
    unchecked: str = ""

    def __repr__(self) -> str:
        """A line, for a notebook; the attributes have the rest."""
        return f"<Verification {self.release}: {'; '.join(self.faults) or 'sound'}>"

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults

    @property
    def unverified(self) -> tuple[str, ...]:
        """What cannot be checked from outside."""
        lines: tuple[str, ...] = (
            OUTSIDE if self.record is None or self.record.receipt.stages else ()
        )
        if self.record is not None and self.record.total is not None:
            lines += ("the total of all releases: it stands in the owner's ledger",)
        if self.unchecked:
            lines += (f"who made this folder: its signature was not checked: {self.unchecked}",)
        elif self.signed_by is None:
            lines += ("who made this folder: it is not signed",)
        elif not self.key_known:
            lines += ("whose key signed it: name the key that you know (--key)",)
        return lines

    def as_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return {
            "release": str(self.release),
            "sound": self.sound,
            "files": self.files,
            "faults": list(self.faults),
            "signed_by": self.signed_by,
            "unverified": list(self.unverified),
        }


def verify(release: str | PathLike[str], *, key: str | Path | None = None) -> Verification:
    """Check a release: its files by their checksums, its guarantee by its own numbers.

    Args:
        release: The folder of a release, or of a run with one in it; or a zip of either.
        key: The public key that must have signed it: a PEM file, or 64 hexadecimal digits.

    Returns:
        What is wrong, if anything, and what cannot be checked from outside.

    Raises:
        RunError: There is no release in it.
        ConfigError: The key is none.
    """
    path = folder_of(release)
    if path.is_file():
        with _unpacked(path) as folder:
            return replace(_verify(folder, key), release=path)
    return _verify(release_folder(path), key)


def _verify(place: Path, key: str | Path | None) -> Verification:
    """What of a release in a folder is wrong, if anything."""
    try:
        files, faults = len(files_below(place)) - 1, checksum_faults(place)
    except RunError as error:  # a link, or a name that no list can hold
        files, faults = 0, [str(error)]
    unchecked = ""
    try:
        signed_by, more = signature_faults(place, None if key is None else str(key))
    except MissingExtra as error:
        signed_by, unchecked = None, str(error)
        more = [] if key is None else [f"{SIGNATURE}: was not checked by the key: {error}"]
    record = None
    try:
        content = read_json(place / "privacy.json")
        statement = read_record(content)
        faults += [f"privacy.json: {fault}" for fault in guarantee_faults(content, statement)]
        faults += document_faults(place, statement)
        faults += [] if faults else file_faults(place, statement)
        record = statement
    except RunError as error:
        faults.append(str(error))
    except (ArithmeticError, MemoryError, TypeError, ValueError):
        faults.append("privacy.json: holds numbers that no guarantee comes to")
    wrong = (*faults, *more)
    return Verification(place, record, files, wrong, signed_by, key is not None, unchecked)


@contextmanager
def _unpacked(file: Path) -> Iterator[Path]:
    """The release of a zip in a temporary folder.

    Raises:
        RunError: It is no zip, holds more than a release may, or no release.
    """
    with tempfile.TemporaryDirectory() as place:
        try:
            with zip_to_read(file) as archive:
                members = archive.infolist()
                size = sum(one.file_size for one in members)
                if size > _UNPACKED_BYTES or len(members) > _UNPACKED_FILES:
                    raise RunError(f"{file}: holds more than a release may")
                for one in members:  # no name leads out of the folder, and links become files
                    archive.extract(one, place)
        except (*ZIP_DAMAGE, RuntimeError) as error:
            raise RunError(
                f"{file}: is no folder of a release, nor a zip that can be read"
            ) from error
        inner = Path(place)
        for _ in range(3):
            folders = [one for one in inner.iterdir() if one.is_dir()]
            if (inner / "privacy.json").is_file() or (inner / "release").is_dir():
                break
            inner = folders[0] if len(folders) == 1 else inner
        yield release_folder(inner)


def sound_record(release: Path) -> RunRecord:
    """What a release states, where it is to be passed on.

    Raises:
        RunError: It is no sound release.
    """
    checked = verify(release)
    if checked.record is None or checked.faults:
        raise RunError(
            f"{release} is no sound release, so nothing is passed on of its guarantee: `verify` "
            f"finds {fault_words(checked.faults)}. Take the release as it was written"
        )
    return checked.record


def fault_words(faults: Sequence[str]) -> str:
    """How many faults there are, and the first of them; there is one at least."""
    return f"{count_words(len(faults), 'fault')}, the first: {faults[0]}"


def guarantee_faults(content: dict[str, Any], record: RunRecord) -> Iterator[str]:
    """What of a guarantee does not follow from what its stages state."""
    claim, receipt = content["guarantee"], record.receipt
    if claim.get("kind") not in (None, record.guarantee):
        yield f"states the guarantee {claim['kind']!r}, and its numbers are those of another kind"
    if claim.get("conditional_on", list(record.conditional_on)) != list(record.conditional_on):
        yield "states another condition of its guarantee than what its premises say was inferred"
    if record.unprotected:
        if content["stages"] or claim["mu"] is not None:
            yield "states no epsilon, and stages or a mu nevertheless"
        return
    for stage in receipt.stages:
        if not _same(stage.mu * stage.sigma, stage.sensitivity) or stage.mu <= 0:
            yield (
                f"stage {stage.stage!r} states mu {stage.mu:g}; its sensitivity over its sigma is "
                f"{stage.sensitivity / stage.sigma if stage.sigma else math.inf:g}"
            )
    mu = composed_mu(receipt)
    if receipt.runs is not None:
        if claim["mu"] is not None or not 1 < receipt.runs < math.inf:
            yield f"is the best of {receipt.runs:g} expected runs, and states mu {claim['mu']}"
            return
    else:
        stated_mu = claim["mu"]
        if (stated_mu is None) != (mu is None) or not _same(stated_mu or 0.0, mu or 0.0):
            yield f"states mu {stated_mu}; its stages compose to {mu}"
    yield from _share_faults(receipt)
    if not record.public:
        yield from _epsilon_faults(receipt)
    groups = [units for units in claim["attacker_right_at_most"] if units.isdecimal()]
    bounds = {units: guess_bound(receipt, int(units)) for units in groups}
    if any(not _same(claim["attacker_right_at_most"][units], bounds[units]) for units in bounds):
        yield "states other chances of an attacker than its epsilon and mu come to"


def _share_faults(receipt: Receipt) -> Iterator[str]:
    """Each share is the part of mu squared; together they are 1 at most."""
    shares = math.fsum(stage.share for stage in receipt.stages)
    if shares > 1 + _EXACT:
        yield f"its stages state shares of {shares:g} of the budget together, more than all"
    if any(stage.sampled for stage in receipt.stages):
        return  # no mu says what part of the budget samples are
    squares = math.fsum(stage.mu**2 for stage in receipt.stages)
    for stage in receipt.stages:
        if not _same(stage.share * squares, stage.mu**2 * shares):
            yield (
                f"stage {stage.stage!r} states a share of {stage.share:g}; by its mu it is "
                f"{stage.mu**2 * shares / squares if squares else 0:g}"
            )


def _epsilon_faults(receipt: Receipt) -> Iterator[str]:
    """Epsilon is that of the whole plan's mu at delta, and the slack for the noise being discrete.

    Part of delta is set aside for the noise being discrete, more of it where releases compose
    (`accounting.epsilon_of`): epsilon lies between that of all of delta and that of the rest.
    """
    size = sum(stage.size for stage in receipt.stages)
    least = discretisation_slack(size, MIN_SCALE) if receipt.runs is None else 0.0
    if receipt.slack < least:
        yield f"states a slack of {receipt.slack:g}; {size:,} numbers need {least:g}"
    if not 0 < receipt.delta < 1:
        yield f"states delta {receipt.delta:g}, which is no probability between 0 and 1"
        return
    shares = math.fsum(stage.share for stage in receipt.stages)
    mu = composed_mu(receipt)
    if mu is None:
        reached = epsilon_of(
            [*events_of(receipt.stages), Gaussian(0.0, receipt.slack)], receipt.delta
        )
        low, high = reached, reached * (1 + _SAMPLED)
    else:
        mu = mu / math.sqrt(shares) if shares > 0 else 0.0
        if receipt.runs is not None:
            high = epsilon_of([Selected(mu, receipt.runs)], receipt.delta)
            if not math.isclose(receipt.epsilon, high, rel_tol=_SOLVED):
                yield f"states epsilon {receipt.epsilon:g}; {receipt.runs:g} runs come to {high:g}"
            return
        low = epsilon_of_mu(mu, receipt.delta) + receipt.slack
        high = epsilon_of([Gaussian(mu, receipt.slack)], receipt.delta)
    if not low * (1 - _SOLVED) <= receipt.epsilon <= high * (1 + _SOLVED):
        yield (
            f"states epsilon {receipt.epsilon:g} at delta {receipt.delta:g}; its stages come to "
            f"{high:g}"
        )


def document_faults(release: Path, record: RunRecord) -> list[str]:
    """Documents that state another guarantee than ``privacy.json``, a sentence each."""
    receipt, total = record.receipt, record.total
    numbers = set() if total is None else {("epsilon", total.epsilon), ("delta", total.delta)}
    if record.unprotected:
        words = "no privacy guarantee"
    elif record.public:
        words = "No private data was used"
    else:
        words = f"epsilon {stated(receipt.epsilon)}"
        numbers |= {("epsilon", receipt.epsilon), ("delta", receipt.delta)}
    claims = {(name, stated(value)) for name, value in numbers}
    claims.add(("right at most", percent(guess_bound(receipt)).removesuffix(" %")))
    in_card = [words, f"{value(record.count)} synthetic {record.samples}"]
    in_statement: list[str] = []
    if record.guarantee == "differential privacy":
        in_card.append(f"for {markdown(record.unit)}")
        in_statement.append(f"{receipt.adjacency}: {markdown(record.neighbours)}")
        in_statement += [
            f"| {value(one.size)} | {100 * one.share:.1f} % |" for one in receipt.stages
        ]
    names = [name for name in (*record.classes, record.title, record.contact) if name]
    faults = []
    for name, phrases in (("README.md", in_card), ("PRIVACY.md", in_card + in_statement)):
        path = release / name
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        text = " ".join(text.split())
        for own in names:
            if _CLAIM.search(own) or _COUNT.search(own):
                text = text.replace(own, "")
        others = [" ".join(claim) for claim in _CLAIM.findall(text) if claim not in claims]
        counts = [one for pair in _COUNT.findall(text) for one in pair if one]
        others += [f"{one} samples" for one in counts if one != value(record.count)]
        missing = [
            phrase
            for phrase in phrases
            if not re.search(rf"(?i)(?<![\d,.]){re.escape(phrase)}(?![\w.]*\d)", text)
        ]
        if missing:
            faults.append(f"{name}: does not state what privacy.json does: {missing[0]}")
        elif others:
            faults.append(f"{name}: states what privacy.json does not: {others[0]}")
    return faults


def file_faults(release: Path, record: RunRecord) -> list[str]:
    """What the samples of a release are other than ``privacy.json`` states."""
    from understudy.data import open_source  # which `understudy runs` does without

    place, shape = release, record.image_shape
    if shape is None:
        place, shape = release / "embeddings.safetensors", (record.dim or 0,)
    try:
        source = open_source(place)
    except (InputError, RecursionError) as error:
        return [f"its samples cannot be read: {error}"]
    nameless = len(record.classes) == len(source.classes) == 1  # in files, one class has no name
    stated_classes = source.classes if nameless else record.classes
    pairs = {
        f"{record.count:,} {record.samples}": (record.count, len(source)),
        f"the shape {shape}": (shape, source.shape),
        f"the classes {', '.join(stated_classes)}": (stated_classes, source.classes),
    }
    return [
        f"privacy.json: states {words}, found {actual!r} in its files"
        for words, (claim, actual) in pairs.items()
        if claim != actual
    ]


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_EXACT, abs_tol=1e-300)
