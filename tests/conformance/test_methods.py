"""The methods of this package. A new method adds a class."""

from pathlib import Path
from typing import Any

import pytest
from tests.methods.shapes_world import file_of_stripes, folder_of_shapes, shapes
from tests.run.samples import class_folders, pictures, save

from understudy.core.entry_points import BUILT_IN, METHODS
from understudy.testing import MethodSuite
from understudy.testing.method_suite import write_embeddings

SIZES = {"dog": 40, "person": 24}  # 64 records: one more begins another batch


class ImageMethodSuite(MethodSuite):
    """A method on folders of images."""

    def write_source(self, folder: Path) -> Path:
        return class_folders(folder / "private", SIZES, seed=1)

    def add_record(self, source: Path) -> None:
        ((_, image),) = pictures({"dog": 1}, (8, 8, 1), seed=9)
        save(image, source / "dog" / "another.png")


class TestClustering(MethodSuite):
    name = "clustering"
    settings = {"clusters": 2}  # noqa: RUF012


class TestClusteringOfImages(ImageMethodSuite):
    name = "clustering"
    settings = {"clusters": 2, "components": 12, "filter": "embeddings"}  # noqa: RUF012

    def options(self, folder: Path) -> dict[str, Any]:
        return {"quality_share": "5%"}


class TestAlignment(MethodSuite):
    name = "alignment"
    settings = {"clusters": 2, "partition": "matched", "second_moment": True}  # noqa: RUF012

    def options(self, folder: Path) -> dict[str, Any]:
        return {"base": str(write_embeddings(folder / "base.npz", seed=2))}


class TestAlignmentOfImages(ImageMethodSuite):
    name = "alignment"
    settings = {"clusters": 2, "partition": "matched"}  # noqa: RUF012

    def options(self, folder: Path) -> dict[str, Any]:
        base = class_folders(folder / "base", {"dog": 50, "person": 50}, seed=2)
        return {"base": str(base), "encoder": "embedded:dct", "decoder": "embedded:dct"}


@pytest.mark.slow
class TestEvolution(ImageMethodSuite):
    name = "evolution"
    settings = {"rounds": 2, "population": 8, "lookahead": 0}  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def needs_the_studio(self, one_thread: None) -> None:
        pytest.importorskip("diffusers")

    def options(self, folder: Path) -> dict[str, Any]:
        return {"generator": "embedded:studio?steps=2"}


class TestFinetuning(ImageMethodSuite):
    name = "finetuning"
    settings = {"steps": 3, "images": 20, "pretraining": 4, "solver_steps": 2, "rate": 0.4}  # noqa: RUF012

    @pytest.fixture(autouse=True)
    def needs_torch(self, one_thread: None) -> None:
        pytest.importorskip("torch")

    def options(self, folder: Path) -> dict[str, Any]:
        return {"denoiser": "embedded:denoiser?width=8&depth=1"}


class TestLabelling(MethodSuite):
    name = "labelling"
    epsilon = 30.0

    def write_source(self, folder: Path) -> Path:
        return folder_of_shapes(folder / "private", (70, 57), 1)

    def add_record(self, source: Path) -> None:
        images, _ = shapes((1, 0), 9)
        save(images[0], source / "cross" / "another.png")

    def options(self, folder: Path) -> dict[str, Any]:
        if not (folder / "public").exists():
            folder_of_shapes(folder / "public", (80, 80), 2)
        contrast = str(file_of_stripes(folder / "contrast.npz"))
        models = {"public": str(folder / "public"), "encoder": "embedded:dct?coefficients=60"}
        return models | {"contrast": contrast}


class TestSelection(MethodSuite):
    name = "selection"
    settings = {"rounds": 3, "steps": 20, "keep": 0.3}  # noqa: RUF012

    def options(self, folder: Path) -> dict[str, Any]:
        candidates = str(write_embeddings(folder / "candidates.npz", seed=2))
        return {"candidates": candidates, "candidates_public": True}


class TestSelectionByMoments(TestSelection):
    settings = {"reference": "moments", "utility": "area", "keep": 0.3}  # noqa: RUF012


class TestSelectionOfImages(ImageMethodSuite):
    """Candidates of another size and of fewer classes, with a public dataset."""

    name = "selection"
    settings = {"rounds": 2, "steps": 20}  # noqa: RUF012

    def write_source(self, folder: Path) -> Path:
        return class_folders(folder / "private", SIZES | {"wolf": 12}, seed=1)

    def options(self, folder: Path) -> dict[str, Any]:
        sizes = {"dog": 30, "person": 20}
        return {
            "candidates": str(class_folders(folder / "candidates", sizes, (12, 10, 3), seed=2)),
            "candidates_public": True,
            "public": str(class_folders(folder / "public", sizes, (8, 8, 1), seed=3)),
        }


def test_every_method_of_this_package_is_tested_here() -> None:
    suites = (
        TestClustering,
        TestAlignment,
        TestEvolution,
        TestFinetuning,
        TestLabelling,
        TestSelection,
    )
    tested = {suite.name for suite in suites}
    assert tested == set(BUILT_IN[METHODS])
