"""The server's half of SpinML for every pair of levels: customise, compose, train, export.

Each stage is a function of the request, the items, earlier stages and the seed, so that a job
whose server was killed goes on with the same result.
"""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np

from understudy.core.errors import ConfigError, UnderstudyError
from understudy.core.ports import Generator, Segmenter, Tuner
from understudy.core.types import Images, Masks, Vector
from understudy.methods.sanitize.compose import Composer, ComposeSettings, Material
from understudy.methods.sanitize.customise import (
    References,
    TuningPlan,
    references_of,
    tuned_changes,
)
from understudy.methods.sanitize.cutouts import cut_out
from understudy.methods.sanitize.jobs import (
    DIRECTIONS_FILE,
    MODEL_FILE,
    VALIDATION_FILE,
    JobMaterial,
    StageFiles,
)
from understudy.methods.sanitize.scene_prompts import ScenePrompts
from understudy.methods.sanitize.segments import classes_of
from understudy.methods.sanitize.training_set import (
    LabelledSet,
    ModelTraining,
    joined_sets,
    mixed_set,
    train_model,
)
from understudy.methods.sanitize.wire import JobRequest, ModelLicence, PartRequest

JOB_STAGES = ("customise", "compose", "train", "export")
_WEIGHTS = "network.safetensors"
_LOOKED_AT = 64  # synthetic images whose looks a device compares with its photos

PartDirections = Callable[[Images, Masks], tuple[Vector, Vector]]
"""Of images and the pixels of their objects: see `wire.ModelResult.directions`."""


class SpinmlPipeline:
    """A `jobs.JobPipeline`.

    `tuner`: Of the same generator; None: no classifier of an object above L0. `directions`: What
    devices may compare the synthetic images by.

    Raises:
        ConfigError: The generator does not draw square RGB images, or cannot inpaint.
    """

    stages: tuple[str, ...] = JOB_STAGES

    def __init__(
        self,
        generator: Generator,
        segmenter: Segmenter,
        training: ModelTraining,
        *,
        tuner: Tuner | None = None,
        plan: TuningPlan | None = None,
        settings: ComposeSettings | None = None,
        directions: PartDirections | None = None,
    ) -> None:
        height, width, channels = generator.shape
        if height != width or channels != 3 or not {"text", "inpainting"} <= generator.tasks:
            raise ConfigError(
                f"{generator.name} draws {generator.shape} for {sorted(generator.tasks)}: the "
                "pipeline needs a generator that draws and inpaints square RGB images"
            )
        self._generator, self._segmenter, self._training = generator, segmenter, training
        self._side, self._tuner, self._directions = height, tuner, directions
        self._plan, self._settings = plan or TuningPlan({}), settings or ComposeSettings()
        self.name = "SpinML, all levels"
        used = {generator.name: generator.licence, segmenter.name: segmenter.licence}
        self.models: tuple[ModelLicence, ...] = tuple(
            ModelLicence(name=name, licence=licence) for name, licence in used.items()
        )
        self._runs: dict[str, Callable[[JobMaterial], StageFiles]] = {
            "customise": self._customise,
            "compose": self._compose,
            "train": self._train,
            "export": self._export,
        }

    def objection(self, request: JobRequest) -> str | None:
        """Why it cannot do what is asked; None where it can."""
        if request.side != self._side:
            return f"this server draws {self._side} pixels a side: ask for that side"
        for number, part in enumerate(request.parts):
            if number and not self._knows(part):
                return (
                    "this server's segmenter has no class for an object: name it by one of "
                    f"{', '.join(self._segmenter.classes)}"
                )
            if part.feature in ("edges", "pose"):
                task = f"control:{part.feature}"
                if task not in self._generator.tasks:
                    return f"this server cannot follow {part.feature}: choose another feature"
            if self._tunes(request, number) and self._tuner is None:
                return "this server does not tune its generator: choose level 0"
        return None

    def run(self, stage: str, material: JobMaterial) -> StageFiles:
        """The files of one stage."""
        return self._runs[stage](material)

    def _knows(self, part: PartRequest) -> bool:
        try:
            classes_of(part.noun, self._segmenter.classes)
        except UnderstudyError:
            return False
        return True

    def _tunes(self, request: JobRequest, number: int) -> bool:
        """Whether the generator of a part is tuned on its references.

        Of a thing that does nothing the references themselves are cut out, which does as well as
        DreamBooth; so does a background that objects are pasted on.
        """
        part = request.parts[number]
        if part.level == 0 or part.feature == "box":
            return False
        if number == 0:
            return self._plan.merge_background
        return number == 1 and request.training_object == "classifier"

    def _customise(self, material: JobMaterial) -> StageFiles:
        """References of every part above L0, and the weights of generators tuned on them."""
        request, files = material.request, dict[str, bytes]()
        for number in request.disclosed:
            material.beat()
            part, seed = request.parts[number], _seed(material, 1, number)
            references = references_of(
                part,
                material.items(number),
                request.side,
                self._generator,
                self._segmenter,
                ScenePrompts(request.background.noun),
                seed,
            )
            files[f"part-{number}.references"] = references.to_bytes()
            if self._tuner is not None and self._tunes(request, number) and len(references.images):
                files[f"part-{number}.weights"] = tuned_changes(
                    self._tuner, references, part.noun, self._plan, seed, material.beat
                )
        tuned = [number for number in request.disclosed if f"part-{number}.weights" in files]
        return {**files, "tuned.txt": " ".join(map(str, tuned)).encode()}

    def _compose(self, material: JobMaterial) -> StageFiles:
        """Labelled images."""
        request = material.request
        tuned = frozenset(map(int, material.result("customise", "tuned.txt").split()))
        generators = dict.fromkeys(range(len(request.parts)), self._generator)
        if self._tuner is not None:
            for number in tuned:
                changes = material.result("customise", f"part-{number}.weights")
                generators[number] = self._tuner.restore(changes)
        references = {
            number: References.from_bytes(material.result("customise", f"part-{number}.references"))
            for number in request.disclosed
        }
        sets = []
        for number, preference in enumerate(request.preferences()):
            above = set(preference.disclosed)
            composer = Composer(
                preference,
                Material(
                    {
                        part: own if part in above else self._generator
                        for part, own in generators.items()
                    },
                    {part: own for part, own in references.items() if part in above},
                    tuned & above,
                    self._generator,
                ),
                self._segmenter,
                ScenePrompts(request.background.noun),
                self._settings,
                material.beat,
            )
            sets.append(composer.compose(_seed(material, 2, *([number] if number else []))))
        whole = mixed_set(sets, _seed(material, 4)) if request.equal_shares else joined_sets(sets)
        return {"images.npy": (whole if len(sets) > 1 else sets[0]).to_bytes()}

    def _train(self, material: JobMaterial) -> StageFiles:
        """The model on nine tenths of the images, its result on the last tenth."""
        request = material.request
        model = train_model(
            self._training,
            request.training_object,
            LabelledSet.from_bytes(material.result("compose", "images.npy")),
            len(request.label_classes),
            _seed(material, 3),
            beat=material.beat,
        )
        return {_WEIGHTS: model.state, VALIDATION_FILE: repr(model.validation).encode()}

    def _export(self, material: JobMaterial) -> StageFiles:
        """The model as ONNX, its standardisation folded in."""
        request = material.request
        model = self._training.export(
            request.training_object,
            material.result("train", _WEIGHTS),
            (request.side, request.side, 3),
            len(request.label_classes),
        )
        files = {MODEL_FILE: model, VALIDATION_FILE: material.result("train", VALIDATION_FILE)}
        if self._directions is None:
            return files
        images = LabelledSet.from_bytes(material.result("compose", "images.npy")).images
        images = images[np.linspace(0, len(images) - 1, min(len(images), _LOOKED_AT), dtype=int)]
        masks = cut_out(images, request.target_object[0].noun, self._segmenter)
        if masks.any():
            parts = [one.round(4).tolist() for one in self._directions(images, masks)]
            files[DIRECTIONS_FILE] = json.dumps(parts).encode()
        return files


def _seed(material: JobMaterial, *path: int) -> int:
    """A seed of its own for each use."""
    return int(np.random.SeedSequence([material.seed, *path]).generate_state(1)[0])
