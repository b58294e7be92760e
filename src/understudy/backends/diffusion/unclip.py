"""Embeddings of images back to images: unCLIP and Kandinsky 2.2, the port `PromptedDecoder`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from diffusers.models.embeddings import get_timestep_embedding

from understudy.backends.arrays import check_embeddings, check_prompts, fit_images, index_slices
from understudy.backends.diffusion.autoencoders import latent_decoder
from understudy.backends.diffusion.loading import (
    LEFT_OUT,
    read_pipeline,
    read_prior,
    rebuilt,
    text_pipeline,
)
from understudy.backends.diffusion.networks import Conditioned
from understudy.backends.diffusion.options import UnclipOptions
from understudy.backends.diffusion.pipeline_calls import call_pipeline, seeded
from understudy.backends.diffusion.pipelines import Pipelines
from understudy.backends.diffusion.text_conditioning import PromptEncoder
from understudy.backends.hub.hub_models import read_hub_config
from understudy.backends.hub.pretrained import licence_of
from understudy.backends.plugin import full_name, read_options
from understudy.core.errors import BackendError
from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Embeddings, Images, Seeds, Shape, Texts, Vocabulary

NoiseGenerators = list[torch.Generator]
PromptReader = Callable[[Embeddings], Texts]


class _Decoder(ABC):
    """What both families share: checks, batches, the length of embeddings, the size of images."""

    stochastic = True
    vocabulary: Vocabulary | None = None
    _prompt_reader: PromptReader | None = None

    def __init__(
        self,
        pipelines: Pipelines,
        pipeline: Any,
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
        self.sampling = pipelines.sampling
        self._pipelines, self._pipeline, self._options = pipelines, pipeline, options
        self._size = pipelines.size()
        if options.offload:
            pipeline.enable_model_cpu_offload(device=options.placement()[0])
        unit = False
        if encoder is not None:
            if encoder.dim != dim:
                raise BackendError(
                    f"{name} decodes embeddings of {dim} numbers, but {encoder.name} makes "
                    f"{encoder.dim}. Use the encoder it was trained with, which its folder may "
                    "hold: --encoder 'hf:MODEL?subfolder=image_encoder'"
                )
            unit = encoder.norm_bound is not None and abs(encoder.norm_bound - 1) < 1e-2
        self._scale = options.scale or (length if unit and length is not None else 1.0)

    def decode(self, embeddings: Embeddings, *, seeds: Seeds) -> Images:
        """(n, d) float32 to (n, height, width, channels) uint8, without a prompt."""
        check_embeddings(embeddings, self.dim, self.name)
        reader = self._prompt_reader
        prompts = [""] * len(embeddings) if reader is None else reader(embeddings)
        level = self._options.noise_level
        return self.decode_prompted(embeddings, prompts, seeds=seeds, noise_level=level)

    def decode_prompted(
        self, embeddings: Embeddings, prompts: Texts, *, seeds: Seeds, noise_level: int = 0
    ) -> Images:
        """(n, d) float32, n class prompts and n seeds to (n, height, width, channels) uint8."""
        check_embeddings(embeddings, self.dim, self.name)
        check_prompts(prompts, len(embeddings), self.name)
        if np.shape(seeds) != (len(embeddings),):
            raise BackendError(
                f"{self.name} takes one seed an embedding, found seeds of shape {np.shape(seeds)} "
                f"for {len(embeddings)} embeddings"
            )
        self._check_level(noise_level)
        out = np.empty((len(embeddings), *self.shape), dtype=np.uint8)
        for rows in index_slices(len(embeddings), self._options.batch):
            scaled = embeddings[rows].astype(np.float32) * np.float32(self._scale)
            noise = seeded(seeds[rows], "decode")
            values = torch.from_numpy(scaled)
            images = call_pipeline(
                self._pipeline,
                self.name,
                self._options.batch,
                **self._conditions(values, prompts[rows], noise, noise_level),
                generator=noise,
                **self._pipelines.schedule(),
                guidance_scale=self._pipelines.guidance(),
                height=self._size[0],
                width=self._size[1],
            )
            out[rows] = fit_images(images, self.shape)
        return out

    @abstractmethod
    def _check_level(self, level: int) -> None:
        """Refuse a noise level that the model has not."""

    @abstractmethod
    def _conditions(
        self, values: torch.Tensor, prompts: Texts, noise: NoiseGenerators, level: int
    ) -> dict[str, Any]:
        """Arguments of the pipeline's call for some embeddings and prompts."""


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
        self._network = Conditioned(unet, pipelines.network.config["in_channels"])
        if options.compile:
            unet.compile()
        pipeline = rebuilt(pipelines.ready("text"), unet=self._network)
        super().__init__(
            pipelines,
            pipeline,
            shape,
            options,
            name=name,
            licence=licence,
            dim=dim,
            length=length,
            encoder=encoder,
        )
        self._prompt_reader = prompt_reader
        self._mean, self._std, self._noising = mean, std, noising
        self._prompts = PromptEncoder(
            pipeline,
            negative=options.negative,
            guided=pipelines.guidance() > 1,
        )

    def _check_level(self, level: int) -> None:
        most = 0 if self._noising is None else int(self._noising.config["num_train_timesteps"]) - 1
        if not 0 <= level <= most:
            raise BackendError(f"{self.name}: noise_level is 0 to {most}, found {level}")

    def labels(self, embeddings: torch.Tensor, noise: NoiseGenerators, level: int) -> torch.Tensor:
        """(n, d) embeddings to (n, 2 d) labels: noised, with the noise level beside them."""
        levels = torch.full((len(embeddings),), level)
        if self._noising is not None:
            draws = torch.cat([torch.randn(1, self.dim, generator=source) for source in noise])
            whitened = (embeddings - self._mean) / self._std
            noised = self._noising.add_noise(whitened, timesteps=levels, noise=draws)
            embeddings = noised * self._std + self._mean
        level_embedding = get_timestep_embedding(
            levels, self.dim, flip_sin_to_cos=True, downscale_freq_shift=0
        )
        return torch.cat([embeddings, level_embedding], dim=1)

    def _conditions(
        self, values: torch.Tensor, prompts: Texts, noise: NoiseGenerators, level: int
    ) -> dict[str, Any]:
        self._network.given(labels=self.labels(values, noise, level))
        return self._prompts.conditioning(prompts)


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
            Pipelines(pipeline, options, name=name),
            pipeline,
            shape,
            options,
            name=name,
            licence=licence,
            dim=int(pipeline.unet.config["encoder_hid_dim"]),
            length=length,
            encoder=encoder,
        )
        self._blank = torch.zeros(1, self.dim) if blank is None else blank

    def _check_level(self, level: int) -> None:
        if level:
            raise BackendError(f"{self.name} has no noise levels: noise_level is 0, found {level}")

    def _conditions(
        self, values: torch.Tensor, prompts: Texts, noise: NoiseGenerators, level: int
    ) -> dict[str, Any]:
        embeds = values.to(self._pipeline._execution_device, self._pipeline.unet.dtype)
        blank = self._blank.to(embeds).expand_as(embeds)
        return {"image_embeds": embeds, "negative_image_embeds": blank}


def load_unclip_decoder(
    rest: str, shape: Shape, encoder: Encoder | None, options: Mapping[str, Any]
) -> Decoder:
    """UnCLIP or Kandinsky of image embeddings (`UnclipOptions`), else latents decoded."""
    kind, config = read_hub_config(rest, options.get("revision"))
    pipeline_class = str(config.get("_class_name")) if kind == "pipeline" else ""
    if pipeline_class.startswith("StableUnCLIP"):
        return _unclip(rest, shape, encoder, options)
    if pipeline_class == "KandinskyV22Pipeline":
        return _kandinsky(rest, shape, encoder, options)
    return latent_decoder(rest, shape, encoder, options)


def _unclip(
    rest: str, shape: Shape, encoder: Encoder | None, options: Mapping[str, Any]
) -> UnclipDecoder:
    read = read_options(options, UnclipOptions, name=f"hf:{rest}")
    name = full_name(f"hf:{rest}", read)
    # A StableUnCLIPPipeline's prior makes embeddings from texts: not needed to decode any.
    prior = ("prior", "prior_tokenizer", "prior_text_encoder", "prior_scheduler")
    whole = read_pipeline(rest, read, leave_out=(*LEFT_OUT, *prior))
    pipelines = Pipelines(text_pipeline(whole, name), read, name=name)
    return UnclipDecoder(
        pipelines,
        whole.unet,
        shape,
        read,
        name=name,
        licence=licence_of(rest, read.revision),
        normalizer=whole.image_normalizer,
        noising=whole.image_noising_scheduler,
        encoder=encoder,
    )


def _kandinsky(
    rest: str, shape: Shape, encoder: Encoder | None, options: Mapping[str, Any]
) -> KandinskyDecoder:
    read = read_options(options, UnclipOptions, name=f"hf:{rest}")
    length, blank = None, None
    if read.prior is not None:
        prior = read_prior(read.prior, read)
        mean, spread = prior.prior.clip_mean.detach(), prior.prior.clip_std.detach()
        length = float((mean**2 + spread**2).sum().sqrt())
        blank = prior.get_zero_embed(device=prior.device)
    return KandinskyDecoder(
        read_pipeline(rest, read),
        shape,
        read,
        name=full_name(f"hf:{rest}", read),
        licence=licence_of(rest, read.revision),
        length=length,
        blank=blank,
        encoder=encoder,
    )
