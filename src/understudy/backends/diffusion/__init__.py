"""Pictures by diffusers: generators, unCLIP decoders and autoencoders in the hub's format.

    hf:stabilityai/sdxl-turbo?steps=1&guidance=0&size=512
    hf:sd2-community/stable-diffusion-2-1-unclip?scheduler=DPMSolverMultistepScheduler&steps=12
    hf:stable-diffusion-v1-5/stable-diffusion-v1-5?controlnet=edges:lllyasviel/sd-controlnet-canny

Pipelines are loaded once, from safetensors only, and run in batches: prompt embeddings of repeated
prompts are kept, images are encoded in one go, and row i draws its noise from the seed and i.
"""

from understudy.backends.diffusion.anti_memorisation import (
    AntiMemorisationGenerator,
    AntiMemorisationOptions,
)
from understudy.backends.diffusion.autoencoders import (
    AutoencoderDecoder,
    AutoencoderEncoder,
    latent_encoder,
)
from understudy.backends.diffusion.generators import DiffusionGenerator
from understudy.backends.diffusion.loaders import encoder_for, load_generator, load_unclip_decoder
from understudy.backends.diffusion.loading import stable_diffusion
from understudy.backends.diffusion.networks import Conditioned, without_image_conditioning
from understudy.backends.diffusion.options import (
    DenoisingOptions,
    GeneratorOptions,
    LatentOptions,
    UnclipOptions,
)
from understudy.backends.diffusion.pipelines import Pipelines, open_pipelines
from understudy.backends.diffusion.unclip import KandinskyDecoder, UnclipDecoder

__all__ = [
    "AntiMemorisationGenerator",
    "AntiMemorisationOptions",
    "AutoencoderDecoder",
    "AutoencoderEncoder",
    "Conditioned",
    "DenoisingOptions",
    "DiffusionGenerator",
    "GeneratorOptions",
    "KandinskyDecoder",
    "LatentOptions",
    "Pipelines",
    "UnclipDecoder",
    "UnclipOptions",
    "encoder_for",
    "latent_encoder",
    "load_generator",
    "load_unclip_decoder",
    "open_pipelines",
    "stable_diffusion",
    "without_image_conditioning",
]
