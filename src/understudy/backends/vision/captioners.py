"""``hf:MODEL`` as a captioner.

    hf:Salesforce/blip-image-captioning-base?prefix=a photo of
    hf:llava-hf/llava-interleave-qwen-0.5b-hf?prompt=Describe this room in one sentence.
    hf:openai/clip-vit-base-patch32?grammar=phrases.json

BLIP continues a prefix; a chat model that sees answers a prompt; a CLIP picks from a grammar of
phrases (`zero_shot`). Decoding is greedy, or a beam: the same image gives the same caption.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import torch
from PIL import Image

from understudy.backends.arrays import require_any_images, with_channels
from understudy.backends.hub.hub_models import HubOptions
from understudy.backends.hub.image_text import (
    CONTRASTIVE,
    HubEncoderOptions,
    HubTextEncoder,
    load_hub_encoder,
)
from understudy.backends.hub.preprocessing import read_preparation
from understudy.backends.hub.pretrained import (
    licence_of,
    load_network,
    load_processor,
    load_tokenizer,
    read_hub_json,
    running,
    wrong_kind,
)
from understudy.backends.hub.zero_shot import ZeroShotCaptioner
from understudy.backends.phrase_grammar import read_grammar
from understudy.backends.plugin import PositiveCount, full_name, read_options
from understudy.core.errors import BackendError
from understudy.core.independence import even_parts
from understudy.core.ports import Captioner
from understudy.core.types import Images

PROMPT = "Describe this image in one sentence."


@dataclass(frozen=True, slots=True)
class CaptionerOptions(HubOptions):
    """Options of a captioner that writes, besides those of `HubOptions`."""

    exact: ClassVar[bool] = True

    batch: PositiveCount = 8
    prefix: str = ""
    prompt: str = PROMPT
    tokens: PositiveCount = 48

    def __post_init__(self) -> None:
        HubOptions.__post_init__(self)
        if not self.prompt.strip():
            raise ValueError("prompt is empty")


@dataclass(frozen=True, slots=True)
class ZeroShotOptions(HubEncoderOptions):
    """Options of a captioner that picks phrases, besides those of an encoder.

    Attributes:
        grammar: A JSON file of phrases; see `phrases`.
    """

    grammar: str | None = None


class WritingCaptioner:
    """What BLIP and chat models share: batches, one line a caption, none empty."""

    def __init__(self, model: str, options: CaptionerOptions, kind: Any) -> None:
        self.name = full_name(f"hf:{model}", options)
        self.licence = licence_of(model, options.revision)
        self._options = options
        self._network: Any = load_network(kind, model, options, port="captioner")
        if options.compile:
            self._network.forward = torch.compile(self._network.forward)

    def caption(self, images: Images) -> list[str]:
        """One caption an image.

        Raises:
            BackendError: No images, or an image about which the model says nothing.
        """
        require_any_images(images, self.name)
        captions: list[str] = []
        for rows, part in even_parts(images, self._options.batch):
            captions += self._stripped_captions(part, fewest=1)[: rows.stop - rows.start]
        empty = [row for row, text in enumerate(captions) if not text]
        for row in empty:  # once more, and it may not stop at once
            (captions[row],) = self._stripped_captions(
                images[row : row + 1], fewest=min(8, self._options.tokens)
            )
        if not all(captions):
            raise BackendError(
                f"{self.name} says nothing about {captions.count('')} of {len(captions)} images; "
                "try another prompt or prefix"
            )
        return captions

    def _stripped_captions(self, images: Images, *, fewest: int) -> list[str]:
        with running(self._network, self._options):
            texts = self._write(with_channels(images, 3), fewest)
        return [" ".join(text.split()) for text in texts]

    def _write(self, images: Images, fewest: int) -> list[str]:
        raise NotImplementedError

    def _generate(self, fewest: int, **inputs: Any) -> torch.Tensor:
        """Tokens, by the likeliest way."""
        tokens: torch.Tensor = self._network.generate(
            **inputs,
            do_sample=False,
            num_beams=1,
            max_new_tokens=self._options.tokens,
            min_new_tokens=fewest,
        )
        return tokens


class BlipCaptioner(WritingCaptioner):
    """BLIP: continues a prefix."""

    def __init__(self, model: str, options: CaptionerOptions) -> None:
        from transformers import BlipForConditionalGeneration

        super().__init__(model, options, BlipForConditionalGeneration)
        self._tokenizer = load_tokenizer(model, options.revision, name=f"hf:{model}")
        self._preparation = read_preparation(model, revision=options.revision)
        size = self._network.config.vision_config.image_size
        self._preparation = self._preparation.sized(size, size)

    def _write(self, images: Images, fewest: int) -> list[str]:
        device, dtype = self._options.placement()
        inputs: dict[str, Any] = {"pixel_values": self._preparation(images, device, dtype)}
        if self._options.prefix:
            prefix = self._tokenizer([self._options.prefix] * len(images), return_tensors="pt")
            inputs["input_ids"] = prefix["input_ids"].to(device)
            inputs["attention_mask"] = prefix["attention_mask"].to(device)
        tokens = self._generate(fewest, **inputs)
        return list(self._tokenizer.batch_decode(tokens, skip_special_tokens=True))


class ChatCaptioner(WritingCaptioner):
    """A chat model that sees: answers a prompt about each image."""

    def __init__(self, model: str, options: CaptionerOptions) -> None:
        from transformers import AutoModelForImageTextToText

        self._processor = load_processor(model, options)
        if not getattr(self._processor, "chat_template", None):
            raise BackendError(
                f"hf:{model} has no chat template, so it cannot be asked; captioners are BLIP, "
                "chat models that see, and CLIP or SigLIP with a grammar"
            )
        super().__init__(model, options, AutoModelForImageTextToText)
        tokenizer = self._processor.tokenizer
        tokenizer.padding_side = "left"  # answers begin where the prompts end
        greedy = self._network.generation_config
        # Settings of sampling, which greedy decoding would complain about.
        greedy.do_sample, greedy.temperature, greedy.top_p, greedy.top_k = False, None, None, None
        if greedy.pad_token_id is None:
            greedy.pad_token_id = tokenizer.pad_token_id or tokenizer.eos_token_id
        content = [{"type": "image"}, {"type": "text", "text": options.prompt}]
        self._prompt: str = self._processor.apply_chat_template(
            [{"role": "user", "content": content}], add_generation_prompt=True, tokenize=False
        )

    def _write(self, images: Images, fewest: int) -> list[str]:
        device, dtype = self._options.placement()
        prefix = self._options.prefix
        inputs = self._processor(
            images=[[Image.fromarray(image)] for image in images],
            text=[self._prompt + prefix] * len(images),
            padding=True,
            return_tensors="pt",
        ).to(device, dtype)
        tokens = self._generate(fewest, **inputs)[:, inputs["input_ids"].shape[1] :]
        answers = self._processor.tokenizer.batch_decode(tokens, skip_special_tokens=True)
        return [prefix + answer if answer.strip() else "" for answer in answers]


def load_captioner(rest: str, options: Mapping[str, Any]) -> Captioner:
    """The captioner of a model of the hub: `CaptionerOptions`, of CLIP `ZeroShotOptions`."""
    name = f"hf:{rest}"
    revision = options.get("revision")
    config = read_hub_json(rest, "config.json", revision=revision) or {}
    family = config.get("model_type")
    if family in CONTRASTIVE:
        return _zero_shot(rest, read_options(options, ZeroShotOptions, name=name))
    read = read_options(options, CaptionerOptions, name=name)
    if family == "blip":
        return BlipCaptioner(rest, read)
    from transformers.models.auto.modeling_auto import (
        MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES as KNOWN,
    )

    if family not in KNOWN:
        raise wrong_kind(name, "captioner", config)
    return ChatCaptioner(rest, read)


def _zero_shot(rest: str, options: ZeroShotOptions) -> ZeroShotCaptioner:
    name = full_name(f"hf:{rest}", options)
    if options.grammar is None:
        raise BackendError(
            f"{name} picks captions from a grammar of phrases: add ?grammar=FILE.json "
            "(understudy.backends.phrase_grammar says what it holds)"
        )
    if not options.normalise:
        raise BackendError(f"{name}: normalise=false leaves out the texts that captions need")
    grammar = read_grammar(options.grammar)
    settings = {
        field.name: getattr(options, field.name)
        for field in fields(options)
        if field.name != "grammar"
    }
    encoder = load_hub_encoder(rest, None, settings)
    if not isinstance(encoder, HubTextEncoder):
        raise BackendError(f"{name} knows no texts, so it cannot caption")
    return ZeroShotCaptioner(encoder, grammar, name=name)
