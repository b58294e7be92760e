"""From a name to a generator or a decoder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from understudy.backends.diffusion.autoencoders import AUTOENCODER_CLASSES, latent_decoder
from understudy.backends.diffusion.generators import DiffusionGenerator
from understudy.backends.diffusion.loading import (
    DIFFUSION_ALTERNATIVES,
    LEFT_OUT,
    licence_of,
    read_pipeline,
    read_prior,
    text_pipeline,
)
from understudy.backends.diffusion.options import GeneratorOptions, UnclipOptions
from understudy.backends.diffusion.pipelines import Pipelines, open_pipelines
from understudy.backends.diffusion.unclip import KandinskyDecoder, UnclipDecoder
from understudy.backends.hub.hub_models import read_hub_config
from understudy.backends.plugin import full_name, read_options
from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Shape


def load_generator(rest: str, options: Mapping[str, Any]) -> DiffusionGenerator:
    """A generator from any text-to-image pipeline of diffusers, an unCLIP one too."""
    read = read_options(options, GeneratorOptions, name=f"hf:{rest}")
    name = full_name(f"hf:{rest}", read)
    pipelines = open_pipelines(rest, read, name=name)
    return DiffusionGenerator(pipelines, read, name=name, licence=licence_of(rest, read.revision))


def load_unclip_decoder(
    rest: str, shape: Shape, encoder: Encoder | None, options: Mapping[str, Any]
) -> Decoder:
    """A decoder: unCLIP or Kandinsky of image embeddings, else the autoencoder of latents."""
    kind, config = read_hub_config(rest, options.get("revision"), instead=DIFFUSION_ALTERNATIVES)
    pipeline_class = str(config.get("_class_name"))
    if kind == "pipeline" and pipeline_class.startswith("StableUnCLIP"):
        return _unclip(rest, shape, encoder, options)
    if kind == "pipeline" and pipeline_class == "KandinskyV22Pipeline":
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


def encoder_for(rest: str, options: Mapping[str, Any]) -> str | None:
    """The name of the encoder that belongs to a decoder, where its folder tells.

    Returns:
        Its own name for an autoencoder; for unCLIP the image encoder in its folder; for Kandinsky
        that of its prior; None where nothing is known.
    """
    kind, config = read_hub_config(rest, options.get("revision"), instead=DIFFUSION_ALTERNATIVES)
    pipeline_class = str(config.get("_class_name"))
    if pipeline_class in AUTOENCODER_CLASSES:
        return f"hf:{rest}"
    home = rest
    if pipeline_class == "KandinskyV22Pipeline":
        home = str(options.get("prior") or "")
        if not home:
            return None
        kind, config = read_hub_config(home, None, instead=DIFFUSION_ALTERNATIVES)
    if kind != "pipeline" or not config.get("image_encoder"):
        return f"hf:{rest}" if config.get("vae") else None
    revision = options.get("revision") if home == rest else None
    at = f"&revision={revision}" if revision else ""
    return f"hf:{home}?subfolder=image_encoder{at}"
