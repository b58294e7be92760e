"""The server's prompts: the request's nouns and classes, and details that it varies by itself.

A bare "a dog is sleeping" (SpinML, Section 3.3) gives images that are all alike. Coat, place, wall,
floor and light tell nothing of the owner when the server draws them, so it varies them at no cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

RARE_WORD = "xyz"
"""What a tuned generator knows a subject by (appendix B.1)."""

_WALLS = ("white", "grey", "blue", "green", "yellow", "pink", "brown", "red")
_FLOORS = ("wooden", "tiled", "carpet")
_LIGHTS = ("bright", "warm", "cold", "dim")
_FURNITURE = ("a sofa", "a bed", "a table", "a lamp", "a plant", "a rug")

OBJECT_LOOKS: Mapping[str, Sequence[str]] = {
    "dog": tuple(
        f"{size} {pattern}{coat} dog"
        for size in ("small", "big")
        for pattern in ("", "spotted ", "patched ")
        for coat in ("brown", "black", "white", "golden", "grey")
    ),
    "cat": tuple(f"{coat} cat" for coat in ("brown", "black", "white", "ginger", "grey")),
    "person": tuple(
        f"person in a {shirt} shirt and {trousers} trousers"
        for shirt in ("red", "blue", "green", "yellow", "white", "purple", "black")
        for trousers in ("blue", "black", "brown", "grey", "green")
    ),
    "bottle": tuple(f"{colour} {{}}" for colour in ("orange", "white", "blue", "green", "brown")),
    "frame": tuple(f"{colour} {{}}" for colour in ("golden", "black", "white", "wooden")),
}
"""How an object may look, by the last word of its noun; ``{}`` stands for the noun."""

USUAL_PLACES: Mapping[str, Sequence[str]] = {
    "person eating": ("at a table",),
    "person drinking": ("on the floor", "on a rug"),
    "person reading": ("on the floor", "on a sofa"),
    "eating": ("on the floor", "on a rug"),
    "walking": ("on the floor", "on a rug"),
    "playing": ("on the floor", "on a rug"),
    "running": ("on the floor", "on a rug"),
    "sitting": ("on the floor", "on a sofa", "on a bed", "on a rug"),
    "sleeping": ("on the floor", "on a sofa", "on a bed", "on a rug"),
    "": ("on a table", "on a shelf", "on the floor", "on a sofa", "on a bed"),
}
"""Where things usually are, by noun and class, by class, or, for things, by neither."""


@dataclass(frozen=True, slots=True)
class ScenePrompts:
    """Prompts of one request."""

    background: str

    def target(
        self,
        noun: str,
        class_name: str | None,
        rng: np.random.Generator,
        *,
        word: str | None = None,
    ) -> str:
        """One object, what it does, and a room about it.

        ``class_name`` is None for a thing that does nothing; ``word`` names the subject that the
        generator was tuned on, whose look is not varied.
        """
        action = f" {class_name}" if class_name else ""
        look = f"{word} {noun}" if word else _look(noun, rng)
        place = _one(_places(noun, class_name), rng)
        article = "an" if look[0] in "aeiou" else "a"
        return f"{article} {look}{action} {place} in a {self._room(rng)}"

    def room(self, rng: np.random.Generator, *, word: str | None = None) -> str:
        """The background alone."""
        if word:
            return f"a {word} {self.background}"
        return f"an empty {self._room(rng, _one(_FURNITURE, rng))}"

    def _room(self, rng: np.random.Generator, *things: str) -> str:
        wall, floor, light = (_one(values, rng) for values in (_WALLS, _FLOORS, _LIGHTS))
        details = ", ".join([f"a {wall} wall", f"a {floor} floor", *things])
        return f"{self.background} with {details} and {light} light"


def _one(values: Sequence[str], rng: np.random.Generator) -> str:
    return values[int(rng.integers(len(values)))]


def _look(noun: str, rng: np.random.Generator) -> str:
    looks = OBJECT_LOOKS.get(noun.split()[-1])
    return _one(looks, rng).format(noun) if looks else noun


def _places(noun: str, class_name: str | None) -> Sequence[str]:
    keys = (f"{noun.split()[-1]} {class_name}", class_name or "", "")
    return next(USUAL_PLACES[key] for key in keys if key in USUAL_PLACES)
