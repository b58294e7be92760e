"""How well the segmenter of photos finds objects, beside the one that it was distilled from.

Photos with COCO's masks, stretched to squares. IoU of the pixels that are most likely the object's;
of what the device hides (the generous search: three scales, mirrored, look-alikes, a margin) the
part of the object that is left, and in how many photos more than half of it is. Needs
``../shared/data``.
"""

from __future__ import annotations

import numpy as np

from benchmarks.sanitize_photos import coco
from benchmarks.tables import DATA, Table, need
from understudy.backends.registry import load_model
from understudy.core.ports import Segmenter
from understudy.methods.sanitize.segments import SearchSettings, search

NOUNS = ("person", "dog", "bottle", "chair")
SIDES = (64, 128, 256)


def main(*, segmenter: str = "embedded:photo") -> None:
    """The table, of a segmenter and of its teacher."""
    folder, models = need(DATA / "images" / "photos"), need(DATA / "models")
    names = (models / "pascal_voc_segmentation_labels.txt").read_text(encoding="utf-8").split("\n")
    file = models / "deeplabv3_mnv2_pascal_quant.tflite"
    found = load_model(Segmenter, segmenter)
    teacher = load_model(Segmenter, f"litert:{file}?labels={','.join(names[:21])}")
    columns = ("object", "side", "photos", "IoU", "teacher", "hidden: left, mean", "missed")
    table = Table(f"{segmenter} on photos with COCO's masks", columns)
    for noun in NOUNS:
        for side in SIDES:
            images, truth = coco(folder, noun, side)
            row = [
                _overlap(model.segment(images) == model.classes.index(noun), truth)
                for model in (found, teacher)
            ]
            hidden = search(images, [noun], found, SearchSettings()).hidden[0]
            left = (truth & ~hidden).sum(axis=(1, 2)) / truth.sum(axis=(1, 2))
            missed = int((left > 0.5).sum())
            figures = (f"{row[0]:.2f}", f"{row[1]:.2f}", f"{left.mean():.0%}", f"{missed}")
            table.row(noun, side, len(images), *figures)


def _overlap(masks: np.ndarray, truth: np.ndarray) -> float:
    return float((masks & truth).sum() / max(1, (masks | truth).sum()))
