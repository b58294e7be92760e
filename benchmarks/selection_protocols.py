"""The data of the selection benchmarks: candidates of mixed worth beside private images.

Everything is drawn by a seed, so that a protocol is the same for every method that it compares.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter

from benchmarks.fashion_mnist import FOLDER
from benchmarks.tables import load, need
from understudy import synthesize
from understudy.core.types import Images, Labels
from understudy.methods.selection.base import ProxySettings
from understudy.methods.selection.linear_proxy import LinearProxy
from understudy.metrics.utility import Labelled
from understudy.steps.space import whitening

PRIVATE, CANDIDATES, VALIDATION = 6_000, 5_000, 10_000
BLENDED, MISLABELLED = 0.2, 0.3  # of all candidates, and of those that are not blended
AXES = 64
_BLUR, _NOISE = 0.8, 30.0  # pixels, and grey levels of 255
_JUDGE = ProxySettings(steps=200, learning_rate=2.0, weight_decay=0.1)


@dataclass(frozen=True)
class FashionMnist:
    """Parts of Fashion-MNIST's training half, and its test half: images, or embeddings of them."""

    private: Labelled  # 6,000 images
    candidates: Labelled  # 5,000 made of other images: blurred and noisy
    # (5,000,) which of them are blends of two classes or have a wrong label: 44 %
    bad: NDArray[np.bool_]
    validation: Labelled  # 10,000 other images, to choose settings by
    test: Labelled  # the test half, for the figures that are reported


def fashion_mnist(seed: int) -> FashionMnist:
    """The protocol on Fashion-MNIST: what is private and what is a candidate, by the seed."""
    rng = np.random.default_rng(seed)
    half, test = load(need(FOLDER)), load(FOLDER, "test")
    order = rng.permutation(len(half.labels))
    ends = np.cumsum([PRIVATE, VALIDATION, CANDIDATES, CANDIDATES])
    private, validation, own, others = (order[a:b] for a, b in zip([0, *ends], ends, strict=False))
    images, labels, bad = _candidates(half, own, others, rng)
    return FashionMnist(
        Labelled(half.values[private], half.labels[private], half.classes),
        Labelled(images, labels, half.classes),
        bad,
        Labelled(half.values[validation], half.labels[validation], half.classes),
        test,
    )


def _candidates(
    half: Labelled, own: NDArray[np.int64], others: NDArray[np.int64], rng: np.random.Generator
) -> tuple[Images, Labels, NDArray[np.bool_]]:
    """Blurred and noisy images, their labels, and which of them are bad."""
    images, labels = half.values[own].astype(np.float32), half.labels[own].copy()
    drawn = rng.permutation(np.flatnonzero(half.labels[own] != half.labels[others]))
    blended = drawn[: round(BLENDED * len(own))]
    share = rng.uniform(0.35, 0.65, (len(blended), 1, 1, 1)).astype(np.float32)
    images[blended] = share * images[blended] + (1 - share) * half.values[others[blended]]
    rest = rng.permutation(np.setdiff1d(np.arange(len(own)), blended))
    wrong = rest[: round(MISLABELLED * len(rest))]
    classes = len(half.classes)
    labels[wrong] = (labels[wrong] + rng.integers(1, classes, len(wrong))) % classes
    bad = np.isin(np.arange(len(own)), np.concatenate([blended, wrong]))
    images = gaussian_filter(images, (0, _BLUR, _BLUR, 0))
    images += _NOISE * rng.standard_normal(images.shape).astype(np.float32)
    return np.clip(np.rint(images), 0, 255).astype(np.uint8), labels, bad


def pixel_axes(data: FashionMnist) -> FashionMnist:
    """The same data as embeddings: 64 leading axes of the pixels, whitened by the candidates."""
    space = whitening(_pixels(data.candidates.values), 1.0, AXES)
    parts = (data.private, data.candidates, data.validation, data.test)
    private, candidates, validation, test = (
        Labelled(space.forward(_pixels(part.values)), part.labels, part.classes) for part in parts
    )
    return FashionMnist(private, candidates, data.bad, validation, test)


def _pixels(images: Images) -> NDArray[np.float32]:
    return np.asarray(images.reshape(len(images), -1).astype(np.float32) / 255)


def subset(data: Labelled, indices: NDArray[np.int64]) -> Labelled:
    """Some records of a dataset."""
    return Labelled(data.values[indices], data.labels[indices], data.classes)


def linear_accuracy(train: Labelled, judged: Labelled) -> float:
    """Accuracy in percent, on other embeddings, of a softmax regression."""
    count = len(train.labels)
    judge = LinearProxy(train.values, train.labels, len(train.classes), count, _JUDGE)
    state = judge.final_state(np.ones(count))
    logits = judged.values @ state[:-1] + state[-1]
    return 100 * float((logits.argmax(1) == judged.labels).mean())


def private_selection(data: FashionMnist, **options: Any) -> Labelled:
    """Candidates that a run selects under differential privacy, through a vault."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for part, labelled in (("private", data.private), ("candidates", data.candidates)):
            labels = np.array(labelled.classes)[labelled.labels]
            np.savez(folder / f"{part}.npz", embeddings=labelled.values, labels=labels)
        result = synthesize(
            folder / "private.npz",
            out=folder / "out",
            method="selection",
            candidates=str(folder / "candidates.npz"),
            candidates_public=True,
            ledger=str(folder / "ledger.db"),
            progress="none",
            **options,
        )
        return load(result.release)
