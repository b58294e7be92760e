"""Images a second of text-to-image and unCLIP, in batches, against plain calls of the pipeline.

Networks of the real sizes (Stable Diffusion 2.1 unCLIP at 768, SDXL at 1024) with random weights:
speed does not depend on what they have learnt, and nothing is downloaded. The plain call is one
prompt after the other through the pipeline of diffusers, in float32 as `from_pretrained` gives it
and in bfloat16; ours are the same steps in batches, and compiled. Needs a GPU; ``--tiny`` runs the
same with networks of a few thousand weights on any processor, to test the benchmark itself.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks.tables import Skipped, Table

STEPS, IMAGES, PLAIN = 20, 64, 4  # steps of each image; images of ours, of the plain calls
BATCHES = (1, 4, 16)

PLAN = """would draw with random weights of the real sizes, {steps} steps each, guidance on:
  text-to-image with SDXL at 1024 x 1024 and Stable Diffusion 2.1 unCLIP at 768 x 768,
  unCLIP (embedding to image) with Stable Diffusion 2.1 unCLIP at 768 x 768:
  plain calls at batch 1 in float32 and bfloat16; ours in batches of {batches} and compiled;
  images a second, peak memory, and how many times the plain call's speed"""

VAE: dict[str, Any] = {
    "in_channels": 3,
    "out_channels": 3,
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "block_out_channels": [128, 256, 512, 512],
    "layers_per_block": 2,
    "latent_channels": 4,
    "sample_size": 768,
}
UNCLIP_UNET: dict[str, Any] = {
    "sample_size": 96,
    "in_channels": 4,
    "out_channels": 4,
    "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
    "block_out_channels": [320, 640, 1280, 1280],
    "layers_per_block": 2,
    "attention_head_dim": [5, 10, 20, 20],
    "cross_attention_dim": 1024,
    "use_linear_projection": True,
    "class_embed_type": "projection",
    "projection_class_embeddings_input_dim": 2048,
}
SDXL_UNET: dict[str, Any] = {
    "sample_size": 128,
    "in_channels": 4,
    "out_channels": 4,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "CrossAttnUpBlock2D", "UpBlock2D"],
    "block_out_channels": [320, 640, 1280],
    "layers_per_block": 2,
    "attention_head_dim": [5, 10, 20],
    "transformer_layers_per_block": [1, 2, 10],
    "cross_attention_dim": 2048,
    "use_linear_projection": True,
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 2816,
}
CLIP_L = {"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12}
CLIP_H = {"hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 23}
CLIP_G = {"hidden_size": 1280, "intermediate_size": 5120, "num_hidden_layers": 32}
HEADS = {768: 12, 1024: 16, 1280: 20, 32: 4}

SMALL_VAE = {**VAE, "block_out_channels": [8, 8, 8, 8], "norm_num_groups": 4, "layers_per_block": 1}
SMALL_UNET: dict[str, Any] = {
    "sample_size": 4,
    "block_out_channels": [8, 16],
    "layers_per_block": 1,
    "norm_num_groups": 4,
    "attention_head_dim": 4,
    "down_block_types": ["DownBlock2D", "CrossAttnDownBlock2D"],
    "up_block_types": ["CrossAttnUpBlock2D", "UpBlock2D"],
}
SMALL_CLIP = {"hidden_size": 32, "intermediate_size": 37, "num_hidden_layers": 1}


def tokenizer() -> Any:
    """CLIP's kind, 77 tokens, with bytes for a vocabulary."""
    from tokenizers import pre_tokenizers
    from transformers import CLIPTokenizer

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, *(f"{piece}</w>" for piece in alphabet)]
    pieces += ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77)


def text_config(sizes: dict[str, int], projection: int) -> Any:
    from transformers import CLIPTextConfig

    return CLIPTextConfig(
        **sizes,
        num_attention_heads=HEADS[sizes["hidden_size"]],
        projection_dim=projection,
        vocab_size=49408,
        bos_token_id=512,
        eos_token_id=513,
        pad_token_id=513,
    )


def scheduler(prediction: str) -> Any:
    import torch
    from diffusers import DPMSolverMultistepScheduler

    with torch.device("cpu"):  # where schedulers keep their tables
        return DPMSolverMultistepScheduler(
            beta_start=0.00085,
            beta_end=0.012,
            beta_schedule="scaled_linear",
            prediction_type=prediction,
            steps_offset=1,
        )


def sdxl(tiny: bool) -> Any:
    """SDXL with random weights."""
    import diffusers
    from transformers import CLIPTextModel, CLIPTextModelWithProjection

    smaller = {"cross_attention_dim": 64, "projection_class_embeddings_input_dim": 80}
    smaller |= {"addition_time_embed_dim": 8, "transformer_layers_per_block": 1}
    unet = {**SDXL_UNET, **SMALL_UNET, **smaller} if tiny else SDXL_UNET
    first, second = (SMALL_CLIP, SMALL_CLIP) if tiny else (CLIP_L, CLIP_G)
    return diffusers.StableDiffusionXLPipeline(
        vae=diffusers.AutoencoderKL(**(SMALL_VAE if tiny else VAE), scaling_factor=0.13025),
        text_encoder=CLIPTextModel(text_config(first, 768)),
        text_encoder_2=CLIPTextModelWithProjection(text_config(second, 32 if tiny else 1280)),
        tokenizer=tokenizer(),
        tokenizer_2=tokenizer(),
        unet=diffusers.UNet2DConditionModel(**unet),
        scheduler=scheduler("epsilon"),
        add_watermarker=False,
    )


def unclip(tiny: bool) -> Any:
    """Stable Diffusion 2.1 unCLIP with random weights."""
    import diffusers
    import torch
    from diffusers.pipelines.stable_diffusion import stable_unclip_image_normalizer as normalizers
    from transformers import CLIPTextModel, CLIPVisionConfig, CLIPVisionModelWithProjection

    smaller = {"cross_attention_dim": 32, "projection_class_embeddings_input_dim": 64}
    unet = {**UNCLIP_UNET, **SMALL_UNET, **smaller} if tiny else UNCLIP_UNET
    dim = unet["projection_class_embeddings_input_dim"] // 2
    # The plain call asks for an image encoder only to learn its number format.
    watching = CLIPVisionConfig(
        hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=4
    )
    with torch.device("cpu"):
        noising = diffusers.DDPMScheduler(beta_schedule="squaredcos_cap_v2")
    return diffusers.StableUnCLIPImg2ImgPipeline(
        feature_extractor=None,
        image_encoder=CLIPVisionModelWithProjection(watching),
        image_normalizer=normalizers.StableUnCLIPImageNormalizer(dim),
        image_noising_scheduler=noising,
        tokenizer=tokenizer(),
        text_encoder=CLIPTextModel(text_config(SMALL_CLIP if tiny else CLIP_H, 512)),
        unet=diffusers.UNet2DConditionModel(**unet),
        scheduler=scheduler("v_prediction"),
        vae=diffusers.AutoencoderKL(**(SMALL_VAE if tiny else VAE)),
    )


@contextmanager
def on(device: str, build: Callable[[bool], Any], tiny: bool, dtype: str) -> Iterator[Any]:
    """A pipeline on a device, and the memory given back after."""
    import torch

    from understudy.backends.hub.pretrained import quiet

    with quiet(), torch.device(device):
        torch.manual_seed(0)
        pipeline = build(tiny).to(device, getattr(torch, dtype))
    pipeline.set_progress_bar_config(disable=True)
    try:
        yield pipeline
    finally:
        del pipeline  # the last name of it: those who borrowed it let go of it before
        gc.collect()
        if device == "cuda":
            torch.cuda.empty_cache()


def prompts(count: int) -> list[str]:
    """As many different prompts."""
    return [f"a photo of dog number {number} on a sofa" for number in range(count)]


def dim_of(pipeline: Any) -> int:
    """Numbers of an image embedding."""
    return int(pipeline.unet.config.projection_class_embeddings_input_dim) // 2


def plain(pipeline: Any, steps: int, embeddings: bool) -> Callable[[int], Any]:
    """One call of the pipeline an image, of the text or of an embedding."""
    import torch

    from understudy.backends.diffusion.loading import text_pipeline
    from understudy.backends.hub.pretrained import without_numpy_notes

    told: dict[str, Any] = {"num_inference_steps": steps, "guidance_scale": 5.0}
    if embeddings:
        weights = next(pipeline.unet.parameters())
        told["image_embeds"] = torch.randn(1, dim_of(pipeline)).to(weights)
    else:
        pipeline = text_pipeline(pipeline, "plain")
        pipeline.set_progress_bar_config(disable=True)

    def draw(count: int) -> None:
        for number, prompt in enumerate(prompts(min(count, PLAIN))):
            noise = torch.Generator().manual_seed(number)
            with without_numpy_notes():
                pipeline(prompt=prompt, generator=noise, **told)

    return draw


def ours(pipeline: Any, embeddings: bool, told: dict[str, Any]) -> Callable[[int], Any]:
    """All images in one call of this package's."""
    from understudy.backends.diffusion.generators import DiffusionGenerator
    from understudy.backends.diffusion.loading import text_pipeline
    from understudy.backends.diffusion.options import GeneratorOptions, UnclipOptions
    from understudy.backends.diffusion.pipelines import Pipelines
    from understudy.backends.diffusion.unclip import UnclipDecoder
    from understudy.backends.hub.pretrained import quiet

    options = GeneratorOptions(**told)
    with quiet():
        pipelines = Pipelines(text_pipeline(pipeline, "ours"), options, name="ours")
    if not embeddings:
        pictures = DiffusionGenerator(pipelines, options, name="ours", licence="none")
        return lambda count: pictures.generate(prompts(count))
    height, width = pipelines.size()
    decoder = UnclipDecoder(
        pipelines,
        pipeline.unet,
        (height, width, 3),
        UnclipOptions(**told),
        name="ours",
        licence="none",
        normalizer=pipeline.image_normalizer,
        noising=pipeline.image_noising_scheduler,
    )
    rows = np.random.default_rng(0).normal(size=(IMAGES, decoder.dim)).astype(np.float32)
    return lambda count: decoder.decode_prompted(
        rows[:count], prompts(count), seeds=np.arange(count, dtype=np.uint64)
    )


def measured(
    build: Callable[[bool], Any],
    make: Callable[[Any], Callable[[int], Any]],
    images: int,
    *,
    tiny: bool,
    dtype: str,
) -> tuple[float, float]:
    """Images a second, and the peak of the GPU's memory in GB, after a first draw.

    Nothing is kept, so that the next pipeline finds the GPU's memory empty.
    """
    import torch

    device = "cpu" if tiny else "cuda"
    with on(device, build, tiny, dtype) as pipeline:
        draw = make(pipeline)
        draw(min(images, BATCHES[-1]))
        if device == "cuda":
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        start = time.perf_counter()
        draw(images)
        if device == "cuda":
            torch.cuda.synchronize()
        seconds = time.perf_counter() - start
        peak = torch.cuda.max_memory_allocated() / 1e9 if device == "cuda" else 0.0
        del draw, pipeline
    return images / seconds, peak


def measure(title: str, build: Callable[[bool], Any], tiny: bool, *, embeddings: bool) -> None:
    """Print one table: the plain calls, then ours."""
    device, steps = ("cpu", 2) if tiny else ("cuda", STEPS)
    images, few = (4, 1) if tiny else (IMAGES, PLAIN)
    table = Table(title, ["", "images/s", "times", "peak GB"])
    base = 0.0
    for dtype in ("float32",) if tiny else ("float32", "bfloat16"):
        rate, peak = measured(
            build, lambda p: plain(p, steps, embeddings), few, tiny=tiny, dtype=dtype
        )
        base = base or rate
        table.row(f"plain call, {dtype}", rate, rate / base, peak)
    dtype = "float32" if tiny else "bfloat16"
    runs = [(4, False)] if tiny else [*((b, False) for b in BATCHES), (BATCHES[-1], True)]
    for batch, compiled in runs:
        told = {"device": device, "batch": batch, "steps": steps, "guidance": 5.0}
        told |= {"dtype": dtype, "compile": compiled}
        rate, peak = measured(
            build, lambda p, told=told: ours(p, embeddings, told), images, tiny=tiny, dtype=dtype
        )
        what = f"ours, batch {batch}, {dtype}{', compiled' if compiled else ''}"
        table.row(what, rate, rate / base, peak)


def main(tiny: bool = False) -> None:
    """Print the tables, or say what would be measured where there is no GPU."""
    try:
        import diffusers  # noqa: F401
        import torch
        import transformers  # noqa: F401
    except ImportError as error:
        raise Skipped("needs pip install 'understudy[models]'") from error
    if not tiny and not torch.cuda.is_available():
        told = ", ".join(map(str, BATCHES))
        raise Skipped(f"there is no GPU; it {PLAN.format(steps=STEPS, batches=told)}")
    where = "a processor, tiny networks" if tiny else torch.cuda.get_device_name()
    sizes = (32, 32) if tiny else (1024, 768)
    measure(
        f"Text to image, SDXL at {sizes[0]}, {where}; times the plain call in float32",
        sdxl,
        tiny,
        embeddings=False,
    )
    measure(f"Text to image, SD 2.1 unCLIP at {sizes[1]}, {where}", unclip, tiny, embeddings=False)
    measure(f"Embedding to image, SD 2.1 unCLIP at {sizes[1]}", unclip, tiny, embeddings=True)
