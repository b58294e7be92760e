"""Which column holds the class, and what an owner declares whatever the images are."""

import csv
import json
from collections.abc import Callable
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.data.samples import class_folders, encode, picture
from tests.data.test_webdataset import write as write_tar

from understudy.core.errors import ConfigError, SourceError
from understudy.data import open_source
from understudy.data.image_decoding import converted_channels, decode
from understudy.data.labels import label_column_of
from understudy.testing.source_suite import KEY, sound_rows

ATTRIBUTES = ["Smiling", "Male", *(f"Attribute_{n}" for n in range(38))]
"""Forty, as CelebA has."""

ROWS = 8


def sign(row: int, attribute: str) -> int:
    return 1 if (row + ATTRIBUTES.index(attribute)) % 3 else -1


def celeba_hub(folder: Path, datasets: Any) -> Path:
    """As ``save_to_disk`` leaves the hub's copy: an image, an identity and 40 truth values."""
    columns = {"image": [{"bytes": encode(picture(row)), "path": None} for row in range(ROWS)]}
    columns |= {"celeb_id": [row // 2 for row in range(ROWS)]}
    columns |= {name: [sign(row, name) > 0 for row in range(ROWS)] for name in ATTRIBUTES}
    features = {"image": datasets.Image(), "celeb_id": datasets.Value("int64")}
    features |= {name: datasets.Value("bool") for name in ATTRIBUTES}
    made = datasets.Dataset.from_dict(columns, features=datasets.Features(features))
    made.save_to_disk(folder)
    return folder


def celeba_parquet(folder: Path, datasets: Any) -> Path:
    """As the hub's repository: ``data/train-*.parquet`` with -1 and 1."""
    columns = {"image": [{"bytes": encode(picture(row)), "path": None} for row in range(ROWS)]}
    columns |= {name: [sign(row, name) for row in range(ROWS)] for name in ATTRIBUTES}
    (folder / "data").mkdir(parents=True)
    pq.write_table(pa.table(columns), folder / "data" / "train-00000-of-00001.parquet")
    return folder


def celeba_csv(folder: Path, datasets: Any) -> Path:
    """As ``img_align_celeba`` with ``list_attr_celeba.csv``."""
    folder.mkdir()
    with (folder / "list_attr_celeba.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["image_id", *ATTRIBUTES])
        for row in range(ROWS):
            (folder / f"{row:06d}.png").write_bytes(encode(picture(row)))
            table.writerow([f"{row:06d}.png", *(sign(row, name) for name in ATTRIBUTES)])
    return folder


def celeba_tar(folder: Path, datasets: Any) -> Path:
    members = []
    for row in range(ROWS):
        fields = {name: sign(row, name) for name in ATTRIBUTES}
        members.append((f"{row:03d}.png", encode(picture(row))))
        members.append((f"{row:03d}.json", json.dumps(fields).encode()))
    return write_tar(folder / "celeba.tar", members)


MAKERS = [celeba_hub, celeba_parquet, celeba_csv, celeba_tar]


@pytest.fixture(params=MAKERS, ids=[maker.__name__ for maker in MAKERS])
def celeba(request: pytest.FixtureRequest, tmp_path: Path, quiet_datasets: Any) -> Path:
    make: Callable[[Path, Any], Path] = request.param
    return make(tmp_path / "celeba", quiet_datasets)


def test_forty_attributes_need_a_word_and_one_is_enough(celeba: Path) -> None:
    with pytest.raises(SourceError, match="could hold the class") as refused:
        open_source(celeba)
    assert all(name in str(refused.value) for name in ATTRIBUTES)
    assert "--label" in str(refused.value)
    for name in ("Smiling", "Male"):
        source = open_source(celeba, label=name)
        _, labels, _ = sound_rows(source)
        assert [int(source.classes[label] in ("1", "True")) for label in labels] == [
            int(sign(row, name) > 0) for row in range(ROWS)
        ]
        assert label_column_of(source) == name


def test_the_label_is_no_part_of_a_record(celeba: Path) -> None:
    first, second, none = (open_source(celeba, label=n) for n in ("Smiling", "Male", "none"))
    assert none.classes == ("all",)
    sound_rows(none)
    assert list(first.digests(KEY)) == list(second.digests(KEY)) == list(none.digests(KEY))


def test_a_column_that_is_not_there_lists_those_that_are(celeba: Path) -> None:
    with pytest.raises(SourceError, match=r"Smile.*Smiling"):
        open_source(celeba, label="Smile")


def table(path: Path, **columns: Any) -> Path:
    rows = len(next(iter(columns.values())))
    images = [encode(picture(row)) for row in range(rows)]
    pq.write_table(pa.table({"image": images, **columns}), path)
    return path


def test_an_advised_column_is_quoted_as_a_shell_needs_it(tmp_path: Path) -> None:
    place = table(tmp_path / "a.parquet", **{"hair colour": [0, 1], "smiles": [1, 0]})
    with pytest.raises(SourceError, match="say which it is: --label 'hair colour', for one"):
        open_source(place)


def test_values_that_nobody_declared_as_classes_are_not_published_unasked(tmp_path: Path) -> None:
    place = table(tmp_path / "a.parquet", patient=["ann", "bob", "bob"])
    with pytest.raises(SourceError, match="--label patient, for one; or --label none"):
        open_source(place)
    assert open_source(place, unit="patient").classes == ("all",)
    assert open_source(place, label="none").classes == ("all",)
    assert open_source(place, label="patient").classes == ("ann", "bob")


def test_two_usual_names_are_ambiguous(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="2 columns could hold the class: label, labels"):
        open_source(table(tmp_path / "a.parquet", label=[0, 1], labels=[1, 0]))


@pytest.mark.parametrize("name", ["score", "label"])
def test_real_numbers_are_no_classes(tmp_path: Path, name: str) -> None:
    asked = None if name == "label" else name
    place = table(tmp_path / "a.parquet", **{name: [0.5, 1.0, 0.25]})
    with pytest.raises(SourceError, match=f"{name!r} holds real numbers"):
        open_source(place, label=asked)
    folder = tmp_path / "flat"
    folder.mkdir()
    lines = [f"path,{name}"]
    for row, value in enumerate(("0.5", "1.0", "-2e-3")):
        (folder / f"{row}.png").write_bytes(encode(picture(row)))
        lines.append(f"{row}.png,{value}")
    (folder / "manifest.csv").write_text("\n".join(lines))
    with pytest.raises(SourceError, match=f"{name!r} holds real numbers"):
        open_source(folder, label=asked)
    (folder / "manifest.csv").write_text("\n".join([*lines[:3], "2.png,turbo"]))
    assert open_source(folder, label=name).classes == ("0.5", "1.0", "turbo")


# What the owner declares


def test_declared_classes_hold_their_order_and_may_be_empty(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "a")
    (folder / "owl").mkdir()
    source = open_source(folder, classes=["owl", "dog", "cat"])
    _, labels, _ = sound_rows(source)
    assert source.classes == ("owl", "dog", "cat")
    assert labels.tolist() == [2, 2, 2, 1, 1, 1]
    only_cats = class_folders(tmp_path / "cats", ("cat",))
    assert open_source(only_cats, classes=["cat", "dog"]).classes == ("cat", "dog")


def test_an_undeclared_class_is_named_with_the_remedy(tmp_path: Path) -> None:
    folder = class_folders(tmp_path / "a", ("cat", "dog", "eel"))
    with pytest.raises(SourceError, match=r"does not declare: eel .*Declare them too"):
        open_source(folder, classes=["cat", "dog"])
    images = np.stack([picture(row) for row in range(3)])
    np.savez(tmp_path / "a.npz", images=images, labels=[0, 1, 7])
    with pytest.raises(SourceError, match="does not declare: 7 "):
        open_source(tmp_path / "a.npz", classes=["0", "1"])
    np.savez(tmp_path / "a.npz", images=images, labels=[1, 1, 0])
    source = open_source(tmp_path / "a.npz", classes=["2", "1", "0"])
    assert sound_rows(source)[1].tolist() == [1, 1, 2]
    with pytest.raises(SourceError, match="has no labels"):
        open_source("procedural:leaves?count=4", classes=["a", "b"])


@pytest.mark.parametrize("channels", [1, 3])
def test_declared_channels_are_those_of_every_image(tmp_path: Path, channels: int) -> None:
    folder = tmp_path / "a"
    for name, own in (("cat", 1), ("dog", 3)):
        (folder / name).mkdir(parents=True)
        (folder / name / "0.png").write_bytes(encode(picture(0, channels=own)))
    grey_only = class_folders(tmp_path / "b")
    for source in (open_source(folder, channels=channels), open_source(grey_only, channels=1)):
        values, _, _ = sound_rows(source)
        assert values.shape[3] == source.shape[2]
    assert open_source(folder, channels=channels).shape[2] == channels
    for own in (1, 3):
        images = np.stack([picture(row, channels=own) for row in range(4)])
        np.savez(tmp_path / "a.npz", images=images)
        source = open_source(tmp_path / "a.npz", channels=channels)
        assert source.shape[2] == channels
        np.testing.assert_array_equal(sound_rows(source)[0], converted_channels(images, channels))
    with pytest.raises(ConfigError, match="channels is 1"):
        open_source(folder, channels=2)


def test_arrays_turn_grey_as_encoded_images_do() -> None:
    images = np.stack([picture(row, 40, 40) for row in range(3)])
    decoded = [decode(encode(image), channels=1) for image in images]
    np.testing.assert_array_equal(converted_channels(images, 1), np.stack(decoded))
    file = BytesIO()
    Image.fromarray(images[0]).convert("L").save(file, "PNG")
    np.testing.assert_array_equal(
        decode(file.getvalue(), channels=3),
        converted_channels(converted_channels(images[:1], 1), 3)[0],
    )
