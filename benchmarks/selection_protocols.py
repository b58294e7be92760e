"""The protocols of the selection benchmarks: private records, candidates, and who judges them.

A `Pool` holds real images and everything that is drawn of them; a world of it says which of them
are private, and its candidates are those drawn of its private images (near-copies, blends) and of
its non-members (degraded images, some of them mislabelled). So the 16 worlds of a whole-chain
attack share one computation of the features. Features are kept in ``build/benchmarks``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.selection_images import degraded, draw, near_copy
from benchmarks.tables import CACHE, DATA, load, need
from understudy.backends.registry import load_decoder, load_encoder
from understudy.core.types import Images, Labels
from understudy.methods.selection.arithmetic import class_budgets
from understudy.metrics.labelled import Labelled
from understudy.steps.space import whitening

AXES = 64
PIXELS = 128  # a side of what the encoders take
ENCODERS = ("mobilenet_v2_features.onnx", "squeezenet1_1_features.onnx")
MISLABELLED = 0.15  # of the degraded images
KINDS = ("copy", "blend", "degraded")

_SPARE = 1.2  # copies and blends of a pool, beyond what its worlds need on average
_SKEW = 1.0  # shape of the gamma distribution of the number of copies of an image
_CROPS = 24  # of each public photo

Bool = NDArray[np.bool_]


@dataclass(frozen=True)
class Sizes:
    """How many images a protocol takes.

    Attributes:
        folder: Of ``DATA / "images"``; it holds ``train`` and ``test``.
        per_class: Private images of a class, and as many non-members.
        copies: Near-copies among the candidates of a world.
        blends: Blends of two private images among them.
        test: Test images of the judge, in proportion to the classes.
        attacker: Non-members of the attacker's own.
        held_out: Non-members that calibrate the penalties; the held-out reference as well.
    """

    folder: str
    per_class: int
    copies: int
    blends: int
    test: int
    attacker: int
    held_out: int


SIZES = {
    "clothing": Sizes("clothing", 45, 700, 200, 861, 442, 430),
    "eurosat": Sizes("eurosat", 100, 1556, 444, 2000, 1000, 1000),
}
MOST_OF_A_CLASS = 1000  # images that are taken of a dataset


@dataclass(frozen=True)
class Samples:
    """Images as the models of a protocol see them.

    Attributes:
        labels: (n,) class of each.
        proxy: (n, 64) float32: MobileNetV2's features on publicly whitened axes.
        judge: (n, 1280) float32: all of them.
        penalty: (n, 512) float32: SqueezeNet's features.
        images: (n, height, width, 3) uint8; None where only the features are there.
    """

    labels: Labels
    proxy: NDArray[np.float32]
    judge: NDArray[np.float32]
    penalty: NDArray[np.float32]
    images: Images | None = None

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: NDArray[Any]) -> Samples:
        """Some of them, without their images."""
        return Samples(self.labels[rows], self.proxy[rows], self.judge[rows], self.penalty[rows])


@dataclass(frozen=True)
class SelectionTask:
    """One world: what a selection is given, and what judges it.

    Attributes:
        name: Of the protocol.
        classes: C.
        candidates: What is selected from.
        kinds: (M,) index into `KINDS`.
        mislabelled: (M,) whether the label is wrong.
        rows: (M,) of the pool's candidates.
        private: The private records: those that the world's candidates leak.
        non_members: As many others, of which the degraded candidates are.
        held_out: Non-members that calibrate the penalties; the held-out reference.
        attacker: Non-members that calibrate the attack.
        test: Test images of the judge.
    """

    name: str
    classes: int
    candidates: Samples
    kinds: NDArray[np.int64]
    mislabelled: Bool
    rows: Labels
    private: Samples
    non_members: Samples
    held_out: Samples
    attacker: Samples
    test: Samples


@dataclass(frozen=True)
class Pool:
    """Real images, and all that the worlds of a seed draw of them.

    Attributes:
        name: Of the protocol.
        sizes: Of the protocol.
        seed: Of everything.
        classes: C.
        records: The private images and the non-members of all worlds, without order.
        drawn: The candidates of all worlds.
        kinds: (m,) of each candidate, index into `KINDS`.
        mislabelled: (m,) whether its label is wrong.
        sources: (m, 2) the records it is drawn of; the same twice except for blends.
        held_out: See `SelectionTask`.
        attacker: See `SelectionTask`.
        test: See `SelectionTask`.
    """

    name: str
    sizes: Sizes
    seed: int
    classes: int
    records: Samples
    drawn: Samples
    kinds: NDArray[np.int64]
    mislabelled: Bool
    sources: NDArray[np.int64]
    held_out: Samples
    attacker: Samples
    test: Samples

    def members(self, number: int = 0) -> Bool:
        """Half of each class's records, the other half in the next world: (n,) of an even world."""
        rng = np.random.default_rng([self.seed, 5, number // 2])
        inside = np.zeros(len(self.records), dtype=np.bool_)
        for label in range(self.classes):
            rows = np.flatnonzero(self.records.labels == label)
            inside[rng.permutation(rows)[: self.sizes.per_class]] = True
        return ~inside if number % 2 else inside

    def world(self, members: Bool, *, fitted: Bool | None = None) -> SelectionTask:
        """The world in which these records are private.

        Args:
            members: (n,) which records.
            fitted: (n,) the members that the generator is fitted to; None: all of them.
        """
        fitted = members if fitted is None else fitted
        rng = np.random.default_rng([self.seed, 6])
        rows = []
        for kind, count in ((0, self.sizes.copies), (1, self.sizes.blends)):
            possible = np.flatnonzero((self.kinds == kind) & fitted[self.sources].all(axis=1))
            rows.append(np.sort(rng.permutation(possible)[:count]))
        rows.append(np.flatnonzero((self.kinds == 2) & ~members[self.sources[:, 0]]))
        chosen = np.concatenate(rows)
        return SelectionTask(
            self.name,
            self.classes,
            self.drawn.take(chosen),
            self.kinds[chosen],
            self.mislabelled[chosen],
            chosen,
            self.records.take(np.flatnonzero(members)),
            self.records.take(np.flatnonzero(~members)),
            self.held_out,
            self.attacker,
            self.test,
        )

    def images(self) -> Images:
        """The candidates' images: (m, height, width, 3) uint8, from disk."""
        return np.asarray(np.load(_file(self.name, self.seed, "images.npy"), mmap_mode="r"))


def clothing(seed: int, *, tuning: bool = False) -> SelectionTask:
    """1,800 candidates of 450 private photos of clothes: the main protocol.

    Args:
        seed: Of all that is drawn.
        tuning: Judge by other images than the test images, to choose settings by.
    """
    pool = image_pool("clothing", seed, tuning=tuning)
    return pool.world(pool.members())


def eurosat(seed: int, *, tuning: bool = False) -> SelectionTask:
    """The same construction of 1,000 private satellite tiles: 4,000 candidates."""
    pool = image_pool("eurosat", seed, tuning=tuning)
    return pool.world(pool.members())


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


@dataclass(frozen=True)
class Recipe:
    """What a pool draws of its records.

    Attributes:
        kinds: (m,) index into `KINDS`.
        sources: (m, 2) rows of the records; the same twice except for blends.
        labels: (m,) as the candidates are labelled.
        mislabelled: (m,) whether that is wrong.
    """

    kinds: NDArray[np.int64]
    sources: NDArray[np.int64]
    labels: Labels
    mislabelled: Bool


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
        [np.stack([np.sort(copies)] * 2, 1), np.stack([firsts, seconds], 1), np.stack([twice] * 2, 1)]
    )
    kinds = np.repeat(np.arange(3), [len(copies), len(firsts), len(twice)])
    mislabelled = (kinds == 2) & (rng.random(len(kinds)) < MISLABELLED)
    classes = int(labels.max()) + 1
    wrong = (labels[sources[:, 0]] + rng.integers(1, classes, len(kinds))) % classes
    given = np.where(mislabelled, wrong, labels[sources[:, 0]])
    return Recipe(kinds, sources, given, mislabelled)


@cache
def image_pool(name: str, seed: int, *, tuning: bool = False) -> Pool:
    """The pool of a protocol; its features are computed once and kept."""
    sizes = SIZES[name]
    real = real_images(name)
    parts = roles(real.labels, sizes, seed, tuning=tuning)
    records = real.take(parts.records)
    plan = recipe(records.labels, sizes, seed)
    features = _kept(
        _file(name, seed, "drawn.npz"), lambda: embedded(_drawn(name, seed, parts.records, plan))
    )
    return Pool(
        name,
        sizes,
        seed,
        int(real.labels.max()) + 1,
        records,
        _samples(plan.labels, features, whitened(name)),
        plan.kinds,
        plan.mislabelled,
        plan.sources,
        real.take(parts.held_out),
        real.take(parts.attacker),
        real.take(parts.test),
    )


def _drawn(name: str, seed: int, records: Labels, plan: Recipe) -> Images:
    """The images of a recipe, kept on disk."""
    images = dataset(name).values[records]
    rows = [np.flatnonzero(plan.kinds == kind) for kind in range(3)]
    result = np.concatenate(
        [
            draw(images, plan.sources[rows[0], 0].tolist(), near_copy, [seed, 10]),
            blended(images, plan.sources[rows[1]], np.random.default_rng([seed, 11])),
            draw(images, plan.sources[rows[2], 0].tolist(), degraded, [seed, 12]),
        ]
    )
    np.save(_file(name, seed, "images.npy"), result)
    return result


def blended(images: Images, pairs: NDArray[np.int64], rng: np.random.Generator) -> Images:
    """Blends of pairs in the latent space of the TAEF2 autoencoder: (len(pairs), ...) uint8."""
    shape, models = images.shape[1:], DATA / "models"
    encoder = load_encoder(f"onnx:{need(models / 'taef2_encoder.onnx')}", shape=shape)
    decoder = load_decoder(
        f"onnx:{need(models / 'taef2_decoder.onnx')}", shape=shape, encoder=encoder
    )
    latents = encoder.encode(images)
    weights = rng.uniform(0.35, 0.65, (len(pairs), 1)).astype(np.float32)
    parts = []
    for start in range(0, len(pairs), 64):
        block = slice(start, start + 64)
        first, second = latents[pairs[block, 0]], latents[pairs[block, 1]]
        mixed = weights[block] * first + (1 - weights[block]) * second
        seeds = np.arange(start, start + len(mixed), dtype=np.uint64)
        parts.append(decoder.decode(mixed, seeds=seeds))
    return np.concatenate(parts)


def embedded(images: Images) -> dict[str, NDArray[np.float32]]:
    """Features of both encoders, by their names."""
    result = {}
    for file in ENCODERS:
        model = need(DATA / "models" / file)
        encoder = load_encoder(f"onnx:{model}?size={PIXELS}", shape=images.shape[1:])
        parts = [encoder.encode(images[at : at + 256]) for at in range(0, len(images), 256)]
        result[Path(file).stem] = np.concatenate(parts)
    return result


@cache
def real_images(name: str) -> Samples:
    """All images of a dataset, as the models see them."""
    features = _kept(_file(name, None, "real.npz"), lambda: embedded(dataset(name).values))
    return _samples(dataset(name).labels, features, whitened(name))


def _samples(labels: Labels, features: dict[str, NDArray[np.float32]], space: Any) -> Samples:
    judge, penalty = (features[Path(file).stem] for file in ENCODERS)
    return Samples(labels, space.forward(judge), judge, penalty)


@cache
def whitened(name: str) -> Any:
    """The proxy's space: 64 axes of public images: photos and, for clothing, satellite tiles."""
    other = "eurosat" if name == "clothing" else "clothing"
    public = [photos()[Path(ENCODERS[0]).stem]]
    features = _kept(_file(other, None, "real.npz"), lambda: embedded(dataset(other).values))
    rows = np.random.default_rng(0).permutation(len(features[Path(ENCODERS[0]).stem]))[:2000]
    public.append(features[Path(ENCODERS[0]).stem][rows])
    return whitening(np.concatenate(public), None, AXES)


def photos() -> dict[str, NDArray[np.float32]]:
    """Features of crops of the public photos."""

    def crops() -> Images:
        from PIL import Image

        files = sorted(need(DATA / "images" / "photos" / "img").glob("*.jpg"))
        rng, result = np.random.default_rng(0), []
        for file in files:
            image = Image.open(file).convert("RGB")
            for _ in range(_CROPS):
                side = rng.uniform(0.25, 1.0) * min(image.size)
                left, top = (rng.uniform(0, length - side) for length in image.size)
                box = (left, top, left + side, top + side)
                result.append(
                    np.asarray(image.resize((PIXELS, PIXELS), Image.Resampling.BOX, box=box))
                )
        return np.stack(result)

    return _kept(_file("photos", None, "real.npz"), lambda: embedded(crops()))


@cache
def dataset(name: str) -> Labelled:
    """Both splits of a dataset, at most `MOST_OF_A_CLASS` images of each class."""
    folder = need(DATA / "images" / SIZES[name].folder)
    whole = load(folder, "train").and_also(load(folder, "test"))
    rows = [
        np.flatnonzero(whole.labels == label)[:MOST_OF_A_CLASS]
        for label in range(len(whole.classes))
    ]
    chosen = np.sort(np.concatenate(rows))
    return Labelled(whole.values[chosen], whole.labels[chosen], whole.classes)


def _file(name: str, seed: int | None, ending: str) -> Path:
    CACHE.mkdir(parents=True, exist_ok=True)
    return CACHE / f"selection-{name}{'' if seed is None else f'-{seed}'}-{ending}"


def _kept(
    path: Path, make: Callable[[], dict[str, NDArray[np.float32]]]
) -> dict[str, NDArray[np.float32]]:
    """Arrays from a file, made where it is not there."""
    if not path.exists():
        np.savez(path, **make())  # type: ignore[arg-type]
    with np.load(path, allow_pickle=False) as file:
        return dict(file)
