"""What is sent of a request, as bytes, before anybody agreed to it: packed, stored, decoded, drawn.

The preview is drawn from what `decode_item` gives of the very bytes that would be sent, and the
outbox sends the same files. The digest of the submission covers request, nonce and the digest of
every item: who agrees to it agrees to these bytes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.core.errors import RunError, WireError
from understudy.core.types import Images
from understudy.device.home_folder import DeviceHome, write_file
from understudy.methods.sanitize.wire import (
    JobRequest,
    JobSubmission,
    accept_item,
    decode_message,
    encode_message,
    manifest_of,
    submission_digest,
)
from understudy.methods.sanitize.wire_items import (
    SKELETONS,
    BackgroundItem,
    BoxItem,
    EdgesItem,
    Item,
    PoseItem,
    TargetItem,
)
from understudy.steps.hints import skeleton

OUTBOX = "outbox"
CODE_DIGITS = 8
"""Digits of a consent's digest that its owner types at least."""


@dataclass(frozen=True, slots=True)
class Parcel:
    """A submission and its items, encoded.

    Attributes:
        items: Encoded items by their digests, in the order in which they are sent.
    """

    submission: JobSubmission
    items: Mapping[str, bytes]

    @property
    def digest(self) -> str:
        """Of the submission: what consent, ledger, job and receipt are bound to."""
        return submission_digest(self.submission)

    @property
    def request(self) -> JobRequest:
        """What is asked for."""
        return self.submission.request

    def decoded(self, part: int) -> tuple[Item, ...]:
        """The items of a part, read back from their bytes."""
        digests = self.submission.manifest.of(part)
        return tuple(accept_item(self.submission, one, self.items[one]) for one in digests)

    def part_bytes(self, part: int) -> int:
        """Bytes of a part's items, headers included."""
        return sum(len(self.items[digest]) for digest in self.submission.manifest.of(part))


def pack(request: JobRequest, items: Mapping[int, Sequence[Item]]) -> Parcel:
    """A parcel with a fresh nonce.

    ``items`` of each part above L0 are as many as the request states references.

    Raises:
        WireError: The items are others than the request needs.
    """
    manifest, encoded = manifest_of(items)
    try:
        submission = JobSubmission(request=request, manifest=manifest)
    except ValueError as error:
        raise WireError(f"these items do not fit the request: {error}") from None
    return Parcel(submission, encoded)


def store_parcel(home: DeviceHome, parcel: Parcel, report: Mapping[str, Any]) -> None:
    """Write a parcel to the outbox, with what its owner is shown of it. Nothing is sent."""
    folder = home.path(OUTBOX, parcel.digest)
    for digest, data in parcel.items.items():
        write_file(folder / "items" / digest, data)
    write_file(folder / "report.json", json.dumps(dict(report), ensure_ascii=False).encode())
    write_file(folder / "submission", encode_message(parcel.submission))


def stored_parcel(home: DeviceHome, digest: str) -> Parcel:
    """A parcel of the outbox, every byte of it compared with the digest.

    Raises:
        RunError: There is none, or a byte of it was changed.
    """
    folder = home.path(OUTBOX, digest)
    try:
        submission = decode_message(JobSubmission, (folder / "submission").read_bytes())
        items = {one: (folder / "items" / one).read_bytes() for one in submission.manifest.digests}
        for one, data in items.items():
            accept_item(submission, one, data)
    except (FileNotFoundError, WireError) as error:
        raise RunError(f"{folder} is not whole: understudy device preview again") from error
    parcel = Parcel(submission, items)
    if parcel.digest != digest:
        raise RunError(f"{folder} was changed after it was shown: understudy device preview again")
    return parcel


def parcel_report(home: DeviceHome, digest: str) -> dict[str, Any]:
    """What the owner was shown of a parcel: the figures by part."""
    report: dict[str, Any] = home.read(f"{OUTBOX}/{digest}/report.json", {})
    return report


def stored_digests(home: DeviceHome) -> list[str]:
    """The digests of all parcels."""
    return sorted(path.parent.name for path in home.path(OUTBOX).glob("*/submission"))


def consent_digest(parcel: str, server: str) -> str:
    """What its owner agrees to: that this parcel goes to the server of this key, and to no other.

    Its beginning is the code that a preview shows.
    """
    text = f"{parcel}\0{server}".encode("ascii")
    return hashlib.blake2b(text, digest_size=32, person=b"understudy-agree").hexdigest()


def drawn_item(item: Item, skeleton_name: str | None = None) -> Images:
    """(side, side, 3) uint8: an item as the server sees it, black where nothing was sent."""
    side = item.side
    canvas = np.zeros((side, side, 3), dtype=np.uint8)
    if isinstance(item, BackgroundItem):
        return item.image()
    if isinstance(item, TargetItem):
        return np.where(item.mask()[..., None], item.image(), np.uint8(0))
    if isinstance(item, EdgesItem):
        canvas[item.edges()] = 255
    elif isinstance(item, BoxItem):
        left, top, right, bottom = item.box().astype(np.int64)
        canvas[top:bottom, left:right] = 255
    elif isinstance(item, PoseItem):
        names = SKELETONS[str(skeleton_name)]
        return skeleton(item.points()[: len(names)], names, str(skeleton_name), (side, side))
    return canvas
