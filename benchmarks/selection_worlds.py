"""The protocols of the selection benchmarks: private records, candidates, and who judges them.

A `Pool` holds real images and everything that is drawn of them; a world of it says which of them
are private, and its candidates are those drawn of its private images (near-copies, blends) and of
its non-members (degraded images, some of them mislabelled). So the 16 worlds of a whole-chain
attack share one computation of the features. Features are kept in ``build/benchmarks``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.likelihood_ratio_attack import WORLDS, member_draws
from benchmarks.selection_images import degraded, draw, near_copy
from benchmarks.tables import CACHE, DATA, load, need
from understudy.backends.registry import load_decoder, load_encoder
from understudy.core.ports import Encoder
from understudy.core.types import Images, Labels, Vector
from understudy.data import open_source
from understudy.methods.selection.arithmetic import class_budgets
from understudy.metrics.labelled import Labelled, gather
from understudy.playhouse.source import PLAYHOUSE_PREFIX
from understudy.steps.space import Space, whitening

AXES = 64
PIXELS = 128  # a side of what the encoders take
ENCODERS = ("mobilenet_v2_features.onnx", "squeezenet1_1_features.onnx")
MISLABELLED = 0.15  # of the degraded images
KINDS = ("copy", "blend", "degraded")

_SPARE = 1.2  # copies and blends of a pool, beyond what its worlds need on average
_SKEW = 1.0  # shape of the gamma distribution of the number of copies of an image
_AT_ONCE = 512  # images that are drawn and embedded together

Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Sizes:
    """How many images a protocol takes."""

    # a folder of ``DATA / "images"`` that holds ``train`` and ``test``, or the name of a dataset of
    # the playhouse
    source: str
    per_class: int  # private images of a class, and as many non-members
    copies: int  # near-copies among the candidates of a world
    blends: int  # blends of two private images among them
    test: int  # test images of the judge, in proportion to the classes
    attacker: int  # non-members of the attacker's own
    held_out: int  # non-members that calibrate the penalties; the held-out reference as well
    most: int = 1000  # images of a class that are taken of the dataset


SIZES = {
    "clothing": Sizes("clothing", 45, 700, 200, 861, 442, 430),
    "eurosat": Sizes("eurosat", 100, 1556, 444, 2000, 1000, 1000),
    "playhouse": Sizes("playhouse:pet-status?homes=40&gap=0.5", 60, 373, 107, 400, 240, 240),
}
"""Of each 450 private images 700 copies and 200 blends; two degraded images of each non-member."""

TINY = {
    "tiny clothing": Sizes(SIZES["clothing"].source, 10, 156, 44, 60, 60, 60, most=45),
    "tiny eurosat": Sizes(SIZES["eurosat"].source, 10, 156, 44, 60, 60, 60, most=45),
    "tiny playhouse": Sizes(SIZES["playhouse"].source, 10, 62, 18, 60, 60, 60, most=80),
}
"""The same protocols on so few images that all tables take minutes; the figures mean nothing."""


@dataclass(frozen=True)
class Samples:
    """Images as the models of a protocol see them."""

    labels: Labels  # (n,) class of each
    judge: NDArray[np.float32]  # (n, 1280) float32: MobileNetV2's features
    # (n, 512) float32: SqueezeNet's features; None where nothing asks for them
    penalty: NDArray[np.float32] | None = None
    # (n,) perceptual distance of each to the nearest private image, of releases alone
    looks: Vector | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[Any]) -> Samples:
        """Some of them."""
        penalty, looks = (None if one is None else one[rows] for one in (self.penalty, self.looks))
        return Samples(self.labels[rows], self.judge[rows], penalty, looks)


@dataclass(frozen=True)
class SelectionTask:
    """One world: what a selection is given, and what judges it."""

    name: str  # of the protocol
    seed: int  # of the pool
    classes: int  # C
    candidates: Samples  # what is selected from
    kinds: NDArray[np.int64]  # (M,) index into `KINDS`
    mislabelled: Bool  # (M,) whether the label is wrong
    private: Samples  # the private records: those that the world's candidates leak
    non_members: Samples  # as many others, of which the degraded candidates are
    held_out: Samples  # non-members that calibrate the penalties; the held-out reference
    attacker: Samples  # non-members that calibrate the attack
    test: Samples  # test images of the judge
    images: Callable[[NDArray[np.int64]], Images]  # rows of the candidates to their images
    private_images: Images  # of the private records
    # name of what is kept on disk about this world alone, where candidates have no looks
    key: str = ""

    @cached_property
    def space(self) -> Space:
        """What the proxy sees: 64 axes of MobileNetV2's features, whitened on the candidates."""
        return whitening(self.candidates.judge, None, AXES)

    @cached_property
    def looks(self) -> Vector:
        """(M,) perceptual distance of each candidate to the nearest private image; kept on disk."""
        if self.candidates.looks is not None:
            return self.candidates.looks
        from benchmarks.perceptual import kept_looks  # imports torch

        def blocks() -> Iterator[Images]:
            rows = np.arange(len(self.candidates))
            for at in range(0, len(rows), _AT_ONCE):
                yield self.images(rows[at : at + _AT_ONCE])

        return kept_looks(f"selection-{self.name}-{self.key}", blocks, self.private_images)

    def released(self, rows: NDArray[np.int64]) -> Samples:
        """Candidates as a release, with the perceptual distance of each."""
        return replace(self.candidates, looks=self.looks).take(rows)


@dataclass(frozen=True)
class Recipe:
    """What a pool draws of its records: the candidates of all worlds."""

    kinds: NDArray[np.int64]  # (m,) index into `KINDS`
    sources: NDArray[np.int64]  # (m, 2) rows of the records; the same twice except for blends
    shares: Vector  # (m,) of the first source in a blend
    labels: Labels  # (m,) as the candidates are labelled
    mislabelled: Bool  # (m,) whether that is wrong


@dataclass(frozen=True)
class Pool:
    """Real images, and all that the worlds of a seed draw of them."""

    name: str  # of the protocol
    sizes: Sizes  # of the protocol
    seed: int  # of everything
    classes: int  # C
    records: Samples  # the private images and the non-members of all worlds, without order
    units: Labels  # (n,) whose each of them is
    recipe: Recipe  # the candidates of all worlds
    images: Images  # of the records
    held_out: Samples  # see `SelectionTask`
    attacker: Samples  # see `SelectionTask`
    test: Samples  # see `SelectionTask`

    def members(self, number: int = 0) -> Bool:
        """Half of each class's records: (n,); the other half in the next of an even world."""
        return member_draws(self.records.labels, WORLDS, self.seed)[number]

    def world(self, members: Bool, *, fitted: Bool | None = None) -> SelectionTask:
        """The world in which these records are private."""
        fitted = members if fitted is None else fitted
        rng = np.random.default_rng([self.seed, 6])
        rows, kinds, sources = [], self.recipe.kinds, self.recipe.sources
        for kind, count in ((0, self.sizes.copies), (1, self.sizes.blends)):
            possible = np.flatnonzero((kinds == kind) & fitted[sources].all(axis=1))
            rows.append(np.sort(rng.permutation(possible)[:count]))
        rows.append(np.flatnonzero((kinds == 2) & ~members[sources[:, 0]]))
        chosen = np.concatenate(rows)
        return SelectionTask(
            self.name,
            self.seed,
            self.classes,
            self.candidates(chosen),
            kinds[chosen],
            self.recipe.mislabelled[chosen],
            self.records.take(np.flatnonzero(members)),
            self.records.take(np.flatnonzero(~members)),
            self.held_out,
            self.attacker,
            self.test,
            lambda some: self.drawn(chosen[some]),
            self.images[members],
            hashlib.sha256(
                b"".join([b"%d" % self.seed, chosen.tobytes(), members.tobytes()])
            ).hexdigest()[:16],
        )

    def candidates(self, rows: NDArray[np.int64]) -> Samples:
        """Candidates of the recipe, as the models see them."""
        judge, penalty = features_of(f"{self.name}-{self.seed}", self.drawn, rows)
        return Samples(self.recipe.labels[rows], judge, penalty)

    def drawn(self, rows: NDArray[np.int64]) -> Images:
        """Images of candidates of the recipe: (len(rows), height, width, 3) uint8."""
        result = np.zeros((len(rows), *self.images.shape[1:]), np.uint8)
        for kind, how in ((0, near_copy), (2, degraded)):
            mine = self.recipe.kinds[rows] == kind
            if mine.any():
                sources = self.recipe.sources[rows[mine], 0]
                result[mine] = draw(self.images[sources], how, [self.seed, 10], rows[mine])
        mine = self.recipe.kinds[rows] == 1
        if mine.any():
            pairs, shares = self.recipe.sources[rows[mine]], self.recipe.shares[rows[mine]]
            result[mine] = blended(self.images, pairs, shares)
        return result


@dataclass(frozen=True)
class Roles:
    """Which real images play which part: rows of the dataset."""

    records: Labels
    held_out: Labels
    attacker: Labels
    test: Labels


def roles(labels: Labels, sizes: Sizes, seed: int, *, tuning: bool) -> Roles:
    """Draw the parts; the test images are the same for every seed, and no other part has them."""
    classes = int(labels.max()) + 1
    test = _shares(np.arange(len(labels)), labels, sizes.test, [0, 9], sizes.per_class)
    left = np.setdiff1d(np.arange(len(labels)), test)
    rng = np.random.default_rng([seed, 0])
    records = np.sort(
        np.concatenate(
            [
                rng.permutation(left[labels[left] == label])[: 2 * sizes.per_class]
                for label in range(classes)
            ]
        )
    )
    left = np.setdiff1d(left, records)
    parts = []
    for number, count in enumerate((sizes.held_out, sizes.attacker)):
        parts.append(_shares(left, labels, count, [seed, 1, number]))
        left = np.setdiff1d(left, parts[-1])
    if tuning:
        test = _shares(left, labels, min(sizes.test, len(left)), [seed, 2])
    return Roles(records, parts[0], parts[1], test)


def _shares(
    rows: Labels, labels: Labels, count: int, seed: Sequence[int], spared: int = 0
) -> Labels:
    """So many of the rows, in proportion to what the classes have beyond twice ``spared``."""
    rng = np.random.default_rng(seed)
    possible = [
        rng.permutation(rows[labels[rows] == label])[2 * spared :]
        for label in range(int(labels.max()) + 1)
    ]
    names = np.repeat(np.arange(len(possible)), [len(one) for one in possible])
    budgets = class_budgets(names, len(possible), count)
    return np.sort(
        np.concatenate([one[:n] for one, n in zip(possible, budgets.tolist(), strict=True)])
    )


def recipe(labels: Labels, sizes: Sizes, seed: int) -> Recipe:
    """Copies in skewed numbers, blends of pairs within a class, two degraded images of each."""
    rng = np.random.default_rng([seed, 3])
    weights = rng.gamma(_SKEW, size=len(labels))
    copies = rng.choice(len(labels), round(2 * _SPARE * sizes.copies), p=weights / weights.sum())
    # Both images of a pair are private in a quarter of the worlds.
    firsts = rng.integers(len(labels), size=round(4 * _SPARE * sizes.blends))
    seconds = [rng.choice(np.setdiff1d(np.flatnonzero(labels == labels[a]), a)) for a in firsts]
    twice = np.repeat(np.arange(len(labels)), 2)
    sources = np.concatenate(
        [
            np.stack([np.sort(copies)] * 2, 1),
            np.stack([firsts, seconds], 1),
            np.stack([twice] * 2, 1),
        ]
    )
    kinds = np.repeat(np.arange(3), [len(copies), len(firsts), len(twice)])
    mislabelled = (kinds == 2) & (rng.random(len(kinds)) < MISLABELLED)
    classes = int(labels.max()) + 1
    wrong = (labels[sources[:, 0]] + rng.integers(1, classes, len(kinds))) % classes
    given = np.where(mislabelled, wrong, labels[sources[:, 0]])
    return Recipe(kinds, sources, rng.uniform(0.35, 0.65, len(kinds)), given, mislabelled)


@cache
def image_pool(name: str, seed: int, *, tuning: bool = False) -> Pool:
    """The pool of a protocol; features are computed when a world needs them, and kept."""
    sizes, labels = sizes_of(name), dataset(name).labels
    parts = roles(labels, sizes, seed, tuning=tuning)
    return Pool(
        name=name,
        sizes=sizes,
        seed=seed,
        classes=int(labels.max()) + 1,
        records=real_samples(name, parts.records, penalised=True),
        units=units_of(name)[parts.records],
        recipe=recipe(labels[parts.records], sizes, seed),
        images=dataset(name).values[parts.records],
        held_out=real_samples(name, parts.held_out, penalised=True),
        attacker=real_samples(name, parts.attacker),
        test=real_samples(name, parts.test),
    )


def blended(images: Images, pairs: NDArray[np.int64], weights: Vector) -> Images:
    """Blends of pairs in the latent space of the TAEF2 autoencoder: (len(pairs), ...) uint8."""
    shape, models = images.shape[1:], DATA / "models"
    encoder = load_encoder(f"onnx:{need(models / 'taef2_encoder.onnx')}", shape=shape)
    decoder = load_decoder(
        f"onnx:{need(models / 'taef2_decoder.onnx')}", shape=shape, encoder=encoder
    )
    used, place = np.unique(pairs, return_inverse=True)
    latents = encoder.encode(images[used])[place.reshape(pairs.shape)]
    shares = weights[:, None].astype(np.float32)
    mixed = shares * latents[:, 0] + (1 - shares) * latents[:, 1]
    return decoder.decode(mixed, seeds=np.arange(len(mixed), dtype=np.uint64))


@dataclass(frozen=True)
class FeatureFile:
    """Features that an encoder gave, kept on disk."""

    path: Path  # where
    encoder: str  # file of the ONNX model

    def read(self) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Rows and their features."""
        if not self.path.exists():
            return np.zeros(0, np.int64), np.zeros((0, 0), np.float32)
        with np.load(self.path, allow_pickle=False) as file:
            return file["rows"], file["values"]

    def of(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Features that are there: (len(rows), d)."""
        known, values = self.read()
        order = np.argsort(known)
        return np.asarray(values[order[np.searchsorted(known[order], rows)]])

    def add(self, rows: NDArray[np.int64], images: Images) -> None:
        """Embed images and keep their features."""
        known, values = self.read()
        fresh = _encoder(self.encoder, images.shape[1:]).encode(images)
        values = np.concatenate([values, fresh]) if len(values) else fresh
        np.savez(self.path, rows=np.concatenate([known, rows]), values=values)


def features_of(
    name: str,
    draw_rows: Callable[[NDArray[np.int64]], Images],
    rows: NDArray[np.int64],
    encoders: Sequence[str] = ENCODERS,
) -> list[NDArray[np.float32]]:
    """Features of images by each encoder, computed once; each image is drawn once for all."""
    CACHE.mkdir(parents=True, exist_ok=True)
    files = [
        FeatureFile(CACHE / f"selection-{name}-{one.partition('_')[0]}.npz", one)
        for one in encoders
    ]
    missing = [np.setdiff1d(rows, file.read()[0]) for file in files]
    needed = np.unique(np.concatenate(missing))
    for at in range(0, len(needed), _AT_ONCE):
        block = needed[at : at + _AT_ONCE]
        images = draw_rows(block)
        for file, lacking in zip(files, missing, strict=True):
            mine = np.isin(block, lacking)
            if mine.any():
                file.add(block[mine], images[mine])
    return [file.of(rows) for file in files]


@cache
def _encoder(file: str, shape: tuple[int, ...]) -> Encoder:
    model = need(DATA / "models" / file)
    return load_encoder(f"onnx:{model}?size={PIXELS}", shape=(shape[0], shape[1], shape[2]))


def real_samples(name: str, rows: Labels, *, penalised: bool = False) -> Samples:
    """Real images of a dataset, as the models see them."""
    encoders = ENCODERS if penalised else ENCODERS[:1]
    judge, *penalty = features_of(name, lambda few: dataset(name).values[few], rows, encoders)
    return Samples(dataset(name).labels[rows], judge, penalty[0] if penalty else None)


def sizes_of(name: str) -> Sizes:
    """Of a protocol."""
    return (SIZES | TINY)[name]


@cache
def dataset(name: str) -> Labelled:
    """Both splits of a dataset, at most so many images of each class; decoded once."""
    path = images_file(name)
    if not path.exists():
        whole = _both_splits(sizes_of(name).source)
        most = sizes_of(name).most
        rows = [np.flatnonzero(whole.labels == label)[:most] for label in range(len(whole.classes))]
        chosen = np.sort(np.concatenate(rows))
        CACHE.mkdir(parents=True, exist_ok=True)
        values, labels = whole.values[chosen], whole.labels[chosen]
        np.savez(path, values=values, labels=labels, classes=np.array(whole.classes), rows=chosen)
    with np.load(path, allow_pickle=False) as file:
        return Labelled(file["values"], file["labels"], tuple(file["classes"].tolist()))


def units_of(name: str) -> Labels:
    """The home of each image of a dataset; of other datasets each image is its own."""
    with np.load(images_file(name), allow_pickle=False) as file:
        rows: Labels = file["rows"]
    source = sizes_of(name).source
    homes = re.search(r"homes=(\d+)", source)  # whose rows go round the homes, in either split
    return rows if homes is None else rows % int(homes[1])


def _both_splits(source: str) -> Labelled:
    if source.startswith(PLAYHOUSE_PREFIX):
        train, test = (open_source(f"{source}&split={half}") for half in ("train", "test"))
        return gather(train.batches(1024), train.classes).and_also(
            gather(test.batches(1024), test.classes)
        )
    folder = need(DATA / "images" / source)
    return load(folder, "train").and_also(load(folder, "test"))


def images_file(name: str) -> Path:
    """Where `dataset` keeps the images of a protocol, and their rows in both splits."""
    return CACHE / f"selection-{name}-images.npz"
