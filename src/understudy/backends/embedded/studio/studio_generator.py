"""The generator of ``embedded:studio``: texts by PyTorch alone, other tasks by diffusers.

To import diffusers and transformers takes longer than to draw sixteen pictures, so the generator of
this package goes without them until a task is asked for that needs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from understudy.backends.arrays import check_prompts, fit_images, index_slices, sizes_of
from understudy.backends.diffusion.options import GeneratorOptions
from understudy.backends.diffusion.pipeline_calls import finite_pixels, generators
from understudy.backends.embedded.scattering import SingleThreads
from understudy.backends.embedded.shipped import STUDIO_WEIGHTS
from understudy.backends.embedded.studio.text_to_image import TextToImage
from understudy.backends.hub.hub_models import EXTRA, hub_errors
from understudy.backends.phrase_grammar import read_phrases
from understudy.backends.plugin import PositiveCount, full_name, read_options
from understudy.core.errors import packages_for
from understudy.core.ports import Generator
from understudy.core.types import Images, Labels, Masks, Shape, Texts, Vocabulary

if TYPE_CHECKING:
    from understudy.backends.diffusion.generators import DiffusionGenerator

STUDIO_NAME = "embedded:studio"
STUDIO_LICENCE = "apache-2.0 (made by Understudy from its own drawings)"

TIMESTEPS = (999, 890, 640, 270)
"""Of studios, for DPM-Solver++: four as good as ten evenly spaced ones (docs/studio.md).

With so few it matters that the second is under much noise: from pure noise everything is one step
away, and then what is where gets settled.
"""

GUIDANCE, CONTROL = 3.0, 1.5
"""What the mini studio draws well with; the defaults of its options."""

_SCOPE = "drawn scenes of the playhouse (dogs, persons, medicine bottles and photo frames in rooms)"


@dataclass(frozen=True, slots=True)
class StudioOptions(GeneratorOptions):
    """Options of the studio's generator and tuner; those of `GeneratorOptions` besides.

    Attributes:
        folder: Another studio than the one in this package.
    """

    batch: PositiveCount = 32
    guidance: float | None = GUIDANCE
    control_scale: float = CONTROL
    folder: str | None = None


def hint_kinds(folder: Path) -> list[str]:
    """The hints that a studio has a ControlNet for."""
    return [kind for kind in ("edges", "pose") if (folder / f"controlnet-{kind}").is_dir()]


def studio_tasks(folder: Path) -> frozenset[str]:
    """What the generator of a studio can do."""
    tasks = {"text", "variation", *(f"control:{kind}" for kind in hint_kinds(folder))}
    return frozenset(tasks | ({"inpainting"} if (folder / "inpainting").is_dir() else set()))


def studio_vocabulary() -> Vocabulary:
    """The words of the playhouse's captions, which the studio of this package knows."""
    return Vocabulary(read_phrases().vocabulary, _SCOPE)


class StudioGenerator:
    """Text to images by `TextToImage`; other tasks by the generator that ``whole`` opens."""

    def __init__(self, options: StudioOptions, whole: Callable[[], DiffusionGenerator]) -> None:
        self.name, self.licence = full_name(STUDIO_NAME, options), STUDIO_LICENCE
        self.tasks, self.vocabulary = studio_tasks(STUDIO_WEIGHTS), studio_vocabulary()
        guidance = GUIDANCE if options.guidance is None else options.guidance
        self.sampling = f"{len(TIMESTEPS)} steps, guidance {guidance:g}"
        self.block, self._open, self._threads = options.batch, whole, SingleThreads()
        with hub_errors(STUDIO_NAME, "another model"), torch.no_grad():
            self._draw = TextToImage(STUDIO_WEIGHTS, TIMESTEPS, guidance, options.negative or "")
        side = self._draw.side
        sizes = () if options.shape is None else sizes_of(options.shape, "shape")
        self.shape: Shape = (*(sizes[:2] or (side, side)), *(sizes[2:] or (3,)))

    @cached_property
    def _whole(self) -> DiffusionGenerator:
        return self._open()

    @property
    def _pipelines(self) -> Any:
        """What a tuner and a guided generator are made from."""
        return self._whole._pipelines

    def generate(self, prompts: Texts, *, seed: int = 0) -> Images:
        """One image a prompt: (n, height, width, channels) uint8."""
        check_prompts(prompts, None, self.name)
        return self.generate_rows(prompts, np.arange(len(prompts)), seed=seed)

    def generate_rows(self, prompts: Texts, rows: Labels, *, seed: int) -> Images:
        """As `BlockGenerator.generate_rows`: every block is drawn on one thread."""
        out = np.empty((len(prompts), *self.shape), dtype=np.uint8)

        def draw(part: slice) -> None:
            sources = generators(seed, rows[part].tolist(), "text")
            pixels = finite_pixels(self._draw(prompts[part], sources), self.name)
            out[part] = fit_images(pixels, self.shape)

        self._threads.each(draw, index_slices(len(prompts), self.block))
        return out

    def vary(self, images: Images, prompts: Texts, *, strength: float, seed: int = 0) -> Images:
        """As `DiffusionGenerator.vary`."""
        return self._whole.vary(images, prompts, strength=strength, seed=seed)

    def inpaint(
        self, images: Images, masks: Masks, prompts: Texts, *, seed: int = 0, **options: Any
    ) -> Images:
        """As `DiffusionGenerator.inpaint`."""
        return self._whole.inpaint(images, masks, prompts, seed=seed, **options)

    def control(self, kind: str, hints: Images, prompts: Texts, *, seed: int = 0) -> Images:
        """As `DiffusionGenerator.control`."""
        return self._whole.control(kind, hints, prompts, seed=seed)


def studio_generator(options: Mapping[str, Any]) -> Generator:
    """The generator of a studio: without diffusers where nothing is asked that needs it."""
    read = read_options(options, StudioOptions, name=STUDIO_NAME)

    def whole() -> DiffusionGenerator:
        with packages_for(STUDIO_NAME, EXTRA):
            from understudy.backends.embedded.studio.studio_models import Studio

        return Studio(read.folder).generator(options)

    names = ("batch", "guidance", "negative", "shape", "seam", "control_scale", "device", "dtype")
    usual = replace(StudioOptions(), **{key: getattr(read, key) for key in names})
    placed = read.placement() == (torch.device("cpu"), torch.float32)
    if read != usual or read.guidance is None or not placed:
        return whole()
    return StudioGenerator(read, whole)
