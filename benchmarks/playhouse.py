"""How fast the playhouse draws, on one core, with masks, boxes and keypoints."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.tables import Table
from understudy.playhouse import DrawnImage, Home, World

COUNT = 400
ROUNDS = 3


def rate(draw: Callable[[int], DrawnImage]) -> tuple[float, float]:
    """Pictures a second of processor time, and of the clock: the best of some rounds."""
    draw(0)
    best = (0.0, 0.0)
    for turn in range(ROUNDS):
        busy, clock = time.process_time(), time.perf_counter()
        for seed in range(turn * COUNT, (turn + 1) * COUNT):
            draw(seed)
        best = max(
            best, (COUNT / (time.process_time() - busy), COUNT / (time.perf_counter() - clock))
        )
    return best


def sheet(file: Path) -> None:
    """A picture for the documentation: eight public rooms a row, then three homes."""
    dogs, people = World(targets=("dog",)), World(targets=("person",))
    rows = [
        [dogs.draw_as(seed, status=dogs_do[seed % 4]) for seed in range(40, 48)],
        [people.draw_as(seed, status=people_do[seed % 4]) for seed in range(8)],
        [World(targets=("two-objects",)).draw(seed) for seed in range(8)],
        *([Home(number).draw(seed) for seed in range(8)] for number in (2, 4)),
        [Home(5, task="activity").draw(seed) for seed in range(8)],
    ]
    tiles = [
        np.pad(picture.image, ((1, 1), (1, 1), (0, 0)), constant_values=255)
        for row in rows
        for picture in row
    ]
    lines = [np.concatenate(tiles[start : start + 8], axis=1) for start in range(0, len(tiles), 8)]
    image = Image.fromarray(np.concatenate(lines))
    image = image.quantize(255, dither=Image.Dither.NONE)
    image.resize((image.width * 2, image.height * 2), Image.Resampling.NEAREST).save(
        file, optimize=True
    )


dogs_do = ("sleeping", "eating", "playing", "sitting")
people_do = ("reading", "walking", "eating", "drinking")


def main() -> None:
    """Print the table."""
    table = Table(
        f"Pictures a second on one core, masks included; best of {ROUNDS} x {COUNT}",
        ("scene", "by processor time", "by the clock"),
        first=28,
    )
    for name, scene in (
        ("public world, 64 x 64", World()),
        ("dogs, 64 x 64", World(targets=("dog",))),
        ("a home, gap 1, 64 x 64", Home(0)),
        ("public world, 256 x 256", World(256)),
    ):
        busy, clock = rate(scene.draw)
        table.row(name, f"{busy:.0f}", f"{clock:.0f}")


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--sheet", type=Path, help="write a picture of pictures here instead")
    return words


if __name__ == "__main__":
    asked = parser().parse_args()
    if asked.sheet is None:
        main()
    else:
        sheet(asked.sheet)
