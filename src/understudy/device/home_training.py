"""Training on the device itself, from the owner's own labels: nothing leaves, so it comes first.

A server that sees nothing has to guess what the camera sees; forty labelled photos of it say so.
The network is the small CNN of `metrics.networks`. Its accuracy is measured on photos that each of
a few trainings left out, and the model that is installed has learnt from all of them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.types import Labels
from understudy.device.home_folder import DeviceHome
from understudy.device.installed_models import (
    ORIGIN_HERE,
    DeviceModel,
    InstalledResult,
    offer_model,
)
from understudy.device.photo_store import labelled_photos
from understudy.metrics.networks.classifier_training import train_on_images
from understudy.metrics.networks.onnx_export import onnx_bytes

ENOUGH = 40
"""Labelled photos with which training here is worth a try before anything leaves."""
FOLDS = 4
"""Trainings that each leave out a part of the photos, to measure by."""

Report = Callable[[str], None]


def train_here(
    home: DeviceHome,
    *,
    epochs: int | None = None,
    seed: int = 0,
    wish: bool = False,
    report: Report = lambda line: None,
) -> InstalledResult:
    """Train a classifier on the labelled photos, measure it, and install it if it is better.

    `epochs`: Passes over the photos; None for the recipe's own number.

    Raises:
        InputError: There are no labelled photos, one class, or too few of a class to leave any out.
    """
    photos = labelled_photos(home)
    classes = () if photos is None else photos.classes()
    if photos is None or len(classes) < 2:
        raise InputError(
            f"training needs labelled photos of two classes or more, found {len(classes)}: put "
            "them in one folder a class and add them: understudy device add --labelled FOLDER"
        )
    labels = np.array([classes.index(label) for label in photos.labels], dtype=np.int64)
    counts = np.bincount(labels, minlength=len(classes))
    if counts.min() < 2:
        raise InputError(
            f"of {classes[int(counts.argmin())]} there is one photo: each class needs two or more, "
            f"best {ENOUGH} photos in all"
        )
    right = 0
    folds = min(FOLDS, int(counts.min()))
    for number, left_out in enumerate(stratified_folds(labels, folds, seed), start=1):
        report(f"training {number} of {folds + 1}, measured on {int(left_out.sum())} others")
        images, targets = photos.images[~left_out], labels[~left_out]
        network = train_on_images(
            images, targets, classes=len(classes), seed=seed, epochs=epochs, flip=True
        )
        right += int((network.predict(photos.images[left_out]) == labels[left_out]).sum())
    report(f"training {folds + 1} of {folds + 1}, on all {len(labels)}")
    network = train_on_images(
        photos.images, labels, classes=len(classes), seed=seed, epochs=epochs, flip=True
    )
    side = photos.images.shape[1]
    data = onnx_bytes(network.model, (side, side, 3), network.mean.numpy(), network.gain.numpy())
    accuracy = right / len(labels)
    model = DeviceModel(
        "", ORIGIN_HERE, "classifier", classes, side, accuracy, accuracy, len(labels)
    )
    return offer_model(home, data, model, wish=wish)


def stratified_folds(labels: Labels, folds: int, seed: int) -> list[NDArray[np.bool_]]:
    """Masks of equal parts of the rows, with as even a part of each class as can be."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(labels))
    order = order[np.argsort(labels[order], kind="stable")]
    masks = np.zeros((folds, len(labels)), dtype=bool)
    masks[np.arange(len(order)) % folds, order] = True
    return list(masks)
