"""Prompts to what a pipeline is told: embeddings where the family lets us keep them."""

from __future__ import annotations

import inspect
from typing import Any

import torch

from understudy.backends.hub.pretrained import quiet
from understudy.core.types import Texts

_PAIR = ("prompt_embeds", "negative_prompt_embeds")
_POOLED = (*_PAIR, "pooled_prompt_embeds", "negative_pooled_prompt_embeds")

_KEPT = {
    "StableDiffusionPipeline": _PAIR,
    "StableDiffusionXLPipeline": _POOLED,
    "StableDiffusion3Pipeline": _POOLED,
    "FluxPipeline": ("prompt_embeds", "pooled_prompt_embeds"),
}
"""Families whose prompts become rows of one shape, by the names of what `encode_prompt` gives."""


class PromptEncoder:
    """What a pipeline is told for a batch of prompts; equal ones are embedded once."""

    def __init__(self, pipeline: Any, *, negative: str | None, guided: bool) -> None:
        self._pipeline, self._negative, self._guided = pipeline, negative, guided
        self._names = _KEPT.get(type(pipeline).__name__)

    def conditioning(self, prompts: Texts, negative: str | None = None) -> dict[str, Any]:
        """Arguments of a pipeline's call for n prompts, beside a negative one if that is given."""
        negative = self._negative if negative is None else negative
        if self._names is None:
            arguments: dict[str, Any] = {"prompt": list(prompts)}
            if negative is not None:
                arguments["negative_prompt"] = [negative] * len(prompts)
            return arguments
        distinct = list(dict.fromkeys(prompts))
        rows = [distinct.index(prompt) for prompt in prompts]
        parts = self._encode(distinct, negative)[: len(self._names)]
        named = zip(self._names, parts, strict=True)
        return {name: part[rows] for name, part in named if part is not None}

    def _encode(self, prompts: list[str], negative: str | None) -> tuple[Any, ...]:
        encode = self._pipeline.encode_prompt
        options = {
            "prompt": prompts,
            "prompt_2": None,
            "prompt_3": None,
            "device": self._pipeline._execution_device,
            "num_images_per_prompt": 1,
            "do_classifier_free_guidance": self._guided,
            "negative_prompt": None if negative is None else [negative] * len(prompts),
        }
        parameters = inspect.signature(encode).parameters
        with torch.no_grad(), quiet():  # a note on every prompt that is cut
            return tuple(encode(**{key: options[key] for key in options if key in parameters}))
