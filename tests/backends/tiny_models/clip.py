"""Encoders of the real architectures with tiny random weights, in the hub's format."""

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    CLIPConfig,
    CLIPModel,
    CLIPVisionConfig,
    CLIPVisionModelWithProjection,
    Dinov2Config,
    Dinov2Model,
    PreTrainedModel,
    PreTrainedTokenizerFast,
    SiglipConfig,
    SiglipModel,
)

WORDS = (
    "a photo of a brown dog sleeping on a sofa, a person reading near the window, "
    "a bottle of medicine, a frame, black white spotted golden blue wall"
)
SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
CLIP_PIXELS = {
    "image_processor_type": "CLIPImageProcessor",
    "do_center_crop": True,
    "crop_size": {"height": 32, "width": 32},
    "size": {"shortest_edge": 32},
    "resample": 3,
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
SIGLIP_PIXELS = {
    "image_processor_type": "SiglipImageProcessor",
    "size": {"height": 32, "width": 32},
    "resample": 3,
    "image_mean": [0.5, 0.5, 0.5],
    "image_std": [0.5, 0.5, 0.5],
}
DINO_PIXELS = {
    "image_processor_type": "BitImageProcessor",
    "do_center_crop": True,
    "crop_size": {"height": 28, "width": 28},
    "size": {"shortest_edge": 32},
    "resample": 3,
    "image_mean": [0.485, 0.456, 0.406],
    "image_std": [0.229, 0.224, 0.225],
}


def bpe(*special: str, vocabulary: int = 400, template: tuple[str, str] | None = None) -> Tokenizer:
    """A byte-level BPE trained on `WORDS`; the special tokens come first, in their order."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.Lowercase() if template else None
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(special),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([WORDS], trainer)
    if template:
        start, end = template
        tokenizer.post_processor = processors.TemplateProcessing(
            single=f"{start} $A {end}",
            special_tokens=[(token, special.index(token)) for token in template],
        )
    return tokenizer


def save(network: PreTrainedModel, folder: Path, pixels: dict[str, Any] | None) -> Path:
    """A folder as the hub has it; random weights large enough that inputs make a difference."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() > 1:
                weight.normal_(0, (1 / weight[0].numel()) ** 0.5)
    network.eval().save_pretrained(folder)
    if pixels is not None:
        (folder / "preprocessor_config.json").write_text(json.dumps(pixels))
    return folder


def clip(folder: Path, *, longest: int = 16, size: int = 32) -> Path:
    tokenizer = bpe("<|start|>", "<|end|>", template=("<|start|>", "<|end|>"))
    ends = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
    text = {**SMALL, **ends, "max_position_embeddings": longest}
    config = CLIPConfig(
        text_config={**text, "vocab_size": tokenizer.get_vocab_size()},
        vision_config={**SMALL, "image_size": size, "patch_size": 8},
        projection_dim=24,
    )
    edges = {"crop_size": {"height": size, "width": size}, "size": {"shortest_edge": size}}
    save(CLIPModel(config), folder, {**CLIP_PIXELS, **edges})
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<|start|>",
        eos_token="<|end|>",
        pad_token="<|end|>",
        model_max_length=longest,
    )
    fast.save_pretrained(folder)
    (folder / "README.md").write_text("---\ntags: []\nlicense: mit\n---\n# A tiny CLIP\n")
    return folder


def siglip(folder: Path, *, longest: int = 16) -> Path:
    tokenizer = bpe("<pad>", "<eos>", "<unk>")
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A <eos>", special_tokens=[("<eos>", 1)]
    )
    ends = {"bos_token_id": 1, "eos_token_id": 1, "pad_token_id": 0}
    words = {**SMALL, **ends, "vocab_size": tokenizer.get_vocab_size(), "projection_size": 32}
    config = SiglipConfig(
        text_config={**words, "max_position_embeddings": longest},
        vision_config={**SMALL, "image_size": 32, "patch_size": 8},
    )
    save(SiglipModel(config), folder, SIGLIP_PIXELS)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token="<eos>", pad_token="<pad>", unk_token="<unk>"
    ).save_pretrained(folder)
    return folder


def dino(folder: Path) -> Path:
    config = Dinov2Config(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=2, image_size=28, patch_size=7
    )
    return save(Dinov2Model(config), folder, DINO_PIXELS)


def tower(folder: Path, pixels: dict[str, Any] | None = CLIP_PIXELS) -> Path:
    config = CLIPVisionConfig(**SMALL, image_size=32, patch_size=8, projection_dim=24)
    return save(CLIPVisionModelWithProjection(config), folder, pixels)


def pipeline_with_tower(folder: Path) -> Path:
    """As in an unCLIP pipeline: the processor lies in a folder beside the network."""
    tower(folder / "image_encoder", pixels=None)
    (folder / "feature_extractor").mkdir()
    told = json.dumps(CLIP_PIXELS)
    (folder / "feature_extractor" / "preprocessor_config.json").write_text(told)
    parts = {"image_encoder": ["transformers", "CLIPVisionModelWithProjection"]}
    index = {"_class_name": "StableUnCLIPPipeline", **parts}
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder
