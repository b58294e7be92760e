"""Selection and its rivals on what a generator draws that memorises (`memorisation`).

The candidates are drawn by a studio that was tuned in full on few private homes, some of whose
images were repeated, until it copies them. A linear head on MobileNetV2's features judges, tested
on other images of the same homes; the attack looks for the nearest sample in means of 4 x 4
pixels, where copies show most; the penalty works in the studio's own embeddings.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np

from benchmarks.memorisation import (
    CANDIDATES,
    CLASSES,
    RIVALS,
    USUAL,
    World,
    as_drawn,
    held_out_images,
    memorised_candidates,
    non_members,
    private_images,
    spaces,
)
from benchmarks.perceptual import look_embeddings, looks_to_nearest
from benchmarks.selection import VARIANTS, facts_of, mean_looks, selected
from benchmarks.selection_judge import accuracy, release_attack
from benchmarks.selection_worlds import Samples, SelectionTask
from benchmarks.tables import Table, percent
from understudy.core.types import Images, Labels
from understudy.metrics.attacks import by_calibrated_distance

METHODS = (
    *("all", "random", "model gap", "trained attack", "distance"),
    *("de-duplication", "TracIn", "low loss"),
)
KEEPS = (0.2, 0.5)
PARTS = ("selections", *dict.fromkeys(kind.partition(" ")[0] for kind in RIVALS))
"""What selects of the candidates, and the generators that draw others."""

REAL = {"private": private_images, "test": held_out_images, "others": non_members}

DRAWS = 10  # random selections that are averaged
GUIDED = 200  # images of each rival generator


def seen(images: Images, labels: Labels, judge: str) -> Samples:
    """Images as the judge or the attack sees them, and the penalty."""
    known = spaces()
    return Samples(labels, *(known[name](images).astype(np.float32) for name in (judge, "studio")))


@cache
def _samples(kind: str, judge: str, world: World, count: int) -> Samples:
    """One part of the protocol, or ``count`` images of a generator, with how near these look."""
    if kind in REAL:
        return seen(*_real(kind, world), judge)
    images, labels = memorised_candidates(kind, count, world)
    looks = looks_to_nearest(images, look_embeddings(_real("private", world)[0]))
    return replace(seen(images, labels, judge), looks=looks)


@cache
def _real(part: str, world: World) -> tuple[Images, Labels]:
    images, labels = REAL[part](world)
    return as_drawn(images), labels


def task(judge: str, world: World = USUAL, count: int = CANDIDATES) -> SelectionTask:
    """The protocol with one of `memorisation.spaces` as the space of judge or attack."""
    others = _samples("others", judge, world, count)
    order = np.random.default_rng(0).permutation(len(others))
    candidates = _samples("plain", judge, world, count)
    return SelectionTask(
        name="memorised",
        seed=world.seed,
        classes=CLASSES,
        candidates=candidates,
        kinds=np.zeros(len(candidates), np.int64),
        mislabelled=np.zeros(len(candidates), bool),
        private=_samples("private", judge, world, count),
        non_members=_samples("test", judge, world, count),
        held_out=others.take(order[::2]),
        attacker=others.take(order[1::2]),
        test=_samples("test", judge, world, count),
        images=lambda rows: memorised_candidates("plain", count, world)[0][rows],
        private_images=_real("private", world)[0],
    )


def main(parts: tuple[str, ...] = (), count: int = CANDIDATES) -> None:
    """Print the chart: accuracy, and members found, of every method at two keep ratios."""
    judged, attacked = (task(space, count=count) for space in ("MobileNetV2", "pixels"))
    table = Table(
        f"{count} candidates of a studio that memorises",
        ("method, keep", "accuracy %", "found at 1 % FPR", "AUC %", "LPIPS"),
        first=48,
    )

    def row(name: str, judge: list[Samples], attack: list[Samples]) -> None:
        curves = [release_attack(attacked, release, by_calibrated_distance) for release in attack]
        table.row(
            name,
            percent(float(np.mean([accuracy(judged, release) for release in judge]))),
            percent(float(np.mean([curve.tpr_at[0.01].value for curve in curves]))),
            percent(float(np.mean([curve.auc.value for curve in curves]))),
            float(np.mean([mean_looks(release) for release in judge])),
        )

    parts = parts or PARTS
    for keep in KEEPS:
        facts = facts_of(judged, keep)
        for method in (*METHODS, *VARIANTS) if "selections" in parts else ():
            draws = DRAWS if method == "random" else 1
            chosen = [selected(method, replace(facts, seed=seed)) for seed in range(draws)]
            row(
                f"{method}, {keep:.0%}",
                [judged.released(indices) for indices in chosen],
                [attacked.candidates.take(indices) for indices in chosen],
            )
        for kind in (kind for kind in RIVALS if kind.partition(" ")[0] in parts):
            size = min(round(keep * count), GUIDED)
            row(
                f"{kind} generator, {size} images",
                [_samples(kind, "MobileNetV2", USUAL, GUIDED).take(np.arange(size))],
                [_samples(kind, "pixels", USUAL, GUIDED).take(np.arange(size))],
            )


if __name__ == "__main__":
    main()
