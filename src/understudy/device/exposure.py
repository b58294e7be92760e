"""What a curious server would learn from what would leave, measured before the owner agrees.

Three figures a part: mutual information with its bias removed (SpinML, Eq. 1), statuses that an
attacker reads who has learnt from the same messages of public homes, and homes that are recognised.
The public homes are drawn by the playhouse, or a dataset of the owner's choice that names homes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from understudy.backends.registry import load_encoder, load_model
from understudy.core.errors import ConfigError, InputError
from understudy.core.ports import Segmenter, TextEncoder
from understudy.core.results import Interval
from understudy.core.types import Images, Labels, Masks
from understudy.data import open_source
from understudy.device.former_messages import FormerMessages
from understudy.device.home_folder import DeviceHome
from understudy.device.messages import camera_messages, unsearched
from understudy.device.preferences import Preferences, stored_preferences
from understudy.device.review import reviewed_photos
from understudy.methods.sanitize.sanitizers import Sanitizer
from understudy.methods.sanitize.segments import SearchSettings, Segments, search
from understudy.methods.sanitize.wire import JobRequest, ModelResult
from understudy.metrics.disclosure import PartMessages, disclosed_information
from understudy.metrics.message_attacks import (
    AttackAccuracy,
    camera_residuals,
    outline_attack,
    reidentification,
)
from understudy.metrics.semantic import part_directions, prompt_similarity

PUBLIC_TASKS: Mapping[str, str] = {"dog": "pet-status", "person": "activity", "bottle": "bottle"}
"""The task of the playhouse whose homes have such an object."""
PUBLIC_HOMES = "playhouse:{task}?homes=16&per_home=5&first=9000&size={side}"
"""Homes that nobody lives in."""
ALLOWED_ABOVE_CHANCE = 0.10
"""An attack that is right more often than chance and this is pointed out."""
_FOLDS = 4


@dataclass(frozen=True, slots=True)
class PublicHomes:
    """Public photos of homes with such objects, and what would be sent of them.

    Attributes:
        images: (n, side, side, 3) uint8.
        statuses: (n,) int64.
    """

    images: Images
    segments: Segments
    messages: Mapping[int, Images]
    statuses: Labels
    classes: tuple[str, ...]
    homes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartExposure:
    """What would be learnt of one part. Owner-only until it is agreed to.

    Attributes:
        information: Part of the entropy of its pixels that is in all messages together, bias
            removed; None where it could not be measured.
        status: How often a status is read from the part's messages; None where no message of the
            part is sent, or the public homes have no statuses.
        home: How often messages of one home are recognised as such.
    """

    information: Interval | None
    status: AttackAccuracy | None = None
    home: AttackAccuracy | None = None

    def at_least(self, former: FormerMessages, number: int, noun: str) -> PartExposure:
        """The same, where attackers do no worse than was recorded of what they have from before."""
        return PartExposure(
            self.information,
            _larger(self.status, former.measured(number, noun, "status_read")),
            _larger(self.home, former.measured(number, noun, "home_recognised")),
        )

    def as_json(self) -> dict[str, Any]:
        """For the report and the ledger: value, ends of the interval, and chance."""
        values: dict[str, Any] = {}
        if self.information is not None:
            one = self.information
            values["information"] = [round(x, 4) for x in (one.value, one.low, one.high)]
        for name, attack in (("status_read", self.status), ("home_recognised", self.home)):
            if attack is not None:
                at = attack.accuracy
                numbers = (at.value, at.low, at.high, attack.chance)
                values[name] = [round(x, 4) for x in numbers]
        return values


def _larger(attack: AttackAccuracy | None, recorded: list[float] | None) -> AttackAccuracy | None:
    if recorded is None:
        return attack
    value, low, high, chance = recorded
    former = AttackAccuracy(Interval(value, low, high), chance, "recorded before")
    if attack is None or former.above_chance > attack.above_chance:
        return former
    return attack


def public_homes(
    preferences: Preferences,
    sanitizers: Mapping[int, Sanitizer],
    segmenter: str,
    source: str | None = None,
) -> PublicHomes:
    """Public homes, with the messages that the owner's choices would make of them.

    The segmenter is that of the owner's photos; without a ``source`` the homes are the playhouse's.

    Raises:
        ConfigError: The playhouse has no homes with such an object, and no dataset was named; or
            the dataset's are too few.
        MissingExtra: The playhouse is not installed.
    """
    side, first = preferences.request.side, preferences.nouns[0].split()[-1]
    if source is None:
        task = PUBLIC_TASKS.get(first)
        if task is None:
            raise ConfigError(
                f"there are no public homes with a {first}: name a dataset of such photos, with "
                "homes as its units, by --compare-with, or say --no-measure"
            )
        source = PUBLIC_HOMES.format(task=task, side=side)
    data = open_source(source, size=side, channels=3, unit="home")
    batches = list(data.batches(256))
    images = np.concatenate([batch.values for batch in batches])
    units = [batch.units for batch in batches if batch.units is not None]
    if not units:
        raise ConfigError("the photos to compare with name no homes: give a manifest with a unit")
    homes = np.concatenate(units)
    if (count := len(np.unique(homes))) < _FOLDS:
        raise ConfigError(
            f"{source}: the photos to compare with are of {count} homes, and what is learnt in "
            f"some is tried in others: name {_FOLDS} homes or more, or say --no-measure"
        )
    model = load_model(Segmenter, segmenter)
    segments = search(images, preferences.nouns, model, SearchSettings())
    messages = {part: np.zeros_like(images) for part in preferences.request.disclosed}
    for home in np.unique(homes):
        of_home = np.flatnonzero(homes == home)
        # As many photos share a hole as would do so of the owner's.
        for start in range(0, len(of_home), preferences.request.references):
            rows = of_home[start : start + preferences.request.references]
            own = Segments(segments.nouns, segments.masks[:, rows], segments.hidden[:, rows])
            sent = camera_messages(images[rows], own, preferences, sanitizers, unsearched)
            for part, part_images in sent.images.items():
                messages[part][rows] = part_images
    statuses = np.concatenate([batch.labels for batch in batches])
    return PublicHomes(images, segments, messages, statuses, data.classes, tuple(homes.tolist()))


def exposures(
    images: Images,
    segments: Segments,
    layers: Sequence[Images],
    own: Mapping[int, Images],
    preferences: Preferences,
    public: PublicHomes,
) -> dict[int, PartExposure]:
    """What would be learnt of each part, by its number.

    Args:
        images: The owner's photos of which anything is or would be sent, and others.
        segments: Where the objects are in them.
        layers: All messages of these photos together, each (n, side, side, 3): what would be sent
            and what was (`joint_layers`).
        own: The messages of each part that would be sent, drawn, by the part's number.
        preferences: What may leave of each part.
        public: Public homes.
    """
    results = {}
    for part in range(len(preferences.request.parts)):
        information = disclosed_part(images, segments, layers, public, part)
        attacks = _attacks(own[part], part, public) if part in own else ()
        results[part] = PartExposure(information, *attacks)
    return results


def disclosed_part(
    images: Images, segments: Segments, layers: Sequence[Images], public: PublicHomes, part: int
) -> Interval | None:
    """Part of the entropy of a part's pixels that is in all messages together; None: no pixels."""
    own = PartMessages(images, _pixels(segments, part), tuple(layers))
    others = PartMessages(
        public.images, _pixels(public.segments, part), tuple(public.messages.values())
    )
    try:
        return disclosed_information(own, others).corrected
    except InputError:  # the object is in no photo of either
        return None


def _pixels(segments: Segments, part: int) -> Masks:
    """The pixels of a part: of the background those of no object."""
    return np.asarray(segments.masks[part - 1] if part else ~segments.masks.any(axis=0))


def _attacks(
    own: Images, part: int, public: PublicHomes
) -> tuple[AttackAccuracy | None, AttackAccuracy]:
    """The status by the strongest attacker, and the home among the public ones and the owner's."""
    messages = public.messages[part]
    status = None
    if len(public.classes) > 1:
        views = [messages]
        if part == 0:  # holes and their fill show in what sets a photo apart from its home's others
            views.append(camera_residuals(messages, public.homes))
        attacks = [
            outline_attack(view, public.statuses, public.homes, folds=_FOLDS)[0] for view in views
        ]
        status = max(attacks, key=lambda attack: attack.accuracy.value)
    homes = [*public.homes, *["the owner's"] * len(own)]
    return status, reidentification(np.concatenate([messages, own]), homes)


def synthetic_similarity(
    home: DeviceHome, request: JobRequest, result: ModelResult
) -> tuple[float, float] | None:
    """SIM of what the server drew and the photos: of the first object, and of the background.

    The server states the mean embeddings of its images, so that nothing of a photo has to leave
    (Eq. 2 is linear in them). None where it states none, or the object is not known in the photos.
    """
    try:
        reviewed = reviewed_photos(home, stored_preferences(home))
        part = reviewed.segments.nouns.index(request.target_object[0].noun)
        encoder = load_encoder("embedded:studio", shape=reviewed.photos.images.shape[1:])
        masks = reviewed.segments.masks[part]
        own = part_directions(reviewed.photos.images, masks, encoder)
    except (InputError, ValueError):  # not searched for, or in none; or no mini studio
        return None
    if [len(one) for one in result.directions] != [len(one) for one in own]:
        return None
    target, background = (
        float(mine @ np.array(theirs)) for mine, theirs in zip(own, result.directions, strict=True)
    )
    return target, background


def words_similarity(images: Images, preferences: Preferences) -> Interval | None:
    """SIM of the request's words and the photos, above that of the empty prompt (Table 4d).

    By the mini studio's CLIP; None where it is not installed.
    """
    try:
        encoder = load_encoder("embedded:studio", shape=images.shape[1:])
    except InputError:
        return None
    if not isinstance(encoder, TextEncoder):
        return None
    request = preferences.request
    noun = preferences.nouns[0]
    texts = [f"a {noun} {name} in a {request.background.noun}" for name in request.label_classes]
    return prompt_similarity(
        encoder.encode(images), encoder.encode_text(texts), encoder.encode_text([""])
    ).above
