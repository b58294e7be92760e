import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.data.samples import picture, release_of

from understudy.core.errors import RunError, SourceError
from understudy.core.ports import CaptionedSource
from understudy.core.types import Release
from understudy.data import open_source, write_release
from understudy.data.captions import captioned_files, with_captions
from understudy.data.encoded_images import Options, RecordSource

CLASSES = ("T-shirt/top", "test", "10")
LABELS = np.array([2, 0, 1, 1, 0, 2, 2, 0, 0], np.int64)
IMAGES = np.stack([picture(row, channels=3) for row in range(9)])
CAPTIONS = [
    *('plain, with a comma and a "quote"', "déjà vu; 猫", "=1+1", "nan", "  spaces "),
    *(f"picture {row}" for row in range(5, 9)),
]


def captioned(
    captions: Sequence[str] | None = CAPTIONS,
    classes: tuple[str, ...] = CLASSES,
    *,
    images: np.ndarray | None = IMAGES,
    captioned: bool = True,
    batch: int = 4,
) -> Release:
    labels = LABELS if len(classes) > 1 else LABELS * 0
    return release_of(
        labels,
        classes,
        images=images,
        embeddings=np.zeros((9, 2), np.float32),
        captions=captions,
        captioned=captioned,
        batch=batch,
    )


def row_of(image: np.ndarray) -> int:
    """Which row of the release an image is."""
    (found,) = (row for row in range(9) if np.array_equal(IMAGES[row], image))
    return found


@pytest.mark.parametrize("classes", [CLASSES, ("all",)])
@pytest.mark.parametrize("kind", [list, np.array])
def test_the_csv_names_the_image_that_each_caption_is_of(
    tmp_path: Path, classes: tuple[str, ...], kind: Any
) -> None:
    facts = write_release(captioned(kind(CAPTIONS), classes), tmp_path / "r")
    assert facts["captions"] == "captions.csv"
    with (tmp_path / "r" / "captions.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert [line["caption"] for line in lines] == CAPTIONS
    for row, line in enumerate(lines):
        with Image.open(tmp_path / "r" / line["path"]) as image:
            assert np.array_equal(np.asarray(image), IMAGES[row])
            assert image.info == {}  # what an image is of stands beside it, not in it


@pytest.mark.parametrize("format", ["png", "parquet"])
def test_captions_come_back_with_their_images(
    tmp_path: Path, format: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("understudy.data.release._ROWS", 3)
    write_release(captioned(batch=9), tmp_path / "r", format=format)
    found = with_captions(open_source(tmp_path / "r"))
    assert isinstance(found, CaptionedSource)
    read = np.concatenate([batch.values for batch in found.batches(2)])
    assert found.captions == [CAPTIONS[row_of(image)] for image in read]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("path,text\na.png,b\n", "has no column 'caption'"),
        ("path,caption\na.png\n", "row 1 has no path or no caption"),
        ("path,caption\n../outside.png,b\n", "has no caption in captions.csv"),
    ],
)
def test_a_csv_that_was_changed_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    write_release(captioned(), tmp_path / "r")
    (tmp_path / "r" / "captions.csv").write_text(text)
    with pytest.raises(SourceError, match=reason):
        with_captions(open_source(tmp_path / "r"))


@pytest.mark.parametrize("name", ["../outside.png", "none.png"])
def test_a_table_of_training_images_names_files_of_its_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "r").mkdir()
    Image.fromarray(IMAGES[0]).save(tmp_path / "outside.png")
    images = captioned_files(tmp_path / "r", [(name, "a")], "captions.csv")
    with pytest.raises(SourceError, match=r"is named in captions.csv and is no file of the folder"):
        RecordSource(lambda: images, Options("r"))


@pytest.mark.parametrize("format", ["png", "parquet"])
def test_captions_that_no_release_may_have_are_refused_when_they_are_read(
    tmp_path: Path, format: str
) -> None:
    """Those of others' sets are chosen among for a charge, and were looked at after it."""
    write_release(captioned(), tmp_path / "r", format=format)
    if format == "png":
        table = tmp_path / "r" / "captions.csv"
        table.write_text(table.read_text("utf-8").replace("picture 5", '"two\nlines"'), "utf-8")
    else:
        (shard,) = (tmp_path / "r" / "data").iterdir()
        rows = pq.read_table(shard)
        texts = ["two\nlines", *CAPTIONS[1:]]
        pq.write_table(
            rows.set_column(rows.column_names.index("caption"), "caption", [texts]), shard
        )
    with pytest.raises(RunError, match="not one line of text"):
        with_captions(open_source(tmp_path / "r"))
