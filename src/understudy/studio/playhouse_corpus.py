"""The corpus that a studio learns from by default: images of the playhouse, drawn when asked for.

A picture and its captions take five milliseconds of one processor, and 60,000 of them five minutes;
so several processes draw them, each by the seeds alone, and the corpus is the same for any number.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np

from understudy.core.phrases import EMPTY
from understudy.core.processes import spawning
from understudy.playhouse import World
from understudy.playhouse.dice import Dice
from understudy.playhouse.grammar import describe
from understudy.steps.hints import LIMBS, edges, skeleton
from understudy.studio.corpus import CorpusRow

CORPUS_TARGETS = ("dog",) * 4 + ("person",) * 4 + ("bottle", "two-objects", "empty", "empty")
"""What the playhouse's pictures show, in these parts."""

_CAPTIONS, _SURROUNDINGS = 3, 2  # of each picture, in different words
_FEWEST = 1_000  # rows that a process of their own is worth
_CHUNK = 64


def playhouse_rows(side: int, count: int) -> Iterator[CorpusRow]:
    """Pictures of the public world with all that is known about them."""
    seeds = range(count)
    processes = max(1, min(os.cpu_count() or 1, count // _FEWEST))
    if processes == 1:
        yield from map(partial(playhouse_row, side), seeds)
        return
    with ProcessPoolExecutor(processes, mp_context=spawning()) as pool:
        yield from pool.map(partial(playhouse_row, side), seeds, chunksize=_CHUNK)


def playhouse_row(side: int, seed: int) -> CorpusRow:
    """The picture of a seed."""
    image = World(side, CORPUS_TARGETS).draw(seed)
    dice = Dice("captions", seed)
    more = [describe(image.attributes, dice) for _ in range(_CAPTIONS - 1)]
    room = {**image.attributes, "target": EMPTY}
    poses = np.zeros_like(image.image)
    for instance in image.instances:
        if instance.name in LIMBS and instance.keypoints is not None:
            stick_figure = skeleton(
                instance.keypoints, instance.names, instance.name, image.image.shape[:2]
            )
            poses = np.maximum(poses, stick_figure)
    return CorpusRow(
        image=image.image,
        captions=[image.caption, *more],
        segments=image.segments,
        edges=edges(image.image[None])[0],
        pose=poses,
        attributes=image.attributes,
        surroundings=[describe(room, dice) for _ in range(_SURROUNDINGS)],
    )
