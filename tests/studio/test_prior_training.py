"""The stage `prior`: what it learns from, that it learns, and that it goes on where it stopped."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("diffusers")
pytest.importorskip("aggdraw")

from safetensors.torch import load_file  # noqa: E402
from tests.studio.test_photographs import PLAN, WEIGHTS, soft_images, trained, written  # noqa: E402

from understudy.backends.registry import load_decoder, load_encoder  # noqa: E402
from understudy.backends.training_loop import Machine, Schedule  # noqa: E402
from understudy.core.prior_decoder import COVARIANCE, PriorDecoder  # noqa: E402
from understudy.steps.grid import PriorSpace  # noqa: E402
from understudy.studio.autoencoder import to_network  # noqa: E402
from understudy.studio.block_code import (  # noqa: E402
    begin_as_linear_code,
    new_block_code,
    pixel_blocks,
)
from understudy.studio.corpus import Corpus  # noqa: E402
from understudy.studio.prior_training import (  # noqa: E402
    PRIOR_SIZES,
    PriorStage,
    disturbed_views,
    importance,
    recoloured,
)
from understudy.studio.stages import train_stage  # noqa: E402

TINY = replace(PLAN, variants=1, prior_widths=(16, 32), prior_embedding=32)
CPU = torch.device("cpu")


def linear_code(images):
    network = new_block_code(6)
    begin_as_linear_code(network, pixel_blocks(images))
    return network


@pytest.mark.parametrize(("size", "scale"), PRIOR_SIZES.items())
def test_an_image_comes_in_three_sizes_turned_and_in_other_colours(size, scale):
    pixels = torch.rand((40, 3, 64, 64), generator=torch.Generator().manual_seed(1)) * 2 - 1
    other = disturbed_views(pixels, size, torch.Generator().manual_seed(2))
    assert other.shape == (40, 3, int(64 * scale), int(64 * scale))
    assert other.abs().max() <= 1
    again = disturbed_views(pixels, size, torch.Generator().manual_seed(2))
    assert torch.equal(other, again)


def test_half_of_the_images_stay_upright():
    ramp = torch.linspace(-0.9, 0.9, 64)[:, None].expand(3, 64, 64).repeat(200, 1, 1, 1)
    other = disturbed_views(ramp, "whole", torch.Generator().manual_seed(0)).mean(1)
    light = (other[:, -8:] - other[:, :8]).mean((1, 2))
    aside = (other[:, :, -8:] - other[:, :, :8]).mean((1, 2))
    assert 0.5 < (light.abs() > 1).float().mean() < 0.95
    assert 0.05 < (aside.abs() > 1).float().mean() < 0.5
    assert (light > 1).float().mean() > 0.5


def test_some_images_are_grey_or_in_exchanged_or_opposite_colours():
    pixels = torch.rand((400, 3, 8, 8), generator=torch.Generator().manual_seed(3)) - 0.5
    other = recoloured(pixels, torch.Generator().manual_seed(2))
    same = (other == pixels).flatten(1).all(1)
    grey = (other[:, :1] == other).flatten(1).all(1)
    opposite = (other == -pixels).flatten(1).all(1)
    assert 0.5 < same.float().mean() < 0.75
    assert 0.08 < grey.float().mean() < 0.25
    assert 0.02 < opposite.float().mean() < 0.15


def test_channels_count_by_what_they_change_in_pixels():
    images = soft_images(24)
    network = linear_code(images)
    with torch.no_grad():
        latents = network.encode(to_network(images, CPU)).latent
    counts = importance(network, latents[:6]).flatten()
    assert counts.mean() == pytest.approx(1.0)
    assert counts[0] > 2 * counts[-1]


def test_the_stage_writes_a_prior_beside_its_autoencoder(tmp_path: Path) -> None:
    images = written(tmp_path / "images", soft_images(6))
    out = tmp_path / "out"
    assert trained(out, images, TINY, stages=["vae", "prior"]) == ("vae", "prior")
    name = f"embedded:photo?folder={out / 'vae'}"
    encoder = load_encoder(name, shape=(32, 32, 3))
    decoder = load_decoder(f"{name}&steps=2", shape=(32, 32, 3), encoder=encoder)
    assert isinstance(decoder, PriorDecoder)
    described = decoder.description["usual"].shape[1]
    assert decoder.description[COVARIANCE].shape == (described, described)
    space = PriorSpace.of(decoder, encoder.latent)  # type: ignore[attr-defined]
    points = space.forward(encoder.encode(soft_images(3)))
    latents = space.backward(points.astype(np.float64), np.random.default_rng(0))
    assert decoder.decode(latents, seeds=np.arange(3, dtype=np.uint64)).shape == (3, 32, 32, 3)
    assert any((out / "work" / "sheets").glob("prior-*.png"))


@pytest.mark.slow
def test_a_prior_of_the_autoencoder_to_start_from(tmp_path: Path) -> None:
    images = written(tmp_path / "images", soft_images(6))
    trained(tmp_path / "first", images, TINY, stages=["vae"])
    out, first = tmp_path / "on", tmp_path / "first" / "vae"
    shutil.copytree(tmp_path / "first" / "work" / "corpus", out / "work" / "corpus")
    assert trained(out, images, TINY, stages=["prior"], start=str(first)) == ("prior",)
    assert (out / "vae" / WEIGHTS).read_bytes() == (first / WEIGHTS).read_bytes()
    assert (out / "vae" / "prior" / WEIGHTS).is_file()


@pytest.mark.slow
def test_a_prior_that_was_stopped_ends_like_one_that_was_not(tmp_path: Path) -> None:
    images = written(tmp_path / "images", soft_images(6))
    longer = replace(TINY.schedules["prior"], steps=4, final=1.0)
    whole = replace(TINY, schedules={**TINY.schedules, "prior": longer})
    half = replace(TINY, schedules={**TINY.schedules, "prior": replace(longer, steps=2)})
    trained(tmp_path / "a", images, whole, stages=["vae", "prior"])
    for part in ("vae", "work/corpus"):
        shutil.copytree(tmp_path / "a" / part, tmp_path / "b" / part)
    shutil.rmtree(tmp_path / "b" / "vae" / "prior")
    trained(tmp_path / "b", images, half, stages=["prior"])
    (tmp_path / "b" / "vae" / "prior" / "config.json").unlink()  # as if it had been stopped there
    trained(tmp_path / "b", images, whole, stages=["prior"])
    one, other = (load_file(tmp_path / name / "vae" / "prior" / WEIGHTS) for name in "ab")
    assert all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.slow
def test_it_learns_to_draw_what_is_described() -> None:
    images = soft_images(400)
    corpus = Corpus(images=images, captions=((),) * 400, held_out=40)
    torch.manual_seed(0)
    stage = PriorStage(corpus, linear_code(images), CPU, variants=1, widths=(32, 48), embedding=64)
    samples = stage.samples["whole"]
    wanted = samples.values[:60].float().numpy()

    def missed() -> float:
        """Of the channels' means, against those of another image."""
        seeds = np.arange(60, dtype=np.uint64)
        drawn = stage.prior().draw(wanted, samples.description.shape, seeds)
        off = samples.description.forward(drawn)[:, :6] - wanted[:, :6]
        return float(np.abs(off).mean() / np.abs(np.roll(wanted, 1, axis=0) - wanted)[:, :6].mean())

    before = missed()
    schedule = Schedule(steps=250, batch=32, rate=3e-3, warmup=20, average=0.97)
    train_stage(stage, schedule, Machine(precision="float32"), None, lambda *_: None)  # type: ignore[arg-type]
    assert missed() < 0.7 < before
