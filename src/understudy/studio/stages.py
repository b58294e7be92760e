"""From a corpus to a studio: the stages one after the other, each kept in its own folder."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import diffusers
import numpy as np
import torch
import transformers
from diffusers.models.attention_processor import AttnProcessor
from numpy.typing import NDArray

from understudy.backends.diffusion.networks import without_image_conditioning
from understudy.backends.embedded.studio.studio_models import unclip_normalizer
from understudy.backends.hub.pretrained import quiet
from understudy.backends.training_loop import (
    LossReport,
    Machine,
    Schedule,
    ShuffledIndices,
    train_network,
)
from understudy.core.types import Images
from understudy.studio.autoencoder import AutoencoderStage, encode_latents, new_autoencoder
from understudy.studio.clip_training import ClipStage, embed_images, learn_tokenizer, new_clip
from understudy.studio.corpus import Corpus
from understudy.studio.diffusion import (
    NOISING,
    ControlStage,
    InpaintingStage,
    Studied,
    UNetStage,
    new_unet,
)
from understudy.studio.plan import STAGES, StudioPlan
from understudy.studio.segmenter import SegmenterStage, new_segmenter
from understudy.studio.sharpening import DecoderStage

CONTINUED = ("unet", "inpainting")
"""Stages that can learn on from another studio's weights."""


class StudioStage(Protocol):
    """One network of a studio being trained on ``rows`` samples; ``name`` is that of its folder."""

    name: str
    network: Any
    rows: int

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """The loss on some samples, by part; their sum is minimised."""
        ...

    def sheet(self) -> Images | None:
        """(n, height, width, 3) uint8 images that show the state of ``network``."""
        ...


Work = tuple[StudioStage, Callable[[Path], None]]
"""A stage to train, and how to keep what it learnt."""


class StageTask:
    """A stage as the training loop takes it: samples in random order, draws on its device."""

    def __init__(self, stage: StudioStage, batch: int, machine: Machine) -> None:
        self.name, self.network = stage.name, stage.network
        self._device = machine.device
        self._samples = ShuffledIndices(stage.rows, batch, machine.seed)
        self._loss = torch.compile(stage.loss) if machine.compile else stage.loss

    def losses(self, index: int, seed: int) -> dict[str, torch.Tensor]:
        """The loss of a pass, by part."""
        random = torch.Generator(self._device).manual_seed(seed)
        losses: dict[str, torch.Tensor] = self._loss(self._samples(index), random)
        return losses


def train_stage(
    stage: StudioStage,
    schedule: Schedule,
    machine: Machine,
    folder: Path,
    report: LossReport,
    show: Callable[[Images, int], None],
) -> None:
    """Train a stage to the end of its schedule, from its last checkpoint on if there is one."""

    def on_checkpoint(step: int) -> None:
        sheet = stage.sheet()
        if sheet is not None:
            show(sheet, step)

    stage.network.to(device=machine.device, memory_format=torch.channels_last)
    train_network(
        StageTask(stage, schedule.batch, machine),
        schedule,
        machine,
        report=report,
        folder=folder,
        on_checkpoint=on_checkpoint,
    )


class StudioTrainer:
    """Trains the stages of a studio in a folder, and takes up work that was left.

    Each stage gets a folder of its name in ``folder``, in the hub's format, once it is done; what
    is not done stays in ``work``. With ``start`` the stages of `CONTINUED` begin with the weights
    of another studio.
    """

    def __init__(
        self,
        corpus: Corpus,
        plan: StudioPlan,
        machine: Machine,
        folder: Path,
        *,
        report: LossReport,
        show: Callable[[str, Images, int], None],
        start: Path | None = None,
    ) -> None:
        self.corpus, self.plan, self.machine, self.folder = corpus, plan, machine, folder
        self._report, self._show, self._start = report, show, start
        self._work = folder / "work"

    def possible(self) -> tuple[str, ...]:
        """The stages that this corpus has data for."""
        lacks = {
            "segmenter": self.corpus.segments is None,
            "controlnet-edges": self.corpus.edges is None,
            "controlnet-pose": self.corpus.poses is None,
        }
        return tuple(stage for stage in STAGES if not lacks.get(stage, False))

    def train(self, stages: Sequence[str]) -> None:
        """Train these stages; one that is done already is passed over."""
        for name in stages:
            if not self._done(name).is_file():
                torch.manual_seed(self.machine.seed)
                with quiet():
                    self._train_stage(name)

    def _train_stage(self, name: str) -> None:
        makers: dict[str, Callable[[], Work]] = {
            "vae": self._vae,
            "clip": self._clip,
            "segmenter": self._segmenter,
            "unet": self._unet,
            "decoder": self._decoder,
            "inpainting": self._inpainting,
            "controlnet-edges": lambda: self._control("edges", self.corpus.edges),
            "controlnet-pose": lambda: self._control("pose", self.corpus.poses),
        }
        stage, save = makers[name]()
        train_stage(
            stage,
            self.plan.schedules[name],
            self.machine,
            self._work / name,
            self._report,
            lambda sheet, step: self._show(name, sheet, step),
        )
        save(self._done(name).parent)

    def _done(self, name: str) -> Path:
        """The file that says that a stage is done."""
        folder = self._work / "sharper" if name == "decoder" else self.folder / name
        return folder / "config.json"

    def _vae(self) -> Work:
        network = new_autoencoder(latents=self.plan.latents, width=self.plan.vae_width)
        stage = AutoencoderStage(self.corpus, network, self.machine.device)
        return stage, lambda folder: save_network(network, folder)

    def _clip(self) -> Work:
        plan = self.plan
        texts = (text for texts in self.corpus.captions for text in texts)
        tokenizer = learn_tokenizer(texts, size=plan.tokens, length=plan.length)
        clip = new_clip(
            tokenizer,
            side=plan.side,
            patch=plan.patch,
            widths=(plan.clip_width, plan.text_width),
            layers=plan.clip_layers,
            dim=plan.clip_dim,
        )
        stage = ClipStage(self.corpus, clip, tokenizer, self.machine.device)

        def save(folder: Path) -> None:
            tokenizer.save_pretrained(folder)
            save_preparation(folder, "CLIPImageProcessor", plan.side)
            save_network(clip, folder)

        return stage, save

    def _segmenter(self) -> Work:
        network = new_segmenter(self.corpus.classes)
        stage = SegmenterStage(self.corpus, network, self.machine.device)

        def save(folder: Path) -> None:
            save_preparation(folder, "SegformerImageProcessor", self.plan.side)
            save_network(network, folder)

        return stage, save

    def _unet(self) -> Work:
        plan, studied = self.plan, self._studied()
        network = new_unet(
            side=plan.side // 8,
            latents=plan.latents,
            widths=plan.unet_widths,
            layers=plan.unet_layers,
            text=plan.text_width,
            embedding=plan.clip_dim,
        )
        self._continue("unet", network)
        stage = UNetStage(studied, self._ready(network))

        def save(folder: Path) -> None:
            normalizer = unclip_normalizer()(embedding_dim=plan.clip_dim)
            normalizer.mean.data[0], normalizer.std.data[0] = stage.mean, stage.spread
            normalizer.save_pretrained(self.folder / "image_normalizer")
            diffusers.DPMSolverMultistepScheduler(**NOISING).save_pretrained(
                self.folder / "scheduler"
            )
            stage.blur.save_pretrained(self.folder / "image_noising")
            save_network(network, folder)

        return stage, save

    def _decoder(self) -> Work:
        unet = diffusers.UNet2DConditionModel.from_pretrained(
            self.folder / "unet", torch_dtype=torch.float32
        )
        stage = DecoderStage(UNetStage(self._studied(), unet.to(self.machine.device)))

        def save(folder: Path) -> None:
            """Over the autoencoder it was a part of; once more in ``folder``, which says done."""
            save_network(stage.vae, self.folder / "vae")
            save_network(stage.vae, folder)

        return stage, save

    def _inpainting(self) -> Work:
        stage = InpaintingStage(self._studied(), self._base())
        self._continue("inpainting", stage.network)
        self._ready(stage.network)
        return stage, lambda folder: save_network(stage.network, folder)

    def _control(self, kind: str, hints: NDArray[np.uint8] | None) -> Work:
        if hints is None:
            raise ValueError(f"the corpus has no {kind}")
        stage = ControlStage(self._studied(), self._base(), kind, hints)
        self._ready(stage.network)
        return stage, lambda folder: save_network(stage.network, folder)

    def _base(self) -> Any:
        """The trained network as a plain text-to-image model."""
        unet = diffusers.UNet2DConditionModel.from_pretrained(self.folder / "unet")
        return self._ready(without_image_conditioning(unet).to(self.machine.device))

    def _continue(self, name: str, network: Any) -> None:
        """Give a new network the weights of the studio that this one learns on from."""
        if self._start is not None:
            before = diffusers.UNet2DConditionModel.from_pretrained(
                self._start / name, torch_dtype=torch.float32
            )
            network.load_state_dict(before.state_dict())

    def _ready(self, network: Any) -> Any:
        """On a processor, with attention in plain steps: the fused one learns slowly there."""
        if self.machine.device.type == "cpu":
            network.set_attn_processor(AttnProcessor())
        return network

    def _studied(self) -> Studied:
        """Latents and embeddings of the corpus, computed once."""
        device = self.machine.device
        vae = diffusers.AutoencoderTiny.from_pretrained(self.folder / "vae").to(device).eval()
        clip = (
            transformers.CLIPModel.from_pretrained(self.folder / "clip", dtype=torch.float32)
            .to(device)
            .eval()
        )
        images = self.corpus.images
        return Studied(
            corpus=self.corpus,
            latents=self._cached("latents", lambda: encode_latents(vae, images, device)),
            embeddings=self._cached("embeddings", lambda: embed_images(clip, images, device)),
            vae=vae.requires_grad_(False),
            clip=clip.requires_grad_(False),
            tokenizer=transformers.CLIPTokenizer.from_pretrained(self.folder / "clip"),
            device=device,
        )

    def _cached(self, name: str, make: Callable[[], NDArray[np.float16]]) -> NDArray[np.float16]:
        file = self._work / f"{name}.npy"
        if not file.is_file():
            new = file.with_suffix(".new.npy")
            np.save(new, make())
            new.rename(file)
        array: NDArray[np.float16] = np.load(file, mmap_mode="r", allow_pickle=False)
        return array


def save_preparation(folder: Path, kind: str, side: int) -> None:
    """How images are made ready, as the hub's processors say it: -1 is black and 1 is white."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "image_processor_type": kind,
        "do_resize": True,
        "size": {"height": side, "width": side},
        "resample": 3,
        "do_center_crop": False,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
    }
    (folder / "preprocessor_config.json").write_text(json.dumps(config, indent=2) + "\n")


def save_network(network: Any, folder: Path) -> None:
    """In half precision, in the hub's format, without the folder it was once read from.

    ``config.json``, which says that a stage is done, comes last, and every file whole.
    """
    new = folder.with_name(f"{folder.name}.new")
    shutil.rmtree(new, ignore_errors=True)
    network.to(torch.float16).save_pretrained(new, safe_serialization=True)
    network.float()
    config = new / "config.json"
    content = json.loads(config.read_text(encoding="utf-8"))
    content.pop("_name_or_path", None)
    config.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    folder.mkdir(exist_ok=True)
    for file in sorted(new.iterdir(), key=lambda file: file == config):
        file.replace(folder / file.name)
    new.rmdir()
