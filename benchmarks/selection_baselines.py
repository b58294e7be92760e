"""PrivSynth's baselines over the strength of each, beside its selection: the paper's main chart.

Each baseline of appendix B.1 on a generator that really memorises (`memorisation`): noise on class
embeddings (which the paper calls DP, and which has no guarantee), private images de-duplicated by a
perceptual distance before the generator is tuned, blocks that are masked, samples filtered by a
trained attack, and anti-memorisation guidance; and samples that are selected by weights of the
penalty. Every release has half as many images as there are candidates, but for the filter, whose
strength is how many it excludes. Three seeds, each with homes of its own; the judge, the attack and
the columns are those of `selection_memorised` and `selection`. With ``--tiny`` nothing is learnt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.memorisation import HOMES, World, memorised_candidates
from benchmarks.perceptual import look_embeddings, looks_to_nearest
from benchmarks.rival_selections import BASELINES, SelectionFacts, masked
from benchmarks.selection import (
    HEADS,
    SETTINGS,
    Outcome,
    Variant,
    cells,
    facts_of,
    mean_looks,
    varied,
)
from benchmarks.selection_judge import accuracy, nearest_distance, release_attack
from benchmarks.selection_memorised import seen, task
from benchmarks.selection_worlds import SelectionTask
from benchmarks.tables import Table
from understudy.core.types import Images, Labels
from understudy.metrics.attacks import by_calibrated_distance

KEEP = 0.5
TINY_COUNT = 16


@dataclass(frozen=True)
class Stage:
    """One world with its candidates, as judge and attack see them.

    Attributes:
        world: Whose images are private.
        count: Candidates.
        judged: Seen by the judge.
        attacked: Seen by the attack.
    """

    world: World
    count: int
    judged: SelectionTask
    attacked: SelectionTask

    @classmethod
    def of(cls, world: World, count: int) -> Stage:
        """Draw the candidates, or read them."""
        judged, attacked = (task(space, world, count) for space in ("MobileNetV2", "pixels"))
        return cls(world, count, judged, attacked)

    @property
    def size(self) -> int:
        """Images of a release."""
        return round(KEEP * self.count)

    def facts(self, keep: float = KEEP) -> SelectionFacts:
        """What baselines may know."""
        return facts_of(self.judged, keep, self.world.seed)

    def chosen(self, rows: NDArray[np.int64]) -> tuple[Images, Labels]:
        """Candidates with their labels."""
        return self.judged.images(rows), self.judged.candidates.labels[rows]

    def random(self) -> tuple[Images, Labels]:
        """A random half of the candidates."""
        return self.chosen(BASELINES["random"](self.facts()))

    def drawn(self, kind: str) -> tuple[Images, Labels]:
        """As many images of another generator."""
        return memorised_candidates(kind, self.size, self.world)

    def outcome(self, images: Images, labels: Labels) -> Outcome:
        """Judge a release."""
        judge = seen(images, labels, "MobileNetV2")
        looks = looks_to_nearest(images, look_embeddings(self.judged.private_images))
        attack = seen(images, labels, "pixels")
        curve = release_attack(self.attacked, attack, by_calibrated_distance)
        return Outcome(
            accuracy(self.judged, judge),
            curve.tpr_at[0.01].value,
            curve.auc.value,
            nearest_distance(self.judged, judge),
            mean_looks(replace(judge, looks=looks)),
        )


Release = Callable[[Stage], tuple[Images, Labels]]


def undefended(stage: Stage) -> tuple[Images, Labels]:
    """Every candidate: the paper's "No Defense"."""
    return stage.chosen(np.arange(stage.count))


def other_generator(name: str, strength: float) -> Release:
    """Images of a generator that is changed (`memorised_candidates`)."""
    return lambda stage: stage.drawn(f"{name} {strength:g}")


def masking(blocks: float) -> Release:
    """Random candidates, so many of whose 64 blocks are black."""

    def release(stage: Stage) -> tuple[Images, Labels]:
        images, labels = stage.random()
        return masked(images, int(blocks), stage.world.seed), labels

    return release


def filtering(excluded: float) -> Release:
    """Candidates without the share that a trained attack takes for members."""
    return lambda stage: stage.chosen(BASELINES["trained attack"](stage.facts(1 - excluded)))


def selecting(reconstruction: float) -> Release:
    """This method, with a weight of its penalty and a held-out reference."""
    variant = Variant(reconstruction, held_out=True, balanced=True, settings=SETTINGS)
    return lambda stage: stage.chosen(BASELINES["selection"](varied(stage.facts(), variant)))


@dataclass(frozen=True)
class Baseline:
    """A way to protect a release.

    Attributes:
        release: A strength to what is released.
        strength: What the number is.
        strengths: Those that are charted.
    """

    release: Callable[[float], Release]
    strength: str
    strengths: tuple[float, ...]


SWEEPS: Mapping[str, Baseline] = {
    "DP": Baseline(partial(other_generator, "noise"), "deviation", (0.1, 0.25, 0.5, 1.0)),
    "de-duplication": Baseline(
        partial(other_generator, "deduplicated"), "share dropped", (0.2, 0.5, 0.8)
    ),
    "masking": Baseline(masking, "blocks of 64", (8, 16, 32, 48)),
    "filtering": Baseline(filtering, "share excluded", (0.2, 0.5, 0.8)),
    "AMG": Baseline(partial(other_generator, "amg"), "scale", (0.5, 1.0, 2.0)),
    "selection": Baseline(selecting, "reconstruction", (0, 1, 5)),
}

PARTS = ("undefended", *SWEEPS)


def main(
    parts: tuple[str, ...] = (), *, seeds: int | None = None, homes: int = HOMES, tiny: bool = False
) -> None:
    """Print the chart as a table.

    Args:
        parts: Of `PARTS`; none: all of them.
        seeds: How many; None: three, or one where ``tiny``.
        homes: Private homes; candidates and training are proportional to them.
        tiny: Of two homes and a training of two steps, one strength of each.
    """
    worlds = [
        World(seed, tiny, 2 if tiny else homes) for seed in range(seeds or (1 if tiny else 3))
    ]
    count = TINY_COUNT if tiny else worlds[0].candidates
    stages = [Stage.of(world, count) for world in worlds]
    title = f"PrivSynth's baselines, {count} candidates that memorise, {len(worlds)} seeds"
    table = Table(title, ("method, strength", *HEADS), first=48)
    for name, release in releases(parts or PARTS, tiny=tiny).items():
        table.row(name, *cells([stage.outcome(*release(stage)) for stage in stages]))


def releases(parts: tuple[str, ...], *, tiny: bool) -> dict[str, Release]:
    """What the parts release, by the name of a row."""
    rows: dict[str, Release] = {}
    if "undefended" in parts:
        rows |= {"undefended, all": undefended, "undefended, a random half": Stage.random}
    for name, sweep in SWEEPS.items():
        if name in parts:
            for strength in sweep.strengths[:1] if tiny else sweep.strengths:
                rows[f"{name}, {sweep.strength} {strength:g}"] = sweep.release(strength)
    return rows


if __name__ == "__main__":
    main()
