"""Phrases of captions as data: what can be said, in which words, and how to read it back.

As JSON values::

    attributes    attribute -> value -> phrases, the plainest first; ``target`` is one of them
    subjects      target -> how its noun phrase is built: attributes before the noun, the attribute
                  that replaces the noun, attributes after "with" and after "in"
    details       attributes that describe the surroundings, in order
    frames        sentences with {subject}, {action}, and {list} or {prose} of the details
    short_frames  sentences with {subject} and {action}
    seated_at     phrases for a person's place at a table
    possible      target -> attribute -> the values it can have
    places        "target status", or "thing" -> the places it can be at
    pairs         a target that is two others; ``frame place`` is the place of the second
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any

from understudy.core.errors import ConfigError, count_words

AttributeValues = dict[str, str]
"""The value of each attribute that is known or said."""

Choose = Callable[[Sequence[str]], str]
"""Picks one of several phrases, at random."""

TARGET, STATUS, PLACE, SECOND, FURNITURE = "target", "status", "place", "frame place", "furniture"

EMPTY = "empty"
"""The target of a scene that shows none."""

_OPEN = re.compile(r"\{\w+\}")  # what a frame leaves open


@dataclass(frozen=True)
class Phrases:
    """The phrases of one world; the head of this module describes each part.

    Raises:
        ConfigError: There are no targets.
    """

    attributes: Mapping[str, Mapping[str, Sequence[str]]]
    subjects: Mapping[str, Mapping[str, Sequence[str]]]
    details: Sequence[str]
    frames: Sequence[str] = ()
    short_frames: Sequence[str] = ()
    seated_at: Sequence[str] = ()
    possible: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    places: Mapping[str, Sequence[str]] = field(default_factory=dict)
    pairs: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.attributes.get(TARGET):
            raise ConfigError("the grammar lacks attributes.target; it is no grammar of captions")

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Phrases:
        """The phrases in a JSON object; other keys are ignored.

        Raises:
            ConfigError: The attributes, the subjects or the details are missing.
        """
        missing = [key for key in ("attributes", "subjects", "details") if not data.get(key)]
        if missing:
            raise ConfigError(
                f"the grammar lacks {', '.join(missing)}; it is no grammar of captions"
            )
        names = [part.name for part in fields(cls)]
        return cls(**{name: data[name] for name in names if name in data})

    def as_json(self) -> dict[str, Any]:
        """A copy as JSON values, without the parts that are empty."""
        return {name: part for name, part in asdict(self).items() if part}

    @property
    def vocabulary(self) -> frozenset[str]:
        """Every word of its captions, in lower case."""
        phrases = [
            phrase
            for values in self.attributes.values()
            for alternatives in values.values()
            for phrase in alternatives
        ]
        texts = [*phrases, *self.frames, *self.short_frames, *self.seated_at]
        return frozenset(
            word for text in texts for word in re.findall(r"\w+", _OPEN.sub(" ", text.lower()))
        )

    @property
    def looks(self) -> frozenset[str]:
        """Attributes that a target is known by: its colour, or what it wears."""
        shapes = self.subjects.values()
        return frozenset(name for shape in shapes for name in (*shape["noun"], *shape["in"][:1]))

    def read(self, caption: str) -> AttributeValues:
        """The attributes that a caption names; those that it does not name are left out."""
        text = caption.lower()
        values = {attribute: self._find(attribute, text) for attribute in self.attributes}
        for pair, (first, second) in self.pairs.items():
            nouns = [self.attributes[TARGET][target][0] for target in (first, second)]
            if all(noun in text for noun in nouns):
                before, _, behind = text.partition(nouns[1])
                values[TARGET], values[SECOND] = pair, self._find(PLACE, behind)
                values[PLACE] = self._find(PLACE, before) or values[SECOND]
        # "on a sofa" says where the target is, not what else is in the room.
        rest = self._patterns[PLACE][0].sub(" ", text) if PLACE in self.attributes else text
        names = [
            name for name in self.attributes.get(FURNITURE, ()) if re.search(rf"\b{name}\b", rest)
        ]
        values[FURNITURE] = ", ".join(names) or None
        return {attribute: value for attribute, value in values.items() if value is not None}

    def describe(
        self, said: AttributeValues, choose: Choose, agree: Callable[[str, bool, bool], str]
    ) -> str:
        """A caption that says all of these attributes."""
        targets = self.pairs.get(said[TARGET], (said[TARGET],))
        subject = self._subject(targets[0], said, choose)
        action = self._action(targets[0], said, choose)
        if len(targets) == 2:
            second, place = self._subject(targets[1], said, choose), said.get(SECOND)
            if place is None or place == said.get(PLACE):
                subject = f"{subject} and {second}"
            else:
                subject = f"{subject} {action} and {second}"
                action = choose(self.attributes[PLACE][place])
        surroundings = self._surroundings(said, choose)
        frame = choose(self.frames if surroundings else self.short_frames)
        text = agree(frame, len(targets) == 2, bool(action)).format(
            subject=subject,
            action=action,
            list=", ".join(_without_article(part) for part in surroundings),
            prose=_enumerated(surroundings),
        )
        text = re.sub(r"\s+(?=,)|\s+$|(?<=\s)\s+", "", text)
        return re.sub(r"\ba (?=[aeiou])", "an ", text)

    def describe_surroundings(
        self,
        said: AttributeValues,
        choose: Choose,
        frames: Sequence[str],
        short_frames: Sequence[str],
    ) -> str:
        """A caption of the surroundings alone."""
        surroundings = self._surroundings(said, choose)
        return choose(frames if surroundings else short_frames).format(
            list=", ".join(_without_article(part) for part in surroundings),
            prose=_enumerated(surroundings),
        )

    def _subject(self, target: str, said: AttributeValues, choose: Choose) -> str:
        shape = self.subjects[target]
        noun = self.attributes[TARGET][target][0]
        for attribute in shape["noun"]:
            noun = self._phrase(attribute, said, choose) if attribute in said else noun
        before = [self._phrase(name, said, choose) for name in shape["before"] if name in said]
        text = f"a {' '.join([*before, noun])}"
        for preposition in ("with", "in"):
            names = [name for name in shape[preposition] if name in said]
            parts = [self._phrase(name, said, choose) for name in names]
            text += f" {preposition} {_enumerated(parts)}" if parts else ""
        return text

    def _action(self, target: str, said: AttributeValues, choose: Choose) -> str:
        parts = [self._phrase(STATUS, said, choose)] if STATUS in said else []
        if PLACE in said:
            seated = self.seated_at and target == "person" and said[PLACE] == "table"
            parts.append(choose(self.seated_at) if seated else self._phrase(PLACE, said, choose))
        return " ".join(parts)

    def _surroundings(self, said: AttributeValues, choose: Choose) -> list[str]:
        parts = []
        for attribute in self.details:
            if attribute not in said:
                continue
            if attribute == FURNITURE:
                names = furniture_names(said[FURNITURE])
                parts += [choose(self.attributes[FURNITURE][name]) for name in names]
                continue
            phrase = self._phrase(attribute, said, choose)
            if attribute == "wall" and "paper" in said:
                article = "a " if phrase.startswith("a ") else ""
                phrase = f"{article}{said['paper']} {_without_article(phrase)}"
            parts.append(phrase)
        return parts

    def _phrase(self, attribute: str, said: AttributeValues, choose: Choose) -> str:
        return choose(self.attributes[attribute][said[attribute]])

    @cached_property
    def _patterns(self) -> dict[str, tuple[re.Pattern[str], dict[str, str]]]:
        """Of each attribute: what finds one of its phrases, and the value of each phrase."""
        return {attribute: self._pattern(attribute) for attribute in self.attributes}

    def _pattern(self, attribute: str) -> tuple[re.Pattern[str], dict[str, str]]:
        values = {
            _without_article(phrase): value
            for value, phrases in self.attributes[attribute].items()
            for phrase in phrases
        }
        if attribute == PLACE:
            values.update(dict.fromkeys(self.seated_at, "table"))
        longest = sorted(values, key=len, reverse=True)
        return re.compile(rf"\b(?:{'|'.join(map(re.escape, longest))})\b"), values

    def _find(self, attribute: str, text: str) -> str | None:
        pattern, values = self._patterns[attribute]
        match = pattern.search(text)
        return None if match is None else values[match[0]]


_PEOPLE = {"person": "people", "individual": "people"}


def people_of(column: str) -> str:
    """What units that share a column's value are called: ``"patients"`` of ``PatientID``."""
    nouns = "patient", "subject", "participant", "individual", "person", "donor", "user", "client"
    noun = next((noun for noun in nouns if noun in column.lower()), None)
    return f"units ({column})" if noun is None else _PEOPLE.get(noun, f"{noun}s")


def furniture_names(furniture: str) -> list[str]:
    """The names in the attribute ``furniture``, such as ``"lamp, plant"``."""
    return [name.strip() for name in furniture.split(",") if name.strip()]


def _without_article(phrase: str) -> str:
    return phrase.removeprefix("a ").removeprefix("an ")


def _enumerated(parts: Sequence[str]) -> str:
    if len(parts) < 2:
        return "".join(parts)
    return f"{', '.join(parts[:-1])} and {parts[-1]}"


def records_of(shape: Sequence[int] | None) -> str:
    """What records of such a shape are, in the plural."""
    return "embeddings" if shape is not None and len(shape) == 1 else "images"


def shape_words(shape: Sequence[int]) -> str:
    """How a record is read: ``"read as 28 x 28 x 1"``, or ``"32 numbers each"``."""
    if len(shape) == 1:
        return f"{count_words(shape[0], 'number')} each"
    return f"read as {' x '.join(map(str, shape))}"
