"""The preference (L0, L0) of the paper: nothing but text arrives, and a classifier goes back.

Every class prompt is drawn by a generator as it is (Section 4.2), and a small network is trained on
the images. There is nothing to customise; what placing, varied prompts and inpainting add to this
comes with the other levels.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.ports import Generator
from understudy.methods.sanitize.jobs import (
    JobMaterial,
    StageFiles,
    array_bytes,
    stored_arrays_of,
)
from understudy.methods.sanitize.training_set import (
    LabelledSet,
    ModelTraining,
    exported_files,
    trained_files,
)
from understudy.methods.sanitize.wire import JobRequest, ModelLicence

BATCH = 16
"""Images of one call of the generator."""


class TextPipeline:
    """(L0, L0) classifiers. A `jobs.JobPipeline`.

    Args:
        generator: Draws the class prompts; its images are square.
        training: Trains the network.

    Raises:
        ConfigError: The generator draws no RGB squares.
    """

    stages: tuple[str, ...] = ("customise", "compose", "train", "export")

    def __init__(self, generator: Generator, training: ModelTraining) -> None:
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
        return {"images.npy": array_bytes(np.concatenate(blocks))}

    def _train(self, material: JobMaterial) -> StageFiles:
        """The network on nine tenths of the images, and its accuracy on the last tenth."""
        (images,) = stored_arrays_of(material.result("compose", "images.npy"))
        classes = len(material.request.label_classes)
        labels = np.repeat(np.arange(classes), material.request.images_per_class)
        composed = LabelledSet.of_classes(images, labels)
        return trained_files(self._training, material, composed, material.seed)

    def _export(self, material: JobMaterial) -> StageFiles:
        """The network as ONNX, its standardisation folded in."""
        return exported_files(self._training, material)
