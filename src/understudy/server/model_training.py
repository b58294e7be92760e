"""The specialised models of the server: networks of `metrics.networks`, as files and as ONNX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from understudy.backends.hub.hub_models import HubOptions
from understudy.core.errors import packages_for
from understudy.core.types import Shape
from understudy.methods.sanitize.training_set import LabelledSet, TrainedModel
from understudy.methods.sanitize.wire import ModelKind

with packages_for("training a model", "server"):
    import safetensors.torch
    import torch

from understudy.metrics.networks.classifier import accuracy
from understudy.metrics.networks.classifier_training import train_on_images
from understudy.metrics.networks.detector import detector_ap50, one_stage_detector
from understudy.metrics.networks.detector_training import train_detector
from understudy.metrics.networks.recipes import IMAGES

HALF_WIDTH = 16
"""Filters of MobileNetV2's first convolution: half of the paper's, for 2.5 MB instead of 9."""
DOUBTFUL = 0.8
"""Accuracy on the synthetic images left out below which the small CNN is tried, too."""
BETTER = 0.1
"""By how much more of them it has to tell right to be taken."""

ClassifierName = Literal["resnet-in", "cnn", "mobilenetv2"]


@dataclass(frozen=True)
class SmallModelTraining:
    """Classifiers for cameras, and the one-stage detector. A `training_set.ModelTraining`.

    Both learn from images as other cameras would take them, because the server has never seen a
    photo. Neither that variation nor the residual network is for classifiers of colour or light
    alone: where not even the synthetic images are learnt, the small CNN learns from them as they
    are, and the better of the two is taken.

    Attributes:
        network: Of classifiers: ``"resnet-in"`` as above; ``"cnn"`` for the small CNN alone, or
            ``"mobilenetv2"`` at half its width, the paper's.
        epochs: Passes over the images; None for the recipe's own number.
    """

    network: ClassifierName = "resnet-in"
    epochs: int | None = None

    def train(
        self,
        kind: ModelKind,
        training_set: LabelledSet,
        held_out: LabelledSet,
        classes: int,
        seed: int,
        beat: Callable[[], None],
    ) -> TrainedModel:
        """Train it by its recipe."""

        def progress(done: int, of: int) -> None:
            beat()

        if kind == "detector":
            validation = (held_out.images, held_out.truth)
            detector = train_detector(
                training_set.images,
                training_set.truth,
                classes=classes,
                seed=seed,
                epochs=self.epochs,
                camera=True,
                validation=validation,
                device=_best_device(),
                progress=progress,
            )
            return TrainedModel(_state(detector), detector_ap50(detector, *validation))
        best = self._classifier(self.network, training_set, held_out, classes, seed, progress)
        if self.network == "resnet-in" and best.validation < DOUBTFUL:
            plain = self._classifier("cnn", training_set, held_out, classes, seed, progress)
            if plain.validation >= best.validation + BETTER:
                best = plain
        return best

    def _classifier(
        self,
        network: ClassifierName,
        training_set: LabelledSet,
        held_out: LabelledSet,
        classes: int,
        seed: int,
        progress: Callable[[int, int], None],
    ) -> TrainedModel:
        classifier = train_on_images(
            training_set.images,
            training_set.labels,
            classes=classes,
            network=network,
            width=_width(network),
            seed=seed,
            epochs=self.epochs,
            flip=True,
            camera=network == "resnet-in",
            validation=(held_out.images, held_out.labels),
            device=_best_device(),
            progress=progress,
        )
        score = accuracy(classifier, held_out.images, held_out.labels)
        return TrainedModel(_state(classifier, network), score)

    def export(self, kind: ModelKind, state: bytes, shape: Shape, classes: int) -> bytes:
        """The model as ONNX, its input standardised inside."""
        from understudy.metrics.networks.onnx_export import onnx_bytes

        network, mean, gain = loaded_network(kind, state, shape, classes)
        return onnx_bytes(network, shape, mean, gain)


def loaded_network(
    kind: ModelKind, state: bytes, shape: Shape, classes: int
) -> tuple[Any, NDArray[np.float32], NDArray[np.float32]]:
    """The trained network in evaluation mode, and mean and gain of its input.

    `state`: What `SmallModelTraining.train` gave.
    """
    tensors = safetensors.torch.load(state)
    mean, gain = tensors.pop("input.mean"), tensors.pop("input.gain")
    if kind == "detector":
        network = one_stage_detector(shape, classes)
    else:
        name = next(one for one in get_args(ClassifierName) if _mark(one) in tensors)
        tensors.pop(_mark(name))
        width = _width(name)
        network = IMAGES[name][0](shape, classes, **({} if width is None else {"width": width}))
    network.load_state_dict(tensors)
    return network.eval(), _numbers(mean), _numbers(gain)


def _width(network: ClassifierName) -> int | None:
    """Filters of the first convolution; None: those of the network."""
    return HALF_WIDTH if network == "mobilenetv2" else None


def _best_device() -> str:
    """Where models are trained: on the best that there is."""
    return str(HubOptions().placement()[0])


def _mark(name: str) -> str:
    """The tensor that says which network the weights are of."""
    return f"network.{name}"


def _state(network: Any, name: str = "") -> bytes:
    """Every weight by its name, the statistics of the input, and which network it is."""
    tensors = {key: value.cpu() for key, value in network.model.state_dict().items()}
    marks = {_mark(name): torch.zeros(1)} if name else {}
    return safetensors.torch.save(
        {**tensors, "input.mean": network.mean.cpu(), "input.gain": network.gain.cpu(), **marks}
    )


def _numbers(tensor: Any) -> NDArray[np.float32]:
    return np.asarray(tensor.numpy(), np.float32)
