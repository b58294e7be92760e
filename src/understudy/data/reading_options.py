"""How the files of a dataset are read, as its name says: ``scans/?window=40,400&frames=all``."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple
from urllib.parse import parse_qsl

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.files import home_path
from understudy.core.ports import Source

Frames = Literal["first", "all"]
"""What is read of a file of several frames: the first one, or each as an image of its own."""

ImageFit = Literal["stretch", "crop", "pad"]  # how an image of another ratio is brought to a size

FITS: tuple[ImageFit, ...] = ("stretch", "crop", "pad")


def require_size(fit: ImageFit, size: object) -> None:
    """Refuse a fit without a size that it brings images to."""
    if fit != "stretch" and size is None:
        raise ConfigError(f"--fit {fit} is how images are brought to a size: add --size")


OF_EACH_FILE = "that of each file"  # the value of an intensity window that nobody declared


def bytes_of(shares: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Shares of white, cut off at 0 and 1, as 0..255, rounded."""
    return np.asarray(np.rint(np.clip(shares, 0, 1) * 255), dtype=np.uint8)


class Window(NamedTuple):
    """Which stored values are black and white (DICOM PS3.3 C.11.2.1.2)."""

    centre: float  # the value that is half way between them
    width: float  # the number of values from black to white, 1 or more

    def eight_bits(self, values: NDArray[Any]) -> NDArray[np.uint8]:
        """Values to 0..255: the function LINEAR of the standard, rounded."""
        middle = values.astype(np.float64) - (self.centre - 0.5)
        if self.width <= 1:
            return np.where(middle > 0, np.uint8(255), np.uint8(0))
        return bytes_of(middle / (self.width - 1) + 0.5)


@dataclass(frozen=True, slots=True)
class Reading:
    """What the name of a dataset says of its files."""

    # black and white of images of more than 8 bits; None: as each file says
    window: Window | None = None
    # what is read of a file of several frames; None: such a file is refused
    frames: Frames | None = None
    # of a volume: 0 sagittal, 1 coronal, 2 axial slices; None: a volume is refused
    axis: int | None = None
    # which of them: (first, last), last not included; None: the middle one
    slices: tuple[int, int | None] | None = None
    encoding: str | None = None  # of the text of a manifest; None: UTF-8, or as its first bytes say
    nested: bool = False  # whether what lies in folders inside a class folder is of that class


AS_STORED = Reading()  # nothing was said


def split_name(name: str) -> tuple[str, Reading]:
    """The path of a dataset and how its files are read.

    A name that is the path of something is taken as it is, whatever signs are in it.

    Raises:
        ConfigError: An unknown option, one that comes twice, or a value that it cannot take.
    """
    path, mark, query = name.partition("?")
    if not mark or home_path(name).exists():
        return name, AS_STORED
    pairs = parse_qsl(query, keep_blank_values=True)
    values: dict[str, Any] = {}
    for key, text in pairs:
        if key not in _READERS:
            raise ConfigError(
                f"{name}: unknown option {key!r} after the '?'; there are: {', '.join(_READERS)}"
            )
        if key in values or (key == "folders" and "nested" in values):
            raise ConfigError(f"{name}: the option {key} comes twice")
        values["nested" if key == "folders" else key] = _READERS[key](text)
    if not pairs:
        raise ConfigError(f"{name}: write options as NAME=VALUE: {', '.join(_READERS)}")
    if "slices" in values and "axis" not in values:
        raise ConfigError(f"{name}: slices are those of an axis: add axis=2, for axial ones")
    return path, Reading(**values)


def window_of(values: object) -> Window:
    """A window as an owner declares it: ``(40, 400)`` or ``"40,400"``.

    Raises:
        ConfigError: It is no two finite numbers with a width of 1 or more.
    """
    parts = values.split(",") if isinstance(values, str) else values
    try:
        centre, width = (float(part) for part in parts)  # type: ignore[attr-defined]
    except (TypeError, ValueError):
        centre = width = math.nan
    if not (math.isfinite(centre) and math.isfinite(width) and width >= 1):
        raise ConfigError(
            f"window is CENTRE,WIDTH with a width of 1 or more, such as window=40,400; found "
            f"{values!r}"
        )
    return Window(centre, width)


def window_premise(source: Source) -> tuple[Any, bool] | None:
    """(value, declared) of the intensity window of a source's images; None where none applies."""
    premise: tuple[Any, bool] | None = getattr(source, "window_premise", None)
    return premise


def _slices(text: str) -> tuple[int, int | None] | None:
    if text == "middle":
        return None
    if text == "all":
        return 0, None
    first, colon, last = text.partition(":")
    if not (first.isdecimal() and (not colon or last.isdecimal())):
        raise ConfigError(
            f"slices is middle, all, N, or FIRST:LAST (last left out), found {text!r}"
        )
    end = int(last) if colon else int(first) + 1
    if end <= int(first):
        raise ConfigError(f"slices from {first} to {end} are none: the last one is left out")
    return int(first), end


_CHOICES: dict[str, tuple[dict[str, Any], str]] = {
    "frames": ({"first": "first", "all": "all"}, "first or all"),
    "axis": ({"0": 0, "1": 1, "2": 2}, "0 (sagittal slices), 1 (coronal) or 2 (axial)"),
    "encoding": (
        {name: name for name in ("utf-8", "utf-16", "latin-1", "cp1252")},
        "one of utf-8, utf-16, latin-1, cp1252",
    ),
    "folders": ({"all": True}, "all"),
}
"""The texts that an option takes with what each means, and how an error lists them."""


def _choice(option: str, text: str) -> Any:
    choices, words = _CHOICES[option]
    if text not in choices:
        raise ConfigError(f"{option} is {words}, found {text!r}")
    return choices[text]


_READERS: dict[str, Callable[[str], Any]] = {
    "window": window_of,
    "frames": partial(_choice, "frames"),
    "axis": partial(_choice, "axis"),
    "slices": _slices,
    "encoding": partial(_choice, "encoding"),
    "folders": partial(_choice, "folders"),
}
