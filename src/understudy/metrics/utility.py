"""Train on a release, test on real data; the baseline is the same network trained on real data.

What comes out describes private data without noise: it is marked owner-only and never enters a
release folder. Importing this module needs no torch; training does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Protocol, cast, get_args

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.ports import Encoder
from understudy.core.results import Metric, Thresholds
from understudy.metrics.labelled import Labelled as Labelled
from understudy.metrics.labelled import gather as gather
from understudy.metrics.labelled import match_classes as match_classes
from understudy.metrics.scoring import balanced_accuracy, calibration_error, confusion, recalls

if TYPE_CHECKING:
    from understudy.metrics.discriminant import EncodedClassifier
    from understudy.metrics.networks.classifier import Classifier

    AnyClassifier = Classifier | EncodedClassifier

Network = Literal[
    "two-layer",
    "discriminant",
    "cnn",
    "convnet",
    "resnet9",
    "resnet-in",
    "wrn40-4",
    "resnet50",
    "vgg11",
    "mobilenetv2",
]
"""``two-layer`` reads embeddings, the others images; ``discriminant`` is linear in features of
these, and is computed from their means and covariance."""

EpochProgress = Callable[[int, int], None]
"""Called with (epochs done, epochs in all)."""

TrainingSet = Literal["synthetic", "real", "both"]
"""What was trained on."""

Keep = Callable[[TrainingSet, int, "AnyClassifier"], None]
"""Handed every trained classifier with what it was trained on and its seed."""

ResultScore = Literal["accuracy", "balanced", "ece"]
"""The scores of a result."""


TRAINED_ON_PRIVATE = "the same network trained on the private records"

BALANCED_ACCURACY = Metric(
    key="balanced_accuracy",
    group="utility",
    name="balanced accuracy, trained on the release",
    explanation="Mean of the recalls of all classes, so that every class counts alike, however "
    "small it is. Naming one class for every row gives one over their number.",
    better="higher",
    unit="%",
    baseline=TRAINED_ON_PRIVATE,
    thresholds=Thresholds(
        good=0.05, fair=0.15, better="lower", of="what is lost against the baseline"
    ),
)

ACCURACY = Metric(
    key="accuracy",
    group="utility",
    name="accuracy, trained on the release",
    explanation="Part of all real test records whose class a model finds. Large classes decide it: "
    "a class of 2 % may never be found at 98 %.",
    better="higher",
    unit="%",
    baseline=TRAINED_ON_PRIVATE,
)

RELEASED_ACCURACY = Metric(
    key="released_accuracy",
    group="utility",
    name="balanced accuracy, released statistics",
    explanation="Balanced accuracy of the linear discriminant that the released means and the "
    "covariance of the classes are by themselves (`understudy train --from statistics`). What "
    "classifiers trained on the samples fall short of it, drawing and decoding samples has lost.",
    better="higher",
    unit="%",
    baseline="the discriminant of the private records",
)

CALIBRATION_ERROR = Metric(
    key="calibration_error",
    group="utility",
    name="calibration error, trained on the release",
    explanation="How far a model's confidence is from its accuracy. 0: not at all.",
    better="lower",
    baseline=TRAINED_ON_PRIVATE,
)

BALANCED_ACCURACY_WITH_PRIVATE = Metric(
    key="balanced_accuracy_with_private",
    group="utility",
    name="balanced accuracy, trained on the release and the private records",
    explanation="Balanced accuracy of a model that is trained on both together: whether the "
    "release adds anything for an owner of the private records.",
    better="higher",
    unit="%",
    baseline=TRAINED_ON_PRIVATE,
)

CLASS_RECALL = Metric(
    key="class_recall",
    group="utility",
    name="recall of the class, trained on the release",
    explanation="Part of a class's real test records that a model finds.",
    better="higher",
    unit="%",
    baseline=TRAINED_ON_PRIVATE,
)

MAJORITY_BALANCED_ACCURACY = Metric(
    key="majority_balanced_accuracy",
    group="utility",
    name="balanced accuracy, the majority class for every row",
    explanation="What naming one class for all records comes to: one over the number of classes.",
    unit="%",
)

MAJORITY_ACCURACY = Metric(
    key="majority_accuracy",
    group="utility",
    name="accuracy, the majority class for every row",
    explanation="What naming the most frequent class for all test records comes to.",
    unit="%",
)


@dataclass(frozen=True, slots=True)
class UtilityResult:
    """How well one trained network does on the real test split; owner-only.

    Attributes:
        accuracy: Part of the test records whose class was found, in [0, 1]; large classes decide.
        per_class: The same within each class, its recall; None for a class without test records.
        balanced: Balanced accuracy, the mean of ``per_class`` over the classes that have test
            rows. This is the one to go by.
        network: Which network.
        ece: Expected calibration error with 15 bins, in [0, 1]; 0: as often right as it is sure.
        confusion: How often each class (row) was taken for each (column), in the order of
            ``per_class``.
        n_train: Rows it was trained on; 0: not known.
        kind: What stands beside the figures wherever they are written.
    """

    accuracy: float
    per_class: dict[str, float | None]
    balanced: float
    network: Network
    ece: float = math.nan
    confusion: tuple[tuple[int, ...], ...] = ()
    n_train: int = 0
    kind: Literal["owner-only"] = "owner-only"

    @property
    def majority(self) -> float:
        """Accuracy of naming the most frequent class for every test record; NaN: not known."""
        rows = [sum(line) for line in self.confusion]
        return max(rows) / sum(rows) if rows else math.nan

    @property
    def majority_balanced(self) -> float:
        """Balanced accuracy of the same: one over the number of classes that have test records."""
        return 1 / sum(recall is not None for recall in self.per_class.values())


@dataclass(frozen=True, slots=True)
class UtilityReport:
    """The same network trained on the release and on the real data, once a seed; owner-only.

    Attributes:
        synthetic: Results of training on the release.
        real: Results of training on the real data: what sharing the data itself would give.
        both: Results of training on the two together, where that was asked for.
    """

    synthetic: tuple[UtilityResult, ...]
    real: tuple[UtilityResult, ...]
    both: tuple[UtilityResult, ...] = ()
    kind: Literal["owner-only"] = "owner-only"


def fit(
    train: Labelled,
    *,
    network: Network,
    seed: int = 0,
    epochs: int | None = None,
    device: str = "cpu",
    encoder: Encoder | None = None,
    progress: EpochProgress | None = None,
    columns: NDArray[np.int64] | None = None,
) -> AnyClassifier:
    """Train a network.

    Args:
        train: What to train on; its classes are the ones that are learned.
        network: ``"two-layer"`` for embeddings, one of the others for images.
        seed: Of the training.
        epochs: Passes over the training set; None for the recipe's own number.
        device: Where it is trained and tested: ``"cpu"`` or ``"cuda"``.
        encoder: Of ``"discriminant"``: gives the features of images.
        progress: Told after every epoch.
        columns: The features that a discriminant looks at; None: all.

    Raises:
        InputError: There is no such network, or it has no encoder that it needs.
        MissingExtra: Torch is not installed.
    """
    if network not in get_args(Network):
        raise InputError(f"no network {network!r}; there are {', '.join(get_args(Network))}")
    if network == "discriminant":
        from understudy.metrics.discriminant import image_discriminant

        if encoder is None:
            raise InputError(
                "a discriminant of images needs an encoder, which gives their features"
            )
        classes = len(train.classes)
        return image_discriminant(encoder, train.values, train.labels, classes, progress, columns)
    from understudy.metrics.networks import classifier_training

    return classifier_training.train(
        network,
        train.values,
        train.labels,
        classes=len(train.classes),
        seed=seed,
        epochs=epochs,
        device=device,
        progress=progress,
    )


class ScoredClassifier(Protocol):
    """What tells classes apart: a trained network, or a file of one."""

    @property
    def network(self) -> str:
        """What it is called."""
        ...

    def probabilities(self, values: NDArray[Any], /) -> NDArray[Any]:
        """(n, classes) of uint8 images or float32 embeddings."""
        ...


def score(
    classifier: ScoredClassifier, test: Labelled, classes: Sequence[str], *, n_train: int = 0
) -> UtilityResult:
    """How well a trained network does on a test split; classes are matched by name.

    Args:
        classifier: The network.
        test: The real test split.
        classes: The names of the classes that it was trained on.
        n_train: Rows it was trained on, for the record; 0: not known.

    Raises:
        InputError: A class that it does not know, other shapes, or no rows.
    """
    truth = match_classes(test.labels, test.classes, classes)
    if not len(truth):
        raise InputError("the test split has no rows")
    probabilities = classifier.probabilities(test.values)
    table = confusion(truth, probabilities.argmax(axis=1), len(classes))
    return UtilityResult(
        accuracy=float(np.trace(table) / len(truth)),
        per_class={
            name: None if math.isnan(recall) else recall
            for name, recall in zip(classes, recalls(table).tolist(), strict=True)
        },
        balanced=balanced_accuracy(table),
        network=cast(Network, classifier.network),
        ece=calibration_error(probabilities, truth),
        confusion=tuple(tuple(map(int, row)) for row in table),
        n_train=n_train,
    )


def utility_report(
    synthetic: Labelled,
    real: Labelled,
    test: Labelled,
    *,
    network: Network,
    seeds: Sequence[int] = (0,),
    epochs: int | None = None,
    progress: EpochProgress | None = None,
    both: bool = False,
    keep: Keep | None = None,
    encoder: Encoder | None = None,
    measured: NDArray[np.int64] | None = None,
) -> UtilityReport:
    """Train the same network on the release and on the real data, and test both.

    Of a release with more rows than the real data, a random part of the same size is used, as in
    the paper (appendix C.3), so that neither side sees more; training on both takes that part too.

    Args:
        synthetic: The release. Its classes are the ones that are learned.
        real: The real training split.
        test: The real test split.
        network: ``"two-layer"`` for embeddings, one of the others for images.
        seeds: One training on each side for every seed.
        epochs: Passes over the training set; None for the recipe's own number.
        progress: Told after every epoch of all trainings together.
        both: Also train on the two together: whether the release adds to the real data.
        keep: Handed every trained classifier, so that it can be attacked.
        encoder: Of ``"discriminant"``: gives the features of images.
        measured: The features that the release knows of real images; a discriminant that is
            trained on the release alone looks at no others. None: all.

    Raises:
        InputError: The classes, the shapes or the arrays do not fit; or there are no seeds.
        MissingExtra: Torch is not installed.
    """
    if not seeds:
        raise InputError("seeds is empty: give at least one")
    labels = match_classes(real.labels, real.classes, synthetic.classes)
    own = Labelled(real.values, labels, synthetic.classes)
    for each in (own, test):
        require_fit(synthetic, each)
    sides = cast(tuple[TrainingSet, ...], ("synthetic", "real", "both")[: 3 if both else 2])
    results_by_side: dict[TrainingSet, list[UtilityResult]]
    results_by_side = {"synthetic": [], "real": [], "both": []}
    for number, (seed, side) in enumerate(product(seeds, sides)):
        train = _rows(side, synthetic, own, seed)
        part = None if progress is None else _part(progress, number, len(sides) * len(seeds))
        options: dict[str, Any] = {"epochs": epochs, "encoder": encoder, "progress": part}
        columns = measured if side == "synthetic" else None
        model = fit(train, network=network, seed=seed, columns=columns, **options)
        if keep is not None:
            keep(side, seed, model)
        results_by_side[side].append(score(model, test, train.classes, n_train=len(train.labels)))
    synthetics, reals, boths = (tuple(results) for results in results_by_side.values())
    return UtilityReport(synthetics, reals, both=boths)


def _rows(side: TrainingSet, synthetic: Labelled, real: Labelled, seed: int) -> Labelled:
    """What is trained on: no more samples than there are real ones."""
    if side == "real":
        return real
    release = synthetic.at_most(len(real.labels), seed)
    return release.and_also(real) if side == "both" else release


def mean_and_spread(
    results: Sequence[UtilityResult], of: ResultScore = "balanced"
) -> tuple[float, float]:
    """Mean and sample standard deviation of one figure; the latter is 0 for one result.

    Args:
        results: Of one network, a result a seed.
        of: Which figure; the balanced accuracy unless said otherwise.
    """
    values = [getattr(result, of) for result in results]
    return float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0


def require_fit(train: Labelled, real: Labelled) -> None:
    """Refuse before the training what would be refused after it."""
    match_classes(real.labels, real.classes, train.classes)
    if train.values.shape[1:] != real.values.shape[1:]:
        raise InputError(
            f"the rows to train on have shape {train.values.shape[1:]}, the real ones "
            f"{real.values.shape[1:]}: use the same encoder, and images of one size and colour"
        )
    if not len(train.labels) or not len(real.labels):
        raise InputError(f"{len(train.labels)} rows to train on, {len(real.labels)} real ones")


def _part(progress: EpochProgress, number: int, trainings: int) -> EpochProgress:
    """Progress of one training among several of the same length."""
    return lambda done, total: progress(number * total + done, trainings * total)
