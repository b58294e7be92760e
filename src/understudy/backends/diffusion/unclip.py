"""Embeddings of images back to images: unCLIP and Kandinsky 2.2, the port `PromptedDecoder`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from diffusers.models.embeddings import get_timestep_embedding

from understudy.backends.arrays import check_embeddings, index_slices, resized, with_channels
from understudy.backends.diffusion.networks import Conditioned
from understudy.backends.diffusion.options import UnclipOptions
from understudy.backends.diffusion.pipeline_calls import (
    call_pipeline,
    check_prompts,
    check_seeds,
    seeded,
)
from understudy.backends.diffusion.pipelines import Pipelines
from understudy.backends.diffusion.text_conditioning import PromptEncoder
from understudy.core.errors import BackendError
from understudy.core.ports import Encoder
from understudy.core.types import Embeddings, Images, Seeds, Shape, Texts, Vocabulary

NoiseGenerators = list[torch.Generator]
Given = Callable[[torch.Tensor, Texts, NoiseGenerators, int], dict[str, Any]]
PromptReader = Callable[[Embeddings], Texts]


class _Decoder:
    """What both families share: checks, batches, the length of embeddings, the size of images."""

    stochastic = True
    vocabulary: Vocabulary | None = None
    _prompt_reader: PromptReader | None = None

    def __init__(
        self,
        shape: Shape,
        options: UnclipOptions,
        *,
        name: str,
        licence: str,
        dim: int,
        length: float | None,
        encoder: Encoder | None,
    ) -> None:
        self.name, self.licence, self.shape, self.dim = name, licence, shape, dim
        self._options = options
        if encoder is not None and encoder.dim != dim:
            raise BackendError(
                f"{name} decodes embeddings of {dim} numbers, but {encoder.name} makes "
                f"{encoder.dim}. Use the encoder it was trained with"
            )
        unit = encoder is not None and encoder.norm_bound is not None
        unit = unit and abs(float(encoder.norm_bound or 0) - 1) < 1e-2  # type: ignore[union-attr]
        self._scale = options.scale or (length if unit and length is not None else 1.0)

    def decode(self, embeddings: Embeddings, *, seeds: Seeds) -> Images:
        """(n, d) float32 to (n, height, width, channels) uint8, without a prompt."""
        check_embeddings(embeddings, self.dim, self.name)
        level = self._options.noise_level
        prompts = (
            [""] * len(embeddings)
            if self._prompt_reader is None
            else self._prompt_reader(embeddings)
        )
        return self.decode_prompted(embeddings, prompts, seeds=seeds, noise_level=level)

    def decode_prompted(
        self, embeddings: Embeddings, prompts: Texts, *, seeds: Seeds, noise_level: int = 0
    ) -> Images:
        """(n, d) float32, n class prompts and n seeds to (n, height, width, channels) uint8."""
        check_embeddings(embeddings, self.dim, self.name)
        check_prompts(prompts, len(embeddings), self.name)
        check_seeds(seeds, len(embeddings), self.name)
        self._check_level(noise_level)
        out = np.empty((len(embeddings), *self.shape), dtype=np.uint8)
        for rows in index_slices(len(embeddings), self._options.batch):
            values = embeddings[rows].astype(np.float32) * np.float32(self._scale)
            noise = seeded(seeds[rows], "decode")
            images = self._draw(torch.from_numpy(values), prompts[rows], noise, noise_level)
            out[rows] = resized(with_channels(images, self.shape[2]), *self.shape[:2])
        return out

    def _check_level(self, level: int) -> None:
        raise NotImplementedError

    def _draw(
        self, values: torch.Tensor, prompts: Texts, noise: NoiseGenerators, level: int
    ) -> Images:
        raise NotImplementedError


class UnclipDecoder(_Decoder):
    """UnCLIP: a Stable Diffusion network that is also given a noised image embedding.

    ``unet`` has ``class_embed_type`` projection. The normalizer holds mean and deviation of the
    embeddings it was trained on; without a noising scheduler there is noise level 0 only.
    ``prompt_reader`` reads prompts from embeddings that come without any.
    """

    def __init__(
        self,
        pipelines: Pipelines,
        unet: Any,
        shape: Shape,
        options: UnclipOptions,
        *,
        name: str,
        licence: str,
        normalizer: Any = None,
        noising: Any = None,
        encoder: Encoder | None = None,
        prompt_reader: PromptReader | None = None,
    ) -> None:
        if unet.config["class_embed_type"] != "projection":
            raise BackendError(f"{name} is no unCLIP model: its network takes no image embedding")
        dim = int(unet.config["projection_class_embeddings_input_dim"]) // 2
        mean, std = torch.zeros(1, dim), torch.ones(1, dim)
        length = None
        if normalizer is not None:
            mean, std = (part.detach().float().cpu() for part in (normalizer.mean, normalizer.std))
            length = float((mean**2 + std**2).sum().sqrt())
        super().__init__(
            shape, options, name=name, licence=licence, dim=dim, length=length, encoder=encoder
        )
        self._prompt_reader = prompt_reader
        self._mean, self._std, self._noising = mean, std, noising
        self._pipelines, self.sampling = pipelines, pipelines.sampling
        self._network = Conditioned(unet, pipelines.network.config["in_channels"])
        if options.compile:
            unet.compile()
        plain = pipelines.ready("text")
        self._pipeline = type(plain)(
            **{**plain.components, "unet": self._network}, requires_safety_checker=False
        )
        self._pipeline.set_progress_bar_config(disable=True)
        if options.offload:
            self._pipeline.enable_model_cpu_offload(device=options.placement()[0])
        self._size = pipelines.size()
        self._prompts = PromptEncoder(
            self._pipeline,
            negative=options.negative,
            guided=pipelines.guidance() > 1,
            batch=options.batch,
        )

    def _check_level(self, level: int) -> None:
        most = 0 if self._noising is None else int(self._noising.config["num_train_timesteps"]) - 1
        if not 0 <= level <= most:
            raise BackendError(f"{self.name}: noise_level is 0 to {most}, found {level}")

    def labels(self, embeddings: torch.Tensor, noise: NoiseGenerators, level: int) -> torch.Tensor:
        """(n, d) embeddings to (n, 2 d) labels: noised, with the noise level beside them."""
        if self._noising is not None:
            draws = torch.cat([torch.randn(1, self.dim, generator=source) for source in noise])
            levels = torch.full((len(embeddings),), level)
            whitened = (embeddings - self._mean) / self._std
            noised = self._noising.add_noise(whitened, timesteps=levels, noise=draws)
            embeddings = noised * self._std + self._mean
        level_embedding = get_timestep_embedding(
            torch.full((len(embeddings),), level),
            self.dim,
            flip_sin_to_cos=True,
            downscale_freq_shift=0,
        )
        return torch.cat([embeddings, level_embedding], dim=1)

    def _draw(
        self, values: torch.Tensor, prompts: Texts, noise: NoiseGenerators, level: int
    ) -> Images:
        self._network.given(labels=self.labels(values, noise, level))
        return call_pipeline(
            self._pipeline,
            self.name,
            self._options.batch,
            **self._prompts.conditioning(prompts),
            generator=noise,
            num_inference_steps=self._pipelines.steps(),
            guidance_scale=self._pipelines.guidance(),
            height=self._size[0],
            width=self._size[1],
        )


class KandinskyDecoder(_Decoder):
    """Kandinsky 2.2: a decoder of embeddings alone; prompts and noise levels mean nothing to it.

    ``blank`` (1, d) is the embedding of a black image, which guidance leads away from (zeros if
    none is given), and ``length`` the typical length of an embedding, where it is known.
    """

    def __init__(
        self,
        pipeline: Any,
        shape: Shape,
        options: UnclipOptions,
        *,
        name: str,
        licence: str,
        length: float | None = None,
        blank: torch.Tensor | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        super().__init__(
            shape,
            options,
            name=name,
            licence=licence,
            dim=int(pipeline.unet.config["encoder_hid_dim"]),
            length=length,
            encoder=encoder,
        )
        self._blank = torch.zeros(1, self.dim) if blank is None else blank
        self._pipelines = Pipelines(pipeline, options, name=name)
        self.sampling = self._pipelines.sampling
        self._size = self._pipelines.size()
        if options.offload:
            pipeline.enable_model_cpu_offload(device=options.placement()[0])
        self._pipeline = pipeline

    def _check_level(self, level: int) -> None:
        if level:
            raise BackendError(f"{self.name} has no noise levels: noise_level is 0, found {level}")

    def _draw(
        self, values: torch.Tensor, prompts: Texts, noise: NoiseGenerators, level: int
    ) -> Images:
        device = self._pipeline._execution_device
        embeds = values.to(device, self._pipeline.unet.dtype)
        return call_pipeline(
            self._pipeline,
            self.name,
            self._options.batch,
            image_embeds=embeds,
            negative_image_embeds=self._blank.to(embeds).expand_as(embeds),
            generator=noise,
            num_inference_steps=self._pipelines.steps(),
            guidance_scale=self._pipelines.guidance(),
            height=self._size[0],
            width=self._size[1],
        )
