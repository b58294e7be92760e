"""Puts targets on the stage: each kind on the floor or on its piece of furniture, or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from understudy.core.phrases import EMPTY
from understudy.playhouse import colours
from understudy.playhouse.attributes import choose
from understudy.playhouse.canvas import Affine
from understudy.playhouse.colours import Colour, varied
from understudy.playhouse.dice import Dice
from understudy.playhouse.outline import Ink
from understudy.playhouse.room import Piece, Room
from understudy.playhouse.scene import (
    TINTS,
    Actor,
    Light,
    Look,
    Scene,
    ScenePlan,
    arrange,
    look_of,
    main_colour,
    plan_room,
    seat_of,
    stands_out,
)

_TRIES = 6


def sample_scene(
    target: str,
    conditions: Mapping[str, str],
    look: Dice,
    vary: Dice,
    places: frozenset[str] | None = None,
) -> Scene:
    """A random scene of a target, or ``"empty"``, with some attributes settled.

    ``look`` chooses what a home keeps, the target's look and the room; ``vary`` the rest: status,
    place, light, camera. A target can be in ``places``; None: everywhere.
    """
    attributes = choose(target, conditions, look, vary, places)
    plan = plan_room(look)
    stage, actors = list[Piece](), tuple[Actor, ...]()
    if target == EMPTY:
        wall = varied(colours.WALLS[attributes["wall"]], look)
        ground = varied(look.of(colours.FLOORS[attributes["floor"]]), look)
        middle = vary.between(0.42, 0.58)
    else:
        targets = ("bottle", "frame") if target == "two-objects" else (target,)
        looks = {kind: look_of(kind, attributes, look) for kind in targets}
        key = main_colour(looks[targets[0]])
        wall = _wall(attributes, "wall" in conditions, key, look)
        ground = _ground(attributes["floor"], key, look)
        plan = _recoloured(plan, key, look)
        staging = _Staging(attributes, plan, vary, (wall, ground))
        if "dog" in looks:
            stage, actors = _dog(staging, looks["dog"])
        elif "person" in looks:
            stage, actors = _person(staging, looks["person"])
        else:
            stage, actors = _things(staging, looks)
        middle = actors[0].at[2]
    room = Room(
        wall=wall,
        paper=attributes["paper"],
        floor=attributes["floor"],
        ground=ground,
        horizon=plan.horizon,
        window=None if attributes["window"] == "none" else attributes["window"],
        window_x=plan.window_x,
        curtain=plan.curtain,
        pieces=tuple(arrange(attributes, plan, stage, middle)),
    )
    return Scene(
        attributes, room, Ink(attributes["style"]), camera(vary), light(attributes, vary), actors
    )


def camera(dice: Dice) -> Affine:
    """A small shift and zoom."""
    zoom = 1 + dice.between(-0.02, 0.09)
    return (
        zoom,
        0,
        0.5 - 0.5 * zoom + dice.between(-0.035, 0.035),
        0,
        zoom,
        0.5 - 0.5 * zoom + dice.between(-0.03, 0.02),
    )


def light(attributes: Mapping[str, str], dice: Dice) -> Light:
    """Tint and gradient of a light."""
    power = dice.between(0.95, 1.04)
    red, green, blue = TINTS[attributes["light"]]
    return Light(
        tint=(red * power, green * power, blue * power),
        slope=(dice.between(-0.16, 0.16), dice.between(-0.14, 0.06)),
    )


def _wall(attributes: dict[str, str], settled: bool, key: Colour, dice: Dice) -> Colour:
    """A wall that the target stands out from, if nobody asked for another."""
    for _ in range(_TRIES):
        wall = varied(colours.WALLS[attributes["wall"]], dice)
        if settled or stands_out(key, wall):
            return wall
        attributes["wall"] = dice.of(tuple(colours.WALLS))
    return wall


def _ground(floor: str, key: Colour, dice: Dice) -> Colour:
    for _ in range(_TRIES):
        ground = varied(dice.of(colours.FLOORS[floor]), dice)
        if stands_out(key, ground):
            break
    return ground


def _recoloured(plan: ScenePlan, key: Colour, dice: Dice) -> ScenePlan:
    """Sofas, beds and rugs that the target stands out from."""
    painted = dict(plan.colours)
    for name, palette in (
        ("sofa", colours.SOFAS),
        ("bed", colours.BEDDING),
        ("rug", colours.BEDDING),
        ("table", colours.WOODS),
        ("shelf", colours.WOODS),
    ):
        for _ in range(_TRIES):
            main, second = painted[name]
            if stands_out(key, main):
                break
            painted[name] = (varied(dice.of(palette), dice), second)
    return replace(plan, colours=painted)


_Cast = tuple[list[Piece], tuple[Actor, ...]]
"""What stands on the stage, and the targets."""


class _Staging(NamedTuple):
    """What targets are placed by; ``behind`` are the colours that they stand out from."""

    attributes: Mapping[str, str]
    plan: ScenePlan
    dice: Dice
    behind: tuple[Colour, Colour]


def _contrast(look: Look, behind: tuple[Colour, ...]) -> bool:
    """Whether a dark target is drawn on something as dark."""
    key = main_colour(look)
    return max(key) < 100 and any(max(colour) < 130 for colour in behind)


def _dog(staging: _Staging, look: Look) -> _Cast:
    attributes, plan, dice, behind = staging
    small = attributes["size"] == "small"
    scale = dice.between(0.40, 0.46) if small else dice.between(0.53, 0.60)
    status, place = attributes["status"], attributes["place"]
    x, stage = dice.between(0.42, 0.58), []
    flip = dice.of((-1, 1))
    y = dice.between(max(plan.horizon + 0.14, 0.80), 0.93)
    if place in ("sofa", "bed"):
        wide = dice.between(0.86, 0.96)
        piece = Piece(place, x, dice.between(0.86, 0.92), wide, *plan.colours[place])
        stage.append(piece)
        y = seat_of(piece) + 0.03
        x += dice.between(-0.06, 0.06)
    elif place == "rug":
        y = dice.between(0.84, 0.9)
        stage.append(Piece("rug", x, y - 0.005, scale * 1.75, *plan.colours["rug"]))
    if status == "playing":
        y -= 0.03
    at = (scale * flip, 0, x, 0, scale, y)
    contrast = _contrast(look, (*behind, *(piece.colour for piece in stage)))
    return stage, (Actor("dog", status, look, at, contrast),)


def _person(staging: _Staging, look: Look) -> _Cast:
    attributes, plan, dice, behind = staging
    status, place = attributes["status"], attributes["place"]
    stage: list[Piece] = []
    scale, x = dice.between(0.63, 0.79), dice.between(0.42, 0.58)
    flip = dice.of((-1, 1))
    y = dice.between(0.92, 0.97)
    seated = place == "sofa"
    if status == "eating":
        scale, y = dice.between(0.76, 0.86), dice.between(0.96, 1.01)
    elif seated:
        piece = Piece("sofa", x, 0.88, dice.between(0.84, 0.92), *plan.colours["sofa"])
        stage.append(piece)
        y = seat_of(piece) + 0.32 * scale
    elif place == "rug":
        stage.append(Piece("rug", x, y - 0.01, 0.8, *plan.colours["rug"]))
    at = (scale * flip, 0, x, 0, scale, y)
    return stage, (Actor("person", status, look, at, _contrast(look, behind), seated),)


def _things(staging: _Staging, looks: Mapping[str, Look]) -> _Cast:
    attributes, plan, dice, behind = staging
    stage: dict[str, Piece] = {}
    actors: list[Actor] = []
    positions: list[float] = []
    for kind, look in looks.items():
        key = "frame place" if kind == "frame" and "frame place" in attributes else "place"
        place = attributes[key]
        scale = dice.between(0.27, 0.38) if kind == "bottle" else dice.between(0.19, 0.29)
        middle = 0.5
        if place == "floor":
            x, y = dice.between(0.14, 0.86), dice.between(plan.horizon + 0.12, 0.95)
        else:
            if place not in stage:
                stage[place] = _support(place, plan, dice, len(looks) > 1)
            piece = stage[place]
            middle = piece.x
            x = middle + piece.width * dice.between(-0.32, 0.32)
            y = seat_of(piece) + (0.005 if place in ("table", "shelf") else 0.02)
        x = min(0.8, max(0.2, x))
        for other in positions:  # beside each other, not one behind the other
            if abs(x - other) < 0.24:
                x = min((other - 0.25, other + 0.25), key=lambda side: abs(side - middle))
        positions.append(x)
        at = (scale, 0, x, 0, scale, y)
        actors.append(Actor(kind, "", look, at, _contrast(look, behind)))
    # What stands lower stands nearer.
    actors.sort(key=lambda actor: actor.at[5])
    return list(stage.values()), tuple(actors)


def _support(place: str, plan: ScenePlan, dice: Dice, wide: bool) -> Piece:
    paint = plan.colours[place]
    x = dice.between(0.36, 0.64)
    if place == "shelf":
        return Piece(place, x, dice.between(0.50, 0.60), 0.7 if wide else 0.5, *paint)
    if place == "table":
        return Piece(place, x, dice.between(0.86, 0.96), dice.between(0.6, 0.8), *paint)
    return Piece(place, x, dice.between(0.84, 0.94), dice.between(0.8, 0.95), *paint)
