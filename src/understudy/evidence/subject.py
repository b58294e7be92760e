"""What a pack is about: a release, a device that discloses, or a server.

`Subject` holds nothing that was computed from private records, so whatever is made of it alone may
be shared. `OwnerSide` holds the rest.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from understudy.core.errors import RunError
from understudy.core.version import understudy_version
from understudy.device.disclosures import DisclosureAttempt, device_disclosures, receipt_path
from understudy.device.home_folder import DeviceHome
from understudy.device.paired_servers import paired_servers
from understudy.evaluation.inputs import evaluated_place
from understudy.privacy.ledger.ledger import Ledger, LedgerRow
from understudy.release.checksums import CHECKSUMS
from understudy.release.documents import spending
from understudy.release.verify import verify
from understudy.report import BudgetState, Premise, RunRecord
from understudy.report.meaning import EARLIER_RUN, people_in_words
from understudy.report.verdict_table import guarantee_sentence
from understudy.run.command_words import option_words
from understudy.run.run_record import options_of

_PRIVATE_PATH = re.compile(
    r"[^\s{}\[\]:]*[/\\][^\s{}\[\]]+|(?:/|~|\.{1,2}[/\\]|[A-Za-z]:\\)[^{}\[\]]+"
)
"""What is a path of the owner's: blanks are part of it where it begins as one."""

SubjectKind = Literal["release", "device", "server"]


@dataclass(frozen=True, slots=True)
class Host:
    """A machine that data went to."""

    name: str  # its address, or its key where that is all that is known
    received: str  # what, in words, without counts
    until: str  # until when it stores it


@dataclass(frozen=True, slots=True)
class Subject:
    """What may be shared of what a pack is about."""

    kind: SubjectKind
    title: str
    date: str  # of the release, or of today; ISO 8601
    version: str
    record: RunRecord | None = None  # what a release says of itself, where that is sound
    faults: tuple[str, ...] = ()  # what `verify` finds
    signed_by: str | None = None
    digest: str = ""  # SHA-256 of the list of the release's files
    hosts: tuple[Host, ...] | None = None  # None: not known, as the run is not beside the release
    readers: tuple[str, ...] = ()  # who saw private data, and which
    stored: tuple[tuple[str, str, str], ...] = ()  # what, where, until when
    replay: tuple[str, ...] = ()  # commands

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong with it."""
        return not self.faults

    @property
    def guarantee(self) -> str:
        """The guarantee in words; nothing is claimed of a release that is not sound."""
        if self.record is None:
            return (
                "There is no guarantee: private images had a part in what left, without noise. No "
                "bound holds on what it tells; what is known is listed here."
            )
        if not self.sound:
            return f"No guarantee is claimed, as `understudy verify` finds faults: {self.faults[0]}"
        return guarantee_sentence(self.record)


@dataclass(frozen=True, slots=True)
class OwnerSide:
    """What only the owner may see.

    Attributes:
        facts: Names and values.
        words: Paths of the owner's machine, which must stand nowhere in the shared part.
        figures: Exact numbers by name, likewise.
        disclosures: Time, what, and details of each.
    """

    facts: tuple[tuple[str, str], ...] = ()
    words: tuple[str, ...] = ()
    figures: Mapping[str, float] | None = None
    disclosures: tuple[tuple[str, str, str], ...] = ()


def open_subject(folder: Path) -> tuple[Subject, OwnerSide]:
    """What a folder is: a run, a release, the home of a device, or the data of a server.

    Raises:
        RunError: It is none of them.
    """
    if (folder / "settings.json").is_file() and (folder / "photos.json").is_file():
        return _device(DeviceHome.of(folder))
    if (folder / "server.db").is_file():
        return _server(folder)
    place = evaluated_place(folder)
    if not (place / "privacy.json").is_file():
        raise RunError(
            f"{folder}: is no run or release (no privacy.json), no home of a device (no "
            "photos.json) and no folder of a server (no server.db)"
        )
    return _release(place)


def _release(place: Path) -> tuple[Subject, OwnerSide]:
    checked = verify(place)
    record = checked.record
    if record is None:
        raise RunError(f"{place}: says nothing that can be read: {checked.faults[0]}")
    checksums = place / CHECKSUMS
    digest = hashlib.sha256(checksums.read_bytes()).hexdigest() if checksums.is_file() else ""
    run_file = place.parent / "owner" / "run.json"
    hosts, owner = None, OwnerSide()
    if place.name == "release" and run_file.is_file():
        hosts, owner = _of_run(run_file)
    stated_hosts = tuple(
        Host(host, "private images, or what was said of them", "not known: ask the host")
        for host in record.disclosed_to
        if host not in {one.name for one in hosts or ()}
    )
    if stated_hosts:
        hosts = (*(hosts or ()), *stated_hosts)
    subject = Subject(
        "release",
        record.title,
        record.date,
        record.version,
        record,
        checked.faults,
        checked.signed_by or (f"not checked: {checked.unchecked}" if checked.unchecked else None),
        digest,
        hosts,
        ("The owner's machine: the private images, in the clear.",)
        if not record.public
        else ("Nobody: no private image was used.",),
        (
            ("private images", "where the owner stores them", "the owner decides"),
            ("noisy answers, settings, report", "owner/ of the run", "the owner removes it"),
            ("what was spent", "the owner's ledger", "as long as the images are used"),
            ("synthetic samples", "the release", "for good: it cannot be taken back"),
        ),
        ("understudy verify RELEASE", replay_command(record)),
    )
    return subject, owner


def replay_command(record: RunRecord) -> str:
    """The run as it is typed, with slots for paths, and for what the release does not state."""
    receipt, origins = record.receipt, {stage.origin for stage in record.receipt.stages}
    if EARLIER_RUN in origins:
        return f"understudy resample RUN --count {record.count} --out OUT"
    words = [f"understudy synthesize {_source_slot(record.premises)}", f"--method {record.method}"]
    if record.selection:
        words = ["understudy select CANDIDATES"]
        if record.unprotected or "" in origins:
            words.append("--private SOURCE")
    else:  # what was taken for public of the private dataset
        of_values = ("epsilon", "intensity")
        words += options_of([one for one in record.premises if not one.name.startswith(of_values)])
    if "" in origins:  # a run that asked something; with a release, epsilon is of both
        own = f"{receipt.epsilon:.6g}" if len(origins) == 1 else "EPSILON"
        words += [f"--epsilon {own}", f"--delta {receipt.delta:g}"]
        words += ["--tune SPACE"] if receipt.runs else []
        words += ["--unit COLUMN"] if people_in_words(receipt.unit) else []
        words += [f"--adjacency {receipt.adjacency}"]
    elif record.unprotected:
        words.append("--no-guarantee")
    for name, value in record.params.items():
        if isinstance(value, str | int | float):
            words += (
                option_words(name, value) if name == "keep" else option_words("", {name: value})
            )
    return " ".join([*words, "--out OUT"])


def _source_slot(premises: Sequence[Premise]) -> str:
    """The slot for the private dataset, with the window that was declared of its values."""
    for one in premises:
        if (one.name, one.origin) == ("intensity window", "declared"):
            return "'SOURCE?window={:.12g},{:.12g}'".format(*one.value)
    return "SOURCE"


def _of_run(run_file: Path) -> tuple[tuple[Host, ...] | None, OwnerSide]:
    """The hosts that the ledger knows of, and what is the owner's of a run."""
    from understudy.release.run_file import read_run_file

    run = read_run_file(run_file)
    at_hand = run.ledger is None or Path(run.ledger).is_file()
    rows, now = _of_ledger(run.ledger, run.dataset_id) if at_hand else ([], None)
    own = [row for row in rows if row.kind == "disclosure" and row.data.get("run") == run.run]
    hosts = tuple(
        Host(str(host), f"private images, for the {role}", "not known: ask the host")
        for row in own
        for role, host in row.data.get("details", {}).get("remote models", {}).items()
    )
    spent, when = (now, "today") if now is not None else (run.spending, "when this was made")
    facts = [
        ("private dataset", run.dataset),
        ("private records", f"{run.rows:,}"),
        ("records held out", f"{run.rows_held_out:,}"),
        ("files passed over", f"{run.skipped:,}"),
        ("id in the ledger", run.dataset_id or "none"),
        ("ledger", run.ledger or "none"),
        ("rows of the ledger about this dataset", f"{len(rows):,}"),
        ("settings", json.dumps(run.settings, ensure_ascii=False, default=str)),
    ]
    figures: dict[str, float] = {"private records": run.rows, "held out": run.rows_held_out}
    if spent is not None:
        total = "no total is set" if spent.epsilon is None else f"of a total of {spent.epsilon:g}"
        words = f"{spent.spent:.6g} at delta {spent.delta:g}, {total}"
        facts.append((f"epsilon of all releases, {when}", words))
        facts.append((f"disclosures without noise, {when}", f"{spent.disclosures:,}"))
        figures["epsilon of all releases"] = spent.spent
    names = [run.dataset, run.ledger or "", *map(str, run.settings.values())]
    paths = tuple(name for name in names if _PRIVATE_PATH.fullmatch(name))
    owner = OwnerSide(tuple(facts), paths, figures, tuple(map(_disclosed, own)))
    return hosts if at_hand else None, owner


def _of_ledger(
    address: str | None, dataset: str | None
) -> tuple[list[LedgerRow], BudgetState | None]:
    """The rows about a dataset, and how it stands; none where nothing private was asked."""
    if address is None or dataset is None:
        return [], None
    with Ledger(address, make=False) as book:
        rows = list(book.rows(dataset))
        return rows, spending(book, dataset) if rows else None


def _disclosed(row: LedgerRow) -> tuple[str, str, str]:
    return row.time, str(row.data.get("what", "")), json.dumps(row.data.get("details", {}))


def _device(home: DeviceHome) -> tuple[Subject, OwnerSide]:
    """What left a device: to whom and at which level is public, how much of what is the owner's."""
    names = {server.public_key: server.name for server in paired_servers(home)}
    attempts = device_disclosures(home)
    hosts = tuple(
        Host(
            f"{names.get(one.server, 'a server')}, key {one.server[:16]}",
            _levels(one),
            _until(home, one),
        )
        for one in attempts
    )
    photos = home.read("photos.json", [])
    figures = {"photos": float(len(photos))}
    disclosures = []
    for one in attempts:
        for part in one.details["parts"]:
            for name, value in part.get("measured", {}).items():
                values = value if isinstance(value, list) else [value]
                figures |= {
                    f"{part['noun']}: {name} {place}": float(one)
                    for place, one in enumerate(values)
                    if isinstance(one, int | float)
                }
            disclosures.append((one.time, one.code, json.dumps(part, ensure_ascii=False)))
    settings = home.settings
    facts = (("photos", f"{len(photos):,}"), ("ledger", settings.ledger or "the owner's own"),
             ("id in the ledger", settings.dataset), ("device", settings.device))  # fmt: skip
    owner = OwnerSide(facts, (), figures, tuple(disclosures))
    subject = Subject(
        "device",
        "Sanitised references of a device",
        datetime.now(UTC).date().isoformat(),
        understudy_version(),
        hosts=hosts,
        readers=(
            "The device: the photos, in the clear.",
            "Each server below: the sanitised parts that were agreed to, never a photo.",
        ),
        stored=(
            ("photos, previews, models", "the home of the device", "the owner removes it"),
            ("what was disclosed", "the owner's ledger", "for good"),
            *_SERVER_STORES,
        ),
        replay=("understudy device history", "understudy ledger verify"),
    )
    return subject, owner


def _levels(attempt: DisclosureAttempt) -> str:
    """What kinds of messages at which level of disclosure, without nouns and counts."""
    kinds = {f"L{part['level']} {part['kind']}" for part in attempt.details["parts"]}
    return f"{', '.join(sorted(kinds)) or 'a request alone'}; consent {attempt.code[:8]}"


def _until(home: DeviceHome, attempt: DisclosureAttempt) -> str:
    if attempt.deleted is not None:
        proof = "with" if receipt_path(home, attempt).is_file() else "without"
        return f"deleted {attempt.deleted[:16]}, {proof} a signed receipt at hand"
    if attempt.withdrawn is not None:
        return f"consent withdrawn {attempt.withdrawn[:16]}"
    return "24 hours after it was sent, at most"


_SERVER_STORES = (
    ("items, results, synthetic images", "sealed files of the server", "the model is there"),
    ("request, model", "sealed files of the server", "deletion, or 24 hours"),
    ("ids, digests, counts, times, receipts", "database of the server", "31 days after submission"),
)


def _server(folder: Path) -> tuple[Subject, OwnerSide]:
    """A server's jobs: their states and times. It holds no private record and no noun."""
    from understudy.server.serve import ServerOptions  # needs the extra of the server

    store = ServerOptions(folder).store()
    try:
        jobs, devices = store.jobs(), store.devices()
    finally:
        store.close()
    hosts = tuple(
        Host(
            f"this server, job {job.id[:8]}",
            f"sanitised parts of device {job.device[:8]}: {job.state}",
            f"deleted ({job.reason}), receipt {'stored' if job.receipt else 'expired'}"
            if job.state == "deleted"
            else f"{datetime.fromtimestamp(job.expires, UTC):%Y-%m-%d %H:%M} UTC at the latest",
        )
        for job in jobs
    )
    subject = Subject(
        "server",
        f"Jobs of a server: {len(jobs)} of {len(devices)} devices",
        datetime.now(UTC).date().isoformat(),
        understudy_version(),
        hosts=hosts,
        readers=("This server: sanitised parts, sealed by a key of each job; never a photo.",),
        stored=_SERVER_STORES,
        replay=("understudy serve devices",),
    )
    return subject, OwnerSide()
