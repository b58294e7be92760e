"""From attributes to a scene: colours, where everything stands, light and camera."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from understudy.core.phrases import furniture_names
from understudy.playhouse import colours
from understudy.playhouse.attributes import LARGE
from understudy.playhouse.canvas import Affine
from understudy.playhouse.colours import Colour, distance, varied
from understudy.playhouse.dice import Dice
from understudy.playhouse.dog import DogLook
from understudy.playhouse.furniture import SEATS
from understudy.playhouse.outline import Ink
from understudy.playhouse.person import PersonLook
from understudy.playhouse.room import Piece, Room
from understudy.playhouse.things import BottleLook, FrameLook

Look = DogLook | PersonLook | BottleLook | FrameLook


@dataclass(frozen=True, slots=True)
class Actor:
    """A target in the scene.

    Attributes:
        kind: ``"dog"``, ``"person"``, ``"bottle"`` or ``"frame"``.
    """

    kind: str
    status: str
    look: Look
    at: Affine
    contrast: bool = False
    seated: bool = False


@dataclass(frozen=True, slots=True)
class Light:
    """What the light and the lens do to the picture.

    Attributes:
        slope: How much brighter it gets from left to right and from top to bottom.
        vignette: How dark the corners are, 0 to 1.
        sensor_noise: Standard deviation of sensor noise, in levels of 255.
    """

    tint: tuple[float, float, float] = (1.0, 1.0, 1.0)
    slope: tuple[float, float] = (0.0, 0.0)
    vignette: float = 0.0
    sensor_noise: float = 0.0
    sensor_noise_seed: int = 0


@dataclass(frozen=True, slots=True)
class Scene:
    """All that a picture is drawn from."""

    attributes: dict[str, str]
    room: Room
    ink: Ink
    camera: Affine
    light: Light
    actors: tuple[Actor, ...]


TINTS: Mapping[str, tuple[float, float, float]] = {
    "bright": (1.04, 1.04, 1.03),
    "warm": (1.05, 0.99, 0.88),
    "cold": (0.92, 0.98, 1.06),
    "dim": (0.75, 0.74, 0.76),
}


@dataclass(frozen=True, slots=True)
class ScenePlan:
    """What a home keeps of its room: where things are, and their colours."""

    horizon: float
    window_x: float
    curtain: Colour | None
    side: int
    colours: Mapping[str, tuple[Colour, Colour]]
    large_x: float


def plan_room(dice: Dice) -> ScenePlan:
    """Colours and places of everything that may stand in a room."""
    wood = dice.of(colours.WOODS)
    painted = {
        "sofa": (varied(dice.of(colours.SOFAS), dice), dice.of(colours.BRIGHT)),
        "bed": (varied(dice.of(colours.BEDDING), dice), wood),
        "table": (varied(wood, dice), wood),
        "shelf": (varied(dice.of(colours.WOODS), dice), wood),
        "lamp": (dice.of(((244, 208, 120), (240, 170, 130), (226, 230, 224))), wood),
        "plant": (dice.of(((196, 104, 68), (232, 226, 214), (86, 106, 140))), wood),
        "rug": (varied(dice.of(colours.BEDDING), dice), (240, 230, 210)),
        "picture": (dice.of(colours.WOODS), dice.of(colours.BRIGHT)),
    }
    curtains = (None, (214, 110, 100), (230, 222, 206), (110, 140, 176), (150, 164, 120))
    return ScenePlan(
        horizon=dice.between(0.60, 0.67),
        window_x=dice.of((0.24, 0.5, 0.76)) + dice.between(-0.04, 0.04),
        curtain=dice.of(curtains),
        side=dice.of((-1, 1)),
        colours=painted,
        large_x=dice.between(0.3, 0.7),
    )


def look_of(kind: str, attributes: Mapping[str, str], dice: Dice) -> Look:
    """Colours and proportions that fit the attributes."""
    toy = dice.of(colours.BRIGHT)
    if kind == "dog":
        small = attributes["size"] == "small"
        return DogLook(
            coat=varied(colours.COATS[attributes["coat"]], dice, 8),
            ears=dice.of(("hanging", "pointed")),
            head=dice.between(1.1, 1.2) if small else dice.between(0.95, 1.05),
            legs=dice.between(0.95, 1.15),
            body=dice.between(0.94, 1.08),
            toy=toy,
            muzzle=dice.of((0.12, 0.4)),
        )
    if kind == "person":
        wood = dice.of(colours.WOODS)
        return PersonLook(
            shirt=varied(colours.SHIRTS[attributes["shirt"]], dice, 8),
            trousers=varied(colours.TROUSERS[attributes["trousers"]], dice, 8),
            hair=varied(colours.HAIRS[attributes["hair"]], dice, 6),
            skin=dice.of(colours.SKINS),
            cut=dice.of(("short", "long", "bun")),
            head=dice.between(0.98, 1.12),
            build=dice.between(0.92, 1.12),
            toy=toy,
            wood=wood,
        )
    if kind == "bottle":
        body, cap = colours.BOTTLES[attributes["bottle"]], colours.CAPS[attributes["cap"]]
        mark = dice.of(((204, 48, 50), (40, 96, 176), (40, 130, 80)))
        return BottleLook(varied(body, dice, 8), varied(cap, dice, 5), mark)
    skies = ((140, 190, 232), (246, 190, 120), (180, 170, 220))
    hills = ((92, 150, 84), (70, 110, 150), (160, 110, 80))
    border = varied(colours.FRAME_COLOURS[attributes["frame"]], dice, 6)
    return FrameLook(border, dice.of(skies), dice.of(hills), dice.between(0.38, 0.46))


def main_colour(look: Look) -> Colour:
    """The colour that a target must stand out by."""
    if isinstance(look, DogLook):
        return look.coat
    if isinstance(look, PersonLook):
        return look.shirt
    return look.body if isinstance(look, BottleLook) else look.border


def arrange(
    attributes: Mapping[str, str], plan: ScenePlan, stage: list[Piece], at: float
) -> list[Piece]:
    """Where the furniture stands that no target is on; what is behind first."""
    back: list[Piece] = []
    front: list[Piece] = []
    foot = plan.horizon + 0.07
    for name in furniture_names(attributes.get("furniture", "")):
        paint = plan.colours[name]
        if name in LARGE:
            wide = 0.52 if name == "table" else 0.66
            back.append(Piece(name, plan.large_x, foot, wide, *paint))
        elif name == "lamp":
            front.append(Piece(name, 0.5 + plan.side * 0.38, foot, 0.19, *paint))
        elif name == "plant":
            front.append(Piece(name, 0.5 - plan.side * 0.38, foot + 0.02, 0.22, *paint))
        elif name == "rug":
            back.append(Piece(name, at, 0.9, 0.86, *paint))
        else:
            x = 0.5 - plan.side * 0.3
            if attributes["window"] != "none":
                x = 0.22 if plan.window_x > 0.5 else 0.78
            back.append(Piece(name, x, 0.22, 0.24, *paint))
    # A rug lies on the floor: nothing stands under it.
    return sorted(back, key=lambda piece: piece.name != "rug") + front + stage


def seat_of(piece: Piece) -> float:
    """The height at which something rests on a piece."""
    return piece.y + SEATS.get(piece.name, 0.0) * piece.width


def stands_out(colour: Colour, behind: Colour) -> bool:
    """Whether a target of one colour can be told from what is behind it."""
    return distance(colour, behind) > 110
