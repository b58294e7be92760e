"""`understudy studio segmenter`: what a teacher says of photos, and a network that learns it."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError
from understudy.core.ports import Segmenter
from understudy.core.types import Images, Maps

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")

from understudy.studio.corpus import Corpus, read_corpus  # noqa: E402
from understudy.studio.segmenter_distillation import (  # noqa: E402
    PhotoSegmenterStage,
    labelled_rows,
    new_photo_network,
    tiled,
)
from understudy.studio.train import distil_segmenter  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")
CLASSES = ("background", "dog", "person")


class Halves:
    """A teacher that calls the upper half of what it is shown a dog."""

    name, licence, classes = "test:halves", "none", CLASSES

    def segment(self, images: Images) -> Maps:
        upper = np.arange(images.shape[1])[:, None] < images.shape[1] // 2
        return np.broadcast_to(upper, images.shape[:3]).astype(np.int64)


def photos(folder: Path, count: int) -> str:
    """Photos of 64 pixels, each of one grey of its own."""
    folder.mkdir(parents=True)
    for row in range(count):
        Image.new("RGB", (64, 64), (10 * row,) * 3).save(folder / f"{row:02}.png")
    return str(folder)


def test_maps_stand_in_their_places_in_a_square() -> None:
    maps = torch.arange(8)[:, None, None, None] + torch.zeros((1, 1, 2, 2), dtype=torch.int64)
    squares = tiled(maps, 2)[:, 0, ::2, ::2]
    assert squares.tolist() == [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]


def test_photos_are_labelled_nine_to_a_square_and_keep_their_order(tmp_path: Path) -> None:
    rows = list(labelled_rows([photos(tmp_path / "photos", 11)], 11, Halves()))
    assert [int(row.image[0, 0, 0]) for row in rows] == [10 * number for number in range(11)]
    tops = [row.segments.mean() for row in rows if row.segments is not None]
    # Above, in the middle and below in a square, of which the last one is filled up.
    assert tops == [1.0] * 3 + [0.5] * 3 + [0.0] * 3 + [1.0] * 2


@pytest.mark.slow
def test_a_stage_learns_what_the_teacher_says() -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 60, (24, 64, 64, 3), dtype=np.uint8)
    segments = np.zeros((24, 64, 64), np.uint8)
    for image, labels, (y, x) in zip(images, segments, rng.integers(0, 32, (24, 2)), strict=True):
        image[y : y + 32, x : x + 32, 0] += 180
        labels[y : y + 32, x : x + 32] = 1
    torch.manual_seed(0)
    corpus = Corpus(images, ((),) * 24, segments=segments, classes=CLASSES)
    stage = PhotoSegmenterStage(corpus, new_photo_network(CLASSES), torch.device("cpu"))
    assert stage.rows == 48  # each has a dog, and comes twice
    optimizer = torch.optim.AdamW(stage.network.parameters(), 2e-3)
    losses = []
    for step in range(12):
        rows = torch.arange(18) + step
        loss = stage.loss(rows, torch.Generator().manual_seed(step))["cells"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-3:]) < 0.8 * np.mean(losses[:2])
    assert stage.sheet().shape == (32, 64, 64, 3)


@pytest.mark.slow
def test_the_command_makes_a_segmenter_and_goes_on_with_begun_work(tmp_path: Path) -> None:
    source = photos(tmp_path / "photos", 18)

    def distilled(count: int) -> Path:
        return distil_segmenter(
            [source], "embedded:studio", tmp_path / "out", count=count, steps=1, progress="none"
        )

    folder = distilled(18)
    model = load_model(Segmenter, f"hf:{folder}")
    assert model.classes == load_model(Segmenter, "embedded:studio").classes
    assert model.segment(np.zeros((1, 64, 64, 3), np.uint8)).shape == (1, 64, 64)
    corpus = read_corpus(tmp_path / "out" / "work" / "corpus")
    assert corpus is not None
    assert len(corpus) == 18
    assert distilled(18) == folder
    with pytest.raises(ConfigError, match="holds 18 images and the plan says 9"):
        distilled(9)
