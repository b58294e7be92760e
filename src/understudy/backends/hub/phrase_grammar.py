"""A grammar of phrases: what to look for in an image, and how to say it.

As JSON::

    {"prompts": ["{}", "a photo of {}"],
     "slots": {"target": {"values": {"dog": ["a dog"], "person": ["a person", "somebody"]}},
               "coat": {"values": {"brown": ["a brown {target}"], "black": ["a black {target}"]},
                        "when": {"target": ["dog"]}}},
     "templates": [{"text": "a {coat} dog", "when": {"target": ["dog"]}}, "a {target}"]}

Slots are decided in their order. A slot may be a list, of which the first whose condition holds is
used: other statuses for a dog than for a person. In short, a slot is only its values.

The playhouse's dump (``understudy.playhouse.grammar.as_json``) is read as well.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from understudy.core.errors import BackendError, ConfigError

Attributes = dict[str, str]
Condition = Mapping[str, Sequence[str]]

PROMPTS = ("{}", "a photo of {}")

_PLACE = re.compile(r"\{(\w+)\}")
_ARTICLE = re.compile(r"\b([Aa]) (?=[aeiou])")
_OPEN = re.compile(r"(\b[Aa] )?\{(\w+)\}")  # with the article before it, to make it fit


def places(texts: Iterable[str]) -> set[str]:
    """The slots that stand in texts, as ``{name}``."""
    return {name for text in texts for name in _PLACE.findall(text)}


@dataclass(frozen=True, slots=True)
class Slot:
    """One thing to find out.

    Attributes:
        name: The attribute it decides.
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
        return places(phrase for phrases in self.values.values() for phrase in phrases)


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
        known: dict[str, set[str]] = {}
        for slot in self.slots:
            for value, phrases in slot.values.items():
                if isinstance(phrases, str) or not phrases:
                    raise ConfigError(f"slot {slot.name}: {value} needs a list of phrases")
            if not slot.values:
                raise ConfigError(f"slot {slot.name} has no values")
            _check(f"slot {slot.name}", slot.needs, slot.when, known)
            known.setdefault(slot.name, set()).update(slot.values)
        for template in self.templates:
            if not template.text.strip():
                raise ConfigError("a template of captions is empty")
            _check(f"template {template.text!r}", places([template.text]), template.when, known)
        for prompt in self.prompts:
            if "{}" not in prompt:
                raise ConfigError(f"prompt {prompt!r} lacks the place {{}} of its phrase")

    def asks(self, slot: Slot, found: Attributes) -> bool:
        """Whether a slot is to be decided, given what was found so far."""
        return slot.name not in found and fits(slot.when, found) and slot.needs <= found.keys()

    def fill(self, text: str, found: Attributes) -> str:
        """The text with the words of what was found."""
        words = {
            slot.name: slot.words[found[slot.name]]
            for slot in self.slots
            if found.get(slot.name) in slot.words
        }

        def word(match: re.Match[str]) -> str:
            return _fitted((match[1] or "") + words.get(match[2], found[match[2]]))

        return _OPEN.sub(word, text)

    def compose(self, found: Attributes) -> str:
        """The caption for these attributes.

        Raises:
            BackendError: No template fits them.
        """
        for template in self.templates:
            if places([template.text]) <= found.keys() and fits(template.when, found):
                return self.fill(template.text, found)
        raise BackendError(f"the grammar has no template for {found}; add one without a condition")


def _fitted(text: str) -> str:
    """With "an" where it stands first before a vowel."""
    return _ARTICLE.sub(r"\1n ", text, count=1) if text[:2] in ("a ", "A ") else text


def fits(when: Condition, found: Attributes) -> bool:
    """Whether a condition holds for what was found."""
    return all(found.get(name) in values for name, values in when.items())


def _check(what: str, named: set[str], when: Condition, known: Mapping[str, set[str]]) -> None:
    """Refuse slots that come later or not at all, and values that a slot has not."""
    for name in (*when, *sorted(named)):
        if name not in known:
            raise ConfigError(
                f"{what} speaks of {name!r}, which is no slot before it; there are "
                f"{', '.join(known) or 'none'}"
            )
    for name, values in when.items():
        if isinstance(values, str) or not known[name].issuperset(values):
            raise ConfigError(
                f"{what}: {name} is never {values!r}; give a list out of "
                f"{', '.join(sorted(known[name]))}"
            )


def read_grammar(told: Mapping[str, Any] | Path | str) -> PhraseGrammar:
    """A grammar from JSON.

    Args:
        told: What the JSON holds, or its file.

    Raises:
        ConfigError: There is no such file, or it is no grammar.
    """
    read: Any = told
    if not isinstance(told, Mapping):
        try:
            read = json.loads(Path(told).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise ConfigError(f"the grammar {told} cannot be read: {error}") from error
    try:
        if "attributes" in read:
            return _from_dump(read)
        slots = tuple(slot for name, told in read["slots"].items() for slot in _slots(name, told))
        templates = tuple(
            Template(item) if isinstance(item, str) else Template(**item)
            for item in read["templates"]
        )
        return PhraseGrammar(slots, templates, tuple(read.get("prompts", PROMPTS)))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ConfigError(
            f"this is no phrase grammar ({type(error).__name__}: {error}); it is an object with "
            'slots {name: {"values": {value: [phrase, ...]}, "when": {...}}} and templates'
        ) from error


def _slots(name: str, told: Any) -> Iterator[Slot]:
    """A slot in any of its spellings."""
    for one in told if isinstance(told, list) else [told]:
        yield Slot(name, **one) if isinstance(one.get("values"), Mapping) else Slot(name, one)


def _from_dump(told: Mapping[str, Any]) -> PhraseGrammar:
    """The grammar of a dump: ``attributes``, how ``subjects`` are made of them, and ``details``.

    ``possible`` may say for each target which values its attributes take; an attribute that it does
    not name is not asked for. Without it, what not every target has is left out.
    """
    phrases, subjects = told["attributes"], told["subjects"]
    targets = {name: told["attributes"]["target"][name] for name in subjects}
    word = {name: several[0] for name, several in targets.items()}
    target = {name: [_fitted(f"a {word}") for word in several] for name, several in targets.items()}
    slots = [Slot("target", target, words=word)]
    templates = []
    for name, shape in subjects.items():
        forms = {
            **dict.fromkeys(shape["before"], "a {} {target}"),
            **dict.fromkeys(shape["noun"], "a {}"),
            **dict.fromkeys(shape["with"], "a {target} with {}"),
            **dict.fromkeys(shape["in"], "a {target} in {}"),
            **dict.fromkeys(("status", "place"), "a {target} {}"),
            **dict.fromkeys((part for part in told["details"] if part != "furniture"), "{}"),
        }
        known = _known(told, name)
        asked = {part: form for part, form in forms.items() if known.get(part)}
        for part, form in asked.items():
            several = phrases[part]
            values = {
                value: [_fitted(form.replace("{}", phrase)) for phrase in several[value]]
                for value in known[part]
            }
            first = {value: several[value][0] for value in values}
            slots.append(Slot(part, values, {"target": [name]}, first))
        templates.append(Template(_sentence(shape, asked, told["details"]), {"target": [name]}))
    return PhraseGrammar(slots, templates, tuple(told.get("prompts", PROMPTS)))


def _known(told: Mapping[str, Any], target: str) -> Mapping[str, Sequence[str]]:
    """The values that each attribute of a target takes."""
    if "possible" in told:
        known: Mapping[str, Sequence[str]] = told["possible"][target]
        return known
    shape = told["subjects"][target]
    # Not everybody has a collar, and a thing, which is an attribute itself, does nothing.
    unsure = {*shape["before"], *shape["with"], *(("status",) if target in shape["noun"] else ())}
    every = {name: list(values) for name, values in told["attributes"].items()}
    return {name: values for name, values in every.items() if name not in unsure}


def _sentence(shape: Mapping[str, Sequence[str]], asked: Mapping[str, str], details: Any) -> str:
    """A caption with all that is known, in the order that captions have."""

    def those(part: str) -> list[str]:
        return [f"{{{name}}}" for name in shape[part] if name in asked]

    text = " ".join(["a", *those("before"), *(those("noun") or ["{target}"])])
    for joint, part in (("with", "with"), ("in", "in")):
        if those(part):
            text += f" {joint} {' and '.join(those(part))}"
    text += "".join(f" {{{name}}}" for name in ("status", "place") if name in asked)
    return ", ".join([text, *(f"{{{name}}}" for name in details if name in asked)])
