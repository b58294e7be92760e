"""The decoder stage: a decoder that learns to draw details, an encoder that stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("diffusers")

import torch
from safetensors.torch import load_file
from tests.studio.tiny_studio import PLAN, train_tiny_studio

from understudy.backends.training_loop import Machine
from understudy.studio.corpus import read_corpus
from understudy.studio.sharpening import DecoderStage
from understudy.studio.stages import StudioTrainer

BEFORE = ["vae", "clip", "unet"]
WEIGHTS = Path("vae") / "diffusion_pytorch_model.safetensors"


@pytest.fixture(scope="module")
def studio(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("studio")
    train_tiny_studio(folder, stages=BEFORE)
    return folder


@pytest.fixture(scope="module")
def stage(studio: Path) -> DecoderStage:
    corpus = read_corpus(studio / "work" / "corpus")
    assert corpus is not None
    trainer = StudioTrainer(
        corpus, PLAN, Machine(), studio, report=lambda *_: None, show=lambda *_: None
    )
    return trainer.decoder()


def learnt(stage: DecoderStage, part: str) -> tuple[bool, bool]:
    """Whether one part of the loss moves the decoder, and the discriminator."""
    stage.network.zero_grad(set_to_none=True)
    stage.loss(torch.arange(8), torch.Generator().manual_seed(0))[part].backward()
    sides = (stage.decoder, stage.discriminator)
    return tuple(any(p.grad is not None for p in side.parameters()) for side in sides)


def test_the_decoder_alone_learns_to_draw_and_the_discriminator_to_tell(
    stage: DecoderStage,
) -> None:
    for part in ("pixels", "squares", "features", "adversarial"):
        assert learnt(stage, part) == (True, False), part
    assert learnt(stage, "discriminator") == (False, True)


def test_the_encoder_stays_as_it_is(studio: Path) -> None:
    before = load_file(studio / WEIGHTS)
    train_tiny_studio(studio, stages=["decoder"])
    after = load_file(studio / WEIGHTS)
    encoder = {key for key in before if key.startswith("encoder.")}
    assert encoder
    assert all(torch.equal(before[key], after[key]) for key in encoder)
    assert "_name_or_path" not in (studio / "vae" / "config.json").read_text()
    written = (studio / WEIGHTS).stat().st_mtime_ns
    train_tiny_studio(studio, stages=["decoder"])
    assert (studio / WEIGHTS).stat().st_mtime_ns == written
