"""What can be said of a scene: the attributes, their values, and a random choice of them."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.core.errors import ConfigError
from understudy.core.phrases import EMPTY, furniture_names
from understudy.playhouse import colours, dog, person
from understudy.playhouse.dice import Dice

TARGETS = ("dog", "person", "bottle", "frame", "two-objects")
PLACES: Mapping[str, Mapping[str, float]] = {
    "dog eating": {"floor": 3, "rug": 1},
    "dog sitting": {"floor": 2, "sofa": 2, "bed": 1, "rug": 1},
    "dog sleeping": {"floor": 1, "sofa": 2, "bed": 2, "rug": 1.5},
    "dog playing": {"floor": 3, "rug": 1},
    "person eating": {"table": 1},
    "person drinking": {"floor": 3, "rug": 1},
    "person walking": {"floor": 3, "rug": 1},
    "person reading": {"floor": 1, "sofa": 1.2},
    "thing": {"table": 2, "shelf": 1.5, "floor": 1.5, "sofa": 1, "bed": 1},
}
LARGE = ("bed", "sofa", "table")
SMALL = ("lamp", "plant", "rug", "picture")

_COMMON: Mapping[str, tuple[str, ...]] = {
    "wall": tuple(colours.WALLS),
    "paper": ("plain", "striped", "panelled"),
    "floor": tuple(colours.FLOORS),
    "window": ("none", "day", "sunset", "night"),
    "light": ("bright", "warm", "cold", "dim"),
    "style": ("flat", "outlined", "soft"),
}
_BOTTLE = {"bottle": tuple(colours.BOTTLES), "cap": tuple(colours.CAPS)}
_FRAME = {"frame": tuple(colours.FRAME_COLOURS)}
LOOKS: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "dog": {"coat": tuple(colours.COATS), "size": ("small", "big")},
    "person": {
        "shirt": tuple(colours.SHIRTS),
        "trousers": tuple(colours.TROUSERS),
        "hair": tuple(colours.HAIRS),
    },
    "bottle": _BOTTLE,
    "frame": _FRAME,
    "two-objects": {**_BOTTLE, **_FRAME},
    EMPTY: {},
}
"""Attributes of each target that make it look like itself."""

TARGET_STATUSES: Mapping[str, tuple[str, ...]] = {
    "dog": dog.DOG_STATUSES,
    "person": person.PERSON_STATUSES,
}

_ODDS: Mapping[str, Mapping[str, float]] = {
    "paper": {"plain": 0.6, "striped": 0.2, "panelled": 0.2},
    "window": {"none": 0.3, "day": 0.4, "sunset": 0.1, "night": 0.2},
    "light": {"bright": 0.4, "warm": 0.25, "cold": 0.2, "dim": 0.15},
}


def values_of(target: str) -> dict[str, tuple[str, ...]]:
    """Every attribute of a target with the values it can take, but the furniture.

    Raises:
        ConfigError: There is no such target.
    """
    if target not in LOOKS:
        raise ConfigError(f"there is no target {target!r}; there are {', '.join(LOOKS)}")
    values = {"target": (target,), **LOOKS[target], **_COMMON}
    if target == EMPTY:
        return values
    if target in TARGET_STATUSES:
        values["status"] = TARGET_STATUSES[target]
    keys = [key for key in PLACES if key.startswith(f"{target} ")] or ["thing"]
    values["place"] = tuple(dict.fromkeys(place for key in keys for place in PLACES[key]))
    if target == "two-objects":
        values["frame place"] = values["place"]
    return values


def check(target: str, attributes: Mapping[str, str]) -> None:
    """Refuse attributes that do not exist.

    Raises:
        ConfigError: The target, an attribute or a value does not exist, or the target is never in
            that place with that status.
    """
    possible = {**values_of(target), "furniture": LARGE + SMALL}
    for key, value in attributes.items():
        if key not in possible:
            raise ConfigError(
                f"{key!r} is no attribute of the target {target!r}; it has {', '.join(possible)}"
            )
        for name in furniture_names(value) if key == "furniture" else (value,):
            if name not in possible[key]:
                raise ConfigError(
                    f"{key} of a {target} is one of {', '.join(possible[key])}, not {name!r}"
                )
    status, place = attributes.get("status"), attributes.get("place")
    if status is not None and place is not None and place not in PLACES[f"{target} {status}"]:
        raise ConfigError(
            f"no {target} is {status} on a {place}; the places are "
            f"{', '.join(PLACES[f'{target} {status}'])}"
        )


def choose(
    target: str,
    settings: Mapping[str, str],
    look: Dice,
    vary: Dice,
    places: frozenset[str] | None = None,
) -> dict[str, str]:
    """Every attribute of a scene.

    ``look`` chooses what a home keeps, the target's look and the room; ``vary`` the rest. A target
    can be in ``places``; None: everywhere.
    """
    attributes = {"target": target}
    for key, values in LOOKS[target].items():
        attributes[key] = look.of(values)
    for key, values in _COMMON.items():
        dice = vary if key == "light" else look
        attributes[key] = dice.weighted(_ODDS[key]) if key in _ODDS else dice.of(values)
    if target != EMPTY:
        attributes |= _whereabouts(target, settings, vary, places)
    attributes.update(settings)
    if "furniture" not in settings:
        names = _furniture(attributes, look.child("furniture"))
        if names:
            attributes["furniture"] = ", ".join(names)
    return attributes


def _whereabouts(
    target: str, settings: Mapping[str, str], dice: Dice, places: frozenset[str] | None
) -> dict[str, str]:
    """What a target does, where it does anything, and where it is."""
    attributes: dict[str, str] = {}
    odds = PLACES["thing"]
    if target in TARGET_STATUSES:
        status, place = settings.get("status"), settings.get("place")
        attributes["status"] = status or dice.of(
            [
                can
                for can in TARGET_STATUSES[target]
                if place is None or place in PLACES[f"{target} {can}"]
            ]
        )
        odds = PLACES[f"{target} {attributes['status']}"]
    if places is not None:
        odds = {place: odd for place, odd in odds.items() if place in places}
    attributes["place"] = dice.weighted(odds)
    if target == "two-objects":
        attributes["frame place"] = attributes["place"] if dice.chance(0.4) else dice.weighted(odds)
    return attributes


def _furniture(attributes: Mapping[str, str], dice: Dice) -> list[str]:
    """One to three pieces, in an order that the dice alone decide, so that a home keeps them."""
    supports = {attributes.get("place", ""), attributes.get("frame place", "")}
    if "floor" in supports:  # whatever stands on the floor must not seem to stand on a rug
        supports.add("rug")
    count = 1 + dice.below(3)
    order = [*SMALL, dice.of(LARGE)]
    order = [order.pop(dice.below(len(order))) for _ in range(len(order))]
    crowded = bool(supports & {*LARGE, "shelf"})
    free = [name for name in order if name not in supports and not (crowded and name in LARGE)]
    names = free[:count]
    # Always in one order: the same furniture is the same attribute.
    return [name for name in LARGE + SMALL if name in names]
