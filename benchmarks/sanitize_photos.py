"""Real photos: what leaves a device at each level, by the small models of phones.

65 photos, 49 of them with COCO's masks, each a camera of its own. DeepLab (LiteRT) searches for
the object, or COCO's masks stand in for a perfect search; FastestDet (ONNX) takes the second look,
and MoveNet (LiteRT) finds poses. ``--sheets FOLDER`` writes what leaves: photo, object, background
without it (dark: held back), edges, pose of a person, box, segment. Needs ``../shared/data``.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from benchmarks.sanitize import image_of
from benchmarks.tables import DATA, Table, need
from understudy.backends.registry import load_model
from understudy.core.ports import PoseEstimator, Segmenter
from understudy.core.types import Found, Images, Masks
from understudy.methods.sanitize.background import HoleSettings, backgrounds
from understudy.methods.sanitize.sanitizers import (
    BoxSanitizer,
    EdgesSanitizer,
    PhotoPart,
    PoseSanitizer,
    Sanitizer,
    SegmentSanitizer,
)
from understudy.methods.sanitize.segments import SearchSettings, SecondLook, grown, search

NOUNS = ("person", "dog", "chair")
SHOWN = 6
_LIKELY = SearchSettings(scales=(1.0, 1.5), growth=4)


def main(*, sheets: Path | None = None) -> None:
    """The table; sheets of what leaves, into a folder."""
    folder = need(DATA / "images" / "photos")
    models = need(DATA / "models")
    labels = models / "pascal_voc_segmentation_labels.txt"
    deeplab = f"litert:{models / 'deeplabv3_mnv2_pascal_quant.tflite'}?labels={labels}"
    segmenter = load_model(Segmenter, deeplab)
    look = SecondLook(
        segmenters=(),
        detectors=(FastestDet(models / "FastestDet.onnx"),),
        settings=SearchSettings(scales=(1.0,), growth=0, belongings=False),
    )
    columns = ("object at L0, search", "photos", "IoU", "held back", "left, mean", "left, worst")
    table = Table("Real photos, each a camera of its own, FastestDet looks again", columns)
    for noun in NOUNS:
        images, truth = coco(folder, noun)
        segments = search(images, [noun], segmenter, _LIKELY)
        for name, masks, hidden in (
            ("COCO", truth, grown(truth, 4)),
            ("DeepLab", segments.masks[0], segments.hidden[0]),
        ):
            filled, holes, held = without(images, hidden, noun, look)
            left = (truth & ~holes).sum(axis=(1, 2)) / truth.sum(axis=(1, 2))
            sent = left[~held]
            table.row(
                f"{noun}, {name}",
                str(len(images)),
                f"{(masks & truth).sum() / (masks | truth).sum():.2f}",
                f"{held.mean():.0%}",
                f"{sent.mean() if len(sent) else 0:.2%}",
                f"{sent.max() if len(sent) else 0:.2%}",
            )
            if sheets is not None:
                file = sheets / f"photos-{noun}-{name.lower()}.png"
                sheet(PhotoPart(images, masks, noun), filled, held, file)


def without(
    images: Images, hidden: Masks, noun: str, look: SecondLook
) -> tuple[Images, Masks, NDArray[np.bool_]]:
    """The photos without an object, each by itself; where it was; which of them are held back."""
    rows = [
        backgrounds(
            images[at : at + 1],
            hidden[at : at + 1],
            [noun],
            look,
            settings=HoleSettings(grid=32, distance=8),
        )
        for at in range(len(images))
    ]
    held = np.array([bool(row.remnants.held_back[0]) for row in rows])
    filled = np.concatenate([row.images for row in rows])
    return filled, np.concatenate([row.holes for row in rows]), held


def coco(
    folder: Path, noun: str, size: int = 256, *, largest: bool = False
) -> tuple[Images, Masks]:
    """The photos that show an object, and its pixels, ``size`` pixels a side.

    Of several objects all pixels, or of the ``largest`` alone.
    """
    known = json.loads((folder / "coco49_instances.json").read_text(encoding="utf-8"))
    category = next(one["id"] for one in known["categories"] if one["name"] == noun)
    images, masks = [], []
    for photo in known["images"]:
        objects = [
            one
            for one in known["annotations"]
            if one["image_id"] == photo["id"]
            and one["category_id"] == category
            and isinstance(one["segmentation"], list)
        ]
        objects = sorted(objects, key=lambda one: -one["area"])[: 1 if largest else None]
        shapes = [polygon for one in objects for polygon in one["segmentation"]]
        file = folder / "img" / f"coco_{photo['file_name']}"
        if not shapes or not file.exists():
            continue
        canvas = Image.new("1", (photo["width"], photo["height"]))
        for polygon in shapes:
            ImageDraw.Draw(canvas).polygon(polygon, fill=1)
        mask = np.asarray(canvas.resize((size, size)))
        if mask.sum() < 40:
            continue
        images.append(np.asarray(Image.open(file).convert("RGB").resize((size, size))))
        masks.append(mask)
    return np.stack(images), np.stack(masks)


class FastestDet:
    """80 classes of COCO, one box a cell (dog-qiuqiu/FastestDet)."""

    name, licence = "FastestDet", "BSD-3-Clause"

    def __init__(self, file: Path, certainty: float = 0.4) -> None:
        import onnxruntime

        self._session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        self._certainty = certainty
        folder = DATA / "images" / "photos" / "coco49_instances.json"
        categories = json.loads(folder.read_text(encoding="utf-8"))["categories"]
        self.classes = tuple(one["name"] for one in sorted(categories, key=lambda one: one["id"]))

    def detect(self, images: Images) -> list[Found]:
        return [self._one(image) for image in images]

    def _one(self, image: NDArray[np.uint8]) -> Found:
        height, width = image.shape[:2]
        small = np.asarray(Image.fromarray(image).resize((352, 352)))[:, :, ::-1]
        pixels = small.transpose(2, 0, 1)[None].astype(np.float32) / 255
        (out,) = self._session.run(None, {self._session.get_inputs()[0].name: pixels})
        cells = out.reshape(out.shape[-3:]) if out.ndim == 4 else out
        _, rows, columns = cells.shape
        score = cells[0] ** 0.6 * cells[5:].max(axis=0) ** 0.4
        row, column = np.nonzero(score > self._certainty)
        at = cells[:, row, column]
        x, y = (column + np.tanh(at[1])) / columns, (row + np.tanh(at[2])) / rows
        w, h = (1 / (1 + np.exp(-at[k])) for k in (3, 4))
        boxes = np.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], axis=1)
        boxes = np.clip(boxes, 0, 1) * (width, height, width, height)
        order = np.argsort(-score[row, column])
        return Found(
            boxes[order].astype(np.float32),
            at[5:].argmax(axis=0)[order].astype(np.int64),
            np.clip(score[row, column][order], 0, 1).astype(np.float32),
        )


def sheet(part: PhotoPart, filled: Images, held: NDArray[np.bool_], file: Path) -> None:
    """What leaves of some photos, a row each, into a file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    sanitizers: list[Sanitizer] = [EdgesSanitizer(2.0), BoxSanitizer(), SegmentSanitizer()]
    if part.noun == "person":
        movenet = DATA / "models" / "movenet_single_pose_lightning_ptq.tflite"
        estimator = load_model(PoseEstimator, f"litert:{movenet}")
        sanitizers.insert(1, PoseSanitizer(estimator, "person"))
    columns = [
        part.photos,
        np.where(part.mask[..., None], part.photos, part.photos // 4),
        np.where(held[:, None, None, None], filled // 3, filled),
        *(image_of(sanitizer, part) for sanitizer in sanitizers),
    ]
    rows = [
        np.concatenate([column[at] for column in columns], axis=1)
        for at in range(SHOWN)[: len(held)]
    ]
    Image.fromarray(np.concatenate(rows)).save(file)
    print(f"  {file}")
