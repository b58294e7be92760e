"""The specialised models of the server: networks of `metrics.networks`, as files and as ONNX."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import MissingExtra
from understudy.core.types import Shape
from understudy.methods.sanitize.training_set import LabelledSet, TrainedModel
from understudy.methods.sanitize.wire import ModelKind

try:
    import safetensors.torch
except ImportError as error:
    raise MissingExtra("training a model", "server") from error

from understudy.metrics.networks import mobilenet_v2, small_cnn  # isort: skip  (torch after it)
from understudy.metrics.networks.classifier import accuracy
from understudy.metrics.networks.classifier_training import train_on_images
from understudy.metrics.networks.detector import detector_ap50, one_stage_detector
from understudy.metrics.networks.detector_training import train_detector

HALF_WIDTH = 16
"""Filters of MobileNetV2's first convolution: half of the paper's, for 2.5 MB instead of 9."""


@dataclass(frozen=True)
class SmallModelTraining:
    """The small CNN or MobileNetV2, and the one-stage detector. A `training_set.ModelTraining`.

    Attributes:
        network: Of classifiers: ``"cnn"``, which learns from a thousand images, or
            ``"mobilenetv2"`` at half its width, the paper's.
        epochs: Passes over the images; None for the recipe's own number.
    """

    network: Literal["cnn", "mobilenetv2"] = "cnn"
    epochs: int | None = None

    def train(
        self,
        kind: ModelKind,
        trained: LabelledSet,
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
                trained.images,
                trained.truth,
                classes=classes,
                seed=seed,
                epochs=self.epochs,
                validation=validation,
                progress=progress,
            )
            return TrainedModel(_state(detector), detector_ap50(detector, *validation))
        classifier = train_on_images(
            trained.images,
            trained.labels,
            classes=classes,
            network=self.network,
            width=HALF_WIDTH if self.network == "mobilenetv2" else None,
            seed=seed,
            epochs=self.epochs,
            flip=True,
            validation=(held_out.images, held_out.labels),
            progress=progress,
        )
        score = accuracy(classifier, held_out.images, held_out.labels)
        return TrainedModel(_state(classifier), score)

    def export(self, kind: ModelKind, state: bytes, shape: Shape, classes: int) -> bytes:
        """The model as ONNX, its input standardised inside."""
        from understudy.metrics.networks.onnx_export import onnx_bytes

        tensors = safetensors.torch.load(state)
        mean, gain = tensors.pop("input.mean"), tensors.pop("input.gain")
        network = self._network(kind, shape, classes)
        network.load_state_dict(tensors)
        return onnx_bytes(network.eval(), shape, _numbers(mean), _numbers(gain))

    def _network(self, kind: ModelKind, shape: Shape, classes: int) -> Any:
        if kind == "detector":
            return one_stage_detector(shape, classes)
        if self.network == "mobilenetv2":
            return mobilenet_v2(shape, classes, width=HALF_WIDTH)
        return small_cnn(shape, classes)


def _state(network: Any) -> bytes:
    """Every weight by its name, and the statistics of the input."""
    tensors = dict(network.model.state_dict())
    return safetensors.torch.save(
        {**tensors, "input.mean": network.mean, "input.gain": network.gain}
    )


def _numbers(tensor: Any) -> NDArray[np.float32]:
    return np.asarray(tensor.numpy(), np.float32)
