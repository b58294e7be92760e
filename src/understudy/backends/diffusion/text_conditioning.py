"""Prompts to what a pipeline is told: embeddings where the family lets us keep them."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from understudy.backends.arrays import index_slices
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

_BYTES = 256 * 2**20  # of embeddings kept; one prompt of SDXL takes about 0.6 MB with its negative

PromptTensors = tuple[torch.Tensor | None, ...]


class PromptEncoder:
    """What a pipeline is told for some prompts; the embeddings of repeated ones are kept."""

    def __init__(self, pipeline: Any, *, negative: str | None, guided: bool, batch: int) -> None:
        self._pipeline, self._negative = pipeline, negative
        self._guided, self._batch = guided, batch
        self._names = _KEPT.get(type(pipeline).__name__)
        self._rows: dict[tuple[str, str | None], PromptTensors] = {}

    def conditioning(self, prompts: Texts, negative: str | None = None) -> dict[str, Any]:
        """Arguments of a pipeline's call for n prompts, beside a negative one if that is given."""
        negative = self._negative if negative is None else negative
        if self._names is None:
            arguments: dict[str, Any] = {"prompt": list(prompts)}
            if negative is not None:
                arguments["negative_prompt"] = [negative] * len(prompts)
            return arguments
        rows = self._embedded(prompts, negative)
        columns = zip(*(rows[prompt] for prompt in prompts), strict=True)
        return {
            name: torch.stack(list(column))
            for name, column in zip(self._names, columns, strict=True)
            if column[0] is not None
        }

    def _embedded(self, prompts: Texts, negative: str | None) -> dict[str, PromptTensors]:
        """A row for each different prompt; those asked for last are kept."""
        distinct = list(dict.fromkeys(prompts))
        rows = {
            prompt: self._rows.pop((prompt, negative))
            for prompt in distinct
            if (prompt, negative) in self._rows
        }
        new = [prompt for prompt in distinct if prompt not in rows]
        for part in index_slices(len(new), self._batch):
            rows.update(zip(new[part], self._encode(new[part], negative), strict=True))
        self._rows.update({(prompt, negative): row for prompt, row in rows.items()})
        some = next(iter(rows.values()), ())
        size = sum(part.nbytes for part in some if part is not None)
        for oldest in list(self._rows)[: -max(1, _BYTES // max(1, size))]:
            del self._rows[oldest]
        return rows

    def _encode(self, prompts: Sequence[str], negative: str | None) -> list[PromptTensors]:
        encode = self._pipeline.encode_prompt
        options = {
            "prompt": list(prompts),
            "prompt_2": None,
            "prompt_3": None,
            "device": self._pipeline._execution_device,
            "num_images_per_prompt": 1,
            "do_classifier_free_guidance": self._guided,
            "negative_prompt": None if negative is None else [negative] * len(prompts),
        }
        parameters = inspect.signature(encode).parameters
        with torch.no_grad(), quiet():  # a note on every prompt that is cut
            encoding = encode(**{key: value for key, value in options.items() if key in parameters})
        encoding = encoding[: len(self._names or ())]
        # Each row stands alone: a view would keep the whole batch it was embedded with.
        return [
            tuple(None if part is None else part[row].clone() for part in encoding)
            for row in range(len(prompts))
        ]
