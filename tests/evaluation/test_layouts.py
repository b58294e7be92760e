"""``evaluate`` takes anybody's synthetic images, in any layout, and says where their labels lie."""

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.run.blobs import blobs, folder_of

import understudy
from understudy.cli.main import app
from understudy.core.errors import ConfigError
from understudy.evaluation.inputs import EvaluationOptions, Inputs
from understudy.testing.source_suite import read_all

SAMPLES = sorted(blobs(1, 60), key=lambda sample: sample[0])  # as class folders are read
LABELS = np.array([["cat", "dog"].index(name) for name, _ in SAMPLES])
UNIT = np.stack([np.moveaxis(image, 2, 0) for _, image in SAMPLES]) / np.float32(255)
FEATURES = "embedded:dct?coefficients=20"


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("layouts")
    folder_of(place / "real", blobs(0, 80))
    folder_of(place / "test", blobs(2, 80))
    return place


def encoded(image: np.ndarray) -> bytes:
    file = io.BytesIO()
    Image.fromarray(image[..., 0]).save(file, "PNG")
    return file.getvalue()


def as_npz(place: Path) -> Path:
    np.savez_compressed(place / "gen.npz", x=UNIT, y=LABELS)
    return place / "gen.npz"


def as_zip(place: Path) -> Path:
    names = [f"00000/img{row:08d}.png" for row in range(len(SAMPLES))]
    with zipfile.ZipFile(place / "gen.zip", "w") as archive:
        for name, (_, image) in zip(names, SAMPLES, strict=True):
            archive.writestr(name, encoded(image))
        labels = [[name, int(label)] for name, label in zip(names, LABELS, strict=True)]
        archive.writestr("dataset.json", json.dumps({"labels": labels}))
    return place / "gen.zip"


def as_hub(place: Path) -> Path:
    rows = [{"bytes": encoded(image), "path": None} for _, image in SAMPLES]
    note = {"info": {"features": {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel"}}}}
    note["info"]["features"]["label"]["names"] = ["cat", "dog"]  # type: ignore[assignment]
    table = pa.table({"image": rows, "label": LABELS})
    (place / "hub" / "data").mkdir(parents=True)
    pq.write_table(
        table.replace_schema_metadata({"huggingface": json.dumps(note)}),
        place / "hub" / "data" / "train-00000-of-00001.parquet",
    )
    return place / "hub"


LAYOUTS: dict[str, Callable[[Path], Path]] = {
    "npz": as_npz,
    "their zip": as_zip,
    "hub": as_hub,
    "Parquet": lambda place: as_hub(place) / "data" / "train-00000-of-00001.parquet",
    "folder": lambda place: folder_of(place / "gen", SAMPLES),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_read_as_the_same_samples(world: Path, tmp_path: Path, name: str) -> None:
    real, test = (str(world / half) for half in ("real", "test"))
    options = EvaluationOptions(features=FEATURES)
    release = Inputs.open(LAYOUTS[name](tmp_path), real, test, options).release
    values, labels, _ = read_all(release)
    assert release.classes == ("cat", "dog")
    np.testing.assert_array_equal(labels, LABELS)
    np.testing.assert_array_equal(values, np.stack([image for _, image in SAMPLES]))


def test_a_file_without_a_run_is_measured_by_class(world: Path, tmp_path: Path) -> None:
    evaluation = understudy.evaluate(
        as_npz(tmp_path), real=world / "real", test=world / "test", features=FEATURES
    )
    assert "unverified" in evaluation.settings["claim"]
    assert any(value.label == "dog" for value in evaluation.values)
    assert evaluation.find("distance_auc") is not None


@pytest.mark.parametrize("labels", [LABELS + 1, np.where(LABELS, 7, 0)])
def test_labels_that_index_no_class_are_an_error(
    world: Path, tmp_path: Path, labels: np.ndarray
) -> None:
    np.savez(tmp_path / "gen.npz", x=UNIT, y=labels)
    with pytest.raises(ConfigError, match=r"samples of label \d.*2 classes: cat, dog"):
        understudy.evaluate(tmp_path / "gen.npz", real=world / "real", test=world / "test")


def test_the_command_line_refuses_a_file_that_was_cut_short(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = as_npz(tmp_path)
    path.write_bytes(path.read_bytes()[:-900])
    command = ["evaluate", str(path), "--real", str(world / "real"), "--test", str(world / "test")]
    with pytest.raises(understudy.InputError, match=r"gen\.npz.*damaged"):
        app(command, standalone_mode=False)
