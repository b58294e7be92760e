"""Captioners, segmenters, detectors and pose estimators with tiny random weights."""

from pathlib import Path
from typing import Any

from tests.backends.tiny_models.clip import CLIP_PIXELS, SMALL, bpe, save
from transformers import (
    BlipConfig,
    BlipForConditionalGeneration,
    CLIPImageProcessorPil,
    DetrConfig,
    DetrForObjectDetection,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
    Mask2FormerConfig,
    Mask2FormerForUniversalSegmentation,
    PreTrainedTokenizerFast,
    ResNetConfig,
    RTDetrConfig,
    RTDetrForObjectDetection,
    RTDetrResNetConfig,
    SegformerConfig,
    SegformerForSemanticSegmentation,
    SwinConfig,
    VitPoseBackboneConfig,
    VitPoseConfig,
    VitPoseForPoseEstimation,
)

CLASSES = ("background", "dog", "person", "bottle", "frame")
KEYPOINTS = ("nose", "left_hand", "right_hand", "left_foot", "right_foot")
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
CHAT = (
    "{% for m in messages %}{{ m['role'] }}: {% for c in m['content'] %}"
    "{% if c['type'] == 'image' %}IMAGE{% else %}{{ c['text'] }}{% endif %}{% endfor %}\n"
    "{% endfor %}{% if add_generation_prompt %}assistant: {% endif %}"
)
LANGUAGE = {
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
}


def labels(names: tuple[str, ...] = CLASSES) -> dict[str, Any]:
    return {
        "id2label": dict(enumerate(names)),
        "label2id": {name: index for index, name in enumerate(names)},
    }


def blip(folder: Path) -> Path:
    tokenizer = bpe("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[DEC]", template=("[CLS]", "[SEP]"))
    ends = {"bos_token_id": 4, "eos_token_id": 2, "sep_token_id": 2, "pad_token_id": 0}
    config = BlipConfig(
        text_config={
            **SMALL,
            **ends,
            "vocab_size": tokenizer.get_vocab_size(),
            "encoder_hidden_size": 32,
            "max_position_embeddings": 64,
        },
        vision_config={**SMALL, "image_size": 32, "patch_size": 8},
        projection_dim=16,
    )
    size = {"height": 32, "width": 32}
    pixels = {**CLIP_PIXELS, "image_processor_type": "BlipImageProcessor", "size": size}
    save(BlipForConditionalGeneration(config), folder, {**pixels, "do_center_crop": False})
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="[PAD]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        unk_token="[UNK]",
    ).save_pretrained(folder)
    return folder


def _chat_tokenizer(*special: str) -> PreTrainedTokenizerFast:
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe("<pad>", "<s>", "</s>", *special),
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
    )


def llava(folder: Path) -> Path:
    tokenizer = _chat_tokenizer("<image>")
    ends = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    config = LlavaConfig(
        vision_config={
            "model_type": "clip_vision_model",
            **SMALL,
            "image_size": 32,
            "patch_size": 8,
        },
        text_config={"model_type": "llama", **LANGUAGE, **ends, "vocab_size": len(tokenizer)},
        image_token_id=3,
        image_seq_length=16,
    )
    save(LlavaForConditionalGeneration(config), folder, None)
    edges = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    LlavaProcessor(
        image_processor=CLIPImageProcessorPil(**edges),
        tokenizer=tokenizer,
        patch_size=8,
        vision_feature_select_strategy="default",
        num_additional_image_tokens=1,
        chat_template=CHAT.replace("IMAGE", "<image>"),
    ).save_pretrained(folder)
    return folder


def segformer(folder: Path) -> Path:
    config = SegformerConfig(
        hidden_sizes=[8, 16, 16, 16],
        depths=[1, 1, 1, 1],
        num_attention_heads=[1, 2, 2, 2],
        decoder_hidden_size=16,
        **labels(),
    )
    size = {"height": 64, "width": 64}
    pixels = {"image_processor_type": "SegformerImageProcessor", "size": size, "resample": 2}
    return save(SegformerForSemanticSegmentation(config), folder, {**pixels, **IMAGENET})


def detr(folder: Path) -> Path:
    backbone = ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], out_features=["stage2"]
    )
    config = DetrConfig(
        backbone_config=backbone,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_queries=9,
        **labels(),
    )
    size = {"shortest_edge": 48, "longest_edge": 80}
    pixels = {"image_processor_type": "DetrImageProcessor", "size": size, "do_pad": True}
    return save(DetrForObjectDetection(config), folder, {**pixels, **IMAGENET})


def rt_detr(folder: Path) -> Path:
    backbone = RTDetrResNetConfig(
        embedding_size=8,
        hidden_sizes=[8, 8, 16, 16],
        depths=[1, 1, 1, 1],
        layer_type="basic",
        out_features=["stage2", "stage3", "stage4"],
    )
    config = RTDetrConfig(
        backbone_config=backbone,
        encoder_hidden_dim=16,
        encoder_in_channels=[8, 16, 16],
        feat_strides=[8, 16, 32],
        encoder_layers=1,
        encoder_ffn_dim=32,
        encoder_attention_heads=2,
        decoder_in_channels=[16, 16, 16],
        d_model=16,
        num_queries=9,
        decoder_layers=1,
        decoder_ffn_dim=32,
        decoder_attention_heads=2,
        decoder_n_points=2,
        hidden_expansion=1.0,
        **labels(),
    )
    size = {"height": 64, "width": 64}
    pixels = {"image_processor_type": "RTDetrImageProcessor", "size": size, "do_normalize": False}
    return save(RTDetrForObjectDetection(config), folder, pixels)


def mask2former(folder: Path) -> Path:
    swin = SwinConfig(
        image_size=64,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=4,
        out_features=["stage1", "stage2", "stage3", "stage4"],
    )
    sizes = dict.fromkeys(("hidden_dim", "encoder_feedforward_dim", "dim_feedforward"), 32)
    layers = {"encoder_layers": 1, "decoder_layers": 2, "num_attention_heads": 2, "num_queries": 6}
    config = Mask2FormerConfig(
        feature_size=32, mask_feature_size=32, backbone_config=swin, **sizes, **layers, **labels()
    )
    size = {"shortest_edge": 64, "longest_edge": 96}
    pixels = {"image_processor_type": "Mask2FormerImageProcessor", "size": size, "size_divisor": 32}
    return save(Mask2FormerForUniversalSegmentation(config), folder, {**pixels, **IMAGENET})


def vitpose(folder: Path) -> Path:
    backbone = VitPoseBackboneConfig(
        image_size=[64, 48],
        patch_size=[16, 16],
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        mlp_ratio=2,
        out_indices=[2],
    )
    config = VitPoseConfig(backbone_config=backbone, **labels(KEYPOINTS))
    size = {"height": 64, "width": 48}
    pixels = {"image_processor_type": "VitPoseImageProcessor", "size": size, **IMAGENET}
    return save(VitPoseForPoseEstimation(config), folder, pixels)
