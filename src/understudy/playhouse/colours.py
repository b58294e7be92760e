"""Colours by name, and what is done with them."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.playhouse.dice import Dice

Colour = tuple[int, int, int]
"""Red, green and blue, 0 to 255."""

WALLS: Mapping[str, Colour] = {
    "red": (196, 78, 72),
    "blue": (112, 158, 212),
    "green": (138, 186, 132),
    "yellow": (240, 212, 122),
    "white": (236, 234, 228),
    "grey": (160, 164, 170),
    "pink": (238, 178, 194),
    "brown": (164, 126, 96),
}
FLOORS: Mapping[str, tuple[Colour, ...]] = {
    "wooden": ((188, 138, 88), (150, 104, 66), (212, 170, 120), (128, 88, 60)),
    "tiled": ((206, 204, 196), (172, 186, 196), (198, 174, 152), (150, 156, 150)),
    "carpet": ((150, 120, 150), (110, 140, 134), (176, 150, 130), (124, 128, 160)),
}
COATS: Mapping[str, Colour] = {
    "brown": (130, 80, 44),
    "black": (46, 44, 50),
    "white": (248, 246, 240),
    "golden": (226, 164, 66),
    "grey": (140, 144, 152),
}
SHIRTS: Mapping[str, Colour] = {
    "red": (212, 48, 46),
    "blue": (44, 92, 200),
    "green": (44, 146, 74),
    "yellow": (246, 208, 52),
    "white": (250, 250, 248),
    "purple": (130, 62, 170),
    "black": (44, 44, 52),
}
TROUSERS: Mapping[str, Colour] = {
    "blue": (52, 74, 128),
    "black": (42, 42, 48),
    "brown": (112, 80, 52),
    "grey": (118, 122, 130),
    "green": (72, 98, 62),
}
HAIRS: Mapping[str, Colour] = {
    "black": (34, 30, 32),
    "brown": (102, 64, 36),
    "blond": (236, 200, 110),
    "red": (190, 78, 34),
    "grey": (170, 172, 178),
}
SKINS: tuple[Colour, ...] = (
    (248, 214, 186),
    (236, 190, 154),
    (214, 160, 120),
    (174, 120, 84),
    (122, 80, 56),
)
BOTTLES: Mapping[str, Colour] = {
    "orange": (238, 130, 34),
    "white": (244, 244, 242),
    "blue": (48, 108, 206),
    "green": (50, 150, 86),
    "brown": (124, 74, 40),
}
CAPS: Mapping[str, Colour] = {"white": (250, 250, 250), "black": (44, 44, 50), "red": (208, 52, 48)}
FRAME_COLOURS: Mapping[str, Colour] = {
    "golden": (222, 172, 62),
    "black": (40, 40, 46),
    "white": (248, 248, 246),
    "wooden": (136, 88, 50),
}
SOFAS: tuple[Colour, ...] = (
    (74, 120, 138),
    (176, 84, 78),
    (108, 134, 92),
    (204, 168, 98),
    (120, 104, 150),
    (92, 98, 112),
    (216, 204, 186),
)
BEDDING: tuple[Colour, ...] = (
    (98, 140, 190),
    (206, 110, 120),
    (130, 170, 130),
    (226, 190, 110),
    (156, 136, 184),
    (228, 224, 216),
)
WOODS: tuple[Colour, ...] = ((142, 94, 58), (176, 128, 80), (104, 70, 48), (208, 176, 132))
BRIGHT: tuple[Colour, ...] = (
    (224, 52, 50),
    (40, 110, 216),
    (40, 164, 84),
    (244, 148, 30),
    (204, 60, 150),
)


def mix(first: Colour, second: Colour, part: float) -> Colour:
    """The first colour moved towards the second by a part: 0 is the first, 1 the second."""
    return (
        int(first[0] + (second[0] - first[0]) * part + 0.5),
        int(first[1] + (second[1] - first[1]) * part + 0.5),
        int(first[2] + (second[2] - first[2]) * part + 0.5),
    )


def darker(colour: Colour, part: float = 0.25) -> Colour:
    """Towards a warm black."""
    return mix(colour, (20, 14, 16), part)


def lighter(colour: Colour, part: float = 0.25) -> Colour:
    """Towards white."""
    return mix(colour, (255, 255, 255), part)


def varied(colour: Colour, dice: Dice, by: float = 10.0) -> Colour:
    """A little brighter or darker and a little off in hue, as no two things are the same."""
    light = dice.between(-by, by)
    red, green, blue = (
        min(255, max(0, int(part + light + dice.between(-by, by) * 0.4 + 0.5))) for part in colour
    )
    return red, green, blue


def distance(first: Colour, second: Colour) -> float:
    """How different two colours look: a weighted distance in RGB that follows the eye."""
    red, green, blue = (a - b for a, b in zip(first, second, strict=True))
    mean = (first[0] + second[0]) / 512
    return float(((2 + mean) * red**2 + 4 * green**2 + (3 - mean) * blue**2) ** 0.5)
