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
    as_drawn,
    held_out_images,
    memorised_candidates,
    non_members,
    private_images,
    spaces,
)
from benchmarks.selection import VARIANTS, facts_of, selected
from benchmarks.selection_judge import accuracy, release_attack
from benchmarks.selection_worlds import Samples, SelectionTask
from benchmarks.tables import Table, percent
from understudy.core.types import Images, Labels
from understudy.metrics.attacks import by_calibrated_distance

METHODS = ("all", "random", "model gap", "distance", "de-duplication", "TracIn", "low loss")
KEEPS = (0.2, 0.5)
PARTS = ("selections", *dict.fromkeys(kind.partition(" ")[0] for kind in RIVALS))
"""What selects of the candidates, and the generators that draw others."""

DRAWS = 10  # random selections that are averaged
GUIDED = 200  # images of each rival generator


@cache
def _samples(kind: str, judge: str) -> Samples:
    """Images of one part of the protocol, as the judge or the attack sees them, and the penalty."""
    images, labels = _images(kind)
    known = spaces()
    features = [known[name](images).astype(np.float32) for name in (judge, "studio")]
    return Samples(labels, features[0], features[1])


def _images(kind: str) -> tuple[Images, Labels]:
    if kind == "plain":
        return memorised_candidates("plain", CANDIDATES)
    if kind in RIVALS:
        return memorised_candidates(kind, GUIDED)
    real = {"private": private_images, "test": held_out_images, "others": non_members}
    images, labels = real[kind]()
    return as_drawn(images), labels


def task(judge: str) -> SelectionTask:
    """The protocol with one of `memorisation.spaces` as the space of judge or attack."""
    others = _samples("others", judge)
    order = np.random.default_rng(0).permutation(len(others))
    candidates = _samples("plain", judge)
    return SelectionTask(
        name="memorised",
        seed=0,
        classes=CLASSES,
        candidates=candidates,
        kinds=np.zeros(len(candidates), np.int64),
        mislabelled=np.zeros(len(candidates), bool),
        private=_samples("private", judge),
        non_members=_samples("test", judge),
        held_out=others.take(order[::2]),
        attacker=others.take(order[1::2]),
        test=_samples("test", judge),
        images=lambda rows: memorised_candidates("plain", CANDIDATES)[0][rows],
    )


def main(parts: tuple[str, ...] = (), count: int = CANDIDATES) -> None:
    """Print the chart: accuracy, and members found, of every method at two keep ratios.

    Args:
        parts: Of `PARTS`; none: all of them.
        count: Candidates.
    """
    judged, attacked = task("MobileNetV2"), task("pixels")
    table = Table(
        f"{count} candidates of a studio that memorises",
        ("method, keep", "accuracy %", "found at 1 % FPR", "AUC %"),
        first=48,
    )

    def row(name: str, judge: list[Samples], attack: list[Samples]) -> None:
        curves = [release_attack(attacked, release, by_calibrated_distance) for release in attack]
        table.row(
            name,
            percent(float(np.mean([accuracy(judged, release) for release in judge]))),
            percent(float(np.mean([curve.tpr_at[0.01].value for curve in curves]))),
            percent(float(np.mean([curve.auc.value for curve in curves]))),
        )

    parts = parts or PARTS
    for keep in KEEPS:
        facts = facts_of(judged, keep)
        for method in (*METHODS, *VARIANTS) if "selections" in parts else ():
            draws = DRAWS if method == "random" else 1
            chosen = [selected(method, replace(facts, seed=seed)) for seed in range(draws)]
            row(
                f"{method}, {keep:.0%}",
                [judged.candidates.take(indices) for indices in chosen],
                [attacked.candidates.take(indices) for indices in chosen],
            )
        for kind in (kind for kind in RIVALS if kind.partition(" ")[0] in parts):
            size = min(round(keep * count), GUIDED)
            row(
                f"{kind} generator, {size} images",
                [_samples(kind, "MobileNetV2").take(np.arange(size))],
                [_samples(kind, "pixels").take(np.arange(size))],
            )


if __name__ == "__main__":
    main()
