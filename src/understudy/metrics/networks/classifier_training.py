"""Train a classifier on arrays: the paper's recipe for embeddings, a short one for images.

Everything random follows ``seed`` and nothing else: weights, order, dropout and augmentation draw
from torch's default generator inside a fork, so no global state is read or changed. The same seed
gives the same classifier on the same machine with the same number of threads.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, cast

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Embeddings, Images, Labels, Shape
from understudy.metrics.attacks import Trained, Trainer
from understudy.metrics.networks.architectures import two_layer
from understudy.metrics.networks.camera_variation import as_other_cameras
from understudy.metrics.networks.classifier import Classifier, accuracy, untrained
from understudy.metrics.networks.recipes import EMBEDDINGS, IMAGES, Recipe, optimiser_of, rate_at
from understudy.metrics.utility import EpochProgress

import torch  # isort: skip  (after architectures, which says what to install where it is missing)
from torch import Tensor, nn  # isort: skip
from torch.optim.swa_utils import AveragedModel  # isort: skip

_ONE_TRAINING_AT_A_TIME = threading.RLock()

ImageNetwork = Literal[
    "cnn", "convnet", "resnet9", "resnet-in", "wrn40-4", "resnet50", "vgg11", "mobilenetv2"
]
"""What ``network=`` of :func:`train_on_images` names; the keys of `recipes.IMAGES`."""


def train_on_embeddings(
    x: Embeddings,
    y: Labels,
    *,
    classes: int,
    seed: int = 0,
    epochs: int = 50,
    device: str = "cpu",
    progress: EpochProgress | None = None,
) -> Classifier:
    """Train the two-layer network on embeddings (clustering paper, appendix C.3).

    The paper's recipe (SGD, cosine annealing, batch 512, 50 epochs, label smoothing 0.2, weight
    decay 1e-4), but for the learning rate: 1e-2 with Nesterov momentum 0.9 instead of 1e-3. The
    paper's own, 1e-3 without momentum, is far from converged after 50 epochs of a public
    benchmark: 82.7 % on SqueezeNet features, against 91.0 % with momentum alone and 93.6 % with
    both. Inputs are standardised by the training set's own mean and deviation, a feature at a time.

    Args:
        x: (n, d) embeddings, finite; n may be smaller than a batch.
        y: (n,) classes, each in [0, classes).
        classes: Number of classes.
        seed: Of the weights, the order and dropout.
        epochs: Passes over the training set.
        device: Where it is trained, and stays: ``"cpu"`` or ``"cuda"``.
        progress: Told after every epoch.

    Raises:
        InputError: The arrays are empty, do not fit each other, or hold something not finite.
    """
    if x.ndim != 2:
        raise InputError(f"embeddings must be (n, d), found an array of shape {x.shape}")
    recipe = replace(EMBEDDINGS, epochs=epochs)
    _check(x, y, classes, recipe)
    with seeded_torch(seed, device):
        model = two_layer(x.shape[1], classes)
        classifier = untrained("two-layer", model, x, classes, device)
        _fit(classifier, x, y, recipe, None, progress)
    return classifier


def train_on_images(
    images: Images,
    y: Labels,
    *,
    classes: int,
    network: ImageNetwork = "cnn",
    seed: int = 0,
    epochs: int | None = None,
    flip: bool = False,
    camera: bool = False,
    width: int | None = None,
    validation: tuple[Images, Labels] | None = None,
    device: str = "cpu",
    progress: EpochProgress | None = None,
) -> Classifier:
    """Train a small network on images. Memory beyond ``images`` is that of one batch.

    The small CNN and ResNet-9 by Adam, the others by SGD with Nesterov momentum, all in one cycle:
    the rate climbs, then falls by a cosine. `recipes.IMAGES` has the numbers.

    Every image is shifted by up to 1/14 of its height and width, edges repeated.

    Args:
        images: (n, height, width, channels) uint8, at least 16 x 16 pixels.
        y: (n,) classes, each in [0, classes).
        classes: Number of classes.
        network: One of `recipes.IMAGES`.
        seed: Of the weights, the order, dropout and augmentation.
        epochs: Passes over the training set; None: those of its recipe, more where rows are few.
        flip: Also mirror half of them, left to right. Wrong for digits and letters.
        camera: Also vary what cameras differ in (`camera_variation`). Wrong for classes of colours.
        width: Filters of the first convolution; None: those of the network. The small CNN has
            none to choose.
        validation: Images and classes: of all epochs the best on them is given; if the recipe
            averages, the mean of the last ones, unless worse by the best's standard error.
        device: Where it is trained, and stays: ``"cpu"`` or ``"cuda"``.
        progress: Told after every epoch.

    Raises:
        InputError: The arrays are empty, do not fit each other, or are not images.
    """
    if network not in IMAGES:
        raise InputError(f"no network {network!r} for images; there are {sorted(IMAGES)}")
    if images.ndim != 4 or images.dtype != np.uint8:
        raise InputError(
            "images must be (n, height, width, channels) uint8, "
            f"found {images.dtype} of shape {images.shape}"
        )
    build, usual = IMAGES[network]
    recipe = usual.for_rows(len(images), epochs)
    _check(images, y, classes, recipe)
    with seeded_torch(seed, device):
        model = build(images.shape[1:], classes, **({} if width is None else {"width": width}))
        classifier = untrained(network, model, images, classes, device)
        change = _augmentation(images.shape[1:], flip=flip, camera=camera)
        _fit(classifier, images, y, recipe, change, progress, validation)
    return classifier


def train(
    network: str,
    x: NDArray[Any],
    y: Labels,
    *,
    classes: int,
    seed: int = 0,
    epochs: int | None = None,
    device: str = "cpu",
    progress: EpochProgress | None = None,
) -> Classifier:
    """Train any network by its name: ``"two-layer"`` on embeddings, the others on images."""
    options: dict[str, Any] = {
        "classes": classes,
        "seed": seed,
        "device": device,
        "progress": progress,
    }
    if epochs is not None:
        options["epochs"] = epochs
    if network == "two-layer":
        return train_on_embeddings(x, y, **options)
    return train_on_images(x, y, network=cast(ImageNetwork, network), **options)


def trainer(network: str, classes: int, *, epochs: int | None = None) -> Trainer:
    """What `attacks.Shadows.train` trains its shadow models with."""

    def fit(x: NDArray[Any], y: Labels, seed: int) -> Trained:
        return train(network, x, y, classes=classes, seed=seed, epochs=epochs).probabilities

    return fit


def _fit(
    classifier: Classifier,
    x: NDArray[Any],
    y: Labels,
    recipe: Recipe,
    change: Callable[[Tensor], Tensor] | None,
    progress: EpochProgress | None,
    validation: tuple[NDArray[Any], Labels] | None = None,
) -> None:
    model = classifier.model
    loss = nn.CrossEntropyLoss(label_smoothing=recipe.label_smoothing)
    optimiser = optimiser_of(model, recipe)
    steps = recipe.epochs * math.ceil(len(x) / recipe.batch)
    rate = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda i: rate_at(i, steps, recipe.warmup))
    best, weights = -1.0, None
    average = AveragedModel(model) if recipe.averaged and validation is not None else None
    first_averaged = recipe.epochs - max(1, round(recipe.averaged * recipe.epochs))
    for epoch in range(recipe.epochs):
        model.train()
        for index in even_batches(len(x), recipe.batch):
            rows = torch.from_numpy(x[index]).to(classifier.mean.device)
            scores = model(classifier.prepare(rows if change is None else change(rows)))
            optimiser.zero_grad()
            loss(scores, torch.from_numpy(y[index]).to(scores.device)).backward()
            optimiser.step()
            rate.step()
        model.eval()
        if average is not None and epoch >= first_averaged:
            average.update_parameters(model)
        if validation is not None and (score := accuracy(classifier, *validation)) >= best:
            best, weights = score, copy.deepcopy(model.state_dict())
        if progress is not None:
            progress(epoch + 1, recipe.epochs)
    if validation is None or weights is None:
        return
    if average is not None:
        model.load_state_dict(average.module.state_dict())
        chance = math.sqrt(best * (1 - best) / len(validation[1]))
        if accuracy(classifier, *validation) >= best - chance:
            return
    model.load_state_dict(weights)


def even_batches(n: int, size: int) -> Iterator[NDArray[np.int64]]:
    """A random order in even parts: a last batch of one row would stop batch normalisation."""
    order = torch.randperm(n).numpy()
    yield from np.array_split(order if n > 1 else order.repeat(2), math.ceil(n / size))


def _augmentation(shape: Shape, *, flip: bool, camera: bool) -> Callable[[Tensor], Tensor]:
    """Random shifts and mirror images of a (n, h, w, c) uint8 batch, each row its own."""
    height, width = shape[:2]
    down, right = height // 14, width // 14

    def shifted(rows: Tensor) -> Tensor:
        n = len(rows)
        y = torch.arange(height) + torch.randint(-down, down + 1, (n, 1))
        x = torch.arange(width) + torch.randint(-right, right + 1, (n, 1))
        if flip:
            x = torch.where(torch.rand(n, 1) < 0.5, x.flip(1), x)
        y, x = y.clamp(0, height - 1), x.clamp(0, width - 1)
        return rows[torch.arange(n)[:, None, None], y[:, :, None], x[:, None, :]]

    def change(rows: Tensor) -> Tensor:
        with rows.device:
            shifted_rows = shifted(rows)
        return as_other_cameras(shifted_rows) if camera else shifted_rows

    return change


def _check(x: NDArray[Any], y: Labels, classes: int, recipe: Recipe) -> None:
    if len(x) == 0 or 0 in x.shape:
        raise InputError(f"nothing to train on: the training set has shape {x.shape}")
    if y.shape != (len(x),):
        raise InputError(f"{len(x)} rows need {len(x)} labels, found labels of shape {y.shape}")
    if y.min() < 0 or y.max() >= classes:
        raise InputError(
            f"labels must be in 0..{classes - 1}, found {int(y.min())}..{int(y.max())}"
        )
    if recipe.epochs < 1:
        raise InputError(f"epochs must be at least 1, found {recipe.epochs}")


@contextmanager
def seeded_torch(seed: int, device: str = "cpu") -> Iterator[None]:
    """Torch's default generators seeded, and put back as they were afterwards.

    All threads have the same generators: of several that train, one at a time draws from them.
    """
    with (
        _ONE_TRAINING_AT_A_TIME,
        torch.random.fork_rng(devices=[] if device == "cpu" else [device]),
    ):
        torch.default_generator.manual_seed(seed)
        if device != "cpu":  # dropout draws on the device
            torch.cuda.manual_seed(seed)
        yield
