"""SpinML's tables: models that a server trains of what a device sends, at each preference.

Photos of private homes of the playhouse; references are cut, sanitised and packed as a device
does it, and go through all stages of the server's pipeline. The mini studio draws and segments.
Real accuracy is on other photos of the same home.

pet, activity, bottle    Tables 3a to 3c and 4a to 4c; with --sheets the panels of Figure 3 as SVG
noise                    Table 5
masks                    the paper's random mask, with and without merged weights, and no mask
two-objects              Table 6
generic                  Table 7, and oracles on labelled photos
prompts                  Table 4d
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from benchmarks.sanitize import DrawnPoses, KnownPoses, drawn_message, nothing_left
from benchmarks.sanitize_chart import Point, trade_off_chart
from benchmarks.second_targets import in_pieces
from benchmarks.tables import Table
from understudy.backends.registry import load_encoder, load_model
from understudy.core.ports import Generator, ScoringSegmenter, Segmenter, TextEncoder, Tuner
from understudy.core.types import Found, Images, Labels, Masks
from understudy.methods.sanitize.background import HoleSettings, backgrounds
from understudy.methods.sanitize.compose import ComposeSettings
from understudy.methods.sanitize.customise import STUDIO_TUNING, TuningPlan
from understudy.methods.sanitize.cutouts import box_of, cut_out, object_pixels
from understudy.methods.sanitize.jobs import JobMaterial
from understudy.methods.sanitize.sanitizers import (
    EdgesSanitizer,
    NoiseSanitizer,
    PhotoPart,
    Sanitized,
    Sanitizer,
    SegmentSanitizer,
    items_of,
)
from understudy.methods.sanitize.segments import SearchSettings, instances, search
from understudy.methods.sanitize.spinml_pipeline import SpinmlPipeline
from understudy.methods.sanitize.training_set import (
    LabelledSet,
    TrainedModel,
    mixed_set,
    train_model,
)
from understudy.methods.sanitize.wire import JobRequest, PartRequest
from understudy.methods.sanitize.wire_items import Item
from understudy.metrics.box_maps import decode_boxes
from understudy.metrics.detection import average_precision
from understudy.metrics.disclosure import PartMessages, disclosed_information
from understudy.metrics.semantic import prompt_similarity, semantic_similarity
from understudy.playhouse import DrawnImage, Home
from understudy.server.model_training import SmallModelTraining, loaded_network

PARTS = ("pet", "activity", "bottle", "noise", "masks", "two-objects", "generic", "prompts")
SIDE = 64
FIRST_TEST = 1000  # photos from this day on are tested on

FOLDER = os.environ.get("UNDERSTUDY_STUDIO")
STUDIO = "embedded:studio?dtype=float32" + (f"&folder={FOLDER}" if FOLDER else "")
"""On a GPU, too, in the numbers of a processor; another studio where a folder is named."""
BATCH = int(os.environ.get("UNDERSTUDY_BATCH", "100"))
"""Images that are drawn and composed at a time: more on a GPU."""
GENERATOR = f"{STUDIO}&batch={BATCH}"

Levels = tuple[int, ...]  # of the background, then of each object


@dataclass(frozen=True)
class Size:
    """How much is run."""

    homes: int = 5
    seeds: int = 3
    references: int = 10
    images: int = 400
    tests: int = 200
    steps: int = 400
    epochs: int | None = None
    search: SearchSettings = field(default_factory=SearchSettings)
    compose: ComposeSettings = field(default_factory=lambda: ComposeSettings(batch=BATCH))


QUICK = Size(
    homes=1,
    seeds=1,
    images=24,
    tests=80,
    steps=150,
    epochs=120,
    search=SearchSettings(scales=(1.0,)),
    compose=ComposeSettings(pool=24, rooms=2, rounds=2),
)


@dataclass(frozen=True)
class Task:
    """One of the paper's tasks on the playhouse."""

    name: str
    nouns: tuple[str, ...]
    classes: tuple[str, ...]
    feature: str
    preferences: tuple[Levels, ...]
    mixed: tuple[tuple[Levels, Levels], ...] = ()

    @property
    def kind(self) -> str:
        return "detector" if self.classes[0] in self.nouns else "classifier"


MASKS: tuple[tuple[Literal["borne", "random", "none"], bool], ...] = (
    *(("borne", False), ("random", False), ("none", False)),
    ("random", True),  # and the weights of the background's generator merged, as in the paper
)
DOG, BOTTLE, FRAME = "dog", "medicine bottle", "photo frame"
TASKS: Mapping[str, Task] = {
    "pet": Task(
        "pet-status",
        (DOG,),
        ("eating", "playing", "sitting", "sleeping"),
        "edges",
        ((0, 0), (0, 1), (0, 2), (2, 2)),
        (((0, 0), (0, 1)), ((0, 0), (0, 2))),
    ),
    "activity": Task(
        "activity",
        ("person",),
        ("drinking", "eating", "reading", "walking"),
        "pose",
        ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (2, 2)),
        (((2, 0), (2, 1)),),
    ),
    "bottle": Task(
        "bottle",
        (BOTTLE,),
        (BOTTLE,),
        "edges",
        ((0, 0), (1, 0), (2, 0), (0, 1), (1, 1), (2, 1), (2, 2)),
        (((2, 0), (2, 1)),),
    ),
    "two-objects": Task(
        "two-objects",
        (BOTTLE, FRAME),
        (BOTTLE,),
        "edges",
        (*((b, t, f) for t, f in ((0, 0), (0, 1), (1, 0), (1, 1)) for b in (0, 1, 2)), (2, 2, 2)),
    ),
}


@dataclass(frozen=True, eq=False)
class Photos:
    """Photos of one home, with what the renderer knows of them."""

    drawn: list[DrawnImage]

    @property
    def images(self) -> Images:
        return np.stack([one.image for one in self.drawn])

    def masks(self, number: int) -> Masks:
        """Of an object, by its number from 0 on; the frame is the second one."""
        names = ("frame",) if number else ("dog", "person", "bottle")
        none = np.zeros((SIDE, SIDE), bool)
        known = [{i.name: i.mask for i in one.instances if i.name in names} for one in self.drawn]
        return np.stack([next(iter(one.values()), none) for one in known])

    @property
    def labels(self) -> Labels:
        return np.array([one.label or 0 for one in self.drawn])

    @property
    def truth(self) -> list[Found]:
        return [
            Found(box_of(mask)[None], np.zeros(1, np.int64), np.ones(1, np.float32))
            for mask in self.masks(0)
        ]


@dataclass(frozen=True, eq=False)
class Sent:
    """What a device sends of its references, part by part, and what a preview shows of it."""

    items: dict[int, list[Item]]
    messages: list[Images]


@dataclass(frozen=True)
class Row:
    """One preference of one home."""

    synthetic: float
    real: float
    information: tuple[float, float]
    similarity: tuple[float, float]
    pieces: float = 0.0


class Models:
    """The server's and the device's models, loaded once."""

    @staticmethod
    @cache
    def generator() -> Generator:
        return load_model(Generator, GENERATOR, seam=0)

    @staticmethod
    @cache
    def tuner() -> Tuner:
        return load_model(Tuner, GENERATOR, seam=0)

    @staticmethod
    @cache
    def segmenter() -> Segmenter:
        return load_model(Segmenter, STUDIO)

    @staticmethod
    @cache
    def encoder() -> TextEncoder:
        encoder = load_encoder(STUDIO, shape=(SIDE, SIDE, 3))
        assert isinstance(encoder, TextEncoder)
        return encoder


def main(
    parts: Sequence[str] = PARTS,
    *,
    quick: bool = False,
    homes: int | None = None,
    seeds: int | None = None,
    count: int | None = None,
    sheets: Path | None = None,
) -> None:
    """The tables; Figure 3 into a folder."""
    size = QUICK if quick else Size()
    size = replace(
        size, homes=homes or size.homes, seeds=seeds or size.seeds, images=count or size.images
    )
    for part in parts:
        PART_FUNCTIONS[part](size, sheets)


@cache
def references_of(task: Task, home: int, size: Size) -> Photos:
    owner = Home(home, task=task.name)
    return Photos([owner.draw(day) for day in range(size.references)])


@cache
def tests_of(task: Task, home: int, size: Size) -> Photos:
    owner = Home(home, task=task.name)
    return Photos([owner.draw(FIRST_TEST + day) for day in range(size.tests)])


def sanitizer_of(task: Task, level: int, photos: Photos, number: int) -> Sanitizer:
    """Of a part above L0: 0 is the background."""
    if level == 2:
        return SegmentSanitizer()
    if task.feature == "pose" and number:
        poses = [one.instances[0].keypoints for one in photos.drawn]
        known = DrawnPoses([pose for pose in poses if pose is not None])
        known.keypoints = photos.drawn[0].instances[0].names
        return KnownPoses(known, "person", 0.0)
    return EdgesSanitizer()


@cache
def device_parts(task: Task, photos: Photos, size: Size) -> list[PhotoPart]:
    """The background without its objects, then the objects, as the device's search cuts them."""
    nouns = list(task.nouns)
    segments = search(photos.images, nouns, Models.segmenter(), size.search)
    hidden = segments.hidden.any(axis=0)
    filled = backgrounds(
        photos.images, hidden, nouns, nothing_left, settings=HoleSettings(rounds=0)
    ).images
    whole = np.ones(filled.shape[:3], bool)
    return [
        PhotoPart(filled, whole, "room"),
        *(PhotoPart(photos.images, segments.masks[k], noun) for k, noun in enumerate(nouns)),
    ]


def sent_of(
    task: Task, levels: Levels, photos: Photos, size: Size, noise: float | None = None
) -> Sent:
    """What is sent at these levels; the same number of items of every part."""
    parts = device_parts(task, photos, size)
    sanitized: dict[int, Sanitized] = {}
    messages = []
    for number, level in enumerate(levels):
        if level:
            sanitizer = sanitizer_of(task, level, photos, number)
            if noise is not None and number:
                sanitizer = NoiseSanitizer(noise)
            sanitized[number] = sanitizer.sanitize(parts[number], seed=number)
            skeleton = getattr(sanitizer, "skeleton", None)
            messages.append(drawn_message(sanitized[number], parts[number], skeleton))
    items = {number: items_of(one, parts[number], number) for number, one in sanitized.items()}
    count = min((len(one) for one in items.values()), default=0)
    return Sent(
        {number: one[:count] for number, one in items.items()},
        messages,
    )


def request_of(task: Task, levels: Levels, sent: Sent, size: Size) -> JobRequest:
    def part(noun: str, level: int, feature: str) -> PartRequest:
        pose = feature == "pose" and level == 1
        return PartRequest(
            noun=noun,
            level=level,
            feature=feature if level == 1 else None,  # type: ignore[arg-type]
            skeleton="person" if pose else None,
        )

    pairs = zip(task.nouns, levels[1:], strict=True)
    return JobRequest(
        target_object=tuple(part(noun, level, task.feature) for noun, level in pairs),
        background=part("room", levels[0], "edges"),
        training_object=task.kind,  # type: ignore[arg-type]
        label_classes=task.classes,
        side=SIDE,
        references=len(next(iter(sent.items.values()), [])),
        images_per_class=size.images,
    )


def pipeline_of(size: Size, *, merged: bool = False) -> SpinmlPipeline:
    return SpinmlPipeline(
        Models.generator(),
        Models.segmenter(),
        SmallModelTraining(),
        tuner=Models.tuner(),
        plan=TuningPlan({**STUDIO_TUNING, "steps": size.steps}, merge_background=merged),
        settings=size.compose,
    )


def synthetic_of(
    pipeline: SpinmlPipeline, request: JobRequest, sent: Sent, seed: int
) -> LabelledSet:
    """The first two stages."""
    results: dict[str, Mapping[str, bytes]] = {}
    material = JobMaterial(
        request=request,
        items=lambda part: tuple(sent.items.get(part, ())),
        result=lambda stage, name: results[stage][name],
        seed=seed,
        beat=lambda: None,
    )
    for stage in ("customise", "compose"):
        results[stage] = pipeline.run(stage, material)
    return LabelledSet.from_bytes(results["compose"]["images.npy"])


def trained_score(
    task: Task, images: LabelledSet, tests: Photos, seed: int, size: Size
) -> tuple[float, float]:
    """On the synthetic tenth, and on real photos by the exported model."""
    model = trained(task, images, seed, size)
    return model.validation, scored(task, model, tests, size)


def trained(task: Task, images: LabelledSet, seed: int, size: Size) -> TrainedModel:
    training = SmallModelTraining(epochs=size.epochs)
    return train_model(training, task.kind, images, len(task.classes), seed)  # type: ignore[arg-type]


def images_of_words(task: Task, seed: int, size: Size) -> LabelledSet:
    """What a server composes where nothing is sent but words."""
    nothing = Sent({}, [])
    levels: Levels = (0,) * (1 + len(task.nouns))
    request = request_of(task, levels, nothing, size)
    return synthetic_of(pipeline_of(size), request, nothing, seed)


@cache
def of_words_alone(task: Task, seed: int, size: Size) -> tuple[LabelledSet, TrainedModel]:
    """Where nothing is sent but words, all homes get the same images and the same model."""
    images = images_of_words(task, seed, size)
    return images, trained(task, images, seed, size)


def scored(task: Task, model: TrainedModel, tests: Photos, size: Size) -> float:
    """The exported model on real photos."""
    training = SmallModelTraining(epochs=size.epochs)
    pixels = tests.images.transpose(0, 3, 1, 2).astype(np.float32)
    result = outputs_of(training, task, model.state, pixels)
    return real_score(task, result, tests)


def outputs_of(
    training: SmallModelTraining, task: Task, state: bytes, pixels: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Of the exported model; of the network itself, the same to 1e-4, where ONNX is missing."""
    shape, classes = (SIDE, SIDE, 3), len(task.classes)
    if find_spec("onnx") is not None:
        import onnxruntime

        data = training.export(task.kind, state, shape, classes)  # type: ignore[arg-type]
        return np.asarray(onnxruntime.InferenceSession(data).run(None, {"images": pixels})[0])
    import torch

    network, mean, gain = loaded_network(task.kind, state, shape, classes)  # type: ignore[arg-type]
    standard = (pixels - mean[:, None, None]) * gain[:, None, None]
    with torch.inference_mode():
        return np.asarray(network(torch.from_numpy(standard)).numpy())


def real_score(task: Task, result: NDArray[np.float32], tests: Photos) -> float:
    if task.kind == "classifier":
        return float((result.argmax(axis=1) == tests.labels).mean())
    found = decode_boxes(result, (SIDE, SIDE), certainty=0.01)
    return average_precision(found, tests.truth, task.classes[:1])


def measured(
    task: Task, levels: Levels, home: int, seed: int, size: Size
) -> tuple[Row, LabelledSet]:
    """Everything of one preference, one home, one seed."""
    photos, tests = references_of(task, home, size), tests_of(task, home, size)
    sent = sent_of(task, levels, photos, size)
    if any(levels):
        request = request_of(task, levels, sent, size)
        images = synthetic_of(pipeline_of(size), request, sent, 100 * home + seed)
        model = trained(task, images, seed, size)
    else:
        images, model = of_words_alone(task, seed, size)
    row = Row(
        model.validation,
        scored(task, model, tests, size),
        informed(task, levels, home, sent, size),
        similar(task, photos, images),
        seen_in_pieces(task, images),
    )
    return row, images


def seen_in_pieces(task: Task, images: LabelledSet) -> float:
    """Part of the composed images in which the object is seen in two pieces.

    That is no count of second objects: a true picture of one person is often in two pieces
    (`benchmarks.blind_look` has them counted by eye).
    """
    return float(in_pieces(images.images, task.nouns[0], Models.segmenter()).mean())


def informed(task: Task, levels: Levels, home: int, sent: Sent, size: Size) -> tuple[float, float]:
    """Mutual information of target and background with all that was sent, bias removed."""
    if not sent.messages:
        return 0.0, 0.0
    photos = references_of(task, home, size)
    others = references_of(task, home + 500, size)
    theirs = sent_of(task, levels, others, size)
    values = []
    for inside in (True, False):
        own, other = (
            PartMessages(one.images, one.masks(0) == inside, tuple(messages))
            for one, messages in ((photos, sent.messages), (others, theirs.messages))
        )
        values.append(disclosed_information(own, other).corrected.value)
    return values[0], values[1]


def similar(task: Task, photos: Photos, images: LabelledSet) -> tuple[float, float]:
    """SIM of target and background: everything else is grey."""
    rows = np.random.default_rng(0).permutation(len(images))[:64]
    drawn = images.images[rows]
    masks = (photos.masks(0), cut_out(drawn, task.nouns[0], Models.segmenter()))
    values = []
    for inside in (True, False):
        sides = []
        for pixels, mask in zip((photos.images, drawn), masks, strict=True):
            shown = np.where((mask == inside)[..., None], pixels, np.uint8(127))
            sides.append(Models.encoder().encode(shown))
        values.append(semantic_similarity(*sides).value)
    return values[0], values[1]


def name_of(levels: Levels) -> str:
    return "(" + ", ".join(f"L{level}" for level in (*levels[1:], levels[0])) + ")"


def averaged(values: Sequence[float]) -> str:
    """Mean, and half of its 95 % interval where there are several."""
    mean = f"{100 * np.mean(values):.1f}"
    if len(values) < 2:
        return mean
    return f"{mean} +- {196 * np.std(values, ddof=1) / np.sqrt(len(values)):.1f}"


def preferences(name: str, size: Size, sheets: Path | None) -> None:
    """A task's rows of Tables 3 (or 6) and 4, and its panels of Figure 3."""
    task = TASKS[name]
    table = Table(
        f"{task.name}: {size.homes} homes, {size.seeds} seeds, {size.images} images a class",
        (
            "(target, background)",
            "synthetic",
            "real",
            "MI t",
            "MI b",
            "SIM t",
            "SIM b",
            "pieces",
            "s",
        ),
    )
    runs = [(home, seed) for home in range(size.homes) for seed in range(size.seeds)]
    known: dict[tuple[Levels, int, int], LabelledSet] = {}
    points = []
    for levels in task.preferences:
        start, rows = time.process_time(), []
        for home, seed in runs:
            row, known[levels, home, seed] = measured(task, levels, home, seed, size)
            rows.append(row)
        spent = (time.process_time() - start) / len(runs)
        points.append(printed(table, name_of(levels), rows, spent))
    for pair in task.mixed:
        scores = []
        for home, seed in runs:
            mixture = mixed_set([known[levels, home, seed] for levels in pair], seed)
            tests = tests_of(task, home, size)
            scores.append(trained_score(task, mixture, tests, seed, size))
        words = " + ".join(name_of(levels) for levels in pair)
        table.row(words, *(averaged(one) for one in zip(*scores, strict=True)), *"-----", "-")
    if sheets is not None:
        sheets.mkdir(parents=True, exist_ok=True)
        file = sheets / f"figure3-{task.name}.svg"
        file.write_text(trade_off_chart(task.name, points), encoding="utf-8")
        print(f"  {file}")


def printed(table: Table, name: str, rows: Sequence[Row], seconds: float) -> Point:
    """A row of the table, and the same as a point of Figure 3."""
    metrics = [
        [row.information[0] for row in rows],
        [row.information[1] for row in rows],
        [row.similarity[0] for row in rows],
        [row.similarity[1] for row in rows],
    ]
    table.row(
        name,
        averaged([row.synthetic for row in rows]),
        averaged([row.real for row in rows]),
        *(averaged(values) for values in metrics),
        averaged([row.pieces for row in rows]),
        f"{seconds:.0f}",
    )
    real = float(np.mean([row.real for row in rows]))
    return Point(name, real, tuple(float(np.mean(values)) for values in metrics))


def noise(size: Size, sheets: Path | None) -> None:
    """Table 5: noisy segments of the dog at L2, and L0 beside them."""
    task = TASKS["pet"]
    table = Table(
        f"noise on the target: {size.homes} homes, {size.seeds} seeds",
        ("deviation", "MI t", "MI b", "SIM t", "SIM b", "real"),
    )
    for deviation in (5.0, 10.0, 50.0, None):
        levels: Levels = (0, 0) if deviation is None else (0, 2)
        rows = []
        for home in range(size.homes):
            photos, tests = references_of(task, home, size), tests_of(task, home, size)
            sent = sent_of(task, levels, photos, size, deviation)
            request = request_of(task, levels, sent, size)
            for seed in range(size.seeds):
                images = synthetic_of(pipeline_of(size), request, sent, 100 * home + seed)
                score = trained_score(task, images, tests, seed, size)
                information = informed(task, levels, home, sent, size)
                rows.append(Row(*score, information, similar(task, photos, images)))
        metrics = [row.information + row.similarity for row in rows]
        table.row(
            "L0" if deviation is None else f"{deviation:g}",
            *(averaged(one) for one in zip(*metrics, strict=True)),
            averaged([row.real for row in rows]),
        )


def masks(size: Size, sheets: Path | None) -> None:
    """Where objects are put, at the preferences whose background is drawn and is the owner's."""
    table = Table(
        f"masks: {size.homes} homes, {size.seeds} seeds",
        ("task, (target, background)", "mask", "real photos, %"),
        first=36,
    )
    for name in ("pet", "bottle"):
        task = TASKS[name]
        for levels in ((0, 0), (2, 0)):
            for mask, merged in MASKS if levels[0] else MASKS[:3]:
                how = replace(size, compose=replace(size.compose, mask=mask))
                pipeline = pipeline_of(how, merged=merged)
                scores = []
                for home in range(size.homes):
                    photos, tests = references_of(task, home, size), tests_of(task, home, size)
                    sent = sent_of(task, levels, photos, size)
                    request = request_of(task, levels, sent, size)
                    for seed in range(size.seeds):
                        images = synthetic_of(pipeline, request, sent, 100 * home + seed)
                        scores.append(trained_score(task, images, tests, seed, size)[1])
                words = f"{mask}, merged weights" if merged else mask
                table.row(f"{task.name}, {name_of(levels)}", words, averaged(scores))


def generic(size: Size, sheets: Path | None) -> None:
    """Table 7 with the studio's own large models, and models of labelled photos (oracles)."""
    table = Table(
        f"no server at all: {size.homes} homes",
        ("task", "zero-shot", "oracle, 400 photos", "oracle, 40 photos"),
    )
    for name in ("pet", "activity", "bottle"):
        task = TASKS[name]
        scores = []
        for home in range(size.homes):
            tests = tests_of(task, home, size)
            oracles = [oracle(task, home, count, tests, size) for count in (400, 40)]
            scores.append((zero_shot(task, tests), *oracles))
        table.row(task.name, *(averaged(one) for one in zip(*scores, strict=True)))


def zero_shot(task: Task, tests: Photos) -> float:
    """CLIP's nearest class; of a detector the boxes of the segmenter's pieces."""
    if task.kind == "classifier":
        texts = [f"a {task.nouns[0]} {name}" for name in task.classes]
        cosines = Models.encoder().encode(tests.images) @ Models.encoder().encode_text(texts).T
        return float((cosines.argmax(axis=1) == tests.labels).mean())
    pixels = object_pixels(tests.images, task.nouns[0], Models.segmenter())
    segmenter = Models.segmenter()
    assert isinstance(segmenter, ScoringSegmenter)
    scores = segmenter.score(tests.images, ["bottle"])[:, 0]
    found = []
    for mask, score in zip(pixels, scores, strict=True):
        pieces = instances(mask)
        masks = pieces.masks if pieces.masks is not None else np.zeros((0, SIDE, SIDE), bool)
        sure = np.array([score[piece].mean() for piece in masks], np.float32)
        found.append(Found(pieces.boxes, pieces.labels, sure))
    return average_precision(found, tests.truth, task.classes[:1])


def oracle(task: Task, home: int, count: int, tests: Photos, size: Size) -> float:
    """A model of labelled photos of the same home, which the paper's owner has not."""
    owner = Home(home, task=task.name)
    photos = Photos([owner.draw(5000 + day) for day in range(count)])
    if task.kind == "classifier":
        images = LabelledSet.of_classes(photos.images, photos.labels)
    else:
        images = LabelledSet.of_boxes(photos.images, photos.truth)
    return trained_score(task, images, tests, 0, size)[1]


def prompts(size: Size, sheets: Path | None) -> None:
    """Table 4d: SIM of the request's words and the photos."""
    table = Table("SIM of prompts", ("task", "part", "empty prompt", "prompt"))
    encoder = Models.encoder()
    for name in ("pet", "activity", "bottle"):
        task = TASKS[name]
        drawn = [one for home in range(size.homes) for one in references_of(task, home, size).drawn]
        photos = Photos(drawn)
        for part, inside, text in (("target", True, task.nouns[0]), ("background", False, "room")):
            mask = photos.masks(0) == inside
            shown = np.where(mask[..., None], photos.images, np.uint8(127))
            result = prompt_similarity(
                encoder.encode(shown), encoder.encode_text([f"a {text}"]), encoder.encode_text([""])
            )
            table.row(task.name, part, f"{result.empty.value:.3f}", f"{result.prompts.value:.3f}")


def _preferences(name: str) -> Callable[[Size, Path | None], None]:
    return lambda size, sheets: preferences(name, size, sheets)


PART_FUNCTIONS: Mapping[str, Callable[[Size, Path | None], Any]] = {
    **{name: _preferences(name) for name in ("pet", "activity", "bottle", "two-objects")},
    "noise": noise,
    "masks": masks,
    "generic": generic,
    "prompts": prompts,
}
