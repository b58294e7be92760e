from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def quiet_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """``datasets`` with its cache in the test's folder and the hub out of reach."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    datasets.disable_progress_bars()
    yield datasets
    datasets.enable_progress_bars()
