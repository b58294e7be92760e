"""The domain gap: what makes a private home look unlike the public world."""

from __future__ import annotations

from collections.abc import Mapping
from colorsys import hsv_to_rgb, rgb_to_hsv
from dataclasses import dataclass, replace
from math import cos, radians, sin

from understudy.playhouse.canvas import Affine, after
from understudy.playhouse.colours import Colour, darker, distance, lighter, mix
from understudy.playhouse.dice import Dice
from understudy.playhouse.dog import DogLook
from understudy.playhouse.person import PersonLook
from understudy.playhouse.room import Piece, Room
from understudy.playhouse.scene import Actor, Light, Look, Scene
from understudy.playhouse.things import BottleLook, FrameLook

COLLARS: Mapping[str, Colour] = {
    "red": (206, 40, 44),
    "blue": (40, 90, 210),
    "green": (40, 160, 80),
    "orange": (240, 140, 30),
    "pink": (236, 100, 170),
}


@dataclass(frozen=True, slots=True)
class Strangeness:
    """How one home differs, for a gap of 1; numbers are in -1 to 1 unless told.

    Attributes:
        paper: Wallpaper, ``"dotted"`` or ``"checked"``.
        threshold: The gap from which patterns, collars and papers are there, 0 to 1.
    """

    hue: float
    target_hue: float
    tint: Colour
    exposure: tuple[float, float, float]
    tilt: float
    zoom: float
    stretch: float
    head: float
    legs: float
    paper: str
    pattern: str
    collar: str
    line: Colour
    threshold: float


def strangeness(dice: Dice) -> Strangeness:
    """That of a home."""

    def signed(least: float) -> float:
        return dice.of((-1, 1)) * dice.between(least, 1.0)

    return Strangeness(
        hue=signed(0.5),
        target_hue=signed(0.5),
        tint=dice.of(((120, 170, 90), (220, 120, 90), (110, 90, 200), (60, 160, 190))),
        exposure=(dice.between(0.2, 1.0), signed(0.1) * 0.4, dice.between(-1.0, -0.3)),
        tilt=signed(0.4),
        zoom=dice.between(-0.3, 1.0),
        stretch=signed(0.4),
        head=signed(0.4),
        legs=signed(0.4),
        paper=dice.of(("dotted", "checked")),
        pattern=dice.of(("spotted", "patched")),
        collar=dice.of(tuple(COLLARS)),
        line=dice.of(((38, 40, 96), (92, 40, 24), (24, 74, 60))),
        threshold=dice.between(0.2, 0.9),
    )


def estranged(scene: Scene, by: Strangeness, gap: float, seed: int) -> Scene:
    """The scene as the home's own camera sees it.

    `gap`: How much of that; 0 changes nothing but what is drawn by chance.
    """
    attributes, ink = dict(scene.attributes), scene.ink
    marked = gap >= by.threshold
    if marked:
        attributes["paper"] = by.paper
    actors = tuple(_actor(actor, by, gap, marked, attributes) for actor in scene.actors)
    return Scene(
        attributes=attributes,
        room=_room(scene.room, by, gap, attributes["paper"]),
        ink=replace(
            ink, line=mix(ink.line, by.line, min(1.0, gap)), width=ink.width * (1 + 0.45 * gap)
        ),
        camera=after(scene.camera, _tilted(by.tilt * 4.0 * gap, 1 + 0.06 * by.zoom * gap)),
        light=_light(scene.light, by, gap, seed),
        actors=actors,
    )


def _turned(colour: Colour, degrees: float, gap: float, tint: Colour) -> Colour:
    """Another hue, stronger; greys lean to a tint, having no hue to turn."""
    hue, saturation, value = rgb_to_hsv(*(part / 255 for part in colour))
    strong = min(1.0, saturation * (1 + 0.25 * gap))
    red, green, blue = hsv_to_rgb((hue + degrees / 360) % 1, strong, value)
    turned = (int(red * 255 + 0.5), int(green * 255 + 0.5), int(blue * 255 + 0.5))
    return mix(turned, tint, 0.12 * gap * (1 - min(1.0, saturation * 3)))


def _room(room: Room, by: Strangeness, gap: float, paper: str) -> Room:
    def turned(colour: Colour, degrees: float) -> Colour:
        return _turned(colour, degrees * by.hue * gap, gap, by.tint)

    def piece(old: Piece) -> Piece:
        return replace(old, colour=turned(old.colour, 34), second=turned(old.second, 34))

    return replace(
        room,
        wall=turned(room.wall, 20),
        paper=paper,
        ground=turned(room.ground, 26),
        curtain=None if room.curtain is None else turned(room.curtain, 34),
        pieces=tuple(piece(old) for old in room.pieces),
    )


def _actor(
    actor: Actor, by: Strangeness, gap: float, marked: bool, attributes: dict[str, str]
) -> Actor:
    wide = 1 + 0.09 * by.stretch * gap
    a, b, c, d, e, f = actor.at
    look = _look(actor.look, by, gap, marked)
    if isinstance(look, DogLook) and marked:
        attributes["pattern"] = look.pattern
        attributes["collar"] = by.collar
    return replace(actor, look=look, at=(a * wide, b, c, d, e, f))


def _look(look: Look, by: Strangeness, gap: float, marked: bool) -> Look:
    def turned(colour: Colour, degrees: float = 14.0) -> Colour:
        return _turned(colour, degrees * by.target_hue * gap, gap, by.tint)

    head, legs = 1 + 0.12 * by.head * gap, 1 + 0.2 * by.legs * gap
    if isinstance(look, DogLook):
        coat = turned(look.coat)
        pattern_colour = None
        if marked:
            pattern_colour = lighter(coat, 0.62) if max(coat) < 200 else darker(coat, 0.62)
        return replace(
            look,
            coat=coat,
            head=look.head * head,
            legs=look.legs * legs,
            body=look.body * (1 + 0.1 * by.legs * gap),
            pattern_colour=pattern_colour,
            pattern=by.pattern,
            collar=COLLARS[by.collar] if marked else None,
            toy=turned(look.toy, 40),
        )
    if isinstance(look, PersonLook):
        shirt = turned(look.shirt)
        stripes = None
        if marked:
            stripes = (
                lighter(shirt, 0.5)
                if distance(shirt, (255, 255, 255)) > 200
                else mix(shirt, by.line, 0.4)
            )
        return replace(
            look,
            shirt=shirt,
            trousers=turned(look.trousers),
            head=look.head * head,
            build=look.build * (1 + 0.14 * by.legs * gap),
            stripes=stripes,
            toy=turned(look.toy, 40),
        )
    if isinstance(look, BottleLook):
        wide = look.wide * (1 + 0.18 * by.stretch * gap)
        return replace(look, body=turned(look.body), mark=turned(look.mark, 30), wide=wide)
    if isinstance(look, FrameLook):
        return replace(look, border=turned(look.border), sky=turned(look.sky, 30))
    return look


def _tilted(degrees: float, zoom: float) -> Affine:
    """A turn and a zoom about the middle of the frame."""
    c, s = zoom * cos(radians(degrees)), zoom * sin(radians(degrees))
    return (c, -s, 0.5 - 0.5 * c + 0.5 * s, s, c, 0.5 - 0.5 * s - 0.5 * c)


def _light(light: Light, by: Strangeness, gap: float, seed: int) -> Light:
    red, green, blue = (
        tint * (1 + 0.11 * gap * lean) * (1 - 0.07 * gap)
        for tint, lean in zip(light.tint, by.exposure, strict=True)
    )
    return replace(
        light,
        tint=(red, green, blue),
        vignette=0.3 * gap,
        sensor_noise=6.0 * gap,
        sensor_noise_seed=seed,
    )
