"""How well segmenters find objects in photos, and what is left of what the device hides by them.

Photos with COCO's masks, stretched to squares, by the segmenter of drawn rooms that ships, by
DeepLab (LiteRT), and by ``--segmenter``, such as one that `understudy studio segmenter` made. IoU
is that of the likeliest pixels; "left" the mean part of an object outside of what the generous
search hides (three scales, mirrored, look-alikes, a margin); "missed" the photos of which more than
half of it is; "hidden" the mean part of a photo that is hidden. Needs ``../shared/data``.
"""

from __future__ import annotations

import numpy as np

from benchmarks.sanitize_photos import coco
from benchmarks.tables import DATA, Table, need
from understudy.backends.registry import load_model
from understudy.core.ports import Segmenter
from understudy.core.types import Images, Masks
from understudy.methods.sanitize.segments import SearchSettings, classes_of, search

NOUNS = ("person", "dog", "bottle", "chair")
SIDES = (64, 128)


def main(*, segmenter: str | None = None) -> None:
    """The table: each object at each size by each segmenter, and by one more that is named."""
    folder, models = need(DATA / "images" / "photos"), need(DATA / "models")
    names = (models / "pascal_voc_segmentation_labels.txt").read_text(encoding="utf-8").split("\n")
    file = models / "deeplabv3_mnv2_pascal_quant.tflite"
    searched = {
        "embedded:studio": load_model(Segmenter, "embedded:studio"),
        "DeepLab": load_model(Segmenter, f"litert:{file}?labels={','.join(names[:21])}"),
    }
    if segmenter is not None:
        searched[segmenter.rpartition("/")[2]] = load_model(Segmenter, segmenter)
    columns = ("object, side, segmenter", "photos", "IoU", "left", "missed", "hidden")
    table = Table("Objects in photos with COCO's masks", columns)
    for side in SIDES:
        for noun in NOUNS:
            images, truth = coco(folder, noun, side)
            for name, model in searched.items():
                if noun in model.classes:
                    row = f"{noun}, {side}, {name}"
                    table.row(row, len(images), *figures(images, truth, noun, model))


def figures(images: Images, truth: Masks, noun: str, model: Segmenter) -> tuple[str, ...]:
    """IoU, the mean part that is left, in how many photos more than half is, what is hidden."""
    likely = np.isin(
        model.segment(images), [model.classes.index(n) for n in classes_of(noun, model.classes)]
    )
    hidden = search(images, [noun], model, SearchSettings()).hidden[0]
    left = (truth & ~hidden).sum(axis=(1, 2)) / truth.sum(axis=(1, 2))
    overlap = (likely & truth).sum() / max(1, (likely | truth).sum())
    return f"{overlap:.2f}", f"{left.mean():.0%}", f"{(left > 0.5).sum()}", f"{hidden.mean():.0%}"
