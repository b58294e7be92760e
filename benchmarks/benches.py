"""Every shipped DP method, ready to run again and again on rows that take a moment.

Embeddings for clustering, alignment and selection; for clustering's default, the tied Gaussian of
energies, small grey images; for evolution coloured squares, and models of them that are a line
each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.audit.adjacent_datasets import InMemorySource
from understudy.audit.bench import Bench
from understudy.methods.base import Context, weights_of
from understudy.methods.evolution.algorithm import METHOD, EvolutionParams
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan, run_mu_of
from understudy.privacy.unit import Unit
from understudy.run.config import make_config
from understudy.run.prepare import prepare

METHODS = ("clustering", "tied gaussian", "alignment", "evolution", "selection")
CLASSES = ("cat", "dog")
COLOURS = ("black", "red", "green", "yellow", "blue", "pink", "cyan", "white")
PALETTE = np.array([[60.0 + 135.0 * (i >> bit & 1) for bit in range(3)] for i in range(8)])
SHAPE = (4, 4, 3)


@dataclass(frozen=True)
class Ready:
    """A method, and the private rows to run it on."""

    bench: Bench
    rows: InMemorySource


def ready(method: str, folder: Path, **options: Any) -> Ready:
    """A method on tiny embeddings; evolution on coloured squares, the tied Gaussian on images."""
    if method == "evolution":
        return squares(options.get("epsilon", 1.0))
    given: dict[str, Any] = {"count": 20, "out": folder / "out", "epsilon": 1.0}
    if method == "tied gaussian":
        method = "clustering"
        models = dict.fromkeys(("encoder", "decoder"), "embedded:energies")
        # Few samples: each is searched for.
        given |= {"source": squares_of_grey(folder / "private.npz"), "count": 4, **models}
    else:
        given["source"] = clouds(folder / "private.npz", 0)
    if method == "alignment":
        given |= {"base": str(clouds(folder / "base.npz", 1)), "settings": {"clusters": 2}}
    if method == "selection":
        candidates = str(clouds(folder / "candidates.npz", 1))
        # Clipped short, so that an outlier which the proxy knows adds all that a record may too.
        settings = {"rounds": 2, "steps": 10, "clip_norm": 0.1}
        given |= {"candidates": candidates, "settings": settings}
    prepared = prepare(make_config({**given, "method": method, **options}))
    return Ready(Bench.of(prepared), InMemorySource.of(prepared.source))


def clouds(path: Path, seed: int, per_class: int = 30, dim: int = 4, people: int = 0) -> Path:
    """An npz of embeddings: two classes, a cloud each."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(2), per_class)
    values = (2.0 * labels[:, None] + rng.normal(size=(len(labels), dim))).astype(np.float32)
    columns: dict[str, Any] = {"embeddings": values, "labels": np.array(CLASSES)[labels]}
    if people:
        columns["person"] = np.array([f"p{i % people}" for i in range(len(labels))])
    np.savez(path, **columns)
    return path


def squares_of_grey(path: Path, per_class: int = 30) -> Path:
    """An npz of grey images: two classes, noise about a light and about a dark ground."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(2), per_class)
    images = rng.normal(80 + 80 * labels[:, None, None, None], 30, (len(labels), 16, 16, 1))
    pixels = np.clip(images, 0, 255).astype(np.uint8)
    np.savez(path, images=pixels, labels=np.array(CLASSES)[labels])
    return path


def squares(epsilon: float) -> Ready:
    """Evolution of captions on red and blue cats and green dogs."""
    painter = Painter()
    captions = ["red cat"] * 20 + ["blue cat"] * 10 + ["green dog"] * 30
    labels = np.repeat([0, 1], 30)
    rows = InMemorySource("squares", "images", CLASSES, painter.generate(captions, seed=1), labels)
    budget = Budget(epsilon, 1e-5)
    context = Context(
        SHAPE,
        encoder=Eye(),
        decoder=None,
        public=False,
        mu=run_mu_of(budget),
        classes=CLASSES,
        count=12,
        generator=painter,
        writer=Pen(),
    )
    params = METHOD.settle(EvolutionParams(population=16, rounds=2, lookahead=0), context)
    plan = Plan.of(budget, weights_of(METHOD.stages(params, context)))
    return Ready(Bench(METHOD, params, plan, context, Unit()), rows)


class Painter:
    """A generator: squares of the colour that a prompt names, a little different each time."""

    name, licence, shape, tasks = "bench:painter", "none", SHAPE, frozenset({"text"})

    def generate(self, prompts: Sequence[str], *, seed: int = 0) -> NDArray[np.uint8]:
        rngs = (np.random.default_rng([seed, i]) for i in range(len(prompts)))
        noise = np.stack([rng.normal(0, 12, SHAPE) for rng in rngs])
        colours = PALETTE[[colour_of(text) for text in prompts]]
        return np.clip(colours[:, None, None] + noise, 0, 255).astype(np.uint8)


class Pen:
    """A writer: a colour by chance; a variation changes it with probability ``degree``."""

    name, licence = "bench:pen", "none"

    def write(self, count: int, *, label: str | None = None, seed: int = 0) -> list[str]:
        found = np.random.default_rng([seed, 77]).integers(8, size=count)
        return [f"a {COLOURS[colour]} {label or 'thing'}" for colour in found]

    def vary(self, texts: Sequence[str], *, degree: float = 0.5, seed: int = 0) -> list[str]:
        rng = np.random.default_rng(seed)
        others = [COLOURS[colour] for colour in rng.integers(8, size=len(texts))]
        changed = rng.random(len(texts)) < degree
        return [
            text.replace(COLOURS[colour_of(text)], other) if change else text
            for text, other, change in zip(texts, others, changed, strict=True)
        ]


class Eye:
    """An encoder: which colour it is, nearly a one-hot, on the unit sphere."""

    name, licence, dim, norm_bound, ordered = "bench:eye", "none", len(PALETTE), 1.0, False

    def encode(self, images: NDArray[np.uint8]) -> NDArray[np.float32]:
        means = images.reshape(len(images), -1, 3).mean(axis=1)
        near = np.exp(-((means[:, None] - PALETTE) ** 2).sum(axis=2) / 4000.0)
        return (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)


def colour_of(text: str) -> int:
    """Which colour a text names; black if none."""
    return next((COLOURS.index(word) for word in text.split() if word in COLOURS), 0)
