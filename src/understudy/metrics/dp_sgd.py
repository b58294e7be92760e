"""What a user would do otherwise: train the classifier itself on the real data, by DP-SGD.

For comparison only, and nothing of it may be released: the noise comes from a seeded generator, and
the number of rows is taken as public. Both lean the rival's way.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from understudy.core.errors import InputError, packages_for
from understudy.core.results import Metric
from understudy.metrics.labelled import Labelled
from understudy.metrics.utility import EpochProgress, Network, UtilityResult, require_fit, score

if TYPE_CHECKING:
    from understudy.metrics.networks.classifier import Classifier

_GRADIENTS = 2**26
"""Numbers of per-row gradients held at once: 256 MB."""


DP_SGD_ACCURACY = Metric(
    key="dp_sgd_balanced_accuracy",
    group="utility",
    name="balanced accuracy, DP-SGD on the private records",
    explanation="Balanced accuracy of the network when it is trained on the private records with "
    "noise (DP-SGD), at the release's epsilon and delta, instead of on a release.",
    better="higher",
    unit="%",
    baseline="the same network trained on the private records without noise",
)


LEARNING_RATE, CLIP = 0.5, 1.0
"""The usual rate, of SGD with momentum 0.9, and L2 bound of a row's gradient."""


@dataclass(frozen=True, slots=True)
class DpSgd:
    """A classifier trained by DP-SGD, and what it came to. Owner-only.

    Attributes:
        result: How well it does on the real test split.
        epsilon: Of the trained model, by the PRV accountant of Opacus.
        noise: Noise multiplier: standard deviation of the noise over the clipping bound.
        rate: Probability of a row to be in a step.
        steps: How many steps.
    """

    result: UtilityResult
    epsilon: float
    noise: float
    rate: float
    steps: int


def dp_sgd(
    train: Labelled,
    test: Labelled,
    *,
    epsilon: float,
    delta: float,
    network: Network = "cnn",
    epochs: int = 20,
    batch: int = 256,
    lr: float = LEARNING_RATE,
    clip: float = CLIP,
    seed: int = 0,
    progress: EpochProgress | None = None,
) -> DpSgd:
    """Train one of our networks on real data by DP-SGD (Abadi et al. 2016), with Opacus.

    Inputs are scaled without looking at the data: pixels to -1 to 1, embeddings to unit norm.

    Args:
        train: The real training split; n rows.
        test: The real test split.
        epsilon: The model's, to be reached after the last epoch (add or remove one row).
        delta: The model's.
        network: Any of our networks; ``"cnn"`` and ``"convnet"`` have no batch normalisation.
        epochs: Passes over the rows.
        batch: Expected rows of a step: each row is in with probability batch / n.
        lr: Learning rate.
        clip: L2 bound of a row's gradient.
        seed: Of weights, sampling and noise.
        progress: Told after every epoch.

    Raises:
        InputError: No rows, or classes or shapes that do not fit.
        MissingExtra: Opacus or torch is not installed.
    """
    require_fit(train, test)
    rows, tests = _public(train), _public(test)
    with _seeded(seed) as engine:
        classifier = _untrained(network, rows)
        model, optimiser, loader = engine.make_private_with_epsilon(
            **_components(classifier, rows, batch, lr),
            target_epsilon=epsilon,
            target_delta=delta,
            epochs=epochs,
            max_grad_norm=clip,
        )
        for epoch in range(epochs):
            _epoch(classifier, model, optimiser, loader, batch)
            if progress is not None:
                progress(epoch + 1, epochs)
        spent = float(engine.get_epsilon(delta))
    classifier.model.eval()
    return DpSgd(
        score(classifier, tests, rows.classes, n_train=len(rows.labels)),
        epsilon=spent,
        noise=float(optimiser.noise_multiplier),
        rate=1 / len(loader),
        steps=epochs * len(loader),
    )


def _components(classifier: Classifier, rows: Labelled, batch: int, lr: float) -> dict[str, Any]:
    """The model, an optimiser and a loader, as Opacus takes them."""
    import torch

    pairs = torch.utils.data.TensorDataset(
        torch.from_numpy(np.ascontiguousarray(rows.values)),
        torch.from_numpy(rows.labels.astype(np.int64)),
    )
    model = classifier.model.train()
    return {
        "module": model,
        "optimizer": torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9),
        "data_loader": torch.utils.data.DataLoader(pairs, min(batch, len(rows.labels))),
    }


def _epoch(classifier: Classifier, model: Any, optimiser: Any, loader: Any, batch: int) -> None:
    """One pass; a step's rows go through the network a few at a time."""
    from opacus.utils.batch_memory_manager import BatchMemoryManager
    from torch import nn

    loss = nn.CrossEntropyLoss()
    weights = sum(part.numel() for part in model.parameters())
    with BatchMemoryManager(
        data_loader=loader,
        max_physical_batch_size=max(1, min(batch, _GRADIENTS // weights)),
        optimizer=optimiser,
    ) as parts:
        for values, labels in parts:
            optimiser.zero_grad()
            loss(model(classifier.prepare(values)), labels).backward()
            optimiser.step()


def _untrained(network: Network, rows: Labelled) -> Classifier:
    """A network whose inputs are scaled by constants.

    Batch normalisation mixes rows, so that per-row gradients do not exist: group normalisation
    stands in, as Opacus advises.
    """
    import torch
    from opacus.validators import ModuleValidator

    from understudy.metrics.networks.architectures import two_layer
    from understudy.metrics.networks.classifier import Classifier
    from understudy.metrics.networks.recipes import IMAGES

    shape, classes = rows.values.shape[1:], len(rows.classes)
    if (network == "two-layer") != (len(shape) == 1):
        raise InputError(f"the network {network!r} does not read rows of shape {shape}")
    if network == "two-layer":
        return Classifier(
            network,
            ModuleValidator.fix(two_layer(shape[0], classes)),
            shape,
            classes,
            torch.tensor(0.0),
            torch.tensor(1.0),
        )
    model = ModuleValidator.fix(IMAGES[network][0](shape, classes))
    middle = torch.tensor(127.5)
    return Classifier(network, model, shape, classes, middle, 1 / middle)


def _public(rows: Labelled) -> Labelled:
    """Embeddings of unit norm; images as they are."""
    if rows.values.ndim != 2:
        return rows
    norms = np.linalg.norm(rows.values, axis=1, keepdims=True)
    values = np.asarray(rows.values / np.maximum(norms, 1e-12), dtype=np.float32)
    return replace(rows, values=values)


@contextmanager
def _seeded(seed: int) -> Iterator[Any]:
    """Opacus's engine, torch's generator seeded and put back afterwards, and no warnings."""
    from understudy.metrics.networks.classifier_training import seeded_torch

    with warnings.catch_warnings(), seeded_torch(seed):
        # Opacus warns that its noise is seeded, which here it may be, and of its own hooks.
        warnings.simplefilter("ignore")
        with packages_for("DP-SGD on the real data", "bench"):
            from opacus import PrivacyEngine
        yield PrivacyEngine(accountant="prv")
