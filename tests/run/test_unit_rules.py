"""A run whose units are folders: one person weighs as one, and an evaluation reads it again."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.run.samples import quick_run, save

from understudy.evaluation.inputs import EvaluationOptions, Inputs
from understudy.run.books import set_dataset_budget


@pytest.fixture
def scans(tmp_path: Path) -> Path:
    """``scans/<class>/<patient>/<n>.png``: 20 patients of each class with two images each."""
    rng = np.random.default_rng(0)
    for label, middle in (("ill", 90), ("well", 170)):
        for patient in range(20):
            folder = tmp_path / "scans" / label / f"{label}-{patient}"
            folder.mkdir(parents=True)
            for number in range(2):
                image = np.clip(rng.normal(middle, 30, (8, 8, 1)), 0, 255).astype(np.uint8)
                save(image, folder / f"{number}.png")
    return tmp_path / "scans"


@pytest.mark.parametrize("hold_out", [None, "30%"])
def test_a_run_by_folders_is_evaluated_without_naming_them(
    scans: Path, tmp_path: Path, hold_out: str | None
) -> None:
    ledger = str(tmp_path / "ledger.db")
    account = set_dataset_budget(f"{scans}?folders=all", 3, 1e-5, ledger)
    result = quick_run(scans, tmp_path, epsilon=1.0, unit_from="folder", hold_out=hold_out)
    assert result.receipt.unit == "rows sharing 'its folder'"
    record = json.loads((result.owner / "run.json").read_text())
    assert record["dataset_id"] == account.dataset.id
    test = None if hold_out else f"{scans}?folders=all"
    inputs = Inputs.open(result.release, str(scans), test, EvaluationOptions())
    assert len(inputs.real) == record["rows"]
    assert (inputs.held_out is not None) == bool(hold_out)
    assert len(inputs.test) == (80 - record["rows"] if hold_out else 80)
    assert record["rows"] % 2 == 0  # of a patient both images, or none
