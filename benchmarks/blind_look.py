"""Do composed images show their target twice? A look by eye that does not know what it looks at.

``python -m benchmarks.blind_look pet FOLDER`` composes images of two seeds and writes 12 sheets of
100, of which 120 images in all have a whole second target laid on; which they are is in a key that
is not to be opened. Whoever looks writes ``FOLDER/answers.txt``, a line for each sheet:
``03 sure: B1 D7 maybe: A0``. ``--count`` then tells what was named of either kind.
"""

from __future__ import annotations

import argparse
import re
import secrets
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw
from scipy.stats import beta

from benchmarks.sanitize_models import (
    TASKS,
    Sent,
    Size,
    pipeline_of,
    request_of,
    synthetic_of,
)
from benchmarks.sanitize_second import with_seconds
from benchmarks.tables import Table
from understudy.core.types import Images

SEEDS = (100, 101)
SHEETS, LINE = 12, 10
LAID_ON = 120
CELL, GAP, MARGIN = 150, 4, 24
ROWS = "ABCDEFGHIJ"


def write(task_name: str, folder: Path) -> None:
    """The sheets, and the key: (n,) whether a second target was laid on."""
    task, words, size = TASKS[task_name], Sent({}, []), Size()
    request = request_of(task, (0, 0), words, size)
    sets = [synthetic_of(pipeline_of(size), request, words, seed).images for seed in SEEDS]
    rng = np.random.default_rng(secrets.randbits(64))
    images = rng.permutation(np.concatenate(sets))
    count = SHEETS * LINE**2
    twice = with_seconds(images[count - LAID_ON :], task.nouns[0])[:LAID_ON]
    shown = np.concatenate([images[: count - len(twice)], twice])
    order = rng.permutation(count)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "key.npy", order >= count - len(twice))
    for number, part in enumerate(np.array_split(shown[order], SHEETS), start=1):
        _sheet(part).save(folder / f"{number:02d}.png")


def _sheet(images: Images) -> Image.Image:
    """Ten lines of ten enlarged images, lines lettered and columns numbered."""
    step = CELL + GAP
    sheet = Image.new("RGB", (MARGIN + LINE * step,) * 2, "white")
    drawing = ImageDraw.Draw(sheet)
    for number, image in enumerate(images):
        line, column = divmod(number, LINE)
        large = Image.fromarray(image).resize((CELL, CELL), Image.Resampling.BICUBIC)
        sheet.paste(large, (MARGIN + column * step, MARGIN + line * step))
    for number, letter in enumerate(ROWS):
        middle = MARGIN + number * step + CELL // 2
        drawing.text((middle, MARGIN // 4), str(number), fill="black")
        drawing.text((MARGIN // 4, middle), letter, fill="black")
    return sheet


def answers(folder: Path) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """(n,) named for sure, and (n,) named at all."""
    sure = np.zeros(SHEETS * LINE**2, bool)
    maybe = np.zeros_like(sure)
    for line in (folder / "answers.txt").read_text(encoding="utf-8").splitlines():
        if (found := re.fullmatch(r"(\d+) sure:(.*)maybe:(.*)", line.strip())) is None:
            raise ValueError(f"an answer is '03 sure: B1 D7 maybe: A0', found {line!r}")
        start = (int(found[1]) - 1) * LINE**2
        for words, named in ((found[2], sure), (found[3], maybe)):
            for cell in words.split():
                named[start + ROWS.index(cell[0]) * LINE + int(cell[1])] = True
    return sure, sure | maybe


def count(folder: Path) -> None:
    """What was named of the images with a second target, and of the others."""
    laid_on = np.load(folder / "key.npy")
    table = Table(
        f"{laid_on.sum()} with a second target, {(~laid_on).sum()} others",
        ("named", "second found", "others named", "share, %", "at most, %"),
    )
    for name, named in zip(("for sure", "or maybe"), answers(folder), strict=True):
        found, others = named[laid_on].mean(), int(named[~laid_on].sum())
        whole = int((~laid_on).sum())
        most = beta.ppf(0.975, others + 1, whole - others)  # Clopper and Pearson
        shares = [100 * one / found for one in (others / whole, most)]
        row = (f"{100 * found:.0f} %", str(others), *(f"{one:.2f}" for one in shares))
        table.row(name, *row)


def main() -> None:
    """Write the sheets, or count what was named on them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.blind_look", description=__doc__)
    parser.add_argument("task", choices=("pet", "activity"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", action="store_true", help="count the answers")
    options = parser.parse_args()
    if options.count:
        count(options.folder)
    else:
        write(options.task, options.folder)


if __name__ == "__main__":
    main()
