"""`understudy studio pose`: persons with what a teacher says of them, and a network that learns."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from understudy.backends.litert import COCO_KEYPOINTS as COCO
from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError
from understudy.core.ports import PoseEstimator
from understudy.core.types import Images, Maps

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")
pytest.importorskip("aggdraw")

from understudy.studio.pose_distillation import PERSON, Persons, PoseStage, heatmaps  # noqa: E402
from understudy.studio.segmenter_distillation import new_photo_network  # noqa: E402
from understudy.studio.train import distil_pose  # noqa: E402

pytestmark = pytest.mark.usefixtures("one_thread")


class BrightPixels:
    """A segmenter that calls what is not dark a person."""

    name, licence, classes = "test:bright", "none", ("background", "person")

    def segment(self, images: Images) -> Maps:
        return (images.max(axis=-1) > 60).astype(np.int64)


class RedCorner:
    """A teacher that sees every keypoint in the reddest pixel, and is unsure of the ankles."""

    name, licence, keypoints = "test:red", "none", COCO

    def pose(self, images: Images) -> list[np.ndarray]:
        scores = [0.1 if "ankle" in name else 0.9 for name in COCO]
        poses = []
        for image in images.astype(int):
            redness = image[..., 0] - image[..., 1]
            y, x = np.unravel_index(redness.argmax(), redness.shape)
            poses.append(np.array([[(x + 0.5, y + 0.5, s) for s in scores]], dtype=np.float32))
        return poses


def figure(row: int) -> Images:
    """A grey block with a red corner on black."""
    image = np.zeros((64, 64, 3), np.uint8)
    image[20:50, 16 + row % 8 : 40 + row % 8] = 150
    image[20:23, 16 + row % 8 : 19 + row % 8] = (250, 0, 0)
    return image


def photos(folder: Path, count: int) -> str:
    folder.mkdir(parents=True)
    for row in range(count):
        Image.fromarray(figure(row)).save(folder / f"{row:02}.png")
    return str(folder)


def test_persons_have_the_teachers_keypoints_where_they_are_in_the_photo(tmp_path: Path) -> None:
    persons = Persons.of([photos(tmp_path / "photos", 9)], 9, BrightPixels(), RedCorner())
    assert len(persons.images) == 9 + 4  # half as many drawn ones
    seen = persons.points[:9, PERSON.index("neck")]
    assert (seen[:, 2] == 1).all()
    corners = np.array([(17.5 + row % 8, 21.5) for row in range(9)])
    assert np.abs(seen[:, :2] - corners).max() < 1.5
    assert (persons.points[:9, PERSON.index("left ankle"), 2] == 0).all()
    head, ankle = PERSON.index("head"), PERSON.index("left ankle")
    assert (persons.points[9:, head, 1] < persons.points[9:, ankle, 1]).all()
    left, right = PERSON.index("left shoulder"), PERSON.index("right shoulder")
    assert (persons.points[9:, left, 0] >= persons.points[9:, right, 0]).all()  # they face us


def test_photos_without_persons_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "dark"
    folder.mkdir()
    for row in range(9):
        Image.new("RGB", (64, 64), (row, 0, 0)).save(folder / f"{row}.png")
    with pytest.raises(ConfigError, match="0 persons were found in 9 photos"):
        Persons.of([str(folder)], 9, BrightPixels(), RedCorner())


def test_keypoints_follow_the_pixels_when_a_person_is_turned_and_mirrored() -> None:
    """A green pixel is the left wrist, a blue one the right: their names change in mirrors."""
    image = np.full((64, 64, 3), 90, np.uint8)
    image[26:29, 20:23], image[34:37, 40:43] = (0, 255, 0), (0, 0, 255)
    points = np.full((1, len(PERSON), 3), -1, np.float32)
    left, right = PERSON.index("left wrist"), PERSON.index("right wrist")
    points[0, left], points[0, right] = (21.5, 27.5, 1), (41.5, 35.5, 1)
    mask = np.zeros((1, 64, 64), bool)
    mask[0, 16:48, 12:50] = True
    stage = PoseStage(Persons(image[None], mask, points), None, torch.device("cpu"))
    mirrored = set()
    for seed in range(12):
        pixels, shown = stage._shown(np.zeros(1, np.int64), np.random.default_rng(seed))
        colours = ((pixels[0].permute(1, 2, 0).numpy() + 1) * 127.5).astype(int)
        green = colours[..., 1] - colours[..., 2]
        side = len(green)
        at = {}
        for name, strength in ((left, green), (right, -green)):
            y, x = np.unravel_index(strength.argmax(), strength.shape)
            at[name] = np.array([x + 0.5, y + 0.5]) * (2 / side) - 1
        names = {name: shown[0, name, :2].numpy() for name in (left, right)}
        straight = max(np.abs(at[name] - names[name]).max() for name in (left, right))
        swapped = max(np.abs(at[left] - names[right]).max(), np.abs(at[right] - names[left]).max())
        assert min(straight, swapped) < 0.1
        mirrored.add(bool(swapped < straight))
    assert mirrored == {False, True}


def test_maps_are_highest_where_keypoints_are() -> None:
    points = torch.tensor([[(0.0, 0.5, 1.0), (0.2, 0.2, 0.0), (0.2, 0.2, -1.0)]])
    maps = heatmaps(points)
    assert maps.shape == (1, 3, 24, 24)
    y, x = divmod(int(maps[0, 0].argmax()), 24)
    assert (x in (11, 12), y in (17, 18)) == (True, True)
    assert maps[0, 1:].max() == 0


@pytest.mark.slow
def test_a_stage_learns_where_the_corner_is() -> None:
    images = np.stack([figure(row) for row in range(16)])
    points = np.zeros((16, len(PERSON), 3), np.float32)
    points[:, 0] = [(17.5 + row % 8, 21.5, 1) for row in range(16)]
    points[:, 1:, 2] = -1
    torch.manual_seed(0)
    network = new_photo_network(PERSON)
    stage = PoseStage(
        Persons(images, images.max(axis=-1) > 60, points), network, torch.device("cpu")
    )
    optimizer = torch.optim.AdamW(network.parameters(), 2e-3)
    losses = []
    for step in range(30):
        loss = stage.loss(torch.arange(16), torch.Generator().manual_seed(step))["keypoints"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert np.mean(losses[-5:]) < 0.6 * np.mean(losses[:3])
    assert stage.sheet().shape[1:] == (96, 96, 3)


@pytest.mark.slow
def test_the_command_makes_a_pose_estimator_and_goes_on_with_begun_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {"test:bright": BrightPixels(), "test:red": RedCorner()}
    monkeypatch.setattr("understudy.studio.train.load_model", lambda _, name: models[name])
    source = photos(tmp_path / "photos", 9)

    def distilled() -> Path:
        out = tmp_path / "out"
        return distil_pose(
            [source], "test:bright", "test:red", out, count=9, steps=1, progress="none"
        )

    folder = distilled()
    model = load_model(PoseEstimator, f"hf:{folder}")
    assert model.keypoints == PERSON
    (pose,) = model.pose(np.zeros((1, 64, 80, 3), np.uint8))
    assert pose.shape == (1, 14, 3)
    assert distilled() == folder
