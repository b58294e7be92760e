"""What every method must do, in whole runs through a real vault on a tiny dataset."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from PIL import Image

from understudy.core.errors import BudgetRefused, ConfigError
from understudy.core.option import declared_options, option_of
from understudy.data import open_source
from understudy.methods.base import Method
from understudy.planning.dry import dry_run
from understudy.privacy.budget import Budget
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.config import make_config
from understudy.run.methods import method
from understudy.run.run_result import Result
from understudy.run.synthesize import synthesize

CLASSES = ("cat", "dog", "eel")

_WORLDS: dict[type, tuple[dict[str, Any], Path]] = {}
_RESULTS: dict[type, Result] = {}


def write_embeddings(path: Path, per_class: int = 60, dim: int = 6, seed: int = 0) -> Path:
    """An npz of embeddings with labels: a cloud of unit deviation for each of `CLASSES`."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(len(CLASSES)), per_class)
    middles = 2.0 * np.random.default_rng(7).normal(size=(len(CLASSES), dim))
    values = middles[labels] + rng.normal(size=(len(labels), dim))
    np.savez(path, embeddings=values.astype(np.float32), labels=np.array(CLASSES)[labels])
    return path


def add_record(path: Path) -> None:
    """One embedding more, of the first class."""
    with np.load(path, allow_pickle=False) as archive:
        values, labels = archive["embeddings"], archive["labels"]
    values = np.concatenate([values, np.full((1, values.shape[1]), 3, dtype=values.dtype)])
    np.savez(path, embeddings=values, labels=np.append(labels, labels[0]))


def add_extremes(source: Path) -> None:
    """Three records more, of the first class: white, black, a checkerboard; or far out."""
    if source.is_dir():
        folder = min(path for path in source.iterdir() if path.is_dir())
        with Image.open(min(folder.iterdir())) as image:
            shape, mode = image.size[::-1], image.mode
        row, column = np.indices(shape)
        for number, pixels in enumerate((0 * row, 0 * row + 1, (row + column) % 2)):
            extreme = Image.fromarray((255 * pixels).astype(np.uint8)).convert(mode)
            extreme.save(folder / f"extreme{number}.png")
        return
    with np.load(source, allow_pickle=False) as archive:
        values, labels = archive["embeddings"], archive["labels"]
    extremes = np.zeros((3, values.shape[1]), dtype=values.dtype)
    extremes[1, 0], extremes[2] = 1e4, -1e4
    labels = np.append(labels, labels[:1].repeat(3))
    np.savez(source, embeddings=np.concatenate([values, extremes]), labels=labels)


def files_of(folder: Path) -> dict[Path, bytes]:
    """Every file below a folder, and what is in it."""
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


class MethodSuite:
    """What every method must do.

    A subclass states ``name``; it overrides ``write_source`` and ``add_record`` for a method of
    images, and ``options`` for one that needs models, a base set or quicker settings.

    Attributes:
        name: The name that the method is registered by.
        settings: Parameters with which a run takes a moment.
        epsilon: Budget of a run.
    """

    name: ClassVar[str]
    settings: ClassVar[Mapping[str, Any]] = {}
    epsilon: ClassVar[float] = 4.0

    def write_source(self, folder: Path) -> Path:
        """A tiny private dataset in an empty folder."""
        return write_embeddings(folder / "private.npz")

    def add_record(self, source: Path) -> None:
        """Add one record to that dataset."""
        add_record(source)

    def add_extremes(self, source: Path) -> None:
        """Add some extreme records to that dataset."""
        add_extremes(source)

    def options(self, folder: Path) -> dict[str, Any]:
        """More options of `understudy.synthesize`; files that they name are written here."""
        return {}

    def all_options(self, folder: Path) -> dict[str, Any]:
        """Every option of a run but where its result goes."""
        return {
            "source": str(folder / "source"),
            "method": self.name,
            "epsilon": self.epsilon,
            "settings": dict(self.settings),
            "ledger": str(folder / "ledger.db"),
        } | self.options(folder)

    def run(self, options: Mapping[str, Any], out: Path, **more: Any) -> Result:
        """One run without a word."""
        return synthesize(out=out, progress="none", **{**options, **more})

    @pytest.fixture
    def world(self, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
        """The options of a run, and the folder where its result and everything else lie."""
        if type(self) not in _WORLDS:
            folder = tmp_path_factory.mktemp("method")
            source = self.write_source(folder)
            _WORLDS[type(self)] = {**self.all_options(folder), "source": str(source)}, folder
        return _WORLDS[type(self)]

    @pytest.fixture
    def result(self, world: tuple[dict[str, Any], Path]) -> Result:
        """One whole run of a suite; its tests only look at it."""
        if type(self) not in _RESULTS:
            options, folder = world
            _RESULTS[type(self)] = self.run(options, folder / "out")
        return _RESULTS[type(self)]

    def test_it_says_what_it_is(self) -> None:
        loaded = method(self.name)
        assert isinstance(loaded, Method)
        assert loaded.name == self.name
        assert loaded.summary
        assert loaded.source
        for name, hint in declared_options(loaded.params).items():
            assert option_of(hint).help, name
        assert loaded.params() == loaded.params()

    def test_the_stages_planned_are_the_stages_released(
        self, world: tuple[dict[str, Any], Path], result: Result
    ) -> None:
        options, folder = world
        plan = dry_run(make_config({**options, "out": folder / "planned"}))
        planned = {stage.name: stage.share for stage in plan.stages}
        released = [stage.stage for stage in result.receipt.stages]
        assert sorted(released) == sorted(planned)
        assert sum(planned.values()) == pytest.approx(1)
        assert not (folder / "planned").exists()

    def test_the_run_spends_its_budget_and_no_more(
        self, world: tuple[dict[str, Any], Path], result: Result
    ) -> None:
        options, _ = world
        assert result.receipt.epsilon <= self.epsilon * (1 + 1e-9)
        assert result.receipt.epsilon == pytest.approx(self.epsilon, rel=1e-3)
        with Ledger(options["ledger"]) as ledger:
            charged = [row.data["stage"] for row in ledger.rows() if row.kind == "charge"]
        assert set(charged) == {stage.stage for stage in result.receipt.stages}

    def test_the_release_is_written_and_opens(
        self, world: tuple[dict[str, Any], Path], result: Result
    ) -> None:
        options, _ = world
        private, release = open_source(options["source"]), open_source(result.release)
        assert len(release) > 0
        assert set(release.classes) <= set(private.classes)
        batches = list(release.batches(32))
        assert sum(len(batch.labels) for batch in batches) == len(release)
        assert all(np.isfinite(batch.values).all() for batch in batches)

    def test_other_records_change_nothing_but_through_the_noisy_answers(
        self, world: tuple[dict[str, Any], Path], result: Result, tmp_path: Path
    ) -> None:
        """The run as if killed before its release, resumed on more records: the same bytes.

        A usual record more, and extreme ones: what is read off the records and not off the answers
        (their number, the longest) differs there.
        """
        options, folder = world
        shutil.copytree(folder, tmp_path / "world")
        out = tmp_path / "world" / "out"
        shutil.rmtree(out / "release")
        shutil.rmtree(out / "owner" / "kept", ignore_errors=True)
        (out / "owner" / "run.json").unlink()
        source = Path(options["source"])
        intact = tmp_path / "intact"
        (shutil.copytree if source.is_dir() else shutil.copy)(source, intact)
        try:
            self.add_record(source)
            self.add_extremes(source)
            again = self.run(options, out, resume=True)
        finally:
            if source.is_dir():
                shutil.rmtree(source)
                shutil.copytree(intact, source)
            else:
                shutil.copy(intact, source)
        first, second = files_of(result.release), files_of(again.release)
        assert first.keys() == second.keys()
        assert [name for name in first if first[name] != second[name]] == []

    def test_an_unknown_parameter_is_refused_before_anything_is_spent(self, tmp_path: Path) -> None:
        options = {
            **self.all_options(tmp_path),
            "source": str(self.write_source(tmp_path)),
            "settings": {**self.settings, "no_such_parameter": 1},
        }
        with pytest.raises(ConfigError, match="no_such_parameter"):
            self.run(options, tmp_path / "out")
        assert not (tmp_path / "out").exists()
        assert not (tmp_path / "ledger.db").exists()

    def test_a_run_over_the_budget_is_refused_before_anything_is_released(
        self, tmp_path: Path
    ) -> None:
        source = self.write_source(tmp_path)
        options = {**self.all_options(tmp_path), "source": str(source)}
        with Ledger(options["ledger"]) as ledger:
            dataset = ledger.register(open_source(source))
            ledger.set_budget(dataset.id, Budget(self.epsilon / 2, 1e-5))
        with pytest.raises(BudgetRefused):
            self.run(options, tmp_path / "out")
        with Ledger(options["ledger"]) as ledger:
            assert not [row for row in ledger.rows() if row.kind == "charge"]
        assert not list(tmp_path.rglob("release/*"))
        assert not list((tmp_path / "out").rglob("*.npz"))
