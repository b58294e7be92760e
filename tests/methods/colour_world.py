"""A world of coloured squares: real little models of every port that evolution works with.

A square has one of eight colours, and a caption names one. Classes are only labels: which colours
a class has is what votes have to find.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.audit.adjacent_datasets import InMemorySource
from understudy.core.types import Fit, Receipt, Release
from understudy.engine.local import LocalEngine
from understudy.methods.base import Arrays, Context, Make, Materials, weights_of
from understudy.methods.evolution.algorithm import METHOD, EvolutionParams
from understudy.privacy.account import Account
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.unit import Unit
from understudy.privacy.vault import PrivateVault
from understudy.release.outputs import RunFolder

NAMES = ["black", "red", "green", "yellow", "blue", "pink", "cyan", "white"]
COLOURS = frozenset(NAMES)
PALETTE = np.array([[60.0 + 135.0 * (i >> bit & 1) for bit in range(3)] for i in range(8)])
SIDE = 4


def colour_of(text: str) -> int:
    return next((NAMES.index(word) for word in text.split() if word in COLOURS), 0)


def nearest_colours(images: NDArray[np.uint8]) -> NDArray[np.int64]:
    means = images.reshape(len(images), -1, 3).mean(axis=1)
    return ((means[:, None] - PALETTE) ** 2).sum(axis=2).argmin(axis=1)


@dataclass
class Painter:
    """A generator: squares of the colour that a prompt names, a little different each time."""

    name: str = "test:painter"
    licence: str = "none"
    shape: tuple[int, ...] = (SIDE, SIDE, 3)
    tasks: frozenset[str] = frozenset({"text", "variation"})
    noise: float = 12.0
    painted: int = 0

    def generate(self, prompts: Sequence[str], *, seed: int = 0) -> NDArray[np.uint8]:
        self.painted += len(prompts)
        rngs = [np.random.default_rng([seed, i]) for i in range(len(prompts))]
        colours = [
            colour_of(text) if any(word in COLOURS for word in text.split()) else rng.integers(8)
            for text, rng in zip(prompts, rngs, strict=True)
        ]
        return np.stack([self._square(PALETTE[c], r) for c, r in zip(colours, rngs, strict=True)])

    def vary(
        self, images: NDArray[np.uint8], prompts: Sequence[str], *, strength: float, seed: int = 0
    ) -> NDArray[np.uint8]:
        self.painted += len(prompts)
        found = []
        for i, image in enumerate(images):
            rng = np.random.default_rng([seed, i])
            colour = image.reshape(-1, 3).mean(axis=0) + rng.normal(0, 150 * strength, 3)
            found.append(self._square(colour, rng))
        return np.stack(found)

    def inpaint(self, *_: Any, **__: Any) -> NDArray[np.uint8]:
        raise NotImplementedError

    def control(self, *_: Any, **__: Any) -> NDArray[np.uint8]:
        raise NotImplementedError

    def _square(self, colour: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.uint8]:
        square = colour + rng.normal(0, self.noise, (SIDE, SIDE, 3))
        return np.clip(square, 0, 255).astype(np.uint8)


@dataclass
class Pen:
    """A writer: a colour by chance; a variation changes it with probability ``degree``."""

    name: str = "test:pen"
    licence: str = "none"
    labels: list[str | None] = field(default_factory=list)

    def write(self, count: int, *, label: str | None = None, seed: int = 0) -> list[str]:
        self.labels += [label] * (count > 0)
        found = np.random.default_rng([seed, 77]).integers(8, size=count)
        return [f"a {NAMES[colour]} {label or 'thing'}" for colour in found]

    def vary(self, texts: Sequence[str], *, degree: float = 0.5, seed: int = 0) -> list[str]:
        return [self._varied(text, degree, [seed, i]) for i, text in enumerate(texts)]

    def _varied(self, text: str, degree: float, seed: list[int]) -> str:
        rng = np.random.default_rng(seed)
        if rng.random() >= degree:
            return text
        return text.replace(NAMES[colour_of(text)], NAMES[int(rng.integers(8))])


@dataclass
class Eye:
    """An encoder of images and texts: a colour's one-hot, on the unit sphere."""

    name: str = "test:eye"
    licence: str = "none"
    dim: int = 8
    norm_bound: float | None = 1.0
    ordered: bool = False

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        means = images.reshape(len(images), -1, 3).mean(axis=1)
        near = np.exp(-((means[:, None] - PALETTE) ** 2).sum(axis=2) / 4000.0)
        return (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)

    def encode_text(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.eye(8, dtype=np.float32)[[colour_of(text) for text in texts]]


@dataclass
class Blind:
    """An encoder of images alone."""

    name: str = "test:blind"
    licence: str = "none"
    dim: int = 3
    norm_bound: float | None = None
    ordered: bool = False

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        return images.reshape(len(images), -1, 3).mean(axis=1, dtype=np.float32)


@dataclass
class Namer:
    """A captioner; ``wrong`` of its captions, spread evenly, name another colour."""

    name: str = "test:namer"
    licence: str = "none"
    seen: int = 0

    def caption(self, images: NDArray[np.uint8]) -> list[str]:
        self.seen += len(images)
        return [f"a {NAMES[colour]} thing" for colour in nearest_colours(images)]


class Squares(InMemorySource):
    """A private source: squares of given colours, with classes and people."""

    def __init__(
        self, colours: Mapping[str, Sequence[str]], per_unit: int | None = None, seed: int = 0
    ) -> None:
        classes = tuple(sorted(colours))
        pairs = [(classes.index(c), name) for c in classes for name in colours[c]]
        order = np.random.default_rng(seed).permutation(len(pairs))
        labels = np.array([pairs[i][0] for i in order], dtype=np.int64)
        names = [f"a {pairs[i][1]} thing" for i in order]
        images = Painter(noise=10).generate(names, seed=seed + 1)
        units = np.array([f"p{i // (per_unit or 1)}" for i in range(len(order))])
        super().__init__(
            "squares", "images", classes, images, labels, None if per_unit is None else units
        )


@dataclass
class Site:
    """A folder with a ledger, where runs of evolution on one source take place."""

    folder: Path
    source: Squares
    epsilon: float = 1.0
    unit: Unit = field(default_factory=Unit)
    models: dict[str, Any] = field(default_factory=dict)
    watch: Callable[[str, NDArray[np.float32]], None] | None = None
    count: int | None = None
    words: list[str] = field(default_factory=list)
    dies_after: int | None = None  # so many things kept
    fits: list[Fit] = field(default_factory=list)

    def context(self, **models: Any) -> Context:
        defaults = {
            "encoder": Eye(), "generator": Painter(), "writer": Pen(), "captioner": Namer(),
        }  # fmt: skip
        return Context(
            self.source.shape,
            decoder=None,
            public=False,
            mu=0.27,
            classes=self.source.classes,
            count=self.count,
            **(defaults | self.models | models),
        )

    def run(self, out: str = "out", **settings: Any) -> tuple[Release, Receipt, float]:
        """The release, the receipt and what the ledger says was spent on the dataset."""
        params, context = EvolutionParams(**settings), self.context()
        params = METHOD.settle(params, context)
        plan = Plan.of(Budget(self.epsilon), weights_of(METHOD.stages(params, context)))
        place = self.folder / out
        cache = place / "cache"
        cache.mkdir(parents=True, exist_ok=True)
        run = RunFolder(place, out)
        run.owner.mkdir(exist_ok=True)
        left = self.dies_after

        def keep(name: str, make: Make) -> Arrays:
            nonlocal left
            new = not (run.owner / "kept" / f"{name.replace(' ', '-')}.npz").exists()
            if new and left == 0:
                raise KeyboardInterrupt
            left = left - 1 if new and left is not None else left
            return run.keep(name, make)

        with Ledger(str(self.folder / "ledger.db")) as ledger:
            dataset = ledger.register(self.source).id
            account = Account(ledger, dataset, self.unit, plan, run.stages, run.run)
            vault = PrivateVault(self.source, account, LocalEngine(1), cache)
            materials = Materials(
                context,
                vault,
                None,
                0,
                self._bar,
                keep=keep,
                watch=self.watch,
                report_fit=self.fits.append,
            )
            release = METHOD.run(materials, params)
            receipt = vault.receipt()
            vault.close()
            return release, receipt, ledger.spent(dataset).epsilon

    def _bar(self, words: str, _: int | None) -> Callable[[int], None]:
        self.words.append(words)
        return lambda _: None


def rows_of(release: Release) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """All images and labels."""
    batches = list(release.batches())
    images = [batch.images for batch in batches if batch.images is not None]
    return np.concatenate(images), np.concatenate([batch.labels for batch in batches])
