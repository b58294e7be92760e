"""DPImageBench's protocol (github.com/2019ChenGong/DPImageBench): accuracy of deep classifiers.

``python -m benchmarks dpimagebench fmnist_28 eurosat_32 --epsilon 1,10`` releases 60,000 images of
each dataset with all defaults, trains three classifiers on 55,000 of them, and tests each at the
epoch that is best on the other 5,000, on real test images. Published sources differ on which figure
of the three they give, so all are printed, with mean, deviation and the best. ``--quick`` is one
light network, trained three times, on fewer images, for a processor, beside as many real ones: its
figures are never comparable with published ones, and its table says so.

Traps of the protocol's own code: its validation sets are private images that no budget pays for
(ours are samples), one of its readers gives grey images in blue, green, red, and classes that a
release lacks are left out of its accuracy (here they count as wrong).

EuroSAT and Fashion-MNIST are read where they lie; the others as folders or archives of classes
named ``NAME/train`` and ``NAME/test`` in ``--data``. Images are cut to their central square and
shrunk by LANCZOS. FID is what ``understudy evaluate --features inception:FILE`` prints, where
Inception's weights are at hand.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from benchmarks.domains import rows_of
from benchmarks.dpimagebench_networks import (
    ADAM,
    COLOUR,
    GREY,
    QUICK,
    QUICK_TRAINING,
    SGD,
    fit,
)
from benchmarks.fashion_mnist import FOLDER
from benchmarks.tables import DATA, Skipped, Table, load
from understudy import synthesize
from understudy.core.types import Images
from understudy.metrics.utility import Labelled, match_classes
from understudy.run.codec_rules import PLAIN_DCT, is_small_grey

EPSILONS = (1.0, 10.0)
COUNT, TRAINED = 60_000, 55_000
QUICK_COUNT, QUICK_SEEDS = 10_000, 3

PUBLISHED = {
    "mnist_28": "DP-MERF 80.3/81.3, PE 27.9/32.7, DPDM 89.2/97.7, PrivImage 94.0/97.8",
    "fmnist_28": "DP-MERF 62.2/62.2, PE 47.9/57.8, DPDM 76.4/85.6, PrivImage 79.9/87.1",
    "cifar10_32": "DP-MERF 27.2/29.0, PE 64.6/75.3, DPDM 28.9/36.8, PrivImage 74.5/78.4",
    "eurosat_32": "DP-MERF 34.9/28.0, PE 32.1/36.8, DPDM 48.8/72.8, PrivImage 47.3/71.0",
    "camelyon_32": "DP-MERF 60.4/58.3, PE 63.3/64.9, DPDM 80.6/79.5, PrivImage 82.8/82.9",
}
"""In their README, epsilon 1 / 10; DP-MERF and DPDM without pretrained weights."""


@dataclass(frozen=True)
class Protocol:
    """A dataset, and what of it trains.

    Attributes:
        side: Pixels.
        records: Private images that remain beside the validation images; None: all.
        test: Of the whole dataset, images to test on, where it has no test split of its own.
    """

    side: int
    records: int | None
    test: int | None = None


PROTOCOLS = {
    "mnist_28": Protocol(28, 55_000),
    "fmnist_28": Protocol(28, 55_000),
    "cifar10_32": Protocol(32, 45_000),
    "eurosat_32": Protocol(32, 21_000, 4_000),
    "celeba_male_32": Protocol(32, None),
    "camelyon_32": Protocol(32, None),
}
PARTS = tuple(PROTOCOLS)


def resized(images: Images, side: int) -> Images:
    """The central square of each image, (n, side, side, channels), by LANCZOS."""
    height, width = images.shape[1:3]
    edge = min(height, width)
    top, left = (height - edge) // 2, (width - edge) // 2
    square = images[:, top : top + edge, left : left + edge]
    if edge == side:
        return square
    grey = images.shape[3] == 1
    small = [
        np.asarray(Image.fromarray(image[..., 0] if grey else image).resize((side, side), 1))
        for image in square
    ]
    return np.stack(small).reshape(len(images), side, side, -1)


def split(data: Labelled, first: int) -> tuple[Labelled, Labelled]:
    """``torch.utils.data.random_split`` with seed 0: so many images, and the others."""
    order = torch.randperm(len(data.labels), generator=torch.Generator().manual_seed(0)).numpy()
    return rows_of(data, order[:first]), rows_of(data, order[first:])


def dataset(name: str, folder: Path) -> tuple[Labelled, Labelled]:
    """Private images and test images of a dataset.

    Raises:
        Skipped: Its files are not there.
    """
    protocol = PROTOCOLS[name]
    places = {"fmnist_28": FOLDER, "eurosat_32": folder / "images" / "eurosat"}
    path = places.get(name, folder / name)
    if not path.exists():
        raise Skipped(f"{path} is not there")
    parts = [load(path, part) for part in ("train", "test")]
    train, test = (replace(part, values=resized(part.values, protocol.side)) for part in parts)
    if protocol.test:
        values, labels = (
            np.concatenate([getattr(part, field) for part in (train, test)])
            for field in ("values", "labels")
        )
        order = np.argsort(labels, kind="stable")
        whole = replace(train, values=values[order], labels=labels[order])
        train, test = split(whole, len(labels) - protocol.test)
    return (split(train, protocol.records)[0] if protocol.records else train), test


def release(private: Labelled, epsilon: float, count: int) -> Labelled:
    """Samples as `understudy plan` recommends, at the protocol's delta, 1 / (N ln N)."""
    records = len(private.labels)
    many_small_grey = is_small_grey(private.values.shape[1:])
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "private.npz"
        np.savez(
            source,
            images=private.values,
            labels=np.array(private.classes)[private.labels],
        )
        result = synthesize(
            source,
            out=Path(name) / "out",
            epsilon=epsilon,
            delta=1 / (records * math.log(records)),
            count=count,
            format="parquet",
            encoder=PLAIN_DCT if many_small_grey else "auto",
            ledger=f"sqlite:///{name}/ledger.db",
            progress="none",
        )
        return load(result.release)


def main(
    names: Sequence[str] = ("fmnist_28", "eurosat_32"),
    *,
    epsilon: Sequence[float] = EPSILONS,
    quick: bool = False,
    data: Path = DATA,
    device: str = "cpu",
) -> None:
    """Print every classifier's accuracy of each dataset and epsilon."""
    for name in names:
        private, test = dataset(name, data)
        colour = name == "cifar10_32"
        networks = QUICK if quick else COLOUR if colour else GREY
        training = QUICK_TRAINING if quick else SGD if colour else ADAM
        count, seeds = (QUICK_COUNT, QUICK_SEEDS) if quick else (COUNT, 1)
        judges = [(network, seed) for network in networks for seed in range(seeds)]
        form = "quick form, NOT comparable with published figures" if quick else "full protocol"
        table = Table(
            f"{name}: {len(private.labels):,} private images, {count:,} samples, {form}",
            ("epsilon", *(network.name for network, _ in judges), "mean %", "deviation", "best %"),
            first=12,
        )
        rows: list[float | None] = [*epsilon, *([None] if quick else [])]
        for each in rows:  # the last: what a light network learns from as many real images
            samples = split(private, count)[0] if each is None else release(private, each, count)
            labels = match_classes(test.labels, test.classes, samples.classes)
            matched = replace(test, labels=labels, classes=samples.classes)
            train, validation = split(samples, count * TRAINED // COUNT)
            scores = [
                100
                * fit(network, training, train, validation, matched, device=device, seed=seed)[1]
                for network, seed in judges
            ]
            table.row(
                "real" if each is None else f"{each:g}",
                *scores,
                float(np.mean(scores)),
                float(np.std(scores)),
                max(scores),
            )
        print(f"Published at epsilon 1/10, full protocol: {PUBLISHED.get(name, 'not at hand')}")
