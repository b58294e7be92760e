"""What left this device, by the ledger's rows: a row for each parcel, server and attempt.

The rows are known by the device's id, not by the dataset's: that one changes when photos are added.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.device.home_folder import DeviceHome
from understudy.device.paired_servers import SERVER_DIGITS
from understudy.device.parcel import OUTBOX, consent_digest
from understudy.methods.sanitize.wire import JobState
from understudy.privacy.ledger.ledger import LedgerRow

_WHOLE = ("queued", "running", "done", "failed", "deleted")


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


def device_disclosures(home: DeviceHome) -> list[DisclosureAttempt]:
    """Everything that this device disclosed, in order."""
    settings = home.settings
    with settings.open_ledger() as ledger:
        rows = list(ledger.rows())
    ends = {(row.kind, row.data.get("run")): row.time for row in rows}
    attempts = []
    for row in rows:
        details = row.data.get("details", {})
        if row.kind == "disclosure" and "server" in details:
            # Rows of earlier versions name no device.
            own = details.get("device", settings.device) == settings.device
            if own and ("device" in details or row.dataset == settings.dataset):
                attempts.append(_attempt(row, ends))
    return attempts


def _attempt(row: LedgerRow, ends: Mapping[tuple[str, Any], str]) -> DisclosureAttempt:
    details, run = row.data["details"], row.data["run"]
    return DisclosureAttempt(
        run,
        row.dataset,
        row.time,
        details.get("parcel", run),
        details["server"],
        details.get("attempt", 1),
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
    known = state.model_dump(mode="json", exclude={"missing"})
    home.write(_job_name(attempt), {**known, "missing": len(state.missing), "token": token})


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
