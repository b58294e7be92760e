"""What would leave, to be looked at before anybody agrees: a sheet, a page of text, a code.

The sheet is drawn from the bytes that would be sent. The text says what is in them, how much of it,
what a curious server would learn from it, and whether more would help. The code is the beginning
of a digest of all of it: only who has seen this can agree to this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError, InputError, count_words
from understudy.core.ports import Detector, Segmenter
from understudy.core.types import Images
from understudy.data import open_source
from understudy.device.consent import offer_basis, offer_parcel, void_offer
from understudy.device.disclosures import noise_key
from understudy.device.exposure import (
    ALLOWED_ABOVE_CHANCE,
    PartExposure,
    PublicHomes,
    disclosed_part,
    exposures,
    public_homes,
    words_similarity,
)
from understudy.device.former_messages import Recipient, joint_layers, packed_mask
from understudy.device.home_folder import DeviceHome, write_file
from understudy.device.installed_models import ModelIndex
from understudy.device.messages import CameraMessages, camera_messages, noise_seeds, unsearched
from understudy.device.paired_servers import PairedServer
from understudy.device.parcel import CODE_DIGITS, Parcel, consent_digest, pack
from understudy.device.photo_domain import segmenter_lines
from understudy.device.preferences import Preferences
from understudy.device.review import ReviewedPhotos, UsedPhotos, reviewed_photos
from understudy.device.sheets import sheet_bytes
from understudy.methods.sanitize.background import RemnantSearch
from understudy.methods.sanitize.segments import SecondLook, Segments
from understudy.methods.sanitize.wire import encode_message
from understudy.methods.sanitize.wire_items import encode_item, item_digest
from understudy.metrics.message_attacks import AttackAccuracy

PUBLIC_ROOMS = "playhouse:world?count=3&target={targets}&size={side}&seed=7"
"""Rooms that fillers are shown as, of objects that the request does not name."""
_ROOM_TARGETS = ("bottle", "person", "frame", "dog")

LITTLE_FROM_EDGES = (
    "Edges of the object (L1) hardly helped a classifier: in our measurements it was right in as "
    "many photos as with words alone (L0), give or take 2 %. Segments (L2) helped."
)
LITTLE_FOR_DETECTORS = (
    "Words alone (L0) taught a detector nearly all in our measurements: AP50 100 % of a bottle, "
    "96 % beside a second object. Edges and segments added 4 points at most, and of the room or "
    "the second object alone they lost up to 7. Try L0 first."
)
"""By `benchmarks.sanitize_runs` (docs/methods/sanitize.md, Models that came back)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckSettings:
    """How what would leave is checked.

    Attributes:
        second_look: Segmenters that search it once more; () for the one that made the segments.
        rooms: Public photos that never held the objects; None for the playhouse's.
        homes: Public photos of homes with such objects; None for the playhouse's.
        measure: Whether to measure what would be learnt from it.
    """

    second_look: tuple[str, ...] = ()
    detectors: tuple[str, ...] = ()
    rooms: str | None = None
    homes: str | None = None
    measure: bool = True


@dataclass(frozen=True, slots=True)
class DisclosurePreview:
    """What would leave, as its owner sees it.

    Attributes:
        server: Where it would go; None where no server is paired yet.
        sheet: The drawing; None where nothing but text would leave.
    """

    parcel: Parcel
    server: PairedServer | None
    text: str
    sheet: Path | None
    page: Path

    @property
    def code(self) -> str:
        """What its owner types to agree; "" where no server is paired yet."""
        if self.server is None:
            return ""
        return consent_digest(self.parcel.digest, self.server.public_key)[:CODE_DIGITS]


@dataclass(frozen=True, slots=True)
class _Sheet:
    """What a preview shows of photos.

    Attributes:
        photos: Id of the photo that an item is of, by the item's digest.
        hole: Of the backgrounds, packed; None where none is sent.
    """

    lines: Sequence[str]
    figures: Mapping[str, Any]
    photos: Mapping[str, str]
    sheet: Path | None
    hole: str | None = None


def preview(
    home: DeviceHome,
    preferences: Preferences,
    checks: CheckSettings,
    *,
    server: str | None = None,
    advice: Sequence[str] = (),
) -> DisclosurePreview:
    """Pack what would be sent, draw and measure it, and store all of that. Nothing is sent.

    What was previewed before cannot be agreed to any more, whether or not this comes to its end.

    Args:
        home: The device.
        preferences: What may leave.
        checks: How it is checked.
        server: Name of the server that it would be sent to; None for the only one.
        advice: What else is known before more is disclosed, a line each.

    Raises:
        InputError: Fewer photos can be references than the request states.
        ConfigError: The segmenter does not know such photos.
        RunError: The objects were not segmented, where something of photos would leave; there are
            several servers, or the request changed meanwhile.
        BackendError: A model cannot be loaded.
    """
    with home.locked():
        void_offer(home)
        basis = offer_basis(home)
    target = Recipient(home, server)
    if preferences.request.disclosed:
        parcel, sheet = _of_photos(home, preferences, checks, target)
    else:
        home.path("preview", "sheet.png").unlink(missing_ok=True)
        parcel = pack(preferences.request, {})
        lines = ["", "Nothing of any photo leaves: mutual information 0."]
        sheet = _Sheet(lines, {}, {}, None)
    lines = [*_content_lines(preferences, parcel), *target.lines(), *sheet.lines, *advice]
    text = "\n".join([*lines, *_end_lines(parcel, target.server)]) + "\n"
    page = home.path("preview", "preview.txt")
    write_file(page, text.encode())
    report = {"parts": sheet.figures, "photos": sheet.photos, "hole": sheet.hole, "text": text}
    offer_parcel(home, parcel, report, target.server, basis)
    return DisclosurePreview(parcel, target.server, text, sheet.sheet, page)


def _of_photos(
    home: DeviceHome, preferences: Preferences, checks: CheckSettings, target: Recipient
) -> tuple[Parcel, _Sheet]:
    """The bytes, and all that is shown of them, where something of photos would leave."""
    review = reviewed_photos(home, preferences)
    sanitizers = {part: preferences.sanitizer(part) for part in preferences.request.disclosed}
    references = review.used()
    if (problem := review.domain_problem()) is not None:
        raise ConfigError(problem)
    ids = [review.photos.ids[number - 1] for number in references.numbers]
    seeds = noise_seeds(review.photos.images, noise_key(home, sanitizers.values()))
    used_seeds = [seeds[number - 1] for number in references.numbers]
    # Copies of a photo have one seed, and what was hidden in one stays hidden in all.
    copies = [
        photo for photo, seed in zip(review.photos.ids, seeds, strict=True) if seed in used_seeds
    ]
    messages = camera_messages(
        references.images,
        references.segments,
        preferences,
        sanitizers,
        _second_look(preferences, checks, review.segmenter),
        seeds=used_seeds,
        count=preferences.request.references,
        hole=target.all.hole(copies, preferences.request.side),
    )
    rows = _chosen_rows(preferences, references, messages, len(review.left_out))
    items = {
        part: [messages.items[part][row] for row in part_rows] for part, part_rows in rows.items()
    }
    part_items = {part: [one for one in row if one is not None] for part, row in items.items()}
    parcel = pack(preferences.request, part_items)
    photos = {
        item_digest(encode_item(item)): ids[row]
        for part, part_rows in rows.items()
        for row, item in zip(part_rows, part_items[part], strict=True)
    }
    lines, figures = _photo_lines(preferences, references, messages, rows), dict[str, Any]()
    if checks.measure:
        public = public_homes(preferences, sanitizers, review.segmenter, checks.homes)
        photo_messages: dict[str, list[Images]] = {}
        for part, part_rows in rows.items():
            for row in part_rows:
                photo_messages.setdefault(ids[row], []).append(messages.images[part][row])
        part_messages = {part: messages.images[part][part_rows] for part, part_rows in rows.items()}
        lines += _exposure_lines(
            preferences, public, review, part_messages, photo_messages, target, figures
        )
        lines += _words_lines(references.images, preferences)
    else:
        lines += ["", "What a server would learn from it was not measured (--no-measure)."]
    lines += ["", *segmenter_lines(review.segmenter)]
    sheet = home.path("preview", "sheet.png")
    write_file(sheet, _drawn_preview(preferences, references, messages, rows))
    hole = None if messages.hole is None else packed_mask(messages.hole)
    return parcel, _Sheet(lines, figures, photos, sheet, hole)


def _exposure_lines(
    preferences: Preferences,
    public: PublicHomes,
    review: ReviewedPhotos,
    part_messages: Mapping[int, Images],
    photo_messages: Mapping[str, Sequence[Images]],
    target: Recipient,
    figures: dict[str, Any],
) -> list[str]:
    """What is measured of photos of which anything is or would be sent, as the page says it.

    The figures of each part are put into ``figures``.
    """
    rows = [
        row
        for row, photo in enumerate(review.photos.ids)
        if photo in photo_messages or photo in target.all.images
    ]
    ids, images = [review.photos.ids[row] for row in rows], review.photos.images[rows]
    nouns, masks, hidden = review.segments.nouns, review.segments.masks, review.segments.hidden
    segments = Segments(nouns, masks[:, rows], hidden[:, rows])
    layers = joint_layers(ids, images.shape[1:], photo_messages, target.own.images)
    parts = preferences.request.parts
    part_exposures = {
        part: exposure.at_least(target.own, part, parts[part].noun)
        for part, exposure in exposures(
            images, segments, layers, part_messages, preferences, public
        ).items()
    }
    figures |= {str(part): exposure.as_json() for part, exposure in part_exposures.items()}
    before = " with what it has from before" if target.own.attempts else ""
    heading = f"What a curious server would learn{before} (95 % intervals)"
    lines = ["", heading, *_measured_lines(preferences, part_exposures)]
    if target.others_know:
        lines += ["", "What all servers would learn together, if they compared"]
        layers = joint_layers(ids, images.shape[1:], photo_messages, target.all.images)
        for part, exposure in part_exposures.items():
            one = disclosed_part(images, segments, layers, public, part)
            together = PartExposure(one, exposure.status, exposure.home)
            part_exposures[part] = together.at_least(target.all, part, parts[part].noun)
            figures[str(part)]["together"] = part_exposures[part].as_json()
        lines += _measured_lines(preferences, part_exposures)
    return lines


def _end_lines(parcel: Parcel, server: PairedServer | None) -> list[str]:
    """How to agree, where there is somebody to send it to."""
    if server is None:
        return [
            "",
            "No server is paired, and consent is to one: understudy device pair",
            "Then understudy device send shows this again, with the code to agree.",
        ]
    code = consent_digest(parcel.digest, server.public_key)[:CODE_DIGITS]
    return [
        "",
        f"It would go to {server.described()}, and to no other.",
        f"Code of exactly this: {code}",
        f"To agree and send it: understudy device send --yes {code}",
    ]


def _second_look(preferences: Preferences, checks: CheckSettings, segmenter: str) -> RemnantSearch:
    """What searches the messages; nothing does where no object is of a lower level than another."""
    if min(preferences.levels) >= max(part.level for part in preferences.request.parts):
        return unsearched
    names = checks.second_look or ((segmenter,) if not checks.detectors else ())
    return SecondLook(
        segmenters=tuple(load_model(Segmenter, name) for name in names),
        detectors=tuple(load_model(Detector, name) for name in checks.detectors),
        rooms=_rooms(preferences, checks.rooms),
    )


def _rooms(preferences: Preferences, source: str | None) -> Images:
    """A few public photos that never held the objects of the request."""
    side = preferences.request.side
    if source is None:
        words = {noun.split()[-1] for noun in preferences.nouns}
        targets = [name for name in _ROOM_TARGETS if name not in words]
        source = PUBLIC_ROOMS.format(targets=",".join(targets[:3]), side=side)
    data = open_source(source, size=side, channels=3)
    images = next(data.batches(3)).values
    if len(images) < 2:
        raise ConfigError(f"{source} holds one photo: fillers are shown as two rooms or more")
    return images


def _chosen_rows(
    preferences: Preferences, references: UsedPhotos, messages: CameraMessages, left_out: int
) -> dict[int, list[int]]:
    """The photos of which an item of each part is sent: as many as the request states."""
    count, rows = preferences.request.references, {}
    for part in preferences.request.disclosed:
        usable = np.flatnonzero(messages.usable(part))
        if len(usable) < count:
            noun = preferences.request.parts[part].noun
            empty = sum(item is None for item in messages.items[part])
            remedy = f"--references {len(usable)}" if len(usable) else "no --level, for words alone"
            raise InputError(
                f"the request states {count} references, and {len(usable)} of "
                f"{len(references.numbers) + left_out} photos can be one of {noun}: "
                f"{int(messages.held_back.sum())} are held back, in {empty} there is nothing of "
                f"it, {left_out} were left out. Add photos, or ask again with "
                f"{remedy}"
            )
        rows[part] = usable[:count].tolist()
    return rows


def _content_lines(preferences: Preferences, parcel: Parcel) -> list[str]:
    request = parcel.request
    lines = ["What would leave this device", ""]
    for part, text in zip([*range(1, len(request.parts)), 0], preferences.lines(), strict=True):
        size = parcel.part_bytes(part)
        lines.append(
            f"  {text}" + (f": {request.references} items, {size:,} bytes" if size else "")
        )
    words = f"{request.training_object} of {', '.join(request.label_classes)}"
    for numbers in request.mixture:
        alone = ", ".join(request.parts[number].noun for number in numbers)
        lines.append(f"  of that, images drawn from words alone for {alone} are added")
    message = len(encode_message(parcel.submission))
    total, count = message + sum(map(len, parcel.items.values())), 1 + len(parcel.items)
    return [
        *lines,
        f"  the request in words: {words}: {message:,} bytes",
        f"In all {total:,} bytes in {count_words(count, 'message')}, the same for any photos.",
        "No file name, time or EXIF is in them.",
    ]


def _photo_lines(
    preferences: Preferences,
    references: UsedPhotos,
    messages: CameraMessages,
    rows: Mapping[int, Sequence[int]],
) -> list[str]:
    held_back = [references.numbers[row] for row in np.flatnonzero(messages.held_back)]
    lines = ["", f"Of {len(references.numbers)} photos:"]
    for part, part_rows in rows.items():
        numbers = ", ".join(str(references.numbers[row]) for row in part_rows)
        name = "the background" if part == 0 else references.segments.nouns[part - 1]
        lines.append(f"  {name} of {numbers}")
    parts = preferences.request.parts
    for k, noun in enumerate(preferences.nouns, start=1):
        more = [part for part in rows if parts[part].level > parts[k].level]
        empty = ~references.segments.masks[k - 1].any(axis=(1, 2))
        absent = sorted({row for part in more for row in rows[part] if empty[row]})
        if absent:
            numbers = ", ".join(str(references.numbers[row]) for row in absent)
            lines.append(f"  {noun} was not found in {numbers}: what is not found is not hidden")
    if held_back:
        numbers = ", ".join(map(str, held_back))
        lines.append(f"  held back: {numbers}; the second look found what stays home")
    if messages.unseen > 0:
        lines.append(
            f"  {messages.unseen:.0%} of the background is free in no photo that is sent: it is "
            "smooth there"
        )
    return lines


def _measured_lines(
    preferences: Preferences, part_exposures: Mapping[int, PartExposure]
) -> list[str]:
    lines = []
    for part in [*range(1, len(preferences.request.parts)), 0]:
        exposure, noun = part_exposures[part], preferences.request.parts[part].noun
        if exposure.information is None:
            lines.append(f"  {noun}: in no photo, so nothing could be measured")
            continue
        one = exposure.information
        lines.append(
            f"  {noun}: {one.value:.1%} of what its pixels hold is in the messages "
            f"({one.low:.1%} to {one.high:.1%})"
        )
        if exposure.status is not None:
            lines.append(_attack_line("the status is read from them", exposure.status))
        if exposure.home is not None:
            lines.append(_attack_line("messages of one home are recognised", exposure.home))
    return lines


def _words_lines(images: Images, preferences: Preferences) -> list[str]:
    """How alike the request's words and the photos are (SIM)."""
    above = words_similarity(images, preferences)
    if above is None:
        return []
    return [
        f"  the words of the request: SIM with the photos {above.value:+.3f} above no words "
        f"({above.low:+.3f} to {above.high:+.3f})"
    ]


def _attack_line(what: str, attack: AttackAccuracy) -> str:
    at = attack.accuracy
    line = (
        f"    {what} in {at.value:.0%} ({at.low:.0%} to {at.high:.0%}); by chance in "
        f"{attack.chance:.0%}"
    )
    return line + ("  <- this tells" if attack.above_chance > ALLOWED_ABOVE_CHANCE else "")


def _drawn_preview(
    preferences: Preferences,
    references: UsedPhotos,
    messages: CameraMessages,
    rows: Mapping[int, Sequence[int]],
) -> bytes:
    """Each photo, which stays, and what would leave of it, drawn from the bytes."""
    columns: dict[str, list[NDArray[np.uint8] | None]] = {
        "photo (stays here)": list(references.images)
    }
    parts = preferences.request.parts
    for part in (*(one for one in rows if one), *(one for one in rows if not one)):
        heading = f"{parts[part].noun}: {preferences.sanitizers[part]}"
        columns[heading] = [
            image if row in rows[part] else None for row, image in enumerate(messages.images[part])
        ]
    names = []
    for row, number in enumerate(references.numbers):
        is_sent = any(row in part_rows for part_rows in rows.values())
        word = "held back" if messages.held_back[row] else "" if is_sent else "not sent"
        names.append(f"{number}\n{word}")
    return sheet_bytes(columns, names, np.flatnonzero(messages.held_back).tolist())


def more_disclosure_advice(
    preferences: Preferences, index: ModelIndex, owner_labels: int
) -> list[str]:
    """What is known of whether more disclosure helps, before any is agreed to."""
    request, lines, current = preferences.request, [""], index.current
    if request.training_object == "classifier":
        if not index.is_trained_here:
            lines.append(
                f"Nothing need leave: a classifier learns on this device from 40 labelled photos "
                f"(there are {owner_labels}): understudy device train"
            )
        if any(part.feature == "edges" for part in request.target_object):
            lines.append(LITTLE_FROM_EDGES)
    elif request.disclosed:
        lines.append(LITTLE_FOR_DETECTORS)
    if current is not None and current.accuracy is not None and request.disclosed:
        lines.append(
            f"The installed model ({current.origin}) is right in {current.accuracy:.0%} of "
            f"{current.labelled} labelled photos: more disclosure can gain "
            f"{1 - current.accuracy:.0%} at most."
        )
    return lines if len(lines) > 1 else []
