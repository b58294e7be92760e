"""``litert:FILE``, by the small models of phones beside the checkout."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from understudy.backends.litert import LiteRtSegmenter, backend
from understudy.core.errors import BackendError
from understudy.core.ports import PoseEstimator, ScoringSegmenter, Segmenter
from understudy.core.types import Images, Maps
from understudy.testing import PoseEstimatorSuite, ScoringSegmenterSuite, SegmenterSuite
from understudy.testing.sample_inputs import load_once

pytest.importorskip("ai_edge_litert")


@pytest.fixture(scope="module")
def models(shared_data: Path) -> Path:
    return shared_data / "models"


@pytest.fixture(scope="module")
def deeplab(models: Path) -> str:
    labels = models / "pascal_voc_segmentation_labels.txt"
    return f"litert:{models / 'deeplabv3_mnv2_pascal_quant.tflite'}?labels={labels}"


@pytest.fixture(scope="module")
def selfie(models: Path) -> str:
    return f"litert:{models / 'selfie_segmentation.tflite'}?labels=person"


@pytest.fixture(scope="module")
def movenet(models: Path) -> str:
    return f"litert:{models / 'movenet_single_pose_lightning_ptq.tflite'}"


@pytest.mark.slow
class TestClassMaps(SegmenterSuite):
    @pytest.fixture
    def segmenter(self, deeplab: str) -> Segmenter:
        return load_once(Segmenter, deeplab)

    def test_it_states_no_scores(self, segmenter: Segmenter) -> None:
        assert not isinstance(segmenter, ScoringSegmenter)


class TestOneScore(ScoringSegmenterSuite):
    @pytest.fixture
    def segmenter(self, selfie: str) -> Segmenter:
        return load_once(Segmenter, selfie)

    def test_what_is_not_the_class_is_background(self, segmenter: Segmenter) -> None:
        assert segmenter.classes == ("background", "person")


class TestKeypoints(PoseEstimatorSuite):
    @pytest.fixture
    def pose_estimator(self, movenet: str) -> PoseEstimator:
        return load_once(PoseEstimator, movenet)


def written(
    file: Path, image: tuple[int, ...], outputs: list[tuple[tuple[int, ...], int]], code: int = 0
) -> str:
    """A model by hand: an image of float32, and at most one operator from it to the output."""
    flatbuffers = pytest.importorskip("flatbuffers")
    from ai_edge_litert import schema_py_generated as schema

    model, graph = schema.ModelT(), schema.SubGraphT()
    model.version, model.buffers, model.operatorCodes = 3, [schema.BufferT()], []
    graph.tensors, graph.operators, graph.inputs = [], [], [0]
    for shape, kind in [(image, schema.TensorType.FLOAT32), *outputs]:
        tensor = schema.TensorT()
        tensor.name, tensor.buffer = f"t{len(graph.tensors)}", 0
        tensor.shape, tensor.type = list(shape), kind
        graph.tensors.append(tensor)
    graph.outputs = [1] if outputs else []
    if code:
        one, operator = schema.OperatorCodeT(), schema.OperatorT()
        one.builtinCode = one.deprecatedBuiltinCode = code
        one.version = 1
        operator.opcodeIndex, operator.inputs, operator.outputs = 0, [0], [1]
        model.operatorCodes, graph.operators = [one], [operator]
    model.subgraphs = [graph]
    builder = flatbuffers.Builder(1024)
    builder.Finish(model.Pack(builder), b"TFL3")
    file.write_bytes(bytes(builder.Output()))
    return str(file)


WHERE = 109  # its output has as many rows as there are numbers above zero
FLOAT32, INT64, TEXT = 0, 4, 5


@pytest.mark.parametrize(
    ("image", "outputs", "code", "words"),
    [
        ((1, 8, 8, 1), [], 0, "it must make numbers"),
        ((1, 8, 8, 1), [((1, 8, 8, 1), TEXT)], 0, "it must make numbers"),
        ((1, 0, 8, 1), [((1, 8, 8, 1), FLOAT32)], 0, "it must take one image"),
        ((1, 9999, 1, 1), [((1, 9999, 1, 1), FLOAT32)], 0, "it must take one image"),
        ((1, 8, 8, 1), [((1, 8, 8, 1), FLOAT32)], 0, "it cannot be run"),
        ((1, 8, 8, 1), [((1, 8, 8, 1), INT64)], WHERE, "where its file says"),
    ],
)
def test_files_that_are_no_models_of_images_are_refused(
    tmp_path: Path, image: tuple[int, ...], outputs: list[Any], code: int, words: str
) -> None:
    """One of texts would end the process, the others in a traceback or a full memory."""
    file = written(tmp_path / "m.tflite", image, outputs, code)

    def segmented() -> Maps:
        segmenter = backend.model("segmenter", file, labels="person")
        assert isinstance(segmenter, LiteRtSegmenter)
        return segmenter.segment(np.full((1, 8, 8, 3), 9, np.uint8))

    with pytest.raises(BackendError, match=words):
        segmented()


def photo_of(noun: str, shared_data: Path) -> tuple[Images, np.ndarray[Any, Any]]:
    """The photo on which an object is largest, and where it is: (h, w, 3), (left, top, w, h)."""
    folder = shared_data / "images" / "photos"
    known = json.loads((folder / "coco49_instances.json").read_text())
    category = next(item["id"] for item in known["categories"] if item["name"] == noun)
    mine = [item for item in known["annotations"] if item["category_id"] == category]
    largest = max(mine, key=lambda item: float(item["area"]))
    name = next(item["file_name"] for item in known["images"] if item["id"] == largest["image_id"])
    with Image.open(folder / "img" / f"coco_{name}") as image:
        return np.asarray(image.convert("RGB")), np.array(largest["bbox"])


@pytest.mark.parametrize("narrow", [False, True])
def test_a_dog_is_where_the_photo_has_it(deeplab: str, shared_data: Path, narrow: bool) -> None:
    """Also in a photo that is higher than wide: what fills the model's square is cut right."""
    photo, (left, top, width, height) = photo_of("dog", shared_data)
    if narrow:
        photo = photo[:, round(left) - 40 : round(left + width) + 40]
        left = 40
    segmenter = load_once(Segmenter, deeplab)
    dog = segmenter.segment(photo[None])[0] == segmenter.classes.index("dog")
    rows, columns = np.nonzero(dog.any(axis=1))[0], np.nonzero(dog.any(axis=0))[0]
    edges = np.array([columns[0], rows[0], columns[-1] + 1, rows[-1] + 1])
    allowed = 0.08 * np.array([photo.shape[1], photo.shape[0]] * 2)
    assert (np.abs(edges - [left, top, left + width, top + height]) < allowed).all()


def test_names_come_from_a_file_or_from_the_name(models: Path, tmp_path: Path) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("nobody\n\n  a person \n")
    file = str(models / "selfie_segmentation.tflite")
    segmenter = backend.model("segmenter", file, labels=str(labels))
    assert isinstance(segmenter, LiteRtSegmenter)
    assert segmenter.classes == ("nobody", "a person")
