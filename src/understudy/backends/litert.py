"""``litert:FILE``: segmenters and pose estimators of LiteRT (TensorFlow Lite), on the processor.

    litert:deeplabv3.tflite?labels=pascal_voc.txt    a class for every pixel
    litert:selfie.tflite?labels=person               a score for every pixel
    litert:movenet.tflite                            17 keypoints of a person

These are the models of phones: small, often of 8-bit weights, and made for one image at a time. An
image keeps its ratio: it is brought to the size of the model with black beside or below it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray
from PIL import Image

from understudy.backends.arrays import class_indices, require_any_images, resized, with_channels
from understudy.backends.onnx_model import scale_ends
from understudy.backends.plugin import (
    BackendInfo,
    Kind,
    PositiveCount,
    full_name,
    installed,
    read_options,
)
from understudy.core.errors import BackendError, packages_for
from understudy.core.files import home_path
from understudy.core.types import Images, Maps, Scores, Texts

_LONGEST_SIDE = 2**12  # pixels; a model for phones takes hundreds
_PAIRS = ("eye", "ear", "shoulder", "elbow", "wrist", "hip", "knee", "ankle")

COCO_KEYPOINTS = ("nose", *(f"{side} {part}" for part in _PAIRS for side in ("left", "right")))
"""The 17 keypoints of COCO, in the order in which MoveNet gives them."""


@dataclass(frozen=True, slots=True)
class LiteRtOptions:
    """Options of a model.

    Attributes:
        scale: What black and white become where the model takes float32: ``"0..1"``, ``"-1..1"``,
            ``"0..255"``. Models of 8-bit pixels are given them as they are.
        labels: Of a segmenter: its class names with commas between, or a file with one a line. A
            model with one score a pixel has one class besides the background.
    """

    threads: PositiveCount = 2
    scale: str = "0..1"
    labels: str | None = None

    def __post_init__(self) -> None:
        scale_ends(self.scale)


class LiteRtModel:
    """A loaded file with one input of one image, and its first output.

    Attributes:
        output: Shape of the output, without the image's own dimension.
        size: (height, width) of the images that the model takes.
    """

    def __init__(self, file: str, options: LiteRtOptions) -> None:
        self.name = full_name(f"litert:{file}", options)
        self.path = home_path(file)
        self.licence = f"see {self.path.name}"
        if not self.path.is_file():
            raise BackendError(f"{self.path}: there is no such file; write litert:FILE")
        with packages_for(f"litert:{file}", "litert"):
            from ai_edge_litert.interpreter import Interpreter
        try:
            self._interpreter = Interpreter(str(self.path), num_threads=options.threads)
            self._interpreter.allocate_tensors()
        except (RuntimeError, ValueError) as error:
            raise BackendError(f"{self.path}: not a readable LiteRT model ({error})") from error
        inputs = self._interpreter.get_input_details()
        outputs = self._interpreter.get_output_details()
        shape = tuple(int(size) for size in inputs[0]["shape"]) if len(inputs) == 1 else ()
        is_image = len(shape) == 4 and shape[0] == 1 and shape[3] in (1, 3)
        if not is_image or not 1 <= min(shape) <= max(shape) <= _LONGEST_SIDE:
            raise BackendError(
                f"{self.path}: it must take one image (1, height, width, 1 or 3), found "
                f"{' and '.join(str(tuple(item['shape'].tolist())) for item in inputs)}"
            )
        kinds = [np.dtype(item["dtype"]).kind for item in (*inputs, *outputs[:1])]
        if len(kinds) != 2 or not set(kinds) <= set("fiub"):  # reading texts ends the process
            raise BackendError(f"{self.path}: it must make numbers of an image")
        self._input, self._output = inputs[0], outputs[0]
        self.size, self.channels = (shape[1], shape[2]), shape[3]
        self.output = tuple(int(size) for size in self._output["shape"])[1:]
        self._low, self._high = scale_ends(options.scale)

    def run(self, images: Images) -> Iterator[tuple[NDArray[Any], tuple[int, int]]]:
        """Run (n, height, width, channels) uint8 images one after the other.

        Yields:
            The output of an image, float32 or whole numbers, and how much of the model's (height,
            width) the image fills, from the upper left corner.
        """
        require_any_images(images, self.name)
        for image in with_channels(images, self.channels):
            height, width = size_within(image.shape[:2], self.size)
            square = np.zeros((*self.size, self.channels), dtype=np.uint8)
            square[:height, :width] = resized(image[None], height, width)[0]
            try:
                self._interpreter.set_tensor(self._input["index"], self._prepared(square[None]))
                self._interpreter.invoke()
                output = self._interpreter.get_tensor(self._output["index"])[0]
            except (RuntimeError, ValueError) as error:
                raise BackendError(f"{self.path}: it cannot be run ({error})") from error
            if output.shape != self.output or not output.size:
                raise BackendError(
                    f"{self.path}: it made {output.shape}, where its file says {self.output}"
                )
            if not np.isfinite(output).all():
                raise BackendError(f"{self.path}: its output is not finite (NaN or infinity)")
            yield self._numbers(output), (height, width)

    def _prepared(self, pixels: Images) -> NDArray[Any]:
        """Pixels as the model takes them."""
        if self._input["dtype"] == np.uint8:
            return pixels
        if self._input["dtype"] == np.int8:
            return (pixels.astype(np.int16) - 128).astype(np.int8)
        unit = pixels.astype(np.float32) / np.float32(255)
        return unit * np.float32(self._high - self._low) + np.float32(self._low)

    def _numbers(self, output: NDArray[Any]) -> NDArray[Any]:
        """An output of 8 bits as the numbers it stands for; any other as it is."""
        step, zero = self._output["quantization"]
        if not step:
            return output
        return np.asarray((output.astype(np.float32) - zero) * step, dtype=np.float32)


class LiteRtSegmenter:
    """Images to semantic maps."""

    def __init__(self, model: LiteRtModel, classes: tuple[str, ...]) -> None:
        self._model, self.classes = model, classes
        self.name, self.licence = model.name, model.licence

    def segment(self, images: Images) -> Maps:
        """(n, height, width) int64 at the size of the images."""
        maps = [
            self._map(self._cut(output, filled), images.shape[1:3])
            for output, filled in self._model.run(images)
        ]
        return np.array(maps, dtype=np.int64).reshape(images.shape[:3])

    def _map(self, output: NDArray[Any], size: tuple[int, ...]) -> Maps:
        """A map of classes (h, w) at the size of the image."""
        if output.min() < 0 or output.max() >= len(self.classes):
            raise BackendError(
                f"{self.name}: it gave class {int(output.max())}, and labels= names "
                f"{len(self.classes)}"
            )
        image = Image.fromarray(output.astype(np.int32))
        height, width = size
        return np.asarray(image.resize((width, height), Image.Resampling.NEAREST), dtype=np.int64)

    def _cut(self, output: NDArray[Any], filled: tuple[int, int]) -> NDArray[Any]:
        """The part of an output that the image fills."""
        height, width = (
            max(1, round(part * places / pixels))
            for part, places, pixels in zip(filled, output.shape, self._model.size, strict=False)
        )
        return output[:height, :width]


class LiteRtScoringSegmenter(LiteRtSegmenter):
    """A segmenter whose model gives scores: one of a class, or one for each class."""

    def segment(self, images: Images) -> Maps:
        """(n, height, width) int64 at the size of the images; of equal scores the first class."""
        maps = [scores.argmax(axis=0) for scores in self._scores(images)]
        return np.array(maps, dtype=np.int64).reshape(images.shape[:3])

    def score(self, images: Images, classes: Texts) -> Scores:
        """The scores of some classes: (n, len(classes), height, width) float32 in [0, 1]."""
        indices = class_indices(classes, self.classes, self.name)
        rows = [scores[indices] for scores in self._scores(images)]
        shape = (len(images), len(indices), *images.shape[1:3])
        return np.array(rows, dtype=np.float32).reshape(shape)

    def _scores(self, images: Images) -> Iterator[NDArray[np.float32]]:
        """(classes, height, width) in [0, 1] of each image."""
        size = images.shape[1:3][::-1]
        for output, filled in self._model.run(images):
            part = self._cut(output, filled)
            if part.shape[-1] == 1:
                scores = np.concatenate([1 - part, part], axis=-1)
            else:
                scores = scipy.special.softmax(part, axis=-1)
            planes = [
                Image.fromarray(np.ascontiguousarray(plane, dtype=np.float32))
                for plane in np.moveaxis(scores, -1, 0)
            ]
            enlarged = [np.asarray(item.resize(size, Image.Resampling.BILINEAR)) for item in planes]
            yield np.clip(np.stack(enlarged), 0, 1)


class LiteRtPoseEstimator:
    """Images of one person to the keypoints of COCO, by MoveNet's single-pose models."""

    keypoints = COCO_KEYPOINTS

    def __init__(self, model: LiteRtModel) -> None:
        self._model = model
        self.name, self.licence = model.name, model.licence

    def pose(self, images: Images) -> list[NDArray[np.float32]]:
        """For each image (1, 17, 3): x and y in pixels, and a score in [0, 1]."""
        poses = []
        for output, (height, width) in self._model.run(images):
            y, x, score = output.reshape(len(COCO_KEYPOINTS), 3).T
            down = self._model.size[0] / height * images.shape[1]
            across = self._model.size[1] / width * images.shape[2]
            points = np.stack([x * across, y * down, score.clip(0, 1)], axis=1)
            poses.append(points[None].astype(np.float32))
        return poses


class LiteRtBackend:
    """The family ``litert``."""

    def models(self) -> list[BackendInfo]:
        """Any file, as a segmenter or a pose estimator."""
        available, own = installed("ai_edge_litert"), "that of the file"
        segmenter = "a segmenter of LiteRT (TensorFlow Lite); options labels, threads, scale"
        pose = "MoveNet for one person, in LiteRT's format; option threads"
        return [
            BackendInfo("litert:FILE", "segmenter", segmenter, "litert", available, own),
            BackendInfo("litert:FILE", "pose estimator", pose, "litert", available, own),
        ]

    def model(self, kind: Kind, rest: str, **options: Any) -> object:
        """The segmenter or pose estimator in the file ``rest``; see `LiteRtOptions`."""
        read = read_options(options, LiteRtOptions, name=f"litert:{rest}")
        if kind.endswith("segmenter"):
            return _segmenter(LiteRtModel(rest, read), read.labels)
        if kind == "pose estimator":
            model = LiteRtModel(rest, read)
            if model.output != (1, len(COCO_KEYPOINTS), 3):
                raise BackendError(
                    f"{model.path} is no pose estimator of one person: its output is "
                    f"{' x '.join(map(str, model.output))}; expected 1 x {len(COCO_KEYPOINTS)} x 3 "
                    "(MoveNet)"
                )
            return LiteRtPoseEstimator(model)
        raise BackendError(
            f"litert:{rest} is no {kind}: LiteRT files are segmenters and pose estimators here"
        )


def size_within(size: tuple[int, ...], room: tuple[int, ...]) -> tuple[int, int]:
    """(height, width) of an image brought into a room of (height, width), its ratio unchanged."""
    scale = min(room[0] / size[0], room[1] / size[1])
    height, width = (max(1, round(side * scale)) for side in size[:2])
    return min(height, room[0]), min(width, room[1])


def _segmenter(model: LiteRtModel, labels: str | None) -> LiteRtSegmenter:
    names = _names(model, labels)
    if len(model.output) == 2:
        return LiteRtSegmenter(model, names)
    if len(model.output) != 3:
        raise BackendError(
            f"{model.path} is no segmenter: its output is "
            f"{' x '.join(map(str, model.output))}; expected height x width, or that x classes"
        )
    if model.output[2] == 1 and len(names) == 1:
        names = ("background", *names)
    if len(names) != max(2, model.output[2]):
        raise BackendError(
            f"{model.path} scores {model.output[2]} classes, and labels= names {len(names)}"
        )
    return LiteRtScoringSegmenter(model, names)


def _names(model: LiteRtModel, labels: str | None) -> tuple[str, ...]:
    """The names of the classes: those given, or those of a file."""
    if not labels:
        raise BackendError(
            f"{model.path} does not say what its classes are called: give "
            "?labels=FILE with one name a line, or ?labels=NAME,NAME"
        )
    file = home_path(labels)
    if file.is_file():
        lines = file.read_text(encoding="utf-8").splitlines()
        return tuple(line.strip() for line in lines if line.strip())
    return tuple(name.strip() for name in labels.split(","))


backend = LiteRtBackend()
