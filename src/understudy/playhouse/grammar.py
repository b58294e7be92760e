"""What the playhouse's captions say, as data, and the two ways through it: describe and read.

    >>> import random
    >>> caption = describe({"target": "dog", "coat": "brown", "status": "sleeping"},
    ...                    random.Random(1), detail=1.0)
    >>> read(caption)
    {'target': 'dog', 'status': 'sleeping', 'coat': 'brown'}

Nothing here draws or needs more than the standard library: `PHRASES.as_json` gives the data to
programs that write captions or read images by the same phrases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

from understudy.core.phrases import EMPTY, AttributeValues, Phrases
from understudy.playhouse.dice import Dice


def _named(values: str, *forms: str) -> dict[str, list[str]]:
    return {value: [form.format(value) for form in forms] for value in values.split()}


ATTRIBUTES: dict[str, dict[str, list[str]]] = {
    "target": {
        "dog": ["dog"],
        "person": ["person"],
        "bottle": ["medicine bottle"],
        "frame": ["photo frame"],
    },
    "status": {
        "eating": ["eating", "eating a meal", "eating some food"],
        "sitting": ["sitting", "sitting upright", "sitting still"],
        "sleeping": ["sleeping", "asleep", "sleeping curled up", "sleeping with its eyes shut"],
        "playing": ["playing", "playing with a ball", "jumping and playing"],
        "drinking": ["drinking", "drinking from a cup", "drinking something"],
        "walking": ["walking", "walking along", "walking by"],
        "reading": ["reading", "reading a book", "reading an open book"],
    },
    "coat": _named("brown black white golden grey", "{} dog"),
    "size": {"small": ["small", "little"], "big": ["big", "large"]},
    "pattern": _named("spotted patched", "{}"),
    "collar": _named("red blue green orange pink", "a {} collar"),
    "shirt": _named("red blue green yellow white purple black", "a {} shirt"),
    "trousers": _named("blue black brown grey green", "{} trousers"),
    "hair": _named("black brown blond red grey", "{} hair"),
    "bottle": _named("orange white blue green brown", "{} medicine bottle"),
    "cap": _named("white black red", "a {} cap"),
    "frame": _named("golden black white wooden", "{} photo frame"),
    "place": {
        "floor": ["on the floor", "on the ground"],
        "sofa": ["on a sofa", "on the sofa"],
        "bed": ["on a bed", "on the bed"],
        "rug": ["on a rug", "on the rug"],
        "table": ["on a table", "on the table"],
        "shelf": ["on a shelf", "on the shelf"],
    },
    "wall": _named("red blue green yellow white grey pink brown", "a {} wall", "{} walls"),
    "paper": _named("plain striped panelled dotted checked", "{}"),
    "floor": {
        "wooden": ["a wooden floor", "a wood floor"],
        "tiled": ["a tiled floor", "a tile floor"],
        "carpet": ["a carpet floor", "a carpeted floor"],
    },
    "furniture": _named("bed sofa table lamp plant rug picture", "a {}"),
    "window": {
        "none": ["no window"],
        "day": ["a sunny window", "a window in daylight"],
        "sunset": ["a window at sunset"],
        "night": ["a dark window", "a window at night"],
    },
    "light": _named("bright warm cold dim", "{} light"),
    "style": _named("flat outlined soft", "{} style"),
}
"""Attribute, value, phrases. The first phrase is the plainest."""

SUBJECTS: dict[str, dict[str, list[str]]] = {
    "dog": {"before": ["size", "pattern"], "noun": ["coat"], "with": ["collar"], "in": []},
    "person": {"before": [], "noun": [], "with": ["hair"], "in": ["shirt", "trousers"]},
    "bottle": {"before": [], "noun": ["bottle"], "with": ["cap"], "in": []},
    "frame": {"before": [], "noun": ["frame"], "with": [], "in": []},
}
"""How the noun phrase of a target is made: words before the noun, the noun with its colour, what
follows "with" and what follows "in"."""

DETAILS: list[str] = ["wall", "floor", "furniture", "window", "light", "style"]
"""What is said of the room. The paper of a wall stands before its colour."""

FRAMES: list[str] = [
    "{subject} {action}, {list}",
    "{subject} {action}, {list}",
    "photo of {subject} {action}, {list}",
    "a photo of {subject} {action}, {list}",
    "{subject} is {action} in a room with {prose}",
    "{subject} {action} in a room with {prose}",
    "a room with {prose}, and {subject} {action}",
    "an image of {subject} {action} with {prose}",
]
SHORT_FRAMES: list[str] = [
    "{subject} {action}",
    "{subject} {action}",
    "{subject} is {action}",
    "photo of {subject} {action}",
    "a photo of {subject} {action}",
    "an image of {subject} {action}",
    "there is {subject} {action}",
]
EMPTY_FRAMES: list[str] = [
    "an empty room, {list}",
    "photo of an empty room, {list}",
    "an empty room with {prose}",
    "a room with {prose}",
    "a room that is empty, with {prose}",
    "an image of an empty room with {prose}",
]
SHORT_EMPTY_FRAMES: list[str] = [
    "an empty room",
    "a photo of an empty room",
    "a room that is empty",
]
"""Captions of rooms without a target. They are no part of `PHRASES`, for nothing is read in them
that a captioner should look for in an image with a target."""

SEATED_AT: list[str] = ["at a table", "at the table"]
"""How a person is at a table; things are on it."""


PHRASES = Phrases(
    attributes=ATTRIBUTES,
    subjects=SUBJECTS,
    details=DETAILS,
    frames=FRAMES,
    short_frames=SHORT_FRAMES,
    seated_at=SEATED_AT,
    pairs={"two-objects": ["bottle", "frame"]},
)
"""All of the grammar."""


def describe(
    attributes: Mapping[str, str], rng: Random | Dice, *, detail: float | None = None
) -> str:
    """A caption that says some of what is known.

    Args:
        attributes: What is known, ``target`` at least, which may be ``"empty"``; what the grammar
            has no phrases for is left out.
        rng: Chooses the phrases.
        detail: How much is said: 0 only the target and its status, 1 everything; None: at random.
    """
    if detail is None:
        chance = rng.random()
        detail = 0.1 if chance < 0.25 else 0.45 if chance < 0.7 else 0.85

    def choose(phrases: Sequence[str]) -> str:
        return phrases[int(rng.random() * len(phrases))]

    said = _named_attributes(attributes, rng, detail)
    if said["target"] == EMPTY:
        return PHRASES.describe_surroundings(said, choose, EMPTY_FRAMES, SHORT_EMPTY_FRAMES)
    return PHRASES.describe(said, choose, _without_verb)


def _without_verb(frame: str, pair: bool, action: bool) -> str:
    """A frame without its "is" where two things, or nothing that one does, would follow."""
    return frame.replace("{subject} is ", "{subject} ") if pair or not action else frame


def read_caption(caption: str) -> AttributeValues:
    """The attributes that a caption names; those that it does not name are left out."""
    return PHRASES.read(caption)


def _named_attributes(
    attributes: Mapping[str, str], rng: Random | Dice, detail: float
) -> AttributeValues:
    """The attributes that the caption will name."""
    said = {"target": attributes["target"]}
    always = {"status"}
    often = {"coat", "shirt", "bottle", "frame", "place"}
    for attribute, value in attributes.items():
        if attribute == "frame place":
            continue
        likely = 1.0 if attribute in always else detail
        if attribute in often:
            likely = min(1.0, 0.55 + detail)
        elif attribute in ("paper", "style", "window") and detail < 1:
            likely = detail * 0.4
        if rng.random() < likely and attribute in ATTRIBUTES:
            said[attribute] = value
    if "place" in said and "frame place" in attributes:
        said["frame place"] = attributes["frame place"]
    if "paper" in said and "wall" not in said and "wall" in attributes:
        said["wall"] = attributes["wall"]
    return said
