import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.data.samples import class_folders, encode, picture, units_of

from understudy.core.errors import MissingExtra, SourceError
from understudy.data import open_source
from understudy.testing.source_suite import KEY, sound_rows


def dataset(datasets: Any, labels: list[int], names: list[str] | None) -> Any:
    columns = {
        "image": [{"bytes": encode(picture(row)), "path": None} for row in range(len(labels))],
        "label": labels,
        "patient": [f"p{row // 2}" for row in range(len(labels))],
    }
    features = datasets.Features(
        {
            "image": datasets.Image(),
            "label": datasets.ClassLabel(names=names) if names else datasets.Value("int64"),
            "patient": datasets.Value("string"),
        }
    )
    return datasets.Dataset.from_dict(columns, features=features)


def test_a_saved_dataset(tmp_path: Path, quiet_datasets: Any) -> None:
    saved = tmp_path / "saved"
    dataset(quiet_datasets, [1, 0, 1, 1, 0, 0], ["zebra", "ant"]).save_to_disk(saved)
    source = open_source(saved, unit="patient")
    values, labels, _ = sound_rows(source)
    assert source.classes == ("zebra", "ant")
    assert labels.tolist() == [1, 0, 1, 1, 0, 0]
    assert units_of(source) == ["p0", "p0", "p1", "p1", "p2", "p2"]
    np.testing.assert_array_equal(values, np.stack([picture(row) for row in range(6)]))
    folder = class_folders(tmp_path / "folder")
    assert list(open_source(folder).digests(KEY)) == list(source.digests(KEY))
    with pytest.raises(SourceError, match=r"unit column 'who'.*patient"):
        open_source(saved, unit="who")


def test_bad_rows_of_a_saved_dataset(tmp_path: Path, quiet_datasets: Any) -> None:
    good = encode(picture(0))
    rows = {
        "image": [{"bytes": data, "path": None} for data in (good, b"", good, good)],
        "label": ["a", "b", "b", None],
    }
    features = quiet_datasets.Features(
        {"image": quiet_datasets.Image(), "label": quiet_datasets.Value("string")}
    )
    quiet_datasets.Dataset.from_dict(rows, features=features).save_to_disk(tmp_path / "saved")
    with pytest.raises(SourceError, match="row 1"):
        open_source(tmp_path / "saved")
    source = open_source(tmp_path / "saved", skip_bad=True)
    sound_rows(source)
    assert (len(source), source.skipped) == (2, 2)


def test_the_part_that_nothing_reads_is_named(tmp_path: Path, quiet_datasets: Any) -> None:
    """As it is of folders and archives."""
    part = dataset(quiet_datasets, [1, 0, 1, 0], ["a", "b"])
    parts = quiet_datasets.DatasetDict({"train": part, "test": part, "validation": part})
    parts.save_to_disk(tmp_path / "saved")
    assert open_source(tmp_path / "saved").unread == ("validation",)


def test_a_damaged_saved_dataset(tmp_path: Path, quiet_datasets: Any) -> None:
    dataset(quiet_datasets, [1, 0], ["a", "b"]).save_to_disk(tmp_path / "saved")
    next((tmp_path / "saved").glob("*.arrow")).unlink()
    with pytest.raises(SourceError, match="cannot be read as a saved dataset"):
        open_source(tmp_path / "saved")


def test_an_unreachable_hub_says_what_else_to_do(quiet_datasets: Any) -> None:
    with pytest.raises(SourceError, match="save_to_disk"):
        open_source("hf:nobody/has-this-dataset:config")


def test_without_the_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtra, match=r"pip install 'understudy\[hf\]'"):
        open_source("hf:fashion_mnist")
    (tmp_path / "dataset_dict.json").write_text("{}")
    with pytest.raises(MissingExtra, match=r"understudy\[hf\]"):
        open_source(tmp_path)
