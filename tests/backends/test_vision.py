import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny_models.folders import built, network

from understudy.backends.registry import load_model
from understudy.core.errors import BackendError
from understudy.core.ports import Captioner, Detector, PoseEstimator, Segmenter
from understudy.core.types import Images, Shape

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def noise(shape: Shape = (40, 56, 3), rows: int = 3) -> Images:
    return np.random.default_rng(2).integers(80, 176, (rows, *shape), dtype=np.uint8)


def processor(folder: Path) -> Any:
    return transformers.AutoImageProcessor.from_pretrained(folder, backend="pil")


def line(text: str) -> str:
    return " ".join(text.split())


def test_blip_captions_as_the_library_does(models: Path) -> None:
    folder = built("blip", models)
    images = noise((32, 32, 3))
    model = network(folder, "BlipForConditionalGeneration")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    pixels = processor(folder)(list(images), return_tensors="pt")["pixel_values"]
    with torch.no_grad():
        made = model.generate(pixels, max_new_tokens=6, do_sample=False, min_new_tokens=1)
    expected = [line(text) for text in tokenizer.batch_decode(made, skip_special_tokens=True)]
    assert load_model(Captioner, f"hf:{folder}?tokens=6").caption(images) == expected


def test_a_chat_model_answers_as_the_library_does(models: Path) -> None:
    from PIL import Image

    folder = built("llava", models)
    images = noise()
    model = network(folder, "LlavaForConditionalGeneration")
    chat = transformers.AutoProcessor.from_pretrained(folder, backend="pil")
    asked = [{"type": "image"}, {"type": "text", "text": "What do you see?"}]
    text = chat.apply_chat_template([{"role": "user", "content": asked}], tokenize=False,
                                    add_generation_prompt=True)  # fmt: skip
    expected = []
    for image in images:
        inputs = chat(images=Image.fromarray(image), text=text, return_tensors="pt")
        with torch.no_grad():
            made = model.generate(**inputs, max_new_tokens=6, do_sample=False, min_new_tokens=1)
        answer = made[0, inputs["input_ids"].shape[1] :]
        expected.append(line(chat.tokenizer.decode(answer, skip_special_tokens=True)))
    captioner = load_model(Captioner, f"hf:{folder}", prompt="What do you see?", tokens=6)
    assert captioner.caption(images) == expected


def test_clip_needs_a_grammar_to_caption(models: Path, tmp_path: Path) -> None:
    folder = built("clip", models)
    with pytest.raises(BackendError, match=r"add \?grammar=FILE.json"):
        load_model(Captioner, f"hf:{folder}")
    grammar = tmp_path / "g.json"
    grammar.write_text(
        json.dumps({"slots": {"what": {"dog": ["a dog"], "x": ["a x"]}}, "templates": ["{what}"]})
    )
    with pytest.raises(BackendError, match="normalise=false leaves out the texts"):
        load_model(Captioner, f"hf:{folder}?grammar={grammar}&normalise=false")
    captioner = load_model(Captioner, f"hf:{folder}?grammar={grammar}&size=48")
    assert set(captioner.caption(noise())) <= {"dog", "x"}
    other = load_model(Captioner, f"hf:{built('siglip', models)}?grammar={grammar}")
    assert set(other.caption(noise((30, 61, 1)))) <= {"dog", "x"}


def test_segformers_map_is_that_of_the_library(models: Path) -> None:
    folder = built("segformer", models)
    images = noise((64, 64, 3))
    model, prepare = network(folder, "SegformerForSemanticSegmentation"), processor(folder)
    with torch.no_grad():
        outputs = model(**prepare(list(images), return_tensors="pt"))
    expected = prepare.post_process_semantic_segmentation(outputs, target_sizes=[(64, 64)] * 3)
    segmenter = load_model(Segmenter, f"hf:{folder}")
    np.testing.assert_array_equal(segmenter.segment(images), torch.stack(expected).numpy())
    assert segmenter.classes == ("background", "dog", "person", "bottle", "frame")


@pytest.mark.slow
def test_queries_become_the_map_that_the_library_makes(models: Path) -> None:
    folder = built("mask2former", models)
    images = noise((64, 64, 3))
    found = load_model(Segmenter, f"hf:{folder}").segment(images)
    prepare = processor(folder)
    model = network(folder, "AutoModelForUniversalSegmentation")
    with torch.no_grad():
        pixels = np.stack(images).transpose(0, 3, 1, 2) / 255
        mean, std = (np.reshape(prepare_part, (1, 3, 1, 1)) for prepare_part in
                     (prepare.image_mean, prepare.image_std))  # fmt: skip
        values = torch.tensor((pixels - mean) / std, dtype=torch.float32)
        outputs = model(pixel_values=values)
    expected = prepare.post_process_semantic_segmentation(outputs, target_sizes=[(64, 64)] * 3)
    # The library makes the masks larger before it makes them smaller.
    assert (found == torch.stack(expected).numpy()).mean() > 0.97


@pytest.mark.parametrize("name", ["detr", "rt_detr"])
def test_boxes_are_those_of_the_library(name: str, models: Path) -> None:
    folder = built(name, models)
    size = (48, 48) if name == "detr" else (64, 64)
    images = noise((*size, 3))
    found = load_model(Detector, f"hf:{folder}?threshold=0.2").detect(images)
    model, prepare = network(folder, "AutoModelForObjectDetection"), processor(folder)
    with torch.no_grad():
        outputs = model(**prepare(list(images), return_tensors="pt"))
    told = prepare.post_process_object_detection(outputs, 0.2, target_sizes=[size] * 3)
    for one, expected in zip(found, told, strict=True):
        order = expected["scores"].argsort(descending=True)
        assert len(order) > 0
        np.testing.assert_allclose(one.scores, expected["scores"][order], atol=1e-3)
        boxes = expected["boxes"][order].clamp(0, size[0])
        np.testing.assert_allclose(one.boxes, boxes, atol=0.1)
        assert one.masks is None


def test_instances_are_those_of_the_library(models: Path) -> None:
    folder = built("mask2former", models)
    images = noise((64, 64, 3))
    found = load_model(Detector, f"hf:{folder}?threshold=0.1").detect(images)
    model, prepare = network(folder, "AutoModelForUniversalSegmentation"), processor(folder)
    with torch.no_grad():
        outputs = model(**prepare(list(images), return_tensors="pt"))
    told = prepare.post_process_instance_segmentation(
        outputs, threshold=0.1, target_sizes=[(64, 64)] * 3, return_binary_maps=True
    )
    for one, expected in zip(found, told, strict=True):
        scores = sorted((part["score"] for part in expected["segments_info"]), reverse=True)
        assert len(scores) > 0
        np.testing.assert_allclose(one.scores, scores, atol=0.02)
        assert one.masks is not None
        areas = sorted(mask.sum() for mask in one.masks)
        theirs = sorted(float(mask.sum()) for mask in expected["segmentation"])
        np.testing.assert_allclose(areas, theirs, atol=0.05 * 64 * 64)


def test_a_pose_of_the_whole_image_is_that_of_the_library(models: Path) -> None:
    folder = built("vitpose", models)
    images = noise()
    model, prepare = network(folder, "VitPoseForPoseEstimation"), processor(folder)
    boxes = [[[0, 0, 56, 40]]] * 3
    with torch.no_grad():
        outputs = model(**prepare(list(images), boxes=boxes, return_tensors="pt"))
    told = prepare.post_process_pose_estimation(outputs, boxes=boxes)
    poses = load_model(PoseEstimator, f"hf:{folder}?batch=2").pose(images)
    for pose, (expected,) in zip(poses, told, strict=True):
        assert pose.shape == (1, 5, 3)
        # Where a heatmap is flat at its top, the last digit of a float moves the refined place.
        close = np.isclose(pose[0, :, :2], expected["keypoints"], rtol=1e-3, atol=0.05)
        assert close.mean() > 0.7
        np.testing.assert_allclose(pose[0, :, 2], expected["scores"].clamp(0, 1), atol=1e-4)


@pytest.mark.parametrize("option", ["batch=0", "size=0", "threshold=2"])
def test_options_out_of_their_range_are_refused(option: str, models: Path) -> None:
    with pytest.raises(BackendError, match=f"{option.partition('=')[0]} must be"):
        load_model(Detector, f"hf:{built('detr', models)}?{option}")
