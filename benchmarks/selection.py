"""Selection by Pontryagin's principle (PrivSynth) beside its baselines: the paper's Tables 3, 4, 5.

Candidates imitate a generator that memorises (`benchmarks.selection_worlds`). Of each release
that is selected: balanced accuracy of a linear head that is trained on it, the part of the private
images that an attack on it finds at 1 % false alarms, the attack's area under the curve, and how
near its samples come to private images, by features and by a perceptual distance
(`benchmarks.perceptual`); in the playhouse the average precision of a detector, too.
Three seeds, mean and deviation; the settings were chosen on EuroSAT and on other photos of clothes
than those that judge. The parts are tables and datasets: without any, the tables of the paper, of
all datasets (``--tiny``: of a few images, to see that everything runs). Needs ``../shared/data``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.likelihood_ratio_attack import WORLDS, ChainAttack, chain_attack, run_worlds
from benchmarks.rival_selections import (
    BASELINES,
    LabelledFeatures,
    SelectionFacts,
    masked,
    without_duplicates,
)
from benchmarks.selection_chart import Curve, chart
from benchmarks.selection_judge import (
    LinearHead,
    accuracy,
    nearest_distance,
    nearest_pairs,
    release_attack,
    utility_losses,
)
from benchmarks.selection_worlds import ENCODERS, Samples, SelectionTask, features_of, image_pool
from benchmarks.tables import CACHE, Table, percent
from understudy.core.types import Images, Vector
from understudy.methods.selection.arithmetic import class_budgets
from understudy.methods.selection.base import ProxySettings
from understudy.methods.selection.penalties import (
    Penalties,
    membership_penalty,
    reconstruction_penalty,
)
from understudy.methods.selection.reference import RecordReference
from understudy.metrics.attacks import confidence
from understudy.metrics.nearest_neighbours import clouds, nearest_rows
from understudy.report import contact_sheet

SETTINGS = ProxySettings(steps=80, learning_rate=3.0, weight_decay=0.03)
"""Chosen on EuroSAT and on photos of clothes that judge nothing here."""

DATASETS = ("clothing", "eurosat", "playhouse")
WITH_BOXES = ("playhouse",)
KEEPS = (0.2, 0.5)
RATIOS = (0.2, 0.5, 0.8, 1.0)
EPOCHS = (10, 20, 50, 100, 150, 200, 250, 300)
MASKED = (8, 16, 32, 48)  # of 64 blocks
LEFT = 0.8  # of the private images, after de-duplication


@dataclass(frozen=True)
class Variant:
    """How a selection is run."""

    reconstruction: float = 0.0  # weight of L_pix
    membership: float = 0.0  # weight of L_mem
    held_out: bool = False  # whether the reference is the held-out records and not the private ones
    balanced: bool = False  # whether each class counts the same in the reference
    settings: ProxySettings = SETTINGS  # of the proxy
    rounds: int = 8  # R
    step_size: float = 0.25  # a


@dataclass(frozen=True)
class Outcome:
    """What a release comes to."""

    accuracy: float  # balanced, in [0, 1]
    found: float  # true positive rate of the attack at 1 % false alarms
    auc: float  # of the attack
    distance: float  # see `nearest_distance`
    looks: float  # mean perceptual distance of a sample to the nearest private image


def facts_of(task: SelectionTask, keep: float, seed: int = 0) -> SelectionFacts:
    """What the baselines may know of a world's candidates."""
    budgets = class_budgets(task.candidates.labels, task.classes, keep)
    candidates, private, held_out = clouds(
        task.candidates.penalty, task.private.penalty, task.held_out.penalty
    )
    severity = np.array([2, 1, 0])[task.kinds]
    return SelectionFacts(
        candidates=_features(task, task.candidates),
        budgets=budgets,
        private=_features(task, task.private),
        non_members=_features(task, task.held_out),
        to_private=nearest_rows(candidates, private)[1][:, 0],
        to_non_members=nearest_rows(candidates, held_out)[1][:, 0],
        embeddings=task.candidates.penalty,
        severity=np.where(task.mislabelled, 3, severity),
        settings=SETTINGS,
        seed=seed,
    )


def _features(task: SelectionTask, samples: Samples) -> LabelledFeatures:
    return LabelledFeatures(task.space.forward(samples.judge), samples.labels)


def varied(facts: SelectionFacts, variant: Variant) -> SelectionFacts:
    """The facts of a selection by a variant."""
    facts = replace(facts, settings=variant.settings)
    records = facts.non_members if variant.held_out else facts.private
    reference = RecordReference.of(records.features, records.labels, balanced=variant.balanced)

    membership = membership_penalty(facts.private_losses, facts.non_member_losses)
    penalties = Penalties(
        reconstruction_penalty(facts.to_private, facts.to_non_members),
        membership if variant.membership else None,
        variant.reconstruction,
        variant.membership,
    )
    return replace(
        facts,
        reference=reference,
        penalties=penalties if variant.reconstruction or variant.membership else None,
        rounds=variant.rounds,
        step_size=variant.step_size,
    )


def outcome(task: SelectionTask, release: Samples) -> Outcome:
    """Judge a release."""
    curve = release_attack(task, release)
    return Outcome(
        accuracy(task, release),
        curve.tpr_at[0.01].value,
        curve.auc.value,
        nearest_distance(task, release),
        mean_looks(release),
    )


def mean_looks(release: Samples) -> float:
    """The perceptual distance of a release's samples to the nearest private image, on average."""
    assert release.looks is not None, "a release knows how near it looks: `SelectionTask.released`"
    return float(release.looks.mean())


VARIANTS: Mapping[str, Variant] = {
    "selection": Variant(),
    "selection, held-out reference": Variant(held_out=True, balanced=True),
    "selection, reconstruction 1": Variant(reconstruction=1.0),
    "selection, held-out, reconstruction 1": Variant(
        reconstruction=1.0, held_out=True, balanced=True
    ),
}

CHARTED = (
    *("all", "random", *VARIANTS),
    *("model gap", "model gap, as written", "trained attack"),
    *("distance", "distance, as written"),
    *("de-duplication", "private images de-duplicated", "TracIn", "low loss", "oracle"),
    *(f"masking {blocks} of 64" for blocks in MASKED),
)

BOXED = ("all", "random", "model gap", "distance", "selection", "selection, reconstruction 1")


@cache
def task_of(dataset: str, seed: int) -> SelectionTask:
    """The world of a seed."""
    pool = image_pool(dataset, seed)
    return pool.world(pool.members())


@cache
def facts_for(dataset: str, seed: int, keep: float) -> SelectionFacts:
    """What the baselines may know in the world of a seed."""
    return facts_of(task_of(dataset, seed), keep, seed)


def release_of(method: str, dataset: str, seed: int, keep: float) -> Samples:
    """What a method of the chart releases."""
    if method == "private images de-duplicated":
        return deduplicated_first(dataset, seed, keep)
    facts, task = facts_for(dataset, seed, keep), task_of(dataset, seed)
    if method.startswith("masking"):
        return masked_samples(task, BASELINES["random"](facts), int(method.split()[1]))
    return task.released(selected(method, facts))


def selected(method: str, facts: SelectionFacts) -> NDArray[np.int64]:
    """Indices by a baseline or by a variant of the selection."""
    if method in VARIANTS:
        return BASELINES["selection"](varied(facts, VARIANTS[method]))
    return BASELINES[method](facts)


def deduplicated_first(dataset: str, seed: int, keep: float) -> Samples:
    """A random part of what a generator draws that was fitted without near-duplicates.

    As in the paper: without one of each pair that looks most alike, by the perceptual distance.
    """
    from benchmarks.perceptual import looks_among  # imports torch

    pool = image_pool(dataset, seed)
    members = pool.members()
    fitted = np.zeros_like(members)
    for label in range(pool.classes):
        rows = np.flatnonzero(members & (pool.records.labels == label))
        apart = looks_among(pool.images[rows])
        fitted[rows[without_duplicates(apart, round(LEFT * len(rows)))]] = True
    task = pool.world(members, fitted=fitted)
    return task.released(BASELINES["random"](facts_of(task, keep, seed)))


def masked_samples(task: SelectionTask, rows: NDArray[np.int64], blocks: int) -> Samples:
    """Candidates with so many of their 64 blocks black, as the judge sees them."""
    from benchmarks.perceptual import look_embeddings, looks_to_nearest  # imports torch

    def hidden(few: NDArray[np.int64]) -> Images:
        return masked(task.images(few), blocks, task.seed)

    (judge,) = features_of(f"{task.name}-{task.seed}-masked{blocks}", hidden, rows, ENCODERS[:1])
    looks = looks_to_nearest(hidden(rows), look_embeddings(task.private_images))
    return Samples(task.candidates.labels[rows], judge, looks=looks)


@cache
def outcome_of(method: str, dataset: str, seed: int, keep: float) -> Outcome:
    """What a method of the chart comes to."""
    return outcome(task_of(dataset, seed), release_of(method, dataset, seed, keep))


def cells(outcomes: Sequence[Outcome]) -> list[str]:
    """Accuracy, members found and area in %, and two distances: mean and deviation over seeds."""
    columns = np.array([astuple(one) for one in outcomes]).T * [[100], [100], [100], [1], [1]]
    return [mean_and_deviation(one, n) for one, n in zip(columns, (1, 1, 1, 3, 3), strict=True)]


HEADS = ("accuracy, %", "found at 1 % FPR", "area, %    ", "distance    ", "LPIPS       ")


def draw_chart(dataset: str, seeds: int) -> None:
    """The whole chart of methods, as a table and as an SVG of all keep ratios."""
    table = Table(f"{dataset}: every method, {seeds} seeds", ("method, keep", *HEADS), first=48)
    curves = []
    for method in CHARTED:
        keeps = (1.0,) if method == "all" else RATIOS[:-1]
        means = []
        for keep in keeps:
            outcomes = [outcome_of(method, dataset, seed, keep) for seed in range(seeds)]
            table.row(f"{method}, {keep:.0%}", *cells(outcomes))
            means.append(np.mean([[one.found, one.accuracy] for one in outcomes], axis=0) * 100)
        found, accuracies = np.array(means).T.tolist()
        curves.append(Curve(method, found, accuracies, [f"{keep:.0%}" for keep in keeps]))
    path = CACHE / f"selection-{dataset}.svg"
    path.write_text(chart(f"{dataset}: accuracy against attack, keep 20, 50, 80 %", curves))
    print(f"\nthe chart is in {path}")


def keep_ratios(dataset: str, seeds: int) -> None:
    """Table 3: utility and privacy over the share that is selected."""
    table = Table(f"{dataset}: keep ratios (Table 3)", ("method, keep", *HEADS), first=48)
    for method in ("selection", "selection, reconstruction 1"):
        for keep in RATIOS:
            outcomes = [outcome_of(method, dataset, seed, keep) for seed in range(seeds)]
            table.row(f"{method}, {keep:.0%}", *cells(outcomes))


def average_precision(dataset: str, seeds: int) -> None:
    """AP50 of a detector that is trained on the selection, where images have boxes."""
    if dataset.removeprefix("tiny ") not in WITH_BOXES:
        return
    from benchmarks.selection_boxes import ap50  # imports torch

    heads = ("method, keep", "AP50, %    ", HEADS[-1])
    table = Table(f"{dataset}: AP50 of a detector, {seeds} seeds", heads, first=48)
    epochs = 2 if dataset.startswith("tiny") else None
    for method in BOXED:
        keep = 1.0 if method == "all" else 0.5
        scores, looks = [], []
        for seed in range(seeds):
            task, rows = task_of(dataset, seed), selected(method, facts_for(dataset, seed, keep))
            scores.append(ap50(task, rows, epochs))
            looks.append(mean_looks(task.released(rows)))
        table.row(
            f"{method}, {keep:.0%}",
            mean_and_deviation(100 * np.array(scores)),
            mean_and_deviation(np.array(looks), 3),
        )


def mean_and_deviation(values: NDArray[np.float64], digits: int = 1) -> str:
    """As ``68.6 ±1.8``; the deviation is 0 where there is one seed."""
    deviation = values.std(ddof=1) if len(values) > 1 else 0.0
    return f"{values.mean():.{digits}f} ±{deviation:.{digits}f}"


def penalty_weights(dataset: str, seeds: int) -> None:
    """Table 4: utility and privacy over the weights of the two penalties, at 50 %."""
    heads = ("reconstruction, membership", *HEADS)
    table = Table(f"{dataset}: penalty weights, keep 50 % (Table 4)", heads, first=34)
    base = VARIANTS["selection, reconstruction 1"]
    weights = ((0, 0), (0.5, 0), (1, 0), (2, 0), (5, 0), (0, 1), (1, 1), (1, 5), (5, 1), (50, 1))
    for reconstruction, membership in weights:
        variant = replace(base, reconstruction=reconstruction, membership=membership)
        outcomes = []
        for seed in range(seeds):
            task = task_of(dataset, seed)
            indices = BASELINES["selection"](varied(facts_for(dataset, seed, 0.5), variant))
            outcomes.append(outcome(task, task.released(indices)))
        table.row(f"{reconstruction:g}, {membership:g}", *cells(outcomes))


def losses_over_epochs(dataset: str, seeds: int) -> None:
    """Table 5: utility loss in % over epochs of training, at 50 %."""
    epochs = EPOCHS[:2] if dataset.startswith("tiny") else EPOCHS
    heads = ("method", *map(str, epochs), HEADS[-1])
    table = Table(f"{dataset}: utility loss in % over epochs (Table 5)", heads, first=48)
    for method in ("random", "model gap", "trained attack", "distance", *VARIANTS):
        releases = [release_of(method, dataset, seed, 0.5) for seed in range(seeds)]
        losses = [
            utility_losses(task_of(dataset, seed), release, epochs, seed)
            for seed, release in enumerate(releases)
        ]
        looks = mean_and_deviation(np.array([mean_looks(one) for one in releases]), 3)
        table.row(method, *(percent(loss) for loss in np.mean(losses, axis=0)), looks)


def whole_chain(dataset: str, seeds: int) -> None:
    """LiRA on the model that is trained on the selection, 16 worlds; the first seed's pool."""
    heads = ("method, keep", "AUC %", "low", "high", "found at 1 % FPR", "accuracy %")
    table = Table(f"{dataset}: LiRA over the whole chain, {WORLDS} worlds", heads, first=48)
    for keep in KEEPS:
        for method in ("random", "distance", *VARIANTS):
            attack, mean = attacked_chain(dataset, method, keep)
            table.row(
                f"{method}, {keep:.0%}",
                *(percent(one) for one in (attack.auc.value, attack.auc.low, attack.auc.high)),
                percent(attack.found_at(0.01)),
                percent(mean),
            )


def attacked_chain(dataset: str, method: str, keep: float) -> tuple[ChainAttack, float]:
    """LiRA over draws of members, candidates, selection and training; the mean accuracy."""
    pool = image_pool(dataset, 0)
    members = np.stack([pool.members(number) for number in range(WORLDS)])
    accuracies = []

    def world(inside: NDArray[np.bool_], number: int) -> Vector:
        task = pool.world(inside)
        release = task.candidates.take(selected(method, facts_of(task, keep, number)))
        head = LinearHead.fit(release.judge, release.labels, task.classes)
        accuracies.append(head.balanced(task.test))
        return confidence(head.probabilities, pool.records.judge, pool.records.labels)

    attack = chain_attack(members, run_worlds(world, members), pool.units)
    return attack, float(np.mean(accuracies))


def write_sheets(dataset: str, folder: Path) -> None:
    """The most similar private-synthetic pairs of some methods (the paper's Figure 5)."""
    task = task_of(dataset, 0)
    pool = image_pool(dataset, 0)
    private = pool.images[pool.members()]
    for method in ("all", "random", "distance", *VARIANTS):
        indices = selected(method, facts_for(dataset, 0, 0.5))
        samples, records = nearest_pairs(task, task.candidates.take(indices), 10)
        images = np.concatenate([private[records], task.images(indices[samples])])
        name = method.replace(",", "").replace(" ", "-")
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{dataset}-{name}.png").write_bytes(contact_sheet(images, 10))


TABLES: Mapping[str, Callable[[str, int], None]] = {
    "chart": draw_chart,
    "ratios": keep_ratios,
    "penalties": penalty_weights,
    "epochs": losses_over_epochs,
    "boxes": average_precision,
    "worlds": whole_chain,
}

OF_THE_PAPER = ("ratios", "penalties", "epochs", "boxes")
"""Tables 3, 4 and 5, and AP50, which the paper measures and has no table of."""

PARTS = (*TABLES, *DATASETS)


def main(
    parts: tuple[str, ...] = (),
    *,
    seeds: int | None = None,
    tiny: bool = False,
    sheets: Path | None = None,
) -> None:
    """Print the tables that are named, of the datasets that are named."""
    tables = [name for name in TABLES if name in parts] or OF_THE_PAPER
    seeds = seeds or (1 if tiny else 3)
    for name in [name for name in DATASETS if name in parts] or DATASETS:
        dataset = f"tiny {name}" if tiny else name
        for table in tables:
            TABLES[table](dataset, seeds)
        if sheets is not None:
            write_sheets(dataset, sheets)


if __name__ == "__main__":
    main()
