"""Private images and test images of two origins: honest releases, and releases with copies.

EuroSAT tiles; those of the private half are darkened, flattened, blurred or of another mix of
classes, and the honest release is real tiles of the private half's kind that nobody copied. Prints
what the attacks reach with the release and without it, and the verdicts. Needs the EuroSAT tiles
in ``../shared/data`` beside the checkout.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from PIL import Image, ImageFilter

from benchmarks.tables import DATA, Table, load, need
from understudy import synthesize
from understudy.audit.adjacent_datasets import InMemorySource
from understudy.core.types import Images, Labels
from understudy.evaluation.attack_adapter import attack_release
from understudy.evaluation.embedding_pass import (
    EmbeddedDataset,
    FeatureExtractor,
    embed_dataset,
    load_features,
)
from understudy.evaluation.leakage_adapter import LeakageAdapter
from understudy.metrics import verdicts
from understudy.metrics.verdicts import Attacks
from understudy.release.outputs import open_release
from understudy.run.progress import reporting

POOL, PRIVATE, RELEASE, TEST = 7000, 4000, 1000, 1500
SEEDS = 5
SHAPE = (64, 64, 3)


def darkened(images: Images) -> Images:
    """5 % darker."""
    return _pixels(images * 0.95)


def flattened(images: Images) -> Images:
    """10 % less contrast, each image about its own mean."""
    mean = images.mean(axis=(1, 2), keepdims=True)
    return _pixels(mean + 0.9 * (images - mean))


def blurred(images: Images) -> Images:
    """A Gaussian blur of 0.7 pixels."""
    lens = ImageFilter.GaussianBlur(0.7)
    return np.stack([np.asarray(Image.fromarray(image).filter(lens)) for image in images])


def changed(images: Images, seed: int = 0) -> Images:
    """Cropped by two pixels a side, a little noise, or 5 % brighter, in turn."""
    made = images.astype(np.float64)
    for at in range(0, len(images), 3):
        crop = Image.fromarray(images[at]).crop((2, 2, 62, 62))
        made[at] = np.asarray(crop.resize((64, 64), Image.Resampling.BICUBIC))
    noise = np.random.default_rng(seed).normal(0, 4, made[1::3].shape)
    made[1::3] += noise
    made[2::3] *= 1.05
    return _pixels(made)


def _pixels(values: np.ndarray) -> Images:
    return np.clip(np.rint(values), 0, 255).astype(np.uint8)


SHIFTS: dict[str, Callable[[Images], Images]] = {
    "none": lambda images: images,
    "5 % darker": darkened,
    "10 % less contrast": flattened,
    "blurred": blurred,
    "other classes": lambda images: images,
}


@dataclass(frozen=True)
class World:
    """Tiles as one side of every comparison may hold them, features and all."""

    features: FeatureExtractor  # the default ones
    test: EmbeddedDataset  # tiles as they are
    private: EmbeddedDataset  # the same tiles as the private half has them
    images: Images
    labels: Labels  # their classes
    mixed: bool  # whether the halves differ in their mix of classes

    def parts(self, seed: int) -> tuple[Labels, Labels, Labels]:
        """Rows of the private half, of an honest release, and of the test half."""
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(self.labels))
        if self.mixed:  # half of the classes is twice as frequent in the private half
            often = np.where(self.labels < 5, 0.75, 0.45)
            order = order[np.argsort(rng.random(len(order)) > often[order], kind="stable")]
            count = PRIVATE + RELEASE
            rest = order[count:]
            rare = rest[np.argsort(rng.random(len(rest)) > 1 - often[rest], kind="stable")]
            return order[:PRIVATE], order[PRIVATE:count], rare[:TEST]
        return np.split(order[: PRIVATE + RELEASE + TEST], [PRIVATE, PRIVATE + RELEASE])


def judged(
    world: World, private: EmbeddedDataset, release: EmbeddedDataset, test: EmbeddedDataset
) -> tuple[list[str], Attacks]:
    """The grades of leakage and attacks, and what decided on the latter."""
    measured = world.features.measured
    with reporting("auto") as events:
        bars = events.step
        found = LeakageAdapter(private, release, test, measured, bars)
        copies = found.judge(found.distances())
        _, results = attack_release(
            private.features, release.features, test.features, measured, bars
        )
    return [
        verdicts.judge_leakage(copies, results).grade,
        verdicts.judge_attacks(results).grade,
    ], results


def some_of(side: EmbeddedDataset, rows: Labels) -> EmbeddedDataset:
    """Some rows of a side, as if no others had been read."""
    small = None if side.small is None else side.small[rows]
    return replace(
        side,
        count=len(rows),
        indices=np.arange(len(rows)),
        labels=side.labels[rows],
        features=side.features[rows],
        small=small,
        digests=side.digests[rows],
        hashes=side.hashes[rows],
    )


def with_copies(world: World, honest: EmbeddedDataset, images: Images) -> EmbeddedDataset:
    """An honest release whose first tiles are replaced by others."""
    rows = InMemorySource(
        "copies", "images", ("tile",), images, np.zeros(len(images), dtype=np.int64)
    )
    copies = embed_dataset(rows, world.features, (), None, lambda done: None)
    rest = some_of(honest, np.arange(len(images), honest.count))
    parts = {
        name: np.concatenate([getattr(copies, name), getattr(rest, name)])
        for name in ("labels", "features", "small", "digests", "hashes")
    }
    return replace(honest, **parts)


def by_clustering(world: World, rows: Labels) -> EmbeddedDataset:
    """A release of `clustering` at epsilon 1 of the private half."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for number, row in enumerate(rows.tolist()):
            folder = place / "real" / f"class-{world.labels[row]}"
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(world.images[row]).save(folder / f"{number:05d}.png")
        options = {"epsilon": 1.0, "count": RELEASE, "ledger": str(place / "ledger.db")}
        synthesize(place / "real", out=place / "out", **options)
        release = open_release(place / "out" / "release", SHAPE)
        return embed_dataset(release, world.features, (), None, lambda done: None)


def releases(
    world: World, seed: int
) -> Iterator[tuple[str, EmbeddedDataset, EmbeddedDataset, EmbeddedDataset]]:
    """Releases of falling honesty, each with the private half and the test half."""
    ours, others, theirs = world.parts(seed)
    private, honest = some_of(world.private, ours), some_of(world.private, others)
    test, one = some_of(world.test, theirs), RELEASE // 100
    yield "honest", private, honest, test
    if seed:
        return
    yield "clustering, epsilon 1", private, by_clustering(world, ours), test
    images = world.images[ours]
    copies = {
        "1 % exact copies": images[:one],
        "1 % changed copies": changed(images[:one]),
        "3 % changed copies": changed(images[: 3 * one]),
        "changed copies": changed(images[:RELEASE]),
    }
    for name, taken in copies.items():
        yield name, private, with_copies(world, honest, taken), test


def worlds() -> Iterator[tuple[str, World]]:
    """One for each shift."""
    folder = need(DATA / "images" / "eurosat" / "train")
    tiles = load(folder)
    order = np.random.default_rng(0).permutation(len(tiles.labels))[:POOL]
    plain, labels = tiles.values[order], tiles.labels[order]
    features = load_features(None, SHAPE)

    def side(images: Images) -> EmbeddedDataset:
        rows = InMemorySource("tiles", "images", tiles.classes, images, labels)
        return embed_dataset(rows, features, (), None, lambda done: None)

    test = side(plain)
    for name, shift in SHIFTS.items():
        images = shift(plain)
        private = test if images is plain else side(images)
        yield name, World(features, test, private, images, labels, name == "other classes")


def main() -> None:
    """Print the verdicts on each release, then how often an honest one was accused."""
    heads = ("private half", "release", "leakage", "attacks", "AUC", "blind", "added", "TPR added")
    title = f"{RELEASE:,} synthetic, {PRIVATE:,} private, {TEST:,} test tiles, first seed"
    table, alarms = Table(title, heads, 20), {}
    for shift, world in worlds():
        grades: Counter[str] = Counter()
        for seed in range(SEEDS):
            for name, *sides in releases(world, seed):
                found, results = judged(world, *sides)
                if name == "honest":
                    grades.update(set(found) - {"good"} or {"good"})
                if not seed:
                    table.row(shift, name, *found, *_numbers(results))
        alarms[shift] = grades
    print(f"\nHonest releases, {SEEDS} seeds each, by their worst grade:")
    for shift, grades in alarms.items():
        print(f"  {shift}: " + ", ".join(f"{grade} {count}" for grade, count in grades.items()))


def _numbers(results: Attacks) -> list[str]:
    """The best attack's area, the blind one's, and the most that is surely added."""
    assert results.blind is not None
    area = max(one.auc.value for one in results.rocs.values())
    more = max((one.auc for one in results.gains.values()), key=lambda one: one.low)
    rate = max((one.tpr_at[0.01] for one in results.gains.values()), key=lambda one: one.low)
    return [
        f"{area:.3f}",
        f"{results.blind.auc.value:.3f}",
        f"{more.value:+.3f}",
        f"{rate.value:+.1%}",
    ]


if __name__ == "__main__":
    main()
