"""Named datasets of the playhouse, drawn as they are read.

playhouse:pet-status?homes=50&per_home=20&gap=1&split=train&size=64&seed=0
playhouse:world?count=4000&target=dog,person
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any, Literal
from urllib.parse import parse_qsl

import numpy as np
from PIL import Image

from understudy.core.errors import ConfigError, SourceError
from understudy.core.phrases import EMPTY
from understudy.core.types import Batch, Images, Shape
from understudy.playhouse.homes import TASKS, Home
from understudy.playhouse.picture import DrawnImage
from understudy.playhouse.world import LARGEST, SMALLEST, World

PLAYHOUSE_PREFIX = "playhouse:"
UNIT = "home"
PLAYHOUSE_NAMES = (*TASKS, "world")

_UNLABELLED = ("all",)
_SPLITS = ("train", "test")
_MOST = 10_000_000
_SMALL = 64  # pixels a side up to which pictures stay in memory


@dataclass(frozen=True, slots=True)
class _Settings:
    """The options of a name.

    Attributes:
        homes: How many homes; homes 0 to ``homes`` - 1 live there.
        gap: Domain gap to the public world, 0 to 2.
        split: ``"train"`` or ``"test"``: other pictures of the same homes.
        first: Number of the first home: ``first=50`` gives homes that others never see.
    """

    homes: int = 50
    per_home: int = 20
    gap: float = 1.0
    split: str = "train"
    size: int = 64
    seed: int = 0
    count: int = 4000
    target: str = "dog,person,bottle,two-objects"
    first: int = 0


_OF_HOMES = frozenset({"homes", "per_home", "gap", "split", "size", "seed", "first"})
_OF_WORLD = frozenset({"count", "target", "split", "size", "seed"})


class PlayhouseSource:
    """A ``Source`` of playhouse pictures; the same name gives the same pictures.

    Rows go round the homes: the first picture of each, the second of each, and so on. In the
    public world every row is another room, and rows have no unit.

    Its ``phrases`` speak of its classes: "dog eating" for "eating".

    ``size``: (height, width) to resize to; None: as drawn.
    """

    kind: Literal["images", "embeddings"] = "images"
    skipped = 0

    def __init__(
        self, name: str, kind: str, settings: _Settings, size: tuple[int, int] | None = None
    ) -> None:
        self.name = name
        self.has_units = kind != "world"
        self._settings, self._kind = settings, kind
        height, width = size or (settings.size, settings.size)
        self.shape: Shape = (height, width, 3)
        # Drawn at the size asked for where that is a square: no resampling, and captions hold.
        square = height == width and SMALLEST <= height <= LARGEST
        self._side = height if square else settings.size
        if kind == "world":
            self._world = World(self._side, tuple(settings.target.split(",")))
            self.classes = tuple(sorted(self._world.classes))
            self.phrases = tuple(_noun(target) for target in self.classes)
        else:
            home = self._home(0)
            self.classes = home.classes or _UNLABELLED
            noun = _noun(home.target)
            self.phrases = tuple(f"{noun} {status}" for status in home.classes) or (noun,)
        self._half = _SPLITS.index(settings.split)

    def __len__(self) -> int:
        settings = self._settings
        return settings.homes * settings.per_home if self.has_units else settings.count

    def drawn_image(self, row: int) -> DrawnImage:
        """All that is known of a row: caption, attributes, masks, boxes and keypoints too.

        At the size drawn, which is that of the rows wherever they are square.

        Raises:
            IndexError: There is no such row.
        """
        if not 0 <= row < len(self):
            raise IndexError(f"{self.name} has rows 0 to {len(self) - 1}, not {row}")
        if not self.has_units:
            # Worlds of other seeds, and the other split, begin 2^32 pictures further on.
            return self._world.draw(((2 * self._settings.seed + self._half) << 32) + row)
        index, home = divmod(row, self._settings.homes)
        if self._side <= _SMALL:
            return _small_picture(self._home(home), 2 * index + self._half)
        return self._home(home).draw(2 * index + self._half)

    def batches(self, size: int) -> Iterator[Batch]:
        """Every picture in order, ``size`` at a time.

        Raises:
            ConfigError: ``size`` is less than 1.
        """
        if size < 1:
            raise ConfigError(f"a batch has 1 row or more, not {size}")
        for start in range(0, len(self), size):
            rows = range(start, min(start + size, len(self)))
            images = [self.drawn_image(row) for row in rows]
            yield Batch(
                np.stack([self._resized(image.image) for image in images]),
                np.array([self._label(image) for image in images], dtype=np.int64),
                np.array([p.unit for p in images], dtype=np.str_) if self.has_units else None,
            )

    def digests(self, key: bytes) -> Iterator[bytes]:
        """A keyed digest of each picture's pixels."""
        for row in range(len(self)):
            image = self._resized(self.drawn_image(row).image)
            yield hashlib.blake2b(image.tobytes(), key=key, digest_size=16).digest()

    def _home(self, index: int) -> Home:
        settings = self._settings
        number = settings.first + index
        return _home(number, settings.gap, self._kind, self._side, settings.seed)

    def _label(self, image: DrawnImage) -> int:
        if not self.has_units:
            return self.classes.index(image.attributes["target"])
        return 0 if image.label is None else image.label

    def _resized(self, image: Images) -> Images:
        height, width, _ = self.shape
        if image.shape[:2] == (height, width):
            return image
        resized = Image.fromarray(image).resize((width, height), Image.Resampling.BILINEAR)
        return np.asarray(resized)


def _noun(target: str) -> str:
    nouns = {
        "bottle": "medicine bottle",
        "two-objects": "medicine bottle and a photo frame",
        EMPTY: "empty room",
    }
    return nouns.get(target, target)


@lru_cache(maxsize=1024)
def _home(number: int, gap: float, task: str, size: int, seed: int) -> Home:
    return Home(number, gap, task, size, seed=seed)


@lru_cache(maxsize=2048)  # some 60 MB; a run reads its rows four times
def _small_picture(home: Home, index: int) -> DrawnImage:
    return home.draw(index)


def open_playhouse(
    name: str, size: tuple[int, int] | None = None, *, split: str = "train", unit: str | None = None
) -> PlayhouseSource:
    """The source of a name such as ``playhouse:pet-status?homes=50&per_home=20&gap=1``.

    Args:
        name: A dataset of the playhouse and its options.
        size: (height, width) of the images; None: as the name says.
        split: Which half, unless the name says it.
        unit: The column that rows are grouped by: ``"home"`` is the only one there is.

    Raises:
        ConfigError: Another name, or an option that does not exist or makes no sense.
        SourceError: There is no such unit.
        MissingExtra: The package that draws is not installed.
    """
    kind, _, query = name.removeprefix(PLAYHOUSE_PREFIX).partition("?")
    if kind not in PLAYHOUSE_NAMES:
        names = ", ".join(PLAYHOUSE_PREFIX + task for task in PLAYHOUSE_NAMES)
        raise ConfigError(f"there is no {PLAYHOUSE_PREFIX}{kind}; there are {names}")
    settings = _read(name, query, _OF_WORLD if kind == "world" else _OF_HOMES, split)
    if unit is not None and (unit != UNIT or kind == "world"):
        names = "none" if kind == "world" else f"only {UNIT!r}"
        raise SourceError(f"has no column {unit!r} that says whose row it is; it has {names}", name)
    source = PlayhouseSource(name, kind, settings, size)
    source.drawn_image(0)  # a package that is missing is missed now, not in the middle of a run
    return source


def _read(name: str, query: str, names: frozenset[str], split: str) -> _Settings:
    options: dict[str, Any] = {"split": split}
    kinds: dict[str, Any] = {field.name: type(field.default) for field in fields(_Settings)}
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key not in names:
            raise ConfigError(
                f"{name}: there is no option {key!r}; there are {', '.join(sorted(names))}"
            )
        try:
            options[key] = kinds[key](value)
        except ValueError as error:
            raise ConfigError(f"{name}: {key} is a number, found {value!r}") from error
    settings = _Settings(**options)
    if settings.split not in _SPLITS:
        raise ConfigError(f"{name}: split is train or test, found {settings.split!r}")
    for key in ("homes", "per_home", "count"):
        if not 1 <= getattr(settings, key) <= _MOST:
            raise ConfigError(f"{name}: {key} is 1 to {_MOST:,}, found {getattr(settings, key)}")
    if min(settings.seed, settings.first) < 0:
        raise ConfigError(f"{name}: seed and first are 0 or more")
    return settings
