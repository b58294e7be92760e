"""What left this device and what came back, told from the ledger's rows and the models' index."""

from __future__ import annotations

from understudy.core.errors import count_words
from understudy.device.disclosures import (
    DisclosureAttempt,
    device_disclosures,
    is_whole,
    item_digests,
    job_of,
)
from understudy.device.home_folder import DeviceHome
from understudy.device.installed_models import model_index
from understudy.device.paired_servers import SERVER_DIGITS, paired_servers
from understudy.device.parcel import CODE_DIGITS


def device_history(home: DeviceHome) -> list[str]:
    """Lines for the owner: every disclosure in order, then every model.

    The disclosures are those of the ledger, not of the outbox, of this device whatever photos it
    has now: what was recorded counts, whether or not it was sent to its end.
    """
    disclosures = device_disclosures(home)
    names = {server.public_key: f"{server.name} " for server in paired_servers(home)}
    lines = []
    for attempt in disclosures:
        lines += _disclosure_lines(home, attempt, names.get(attempt.server, ""))
    total = len(disclosures)
    lines.append(f"{count_words(total, 'disclosure')} in the ledger; no epsilon covers any")
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
