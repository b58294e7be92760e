from __future__ import annotations

import contextlib
import csv
import json
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("aggdraw")
pytest.importorskip("diffusers")
pytest.importorskip("skimage")

from safetensors.torch import load_file  # noqa: E402
from tests.studio.tiny_studio import PLAN, longer, train_tiny_studio  # noqa: E402

from understudy.backends.registry import load_decoder, load_encoder, load_model  # noqa: E402
from understudy.backends.training_loop import (  # noqa: E402
    Machine,
    Schedule,
)
from understudy.core.errors import (  # noqa: E402
    BackendError,
    ConfigError,
    SourceError,
    UnsupportedTask,
)
from understudy.core.ports import Generator, Segmenter  # noqa: E402
from understudy.studio.clip_training import learn_tokenizer  # noqa: E402
from understudy.studio.corpus import (  # noqa: E402
    CorpusRow,
    read_corpus,
    write_corpus,
)
from understudy.studio.diffusion import drawn_holes, mostly_where  # noqa: E402
from understudy.studio.plan import STAGES, StudioPlan  # noqa: E402
from understudy.studio.stages import paced, train_stage  # noqa: E402
from understudy.studio.train import (  # noqa: E402
    Order,
    export_studio,
    make_studio,
)

SHAPE = (32, 32, 3)
PROMPTS = ["a brown dog sleeping", "a person reading"]


@pytest.fixture
def studio(tiny_studio: Path) -> Path:
    return tiny_studio


def named(studio: Path, options: str = "") -> str:
    return f"embedded:studio?folder={studio}&steps=2{options}"


def rows(count: int, *, edges: bool = True) -> Iterator[CorpusRow]:
    rng = np.random.default_rng(0)
    for at in range(count):
        yield CorpusRow(
            image=rng.integers(0, 256, (8, 8, 3), dtype=np.uint8),
            captions=[f"number {at}", f"picture {at}"],
            edges=np.zeros((8, 8), dtype=np.uint8) if edges else None,
            attributes={"kind": str(at % 2)},
        )


def test_a_corpus_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_corpus(tmp_path, rows(5), 5, classes=("wall", "dog"), held_out=2)
    found = read_corpus(tmp_path)
    assert found is not None
    assert len(found) == 3
    assert found.classes == ("wall", "dog")
    assert found.captions[4] == ("number 4", "picture 4")
    assert [one["kind"] for one in found.attributes] == ["0", "1", "0", "1", "0"]
    assert all((found.images[at] == row.image).all() for at, row in enumerate(rows(5)))
    assert found.segments is None
    assert found.last(2).tolist() == [3, 4]


def test_a_corpus_that_was_not_finished_is_not_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="has 3 images, 4 were asked for"):
        write_corpus(tmp_path, rows(3), 4)
    assert read_corpus(tmp_path) is None


def test_a_row_that_lacks_what_the_first_has_is_named(tmp_path: Path) -> None:
    mixed = iter([*rows(1), *rows(1, edges=False)])
    with pytest.raises(ConfigError, match="image 1 of the training set has images"):
        write_corpus(tmp_path, mixed, 2)


def test_a_corpus_knows_where_its_targets_are(tmp_path: Path) -> None:
    segments = np.array([[0, 1, 2], [3, 1, 0]], dtype=np.uint8)
    row = CorpusRow(np.zeros((2, 3, 3), np.uint8), ["a dog and a frame"], segments=segments)
    write_corpus(tmp_path / "known", iter([row] * 2), 2, classes=("wall", "dog", "sofa", "frame"))
    known = read_corpus(tmp_path / "known")
    assert known is not None
    assert known.targets(np.array([1]))[0].tolist() == [[False, True, False], [True, True, False]]
    write_corpus(tmp_path / "unknown", rows(3), 3)
    unknown = read_corpus(tmp_path / "unknown")
    assert unknown is not None
    assert unknown.targets(np.array([0, 2])).shape == (2, 8, 8)
    assert not unknown.targets(np.arange(3)).any()


def test_what_is_looked_at_counts_more() -> None:
    """One place of four is the target: three times as heavy, it is half of the weight."""
    target = torch.zeros(1, 1, 4, 4)
    target[..., 3, 3] = 1  # one pixel is enough for its place
    velocity = torch.zeros(1, 5, 2, 2)
    at_target, elsewhere = velocity.clone(), velocity.clone()
    at_target[..., 1, 1] = 2.0
    elsewhere[..., 0, 0] = 2.0
    assert float(mostly_where(target, at_target, velocity, times=3)) == pytest.approx(4 * 3 / 6)
    assert float(mostly_where(target, elsewhere, velocity, times=3)) == pytest.approx(4 / 6)
    everywhere = mostly_where(torch.zeros_like(target), at_target, velocity, times=3)
    assert float(everywhere) == pytest.approx(float(at_target.square().mean()))


def test_a_hole_is_the_target_its_surroundings_or_a_box_and_never_nothing() -> None:
    targets = np.zeros((400, 32, 32), dtype=bool)
    targets[:200, 10:20, 5:9] = True
    draw = np.random.default_rng(0).random((400, 6)).astype(np.float32)
    drawn, around = drawn_holes(targets, draw)
    holes = drawn[:, 0]
    assert holes.any(axis=(1, 2)).all()
    known = (holes[:200] == targets[:200]).all(axis=(1, 2)).mean()
    assert 0.2 < known < 0.4
    outside = (holes[:200] == ~targets[:200]).all(axis=(1, 2))
    assert (around[:200] == outside).all()
    assert not around[200:].any()
    whole = (holes[200:] == 1).all(axis=(1, 2)).mean()
    assert whole < 0.15  # an empty room is filled in box by box


def test_a_studio_learns_on_from_another(studio: Path, tmp_path: Path) -> None:
    out = tmp_path / "on"
    plan = StudioPlan(**{**vars_of(longer(1)), "schedules": nearly_still()})
    stages = train_tiny_studio(out, plan, start=str(studio), stages=["unet", "inpainting"])
    assert stages == ("unet", "inpainting")
    file = "diffusion_pytorch_model.safetensors"
    for name in ("vae", "unet", "inpainting", "controlnet-pose"):
        before, after = load_file(studio / name / file), load_file(out / name / file)
        apart = max(float((before[key].float() - after[key].float()).abs().max()) for key in before)
        assert apart < 2e-3
        assert (apart == 0) == (name in ("vae", "controlnet-pose"))


def nearly_still() -> dict[str, Schedule]:
    """A step that hardly moves anything."""
    return {name: Schedule(steps=1, batch=4, rate=2e-4, warmup=1) for name in STAGES}


@pytest.mark.parametrize(
    ("stages", "start", "words"),
    [
        (None, "embedded:studio", "--start needs --stage"),
        (["clip"], "embedded:studio", "clip cannot learn on"),
        (["unet"], "nowhere", "holds no studio"),
    ],
)
def test_wrong_ways_to_learn_on(
    tmp_path: Path, stages: list[str] | None, start: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        train_tiny_studio(tmp_path / "on", start=start, stages=stages)


def test_the_tokenizer_writes_any_text_and_frequent_words_as_one_token() -> None:
    tokenizer = learn_tokenizer(["a brown dog", "a brown sofa"] * 50, size=700, length=16)
    known = tokenizer("a brown dog")["input_ids"]
    assert len(known) == 5  # with its two ends
    for text in ("a brown dog", "žluťoučký 犬 &"):
        tokens = tokenizer(text)["input_ids"]
        assert tokenizer.decode(tokens, skip_special_tokens=True).split() == text.split()
    assert len(tokenizer) <= 700 + 256


class Stopped(Exception):
    pass


class Line:
    """Learns y = 2 x, and is stopped after ``limit`` steps of this process."""

    name, rows = "line", 10

    def __init__(self, limit: int = 1000) -> None:
        torch.manual_seed(0)
        self.network = torch.nn.Linear(1, 1)
        self.seen: list[int] = []
        self.limit = limit

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        if self.limit == 0:
            raise Stopped
        self.limit -= 1
        self.seen += rows.tolist()
        x = rows[:, None].float() + torch.rand((len(rows), 1), generator=random)
        return {"squares": (self.network(x) - 2 * x).square().mean()}

    def sheet(self) -> None:
        return None


def trained(folder: Path, *limits: int) -> Line:
    """A line trained for 30 steps, begun anew after each of so many."""
    for limit in (*limits, 1000):
        stage = Line(limit)
        with contextlib.suppress(Stopped):
            train_stage(
                stage,
                Schedule(30, 3, 0.01, warmup=2),
                Machine(precision="float32", save_every=-1.0),
                folder,
                lambda name, step, steps, losses: None,
            )
    return stage


def test_a_training_that_was_stopped_ends_like_one_that_was_not(tmp_path: Path) -> None:
    whole, parts = trained(tmp_path / "whole"), trained(tmp_path / "parts", 7, 12)
    assert torch.equal(whole.network.weight, parts.network.weight)
    assert torch.equal(whole.network.bias, parts.network.bias)
    assert parts.seen == whole.seen[19 * 3 :]


def test_a_stage_by_the_clock_has_as_many_steps_as_fit_and_keeps_them(tmp_path: Path) -> None:
    schedule, machine = Schedule(30, 3, 0.01, warmup=300), Machine(precision="float32")
    stage, file = Line(1000), tmp_path / "line" / "steps.json"
    weight = stage.network.weight.detach().clone()
    within = paced(stage, schedule, machine, file, time.monotonic() + 60)
    assert torch.equal(stage.network.weight, weight), "passes that are timed teach nothing"
    assert within.steps > 60
    assert within.warmup <= within.steps / 5
    assert paced(stage, schedule, machine, file, time.monotonic()) == within, "as it was begun"
    assert paced(stage, schedule, machine, tmp_path / "late.json", time.monotonic()).steps == 1


@pytest.mark.slow
def test_a_studio_is_trained_in_so_many_minutes(tmp_path: Path) -> None:
    train_tiny_studio(tmp_path, stages=("vae",), minutes=0.02)
    steps = int((tmp_path / "work" / "vae" / "steps.json").read_text())
    last = (tmp_path / "work" / "vae" / "losses.jsonl").read_text().splitlines()[-1]
    assert json.loads(last)["step"] == steps


def test_every_row_comes_once_before_any_comes_again(tmp_path: Path) -> None:
    seen = trained(tmp_path).seen
    assert [sorted(seen[at : at + 10]) for at in (0, 10, 20)] == [list(range(10))] * 3


def test_the_rate_rises_then_falls() -> None:
    schedule = Schedule(steps=100, batch=1, rate=1.0, warmup=10)
    optimizer = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=schedule.rate)
    scheduler, rates = schedule.scheduler(optimizer), []
    for _ in range(101):
        rates += scheduler.get_last_lr()
        optimizer.step()
        scheduler.step()
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[9] == rates[10] == pytest.approx(1.0)
    assert rates[100] == pytest.approx(0.02)
    assert all(one >= two for one, two in pairwise(rates[10:]))


def test_a_studio_is_made_in_the_hubs_formats(studio: Path) -> None:
    networks = set(STAGES) - {"decoder"}  # which is a part of vae
    for network in networks:
        assert json.loads((studio / network / "config.json").read_text())
        assert list((studio / network).glob("*.safetensors"))
    assert not list(studio.rglob("*.bin"))
    assert {path.name for path in studio.glob("*") if path.is_dir()} == {
        *networks,
        *("image_normalizer", "image_noising", "scheduler", "work"),
    }


def test_a_second_training_passes_over_what_is_done(studio: Path) -> None:
    before = (studio / "unet" / "config.json").stat().st_mtime_ns
    assert train_tiny_studio(studio) == STAGES
    assert (studio / "unet" / "config.json").stat().st_mtime_ns == before


def test_a_studio_of_another_world_is_not_told_what_a_captioner_reads(studio: Path) -> None:
    images = np.random.default_rng(0).integers(0, 256, (2, *SHAPE), dtype=np.uint8)
    encoder = load_encoder(f"embedded:studio?folder={studio}", shape=SHAPE)
    decoder = load_decoder(named(studio), shape=SHAPE, encoder=encoder)
    embeddings, seeds = encoder.encode(images), np.arange(2)
    prompted = decoder.decode_prompted(embeddings, ["", ""], seeds=seeds)
    np.testing.assert_array_equal(decoder.decode(embeddings, seeds=seeds), prompted)


def test_an_exported_studio_draws_the_same_as_a_model_of_the_hub(
    studio: Path, tmp_path: Path
) -> None:
    export_studio(tmp_path / "pipeline", studio)
    ours = load_model(Generator, named(studio)).generate(PROMPTS, seed=3)
    told = f"hf:{tmp_path / 'pipeline'}?steps=2&guidance=3&batch=32"
    theirs = load_model(Generator, told).generate(PROMPTS, seed=3)
    assert np.abs(ours.astype(int) - theirs.astype(int)).max() <= 2


def test_a_studio_without_control_says_what_it_can_do(studio: Path, tmp_path: Path) -> None:
    (tmp_path / "less").mkdir()
    for part in studio.iterdir():
        if not part.name.startswith(("controlnet", "work", "segmenter")):
            (tmp_path / "less" / part.name).symlink_to(part)
    generator = load_model(Generator, named(tmp_path / "less"))
    with pytest.raises(UnsupportedTask, match="control:pose"):
        generator.control("pose", np.zeros((1, *SHAPE), dtype=np.uint8), ["a dog"])
    with pytest.raises(BackendError, match="has no segmenter"):
        load_model(Segmenter, f"embedded:studio?folder={tmp_path / 'less'}")


def test_no_studio_in_a_folder_is_an_error_that_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(BackendError, match="understudy studio train"):
        load_model(Generator, f"embedded:studio?folder={tmp_path}")


def captioned(folder: Path, count: int = 12) -> Path:
    rng = np.random.default_rng(0)
    folder.mkdir()
    with (folder / "captions.csv").open("w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["path", "caption"])
        for at in range(count):
            pixels = rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / f"{at}.png")
            lines.writerow([f"{at}.png", f"a slide, number {at % 3}"])
    return folder / "captions.csv"


@pytest.mark.slow
def test_a_studio_of_ones_own_pictures_has_what_they_allow(tmp_path: Path) -> None:
    captions = captioned(tmp_path / "slides")
    plan = StudioPlan(**{**vars_of(longer(1)), "count": 12, "held_out": 2})
    stages = train_tiny_studio(
        tmp_path / "studio", plan, data=tmp_path / "slides", captions=captions
    )
    assert stages == ("vae", "clip", "unet", "decoder", "inpainting", "controlnet-edges")
    corpus = read_corpus(tmp_path / "studio" / "work" / "corpus")
    assert corpus is not None
    assert corpus.captions[4] == ("a slide, number 1",)
    with pytest.raises(ConfigError, match="cannot train segmenter"):
        train_tiny_studio(
            tmp_path / "studio",
            plan,
            data=tmp_path / "slides",
            captions=captions,
            stages=["segmenter"],
        )


def vars_of(plan: StudioPlan) -> dict[str, object]:
    return {name: getattr(plan, name) for name in plan.__dataclass_fields__}


@pytest.mark.parametrize(
    ("told", "words"),
    [
        ({"world": "playhouse", "data": "slides"}, "one of the two"),
        ({"data": "slides"}, "go together"),
        ({"minutes": 5.0, "scale": 2.0}, "both say how long"),
        ({"world": "photographs", "images": ["slides"], "batch": 2}, "photographs has neither"),
        ({"device": "cuda:77"}, "cannot be used here"),
    ],
)
def test_wrong_ways_to_ask_for_a_studio(tmp_path: Path, told: dict[str, str], words: str) -> None:
    arguments = {key: Path(value) if key == "data" else value for key, value in told.items()}
    with pytest.raises((ConfigError, BackendError), match=words):
        make_studio(Order(tmp_path / "studio", **arguments))  # type: ignore[arg-type]
    assert not (tmp_path / "studio" / "work" / "corpus").exists()


def test_a_caption_without_its_picture_is_named(tmp_path: Path) -> None:
    captions = captioned(tmp_path / "slides", 3)
    (tmp_path / "slides" / "1.png").unlink()
    with pytest.raises(SourceError, match=r"1\.png"):
        make_studio(
            Order(tmp_path / "studio", data=tmp_path / "slides", captions=captions, scale=0.001)
        )


def test_the_plan_refuses_what_makes_no_sense() -> None:
    with pytest.raises(ValueError, match="multiple of 16"):
        StudioPlan(side=50)
    with pytest.raises(ValueError, match="held_out"):
        StudioPlan(count=10, held_out=10)
    assert {one.steps for one in PLAN.scaled(0.1).schedules.values()} == {1}
    assert {one.batch for one in PLAN.batched(3).schedules.values()} == {24}
