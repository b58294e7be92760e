"""The phrases of captions as data, and the two ways through them: describe and read.

    >>> import random
    >>> caption = describe({"target": "dog", "coat": "brown", "status": "sleeping"},
    ...                    random.Random(1), detail=1.0)
    >>> read(caption)
    {'target': 'dog', 'status': 'sleeping', 'coat': 'brown'}

Nothing here draws or needs more than the standard library: `as_json` gives the data to whoever
writes captions or reads images by the same words.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from typing import Any, Protocol

Phrases = dict[str, dict[str, list[str]]]


class Rng(Protocol):
    """``random.Random``, a numpy generator, or the playhouse's own dice."""

    def random(self) -> float:
        """A number in [0, 1)."""
        ...


def _named(values: str, *forms: str) -> dict[str, list[str]]:
    return {value: [form.format(value) for form in forms] for value in values.split()}


ATTRIBUTES: Phrases = {
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
SEATED_AT: list[str] = ["at a table", "at the table"]
"""How a person is at a table; things are on it."""


def as_json() -> dict[str, Any]:
    """All of the grammar as JSON values, to be kept in a file or handed to a writer of captions."""
    return deepcopy(
        {
            "attributes": ATTRIBUTES,
            "subjects": SUBJECTS,
            "details": DETAILS,
            "frames": FRAMES,
            "short_frames": SHORT_FRAMES,
            "seated_at": SEATED_AT,
        }
    )


def describe(attributes: Mapping[str, str], rng: Rng, *, detail: float | None = None) -> str:
    """A caption that says some of what is known.

    Args:
        attributes: What is known, ``target`` at least; what the grammar has no words for is left
            out.
        rng: Chooses the words.
        detail: How much is said: 0 only the target and its status, 1 everything; None: at random.
    """
    if detail is None:
        drawn = rng.random()
        detail = 0.1 if drawn < 0.25 else 0.45 if drawn < 0.7 else 0.85
    said = _said(attributes, rng, detail)
    targets = ["bottle", "frame"] if said["target"] == "two-objects" else [said["target"]]
    subject, action = _subject(targets[0], said, rng), _action(targets[0], said, rng)
    if len(targets) == 2:
        other = _subject("frame", said, rng)
        frame_place = said.get("frame place")
        if frame_place is None or frame_place == said.get("place"):
            subject = f"{subject} and {other}"
        else:
            subject = f"{subject} {action} and {other}"
            action = _of(ATTRIBUTES["place"][frame_place], rng)
    details = _details(said, rng)
    frame = _of(FRAMES if details else SHORT_FRAMES, rng)
    if len(targets) == 2 or not action:
        frame = frame.replace("{subject} is ", "{subject} ")
    text = frame.format(
        subject=subject,
        action=action,
        list=", ".join(_bare(part) for part in details),
        prose=_joined(details),
    )
    text = re.sub(r"\s+(?=,)|\s+$|(?<=\s)\s+", "", text)
    return re.sub(r"\ba (?=[aeiou])", "an ", text)


def read(caption: str) -> dict[str, str]:
    """What a caption says: the attributes found in it, those that it does not name left out."""
    text = caption.lower()
    found = {attribute: _find(attribute, text) for attribute in ATTRIBUTES}
    if "medicine bottle" in text and "photo frame" in text:
        found["target"] = "two-objects"
        before, _, behind = text.partition("photo frame")
        found["frame place"] = _find("place", behind)
        found["place"] = _find("place", before) or found["frame place"]
    # "on a sofa" says where the target is, not what else is in the room.
    rest = _pattern("place")[0].sub(" ", text)
    names = [name for name in ATTRIBUTES["furniture"] if re.search(rf"\b{name}\b", rest)]
    found["furniture"] = ", ".join(names) or None
    return {attribute: value for attribute, value in found.items() if value is not None}


def _said(attributes: Mapping[str, str], rng: Rng, detail: float) -> dict[str, str]:
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


def _subject(target: str, said: Mapping[str, str], rng: Rng) -> str:
    shape = SUBJECTS[target]
    noun = [ATTRIBUTES["target"][target][0]]
    for attribute in shape["noun"]:
        if attribute in said:
            noun = [_word(attribute, said, rng)]
    words = [_word(name, said, rng) for name in shape["before"] if name in said] + noun
    text = f"a {' '.join(words)}"
    has = [_word(name, said, rng) for name in shape["with"] if name in said]
    wears = [_word(name, said, rng) for name in shape["in"] if name in said]
    if has:
        text += f" with {_joined(has)}"
    if wears:
        text += f" in {_joined(wears)}"
    return text


def _action(target: str, said: Mapping[str, str], rng: Rng) -> str:
    parts = [_word("status", said, rng)] if "status" in said else []
    if "place" in said:
        seated = target == "person" and said["place"] == "table"
        parts.append(_of(SEATED_AT, rng) if seated else _word("place", said, rng))
    return " ".join(parts)


def _details(said: Mapping[str, str], rng: Rng) -> list[str]:
    found = []
    for attribute in DETAILS:
        if attribute not in said:
            continue
        if attribute == "furniture":
            names = [name.strip() for name in said["furniture"].split(",")]
            found += [_of(ATTRIBUTES["furniture"][name], rng) for name in names]
            continue
        phrase = _word(attribute, said, rng)
        if attribute == "wall" and "paper" in said:
            article = "a " if phrase.startswith("a ") else ""
            phrase = f"{article}{said['paper']} {_bare(phrase)}"
        found.append(phrase)
    return found


def _word(attribute: str, said: Mapping[str, str], rng: Rng) -> str:
    return _of(ATTRIBUTES[attribute][said[attribute]], rng)


def _of(values: Sequence[str], rng: Rng) -> str:
    return values[int(rng.random() * len(values))]


def _bare(phrase: str) -> str:
    return phrase.removeprefix("a ").removeprefix("an ")


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


@lru_cache(maxsize=64)
def _pattern(attribute: str) -> tuple[re.Pattern[str], dict[str, str]]:
    """Finds a phrase of the attribute; the value of each phrase."""
    values = {
        _bare(phrase): value
        for value, phrases in ATTRIBUTES[attribute].items()
        for phrase in phrases
    }
    if attribute == "place":
        values.update(dict.fromkeys(SEATED_AT, "table"))
    longest = sorted(values, key=len, reverse=True)
    return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest))})\b"), values


def _find(attribute: str, text: str) -> str | None:
    pattern, values = _pattern(attribute)
    found = pattern.search(text)
    return None if found is None else values[found[0]]
