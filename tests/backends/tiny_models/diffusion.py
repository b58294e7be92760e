"""Pipelines of the real architectures with tiny random weights, in the hub's format.

Images of 32 x 32, latents of 8 x 8 (a factor of 4), text embeddings of 32 numbers.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from diffusers import (
    AutoencoderDC,
    AutoencoderKL,
    AutoencoderRAE,
    AutoencoderTiny,
    ControlNetModel,
    DDIMScheduler,
    DDPMPipeline,
    DDPMScheduler,
    DiffusionPipeline,
    DiTPipeline,
    DiTTransformer2DModel,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    FlowMatchEulerDiscreteScheduler,
    FluxPipeline,
    FluxTransformer2DModel,
    KandinskyV22Pipeline,
    KandinskyV22PriorPipeline,
    PixArtSigmaPipeline,
    PixArtTransformer2DModel,
    PriorTransformer,
    SD3Transformer2DModel,
    StableDiffusion3Pipeline,
    StableDiffusionInpaintPipeline,
    StableDiffusionPipeline,
    StableDiffusionXLPipeline,
    StableUnCLIPImg2ImgPipeline,
    UnCLIPScheduler,
    UNet2DConditionModel,
    UNet2DModel,
    VQModel,
)
from diffusers.pipelines.stable_diffusion.stable_unclip_image_normalizer import (
    StableUnCLIPImageNormalizer,
)
from tests.backends.tiny_models.clip import CLIP_PIXELS
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (
    CLIPTextConfig,
    CLIPTextModel,
    CLIPTextModelWithProjection,
    CLIPTokenizer,
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
    PreTrainedTokenizerFast,
    T5Config,
    T5EncoderModel,
)

from understudy.backends.diffusion.generators import DiffusionGenerator
from understudy.backends.diffusion.loading import stable_diffusion as plain_pipeline
from understudy.backends.diffusion.options import GeneratorOptions
from understudy.backends.diffusion.pipelines import Pipelines
from understudy.backends.hub.pretrained import quiet

SIZE = 32
EMBEDDING = 32  # numbers of an image embedding
TRANSFORMER = {
    "hidden_size": 32,
    "intermediate_size": 37,
    "projection_dim": EMBEDDING,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
}
BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
CARD = "---\nlicense: apache-2.0\n---\n# Random weights, for tests\n"


def tokenizer() -> CLIPTokenizer:
    """CLIP's, with bytes for a vocabulary and no merges."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces = [*alphabet, *(f"{piece}</w>" for piece in alphabet)]
    pieces += ["<|startoftext|>", "<|endoftext|>"]
    vocabulary = {piece: index for index, piece in enumerate(pieces)}
    return CLIPTokenizer(vocab=vocabulary, merges=[], model_max_length=77)


def text_config(**changes: Any) -> CLIPTextConfig:
    tokens = {"vocab_size": 514, "bos_token_id": 512, "eos_token_id": 513, "pad_token_id": 513}
    return CLIPTextConfig(**{**tokens, **TRANSFORMER, **changes})


def vae(latent: int = 4, **changes: Any) -> AutoencoderKL:
    return AutoencoderKL(
        block_out_channels=[8, 8, 8],
        in_channels=3,
        out_channels=3,
        down_block_types=["DownEncoderBlock2D"] * 3,
        up_block_types=["UpDecoderBlock2D"] * 3,
        latent_channels=latent,
        norm_num_groups=4,
        sample_size=SIZE,
        **changes,
    )


def tiny_vae(latent: int = 8) -> AutoencoderTiny:
    return AutoencoderTiny(
        latent_channels=latent,
        encoder_block_out_channels=(8, 8, 8),
        decoder_block_out_channels=(8, 8, 8),
        num_encoder_blocks=(1, 1, 1),
        num_decoder_blocks=(1, 1, 1),
    )


def deep_compression() -> AutoencoderDC:
    widths = (8, 8, 16)
    return AutoencoderDC(
        latent_channels=4,
        encoder_block_out_channels=widths,
        decoder_block_out_channels=widths,
        encoder_layers_per_block=(0, 1, 1),
        decoder_layers_per_block=(0, 1, 1),
        encoder_qkv_multiscales=((),) * 3,
        decoder_qkv_multiscales=((),) * 3,
    )


def unet(**changes: Any) -> UNet2DConditionModel:
    return UNet2DConditionModel(
        **{
            "block_out_channels": (8, 16),
            "layers_per_block": 1,
            "sample_size": SIZE // 4,
            "in_channels": 4,
            "out_channels": 4,
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
            "cross_attention_dim": 32,
            "attention_head_dim": 4,
            "norm_num_groups": 4,
            **changes,
        }
    )


def unclip_unet(**changes: Any) -> UNet2DConditionModel:
    return unet(
        class_embed_type="projection",
        projection_class_embeddings_input_dim=2 * EMBEDDING,
        **changes,
    )


def controlnet(of: UNet2DConditionModel) -> ControlNetModel:
    """A ControlNet whose hints count: its zero convolutions are drawn anew."""
    net = ControlNetModel.from_unet(of, conditioning_embedding_out_channels=(4, 8, 8))
    for name, weight in net.named_parameters():
        if "controlnet" in name:
            torch.nn.init.normal_(weight, std=0.2)
    return net


def solver(**changes: Any) -> DPMSolverMultistepScheduler:
    return DPMSolverMultistepScheduler(**BETAS, steps_offset=1, **changes)


def scheduler() -> EulerDiscreteScheduler:
    return EulerDiscreteScheduler(**BETAS, steps_offset=1, timestep_spacing="leading")


def image_encoder() -> CLIPVisionModelWithProjection:
    config = CLIPVisionConfig(**TRANSFORMER, image_size=SIZE, patch_size=8)
    return CLIPVisionModelWithProjection(config)


def texts() -> dict[str, Any]:
    """The parts of a pipeline that read a prompt."""
    return {"text_encoder": CLIPTextModel(text_config()), "tokenizer": tokenizer()}


def projected(number: str = "", **changes: Any) -> dict[str, Any]:
    """The same with a projection, for a pipeline that has several."""
    encoder = CLIPTextModelWithProjection(text_config(**changes))
    return {f"text_encoder{number}": encoder, f"tokenizer{number}": tokenizer()}


def stable_diffusion() -> StableDiffusionPipeline:
    return StableDiffusionPipeline(
        vae=vae(),
        **texts(),
        unet=unet(),
        scheduler=scheduler(),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )


def ddpm() -> DDPMPipeline:
    """Grey pixels, eight a side, and no classes."""
    network = UNet2DModel(
        sample_size=8,
        in_channels=1,
        out_channels=1,
        block_out_channels=(8, 8),
        layers_per_block=1,
        norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"),
        up_block_types=("AttnUpBlock2D", "UpBlock2D"),
        attention_head_dim=4,
    )
    return DDPMPipeline(network, DDPMScheduler())


def dit() -> DiTPipeline:
    transformer = DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=8,
        in_channels=4,
        out_channels=8,
        num_layers=1,
        sample_size=SIZE // 4,
        num_embeds_ada_norm=5,
    )
    with torch.no_grad():  # a new one answers zero
        for part in transformer.parameters():
            part.add_(0.1 * torch.randn_like(part))
    return DiTPipeline(transformer, vae(), DDIMScheduler(**BETAS))


def inpainting() -> StableDiffusionInpaintPipeline:
    parts = stable_diffusion().components | {"unet": unet(in_channels=9)}
    return StableDiffusionInpaintPipeline(**parts, requires_safety_checker=False)


def sdxl() -> StableDiffusionXLPipeline:
    return StableDiffusionXLPipeline(
        vae=vae(),
        **texts(),
        **projected("_2", hidden_act="gelu"),
        unet=unet(
            cross_attention_dim=64,
            addition_embed_type="text_time",
            addition_time_embed_dim=8,
            projection_class_embeddings_input_dim=80,
            transformer_layers_per_block=(1, 1),
            use_linear_projection=True,
        ),
        scheduler=scheduler(),
        add_watermarker=False,
    )


def unclip() -> StableUnCLIPImg2ImgPipeline:
    normalizer = StableUnCLIPImageNormalizer(embedding_dim=EMBEDDING)
    with torch.no_grad():
        normalizer.mean.normal_(std=0.1)
        normalizer.std.uniform_(0.5, 1.0)
    return StableUnCLIPImg2ImgPipeline(
        feature_extractor=None,
        image_encoder=image_encoder(),
        image_normalizer=normalizer,
        image_noising_scheduler=DDPMScheduler(beta_schedule="squaredcos_cap_v2"),
        **texts(),
        unet=unclip_unet(),
        scheduler=solver(prediction_type="v_prediction"),
        vae=vae(),
    )


def kandinsky() -> KandinskyV22Pipeline:
    decoder = unet(
        block_out_channels=(8, 16),
        out_channels=8,
        addition_embed_type="image",
        encoder_hid_dim_type="image_proj",
        encoder_hid_dim=EMBEDDING,
        cross_attention_dim=16,
        down_block_types=("ResnetDownsampleBlock2D", "SimpleCrossAttnDownBlock2D"),
        mid_block_type="UNetMidBlock2DSimpleCrossAttn",
        up_block_types=("SimpleCrossAttnUpBlock2D", "ResnetUpsampleBlock2D"),
        resnet_time_scale_shift="scale_shift",
        class_embed_type=None,
    )
    movq = VQModel(
        block_out_channels=[32, 32, 32],  # its norms have 32 groups
        down_block_types=["DownEncoderBlock2D"] * 3,
        up_block_types=["UpDecoderBlock2D"] * 3,
        latent_channels=4,
        num_vq_embeddings=12,
        vq_embed_dim=4,
        norm_type="spatial",
    )
    noise = DDPMScheduler(beta_start=0.00085, beta_end=0.012, clip_sample=False)
    return KandinskyV22Pipeline(unet=decoder, scheduler=noise, movq=movq)


def kandinsky_prior() -> KandinskyV22PriorPipeline:
    prior = PriorTransformer(
        num_attention_heads=2, attention_head_dim=12, embedding_dim=EMBEDDING, num_layers=1
    )
    with torch.no_grad():
        prior.clip_std.fill_(0.5)  # zeros would forget everything
    return KandinskyV22PriorPipeline(
        prior=prior,
        image_encoder=image_encoder(),
        **projected(),
        scheduler=UnCLIPScheduler(
            variance_type="fixed_small_log", prediction_type="sample", clip_sample_range=10.0
        ),
        image_processor=None,
    )


FLOW = {"shift_factor": 0.06, "use_quant_conv": False, "use_post_quant_conv": False}


def sd3() -> StableDiffusion3Pipeline:
    return StableDiffusion3Pipeline(
        transformer=SD3Transformer2DModel(
            sample_size=SIZE // 4,
            patch_size=1,
            in_channels=16,
            num_layers=1,
            attention_head_dim=8,
            num_attention_heads=4,
            caption_projection_dim=32,
            joint_attention_dim=32,
            pooled_projection_dim=64,
            out_channels=16,
        ),
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=vae(16, **FLOW),
        **projected(),
        **projected("_2"),
        text_encoder_3=None,
        tokenizer_3=None,
    )


def t5_tokenizer() -> PreTrainedTokenizerFast:
    pieces = ["<pad>", "</s>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    whole = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[]))
    whole.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    whole.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=whole, pad_token="<pad>", eos_token="</s>", model_max_length=77
    )


def flux() -> FluxPipeline:
    t5 = T5Config(vocab_size=300, d_model=32, d_kv=8, d_ff=37, num_layers=1, num_heads=4)
    return FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(),
        vae=vae(16, **FLOW),
        **texts(),
        text_encoder_2=T5EncoderModel(t5),
        tokenizer_2=t5_tokenizer(),
        transformer=FluxTransformer2DModel(
            patch_size=1,
            in_channels=64,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=32,
            pooled_projection_dim=32,
            axes_dims_rope=[4, 4, 8],
        ),
    )


def pixart() -> PixArtSigmaPipeline:
    t5 = T5Config(vocab_size=300, d_model=32, d_kv=8, d_ff=37, num_layers=1, num_heads=4)
    transformer = PixArtTransformer2DModel(
        sample_size=32,  # the smallest that the pipeline knows
        num_layers=1,
        attention_head_dim=8,
        num_attention_heads=2,
        caption_channels=32,
        cross_attention_dim=16,
        use_additional_conditions=False,
    )
    return PixArtSigmaPipeline(
        tokenizer=t5_tokenizer(),
        text_encoder=T5EncoderModel(t5),
        vae=vae(),
        transformer=transformer,
        scheduler=DPMSolverMultistepScheduler(),
    )


def rae() -> AutoencoderRAE:
    return AutoencoderRAE(
        encoder_type="mae",
        encoder_hidden_size=64,
        encoder_patch_size=4,
        encoder_num_hidden_layers=1,
        decoder_hidden_size=32,
        decoder_num_hidden_layers=1,
        decoder_num_attention_heads=2,
        decoder_intermediate_size=64,
        patch_size=4,
        encoder_input_size=16,
        image_size=16,
    )


def edges() -> ControlNetModel:
    return controlnet(unet())


def studio_parts(seed: int) -> dict[str, Any]:
    """Parts of a small model with other latents than Stable Diffusion's, as the embedded one."""
    with quiet(), torch.random.fork_rng():
        torch.manual_seed(seed)
        network = unclip_unet(in_channels=8, out_channels=8)
        return {
            "vae": tiny_vae(8).eval(),
            "text_encoder": CLIPTextModel(text_config()).eval(),
            "tokenizer": tokenizer(),
            "unet": network.eval(),
            "inpainting": unet(in_channels=17, out_channels=8).eval(),
            "edges": controlnet(network).eval(),
        }


def plain_text_pipeline(parts: dict[str, Any]) -> StableDiffusionPipeline:
    names = ("vae", "text_encoder", "tokenizer", "unet")
    with quiet():
        return plain_pipeline(
            **{name: parts[name] for name in names},
            scheduler=DPMSolverMultistepScheduler(
                prediction_type="v_prediction",
                timestep_spacing="trailing",
                rescale_betas_zero_snr=True,
                beta_schedule="squaredcos_cap_v2",
            ),
        )


def studio_generator(parts: dict[str, Any], **changes: Any) -> DiffusionGenerator:
    options = GeneratorOptions(**{"batch": 4, "steps": 2, **changes})
    pipelines = Pipelines(
        plain_text_pipeline(parts),
        options,
        name="tiny",
        inpainting=parts["inpainting"],
        controlnets={"edges": parts["edges"]},
    )
    return DiffusionGenerator(pipelines, options, name="tiny", licence="none")


BUILDERS: dict[str, Callable[[], Any]] = {
    "sd15": stable_diffusion,
    "sd15-inpainting": inpainting,
    "sdxl": sdxl,
    "sd21-unclip": unclip,
    "kandinsky-decoder": kandinsky,
    "kandinsky-prior": kandinsky_prior,
    "sd3": sd3,
    "flux": flux,
    "pixart": pixart,
    "ddpm": ddpm,
    "dit": dit,
    "edges": edges,
    "kl": vae,
    "tiny": tiny_vae,
    "dc": deep_compression,
    "rae": rae,
}


def saved(kind: str, folder: Path) -> Path:
    """A model of ``kind`` in ``folder``; its weights are the same every time."""
    place = folder / kind
    if not place.exists():
        with quiet(), torch.random.fork_rng():
            torch.manual_seed(5)
            made = BUILDERS[kind]()
            made.save_pretrained(place, safe_serialization=True)
        (place / "README.md").write_text(CARD)
        if kind == "sd21-unclip":
            (place / "feature_extractor").mkdir()
            told = json.dumps(CLIP_PIXELS)
            (place / "feature_extractor" / "preprocessor_config.json").write_text(told)
        assert isinstance(made, DiffusionPipeline | torch.nn.Module)
    return place
