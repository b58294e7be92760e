"""Consent: to one parcel, for one server, until it is withdrawn or anything it rests on changes.

At most one preview can be agreed to, the last one. Another preview, another request, another search
for the objects and `understudy device withdraw` void it, whether or not it was agreed to: nothing
more of it leaves. What had left stands in the ledger.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from understudy.core.errors import RunError
from understudy.device.disclosures import DisclosureAttempt, device_disclosures, is_whole
from understudy.device.home_folder import DeviceHome
from understudy.device.paired_servers import PairedServer, paired_servers, server_named
from understudy.device.parcel import (
    CODE_DIGITS,
    OUTBOX,
    Parcel,
    consent_digest,
    store_parcel,
    stored_digests,
)

_OFFER, _AGREED = "offer.json", "sent.json"


@dataclass(frozen=True, slots=True)
class Agreement:
    """A parcel that was agreed to, and the public key of the server that it was for."""

    parcel: str
    server: str


@dataclass(frozen=True, slots=True)
class Offer:
    """The preview that may be agreed to; without a server it is for the first it is sent to."""

    parcel: str
    server: str | None


def standing_offer(home: DeviceHome) -> Offer | None:
    """The preview that may be agreed to; None where none was made since the last change."""
    content = home.read(_OFFER, None)
    return None if content is None else Offer(**content)


def agreements(home: DeviceHome) -> list[Agreement]:
    """What was agreed to, in order, whether or not it was sent to its end."""
    return [Agreement(**one) for one in home.read(_AGREED, [])]


def offer_basis(home: DeviceHome) -> str:
    """Digest of what a preview rests on: the request, the levels, the objects, photos left out."""
    digest = hashlib.blake2b(digest_size=16)
    for name in ("request.json", "segments.npz"):
        path = home.path(name)
        data = path.read_bytes() if path.exists() else b""
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def offer_parcel(
    home: DeviceHome,
    parcel: Parcel,
    report: Mapping[str, Any],
    server: PairedServer | None,
    basis: str,
) -> None:
    """Store a parcel that may be agreed to from now on, instead of the one before.

    ``basis`` is what `offer_basis` was when the preview was begun.

    Raises:
        RunError: What it rests on has changed meanwhile.
    """
    with home.locked():
        void_offer(home)
        if offer_basis(home) != basis:
            raise RunError(
                "request, objects or photos were changed while this was made: understudy device "
                "preview again"
            )
        store_parcel(home, parcel, report)
        key = None if server is None else server.public_key
        home.write(_OFFER, {"parcel": parcel.digest, "server": key})


def void_offer(home: DeviceHome) -> tuple[Offer | None, list[DisclosureAttempt]]:
    """Let nothing more leave of what was previewed, and remove what was never agreed to.

    Returns:
        The preview, and what had left in part: the ledger has a row now that says it is withdrawn.
    """
    with home.locked():
        offer = standing_offer(home)
        home.path(_OFFER).unlink(missing_ok=True)
        parcels = {one.parcel for one in agreements(home)}
        for digest in stored_digests(home):
            if digest not in parcels:
                shutil.rmtree(home.path(OUTBOX, digest))
        if not parcels:
            return offer, []
        attempts = device_disclosures(home)
        withdrawals = [one for one in attempts if one.is_open and not is_whole(home, one)]
        with home.settings.open_ledger() as ledger:
            for attempt in withdrawals:
                ledger.record_end("withdrawal", attempt.dataset, attempt.run)
        return offer, withdrawals


def recipient(home: DeviceHome, parcel: str, name: str | None) -> PairedServer:
    """The server that a parcel is sent to.

    `name`: The server, as its owner named it; None: the one that the preview was for.

    Raises:
        RunError: The parcel is not what was previewed last, or it was previewed for another server.
    """
    offer = standing_offer(home)
    if offer is None or offer.parcel != parcel:
        raise RunError(
            "this is not what was previewed last, or something has changed since (a request, a "
            "search, a photo left out, a withdrawal), which voids consent: understudy device "
            "preview again"
        )
    if name is None and offer.server is not None:
        servers = [one for one in paired_servers(home) if one.public_key == offer.server]
        if servers:
            return servers[0]
    server = server_named(home, name)
    if offer.server not in (None, server.public_key):
        raise RunError(
            f"this was previewed for another server than {server.described()}, and consent holds "
            f"for one server: understudy device preview --server {server.name}"
        )
    return server


def agree(home: DeviceHome, parcel: str, server: PairedServer, consent: str) -> None:
    """Note that its owner agreed; the parcel is for this server from then on.

    Raises:
        RunError: It is the code of something else.
    """
    digest = consent_digest(parcel, server.public_key)
    if len(consent) < CODE_DIGITS or not digest.startswith(consent.lower()):
        raise RunError(
            f"consent was given to {consent!r}, and this is {digest[:CODE_DIGITS]}, for "
            f"{server.described()}: look again"
        )
    agreement = Agreement(parcel, server.public_key)
    earlier = agreements(home)
    if agreement not in earlier:
        values = [{"parcel": one.parcel, "server": one.server} for one in (*earlier, agreement)]
        home.write(_AGREED, values)
    home.write(_OFFER, {"parcel": parcel, "server": server.public_key})


def agreement_of_code(home: DeviceHome, code: str | None) -> Agreement:
    """What a typed beginning of a code names, of what was agreed to or may be; None: the last.

    Raises:
        RunError: None or several begin like that, or too few digits.
    """
    candidates = agreements(home)
    if code is None:
        if not candidates:
            raise RunError("nothing was sent yet: understudy device send")
        return candidates[-1]
    offer = standing_offer(home)
    if offer is not None:
        keys = [one.public_key for one in paired_servers(home)]
        candidates += [Agreement(offer.parcel, key) for key in keys if offer.server in (None, key)]
    matches = {
        one for one in candidates if consent_digest(one.parcel, one.server).startswith(code.lower())
    }
    if len(code) < CODE_DIGITS or len(matches) != 1:
        raise RunError(
            f"{code!r} is not the code of what was previewed: copy its {CODE_DIGITS} digits or "
            "more from the preview. What was previewed before, or for another server, has another "
            "code than what is now"
        )
    return matches.pop()
