"""The segmenter of photos: what it finds, how its files are read, and how it is distilled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from understudy.backends.registry import load_model
from understudy.core.errors import BackendError, ConfigError
from understudy.core.ports import ScoringSegmenter, Segmenter
from understudy.core.types import Images, Maps

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")

from understudy.backends.embedded.photo.photo_segmenter import (  # noqa: E402
    network_size,
    read_segmenter,
    save_segmenter,
)
from understudy.backends.embedded.photo.segmenter_network import SegmenterNetwork  # noqa: E402
from understudy.studio.corpus import Corpus, read_corpus  # noqa: E402
from understudy.studio.segmenter_distillation import (  # noqa: E402
    PhotoSegmenterStage,
    distil_segmenter,
    labelled_rows,
)

pytestmark = pytest.mark.usefixtures("one_thread")
CLASSES = ("background", "dog", "person")


@pytest.fixture(scope="module")
def photo() -> ScoringSegmenter:
    model = load_model(Segmenter, "embedded:photo")
    assert isinstance(model, ScoringSegmenter)
    return model


def test_scores_are_parts_of_one_and_the_map_is_the_likeliest(photo: ScoringSegmenter) -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, 40, 64, 3), dtype=np.uint8)
    scores, maps = photo.score(images, photo.classes), photo.segment(images)
    assert scores.shape == (2, 21, 40, 64)
    assert np.allclose(scores.sum(axis=1), 1, atol=1e-4)
    assert (scores.argmax(axis=1) == maps).mean() > 0.99
    with pytest.raises(BackendError, match="no class 'sphinx'"):
        photo.score(images, ["sphinx"])


def test_persons_of_real_photos_are_found(
    photo: ScoringSegmenter, shared_data: Path, missing: Any
) -> None:
    """Enough to hide most of a person in most photos, and no more than that (docs/device.md)."""
    from benchmarks.sanitize_photos import coco

    folder = shared_data / "images" / "photos"
    if not folder.exists():
        missing("data", "needs the photographs of ../shared/data/images/photos")
    images, truth = coco(folder, "person", 128)
    masks = photo.segment(images[:8]) == photo.classes.index("person")
    overlap = (masks & truth[:8]).sum() / (masks | truth[:8]).sum()
    assert overlap > 0.35


def test_the_network_is_shown_enough_pixels_in_steps_of_sixteen() -> None:
    assert network_size((64, 64)) == (256, 256)
    assert network_size((300, 400)) == (304, 400)
    assert network_size((1000, 2000)) == (384, 768)


def test_eight_bits_change_little_and_another_file_is_named(tmp_path: Path) -> None:
    torch.manual_seed(0)
    network = SegmenterNetwork(len(CLASSES)).eval()
    torch.nn.init.normal_(network.fine.weight, std=0.1)
    save_segmenter(network, CLASSES, tmp_path)
    again, classes = read_segmenter(tmp_path)
    pixels = torch.rand(1, 3, 64, 64)
    with torch.inference_mode():
        first, second = network(pixels), again(pixels)
    assert classes == CLASSES
    assert (first - second).abs().max() < 0.1 * first.std()
    (tmp_path / "segmenter.safetensors").write_bytes(b"no weights")
    with pytest.raises(BackendError, match="studio segmenter"):
        load_model(Segmenter, f"embedded:photo?folder={tmp_path}")


class Halves:
    """A teacher that calls the upper half of what it is shown a dog."""

    name, licence, classes = "test:halves", "none", CLASSES

    def segment(self, images: Images) -> Maps:
        upper = np.arange(images.shape[1])[:, None] < images.shape[1] // 2
        return np.broadcast_to(upper, images.shape[:3]).astype(np.int64)


def photos(folder: Path, count: int) -> Path:
    """Photos of 64 pixels, each of one grey of its own."""
    folder.mkdir(parents=True)
    for row in range(count):
        Image.new("RGB", (64, 64), (10 * row,) * 3).save(folder / f"{row:02}.png")
    return folder


def test_photos_are_labelled_nine_to_a_square_and_keep_their_order(tmp_path: Path) -> None:
    rows = list(labelled_rows(str(photos(tmp_path / "photos", 11)), 11, Halves()))
    assert [int(row.image[0, 0, 0]) for row in rows] == [10 * number for number in range(11)]
    tops = [row.segments.mean() for row in rows if row.segments is not None]
    # Above, in the middle and below in a square, of which the last one is filled up.
    assert tops == [1.0] * 3 + [0.5] * 3 + [0.0] * 3 + [1.0] * 2


def test_a_stage_learns_what_the_teacher_says() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 60, (16, 64, 64, 3), dtype=np.uint8)
    segments = np.zeros((16, 64, 64), np.uint8)
    for image, labels, (y, x) in zip(images, segments, rng.integers(0, 32, (16, 2)), strict=True):
        image[y : y + 32, x : x + 32, 0] += 180
        labels[y : y + 32, x : x + 32] = 1
    torch.manual_seed(0)
    corpus = Corpus(images, ((),) * 16, segments=segments, classes=CLASSES)
    network = SegmenterNetwork(len(CLASSES))
    stage = PhotoSegmenterStage(corpus, network, torch.device("cpu"))
    optimizer = torch.optim.AdamW([p for p in network.parameters() if p.requires_grad], 3e-3)
    losses = []
    for step in range(20):
        loss = stage.loss(torch.arange(8), torch.Generator().manual_seed(step))["cells"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-5:]) < 0.8 * np.mean(losses[:3])
    assert all(not p.requires_grad for p in network.stem.parameters())


def test_the_command_makes_a_segmenter_and_goes_on_with_begun_work(tmp_path: Path) -> None:
    source = str(photos(tmp_path / "photos", 18))
    out = distil_segmenter(
        [source],
        "embedded:studio",
        tmp_path / "out",
        count=18,
        steps=1,
        device="cpu",
        progress="none",
    )
    model = load_model(Segmenter, f"embedded:photo?folder={out}")
    assert model.classes == load_model(Segmenter, "embedded:studio").classes
    corpus = read_corpus(out / "work" / "corpus")
    assert corpus is not None
    assert len(corpus) == 18
    with pytest.raises(ConfigError, match="other photos"):
        distil_segmenter([source], "embedded:studio", out, count=9, steps=1, device="cpu")
