"""What left this device, by the ledger's rows: a row for each parcel, server and attempt.

The rows are known by the device's id, not by the dataset's: that one changes when photos are added.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.core.errors import RunError, count_words
from understudy.device.home_folder import DeviceHome, write_file
from understudy.device.paired_servers import SERVER_DIGITS, paired_servers
from understudy.device.parcel import CODE_DIGITS, OUTBOX, consent_digest
from understudy.device.photo_store import PhotoRecords, stored_photos
from understudy.methods.sanitize.sanitizers import EVEN_SANITIZERS, Sanitizer
from understudy.methods.sanitize.wire import JobState
from understudy.privacy.ledger.fingerprint import RecordDigests
from understudy.privacy.ledger.ledger import LedgerRow

_WHOLE = ("queued", "running", "done", "failed", "deleted")
_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class DisclosureAttempt:
    """A parcel that was sent to a server, or was about to be.

    Attributes:
        dataset: Id of the photos in the ledger when it was recorded.
        number: 1, and 1 more each time that the same parcel was sent to the server anew.
        details: What the row says: every part, digest and figure.
        deletion_request: When the server was about to be asked to delete it; None: it never was.
        deleted: When the server's receipt was recorded; None where there is none.
        withdrawn: When consent was withdrawn before all of it had left; None where it was not.
    """

    run: str
    dataset: str
    time: str
    parcel: str
    server: str
    number: int
    details: Mapping[str, Any]
    deletion_request: str | None
    deleted: str | None
    withdrawn: str | None

    @property
    def code(self) -> str:
        """The digest that was agreed to: of parcel and server."""
        return consent_digest(self.parcel, self.server)

    @property
    def is_open(self) -> bool:
        """Whether it may still be at the server, and more of it may follow."""
        return self.deleted is None and self.withdrawn is None


def attempt_run(parcel: str, server: str, number: int) -> str:
    """What the ledger knows an attempt by."""
    return f"{parcel}-{server[:SERVER_DIGITS]}-{number}"


def device_ledger_rows(home: DeviceHome) -> list[LedgerRow]:
    """All rows of the ledger that the device's disclosures stand in."""
    with home.settings.open_ledger() as ledger:
        return list(ledger.rows())


def device_disclosures(
    home: DeviceHome, rows: Sequence[LedgerRow] | None = None
) -> list[DisclosureAttempt]:
    """Everything that this device disclosed, in order.

    ``rows``: of the ledger, where they were read already.
    """
    own = home.settings.device
    rows = device_ledger_rows(home) if rows is None else rows
    ends = {(row.kind, row.data.get("run")): row.time for row in rows}
    return [
        _attempt(row, ends)
        for row in rows
        if row.kind == "disclosure" and _details(row).get("device") == own
    ]


def noise_key(home: DeviceHome, sanitizers: Iterable[Sanitizer]) -> bytes:
    """The secret that the noise of photos is derived from, made before anything is sent.

    For sanitizers that draw nothing at random it is any secret, where that one is lost.

    Raises:
        RunError: It was damaged, or it was removed and something was sent.
    """
    even = all(isinstance(one, EVEN_SANITIZERS) for one in sanitizers)
    path = home.path("noise.key")
    with home.locked():
        if not path.exists():
            sent = home.read("sent.json", []) or any(home.path(OUTBOX).glob("*/jobs/*"))
            if sent or device_disclosures(home):
                if even:
                    return secrets.token_bytes(_KEY_BYTES)
                raise RunError(
                    f"{path} is missing, and noise that is drawn anew could be averaged with "
                    "what was sent: choose levels without noise, restore it from a copy of the "
                    "folder, or begin another one (--home), whose previews say that this one "
                    "disclosed something"
                )
            write_file(path, secrets.token_bytes(_KEY_BYTES))
        key = path.read_bytes()
    if len(key) != _KEY_BYTES and not even:
        raise RunError(f"{path} is damaged: restore it from a copy of the folder")
    return key


def lines_of_other_folders(home: DeviceHome, rows: Sequence[LedgerRow]) -> list[str]:
    """What is said of disclosures of the same photos by another folder; none where none is known.

    That folder has the bytes that left, the holes of its backgrounds and the key of its noise.
    """
    settings = home.settings
    elsewhere = [
        row.dataset
        for row in rows
        if row.kind == "disclosure"
        and "server" in (details := _details(row))
        and details.get("device") != settings.device
    ]
    if not elsewhere:
        return []
    photos = PhotoRecords(home, stored_photos(home), settings.side)
    with settings.open_ledger() as ledger:
        shared = ledger.shared_records(RecordDigests.of(photos, ledger.key))
    datasets = {settings.dataset, *(one.dataset.id for one in shared)}
    others = sum(dataset in datasets for dataset in elsewhere)
    if not others:
        return []
    return [
        f"{count_words(others, 'disclosure')} by another folder (--home) that has photos of these: "
        "no figure here counts what left there, its noise and what it hid are others, and together "
        "they tell more. Go on with that folder"
    ]


def _details(row: LedgerRow) -> dict[str, Any]:
    details: dict[str, Any] = row.data.get("details", {})
    return details


def _attempt(row: LedgerRow, ends: Mapping[tuple[str, Any], str]) -> DisclosureAttempt:
    details, run = row.data["details"], row.data["run"]
    return DisclosureAttempt(
        run,
        row.dataset,
        row.time,
        details["parcel"],
        details["server"],
        details["attempt"],
        details,
        ends.get(("deletion request", run)),
        ends.get(("deletion", run)),
        ends.get(("withdrawal", run)),
    )


def job_of(home: DeviceHome, attempt: DisclosureAttempt) -> dict[str, Any] | None:
    """What the server answered last, and the token that it was asked by; None: it never did."""
    job: dict[str, Any] = home.read(_job_name(attempt), {})
    return job if "job" in job else None


def token_of(home: DeviceHome, attempt: DisclosureAttempt) -> str | None:
    """The token that it was sent with; None: nothing of it was."""
    job: dict[str, Any] = home.read(_job_name(attempt), {})
    return job.get("token")


def note_token(home: DeviceHome, attempt: DisclosureAttempt, token: str) -> None:
    """Store what it is about to be sent with."""
    home.write(_job_name(attempt), {"token": token})


def note_job(home: DeviceHome, attempt: DisclosureAttempt, state: JobState, token: str) -> None:
    """Store what the server answered."""
    facts = state.model_dump(mode="json", exclude={"missing"})
    home.write(_job_name(attempt), {**facts, "missing": len(state.missing), "token": token})


def note_deleted(home: DeviceHome, attempt: DisclosureAttempt) -> None:
    """Store that the job is deleted."""
    home.write(_job_name(attempt), {**(job_of(home, attempt) or {}), "state": "deleted"})


def receipt_path(home: DeviceHome, attempt: DisclosureAttempt) -> Path:
    """Where the server's signed receipt of a deletion lies."""
    return home.path(_job_name(attempt)).with_suffix(".receipt")


def is_whole(home: DeviceHome, attempt: DisclosureAttempt) -> bool:
    """Whether everything of it is known to have arrived."""
    job = job_of(home, attempt)
    return job is not None and job["state"] in _WHOLE


def _job_name(attempt: DisclosureAttempt) -> str:
    return f"{OUTBOX}/{attempt.parcel}/jobs/{attempt.server[:SERVER_DIGITS]}-{attempt.number}.json"


def item_digests(attempt: DisclosureAttempt) -> list[str]:
    """The digests of all of its items."""
    parts = attempt.details["parts"]
    return [digest for part in parts for digest in part["digests"]]


def device_history(home: DeviceHome) -> list[str]:
    """Lines for the owner: every disclosure in order, then every model.

    The disclosures are those of the ledger, not of the outbox, of this device whatever photos it
    has now: what was recorded counts, whether or not it was sent to its end.
    """
    from understudy.device.installed_models import model_index  # ONNX, which is an extra

    rows = device_ledger_rows(home)
    disclosures = device_disclosures(home, rows)
    names = {server.public_key: f"{server.name} " for server in paired_servers(home)}
    lines = []
    for attempt in disclosures:
        lines += _disclosure_lines(home, attempt, names.get(attempt.server, ""))
    total = len(disclosures)
    lines.append(f"{count_words(total, 'disclosure')} in the ledger; no epsilon covers any")
    lines += lines_of_other_folders(home, rows)
    index = model_index(home)
    for model in index.models:
        mark = "* " if model.digest in index.installed[-1:] else "  "
        figure = "not measured"
        if model.accuracy is not None:
            figure = f"right in {model.accuracy:.1%} of {model.labelled} labelled photos"
        lines.append(f"{mark}{model.kind} of {', '.join(model.classes)}: {model.origin}; {figure}")
    return lines


def _disclosure_lines(home: DeviceHome, attempt: DisclosureAttempt, name: str) -> list[str]:
    code, key = attempt.code[:CODE_DIGITS], attempt.server[:SERVER_DIGITS]
    again = "" if attempt.number == 1 else f"  attempt {attempt.number}"
    lines = [f"{attempt.time[:16]}  {code}  to {name}{key}{again}  {_state(home, attempt)}"]
    for part in attempt.details["parts"]:
        measured = part["measured"].get("information")
        figure = "" if measured is None else f", {measured[0]:.1%} of what its pixels hold"
        lines.append(
            f"    {part['noun']}: L{part['level']}, {part['kind']}, {part['items']} items, "
            f"{part['bytes']:,} bytes{figure}"
        )
    return lines


def _state(home: DeviceHome, attempt: DisclosureAttempt) -> str:
    job, total = job_of(home, attempt), len(item_digests(attempt))
    arrived = f"{0 if job is None else total - job['missing']} of {total} items are known to be"
    if attempt.deleted is not None:
        return f"deleted by the server, {attempt.deleted[:16]}"
    if attempt.deletion_request is not None:
        return f"to be deleted, {attempt.deletion_request[:16]}; the server has signed no receipt"
    if attempt.withdrawn is not None:
        return f"withdrawn, {attempt.withdrawn[:16]}; {arrived} there"
    if job is None or not is_whole(home, attempt):
        return f"not sent to its end; {arrived} there"
    return str(job["state"])
