"""The port `Tuner` over pipelines of Stable Diffusion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from understudy.backends.arrays import require_any_images
from understudy.backends.diffusion.generators import DiffusionGenerator
from understudy.backends.diffusion.loading import rebuilt
from understudy.backends.diffusion.options import GeneratorOptions
from understudy.backends.diffusion.pipelines import Pipelines, native_size, open_pipelines
from understudy.backends.hub.pretrained import licence_of
from understudy.backends.plugin import full_name, read_options
from understudy.backends.tuning.dreambooth import Lesson, train_denoiser
from understudy.backends.tuning.material import Latents, cell_weights, encode_images, views
from understudy.backends.tuning.tuning_settings import TuningSettings
from understudy.backends.tuning.weights import (
    changed_weights,
    fused,
    merge_into_inpainting,
    with_changed_weights,
)
from understudy.core.errors import BackendError
from understudy.core.ports import Generator
from understudy.core.types import Images, Masks

_CLASS_SEED = 0  # images of the class are the same for every tuning, so that they can be kept


def load_tuner(rest: str, options: Mapping[str, Any]) -> DreamBooth:
    """A tuner of any Stable Diffusion pipeline in the hub's format."""
    read = read_options(options, GeneratorOptions, name=f"hf:{rest}")
    name = full_name(f"hf:{rest}", read)
    if read.offload:
        raise BackendError(f"{name}: a model that is tuned cannot be offloaded: leave offload out")
    # A compiled network can be neither copied nor given adapters; what comes out is compiled.
    pipelines = open_pipelines(rest, replace(read, compile=False), name=name)
    return DreamBooth(pipelines, read, name=name, licence=licence_of(rest, read.revision))


class DreamBooth:
    """Fine-tunes a generator on a few images of one subject (Ruiz et al., CVPR 2023)."""

    def __init__(
        self, pipelines: Pipelines, options: GeneratorOptions, *, name: str, licence: str
    ) -> None:
        self.name, self.licence = name, licence
        self._pipelines, self._options = pipelines, options
        self._text = pipelines.text
        parts = set(getattr(self._text, "components", {}))
        if not {"unet", "vae", "text_encoder", "tokenizer"} <= parts or "text_encoder_2" in parts:
            raise BackendError(
                f"{name} is a {type(self._text).__name__}; tuning is for the pipelines of Stable "
                "Diffusion 1 and 2 (StableDiffusionPipeline, StableUnCLIPPipeline)"
            )
        if "text" not in pipelines.tasks:
            raise BackendError(
                f"{name} is an inpainting model: tune the text-to-image model it comes from, with "
                "inpainting=NAME of this one"
            )
        base = replace(options, compile=False)
        self._base = DiffusionGenerator(pipelines, base, name=name, licence=licence)
        self._known: dict[tuple[str, int], Latents] = {}

    def tune(
        self,
        images: Images,
        prompt: str | Sequence[str],
        *,
        class_prompt: str | None = None,
        settings: TuningSettings | Mapping[str, Any] | None = None,
        seed: int = 0,
        masks: Masks | None = None,
    ) -> DiffusionGenerator:
        """A new generator that knows the subject by ``prompt``; the old one is unchanged.

        Args:
            images: (n, height, width, 1 or 3) uint8 of the subject.
            prompt: Names the subject by a rare word, such as ``"a photo of xyz dog"``; one for all
                images, or one an image.
            class_prompt: Names its class, for prior preservation; None leaves that out.
            settings: See `TuningSettings`.
            seed: Of the training.
            masks: (n, height, width) bool: the pixels to learn from; None: all.
        """
        if not isinstance(settings, TuningSettings):
            settings = read_options(settings or {}, TuningSettings, name=f"tuning {self.name}")
        prompts = (prompt,) if isinstance(prompt, str) else tuple(prompt)
        self._check(images, prompts, class_prompt, masks)
        lessons = self._lessons(images, prompts, class_prompt, settings, seed, masks)
        network = train_denoiser(self._text, lessons, settings, seed=seed)
        return self._generator(rebuilt(self._text, unet=fused(network)))

    def of(self, generator: Generator) -> DreamBooth:
        """A tuner of a generator that this one has tuned: its tunings go on from there."""
        pipelines = self._own(generator)
        return DreamBooth(pipelines, self._options, name=generator.name, licence=generator.licence)

    def changes(self, generator: Generator) -> bytes:
        """The weights of a tuned generator that differ from those this tuner began with."""
        return changed_weights(self._own(generator).text, self._text)

    def restore(self, changes: bytes) -> DiffusionGenerator:
        """The generator of these weights; they are merged into the inpainting model, too."""
        text = rebuilt(self._text, **with_changed_weights(self._text, changes, self.name))
        return self._generator(text)

    def _own(self, generator: Generator) -> Pipelines:
        pipelines = getattr(generator, "_pipelines", None)
        if not isinstance(pipelines, Pipelines) or type(pipelines.network) is not type(
            self._text.unet
        ):
            raise BackendError(f"{generator.name} is no generator that {self.name} has tuned")
        return pipelines

    def _merged(self, text: Any) -> Any:
        """The inpainting model with what a tuned pipeline knows; None where there is none."""
        if self._pipelines.inpainter is None:
            return None
        whole = self._pipelines.inpainter.network
        return merge_into_inpainting(whole, text.unet, self._text.unet)

    def _lessons(
        self,
        images: Images,
        prompts: tuple[str, ...],
        class_prompt: str | None,
        settings: TuningSettings,
        seed: int,
        masks: Masks | None,
    ) -> list[Lesson]:
        """The subject, and its class where that is to be remembered."""
        size = native_size(self._text, self._text.unet)
        crops = views(images, size, settings.views, np.random.default_rng(seed))
        latents, cells = encode_images(self._text.vae, crops), None
        if masks is not None:  # the same crops of them: what is drawn depends on the sizes alone
            grey = masks[..., None].astype(np.uint8) * 255
            mask_views = views(grey, size, settings.views, np.random.default_rng(seed))
            cells = cell_weights(mask_views, latents)
        each = prompts if len(prompts) == 1 else prompts * (len(crops) // len(images))
        lessons = [Lesson(latents, each, pixel_weights=cells)]
        if class_prompt is not None and settings.prior_weight > 0:
            class_latents = self._class_latents(class_prompt, size, settings)
            lessons.append(Lesson(class_latents, (class_prompt,), settings.prior_weight))
        return lessons

    def _generator(self, text: Any) -> DiffusionGenerator:
        """A generator like the base, over a tuned pipeline."""
        base, options, name = self._pipelines, self._options, f"{self.name} (tuned)"
        controlnets = {
            task.removeprefix("control:"): base.ready(task).controlnet
            for task in base.tasks
            if task.startswith("control:")
        }
        pipelines = Pipelines(
            text,
            options,
            name=name,
            inpainting=self._merged(text),
            controlnets=controlnets,
            timesteps=base.timesteps,
        )
        return DiffusionGenerator(pipelines, options, name=name, licence=f"{self.licence}, tuned")

    def _class_latents(
        self, prompt: str, size: tuple[int, int], settings: TuningSettings
    ) -> Latents:
        """Of images of the class, which are drawn once for all tunings."""
        key = (prompt, settings.class_images)
        if key not in self._known:
            images = self._base.generate([prompt] * settings.class_images, seed=_CLASS_SEED)
            rng = np.random.default_rng(_CLASS_SEED)
            crops = views(images, size, TuningSettings().views, rng)
            self._known[key] = encode_images(self._text.vae, crops)
        return self._known[key]

    def _check(
        self,
        images: Images,
        prompts: tuple[str, ...],
        class_prompt: str | None,
        masks: Masks | None,
    ) -> None:
        require_any_images(images, self.name)
        if not len(images):
            raise BackendError(f"{self.name} is tuned on one image or more, found none")
        if len(prompts) not in (1, len(images)):
            raise BackendError(
                f"{self.name} takes one prompt for all images or one an image, found "
                f"{len(prompts)} prompts for {len(images)} images"
            )
        if not all(text.strip() for text in (*prompts, class_prompt or "a")) or class_prompt == "":
            raise BackendError(f"{self.name}: a prompt for the tuning is empty")
        if masks is not None and (
            masks.dtype != np.bool_
            or masks.shape != images.shape[:3]
            or not masks.any(axis=(1, 2)).all()
        ):
            raise BackendError(
                f"{self.name} learns from the pixels of bool masks of shape {images.shape[:3]}, "
                f"some in each image, found {masks.dtype} of shape {masks.shape}"
            )
