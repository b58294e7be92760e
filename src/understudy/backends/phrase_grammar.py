"""Grammars of phrases in JSON: what captions say, and what to look for in an image.

A grammar of captions (`understudy.core.phrases`) says what can be written. What to look for in an
image follows from it, or has a form of its own::

    {"prompts": ["{}", "a photo of {}"],
     "slots": {"target": {"values": {"dog": ["a dog"], "person": ["a person", "somebody"]}},
               "coat": {"values": {"brown": ["a brown {target}"], "black": ["a black {target}"]},
                        "when": {"target": ["dog"]}}},
     "templates": [{"text": "a {coat} dog", "when": {"target": ["dog"]}}, "a {target}"]}

Slots are decided in their order. A slot may be a list, of which the first whose condition holds is
used: other statuses for a dog than for a person. In short, a slot is only its values.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from understudy.core.damaged_files import from_json
from understudy.core.errors import BackendError, ConfigError
from understudy.core.phrases import FURNITURE, PLACE, STATUS, TARGET, AttributeValues, Phrases

Condition = Mapping[str, Sequence[str]]

PROMPTS = ("{}", "a photo of {}")

_SLOT = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")
_OPEN = re.compile(r"(\b[Aa] )?\{(\w+)\}")  # with the article before it, to make it fit


def open_slots(texts: Iterable[str]) -> set[str]:
    """The slots that stand in texts, as ``{name}``."""
    return {name for text in texts for name in _SLOT.findall(text)}


@dataclass(frozen=True, slots=True)
class Slot:
    """One thing to find out.

    Attributes:
        values: Each value's phrases. ``{name}`` in a phrase stands for the word of an earlier slot.
        when: Earlier slots and the values of theirs under which this one is asked for.
        words: A value's word in captions and phrases, where it is not the value itself.
    """

    name: str
    values: Mapping[str, Sequence[str]]
    when: Condition = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)

    @property
    def needs(self) -> set[str]:
        """The slots that its phrases name."""
        return open_slots(phrase for phrases in self.values.values() for phrase in phrases)


@dataclass(frozen=True, slots=True)
class Template:
    """A caption with places for slots, ``{name}``; used where its condition holds."""

    text: str
    when: Condition = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PhraseGrammar:
    """What to look for in an image and how to say it.

    Attributes:
        slots: In the order in which they are decided.
        templates: The first one whose condition holds, and whose slots were all decided, is used.
        prompts: Sentences that every phrase is put in, at ``{}``.
    """

    slots: Sequence[Slot]
    templates: Sequence[Template]
    prompts: Sequence[str] = PROMPTS

    def __post_init__(self) -> None:
        if not self.slots or not self.templates or not self.prompts:
            raise ConfigError("a phrase grammar needs slots, templates and prompts")
        earlier: dict[str, set[str]] = {}
        for slot in self.slots:
            for value, phrases in slot.values.items():
                if isinstance(phrases, str) or not phrases:
                    raise ConfigError(f"slot {slot.name}: {value} needs a list of phrases")
            if not slot.values:
                raise ConfigError(f"slot {slot.name} has no values")
            _check(f"slot {slot.name}", slot.needs, slot.when, earlier)
            earlier.setdefault(slot.name, set()).update(slot.values)
        for template in self.templates:
            if not template.text.strip():
                raise ConfigError("a template of captions is empty")
            _check(
                f"template {template.text!r}", open_slots([template.text]), template.when, earlier
            )
        for prompt in self.prompts:
            if "{}" not in prompt:
                raise ConfigError(f"prompt {prompt!r} lacks the place {{}} of its phrase")

    def asks(self, slot: Slot, scene: AttributeValues) -> bool:
        """Whether a slot is to be decided, given the values that are known so far."""
        return slot.name not in scene and fits(slot.when, scene) and slot.needs <= scene.keys()

    def fill(self, text: str, scene: AttributeValues) -> str:
        """The text with the words of the known values."""
        words = {
            slot.name: slot.words[scene[slot.name]]
            for slot in self.slots
            if scene.get(slot.name) in slot.words
        }

        def word(match: re.Match[str]) -> str:
            return _with_article((match[1] or "") + words.get(match[2], scene[match[2]]))

        return _OPEN.sub(word, text)

    def compose(self, scene: AttributeValues) -> str:
        """The caption for these attributes."""
        for template in self.templates:
            if open_slots([template.text]) <= scene.keys() and fits(template.when, scene):
                return self.fill(template.text, scene)
        raise BackendError(f"the grammar has no template for {scene}; add one without a condition")


def _with_article(text: str) -> str:
    """With "an" where it stands first before a vowel."""
    return _ARTICLE.sub(r"\1n ", text, count=1) if text[:2] in ("a ", "A ") else text


def fits(when: Condition, scene: AttributeValues) -> bool:
    """Whether a condition holds for the known values."""
    return all(scene.get(name) in values for name, values in when.items())


def _check(what: str, slots: set[str], when: Condition, earlier: Mapping[str, set[str]]) -> None:
    """Refuse slots that come later or not at all, and values that a slot has not."""
    for name in (*when, *sorted(slots)):
        if name not in earlier:
            raise ConfigError(
                f"{what} speaks of {name!r}, which is no slot before it; there are "
                f"{', '.join(earlier) or 'none'}"
            )
    for name, values in when.items():
        if isinstance(values, str) or not earlier[name].issuperset(values):
            raise ConfigError(
                f"{what}: {name} is never {values!r}; give a list out of "
                f"{', '.join(sorted(earlier[name]))}"
            )


def read_grammar(source: Mapping[str, Any] | Path | str) -> PhraseGrammar:
    """What to look for in an image, from JSON in either form."""
    data = _json_object(source)
    try:
        prompts = tuple(data.get("prompts", PROMPTS))
        if "attributes" in data:
            return _grammar_of(Phrases.from_json(data), prompts)
        slots = tuple(slot for name, form in data["slots"].items() for slot in _slots(name, form))
        templates = tuple(
            Template(item) if isinstance(item, str) else Template(**item)
            for item in data["templates"]
        )
        return PhraseGrammar(slots, templates, prompts)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"this is no phrase grammar ({type(error).__name__}: {error}); it is an object with "
            'slots {name: {"values": {value: [phrase, ...]}, "when": {...}}} and templates'
        ) from error


def read_phrases(source: Mapping[str, Any] | Path | str | None = None) -> Phrases:
    """What captions say, from JSON."""
    if source is None:
        packaged = files("understudy.backends.embedded").joinpath("studio", "grammar.json")
        source = json.loads(packaged.read_text("utf-8"))
    data = _json_object(source)
    for key in ("frames", "short_frames", "possible"):
        if not data.get(key):
            raise ConfigError(f"the grammar lacks {key}; without it no captions can be written")
    return Phrases.from_json(data)


def _json_object(source: Any) -> Mapping[str, Any]:
    data = source
    if not isinstance(source, Mapping):
        try:
            data = from_json(Path(source).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"the grammar {source} cannot be read: {error}") from error
    if not isinstance(data, Mapping):
        raise ConfigError(f"{source} is no phrase grammar: it holds no JSON object")
    return data


def _slots(name: str, form: Any) -> Iterator[Slot]:
    """A slot in any of its spellings."""
    for item in form if isinstance(form, list) else [form]:
        yield Slot(name, **item) if isinstance(item.get("values"), Mapping) else Slot(name, item)


def _grammar_of(phrases: Phrases, prompts: Sequence[str]) -> PhraseGrammar:
    """What to look for in images that are described by these phrases."""
    targets = {name: phrases.attributes[TARGET][name] for name in phrases.subjects}
    noun = {name: alternatives[0] for name, alternatives in targets.items()}
    target = {
        name: [_with_article(f"a {word}") for word in alternatives]
        for name, alternatives in targets.items()
    }
    slots = [Slot(TARGET, target, words=noun)]
    templates = []
    for name, shape in phrases.subjects.items():
        forms = {
            **dict.fromkeys(shape["before"], "a {} {target}"),
            **dict.fromkeys(shape["noun"], "a {}"),
            **dict.fromkeys(shape["with"], "a {target} with {}"),
            **dict.fromkeys(shape["in"], "a {target} in {}"),
            **dict.fromkeys((STATUS, PLACE), "a {target} {}"),
            **dict.fromkeys((part for part in phrases.details if part != FURNITURE), "{}"),
        }
        possible = phrases.possible[name]
        parts = {part: form for part, form in forms.items() if possible.get(part)}
        for part, form in parts.items():
            alternatives = phrases.attributes[part]
            values = {
                value: [_with_article(form.replace("{}", text)) for text in alternatives[value]]
                for value in possible[part]
            }
            first = {value: alternatives[value][0] for value in values}
            slots.append(Slot(part, values, {TARGET: [name]}, first))
        templates.append(Template(_sentence(shape, parts, phrases.details), {TARGET: [name]}))
    return PhraseGrammar(slots, templates, prompts)


def _sentence(
    shape: Mapping[str, Sequence[str]], parts: Mapping[str, str], details: Sequence[str]
) -> str:
    """A caption with all that is known, in the order that captions have."""

    def slots_of(part: str) -> list[str]:
        return [f"{{{name}}}" for name in shape[part] if name in parts]

    text = " ".join(["a", *slots_of("before"), *(slots_of("noun") or ["{target}"])])
    for preposition in ("with", "in"):
        if slots_of(preposition):
            text += f" {preposition} {' and '.join(slots_of(preposition))}"
    text += "".join(f" {{{name}}}" for name in (STATUS, PLACE) if name in parts)
    return ", ".join([text, *(f"{{{name}}}" for name in details if name in parts)])
