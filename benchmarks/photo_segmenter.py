"""How well models find objects and keypoints in photos: those that ship, beside larger ones.

Objects: photos with COCO's masks, stretched to squares, by the segmenters that ship, of drawn rooms
and of photos, by DeepLab (LiteRT), and by ``--segmenter``. "Sure" are the photos in which pixels of
the object are found for certain; IoU is that of the likeliest pixels; "left" the mean part of an
object outside of what the generous search hides (three scales, mirrored, look-alikes, a margin);
"missed" the photos of which more than half of it is; "hidden" the mean part of a photo that is
hidden. Keypoints: of the largest person alone, which part of those that MoveNet (LiteRT) is sure of
in photos of 256 pixels lies within a tenth of the person's longer side, and the same of drawn
persons, whose keypoints are known. Domains: how many images, each alone, lie outside of what the
two segmenters that ship know, by their pixels. Needs ``../shared/data``.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.sanitize_photos import coco
from benchmarks.tables import DATA, Table, need
from understudy.backends.arrays import resized
from understudy.backends.registry import load_model
from understudy.core.ports import PoseEstimator, Segmenter
from understudy.core.types import Images, Masks
from understudy.data import open_source
from understudy.device.photo_domain import PHOTO, STUDIO, photo_domain
from understudy.methods.sanitize.sanitizers import (
    POSE_MARGIN,
    PhotoPart,
    PoseSanitizer,
    square_about,
)
from understudy.methods.sanitize.segments import SearchSettings, classes_of, search
from understudy.studio.pose_distillation import drawn_keypoints

NOUNS = ("person", "dog", "bottle", "chair")
SIDES = (64, 128)


def main(*, segmenter: str | None = None) -> None:
    """The table: each object at each size by each segmenter, and by one more that is named."""
    folder, models = need(DATA / "images" / "photos"), need(DATA / "models")
    names = (models / "pascal_voc_segmentation_labels.txt").read_text(encoding="utf-8").split("\n")
    file = models / "deeplabv3_mnv2_pascal_quant.tflite"
    searched = {
        **{name: load_model(Segmenter, name) for name in (STUDIO, PHOTO)},
        "DeepLab": load_model(Segmenter, f"litert:{file}?labels={','.join(names[:21])}"),
    }
    if segmenter is not None:
        searched[segmenter.rpartition("/")[2]] = load_model(Segmenter, segmenter)
    columns = ("object, side, segmenter", "photos", "sure", "IoU", "left", "missed", "hidden")
    table = Table("Objects in photos with COCO's masks", columns)
    for side in SIDES:
        for noun in NOUNS:
            images, truth = coco(folder, noun, side)
            for name, model in searched.items():
                if noun in model.classes:
                    row = f"{noun}, {side}, {name}"
                    table.row(row, len(images), *figures(images, truth, noun, model))
    keypoints(folder, models / "movenet_single_pose_lightning_ptq.tflite")
    domains()


def figures(images: Images, truth: Masks, noun: str, model: Segmenter) -> tuple[str, ...]:
    """Photos with sure pixels, IoU, the mean part left, photos with more than half, what hides."""
    likely = np.isin(
        model.segment(images), [model.classes.index(n) for n in classes_of(noun, model.classes)]
    )
    segments = search(images, [noun], model, SearchSettings())
    sure, hidden = (segments.masks[0] & truth).any(axis=(1, 2)), segments.hidden[0]
    left = (truth & ~hidden).sum(axis=(1, 2)) / truth.sum(axis=(1, 2))
    overlap = (likely & truth).sum() / max(1, (likely | truth).sum())
    shares = f"{left.mean():.0%}", f"{(left > 0.5).sum()}", f"{hidden.mean():.0%}"
    return f"{sure.sum()}", f"{overlap:.2f}", *shares


def domains(side: int = 64, most: int = 300) -> None:
    """Images that lie outside of what the segmenters that ship know, each by itself."""
    table = Table("Images outside of what is known", ("images", "number", STUDIO, PHOTO), first=28)
    models = [load_model(Segmenter, name) for name in (STUDIO, PHOTO)]
    drawn = f"playhouse:activity?homes={most // 5}&per_home=5&first=400&size={side}"
    names = {
        "drawn homes": drawn,
        "photos": str(DATA / "images" / "photos" / "img"),
        "small everyday photos": str(DATA / "images" / "tiny-imagenet" / "part-8.zip"),
        "chest X-rays": str(DATA / "images" / "strangers" / "chest-x-rays" / "test"),
        "hands before a plain wall": str(DATA / "images" / "strangers" / "sign-digits" / "test"),
        "satellite tiles": str(DATA / "images" / "eurosat" / "test"),
    }
    for what, name in names.items():
        source = open_source(name, size=side, channels=3, fit="crop")
        images = np.concatenate([batch.values for batch in source.batches(64)])
        images = images[np.linspace(0, len(images) - 1, min(most, len(images))).astype(int)]
        shares = [
            np.mean([photo_domain(one[None], model).unknown[0] for one in images])
            for model in models
        ]
        table.row(what, len(images), *(f"{share:.0%}" for share in shares))


def keypoints(folder: Path, movenet: Path) -> None:
    """The table of keypoints."""
    estimators = {
        "embedded:photo": PoseSanitizer(load_model(PoseEstimator, "embedded:photo"), "person"),
        "MoveNet": PoseSanitizer(load_model(PoseEstimator, f"litert:{movenet}"), "person"),
    }
    large, masks = coco(folder, "person", 256, largest=True)
    truth = poses_of(estimators["MoveNet"], PhotoPart(large, masks, "person"))
    cases = {}
    for side in SIDES:
        step = 256 // side
        small = PhotoPart(resized(large, side, side), masks[:, ::step, ::step], "person")
        cases[f"photos, {side}"] = small, truth / (step, step, 1)
    cases["drawn, 64"] = drawn_persons()
    table = Table("Keypoints of persons", ("persons, side, model", "persons", "known", "near"))
    for case, (part, known) in cases.items():
        sure = known[..., 2] >= 0.3
        for name, estimator in estimators.items():
            near = f"{share_near(estimator, part, known, sure):.0%}"
            table.row(f"{case}, {name}", len(part.mask), int(sure.sum()), near)


def share_near(
    sanitizer: PoseSanitizer, part: PhotoPart, known: NDArray[np.float32], sure: Masks
) -> float:
    """Of the sure keypoints, the share that lies within a tenth of the person's longer side."""
    sides = np.array([square_about(mask)[2] / POSE_MARGIN for mask in part.mask])
    away = np.linalg.norm(poses_of(sanitizer, part)[..., :2] - known[..., :2], axis=2)
    return float((away[sure] <= 0.1 * np.broadcast_to(sides[:, None], away.shape)[sure]).mean())


def poses_of(sanitizer: PoseSanitizer, part: PhotoPart) -> NDArray[np.float32]:
    """(n, keypoints, 3) of each person alone."""
    return np.stack([sanitizer.surest(people) for people in sanitizer.people(part)])


def drawn_persons(count: int = 100) -> tuple[PhotoPart, NDArray[np.float32]]:
    """Persons of homes that nothing was trained on, and their keypoints."""
    source = open_source(f"playhouse:activity?homes={count}&per_home=1&first=700")
    images, masks, points = [], [], []
    for row in range(count):
        image = source.drawn_image(row)  # type: ignore[attr-defined]
        (person,) = (one for one in image.instances if one.name == "person")
        images.append(image.image)
        masks.append(person.mask)
        points.append(drawn_keypoints(person))
    return PhotoPart(np.stack(images), np.stack(masks), "person"), np.stack(points)
