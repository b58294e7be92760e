"""The preference (L0, L0) of the paper: nothing but text arrives, and a classifier goes back.

Every class prompt is drawn by a generator as it is (Section 4.2), and a small network is trained on
the images. There is nothing to customise; what placing, varied prompts and inpainting add to this
comes with the other levels.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.ports import Generator
from understudy.core.types import Images, Labels, Shape
from understudy.methods.sanitize.jobs import (
    MODEL_FILE,
    VALIDATION_FILE,
    JobMaterial,
    StageFiles,
)
from understudy.methods.sanitize.wire import JobRequest, ModelLicence

BATCH = 16
"""Images of one call of the generator."""
HELD_OUT = 0.1
"""Part of the synthetic images that validate the model."""


class TrainedNetwork(Protocol):
    """What a training gives: `understudy.metrics.networks.classifier.Classifier` is one.

    Its module takes images from which the mean was subtracted and that the gain multiplied then.
    """

    @property
    def model(self) -> Any:
        """The torch module, in evaluation mode."""
        ...

    @property
    def mean(self) -> Any:
        """(channels,) tensor."""
        ...

    @property
    def gain(self) -> Any:
        """(channels,) tensor."""
        ...

    def predict(self, x: NDArray[Any], /) -> Labels:
        """The likeliest class of each image."""
        ...


class NetworkTraining(Protocol):
    """How a network is built and trained."""

    def build(self, shape: Shape, classes: int) -> Any:
        """An untrained torch module, the same as training gives."""
        ...

    def train(
        self, images: Images, labels: Labels, classes: int, seed: int, beat: Callable[[], None]
    ) -> TrainedNetwork:
        """Train it; ``beat`` is called after every pass."""
        ...

    def export(
        self, network: Any, shape: Shape, mean: NDArray[np.float32], gain: NDArray[np.float32]
    ) -> bytes:
        """The network as ONNX, its input standardised by (channels,) mean and gain first."""
        ...


class TextPipeline:
    """(L0, L0) classifiers. A `jobs.JobPipeline`.

    Args:
        generator: Draws the class prompts; its images are square.
        training: Trains the network.

    Raises:
        ConfigError: The generator draws no RGB squares.
    """

    stages: tuple[str, ...] = ("customise", "compose", "train", "export")

    def __init__(self, generator: Generator, training: NetworkTraining) -> None:
        height, width, channels = generator.shape
        if height != width or channels != 3 or "text" not in generator.tasks:
            raise ConfigError(
                f"{generator.name} draws {generator.shape} for {sorted(generator.tasks)}: the "
                "pipeline needs a generator that draws square RGB images of a text"
            )
        self._generator, self._side, self._training = generator, height, training
        self.name = "text alone (L0, L0)"
        licence = ModelLicence(name=generator.name, licence=generator.licence)
        self.models: tuple[ModelLicence, ...] = (licence,)
        self._runs: dict[str, Callable[[JobMaterial], StageFiles]] = {
            "customise": self._customise,
            "compose": self._compose,
            "train": self._train,
            "export": self._export,
        }

    def objection(self, request: JobRequest) -> str | None:
        """Why it cannot do what is asked; None where it can."""
        if request.disclosed:
            return "this server draws from text alone: choose level 0 for every part"
        if request.training_object != "classifier":
            return "this server trains classifiers only"
        if request.side != self._side:
            return f"this server draws {self._side} pixels a side: ask for that side"
        return None

    def run(self, stage: str, material: JobMaterial) -> StageFiles:
        """The files of one stage."""
        return self._runs[stage](material)

    def _customise(self, material: JobMaterial) -> StageFiles:
        """The prompt of every class; text alone customises nothing else."""
        request = material.request
        nouns = " and a ".join(part.noun for part in request.target_object)
        prompts = [
            f"a {nouns} {name} in a {request.background.noun}" for name in request.label_classes
        ]
        return {"prompts.json": json.dumps(prompts).encode()}

    def _compose(self, material: JobMaterial) -> StageFiles:
        """``images_per_class`` images of every prompt, in the order of the classes."""
        prompts = json.loads(material.result("customise", "prompts.json"))
        each = [prompt for prompt in prompts for _ in range(material.request.images_per_class)]
        blocks = []
        for start in range(0, len(each), BATCH):
            material.beat()
            chosen = each[start : start + BATCH]
            blocks.append(self._generator.generate(chosen, seed=material.seed + start))
        return {"images.npy": _array_bytes(np.concatenate(blocks))}

    def _train(self, material: JobMaterial) -> StageFiles:
        """The network on nine tenths of the images, and its accuracy on the last tenth."""
        from safetensors.torch import save

        images = _array(material.result("compose", "images.npy"))
        classes = len(material.request.label_classes)
        labels = np.repeat(np.arange(classes), material.request.images_per_class)
        trained, held_out = validation_split(labels, material.seed)
        network = self._training.train(
            images[trained], labels[trained], classes, material.seed, material.beat
        )
        tensors = dict(network.model.state_dict())
        tensors |= {"input.mean": network.mean, "input.gain": network.gain}
        validation = float((network.predict(images[held_out]) == labels[held_out]).mean())
        return {"network.safetensors": save(tensors), VALIDATION_FILE: repr(validation).encode()}

    def _export(self, material: JobMaterial) -> StageFiles:
        """The network as ONNX, its standardisation folded in."""
        from safetensors.torch import load

        tensors = load(material.result("train", "network.safetensors"))
        mean, gain = tensors.pop("input.mean"), tensors.pop("input.gain")
        shape = (self._side, self._side, 3)
        network = self._training.build(shape, len(material.request.label_classes))
        network.load_state_dict(tensors)
        model = self._training.export(network.eval(), shape, mean.numpy(), gain.numpy())
        return {MODEL_FILE: model, VALIDATION_FILE: material.result("train", VALIDATION_FILE)}


def validation_split(labels: Labels, seed: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Indices to train on and to validate by: a tenth of every class, at least one, is left out."""
    rng = np.random.default_rng(seed)
    held_out = []
    for label in np.unique(labels):
        rows = rng.permutation(np.flatnonzero(labels == label))
        held_out.append(rows[: max(1, round(HELD_OUT * len(rows)))])
    left_out = np.sort(np.concatenate(held_out))
    return np.setdiff1d(np.arange(len(labels)), left_out), left_out


def _array_bytes(images: Images) -> bytes:
    file = io.BytesIO()
    np.save(file, images, allow_pickle=False)
    return file.getvalue()


def _array(data: bytes) -> Images:
    images: Images = np.load(io.BytesIO(data), allow_pickle=False)
    return images
