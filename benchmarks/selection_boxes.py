"""AP50 of a detector that is trained on a selection, for images with a target to be found.

As in the paper (B.1), the boxes of candidates are those that a detector draws which knows public
images alone: here rooms of the playhouse's public world. The detector that judges is trained on the
candidates that are selected and tested on other images of the private homes, with their true boxes.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.selection_worlds import SelectionTask, dataset, images_file, roles, sizes_of
from understudy.core.types import Found, Images, Labels
from understudy.data import open_source
from understudy.metrics.networks.detector import BoxNetwork, detector_ap50
from understudy.metrics.networks.detector_training import train_detector

WORLD = "playhouse:world?target=dog&count=1500"
CERTAIN = 0.3  # an annotation of a lower score is none


@cache
def annotator(epochs: int | None) -> BoxNetwork:
    """A detector of dogs in the public world."""
    world: Any = open_source(WORLD)
    drawn = [world.drawn_image(row) for row in range(len(world))]
    truth = [
        Found(one.instances[0].box[None], np.zeros(1, np.int64), np.ones(1, np.float32))
        for one in drawn
    ]
    return train_detector(np.stack([one.image for one in drawn]), truth, classes=1, epochs=epochs)


def annotated(images: Images, epochs: int | None) -> list[Found]:
    """The best box in each image; none where the annotator is not certain."""
    return [
        Found(one.boxes[:1], one.labels[:1], one.scores[:1])
        for one in annotator(epochs).detect(images, certainty=CERTAIN)
    ]


def ap50(task: SelectionTask, chosen: NDArray[np.int64], epochs: int | None = None) -> float:
    """AP50 on the test images of a detector that is trained on candidates, in [0, 1]."""
    images = task.images(chosen)
    boxes = annotated(images, epochs)
    known = [row for row, one in enumerate(boxes) if len(one.labels)]
    if not known:
        return 0.0
    detector = train_detector(
        images[known], [boxes[row] for row in known], classes=1, seed=task.seed, epochs=epochs
    )
    data, sizes = dataset(task.name), sizes_of(task.name)
    test = roles(data.labels, sizes, task.seed, tuning=False).test
    return detector_ap50(detector, data.values[test], true_boxes(task.name, test))


def true_boxes(name: str, rows: Labels) -> list[Found]:
    """Where the target is in images of the playhouse, as they are drawn."""
    with np.load(images_file(name), allow_pickle=False) as file:
        drawn = file["rows"][rows]
    halves: list[Any] = [
        open_source(f"{sizes_of(name).source}&split={half}") for half in ("train", "test")
    ]
    result = []
    for row in drawn.tolist():
        half, own = (0, row) if row < len(halves[0]) else (1, row - len(halves[0]))
        boxes = np.stack([one.box for one in halves[half].drawn_image(own).instances])
        result.append(Found(boxes, np.zeros(len(boxes), np.int64), np.ones(len(boxes), np.float32)))
    return result
