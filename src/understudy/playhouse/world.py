"""The public world: rooms with a target each, all different."""

from __future__ import annotations

from collections.abc import Sequence

from understudy.core.errors import ConfigError
from understudy.playhouse.attributes import LOOKS, check
from understudy.playhouse.dice import Dice
from understudy.playhouse.grammar import describe
from understudy.playhouse.picture import DrawnImage
from understudy.playhouse.render import render
from understudy.playhouse.staging import sample_scene

SMALLEST, LARGEST = 16, 1024


class World:
    """Rooms that nobody lives in: public pictures without end.

    Args:
        size: Pixels a side, 16 to 1024.
        targets: What the pictures show, in equal parts; the class of a picture is its target's
            place here. ``"empty"`` is a room without any.

    Raises:
        ConfigError: The size or a target makes no sense.
    """

    def __init__(
        self, size: int = 64, targets: Sequence[str] = ("dog", "person", "bottle", "two-objects")
    ) -> None:
        self.size = check_size(size)
        unknown = [target for target in targets if target not in LOOKS]
        if unknown or not targets:
            raise ConfigError(f"targets are some of {', '.join(LOOKS)}, not {list(targets)}")
        self.classes = tuple(targets)

    def draw(self, seed: int) -> DrawnImage:
        """The picture of a seed: always the same one."""
        return self.draw_as(seed)

    def draw_as(self, seed: int, **attributes: str) -> DrawnImage:
        """A picture with some attributes settled, such as ``status="eating", wall="blue"``.

        Raises:
            ConfigError: An attribute or a value does not exist.
        """
        conditions = {key.replace("_", " "): value for key, value in attributes.items()}
        dice = Dice("world", seed)
        target = conditions.get("target", dice.of(self.classes))
        if conditions:
            check(target, conditions)
        scene = sample_scene(target, conditions, dice, dice)
        caption = describe(scene.attributes, dice)
        label = self.classes.index(target) if target in self.classes else None
        return render(scene, self.size, caption=caption, label=label)


def check_size(size: int) -> int:
    """The size, if pictures can have it.

    Raises:
        ConfigError: They cannot.
    """
    if not SMALLEST <= size <= LARGEST:
        raise ConfigError(f"size is {SMALLEST} to {LARGEST} pixels a side, not {size}")
    return size
