"""What left this device and what came back, told from the ledger's rows and the models' index."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from understudy.device.home_folder import DeviceHome
from understudy.device.installed_models import model_index
from understudy.device.parcel import CODE_DIGITS, OUTBOX
from understudy.privacy.ledger.ledger import LedgerRow


def device_history(home: DeviceHome) -> list[str]:
    """Lines for the owner: every disclosure in order, then every model.

    The disclosures are those of the ledger, not of the outbox: what was recorded counts, whether
    or not it was sent to its end.
    """
    settings = home.settings
    with settings.open_ledger() as ledger:
        rows = list(ledger.rows(settings.dataset))
    deleted = {row.data["run"]: row for row in rows if row.kind == "deletion"}
    lines = []
    for row in rows:
        if row.kind == "disclosure" and "server" in row.data.get("details", {}):
            lines += _disclosure_lines(home, row, deleted.get(row.data["run"]))
    total = sum(row.kind == "disclosure" for row in rows)
    lines.append(
        f"{total} disclosure{'' if total == 1 else 's'} in the ledger; no epsilon covers any"
    )
    index = model_index(home)
    for model in index.models:
        mark = "* " if model.digest in index.installed[-1:] else "  "
        figure = "not measured"
        if model.accuracy is not None:
            figure = f"right in {model.accuracy:.1%} of {model.labelled} labelled photos"
        lines.append(f"{mark}{model.kind} of {', '.join(model.classes)}: {model.origin}; {figure}")
    return lines


def _disclosure_lines(home: DeviceHome, row: LedgerRow, deletion: LedgerRow | None) -> list[str]:
    details, run = row.data["details"], row.data["run"]
    job = home.read(f"{OUTBOX}/{run}/job.json", None)
    state = "not sent to its end" if job is None else job["state"]
    if deletion is not None:
        state = f"deleted by the server, {deletion.time[:16]}"
    lines = [f"{row.time[:16]}  {run[:CODE_DIGITS]}  to {details['server'][:16]}  {state}"]
    lines += [f"    {line}" for line in _part_lines(details)]
    return lines


def _part_lines(details: Mapping[str, Any]) -> Iterator[str]:
    for part in details["parts"]:
        measured = part["measured"].get("information")
        figure = "" if measured is None else f", {measured[0]:.1%} of what its pixels hold"
        yield (
            f"{part['noun']}: L{part['level']}, {part['kind']}, {part['items']} items, "
            f"{part['bytes']:,} bytes{figure}"
        )
