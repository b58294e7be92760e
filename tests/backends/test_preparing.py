"""Our batches against the image processors of ``transformers``, one image at a time by Pillow."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from understudy.core.types import Images, Shape

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from understudy.backends.hub.preprocessing import read_preparation  # noqa: E402

IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
HALF = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}

CASES: list[tuple[str, dict[str, Any]]] = [
    ("CLIP", {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}),
    ("CLIP", {"size": {"shortest_edge": 24}, "crop_size": {"height": 31, "width": 40}}),
    ("CLIP", {"size": 40, "crop_size": 33, "resample": 2}),
    ("CLIP", {"size": {"height": 20, "width": 30}, "do_center_crop": False, "resample": 1}),
    ("CLIP", {"do_resize": False, "do_center_crop": False}),
    ("CLIP", {}),
    ("Siglip", {"size": {"height": 32, "width": 32}, **HALF}),
    ("Siglip", {"size": {"height": 50, "width": 90}, "resample": 0, "do_normalize": False}),
    ("Bit", {"size": {"shortest_edge": 32}, "crop_size": 28, "do_center_crop": True, **IMAGENET}),
    ("ViT", {"size": {"height": 32, "width": 32}, "resample": 2, **HALF}),
    ("Blip", {"size": {"height": 48, "width": 48}, "do_rescale": True, "rescale_factor": 0.01}),
    ("Segformer", {"size": {"height": 64, "width": 64}, **IMAGENET}),
    ("Segformer", {"size": 80, "do_reduce_labels": True, "do_rescale": False, **IMAGENET}),
    ("Detr", {"size": {"shortest_edge": 40, "longest_edge": 60}, **IMAGENET}),
    ("Detr", {"size": {"shortest_edge": 40, "longest_edge": 200}}),
    ("RTDetr", {"size": {"height": 64, "width": 64}}),
    ("Mask2Former", {"size": {"shortest_edge": 40, "longest_edge": 90}, "size_divisor": 32}),
    ("MaskFormer", {"size": {"shortest_edge": 33, "longest_edge": 90}, "size_divisor": 16}),
]
SHAPES: list[Shape] = [(40, 56, 3), (61, 24, 3), (32, 32, 3)]


def noise(shape: Shape, rows: int = 3) -> Images:
    """Noise of single pixels and of larger spots.

    Neither black nor white: what bicubic overshoots is cut off after the first pass, and versions
    of Pillow differ in whether that is the one across or the one down.
    """
    images = np.random.default_rng(4).integers(80, 176, (rows, *shape), dtype=np.uint8)
    images[1] = np.repeat(np.repeat(images[1, ::8, ::8], 8, axis=0), 8, axis=1)[
        : shape[0], : shape[1]
    ]
    return images


def written(folder: Path, kind: str, told: dict[str, Any]) -> str:
    content = {"image_processor_type": f"{kind}ImageProcessor", **told}
    (folder / "preprocessor_config.json").write_text(json.dumps(content))
    return str(folder)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("kind", "told"), CASES, ids=lambda case: str(case)[:60])
def test_it_agrees_with_the_library(
    kind: str, told: dict[str, Any], shape: Shape, tmp_path: Path
) -> None:
    import transformers

    images = noise(shape)
    ours = read_preparation(written(tmp_path, kind, told))(images, torch.device("cpu"))
    processor = getattr(transformers, f"{kind}ImageProcessorPil")(**told)
    theirs = processor(list(images), return_tensors="pt")["pixel_values"]
    assert ours.shape == theirs.shape
    assert ours.dtype == torch.float32
    # Pillow and torch round a value between two of the 256 differently now and then.
    prepared = read_preparation(str(tmp_path))
    step = prepared.scale / min(prepared.std)
    assert (ours - theirs).abs().max() <= 2.01 * step
    assert (ours - theirs).abs().mean() < 0.2 * step


def test_another_size_keeps_the_way_to_it(tmp_path: Path) -> None:
    clip = read_preparation(written(tmp_path, "CLIP", {})).with_size(64)
    assert (clip.size, clip.edges, clip.crop) == ((64, 0), True, (64, 64))
    siglip = read_preparation(written(tmp_path, "Siglip", {})).with_size(64)
    assert (siglip.size, siglip.edges, siglip.crop) == ((64, 64), False, None)
    detr = read_preparation(written(tmp_path, "Detr", {}), dense=True).with_size(64)
    assert detr.target(40, 56) == (64, 89)


def test_red_and_blue_change_places_where_the_file_says_so(tmp_path: Path) -> None:
    folder = written(tmp_path, "MobileViT", {"size": 8, "do_normalize": False})
    red = np.zeros((1, 8, 8, 3), dtype=np.uint8)
    red[..., 0] = 255
    found = read_preparation(folder, dense=True)(red, torch.device("cpu"))
    assert found[0, :, 0, 0].tolist() == [0, 0, 1]
