"""The values that pass between the layers: batches, synthetic data, receipts."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

Images = NDArray[np.uint8]
"""Images: (n, height, width, channels) uint8, channels 1 (grey) or 3 (RGB)."""

Embeddings = NDArray[np.float32]
"""Embeddings: (n, d) float32."""

Labels = NDArray[np.int64]
"""Class of each row: (n,) int64, an index into the dataset's class names."""

Vector = NDArray[np.float64]
"""Any released or computed array of real numbers, float64."""

Seeds = NDArray[np.uint64]
"""Seeds of a decoder's noise: (n,) uint64, one a sample."""

Masks = NDArray[np.bool_]
"""Masks: (n, height, width) bool, True inside."""

Maps = NDArray[np.int64]
"""Semantic maps: (n, height, width) int64, an index into the model's class names a pixel."""

Scores = NDArray[np.float32]
"""Scores of classes: (n, classes, height, width) float32 in [0, 1]."""

Texts = Sequence[str]
"""Captions or prompts, one a row."""

Shape = tuple[int, ...]
"""Shape of one record: (height, width, channels) of an image, or (d,) of an embedding."""


def is_shape(value: object, length: int) -> bool:
    """Whether a plug-in gave so many positive whole numbers."""
    return (
        isinstance(value, Sequence)
        and len(value) == length
        and all(isinstance(side, Integral) and int(side) > 0 for side in value)
    )


@dataclass(frozen=True, slots=True)
class Batch:
    """Consecutive rows of a dataset, as a source reads them.

    Attributes:
        values: (n, height, width, channels) uint8 images, or (n, d) float32 embeddings.
        labels: (n,) int64.
        units: Who each row belongs to, (n,) of str; None where every row is its own unit.
    """

    values: NDArray[Any]
    labels: Labels
    units: NDArray[np.str_] | None = None

    def __post_init__(self) -> None:
        """Raises TypeError where the source's code is still to blame, which others would be."""
        column: Any
        for column, kinds in ((self.labels, "iu"), (self.units, "U")):
            right = isinstance(column, np.ndarray) and column.shape == (len(self.values),)
            left_out = column is None and kinds == "U"
            if not left_out and not (right and column.dtype.kind in kinds):
                raise TypeError("labels of a batch are (n,) of int64, units an array of n str")


@dataclass(frozen=True, slots=True)
class SyntheticBatch:
    """Synthetic rows: embeddings, images, or both, with a class each.

    Attributes:
        labels: (n,) int64.
        embeddings: (n, d) float32, or None.
        images: (n, height, width, channels) uint8, or None.
        captions: What each image was drawn from, n of them, or None.
    """

    labels: Labels
    embeddings: Embeddings | None = None
    images: Images | None = None
    captions: Texts | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """The objects found in one image, best first.

    Attributes:
        boxes: (k, 4) float32, left, top, right, bottom in pixels of the image.
        labels: (k,) int64, an index into the model's class names.
        scores: (k,) float32 in [0, 1].
        masks: (k, height, width) bool; None where the model finds boxes only.
    """

    boxes: NDArray[np.float32]
    labels: Labels
    scores: NDArray[np.float32]
    masks: Masks | None = None


@dataclass(frozen=True, slots=True)
class Sampling:
    """Releases of Poisson samples of the units, one a step, as DP-SGD makes them.

    Attributes:
        rate: Probability of a unit to be in a step's sample, in (0, 1]; independent of the others.
        steps: How many.
    """

    rate: float
    steps: int


@dataclass(frozen=True, slots=True)
class UnitCounts:
    """How many units a dataset has, as the sums of a run count them.

    Attributes:
        total: In all.
        of_class: Of a class, in the mean: a unit counts in each of its classes as its number of
            records of that class over the L2 norm of these numbers.
    """

    total: float
    of_class: float


@dataclass(frozen=True, slots=True)
class Stage:
    """One release that a method plans: what is paid for by this name, and nothing else.

    Attributes:
        name: Its name in the plan, the ledger and the receipt, such as ``"means"``.
        weight: Its part of the run's squared mu, in proportion to the other stages' weights.
        sampling: Where it is many releases, of samples of the units; None: one release, of all.
    """

    name: str
    weight: float
    sampling: Sampling | None = None


@dataclass(frozen=True, slots=True)
class StageReceipt:
    """What one release cost.

    Attributes:
        stage: Name of the stage in the plan, such as ``"moments"``.
        query: What was asked, in words.
        share: Part of the run's squared mu, in (0, 1].
        sensitivity: Largest change of the sum, in L2, that one unit can cause.
        sigma: Standard deviation of the noise, in the units of the sum.
        mu: sensitivity / sigma, the Gaussian-DP parameter of this release, or of each step.
        size: How many numbers were released, in all steps.
        origin: The release that this one was made from, where the stage was paid for there, such as
            ``"candidates"``; empty: paid for by this run.
        rate: Probability of a unit to be in a step's sample; 1: every unit is.
        steps: How many releases there were, one a step.
    """

    stage: str
    query: str
    share: float
    sensitivity: float
    sigma: float
    mu: float
    size: int
    origin: str = ""
    rate: float = 1.0
    steps: int = 1

    @property
    def sampled(self) -> bool:
        """Whether the units were sampled, so that mu alone does not say what it cost."""
        return self.rate < 1 or self.steps > 1


@dataclass(frozen=True, slots=True)
class Receipt:
    """The guarantee of a run, and what each stage of it cost.

    Attributes:
        unit: What one person contributes, in words.
        adjacency: ``"add-remove"`` or ``"replace-one"``.
        epsilon: Epsilon of everything this run released, and of the releases that it was made from,
            discretisation slack included. Infinite: there is no guarantee at all.
        delta: Delta of the same.
        slack: Part of epsilon that covers discrete instead of continuous noise.
        stages: One receipt a release, in order.
        runs: How many runs like this one were expected, the best of which by its score is released,
            all of them within epsilon; None: there was one.
    """

    unit: str
    adjacency: str
    epsilon: float
    delta: float
    slack: float
    stages: tuple[StageReceipt, ...]
    runs: float | None = None


@dataclass(frozen=True, slots=True)
class LinearClassifier:
    """A classifier that is made of released statistics alone: it gives nothing away besides them.

    Attributes:
        weights: (d, classes) float64, of embeddings by the run's encoder.
        bias: (classes,) float64.
    """

    weights: Vector
    bias: Vector

    def scores(self, embeddings: Embeddings) -> Vector:
        """(n, d) to (n, classes) float64; the largest is the class."""
        return np.asarray(embeddings.astype(np.float64) @ self.weights + self.bias)

    def predict(self, embeddings: Embeddings) -> Labels:
        """The class of each: (n, d) to (n,) int64."""
        return np.asarray(self.scores(embeddings).argmax(axis=1), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Release:
    """A synthetic dataset, produced batch by batch so that memory does not grow with it.

    Attributes:
        method: Name of the method that made it.
        classes: Class names; labels index into them. Empty when unconditional and unlabelled.
        count: Number of rows ``batches`` yields in all.
        batches: Starts the rows from the first one; every call yields the same rows.
        dim: d, where there are embeddings.
        image_shape: (height, width, channels), where there are images.
        facts: Public facts of the method worth printing (kept clusters, noise, ...): JSON values.
        captioned: Whether every image comes with a caption.
        licence: Licence of the model that drew the images, to be written beside each caption; None
            where captions stand alone.
        classifier: What the released statistics know of the classes, where they can classify.
        settings: Those of the method that samples depend on, as JSON values; None: all.
    """

    method: str
    classes: tuple[str, ...]
    count: int
    batches: Callable[[], Iterator[SyntheticBatch]]
    dim: int | None = None
    image_shape: Shape | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    captioned: bool = False
    licence: str | None = None
    classifier: LinearClassifier | None = None
    settings: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The words that a model was taught, where it knows no others.

    Attributes:
        words: In lower case.
        scope: What the model knows, in words: ``"scenes of the playhouse"``.
    """

    words: frozenset[str]
    scope: str


@dataclass(frozen=True, slots=True)
class Fit:
    """One measure of how well a run's models fit the domain of the private images.

    Attributes:
        measure: What was measured, in words.
        value: What was found.
        chance: What models that know nothing of the domain would give; None where nobody knows.
        kind: ``"public"``, or ``"DP"`` for what follows from noisy answers.
        warning: What is wrong and what to use instead; None where the models fit.
    """

    measure: str
    value: float
    chance: float | None
    kind: str
    warning: str | None = None
