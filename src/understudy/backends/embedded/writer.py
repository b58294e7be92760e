"""``embedded:writer``: captions from a grammar of phrases; no network, no weights.

    embedded:writer                  of anything in the playhouse
    embedded:writer?keep=target      variations may change what somebody does

Variations are read, changed in part, and told in other words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from understudy.backends.phrase_grammar import read_phrases
from understudy.backends.plugin import full_name
from understudy.core.errors import BackendError
from understudy.core.phrases import (
    FURNITURE,
    PLACE,
    SECOND,
    STATUS,
    TARGET,
    AttributeValues,
    Phrases,
    furniture_names,
)
from understudy.core.types import Texts

WRITER_NAME = "embedded:writer"

# How likely a caption from nothing names an attribute; the target and its status always stand.
_SHORT, _USUAL, _LONG = 0.1, 0.45, 0.85
_OFTEN = 0.55
_MOST_FURNITURE = 3  # pieces that a caption may name


@dataclass(frozen=True, slots=True)
class GrammarOptions:
    """Options of the writer.

    Attributes:
        keep: Attributes that a variation never changes, separated by commas: those that make the
            class of a caption.
        grammar: A JSON file with another grammar.
    """

    keep: str = f"{TARGET},{STATUS}"
    grammar: str | None = None


class GrammarWriter:
    """Writes captions, and reads and rewrites them.

    Attributes:
        unread: Texts so far that the grammar could not read, and that were given back unchanged.
    """

    licence = "none"

    def __init__(self, options: GrammarOptions | None = None) -> None:
        options = options or GrammarOptions()
        self.name = full_name(WRITER_NAME, options)
        self.unread = 0
        self._phrases = read_phrases(options.grammar)
        self._keep = frozenset(name.strip() for name in options.keep.split(","))
        self._targets = tuple(self._phrases.possible)

    def write(self, count: int, *, label: str | None = None, seed: int = 0) -> list[str]:
        """``count`` captions from nothing, of a class if one is given.

        A label is a value of the grammar, such as ``"sleeping"``, or words that it can read, such
        as ``"a brown dog"``. Row i depends on ``label``, ``seed`` and i.
        """
        if count < 0:
            raise BackendError(f"{self.name}: cannot write {count} captions")
        starts = self._starts(label)
        return [self._written(starts, _rng(seed, row)) for row in range(count)]

    def vary(self, texts: Texts, *, degree: float = 0.5, seed: int = 0) -> list[str]:
        """One variation a text; a text that the grammar cannot read is given back unchanged.

        ``degree`` in [0, 1] is the share of the attributes that change. Row i depends on its text,
        ``degree``, ``seed`` and i.
        """
        if not 0 <= degree <= 1:
            raise BackendError(f"{self.name}: degree must be in [0, 1], found {degree}")
        if degree == 0:
            return list(texts)
        return [self._varied(text, degree, _rng(seed, row)) for row, text in enumerate(texts)]

    def _starts(self, label: str | None) -> list[AttributeValues]:
        """What is settled for a label: one or more targets, with what else it says."""
        if label is None:
            return [{TARGET: target} for target in self._targets]
        text = label.strip().lower()
        starts = []
        for target in self._targets:
            possible = self._phrases.possible[target]
            exact = [name for name, values in possible.items() if text in values]
            if exact:
                # A class is what something is or does, before it is a colour of something.
                first = min(exact, key=lambda name: (name not in self._keep, exact.index(name)))
                starts.append({TARGET: target, first: text})
        starts = [start for start in starts if start.get(TARGET) == text] or starts
        if starts:
            return starts
        read = self._phrases.read(text)
        for target in self._targets:
            possible = self._phrases.possible[target]
            if read.get(TARGET, target) == target and all(
                value in possible.get(name, (value,) if name == FURNITURE else ())
                for name, value in read.items()
            ):
                starts.append({TARGET: target, **read})
        if not read or not starts:
            states = {s for t in self._targets for s in self._phrases.possible[t].get(STATUS, ())}
            words = ", ".join([*self._targets, *sorted(states)])
            raise BackendError(
                f"{self.name} has no words for the class {label!r}; classes are what it can read, "
                f"such as {words}. Name a --writer that knows others, such as hf:MODEL, or "
                f"{WRITER_NAME}?grammar=FILE"
            )
        return starts

    def _written(self, starts: list[AttributeValues], rng: np.random.Generator) -> str:
        start = starts[int(rng.integers(len(starts)))]
        whole = complete(self._phrases, start, rng)
        detail = (_SHORT, _USUAL, _LONG)[int(rng.choice(3, p=[0.25, 0.45, 0.3]))]
        scene = {
            name: value
            for name, value in whole.items()
            if name in start or name == STATUS or rng.random() < self._likely(name, detail)
        }
        return described(self._phrases, _coherent(scene), rng)

    def _likely(self, attribute: str, detail: float) -> float:
        """How likely an attribute is named: looks and place more often than the room."""
        if attribute == PLACE or attribute in self._phrases.looks:
            return min(1.0, _OFTEN + detail)
        return detail * 0.4 if attribute in ("paper", "style", "window") else detail

    def _varied(self, text: str, degree: float, rng: np.random.Generator) -> str:
        scene = self._phrases.read(text)
        if scene.get(TARGET) not in self._phrases.possible:
            self.unread += 1
            return text
        free = sorted(set(scene) - self._keep - {TARGET})
        exact = degree * len(free)
        count = int(exact) + int(rng.random() < exact - int(exact))
        variant = dict(scene)
        order = [free[index] for index in rng.permutation(len(free))[:count]]
        # What it does comes before where: the place has to fit.
        for attribute in sorted(order, key=lambda name: name != STATUS):
            variant[attribute] = self._other(attribute, variant, rng)
        if variant.get(STATUS) != scene.get(STATUS) and PLACE in variant and PLACE not in order:
            possible = possible_values(self._phrases, PLACE, variant)
            if possible and variant[PLACE] not in possible:
                variant[PLACE] = possible[int(rng.integers(len(possible)))]
        if rng.random() < degree:
            variant = self._more_or_less(variant, rng)
        return described(self._phrases, _coherent(variant), rng)

    def _other(self, attribute: str, scene: AttributeValues, rng: np.random.Generator) -> str:
        """Another value of an attribute, where there is one."""
        if attribute == FURNITURE:
            return _some_furniture(self._phrases, scene, rng)
        context = {
            name: value for name, value in scene.items() if name != PLACE or attribute != STATUS
        }
        values = [
            value
            for value in possible_values(self._phrases, attribute, context)
            if value != scene[attribute]
        ]
        return values[int(rng.integers(len(values)))] if values else scene[attribute]

    def _more_or_less(self, scene: AttributeValues, rng: np.random.Generator) -> AttributeValues:
        """One attribute more, or one less: captions tell more or less of the same."""
        fixed = self._keep | {TARGET, STATUS, SECOND}
        if rng.random() < 0.5:
            droppable = sorted(set(scene) - fixed)
            omission = droppable[int(rng.integers(len(droppable)))] if droppable else None
            return {name: value for name, value in scene.items() if name != omission}
        whole = complete(self._phrases, scene, rng)
        new = sorted(set(whole) - set(scene) - fixed)
        if not new:
            return scene
        addition = new[int(rng.integers(len(new)))]
        return {**scene, addition: whole[addition]}


def possible_values(phrases: Phrases, attribute: str, scene: AttributeValues) -> tuple[str, ...]:
    """The values that an attribute can have besides what is known; none where it has none."""
    target = scene[TARGET]
    possible = phrases.possible[target]
    if attribute in (PLACE, SECOND):
        statuses = [scene[STATUS]] if scene.get(STATUS) else possible.get(STATUS, ())
        places = [
            place for status in statuses for place in phrases.places.get(f"{target} {status}", ())
        ] or phrases.places.get("thing", ())
        return tuple(
            dict.fromkeys(place for place in places if place in possible.get(attribute, ()))
        )
    values = possible.get(attribute, ())
    if attribute == STATUS and PLACE in scene:
        anywhere = (scene[PLACE],)
        values = [
            status
            for status in values
            if scene[PLACE] in phrases.places.get(f"{target} {status}", anywhere)
        ]
    return tuple(values)


def complete(phrases: Phrases, scene: AttributeValues, rng: np.random.Generator) -> AttributeValues:
    """Everything that can be said of a target, at random but for what is known."""
    whole = dict(scene)
    # The status first: where something can be depends on what it does.
    order = sorted(phrases.possible[scene[TARGET]], key=lambda name: (name != STATUS, name))
    for attribute in order:
        if attribute in whole:
            continue
        if values := possible_values(phrases, attribute, whole):
            whole[attribute] = _choice(values, rng)
    if FURNITURE in phrases.attributes and FURNITURE not in whole:
        whole[FURNITURE] = _some_furniture(phrases, whole, rng)
    return whole


def _some_furniture(phrases: Phrases, scene: AttributeValues, rng: np.random.Generator) -> str:
    """Some pieces of furniture; what something stands on is not among them."""
    names = list(phrases.attributes[FURNITURE])
    free = [name for name in names if name not in (scene.get(PLACE), scene.get(SECOND))]
    count = min(len(free), 1 + int(rng.integers(_MOST_FURNITURE)))
    selection = {free[index] for index in rng.choice(len(free), count, replace=False)}
    return ", ".join(name for name in names if name in selection)


def described(phrases: Phrases, scene: AttributeValues, rng: np.random.Generator) -> str:
    """A caption that says all of these attributes, in random phrases."""
    return phrases.describe(
        scene,
        lambda values: _choice(values, rng),
        lambda frame, pair, _: frame.replace(" is ", " are ") if pair else frame,
    )


def _choice(values: Sequence[str], rng: np.random.Generator) -> str:
    return values[int(rng.integers(len(values)))]


def _coherent(scene: AttributeValues) -> AttributeValues:
    """Without what cannot be said alone: a wall's paper, furniture that something stands on."""
    if "paper" in scene and "wall" not in scene:
        scene = {name: value for name, value in scene.items() if name != "paper"}
    if SECOND in scene and PLACE not in scene:
        scene = {name: value for name, value in scene.items() if name != SECOND}
    if FURNITURE in scene:
        supports = {scene.get(PLACE), scene.get(SECOND)}
        furniture = [name for name in furniture_names(scene[FURNITURE]) if name not in supports]
        scene = {name: value for name, value in scene.items() if name != FURNITURE}
        scene |= {FURNITURE: ", ".join(furniture)} if furniture else {}
    return scene


def _rng(seed: int, row: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence((seed % 2**64, row)))
