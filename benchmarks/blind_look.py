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
from scipy.stats import beta

from benchmarks.sanitize_models import TASKS, Models, Size, images_of_words
from benchmarks.second_targets import with_seconds
from benchmarks.tables import Table
from understudy.device.sheets import sheet_bytes

SEEDS = (100, 101)
SHEETS, LINE = 12, 10
LAID_ON = 120
ROWS = "ABCDEFGHIJ"


def write(task_name: str, folder: Path) -> None:
    """The sheets, and the key: (n,) whether a second target was laid on."""
    task, total = TASKS[task_name], SHEETS * LINE**2
    rng = np.random.default_rng(secrets.randbits(64))
    sets = [images_of_words(task, seed, Size()).images for seed in SEEDS]
    images = rng.permutation(np.concatenate(sets))
    seconds = images[total - LAID_ON : total + LAID_ON]
    twice = with_seconds(seconds, task.nouns[0], Models.segmenter())[:LAID_ON]
    shown = np.concatenate([images[: total - len(twice)], twice])
    order = rng.permutation(total)
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / "key.npy", order >= total - len(twice))
    for number, part in enumerate(np.array_split(shown[order], SHEETS), start=1):
        columns = {str(column): part[column::LINE] for column in range(LINE)}
        (folder / f"{number:02d}.png").write_bytes(sheet_bytes(columns, ROWS))


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
