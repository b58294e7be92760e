"""How many composed images show their target twice, and how far the judges can be believed.

``pieces`` takes every piece of a segmenter's mask for an object, so a person whom a book cuts in
two is two. ``boxes`` is a detector that learnt from the renderer's pictures alone
(`benchmarks.second_targets`). Of each: the pictures of the renderer with one target that it takes
for two; the composed images that it finds a second target in after one was laid there; the images
as they were composed, half of which are as drawn. A detector gives as many false alarms as is
asked for, of other pictures of the renderer; of composed images, which are less clear, more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.sanitize_models import QUICK, SIDE, TASKS, Models, Size, Task, images_of_words
from benchmarks.second_targets import PUBLIC, box_judges, in_pieces, scenes, with_second
from benchmarks.tables import Table
from understudy.core.types import Images
from understudy.methods.sanitize.cutouts import Cutout, cut_out
from understudy.playhouse import World
from understudy.report.images import contact_sheet

PARTS = ("pet", "activity")
_TESTS = 600  # pictures of the renderer that judges are tested on


def main(
    parts: Sequence[str] = PARTS,
    *,
    quick: bool = False,
    count: int | None = None,
    sheets: Path | None = None,
) -> None:
    """A table for each task; into a folder the images that the detector objects to most."""
    size = QUICK if quick else Size()
    size = replace(size, images=count or size.images)
    for part in parts:
        _table(TASKS[part], size, sheets)


def _table(task: Task, size: Size, sheets: Path | None) -> None:
    noun = task.nouns[0]
    composed = images_of_words(task, 0, size).images
    judge, strict = box_judges(noun, (0.01, 0.001), count=200 if size is QUICK else 3000)
    judges: dict[str, Callable[[Images], NDArray[np.bool_]]] = {
        "pieces": lambda images: in_pieces(images, noun, Models.segmenter()),
        "boxes, 1 % false": judge,
        "boxes, 0.1 % false": strict,
    }
    tested = scenes(noun, range(PUBLIC + 1_000_000, PUBLIC + 1_000_000 + _TESTS))
    plain = [World(SIDE, (noun,)).draw(PUBLIC + 2_000_000 + k).image for k in range(_TESTS)]
    twice = with_seconds(composed, noun)
    table = Table(
        f"{task.name}: {len(composed)} images; of each the part in which two are seen, in %",
        ("judge", "one, rendered", "one, half cut", "two, rendered", "two, composed", "composed"),
    )
    for name, sees in judges.items():
        sets = (np.stack(plain), tested.images[~tested.two], tested.images[tested.two], twice)
        table.row(name, *(f"{100 * sees(images).mean():.1f}" for images in (*sets, composed)))
    if sheets is not None:
        sheets.mkdir(parents=True, exist_ok=True)
        worst = np.argsort(-judge.second_scores(composed))[:60]
        large = [np.asarray(Image.fromarray(composed[row]).resize((128, 128))) for row in worst]
        (sheets / f"second-{task.name}.png").write_bytes(contact_sheet(np.stack(large), columns=12))


def with_seconds(images: Images, noun: str) -> Images:
    """Images that show the target of another one as well."""
    rng = np.random.default_rng(1)
    masks = cut_out(images, noun, Models.segmenter(), belongings=True)
    results = []
    for row, other in enumerate(rng.permutation(len(images))):
        second = Cutout.of(images[other], masks[other])
        if second is not None and (pair := with_second(images[row], masks[row], second, rng)):
            results.append(pair[0])
    return np.stack(results)
