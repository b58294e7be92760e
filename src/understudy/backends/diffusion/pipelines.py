"""One model's task pipelines over one set of weights: text, variation, inpainting, control."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import diffusers
import torch

from understudy.backends.arrays import sizes_of
from understudy.backends.diffusion.distilled import few_steps
from understudy.backends.diffusion.loading import (
    loading,
    read_network,
    read_pipeline,
    run_quietly,
    split_revision,
    text_pipeline,
    use_scheduler,
    with_prior,
)
from understudy.backends.diffusion.networks import Conditioned, without_image_conditioning
from understudy.backends.diffusion.options import DenoisingOptions, GeneratorOptions
from understudy.backends.diffusion.pipeline_calls import taken
from understudy.backends.hub.hub_models import read_hub_config
from understudy.core.errors import BackendError

_TEXT, _VARIATION = "AutoPipelineForText2Image", "AutoPipelineForImage2Image"
_INPAINTING = "AutoPipelineForInpainting"
_INPAINT = "inpainting"


class Pipelines:
    """The task pipelines of one model; weights are loaded once and shared.

    ``text`` is a text-to-image pipeline on its device. A true inpainting network takes the latent,
    a mask and the latent of what is left, 2 c + 1 channels; ``inpainter`` is that network as the
    plain pipelines take it. ``controlnets`` stand by the kind of hint. Of few steps the
    ``timesteps`` matter; by default they are those of the scheduler.
    """

    def __init__(
        self,
        text: Any,
        options: DenoisingOptions,
        *,
        name: str,
        inpainting: Any = None,
        controlnets: Mapping[str, Any] | None = None,
        timesteps: Sequence[int] | None = None,
    ) -> None:
        self.text, self._options, self._name = run_quietly(text), options, name
        self.timesteps = None if options.steps else timesteps
        self.vae: Any = getattr(text, "vae", None) or getattr(text, "movq", None)
        self.network: Any = getattr(text, "unet", None) or getattr(text, "transformer", None)
        use_scheduler(text, options.scheduler, name)
        self._distilled = few_steps(text, name.partition(":")[2].partition("?")[0])
        self.inpainter: Conditioned | None = None
        self._by_task: dict[str, Any] = {}
        self._active = ""
        self._prepare(self.network)
        if self.vae is not None:
            channels_last(self.vae)
        self._open(inpainting, controlnets or {})
        self.tasks = frozenset(
            task for task in self._by_task if not task.startswith(f"{_INPAINT} ")
        )

    def _open(self, inpainting: Any, controlnets: Mapping[str, Any]) -> None:
        """Add the pipelines of all tasks."""
        latent = self.vae.config.get("latent_channels") if self.vae is not None else None
        unet = getattr(self.text, "unet", None)
        width = None if unet is None else unet.config["in_channels"]
        if unet is not None and latent is not None and width == 2 * latent + 1:
            inpainting = inpainting or unet  # an inpainting model, and nothing else
        elif width is not None and latent is not None and width != latent:
            raise BackendError(
                f"{self._name}: its network takes {width} channels where latents have {latent}: it "
                "is told something besides the text, and which is not known here"
            )
        else:
            self._by_task["text"] = self.text
            self._derive("variation", _VARIATION)
            kandinsky = type(self.text).__name__.startswith("Kandinsky")
            if width in (None, 4) and not kandinsky:
                # diffusers' UNet pipelines inpaint with four latent channels only, and Kandinsky's
                # need a network made for it.
                self._derive("inpainting", _INPAINTING)
        if inpainting is not None:
            self._add_inpainting(inpainting, latent or 0)
        for kind, network in controlnets.items():
            self._add_control(kind, network)

    def _add_inpainting(self, network: Any, latent: int) -> None:
        """Inpainting by a network with channels for the mask."""
        self._by_task.pop("inpainting", None)
        width = network.config["in_channels"]
        if width != 2 * latent + 1:
            raise BackendError(
                f"{self._name}: an inpainting network for {latent} latent channels takes "
                f"{2 * latent + 1} channels, found {width}"
            )
        self._prepare(network)
        if type(self.text).__name__.startswith("Kandinsky"):
            self._derive("inpainting", _INPAINTING, unet=network)
            return
        self.inpainter = Conditioned(without_image_conditioning(network), latent)
        self._derive("inpainting", _TEXT, unet=self.inpainter)

    def _add_control(self, kind: str, network: Any) -> None:
        plain = without_image_conditioning(network)
        self._prepare(plain)
        self._derive(f"control:{kind}", _TEXT, controlnet=plain)
        pipeline = self._by_task.get(f"control:{kind}")
        types = () if pipeline is None else pipeline._get_signature_types().get("controlnet", ())
        if type(network) not in types:
            raise BackendError(
                f"{self._name}: diffusers has no pipeline for a {type(self.text).__name__} with "
                f"a {type(network).__name__}"
            )
        if self.inpainter is not None:
            self._derive(_by_hint(kind), _TEXT, controlnet=plain, unet=self.inpainter)
        elif _INPAINT in self._by_task:
            self._derive(_by_hint(kind), _INPAINTING, controlnet=plain)

    def _derive(self, task: str, auto: str, **parts: Any) -> None:
        """Add the pipeline of a task; a family that has none goes without."""
        with loading(self._name):
            try:
                self._by_task[task] = run_quietly(
                    getattr(diffusers, auto).from_pipe(self.text, **parts)
                )
            except ValueError:
                return

    def _prepare(self, network: Any) -> None:
        channels_last(network)
        if self._options.compile:
            network.compile()

    def ready(self, task: str) -> Any:
        """The pipeline of a task that is in ``tasks``, ready to run."""
        pipeline = self._by_task[task]
        if self._options.offload and self._active != task:
            # Hooks belong to one pipeline: they are moved to the one that runs next.
            pipeline.enable_model_cpu_offload(device=self._options.placement()[0])
            self._active = task
        return pipeline

    def inpainting_by(self, kind: str) -> Any | None:
        """The inpainting pipeline that follows hints of a kind; None where there is none."""
        return self.ready(_by_hint(kind)) if _by_hint(kind) in self._by_task else None

    def steps(self) -> int:
        """Denoising steps of a call: those asked for, of the distilled model, or the pipeline's."""
        if self.timesteps is not None:
            return len(self.timesteps)
        if self._options.steps is None and self._distilled is not None:
            return self._distilled.steps
        return self._options.steps or int(self._default("num_inference_steps", 50))

    def schedule(self, strength: float = 1.0) -> dict[str, Any]:
        """Arguments of a call: its steps, of which ``strength`` leaves a part to run."""
        steps = self.steps()
        if self.timesteps is None:
            return {"num_inference_steps": steps_for(strength, steps)}
        if strength == 1 and self._options.scheduler is None:
            return {"num_inference_steps": steps, "timesteps": list(self.timesteps)}
        return {"num_inference_steps": steps_for(strength, steps, least=steps)}

    def guidance(self) -> float:
        """Classifier-free guidance of a call; 1 or less: none."""
        if self._options.guidance is not None:
            return self._options.guidance
        if self._distilled is not None and self._distilled.guidance is not None:
            return self._distilled.guidance
        return float(self._default("guidance_scale", 1.0))

    @property
    def sampling(self) -> str:
        """Steps and guidance of a call in words, and where they come from."""
        description = f"{self.steps()} steps, guidance {self.guidance():g}"
        unset = [key for key in ("steps", "guidance") if getattr(self._options, key) is None]
        if self.timesteps is not None:
            unset.remove("steps")
        if not unset:
            return description
        if self._distilled is None:
            origin = "the pipeline's own"
        else:
            origin = f"a distilled model, by {self._distilled.reason}"
        return f"{description} ({origin}; to change them: {', '.join(f'{key}=N' for key in unset)})"

    def _default(self, argument: str, otherwise: float) -> float:
        parameter = taken(self.text).get(argument)
        return otherwise if parameter is None or parameter.default is None else parameter.default

    def size(self) -> tuple[int, int]:
        """(height, width) in pixels that it works at."""
        if self._options.size is None:
            return native_size(self.text, self.network)
        sizes = sizes_of(self._options.size, "size")
        step = _multiple(self.text)
        if sizes[0] % step or sizes[-1] % step:
            near = "x".join(str(max(1, round(side / step)) * step) for side in sizes)
            raise BackendError(
                f"{self._name} works at sizes whose sides are multiples of {step}, found "
                f"size={self._options.size}; say size={near}"
            )
        return sizes[0], sizes[-1]


def channels_last(network: Any) -> None:
    """The order of channels that convolutions are fast at, on processors and GPUs alike."""
    if all(weights.dim() != 5 for weights in network.parameters()):  # not those of videos
        network.to(memory_format=torch.channels_last)


def steps_for(strength: float, steps: int, least: int = 1) -> int:
    """Steps of a schedule of which ``strength`` (more than 0) leaves ``least`` or more to run."""
    if int(steps * strength) >= least:
        return steps
    enough = math.ceil(least / strength)
    return enough if int(enough * strength) >= least else enough + 1


def _by_hint(kind: str) -> str:
    return f"{_INPAINT} control:{kind}"


def native_size(text: Any, network: Any) -> tuple[int, int]:
    """(height, width) that a pipeline works at when it is told none."""
    scale = _scale(text)
    sample: Any = getattr(text, "default_sample_size", None)
    if sample is None and network is not None:
        sample = network.config.get("sample_size")
    if isinstance(sample, int):
        return sample * scale, sample * scale
    if sample is not None and len(sample) == 2:
        return sample[0] * scale, sample[1] * scale
    side = taken(text).get("height")
    pixels = 1024 if side is None or not side.default else int(side.default)
    return pixels, pixels


def _scale(pipeline: Any) -> int:
    """Pixels a side of one latent."""
    if movq := getattr(pipeline, "movq", None):
        return int(2 ** (len(movq.config["block_out_channels"]) - 1))
    return int(getattr(pipeline, "vae_scale_factor", 8))


def _multiple(pipeline: Any) -> int:
    """What the sides of its images must be multiples of."""
    scale = _scale(pipeline)
    if getattr(pipeline, "movq", None) is not None:
        return scale * scale
    processor = getattr(pipeline, "image_processor", None)
    if processor is not None:
        scale = math.lcm(scale, int(processor.config.get("vae_scale_factor") or 1))
    return math.lcm(8, scale * int(getattr(pipeline, "patch_size", 1) or 1))


def open_pipelines(rest: str, options: GeneratorOptions, *, name: str) -> Pipelines:
    """The task pipelines of a folder or a name on the hub."""
    pipeline = with_prior(read_pipeline(rest, options), options.prior, options, name)
    text = text_pipeline(pipeline, name)
    inpainting = None
    if options.inpainting is not None:
        inpainting = read_network(
            diffusers.UNet2DConditionModel, options.inpainting, options, subfolder="unet"
        )
    if options.lora is not None:
        from understudy.backends.tuning.weights import fold_adapters

        inpainting = fold_adapters(text, inpainting, options.lora)
    controlnets = {}
    for kind, model in options.hints():
        source, revision = split_revision(model)
        _, config = read_hub_config(source, revision)
        network_class = getattr(diffusers, str(config.get("_class_name")), None)
        if network_class is None or "ControlNet" not in network_class.__name__:
            raise BackendError(f"{name}: {model} is no ControlNet ({config.get('_class_name')})")
        controlnets[kind] = read_network(network_class, model, options)
    return Pipelines(text, options, name=name, inpainting=inpainting, controlnets=controlnets)
