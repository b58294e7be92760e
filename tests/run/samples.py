"""Small private datasets for whole runs, and settings with which a run takes a moment."""

import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray
from PIL import Image

import understudy
from understudy.run.run_result import Result

SIZES = {"cat": 24, "dog": 24, "eel": 24}
QUICK = {"clusters": 1, "components": 12}


def quick_run(source: Path, folder: Path, **options: Any) -> Result:
    """A run of a moment, into ``out`` of a folder that holds its ledger too."""
    usual = {"epsilon": 8.0, "count": 30, "settings": QUICK, "progress": "none"}
    places = {"out": folder / "out", "ledger": str(folder / "ledger.db")}
    return understudy.synthesize(source, **{**usual, **places, **options})


@contextmanager
def killed_at(function: str, error: BaseException | None = None) -> Iterator[None]:
    """Whatever calls the function within ends there: with an interruption, or this error."""
    with patch(function, side_effect=error or InterruptedError()):
        yield


def pictures(
    sizes: Mapping[str, int], shape: tuple[int, int, int], seed: int
) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """(class, image) pairs: noise about a grey that the class has for itself."""
    rng = np.random.default_rng(seed)
    for place, (name, count) in enumerate(sizes.items()):
        middle = 255 * (place + 1) / (len(sizes) + 1)
        for image in rng.normal(middle, 35, (count, *shape)):
            yield name, np.clip(image, 0, 255).astype(np.uint8)


def save(image: NDArray[np.uint8], path: Path) -> None:
    Image.fromarray(image[:, :, 0] if image.shape[2] == 1 else image).save(path)


def class_folders(
    folder: Path,
    sizes: Mapping[str, int] = SIZES,
    shape: tuple[int, int, int] = (8, 8, 1),
    seed: int = 0,
) -> Path:
    """``folder/CLASS/N.png``."""
    for name in sizes:
        (folder / name).mkdir(parents=True)
    for number, (name, image) in enumerate(pictures(sizes, shape, seed)):
        save(image, folder / name / f"scan-{number}.png")
    return folder


def with_manifest(folder: Path, per_unit: int = 4, seed: int = 0) -> Path:
    """A flat folder with ``manifest.csv``: path, label, patient; a patient has several images."""
    folder.mkdir(parents=True)
    with (folder / "manifest.csv").open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["path", "label", "patient"])
        for number, (name, image) in enumerate(pictures(SIZES, (8, 8, 1), seed)):
            save(image, folder / f"{number}.png")
            table.writerow(
                [f"{number}.png", name, f"p{number % (sum(SIZES.values()) // per_unit)}"]
            )
    return folder


def embeddings(path: Path, per_class: int = 60, dim: int = 6, seed: int = 0) -> Path:
    """An npz of embeddings with labels: a cloud a class."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(3), per_class)
    middles = 2.0 * np.random.default_rng(7).normal(size=(3, dim))
    values = middles[labels] + rng.normal(size=(len(labels), dim))
    np.savez(path, embeddings=values.astype(np.float32), labels=np.array(list(SIZES))[labels])
    return path


def noisy_values(out: Path) -> dict[str, NDArray[np.int64]]:
    """The stored answers of a run, by stage."""
    found = {}
    for path in (out / "owner" / "stages").glob("*.npz"):
        with np.load(path, allow_pickle=False) as archive:
            found[path.stem] = archive["noisy"]
    return found


def release_pixels(out: Path) -> dict[str, NDArray[np.uint8]]:
    """Every PNG of a release by its path in it."""
    place = out / "release"
    return {
        str(path.relative_to(place)): np.asarray(Image.open(path)) for path in place.rglob("*.png")
    }


def tree(folder: Path) -> list[str]:
    """Every file below a folder."""
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def changed(options: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {**options, **more}
