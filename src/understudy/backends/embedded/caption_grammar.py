"""A grammar of captions as data: what can be said, in which words, and how to read it back.

The data are JSON values:

    attributes    attribute -> value -> phrases, the plainest first; ``target`` is one of them
    subjects      target -> how its noun phrase is made: attributes before the noun, the attribute
                  that takes the noun's place, attributes after "with" and after "in"
    details       attributes that are said of the surroundings, in order
    frames        sentences with {subject}, {action}, and {list} or {prose} of the details
    short_frames  sentences with {subject} and {action}
    seated_at     words for a person's place at a table
    possible      target -> attribute -> the values it can have
    places        "target status", or "thing" -> the places it can be at
    pairs         a target that is two others, with ``frame place`` the place of the second
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.errors import BackendError

Attributes = dict[str, str]
Rng = np.random.Generator

TARGET, STATUS, PLACE, SECOND, FURNITURE = (
    "target",
    "status",
    "place",
    "frame place",
    "furniture",
)
_KEYS = ("attributes", "subjects", "details", "frames", "short_frames", "possible")
_PLACES = re.compile(r"\{\w+\}")  # of what a frame leaves open
_PIECES = 3  # of furniture that a caption may name


class Grammar:
    """Captions to attributes and back.

    Args:
        data: See the head of this module.
        name: Where the data are from, in errors.

    Raises:
        BackendError: The data lack an entry.
    """

    def __init__(self, data: Mapping[str, Any], *, name: str = "the grammar") -> None:
        missing = [key for key in _KEYS if not data.get(key)]
        if missing or TARGET not in data["attributes"]:
            told = ", ".join(missing) or "attributes.target"
            raise BackendError(f"{name} lacks {told}; it is no grammar of captions")
        self.name = name
        self._words: Mapping[str, Mapping[str, Sequence[str]]] = data["attributes"]
        self._subjects = data["subjects"]
        self._details: Sequence[str] = data["details"]
        self._frames: Sequence[str] = data["frames"]
        self._short: Sequence[str] = data["short_frames"]
        self._seated: Sequence[str] = data.get("seated_at", [])
        self._places: Mapping[str, Sequence[str]] = data.get("places", {})
        self._pairs: Mapping[str, Sequence[str]] = data.get("pairs", {})
        self.possible: Mapping[str, Mapping[str, Sequence[str]]] = data["possible"]
        self._patterns = {attribute: self._pattern(attribute) for attribute in self._words}

    @property
    def targets(self) -> tuple[str, ...]:
        """What a caption can be about."""
        return tuple(self.possible)

    @property
    def words(self) -> frozenset[str]:
        """Every word of its captions, in lower case."""
        phrases = [
            text for words in self._words.values() for said in words.values() for text in said
        ]
        texts = [*phrases, *self._frames, *self._short, *self._seated]
        return frozenset(
            word for text in texts for word in re.findall(r"\w+", _PLACES.sub(" ", text.lower()))
        )

    @property
    def looks(self) -> frozenset[str]:
        """Attributes that a target is known by: its colour, or what it wears."""
        shapes = self._subjects.values()
        return frozenset(name for shape in shapes for name in (*shape["noun"], *shape["in"][:1]))

    def read(self, caption: str) -> Attributes:
        """The attributes that a caption names."""
        text = caption.lower()
        found = {attribute: self._find(attribute, text) for attribute in self._words}
        for pair, (first, second) in self._pairs.items():
            nouns = [self._words[TARGET][target][0] for target in (first, second)]
            if all(noun in text for noun in nouns):
                before, _, behind = text.partition(nouns[1])
                found[TARGET], found[SECOND] = pair, self._find(PLACE, behind)
                found[PLACE] = self._find(PLACE, before) or found[SECOND]
        # "on a sofa" says where the target is, not what else is in the room.
        rest = self._patterns[PLACE][0].sub(" ", text) if PLACE in self._words else text
        pieces = [
            name for name in self._words.get(FURNITURE, ()) if re.search(rf"\b{name}\b", rest)
        ]
        found[FURNITURE] = ", ".join(pieces) or None
        return {attribute: value for attribute, value in found.items() if value is not None}

    def values(self, attribute: str, known: Attributes) -> tuple[str, ...]:
        """The values that an attribute can have besides what is known; none where it has none."""
        target = known[TARGET]
        if attribute in (PLACE, SECOND):
            status = known.get(STATUS)
            keys = (
                [f"{target} {status}"]
                if status
                else [f"{target} {s}" for s in self._states(target)]
            )
            found = [place for key in keys for place in self._places.get(key, ())]
            found = found or list(self._places.get("thing", ()))
            allowed = self.possible[target].get(attribute, ())
            return tuple(dict.fromkeys(place for place in found if place in allowed))
        values = self.possible[target].get(attribute, ())
        if attribute == STATUS and PLACE in known:
            values = [
                status
                for status in values
                if known[PLACE] in self._places.get(f"{target} {status}", (known[PLACE],))
            ]
        return tuple(values)

    def complete(self, known: Attributes, rng: Rng) -> Attributes:
        """Everything that can be said of a target, at random but for what is known."""
        found = dict(known)
        # The status first: where something can be depends on what it does.
        order = sorted(self.possible[known[TARGET]], key=lambda name: (name != STATUS, name))
        for attribute in order:
            values = self.values(attribute, found) if attribute not in found else ()
            if values:
                found[attribute] = _of(values, rng)
        if FURNITURE in self._words and FURNITURE not in found:
            found[FURNITURE] = self.furniture(found, rng)
        return found

    def furniture(self, known: Attributes, rng: Rng) -> str:
        """Some pieces of furniture; what something stands on is not among them."""
        names = list(self._words[FURNITURE])
        free = [name for name in names if name not in (known.get(PLACE), known.get(SECOND))]
        count = min(len(free), 1 + int(rng.integers(_PIECES)))
        chosen = {free[index] for index in rng.choice(len(free), count, replace=False)}
        return ", ".join(name for name in names if name in chosen)

    def describe(self, said: Attributes, rng: Rng) -> str:
        """A caption that says all of this."""
        targets = list(self._pairs.get(said[TARGET], (said[TARGET],)))
        subject, action = self._subject(targets[0], said, rng), self._action(targets[0], said, rng)
        if len(targets) == 2:
            other, place = self._subject(targets[1], said, rng), said.get(SECOND)
            if place is None or place == said.get(PLACE):
                subject = f"{subject} and {other}"
            else:
                subject = f"{subject} {action} and {other}"
                action = _of(self._words[PLACE][place], rng)
        details = self._said_of_the_room(said, rng)
        frame = _of(self._frames if details else self._short, rng)
        frame = frame.replace(" is ", " are ") if len(targets) == 2 else frame
        text = frame.format(
            subject=subject,
            action=action,
            list=", ".join(_bare(part) for part in details),
            prose=_joined(details),
        )
        text = text if action else text.replace(" is in a room", " in a room")
        return re.sub(r"\s+(?=,)|\s+$|(?<=\s)\s+", "", text)

    def _states(self, target: str) -> Sequence[str]:
        return self.possible[target].get(STATUS, ())

    def _subject(self, target: str, said: Attributes, rng: Rng) -> str:
        shape = self._subjects[target]
        noun = self._words[TARGET][target][0]
        for attribute in shape["noun"]:
            noun = self._word(attribute, said, rng) if attribute in said else noun
        words = [self._word(name, said, rng) for name in shape["before"] if name in said]
        text = " ".join([*words, noun])
        text = f"an {text}" if text[0] in "aeiou" else f"a {text}"
        for key in ("with", "in"):
            parts = [self._word(name, said, rng) for name in shape[key] if name in said]
            text += f" {key} {_joined(parts)}" if parts else ""
        return text

    def _action(self, target: str, said: Attributes, rng: Rng) -> str:
        parts = [self._word(STATUS, said, rng)] if STATUS in said else []
        if PLACE in said:
            seated = self._seated and target == "person" and said[PLACE] == "table"
            parts.append(_of(self._seated, rng) if seated else self._word(PLACE, said, rng))
        return " ".join(parts)

    def _said_of_the_room(self, said: Attributes, rng: Rng) -> list[str]:
        found = []
        for attribute in self._details:
            if attribute not in said:
                continue
            if attribute == FURNITURE:
                names = pieces(said[FURNITURE])
                found += [_of(self._words[FURNITURE][name], rng) for name in names]
                continue
            phrase = self._word(attribute, said, rng)
            if attribute == "wall" and "paper" in said:
                article = "a " if phrase.startswith("a ") else ""
                phrase = f"{article}{said['paper']} {_bare(phrase)}"
            found.append(phrase)
        return found

    def _word(self, attribute: str, said: Attributes, rng: Rng) -> str:
        return _of(self._words[attribute][said[attribute]], rng)

    def _pattern(self, attribute: str) -> tuple[re.Pattern[str], dict[str, str]]:
        values = {
            _bare(phrase): value
            for value, phrases in self._words[attribute].items()
            for phrase in phrases
        }
        if attribute == PLACE:
            values.update(dict.fromkeys(self._seated, "table"))
        longest = sorted(values, key=len, reverse=True)
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest))})\b"), values

    def _find(self, attribute: str, text: str) -> str | None:
        pattern, values = self._patterns[attribute]
        found = pattern.search(text)
        return None if found is None else values[found[0]]


def load_grammar(file: str | None = None) -> Grammar:
    """The grammar of the playhouse, or one from a JSON file.

    Raises:
        BackendError: There is no such file, or it is no grammar.
    """
    if file is None:
        packaged = files("understudy.backends.embedded").joinpath("studio", "grammar.json")
        return Grammar(json.loads(packaged.read_text("utf-8")), name="the embedded grammar")
    try:
        data = json.loads(Path(file).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise BackendError(f"cannot read the grammar {file}: {error}") from error
    if not isinstance(data, dict):
        raise BackendError(f"the grammar {file} is no JSON object")
    return Grammar(data, name=file)


def pieces(furniture: str) -> list[str]:
    """The names in ``"lamp, plant"``."""
    return [name.strip() for name in furniture.split(",") if name.strip()]


def _of(values: Sequence[str], rng: Rng) -> str:
    return values[int(rng.integers(len(values)))]


def _bare(phrase: str) -> str:
    return phrase.removeprefix("a ").removeprefix("an ")


def _joined(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
