"""Pictures from texts by any pipeline of diffusers: the port `Generator`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import diffusers
import numpy as np
import scipy
import torch
from numpy.typing import NDArray
from PIL import Image

from understudy.backends.arrays import (
    check_prompts,
    check_strength,
    fit_images,
    index_slices,
    require_images,
    resized,
    sizes_of,
    with_channels,
)
from understudy.backends.diffusion.autoencoders import latents_of, to_tensor
from understudy.backends.diffusion.networks import Conditioned
from understudy.backends.diffusion.options import GeneratorOptions
from understudy.backends.diffusion.pipeline_calls import call_pipeline, generators, taken
from understudy.backends.diffusion.pipelines import Pipelines, open_pipelines
from understudy.backends.diffusion.text_conditioning import PromptEncoder
from understudy.backends.hub.pretrained import licence_of
from understudy.backends.plugin import full_name, read_options
from understudy.core.errors import BackendError, UnsupportedTask
from understudy.core.types import Images, Masks, Shape, Texts, Vocabulary

_LEAST = 1 / 1000  # a smaller strength leaves no step of the usual schedule of 1000

PipelineInputs = Callable[[slice, Any], dict[str, Any]]
HintInputs = Callable[[slice], dict[str, Any]]


class DiffusionGenerator:
    """Text to images, variation, inpainting and control, in batches."""

    vocabulary: Vocabulary | None = None

    def __init__(
        self, pipelines: Pipelines, options: GeneratorOptions, *, name: str, licence: str
    ) -> None:
        self.name, self.licence = name, licence
        self.tasks, self.sampling = pipelines.tasks, pipelines.sampling
        self._pipelines, self._options = pipelines, options
        self._size = pipelines.size()
        shape = () if options.shape is None else sizes_of(options.shape, "shape")
        self.shape: Shape = (*(shape[:2] or self._size), *(shape[2:] or (3,)))
        self._prompts = PromptEncoder(
            pipelines.text,
            negative=options.negative,
            guided=pipelines.guidance() > 1,
        )

    def generate(self, prompts: Texts, *, seed: int = 0) -> Images:
        """One image a prompt: (n, height, width, channels) uint8."""
        pipeline = self._ready("text")
        return self._draw(pipeline, "text", prompts, seed, lambda rows, _: {})

    def vary(self, images: Images, prompts: Texts, *, strength: float, seed: int = 0) -> Images:
        """Image to image: ``strength`` in [0, 1], 0 gives the image back, 1 forgets it.

        Where so few steps would be left that none is run, more are taken.
        """
        pipeline = self._ready("variation")
        self._check(images, prompts)
        check_strength(strength, self.name)
        if strength < _LEAST:
            return images.copy()
        if strength == 1 and "text" in self.tasks:
            text = self._pipelines.ready("text")  # with other noise than `generate` draws
            return self._draw(text, "variation", prompts, seed, lambda rows, _: {})

        def inputs(rows: slice, device: torch.device) -> dict[str, Any]:
            return {"image": self._start(pipeline, self._scaled(images[rows]), device)}

        return self._draw(pipeline, "variation", prompts, seed, inputs, strength)

    def inpaint(
        self,
        images: Images,
        masks: Masks,
        prompts: Texts,
        *,
        seed: int = 0,
        control: tuple[str, Images] | None = None,
        negative: str | None = None,
    ) -> Images:
        """Draw anew where a mask is True; every other pixel stays exactly as it was.

        What is drawn fades in over ``seam`` pixels inside the mask, so that its rim does not show.
        With ``control`` it follows hints, with ``negative`` it stays away from a text.
        """
        pipeline = self._ready("inpainting")
        self._check(images, prompts)
        if masks.dtype != np.bool_ or masks.shape != images.shape[:3]:
            raise BackendError(
                f"{self.name} takes bool masks of shape {images.shape[:3]}, "
                f"found {masks.dtype} of shape {masks.shape}"
            )
        by_hint = None if control is None else self._hinted(control, len(images))
        if not masks.any():
            return images.copy()
        pipeline, hinted = by_hint or (pipeline, lambda rows: {})

        def inputs(rows: slice, device: torch.device) -> dict[str, Any]:
            pixels = self._scaled(images[rows])
            if self._pipelines.inpainter is not None:
                self._show_hole(pixels, masks[rows], device)
                return hinted(rows)
            latents = self._hard_coded() and by_hint is None  # those by hints take pixels alone
            start = self._start(pipeline, pixels, device, latents=latents)
            arguments = {
                "image": start,
                "mask_image": _pillow_images(self._mask_pixels(masks[rows])),
            }
            if isinstance(start, torch.Tensor):
                arguments["masked_image_latents"] = start  # else each row is encoded once more
            return {**arguments, **hinted(rows)}

        results = self._draw(pipeline, "inpainting", prompts, seed, inputs, negative=negative)
        seam = self._options.seam
        if seam is None:
            seam = max(1, min(self.shape[:2]) // 32)
        return _pasted(images, results, masks, seam)

    def control(self, kind: str, hints: Images, prompts: Texts, *, seed: int = 0) -> Images:
        """Images that follow hints (n, height, width, channels) uint8, such as edges or poses."""
        task = f"control:{kind}"
        pipeline = self._ready(task)
        self._check(hints, prompts)
        inputs = self._hint_inputs(pipeline, hints)
        return self._draw(pipeline, task, prompts, seed, lambda rows, _: inputs(rows))

    def _hint_inputs(self, pipeline: Any, hints: Images) -> HintInputs:
        """The arguments of a pipeline's call that hold the hints of some rows."""
        key = "control_image" if "control_image" in taken(pipeline) else "image"
        scale = self._options.control_scale
        return lambda rows: {
            key: _pillow_images(self._scaled(hints[rows])),
            "controlnet_conditioning_scale": scale,
        }

    def _hinted(self, control: tuple[str, Images], count: int) -> tuple[Any, HintInputs]:
        """The pipeline that inpaints by hints of a kind, and what it is given of these."""
        kind, hints = control
        pipeline = self._pipelines.inpainting_by(kind)
        if pipeline is None:
            raise UnsupportedTask(self.name, f"inpainting with control:{kind}", self.tasks)
        require_images(hints, self.shape, self.name)
        if len(hints) != count:
            raise BackendError(
                f"{self.name} takes one hint an image, found {len(hints)} hints for {count} images"
            )
        return pipeline, self._hint_inputs(pipeline, hints)

    def _ready(self, task: str) -> Any:
        if task not in self.tasks:
            raise UnsupportedTask(self.name, task, self.tasks)
        return self._pipelines.ready(task)

    def _check(self, images: Images, prompts: Texts) -> None:
        require_images(images, self.shape, self.name)
        check_prompts(prompts, len(images), self.name)

    def _draw(
        self,
        pipeline: Any,
        task: str,
        prompts: Texts,
        seed: int,
        inputs: PipelineInputs,
        strength: float = 1.0,
        negative: str | None = None,
    ) -> Images:
        """Run a pipeline over all rows: (n, height, width, channels) uint8."""
        check_prompts(prompts, None, self.name)
        height, width = self._size
        prior: dict[str, Any] = {}
        if "prior_num_inference_steps" in taken(pipeline):
            prior["prior_num_inference_steps"] = min(25, self._pipelines.steps())
            prior["callback_steps"] = None  # else its own call of its decoder is a deprecated one
        out = np.empty((len(prompts), *self.shape), dtype=np.uint8)
        for rows in index_slices(len(prompts), self._options.batch):
            images = call_pipeline(
                pipeline,
                self.name,
                self._options.batch,
                **self._prompts.conditioning(prompts[rows], negative),
                **inputs(rows, pipeline._execution_device),
                generator=generators(seed, range(rows.start, rows.stop), task),
                **self._pipelines.schedule(strength),
                **prior,
                guidance_scale=self._pipelines.guidance(),
                strength=strength,
                height=height,
                width=width,
            )
            out[rows] = fit_images(images, self.shape)
        return out

    def _show_hole(self, pixels: Images, masks: Masks, device: torch.device) -> None:
        """Give the network that inpaints its masks, and what is left of the images."""
        vae = self._pipelines.vae
        hole = torch.from_numpy(self._mask_pixels(masks) > 127)[:, None].to(device)
        image = to_tensor(pixels, device, vae.dtype)
        with torch.no_grad():
            # Grey is 0 to the autoencoder: what inpainting networks are trained to see there.
            latents = latents_of(vae, torch.where(hole, torch.full_like(image, 0.5), image))
            mask = torch.nn.functional.interpolate(hole.to(latents.dtype), latents.shape[-2:])
        inpainter = cast(Conditioned, self._pipelines.inpainter)
        inpainter.given(more=torch.cat([mask, latents], dim=1))

    def _hard_coded(self) -> bool:
        """Whether latents have the number of channels that diffusers' inpainting knows them by."""
        channels = 4 if isinstance(self._pipelines.network, diffusers.UNet2DConditionModel) else 16
        return bool(self._pipelines.vae.config["latent_channels"] == channels)

    def _start(
        self, pipeline: Any, pixels: Images, device: torch.device, *, latents: bool = True
    ) -> Any:
        """The images a pipeline starts from: latents where it takes them, encoded in one go."""
        vae = self._pipelines.vae
        processor: Any = getattr(pipeline, "image_processor", None)
        has_latents = processor is not None and isinstance(
            vae, diffusers.AutoencoderKL | diffusers.AutoencoderTiny
        )
        if (
            not (has_latents and latents)
            or processor.config.get("vae_latent_channels") != vae.config["latent_channels"]
            or vae.config.get("latents_mean") is not None
            or (vae.dtype == torch.float16 and vae.config.get("force_upcast"))
        ):
            return _pillow_images(pixels)
        with torch.no_grad():
            return latents_of(vae, to_tensor(pixels, device, vae.dtype))

    def _scaled(self, images: Images) -> Images:
        return resized(with_channels(images, 3), *self._size)

    def _mask_pixels(self, masks: Masks) -> NDArray[np.uint8]:
        grey = masks[..., None].astype(np.uint8) * 255
        return resized(grey, *self._size)[..., 0]


def load_generator(rest: str, options: Mapping[str, Any]) -> DiffusionGenerator:
    """A generator from any text-to-image pipeline of diffusers; see `GeneratorOptions`."""
    settings = read_options(options, GeneratorOptions, name=f"hf:{rest}")
    name = full_name(f"hf:{rest}", settings)
    pipelines = open_pipelines(rest, settings, name=name)
    return DiffusionGenerator(
        pipelines, settings, name=name, licence=licence_of(rest, settings.revision)
    )


def _pillow_images(images: Images) -> list[Image.Image]:
    return [Image.fromarray(image) for image in images]


def _pasted(images: Images, results: Images, masks: Masks, seam: int) -> Images:
    """What was drawn, inside the masks; it fades in over ``seam`` pixels from their rim."""
    weight = np.empty(masks.shape, dtype=np.float32)
    for mask, row in zip(masks, weight, strict=True):
        if mask.all():
            row[...] = 1.0
        else:
            row[...] = np.clip(scipy.ndimage.distance_transform_edt(mask) / (seam + 1), 0.0, 1.0)
    old = images.astype(np.float32)
    blend = old + weight[..., None] * (results.astype(np.float32) - old)
    out: Images = np.where(masks[..., None], np.rint(blend), old).astype(np.uint8)
    return out
