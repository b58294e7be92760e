"""`understudy studio train`: a studio from the playhouse, or from anybody's public images."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from understudy.backends.embedded.shipped import STUDIO_WEIGHTS
from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError, packages_for
from understudy.core.files import lock_of
from understudy.core.ports import PoseEstimator, Segmenter
from understudy.core.types import Images
from understudy.data.captions import captioned_files, read_captions
from understudy.data.encoded_images import Options, RecordSource
from understudy.report.images import contact_sheet
from understudy.run.progress import Bars, ProgressMode, reporting
from understudy.steps.hints import edges

if TYPE_CHECKING:
    from understudy.backends.training_loop import LossReport, Machine
    from understudy.core.ports import Events, Step
    from understudy.studio.corpus import Corpus, CorpusRow
    from understudy.studio.photographs import PhotoPlan
    from understudy.studio.plan import StudioPlan
    from understudy.studio.pose_distillation import PoseStage
    from understudy.studio.segmenter_distillation import PhotoSegmenterStage

_Plan = TypeVar("_Plan", "StudioPlan", "PhotoPlan")


@dataclass(frozen=True, slots=True)
class Order:
    """What `understudy studio train` was asked for.

    Attributes:
        out: Folder of the studio.
        world: ``"playhouse"``, the default where there are no ``data``, or ``"photographs"``: an
            autoencoder alone, of public images of many kinds.
        data: Folder of public images; None for the playhouse.
        captions: CSV of their captions, with the columns ``path`` and ``caption``.
        images: Public sources that ``"photographs"`` learns from, besides what the package draws.
        start: A studio to learn on from: ``"embedded:studio"`` or a folder. Its networks are
            copied, and the stages that are asked for begin with its weights.
        stages: Which stages; every one that the data allow by default.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        count: Pictures in the corpus; by default what the plan says, or all of ``data``.
        scale: Steps of every stage, against the plan's.
        compile: Whether to compile the networks.
        bfloat16: Whether products run in bfloat16; None: on a GPU.
    """

    out: Path
    world: str | None = None
    data: Path | None = None
    captions: Path | None = None
    images: Sequence[str] = ()
    start: str | None = None
    stages: Sequence[str] | None = None
    device: str = "auto"
    count: int | None = None
    scale: float = 1.0
    compile: bool = False
    bfloat16: bool | None = None

    def __post_init__(self) -> None:
        if self.world is not None and self.data is not None:
            raise ConfigError(
                "--world draws the pictures and --data reads them: give one of the two"
            )
        if (self.data is None) != (self.captions is None):
            raise ConfigError(
                "--data and --captions go together: a folder, and a CSV of its captions"
            )
        if self.start is not None and not self.stages:
            raise ConfigError("--start needs --stage: the stages that learn on, such as unet")
        if self.start is not None and self.world == "photographs":
            raise ConfigError("--start is for a studio, and --world photographs begins anew")
        if bool(self.images) != (self.world == "photographs"):
            raise ConfigError(
                "--world photographs and --images go together: public images of many kinds, such "
                "as folders of them; --images may be repeated"
            )

    @property
    def origin(self) -> str:
        """What the pictures are drawn or read from, in words."""
        if self.data is not None and self.captions is not None:
            return f"{self.data.resolve()} with {self.captions.resolve()}"
        return ", ".join(self.images) or "the playhouse"


def train_studio(
    order: Order, *, plan: StudioPlan, machine: Machine, report: LossReport, bars: Bars
) -> tuple[str, ...]:
    """Make a studio, or go on with one that was begun.

    Returns:
        The stages that are done now.
    """
    with packages_for("a studio", "models"):
        from understudy.studio.stages import CONTINUED, StudioTrainer
    from understudy.playhouse.picture import SEGMENT_CLASSES

    start = None if order.start is None else _copied(order, CONTINUED)
    classes = SEGMENT_CLASSES if order.data is None else ()
    rows = partial(_studio_rows, order, plan)
    corpus = _corpus(order.out, plan, bars, rows, order.origin, classes)
    trainer = StudioTrainer(
        corpus,
        plan,
        machine,
        order.out,
        report=report,
        show=_sheets(order.out),
        start=start,
    )
    stages = _stages(order, trainer.possible())
    trainer.train(stages)
    return stages


def make_studio(order: Order, *, progress: ProgressMode | Events = "auto") -> tuple[str, ...]:
    """`understudy studio train`: `train_studio` with the default plan, as the order changes it."""
    with packages_for("a studio", "models"):
        from understudy.backends.hub.hub_models import HubOptions
        from understudy.backends.training_loop import Machine
        from understudy.studio.photographs import PhotoPlan
        from understudy.studio.plan import StudioPlan

        device, _ = HubOptions(device=order.device).placement()
    precision = "auto"
    if order.bfloat16 is not None:
        precision = "bfloat16" if order.bfloat16 else "float32"
    machine = Machine(device, precision, order.compile)
    count = order.count
    if order.captions is not None and count is None:
        count = len(read_captions(order.captions))
    with reporting(progress) as events, _at_work(order.out):
        report = _reporting(events)
        if order.world == "photographs":
            photographs = _counted_plan(PhotoPlan().scaled(order.scale), count)
            return train_photo_autoencoder(
                order, plan=photographs, machine=machine, report=report, bars=events.step
            )
        plan = _counted_plan(StudioPlan().scaled(order.scale), count)
        return train_studio(order, plan=plan, machine=machine, report=report, bars=events.step)


def train_photo_autoencoder(
    order: Order, *, plan: PhotoPlan, machine: Machine, report: LossReport, bars: Bars
) -> tuple[str, ...]:
    """Make the autoencoder of photographs, or go on with one that was begun.

    Returns:
        The stages that are done now.
    """
    from understudy.studio.photographs import PHOTO_STAGES, photograph_rows, train_photographs

    stages = _stages(order, PHOTO_STAGES)
    rows = partial(photograph_rows, order.images, plan)
    corpus = _corpus(order.out, plan, bars, rows, order.origin)
    train_photographs(
        corpus, plan, machine, order.out, stages, report=report, show=_sheets(order.out)
    )
    return stages


def distil_segmenter(
    images: Sequence[str],
    teacher: str,
    out: Path,
    *,
    count: int = 9_000,
    steps: int = 5_000,
    device: str = "auto",
    progress: ProgressMode | Events = "auto",
) -> Path:
    """`understudy studio segmenter`: a small segmenter of photos; begun work goes on.

    Args:
        images: Public sources; their licences must allow weights to be made from them.
        teacher: Name of a larger segmenter, whose classes it gets.
        out: Folder that gets the training set and the checkpoints, in ``work``.
        count: Photos to learn from, as many of each source.
        steps: Of the optimiser, 32 photos each.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        progress: Where events go, as for `understudy.synthesize`.

    Returns:
        The folder of the segmenter, in the hub's format.
    """
    with packages_for("a segmenter", "models"):
        from understudy.studio import segmenter_distillation as distillation
        from understudy.studio.photographs import PhotoPlan

    labeller = load_model(Segmenter, teacher)
    plan = PhotoPlan(count=count, held_out=0)
    with reporting(progress) as events, _at_work(out):
        rows = partial(distillation.labelled_rows, images, count, labeller)
        origin = f"{', '.join(images)} by {teacher}"
        corpus = _corpus(out, plan, events.step, rows, origin, labeller.classes)
        stage = partial(distillation.PhotoSegmenterStage, corpus)
        return _distilled(out, corpus.classes, stage, steps, device, events)


def distil_pose(
    images: Sequence[str],
    segmenter: str,
    teacher: str,
    out: Path,
    *,
    count: int = 9_000,
    steps: int = 5_000,
    device: str = "auto",
    progress: ProgressMode | Events = "auto",
) -> Path:
    """`understudy studio pose`: a small pose estimator of persons; begun work goes on.

    Args:
        images: Public sources; their licences must allow weights to be made from them.
        segmenter: Name of what finds persons in them.
        teacher: Name of a larger pose estimator, of COCO's keypoints.
        out: Folder that gets the training set and the checkpoints, in ``work``.
        count: Photos in which persons are looked for, as many of each source.
        steps: Of the optimiser, 32 persons each.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        progress: Where events go, as for `understudy.synthesize`.

    Returns:
        The folder of the pose estimator, in the hub's format.
    """
    with packages_for("a pose estimator", "models"):
        from understudy.studio import pose_distillation as distillation

    file = out / "work" / "persons.npz"
    with reporting(progress) as events, _at_work(out):
        if not file.is_file():
            finder, estimator = load_model(Segmenter, segmenter), load_model(PoseEstimator, teacher)
            distillation.Persons.of(images, count, finder, estimator).save(file)
        stage = partial(distillation.PoseStage, distillation.Persons.read(file))
        return _distilled(out, distillation.PERSON, stage, steps, device, events)


@contextmanager
def _at_work(out: Path) -> Iterator[None]:
    """Hold the folder of a training, which has one checkpoint; a second one is refused."""
    out.mkdir(parents=True, exist_ok=True)
    busy = f"{out}: another training is at work in it: wait for its end, or choose another --out"
    with lock_of(out, busy):
        yield


def _distilled(
    out: Path,
    answers: Sequence[str],
    make_stage: Callable[[Any, Any], PhotoSegmenterStage | PoseStage],
    steps: int,
    device: str,
    events: Events,
) -> Path:
    """Train a small dense network with a map for each answer, and write it into its folder."""
    import torch

    from understudy.backends.hub.hub_models import HubOptions
    from understudy.backends.training_loop import Machine
    from understudy.studio.segmenter_distillation import (
        SHOWN_SIDE,
        distillation_schedule,
        new_photo_network,
    )
    from understudy.studio.stages import save_network, save_preparation, train_stage

    machine = Machine(HubOptions(device=device).placement()[0])
    torch.manual_seed(machine.seed)
    stage = make_stage(new_photo_network(answers), machine.device)
    work, show = out / "work" / stage.name, partial(_sheets(out), stage.name)
    train_stage(stage, distillation_schedule(steps), machine, work, _reporting(events), show)
    folder = out / stage.name
    save_preparation(folder, "SegformerImageProcessor", SHOWN_SIDE)
    save_network(stage.network, folder)
    return folder


def _reporting(events: Events) -> LossReport:
    """A step for each stage, and its losses now and then."""
    bars: dict[str, tuple[Step, int]] = {}
    last_line = 0.0

    def report(stage: str, step: int, steps: int, losses: Mapping[str, float]) -> None:
        nonlocal last_line
        bar, before = bars.get(stage) or (events.step(stage, steps), 0)
        bar(step - before)
        bars[stage] = (bar, step)
        if step == steps or time.monotonic() - last_line > 60:
            last_line = time.monotonic()
            parts = ", ".join(f"{name} {value:.4f}" for name, value in losses.items())
            events.notice(f"{stage} {step:,} of {steps:,}: {parts}")

    return report


def _corpus(
    out: Path,
    plan: StudioPlan | PhotoPlan,
    bars: Bars,
    rows: Callable[[], Iterator[CorpusRow]],
    origin: str,
    classes: Sequence[str] = (),
) -> Corpus:
    """The corpus of a studio's folder, drawn or read where it is not there yet."""
    from understudy.studio.corpus import read_corpus, write_corpus

    folder = out / "work" / "corpus"
    corpus = read_corpus(folder)
    if corpus is None:
        done = bars("public images", plan.count)

        def counted() -> Iterator[CorpusRow]:
            for row in rows():
                done(1)
                yield row

        about: dict[str, Any] = {"classes": classes, "held_out": plan.held_out, "origin": origin}
        write_corpus(folder, counted(), plan.count, **about)
        corpus = read_corpus(folder)
    if corpus is not None and corpus.origin not in ("", origin):
        raise ConfigError(
            f"{out} learns from {corpus.origin}, and {origin} is asked for now: nothing of it "
            "would be learned. Choose another --out, or go on with what it was begun with"
        )
    if corpus is None or len(corpus.images) != plan.count:
        raise ConfigError(
            f"{folder} holds {0 if corpus is None else len(corpus.images)} images and the plan "
            f"says {plan.count}: choose another folder, or the plan it was begun with"
        )
    return replace(corpus, held_out=plan.held_out)


def _copied(order: Order, continued: Sequence[str]) -> Path:
    """The studio to learn on from, once what is not to be trained has been copied from it."""
    start = STUDIO_WEIGHTS if order.start == "embedded:studio" else Path(str(order.start))
    stages = order.stages or ()
    if wrong := [stage for stage in stages if stage not in continued]:
        raise ConfigError(
            f"{', '.join(wrong)} cannot learn on from --start; only {', '.join(continued)} can"
        )
    if not (start / "unet" / "config.json").is_file():
        raise ConfigError(f"{start} holds no studio to learn on from: it has no folder unet")
    for folder in start.iterdir():
        target = order.out / folder.name
        if folder.is_dir() and folder.name not in (*stages, "work") and not target.exists():
            shutil.copytree(folder, target)
    return start


def _stages(order: Order, possible: tuple[str, ...]) -> tuple[str, ...]:
    """The stages that were asked for; every possible one by default."""
    names = possible if order.stages is None else tuple(order.stages)
    if wrong := [stage for stage in names if stage not in possible]:
        raise ConfigError(
            f"cannot train {', '.join(wrong)} from these data; possible: {', '.join(possible)}"
        )
    return names


def _studio_rows(order: Order, plan: StudioPlan) -> Iterator[CorpusRow]:
    if order.data is None or order.captions is None:
        from understudy.studio.playhouse_corpus import playhouse_rows

        return playhouse_rows(plan.side, plan.count)
    return captioned_rows(order.data, order.captions, plan.side)


def _sheets(out: Path) -> Callable[[str, Images, int], None]:
    """Writes what a stage shows into ``work/sheets`` of a studio's folder."""

    def show(stage: str, sheet: Images, step: int) -> None:
        folder = out / "work" / "sheets"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{stage}-{step:06d}.png").write_bytes(contact_sheet(sheet, columns=8))

    return show


def _counted_plan(plan: _Plan, count: int | None) -> _Plan:
    """A plan of so many images, if that was said."""
    if count is None:
        return plan
    return replace(plan, count=count, held_out=min(plan.held_out, count // 10))


def captioned_rows(data: Path, captions: Path, side: int) -> Iterator[CorpusRow]:
    """Public images of a folder with their captions.

    ``captions`` is a CSV with the columns ``path`` (within the folder) and ``caption``.
    """
    from understudy.studio.corpus import CorpusRow

    lines = read_captions(captions)
    source = RecordSource(
        lambda: captioned_files(data, lines, captions.name), Options(str(data), size=(side, side))
    )
    texts = (text for _, text in lines)
    for batch in source.batches(64):
        images = batch.values if batch.values.shape[-1] == 3 else batch.values.repeat(3, -1)
        for image, lines_of in zip(images, edges(images), strict=True):
            yield CorpusRow(image, [next(texts)], edges=lines_of)
