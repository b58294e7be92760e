"""Private homes: the same dog, person or bottle in the same room, day after day."""

from __future__ import annotations

from collections.abc import Mapping

from understudy.core.errors import ConfigError
from understudy.playhouse.attributes import TARGET_STATUSES
from understudy.playhouse.dice import Dice
from understudy.playhouse.estrange import estranged, strangeness
from understudy.playhouse.grammar import describe
from understudy.playhouse.picture import DrawnImage
from understudy.playhouse.render import render
from understudy.playhouse.staging import sample_scene
from understudy.playhouse.world import check_size

TASKS: Mapping[str, str] = {
    "pet-status": "dog",
    "activity": "person",
    "bottle": "bottle",
    "two-objects": "two-objects",
}
"""The target of each task."""

_FURTHEST = 2.0


class Home:
    """One home. Its target's look, its room and its camera stay; status, place and light vary.

    Args:
        number: Which home; it is also the unit of its pictures, ``"home-7"``.
        gap: How far its pictures are from the public world's: 0 not at all, 1 clearly, up to 2.
        task: ``"pet-status"``, ``"activity"``, ``"bottle"`` or ``"two-objects"``.
        size: Pixels a side.
        seed: Another seed is another street: no home of it is like one of this.

    Raises:
        ConfigError: An argument makes no sense.
    """

    def __init__(
        self,
        number: int,
        gap: float = 1.0,
        task: str = "pet-status",
        size: int = 64,
        *,
        seed: int = 0,
    ) -> None:
        if task not in TASKS:
            raise ConfigError(f"a home has no task {task!r}; there are {', '.join(TASKS)}")
        if not 0 <= gap <= _FURTHEST:
            raise ConfigError(f"gap is 0 to {_FURTHEST:g}, not {gap:g}")
        self.size = check_size(size)
        self.number, self.gap, self.task = number, gap, task
        self.target = TASKS[task]
        self.classes = tuple(sorted(TARGET_STATUSES.get(self.target, ())))
        self.unit = f"home-{number}"
        self._name = f"home:{seed}:{number}:{self.target}"
        dice = Dice(self._name, "household")
        # A home has a sofa or a bed, not both, in the room that its camera sees.
        large = dice.of(("sofa", "bed"))
        self._places = frozenset({"floor", "rug", "table", "shelf", large})
        self._strangeness = strangeness(dice)

    def draw(self, seed: int) -> DrawnImage:
        """The picture of a seed: always the same one."""
        vary = Dice(self._name, "picture", seed)
        scene = sample_scene(self.target, {}, Dice(self._name), vary, self._places)
        if self.gap:
            scene = estranged(scene, self._strangeness, self.gap, vary.below(2**32))
        caption = describe(scene.attributes, vary)
        status = scene.attributes.get("status")
        label = None if status is None else self.classes.index(status)
        return render(scene, self.size, caption=caption, label=label, unit=self.unit)
