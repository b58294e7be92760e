"""The model of ``owner/run.json``, the file that says that a run is complete. Owner-only.

It is imported where it is needed, for pydantic takes a while. docs/schemas/run.schema.json is its
JSON Schema.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from understudy.core.errors import RunError
from understudy.core.types import Fit, Receipt
from understudy.release.outputs import read_json
from understudy.report import BudgetState, Premise
from understudy.report.json_models import first_fault


class AccuracyRecord(BaseModel):
    """One network, trained on the release and on the real data."""

    model_config = ConfigDict(use_attribute_docstrings=True, ser_json_inf_nan="constants")

    model: str
    """What was trained, in words."""
    kind: Literal["owner-only"] = "owner-only"
    """Measured on real records without noise."""
    released: bool = False
    """Whether it is a classifier of the released statistics, and no sample had a part in it."""
    synthetic: list[dict[str, Any]]
    """Results of training on the release, one for each seed."""
    real: list[dict[str, Any]]
    """Results of training on the real data."""
    both: list[dict[str, Any]] = []
    """Results of training on the two together."""


class RecordFacts(BaseModel):
    """What of the private records is public, and needed to draw more samples without them."""

    kind: Literal["images", "embeddings"]
    """What a record is."""
    shape: tuple[int, ...]
    """Shape of a record."""
    classes: tuple[str, ...]
    """Class names."""
    phrases: tuple[str, ...]
    """What each class is called in prompts."""


class RunFile(BaseModel):
    """What the owner's folder states about a complete run. Not to be shared."""

    model_config = ConfigDict(use_attribute_docstrings=True, ser_json_inf_nan="constants")

    run: str
    """The run's id in the ledger."""
    dataset: str
    """Name of the private dataset; of a selection without one, that of the candidates."""
    dataset_id: str | None
    """Its id in the ledger; null: no private dataset was asked anything."""
    ledger: str | None
    """Address of the ledger that was charged."""
    settings: dict[str, Any]
    """The configuration that a resumed run must agree on."""
    premises: list[Premise] = []
    """What of the private dataset the guarantee takes for public."""
    receipt: Receipt | None
    """The guarantee, and what each stage of it cost; null: the release has no guarantee."""
    spending: BudgetState | None
    """The dataset's budget after the run; null: no private dataset was asked anything."""
    accuracy: list[AccuracyRecord] = []
    """Accuracy on a real test set; empty without one."""
    rows: int
    """Number of private records that the run used."""
    rows_held_out: int = 0
    """Number of private records that the run held out."""
    skipped: int
    """Number of files that could not be read and were passed over."""
    seconds: dict[str, float]
    """Wall-clock seconds of each part of the run."""
    notes: list[str] = []
    """What the owner should know of the run, worst first."""
    fit: list[Fit] = []
    """How well the models fit the domain."""
    records: RecordFacts | None = None
    """What `understudy resample` knows of the records; null: no more samples can be drawn."""
    version: str
    """Version of Understudy."""
    kind: Literal["owner-only"] = "owner-only"
    """Exact numbers about private records."""

    def as_dict(self) -> dict[str, Any]:
        """The content of the file, as JSON values."""
        return self.model_dump(mode="json")


def read_run_file(path: Path) -> RunFile:
    """A ``run.json`` as it was written."""
    content = read_json(path)
    try:
        return RunFile.model_validate(content)
    except ValidationError as error:
        raise RunError(
            f"{path}: is not whole ({first_fault(error)}): restore it from a copy"
        ) from error
