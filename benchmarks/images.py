"""Releases of images by the package alone, judged by the small CNN and ResNet-9.

``eurosat``, ``clothing`` and ``fashion_mnist`` are whole datasets; ``subsets`` are small and
unbalanced classes, with what `understudy check` forecasts of them; ``timing`` is the seconds and
the memory of one run. What the package has learnt from is public: so the private images are the
*other* half here (every second file, and Fashion-MNIST's training images from the 10,000th on).
``--encoder`` (repeated) chooses what is compared; ``real`` are as many private images, without any
privacy (in whole datasets). ``--set NAME=VALUE`` is a setting of the method.

Generating needs the privacy code and no GPU; judging the reverse. ``--pack FOLDER`` writes each
release there instead of judging it; `benchmarks.judges` judges the folder, here or elsewhere.
Needs ``../shared/data`` and Fashion-MNIST.
"""

from __future__ import annotations

import resource
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.commands import command_seconds
from benchmarks.judges import HEADS, Panel, judge, sheet
from benchmarks.packs import TEST, write_pack
from benchmarks.small_classes import SIZES, Subset, lines
from benchmarks.tables import DATA, Table, need, released
from understudy.data import open_source
from understudy.methods.clustering.capacity import Carried
from understudy.metrics.utility import Labelled, gather
from understudy.planning.check import check_source
from understudy.run.config import make_config

DEFAULT = "the default"
REAL = "real"

ENCODERS = (DEFAULT, "embedded:dct")
DELTA = 1e-5
PIXELS = 64
FASHION = Path("/usr/share/datasets/fashion-mnist")
FASHION_PUBLIC = 10_000  # training images that the package may have learnt from
COUNT = 10_000  # samples of a release

SUBSETS = {
    "vegetation": Subset(
        "eurosat", {"AnnualCrop": 300, "Forest": 3000, "HerbaceousVegetation": 300}
    ),
    "streets": Subset("eurosat", {"Highway": 300, "Residential": 3000, "River": 300}),
    "clothes": Subset("clothing", {"dress": 100, "shoes": 100, "t-shirt": 100}),
    "few tiles": Subset("eurosat", dict.fromkeys(("AnnualCrop", "Forest", "River"), 100)),
    "fewer tiles": Subset("eurosat", dict.fromkeys(("AnnualCrop", "Forest", "River"), 50)),
}

TIMED = Subset("eurosat", dict.fromkeys(("Forest", "Residential", "River", "SeaLake"), 1000))
TIMED_COUNT = 2_000


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    # names of encoders, which also decode; `DEFAULT` for none; in whole datasets `REAL` for the
    # private images themselves
    encoders: Sequence[str] = ENCODERS
    settings: Mapping[str, str] = field(default_factory=dict)  # of the method
    epsilons: Sequence[float] = ()  # those of each dataset where there are none here
    count: int = COUNT  # samples of a release
    panel: Panel = field(default_factory=Panel)  # how releases are judged
    pack: Path | None = None  # folder of packs; None: releases are judged at once
    quality: int | None = None  # of JPEG in packs; None: lossless
    sheets: Path | None = None  # folder of contact sheets, if any


# Datasets: the private half, and the test images.


def private_folder(subset: Subset, folder: Path) -> tuple[Path, Path]:
    """Folders of a subset's private training images and of its test images, copied."""
    images = need(DATA / "images" / subset.folder)
    names = subset.sizes or {path.name: None for path in sorted((images / "train").iterdir())}
    for split in ("train", "test"):
        for name, size in names.items():
            target = folder / split / name
            target.mkdir(parents=True)
            files = sorted((images / split / name).iterdir())
            chosen = private_files(subset.folder, files) if split == "train" else files
            for file in chosen[: size if split == "train" else None]:
                shutil.copyfile(file, target / file.name)
    return folder / "train", folder / "test"


def private_files(dataset: str, files: Sequence[Path]) -> list[Path]:
    """Of a class's sorted files every second one: those that the package has not learnt from.

    EuroSAT's by the number that is the file's name, the others by their place.
    """
    if dataset == "eurosat":
        return [file for file in files if int(file.stem) % 2 == 1]
    return list(files[1::2])


@contextmanager
def folders(name: str) -> Iterator[tuple[Path, Path]]:
    """The private images and the test images of EuroSAT or clothing, as sources."""
    with tempfile.TemporaryDirectory() as folder:
        yield private_folder(Subset(name, {}), Path(folder))


@contextmanager
def fashion() -> Iterator[tuple[Path, Path]]:
    """The private images of Fashion-MNIST as an npz, and its folder for the test images."""
    with tempfile.TemporaryDirectory() as folder:
        real = loaded(need(FASHION))
        file = Path(folder) / "private.npz"
        labels = np.array(real.classes)[real.labels[FASHION_PUBLIC:]]
        np.savez(file, images=real.values[FASHION_PUBLIC:], labels=labels)
        yield file, FASHION


def loaded(source: Path, split: Any = "train", size: int | None = None) -> Labelled:
    """Labelled images in memory."""
    opened = open_source(source, split=split, size=size)
    return gather(opened.batches(1024), opened.classes)


# Releases


def options_of(encoder: str, settings: Mapping[str, str]) -> dict[str, Any]:
    """The encoder and the settings as `understudy.synthesize` takes them."""
    named = {} if encoder == DEFAULT else {"encoder": encoder, "decoder": encoder}
    return {**named, **({"settings": dict(settings)} if settings else {})}


def release(source: Path, epsilon: float, size: int | None, **options: Any) -> Labelled:
    """The samples of one release."""
    images = {"delta": DELTA, "size": size, "format": "parquet", "progress": "none"}
    return released(source, epsilon, **images, **options)


def pack_name(dataset: str, epsilon: float, encoder: str, settings: Mapping[str, str]) -> str:
    """The file of a release: ``eurosat-1-photo.npz``."""
    short = "default" if encoder == DEFAULT else encoder.rpartition(":")[2].replace("?", "-")
    words = (dataset, f"{epsilon:g}", short, *(f"{name}={settings[name]}" for name in settings))
    return "-".join(words).replace("/", "-") + ".npz"


def whole(dataset: str, epsilons: Sequence[float], size: int | None, asked: Asked) -> None:
    """A line a release: seconds, samples and verdicts; or a pack of it."""
    with fashion() if dataset == "fashion_mnist" else folders(dataset) as (train, test_source):
        split = "test" if dataset == "fashion_mnist" else "train"
        test = loaded(test_source, split, size)
        if asked.pack is not None:
            write_pack(asked.pack / f"{TEST}{dataset}.npz", test, asked.quality)
        table = Table(
            f"{dataset}, {size or 28} px, delta {DELTA:g}"
            + (f", packed into {asked.pack}" if asked.pack else ", balanced accuracy"),
            ("encoder", "epsilon", "samples", "seconds", *(() if asked.pack else HEADS)),
        )
        for encoder in asked.encoders:
            for epsilon in (np.inf,) if encoder == REAL else asked.epsilons or epsilons:
                start = time.perf_counter()
                if encoder == REAL:
                    samples = loaded(train, size=size).at_most(asked.count)
                else:
                    options = options_of(encoder, asked.settings)
                    samples = release(train, epsilon, size, count=asked.count, **options)
                seconds = f"{time.perf_counter() - start:.0f}"
                name = pack_name(dataset, epsilon, encoder, asked.settings)
                cells = shown(name, samples, test, asked)
                table.row(encoder, f"{epsilon:g}", len(samples.labels), seconds, *cells)


def shown(name: str, samples: Labelled, test: Labelled, asked: Asked) -> tuple[str, ...]:
    """Cells of the judges, or none where the samples are packed; the sheet if there is a folder."""
    if asked.sheets is not None:
        asked.sheets.mkdir(parents=True, exist_ok=True)
        (asked.sheets / name.replace(".npz", ".png")).write_bytes(sheet(samples, test))
    if asked.pack is not None:
        write_pack(asked.pack / name, samples, asked.quality)
        return ()
    return judge(samples, test, asked.panel).cells()


# Parts


def eurosat(asked: Asked) -> None:
    """EuroSAT; beside it what fine-tuning a large public model with DP reaches."""
    whole("eurosat", (1.0, 8.0), PIXELS, asked)
    print("published, DP-LoRA (a pre-trained diffusion model): 70.7 at epsilon 1, 83.6 at 8")


def clothing(asked: Asked) -> None:
    """Ten kinds of clothes."""
    whole("clothing", (1.0, 8.0), PIXELS, asked)


def fashion_mnist(asked: Asked) -> None:
    """Fashion-MNIST; beside it what others publish without public images."""
    whole("fashion_mnist", (1.0, 10.0), None, asked)
    print("published (DPImageBench): DP-MERF 62.2 / 62.2, DPDM 76.4 / 85.6 at epsilon 1 / 10")


def subsets(asked: Asked) -> None:
    """A line a class: sizes, static, the forecast of `understudy check`, recall by both judges."""
    for encoder in asked.encoders:
        for name, subset in SUBSETS.items():
            table = Table(
                f"{name}, {encoder}, {PIXELS} px, epsilon 1; forecast: clusters of a class "
                "(*: not even a mean of its own)",
                ("class", *SIZES, "forecast", *(() if asked.pack else HEADS)),
                first=26,
            )
            with tempfile.TemporaryDirectory() as folder:
                for line in subset_lines(name, subset, Path(folder), encoder, asked):
                    table.row(*line)


def subset_lines(
    name: str, subset: Subset, folder: Path, encoder: str, asked: Asked
) -> Iterator[tuple[object, ...]]:
    """Lines of `subsets`: one of all, and a class each."""
    train, test = private_folder(subset, folder / "data")
    options = options_of(encoder, asked.settings)
    config = {"source": str(train), "out": str(folder / "out"), "epsilon": 1.0, "size": PIXELS}
    forecast = check_source(make_config({**config, **options})).carried.get(1.0, {})
    samples = release(train, 1.0, PIXELS, **options)
    real, held_out = loaded(train, size=PIXELS), loaded(test, size=PIXELS)
    verdict = None
    if asked.pack is None:
        verdict = judge(samples, held_out, asked.panel)
    else:
        write_pack(asked.pack / f"{TEST}{name}.npz", held_out, asked.quality)
        file = asked.pack / pack_name(name, 1.0, encoder, asked.settings)
        write_pack(file, samples, asked.quality)
    for line in lines(real, samples, verdict):
        carried = forecast.get(str(line[0]).strip())
        yield *line[:4], "" if carried is None else forecast_words(carried), *line[4:]


def forecast_words(carried: Carried) -> str:
    """Clusters, with a star where even the mean is not the class's own."""
    return f"{carried.clusters}{'' if carried.own_mean else '*'}"


def timing(asked: Asked) -> None:
    """Seconds and peak memory of the command, in a process of its own."""
    table = Table(
        f"{TIMED_COUNT:,} samples of {PIXELS} px from 4,000 private images, epsilon 1",
        ("encoder", "seconds", "processor s", "peak GB"),
    )
    for encoder in asked.encoders:
        with tempfile.TemporaryDirectory() as folder:
            train, _ = private_folder(TIMED, Path(folder) / "data")
            words = ["synthesize", str(train), "--epsilon", "1", "--yes"]
            words += ["--count", str(TIMED_COUNT), "--size", str(PIXELS), "--out", f"{folder}/out"]
            words += ["--ledger", f"sqlite:///{folder}/ledger.db", "--progress", "none"]
            for name, value in options_of(encoder, {}).items():
                words += [f"--{name}", value]
            words += [word for pair in asked.settings.items() for word in ("--set", "=".join(pair))]
            seconds, processor = command_seconds(*words)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        # The largest of all children so far: the first line alone is exact, later ones are bounds.
        table.row(encoder, f"{seconds:.0f}", f"{processor:.0f}", f"{peak:.2f}")


PARTS: dict[str, Callable[[Asked], None]] = {
    "eurosat": eurosat,
    "clothing": clothing,
    "fashion_mnist": fashion_mnist,
    "subsets": subsets,
    "timing": timing,
}


def main(
    parts: tuple[str, ...] = (),
    *,
    encoder: Sequence[str] = ENCODERS,
    settings: Sequence[str] = (),
    epsilon: Sequence[float] = (),
    count: int = COUNT,
    seeds: int | None = None,
    epochs: int | None = None,
    device: str = "cpu",
    pack: Path | None = None,
    quality: int | None = None,
    sheets: Path | None = None,
) -> None:
    """Every part, or those named."""
    panel = Panel.on(device)
    panel = replace(panel, seeds=panel.seeds if seeds is None else seeds, epochs=epochs)
    given = dict(pair.split("=", 1) for pair in settings)
    asked = Asked(encoder, given, epsilon, count, panel, pack, quality, sheets)
    for name in parts or PARTS:
        PARTS[name](asked)
