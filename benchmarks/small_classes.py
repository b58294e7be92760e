"""Small and unbalanced classes as images: does a release of them hold more than noise?

Subsets at 64 pixels, epsilon 1, defaults. Static: the share of samples whose nearest real image of
the same class, at 16 x 16 pixels, is farther than for 99 % of the real images of that class (each
against the others). Both judges (`benchmarks.judges`) learn from the release and are tested on the
real test split: recall of each class, and balanced accuracy of all.
``--sheets FOLDER`` also writes real images and samples side by side. The parts are the subsets.
Needs ``../shared/data``.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.spatial.distance import cdist

from benchmarks.judges import HEADS, SEEDS, Verdict, judge, sheet
from benchmarks.tables import DATA, Table, need, percent
from understudy import synthesize
from understudy.core.types import Images, Vector
from understudy.data import open_source
from understudy.metrics.utility import Labelled, gather

EPSILON = 1.0
PIXELS = 64
SIZES = ("real images", "samples", "static %")
COLUMNS = ("", *SIZES, *HEADS)
SMALL = 16  # pixels a side where images are compared
ALIKE = 0.99  # of the real images lie nearer to another of their class than the limit


@dataclass(frozen=True)
class Subset:
    """Some classes of a dataset, each with at most so many training images."""

    folder: str  # of ``DATA / "images"``; it holds ``train`` and ``test``
    sizes: Mapping[str, int]  # class name to the largest number of training images


SUBSETS = {
    "vegetation": Subset(
        "eurosat", {"AnnualCrop": 300, "Forest": 3000, "HerbaceousVegetation": 300}
    ),
    "streets": Subset("eurosat", {"Highway": 300, "Residential": 3000, "River": 300}),
    "clothing": Subset("clothing", {"dress": 900, "shoes": 900, "t-shirt": 900}),
}

PARTS = tuple(SUBSETS)


def extract(subset: Subset, folder: Path) -> tuple[Path, Path]:
    """Folders of the subset's training and test images."""
    images = need(DATA / "images" / subset.folder)
    for split in ("train", "test"):
        for name, size in subset.sizes.items():
            target = folder / split / name
            target.mkdir(parents=True)
            files = sorted((images / split / name).iterdir())
            for file in files[:size] if split == "train" else files:
                shutil.copyfile(file, target / file.name)
    return folder / "train", folder / "test"


def load(folder: Path) -> Labelled:
    """Images at the benchmark's size."""
    opened = open_source(folder, size=PIXELS)
    return gather(opened.batches(512), opened.classes)


def thumbnails(images: Images) -> Vector:
    """(n, 16 * 16 * channels) mean colours of blocks, 0 to 255."""
    n, height, width, channels = images.shape
    blocks = images.reshape(n, SMALL, height // SMALL, SMALL, width // SMALL, channels)
    return np.asarray(blocks.mean(axis=(2, 4)).reshape(n, -1))


def static(release: Labelled, real: Labelled) -> dict[str, float]:
    """Of each class the share of samples farther from it than ``ALIKE`` of its own images."""
    shares = {}
    for label, name in enumerate(real.classes):
        own = thumbnails(real.values[real.labels == label])
        samples = thumbnails(release.values[release.labels == release.classes.index(name)])
        between = cdist(own, own)
        np.fill_diagonal(between, np.inf)
        limit = np.quantile(between.min(axis=1), ALIKE)
        far = cdist(samples, own).min(axis=1) > limit if len(samples) else np.ones(1)
        shares[name] = float(far.mean())
    return shares


def run(
    subset: Subset, file: Path | None, seeds: int = SEEDS, **models: str
) -> list[tuple[object, ...]]:
    """Lines under `COLUMNS`: one of all, and a class each; ``models`` as for `synthesize`."""
    with tempfile.TemporaryDirectory() as name:
        train, test = extract(subset, Path(name) / "data")
        result = synthesize(
            train,
            out=Path(name) / "out",
            epsilon=EPSILON,
            size=PIXELS,
            format="parquet",
            ledger=f"sqlite:///{name}/ledger.db",
            progress="none",
            **models,
        )
        real, held_out, release = load(train), load(test), load(result.release)
    if file is not None:
        file.write_bytes(sheet(release, real, classes=5))
    return lines(real, release, judge(release, held_out, seeds))


def lines(real: Labelled, release: Labelled, verdict: Verdict) -> list[tuple[object, ...]]:
    """One line of all, and a class each: sizes, static, and what the judges find."""
    shares = static(release, real)
    sizes = {
        name: [int((each.labels == each.classes.index(name)).sum()) for each in (real, release)]
        for name in real.classes
    }
    weights = [sizes[name][1] for name in shares]
    overall = percent(float(np.average(list(shares.values()), weights=weights)))
    table: list[tuple[object, ...]] = [
        ("all", len(real.labels), len(release.labels), overall, *verdict.cells())
    ]
    for name in real.classes:
        table.append((f"  {name}", *sizes[name], percent(shares[name]), *verdict.recalls(name)))
    return table


def main(parts: tuple[str, ...] = (), *, seeds: int = SEEDS, sheets: Path | None = None) -> None:
    """Print class sizes, static and recall, a line a class; all subsets, or some (`PARTS`)."""
    table = Table(f"Images of {PIXELS} pixels, epsilon {EPSILON:g}, defaults", COLUMNS)
    for name in parts or PARTS:
        table.row(name)
        for line in run(SUBSETS[name], None if sheets is None else sheets / f"{name}.png", seeds):
            table.row(*line)


if __name__ == "__main__":
    main()
