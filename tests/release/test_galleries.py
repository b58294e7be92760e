"""The images of a run's pages: the first few, and the worst of those that were looked at."""

from pathlib import Path

import numpy as np
from tests.run.samples import class_folders

from understudy.data import open_source
from understudy.release.galleries import (
    farthest,
    read_gallery,
    release_samples,
    sheets,
    write_gallery,
)
from understudy.report import Sheet


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


def test_a_gallery_of_an_earlier_version_has_no_worst(tmp_path: Path):
    image = np.zeros((1, 8, 8, 1), np.uint8)
    write_gallery(tmp_path, (Sheet("cat", image, image, image),))
    with np.load(tmp_path / "gallery.npz") as file:
        old = {name: file[name] for name in file if not name.startswith("worst")}
    np.savez(tmp_path / "gallery.npz", **old)
    (one,) = read_gallery(tmp_path)
    assert len(one.worst) == 0


def test_samples_of_a_release_are_the_first_and_the_worst(tmp_path: Path):
    samples = release_samples(open_source(class_folders(tmp_path / "out", {"cat": 40, "dog": 20})))
    assert [(one.name, len(one.images), len(one.worst)) for one in samples] == [
        ("cat", 16, 16),
        ("dog", 16, 16),
    ]
