"""Two judges of a release of images, the small CNN and ResNet-9, several seeds each; and the eye.

Each network learns from the release alone and is tested on real images; what counts is the balanced
accuracy. Naming one class for every image is the majority baseline. `sheet` shows real images
beside samples. Judging needs no private data and no privacy code, so it may run elsewhere:

    python -m benchmarks.judges FOLDER --device cuda

prints the table of the packs (`benchmarks.packs`) of a folder.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.packs import packs, read_pack
from benchmarks.tables import Table, machine, percent, utility
from understudy.core.errors import InputError
from understudy.metrics.utility import Labelled, Network, UtilityResult, mean_and_spread
from understudy.report import contact_sheet

JUDGES: Mapping[Network, str] = {"cnn": "small CNN", "resnet9": "ResNet-9"}
HEADS = (*(f"{name} %" for name in JUDGES.values()), "mean %", "majority %")  # of `Verdict.cells`

COLUMNS = 8  # images of a class on each side of a sheet


@dataclass(frozen=True, slots=True)
class Panel:
    """How releases are judged."""

    seeds: int = 3  # trainings of each network
    epochs: int | None = None  # passes over the release; None: those of the network's recipe
    device: str = "cpu"  # ``"cpu"`` or ``"cuda"``
    # the largest side in pixels that ResNet-9 is given; larger images are halved for it, until they
    # fit. It is made for 32 x 32, and four times as slow at twice the side.
    deep_side: int | None = 32
    deep_rows: int | None = 4_000  # resNet-9 learns from so many samples at most, chosen at random

    @classmethod
    def on(cls, device: str) -> Panel:
        """The usual panel of a device: on a GPU ResNet-9 sees all there is."""
        return cls() if device == "cpu" else cls(device=device, deep_side=None, deep_rows=None)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judges say of one release."""

    results: Mapping[Network, tuple[UtilityResult, ...]]  # for each network a result a seed

    @property
    def mean(self) -> float:
        """Mean balanced accuracy of the judges, in [0, 1]."""
        return float(np.mean([mean_and_spread(each)[0] for each in self.results.values()]))

    @property
    def majority(self) -> float:
        """Balanced accuracy of naming one class for every image, in [0, 1]."""
        return next(iter(self.results.values()))[0].majority_balanced

    def recalls(self, class_name: str) -> tuple[str, ...]:
        """Under `HEADS`: percent of the class that each network finds, and their mean."""
        recalls = [
            float(np.mean([result.per_class[class_name] or 0.0 for result in each]))
            for each in self.results.values()
        ]
        return *map(percent, recalls), percent(float(np.mean(recalls))), ""

    def cells(self) -> tuple[str, ...]:
        """Under `HEADS`: percent, with the standard deviation over the seeds in brackets."""
        figures = (mean_and_spread(each) for each in self.results.values())
        each = (f"{percent(mean)} ({percent(spread)})" for mean, spread in figures)
        return *each, percent(self.mean), percent(self.majority)


def judge(release: Labelled, test: Labelled, panel: Panel | None = None) -> Verdict:
    """Train both networks on a release, once a seed, and test them on real images."""
    panel = Panel() if panel is None else panel
    if panel.seeds < 1:
        raise InputError(f"a verdict takes 1 seed or more, found {panel.seeds}")
    results: dict[Network, tuple[UtilityResult, ...]] = {}
    for network in JUDGES:
        deep = network == "resnet9"
        train, held_out = (
            no_larger(data, panel.deep_side) if deep else data for data in (release, test)
        )
        results[network] = tuple(
            utility(
                train,
                held_out,
                network=network,
                seed=seed,
                epochs=panel.epochs,
                at_most=panel.deep_rows if deep else None,
                device=panel.device,
            )
            for seed in range(panel.seeds)
        )
    return Verdict(results)


def no_larger(data: Labelled, side: int | None) -> Labelled:
    """Images halved, by the mean of four pixels, until no side is longer than ``side`` pixels."""
    images = data.values
    while side is not None and max(images.shape[1:3]) > side:
        n, height, width, channels = images.shape
        even = images[:, : height // 2 * 2, : width // 2 * 2]
        fours = even.reshape(n, height // 2, 2, width // 2, 2, channels)
        images = np.rint(fours.mean(axis=(2, 4))).astype(np.uint8)
    return replace(data, values=images)


def sheet(release: Labelled, real: Labelled, classes: int | None = None) -> bytes:
    """A row a class: real images on the left, samples on the right; black where there are none."""
    rows = []
    for name in real.classes[:classes]:
        for side in (real, release):
            images = side.values[side.labels == side.classes.index(name)][:COLUMNS]
            missing = COLUMNS - len(images)
            rows.append(np.pad(images, ((0, missing), (0, 0), (0, 0), (0, 0))))
    return contact_sheet(np.concatenate(rows), 2 * COLUMNS)


def verdicts(folder: Path, panel: Panel) -> Iterator[tuple[str, Labelled, Labelled, Verdict]]:
    """Name, samples, test images and verdict of every packed release of a folder."""
    for file, test_file in packs(folder):
        release, test = read_pack(file), read_pack(test_file)
        yield file.stem, release, test, judge(release, test, panel)


def main(arguments: Sequence[str] | None = None) -> None:
    """Print what both judges say of the packs of a folder."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.judges", description=__doc__)
    parser.add_argument("folder", type=Path, help="of packs; NAME-... is tested on test-NAME")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--seeds", type=int, default=Panel().seeds)
    parser.add_argument("--epochs", type=int, help="of every network; else those of its recipe")
    parser.add_argument("--sheets", type=Path, help="a folder for contact sheets")
    options = parser.parse_args(arguments)
    panel = replace(Panel.on(options.device), seeds=options.seeds, epochs=options.epochs)
    print(machine())
    table = Table(
        f"Balanced accuracy, {panel.seeds} seeds on {panel.device}, "
        + ("the recipes' own epochs" if panel.epochs is None else f"{panel.epochs} epochs"),
        ("release", "samples", *HEADS),
        first=44,
    )
    for name, release, test, verdict in verdicts(options.folder, panel):
        table.row(name, len(release.labels), *verdict.cells())
        if options.sheets is not None:
            options.sheets.mkdir(parents=True, exist_ok=True)
            (options.sheets / f"{name}.png").write_bytes(sheet(release, test))


if __name__ == "__main__":
    main()
