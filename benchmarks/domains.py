"""Sets of real images from unlike domains, and a network that tells the domains apart.

`default_sets` are those of ``python -m benchmarks strangers``; any folder of classes is another.
Images are read once, at 64 pixels a side unless they are smaller, and kept in memory. `Domains` is
one small CNN that learns from as many real images of every set which set an image is of: what it
says of samples is the domain that they look like.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import numpy as np

from benchmarks.fashion_mnist import FOLDER
from benchmarks.small_classes import PIXELS
from understudy.core.errors import SourceError
from understudy.core.types import Images, Labels
from understudy.data import open_source
from understudy.data.image_decoding import resize_pixels
from understudy.metrics.networks.classifier import Classifier
from understudy.metrics.utility import Labelled, fit, gather

DEFAULTS = (
    *("hands", "x-rays", "eurosat", "clothing", "fashion_mnist"),
    *("everyday", "homes", "drawings"),
)
"""The sets that are run where none is named."""

RECORDS = 8_000  # of each set at most, unless --records says otherwise
EVERYDAY_CLASSES = 10
EVERYDAY_SEED = 29
HOMES = "playhouse:pet-status?homes=60&per_home={}&seed=29"
HOME_RECORDS = {"train": 25, "test": 8}  # of each of 60 homes
FAMILIES = ("cells", "gradients", "leaves", "strokes")  # of drawings that a small CNN tells apart
FAMILY_RECORDS = 500

DOMAIN_SIDE = 32  # pixels
DOMAIN_RECORDS = 500  # of each set at most; every set has as many

Split = tuple[Labelled, Labelled]  # real images to make a release of, and real test images


@dataclass(frozen=True)
class ImageSet:
    """Real images with classes, which are read when they are first asked for."""

    name: str  # in tables and in the names of results; the domain too
    source: str  # where the images come from
    read: Callable[[], Split]  # gives all training and test images
    records: int | None = RECORDS  # training images at most; None: all of them

    @cached_property
    def split(self) -> Split:
        """Training and test images."""
        train, test = self._all
        return spread(train, self.records), test

    @property
    def of_domain(self) -> Images:
        """Training images in colour at 32 pixels, however few a release is made of."""
        return in_colour(spread(self._all[0], DOMAIN_RECORDS).values)

    @cached_property
    def _all(self) -> Split:
        return self.read()


# Parts of a set


def spread(data: Labelled, records: int | None, seed: int = 0) -> Labelled:
    """So many rows at most, every class in its proportion; None: all of them."""
    if records is None or records >= len(data.labels):
        return data
    places = np.linspace(0, len(data.labels) - 1, records).round().astype(np.int64)
    return rows_of(data, np.sort(by_class(data.labels, seed)[places]))


def divided(data: Labelled, seed: int = 0) -> Split:
    """Four fifths to train on and one to test on, of each class."""
    order = by_class(data.labels, seed)
    test = np.zeros(len(order), bool)
    test[order[2::5]] = True
    return rows_of(data, np.flatnonzero(~test)), rows_of(data, np.flatnonzero(test))


def by_class(labels: Labels, seed: int) -> Labels:
    """Rows class by class, in a random order within each."""
    return np.lexsort((np.random.default_rng(seed).permutation(len(labels)), labels))


def rows_of(data: Labelled, rows: Labels) -> Labelled:
    """Some rows."""
    return replace(data, values=data.values[rows], labels=data.labels[rows])


# Readers


def images_of(name: str | Path, split: Any = "train", **options: Any) -> Labelled:
    """A dataset in memory; ``options`` as for `open_source`, the side `PIXELS` at most."""
    options.setdefault("size", side_of(name, split))
    source = open_source(name, split=split, **options)
    return gather(source.batches(1024), source.classes)


def side_of(name: str | Path, split: Any) -> int:
    """Pixels a side: `PIXELS`, or fewer where all images are smaller."""
    try:
        return min(PIXELS, max(open_source(name, split=split).shape[:2]))
    except SourceError:  # images of several sizes; what else is wrong is said when they are read
        return PIXELS


def folder_split(folder: Path, channels: int | None) -> Split:
    """The halves ``train`` and ``test`` of a folder of classes, or a fifth of it to test on."""
    train = images_of(folder, channels=channels)
    if not all((folder / half).is_dir() for half in ("train", "test")):
        return divided(train)
    height, width = train.values.shape[1:3]
    return train, images_of(folder, "test", channels=channels, size=(height, width))


def fashion_split(channels: int | None) -> Split:
    """Fashion-MNIST, 28 pixels."""
    return images_of(FOLDER, channels=channels), images_of(FOLDER, "test", channels=channels)


def everyday_names(zips: Path) -> tuple[str, ...]:
    """The classes of the broad corpus that are drawn; what learns from the rest never saw them."""
    names: set[str] = set()
    for file in zips.glob("*.zip"):
        with ZipFile(file) as archive:
            names |= {name.partition("/")[0] for name in archive.namelist() if "/" in name}
    rng = np.random.default_rng(EVERYDAY_SEED)
    drawn = rng.choice(sorted(names), min(EVERYDAY_CLASSES, len(names)), replace=False)
    return tuple(sorted(drawn.tolist()))


def everyday_split(zips: Path, channels: int | None) -> Split:
    """Photos of `everyday_names`."""
    names = everyday_names(zips)
    with tempfile.TemporaryDirectory() as folder:
        for file in sorted(zips.glob("*.zip")):
            with ZipFile(file) as archive:
                members = [m for m in archive.namelist() if m.partition("/")[0] in names]
                archive.extractall(folder, members)
        return divided(images_of(folder, channels=channels))


def homes_split(channels: int | None) -> Split:
    """What dogs do in the drawn homes of the playhouse: four classes."""
    train, test = (
        images_of(HOMES.format(count), half, channels=channels)
        for half, count in HOME_RECORDS.items()
    )
    return train, test


def drawings_split(channels: int | None) -> Split:
    """Families of procedural drawings, a class each."""
    name = f"procedural:{{}}?count={FAMILY_RECORDS}&seed=29&channels={channels or 3}"
    values = [images_of(name.format(family)).values for family in FAMILIES]
    labels = np.repeat(np.arange(len(FAMILIES)), FAMILY_RECORDS)
    return divided(Labelled(np.concatenate(values), labels, FAMILIES))


def folder_set(
    folder: Path, records: int | None = RECORDS, channels: int | None = None
) -> ImageSet:
    """The set of a folder of classes, named after it."""
    path = folder.resolve()
    return ImageSet(path.name, str(path), partial(folder_split, path, channels), records)


def default_sets(
    data: Path, records: int | None = RECORDS, channels: int | None = None
) -> dict[str, ImageSet]:
    """Those of `DEFAULTS` whose files are there."""
    images = data / "images"
    folders = {
        "hands": images / "strangers" / "sign-digits",
        "x-rays": images / "strangers" / "chest-x-rays",
        "eurosat": images / "eurosat",
        "clothing": images / "clothing",
        "fashion_mnist": FOLDER,
        "everyday": images / "tiny-imagenet",
    }
    readers: dict[str, Callable[[], Split]] = {
        name: partial(folder_split, folder, channels) for name, folder in folders.items()
    }
    readers["fashion_mnist"] = partial(fashion_split, channels)
    readers["everyday"] = partial(everyday_split, folders["everyday"], channels)
    readers["homes"] = partial(homes_split, channels)
    readers["drawings"] = partial(drawings_split, channels)
    return {
        name: ImageSet(name, str(folders.get(name, name)), readers[name], records)
        for name in DEFAULTS
        if name not in folders or folders[name].is_dir()
    }


# The domain that images look like


@dataclass(frozen=True)
class Domains:
    """Which of several sets an image looks like, to one small CNN."""

    sets: Sequence[ImageSet]  # a domain each
    epochs: int | None = None  # of the network; None: those of its recipe

    @property
    def names(self) -> list[str]:
        """Of the domains."""
        return [each.name for each in self.sets]

    @property
    def sources(self) -> list[str]:
        """Where the images of each come from."""
        return [each.source for each in self.sets]

    @cached_property
    def classifier(self) -> Classifier:
        """Learns from real images in colour at 32 pixels, as many of every set."""
        images = [each.of_domain for each in self.sets]
        count = min(map(len, images))
        labels = np.repeat(np.arange(len(images)), count)
        values = np.concatenate(
            [np.random.default_rng(0).permutation(one)[:count] for one in images]
        )
        data = Labelled(values, labels, tuple(self.names))
        return fit(data, network="cnn", epochs=self.epochs)

    def shares(self, images: Images) -> dict[str, float]:
        """For each domain the part of the images that is taken for it."""
        labels = self.classifier.predict(in_colour(images))
        counts = np.bincount(labels, minlength=len(self.sets))
        return dict(zip(self.names, (counts / len(labels)).tolist(), strict=True))

    def recalls(self) -> dict[str, float]:
        """For each domain the part of its real test images that is taken for it."""
        tests = {each.name: spread(each.split[1], DOMAIN_RECORDS).values for each in self.sets}
        return {name: self.shares(images)[name] for name, images in tests.items()}


def in_colour(images: Images) -> Images:
    """Images of any size as (n, 32, 32, 3)."""
    return shaped(images, (DOMAIN_SIDE, DOMAIN_SIDE, 3))


def shaped(images: Images, shape: tuple[int, ...]) -> Images:
    """Images resized, and brought to grey or to equal channels, where they are of another shape."""
    if images.shape[1:] == shape:
        return images
    height, width, channels = shape
    if channels < images.shape[3]:
        images = np.rint(images.mean(axis=3, keepdims=True)).astype(np.uint8)
    elif channels > images.shape[3]:
        images = images.repeat(channels, axis=3)
    return resize_pixels(images, (height, width))
