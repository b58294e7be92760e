"""The images of a run's pages: the first few, and the worst of those that were looked at."""

import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.run.samples import class_folders

from understudy.core.errors import RunError
from understudy.data import open_source
from understudy.release.galleries import (
    contact_sheet_of,
    farthest,
    read_gallery,
    sheets,
    write_gallery,
)


def test_the_farthest_are_those_that_no_image_is_like():
    rng = np.random.default_rng(0)
    usual = rng.integers(90, 110, (30, 8, 8, 1), dtype=np.uint8)
    white, black = np.full((1, 8, 8, 1), 255, np.uint8), np.zeros((1, 8, 8, 1), np.uint8)
    mixed = np.concatenate([usual[:15], white, usual[15:], black])
    worst = farthest(mixed, usual)
    assert (worst[0] == 255).all()
    assert (worst[1] == 0).all()
    assert len(worst) == 16
    alone = farthest(mixed)  # by each other; an image is not its own neighbour
    assert {int(image.mean()) for image in alone[:2]} == {0, 255}
    assert len(farthest(mixed[:1])) == 0
    colour = rng.integers(0, 256, (4, 20, 30, 3), dtype=np.uint8)
    assert farthest(mixed, colour).shape == (16, 8, 8, 1)


def test_a_gallery_is_read_back_with_its_worst(tmp_path: Path):
    real = open_source(class_folders(tmp_path / "scans", {"cat": 40, "dog": 3}))
    synthetic = {0: np.full((20, 8, 8, 1), 9, np.uint8)}
    gallery = sheets(real, synthetic)
    assert [len(one.real) for one in gallery] == [16, 3]
    assert [len(one.synthetic) for one in gallery] == [16, 0]
    assert [len(one.worst) for one in gallery] == [16, 0]
    write_gallery(tmp_path, gallery)
    for one, other in zip(gallery, read_gallery(tmp_path), strict=True):
        assert one.name == other.name
        for side in ("real", "synthetic", "worst"):
            np.testing.assert_array_equal(getattr(one, side), getattr(other, side))


def test_a_gallery_of_more_bytes_than_its_file_is_refused(tmp_path: Path):
    """A stranger's run: a file of kilobytes would fill the memory of the studio."""
    np.savez_compressed(tmp_path / "gallery.npz", real=np.zeros(1 << 20, np.uint8))
    with pytest.raises(RunError, match="damaged"):
        read_gallery(tmp_path)
    with (tmp_path / "gallery.npz").open("wb") as file:
        np.save(file, np.zeros(4))
    with pytest.raises(RunError, match="damaged"):
        read_gallery(tmp_path)


@pytest.mark.parametrize(
    "arrays",
    [
        {"real": np.zeros((1, 4, 4, 1), np.uint8)},
        {"names": np.array(["a"]), "real": np.zeros((2, 4, 4, 1), np.uint8)},
        {"names": np.array(["a"]), "real": np.zeros((2, 4, 4, 1)), "real_of": np.zeros(2)},
        {"names": np.array(["a"]), "real": np.zeros(2, np.uint8), "real_of": np.zeros(2)},
        {"names": np.array(["a"]), "real": np.zeros((0, 4, 4, 1), np.uint8), "real_of": [0]},
    ],
)
def test_a_gallery_that_holds_no_images_is_refused(tmp_path: Path, arrays: dict[str, object]):
    empty = np.zeros((0, 4, 4, 1), np.uint8)
    others = dict.fromkeys(("synthetic", "worst"), empty)
    others |= {f"{name}_of": np.zeros(0) for name in others}
    np.savez(tmp_path / "gallery.npz", **others, **arrays)  # type: ignore[arg-type]
    with pytest.raises(RunError, match="damaged"):
        read_gallery(tmp_path)


def test_a_class_of_one_sample_leaves_the_others_theirs_on_a_contact_sheet():
    images = np.full((20, 4, 4, 3), 7, dtype=np.uint8)
    file = io.BytesIO(contact_sheet_of({0: images, 1: images[:1]}))
    sheet = np.asarray(Image.open(file))[..., 0]
    assert [np.sum(sheet[row] == 7) for row in (0, -1)] == [16 * 4, 4]
    assert np.sum(sheet[-1] == 255) == 15 * 4
