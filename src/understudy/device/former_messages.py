"""What servers know of the photos from before: measured together with what would be sent next."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from understudy.core.errors import RunError, count_words
from understudy.core.types import Images, Masks
from understudy.device.disclosures import (
    DisclosureAttempt,
    device_disclosures,
    device_ledger_rows,
    lines_of_other_folders,
)
from understudy.device.home_folder import DeviceHome
from understudy.device.paired_servers import paired_servers, server_named
from understudy.device.parcel import drawn_item, parcel_report, stored_parcel
from understudy.methods.sanitize.wire import accept_item


@dataclass(frozen=True, slots=True)
class FormerMessages:
    """What was disclosed before. Deleted or not: the servers did know it.

    Attributes:
        images: Messages of each photo, by its id, drawn from their bytes; each different one once.
        unreadable: Disclosures whose bytes are not in the outbox any more.
        holes: Of each disclosure of backgrounds: ids of its photos, and (side, side) bool.
    """

    attempts: Sequence[DisclosureAttempt]
    images: Mapping[str, list[Images]]
    unreadable: int
    holes: Sequence[tuple[frozenset[str], Masks]]

    def hole(self, ids: Collection[str], side: int) -> Masks:
        """(side, side) bool: what was a hole where the background of any of these photos left."""
        masks = [mask for photos, mask in self.holes if photos & set(ids)]
        return np.asarray(np.any([np.zeros((side, side), dtype=bool), *masks], axis=0))

    def measured(self, number: int, noun: str, name: str) -> list[float] | None:
        """The largest figure of this name that was recorded of a part, with its interval.

        A background is the same part whatever it was called, and an object if its last word is.
        """
        parts = [part for one in self.attempts for part in one.details["parts"]]
        kind = _kind(number, noun)
        figures: list[list[float]] = [
            part["measured"][name]
            for part in parts
            if _kind(part["part"], part["noun"]) == kind and name in part["measured"]
        ]
        return max(figures, default=None, key=lambda one: one[0])


def _kind(number: int, noun: str) -> str:
    """The last word of an object's noun; "" of the background, part 0."""
    return noun.split()[-1] if number else ""


def former_messages(home: DeviceHome, attempts: Sequence[DisclosureAttempt]) -> FormerMessages:
    """Read what was disclosed from the outbox."""
    images: dict[str, list[Images]] = {}
    unreadable, holes = 0, list[tuple[frozenset[str], Masks]]()
    for digest in dict.fromkeys(one.parcel for one in attempts):
        report = parcel_report(home, digest)
        photos: dict[str, str] = report.get("photos", {})
        if report.get("hole") is not None:
            holes.append((frozenset(photos.values()), _unpacked(report["hole"])))
        try:
            parcel = stored_parcel(home, digest)
        except RunError:
            unreadable += 1
            continue
        if len(photos) < len(parcel.items):
            unreadable += 1
        for item_digest, photo in photos.items():
            item = accept_item(parcel.submission, item_digest, parcel.items[item_digest])
            skeleton = parcel.request.parts[item.part].skeleton
            _add(images.setdefault(photo, []), drawn_item(item, skeleton))
    return FormerMessages(attempts, images, unreadable, holes)


def packed_mask(mask: Masks) -> str:
    """A square mask as hexadecimal digits, for a report."""
    return np.packbits(mask).tobytes().hex()


def _unpacked(digits: str) -> Masks:
    bits = np.unpackbits(np.frombuffer(bytes.fromhex(digits), dtype=np.uint8)).astype(bool)
    side = math.isqrt(bits.size)
    return bits.reshape(side, side)


class Recipient:
    """A server, and what it and all others know from before.

    ``name``: None for the only server, or for none where none is paired.

    Attributes:
        server: The server; None where none is paired.
    """

    def __init__(self, home: DeviceHome, name: str | None) -> None:
        paired = name is not None or bool(paired_servers(home))
        self.server = server_named(home, name) if paired else None
        rows = device_ledger_rows(home)
        attempts = device_disclosures(home, rows)
        key = None if self.server is None else self.server.public_key
        self._elsewhere = lines_of_other_folders(home, rows)
        self.own = former_messages(home, [one for one in attempts if one.server == key])
        self.all = former_messages(home, attempts)

    @property
    def others_know(self) -> bool:
        """Whether other servers have anything that this one has not."""
        return len(self.all.attempts) > len(self.own.attempts)

    def lines(self) -> list[str]:
        """What was disclosed before."""
        lines = ["", *self._elsewhere] if self._elsewhere else []
        if self.all.attempts:
            own, count = len(self.own.attempts), len(self.all.attempts)
            whom = "to this server" if self.server is not None else "to a paired server"
            lines += [
                "",
                f"Before this, {count_words(own, 'disclosure')} {whom} and "
                f"{count - own} to others: understudy device history",
            ]
        if self.all.unreadable:
            lines.append(
                f"  {self.all.unreadable} of them cannot be read in the outbox any more, and are "
                "in no figure; what their backgrounds hid may be seen in another, where the outbox "
                "has lost it"
            )
        return lines


def joint_layers(
    ids: Sequence[str], shape: tuple[int, ...], *sources: Mapping[str, Sequence[Images]]
) -> tuple[Images, ...]:
    """All messages of each photo, as images of all photos laid over one another.

    `sources`: Messages by the id of their photo; the same one twice counts once.

    Returns:
        Each (n, *shape) uint8, black where a photo has fewer messages.
    """
    messages: list[list[Images]] = []
    for photo in ids:
        different: list[Images] = []
        for source in sources:
            for message in source.get(photo, ()):
                _add(different, message)
        messages.append(different)
    layers = []
    for number in range(max(map(len, messages), default=0)):
        layer = np.zeros((len(ids), *shape), dtype=np.uint8)
        for image, different in zip(layer, messages, strict=True):
            if number < len(different):
                image[:] = different[number]
        layers.append(layer)
    return tuple(layers)


def _add(messages: list[Images], message: Images) -> None:
    if not any(np.array_equal(message, one) for one in messages):
        messages.append(message)
