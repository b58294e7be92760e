"""Chat models of the hub as writers of captions: ``hf:meta-llama/Llama-3.1-8B-Instruct``.

    hf:Qwen/Qwen2.5-7B-Instruct?prompts=spti-lsun-bedroom&temperature=1.2
    hf:./my-model?prompts=./my-prompts.yaml&variation=blanks

Any causal language model with a chat template. Rows are answered in batches, and each row draws
its words with its own generator, so that an answer does not depend on who shares its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jinja2 import TemplateError
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    LogitsProcessor,
    LogitsProcessorList,
)

from understudy.backends.arrays import index_slices
from understudy.backends.chat.chat_writer import ChatWriter, SamplingOptions, whole_lines
from understudy.backends.chat.prompt_templates import Messages, load_prompts
from understudy.backends.hub.hub_models import HubOptions
from understudy.backends.hub.pretrained import (
    licence_of,
    load_network,
    load_tokenizer,
    quiet,
    running,
)
from understudy.backends.plugin import full_name, read_options
from understudy.core.errors import BackendError
from understudy.core.ports import Writer


@dataclass(frozen=True, slots=True)
class WriterOptions(SamplingOptions, HubOptions):
    """Options of a chat model that writes captions."""


def load_writer(rest: str, options: dict[str, Any]) -> Writer:
    """A chat model that writes captions."""
    name = f"hf:{rest}"
    read = read_options(options, WriterOptions, name=name)
    prompts = load_prompts(read.prompts)
    return ChatWriter(
        LocalChat(rest, read),
        prompts,
        name=full_name(name, read),
        licence=licence_of(rest, read.revision),
        tries=read.tries,
        variation=read.variation,
    )


class LocalChat:
    """A causal language model that answers conversations, in batches."""

    def __init__(self, model: str, options: WriterOptions) -> None:
        self._name, self._options = f"hf:{model}", options
        self._tokenizer = load_tokenizer(model, options.revision, name=self._name)
        if not getattr(self._tokenizer, "chat_template", None):
            raise BackendError(
                f"{self._name} is no chat model: its tokenizer has no chat template. Choose one "
                "made for instructions (often named -Instruct or -chat)"
            )
        self._tokenizer.padding_side = "left"
        if self._tokenizer.pad_token is None:
            self._tokenizer.pad_token = self._tokenizer.eos_token
        self._network = load_network(
            AutoModelForCausalLM, model, options, port="chat model that writes captions"
        )
        self._settings = self._generation()
        self._one_voice = False
        try:  # whether the chat template knows the role of the system; some refuse it
            self._render([[{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]])
        except TemplateError:
            self._one_voice = True

    def __call__(self, conversations: Sequence[Messages], seeds: Sequence[int]) -> list[str]:
        """One answer a conversation; each depends on its own conversation and seed."""
        answers: list[str] = []
        for rows in index_slices(len(conversations), self._options.batch):
            answers += self._answer(conversations[rows], seeds[rows])
        return answers

    def _answer(self, conversations: Sequence[Messages], seeds: Sequence[int]) -> list[str]:
        device, _ = self._options.placement()
        if self._one_voice:
            conversations = [_merged(conversation) for conversation in conversations]
        inputs = self._render(conversations)
        start = inputs["input_ids"].shape[1]
        sampler = RowSampler(
            seeds,
            start=start,
            tokens=self._options.tokens,
            temperature=self._options.temperature,
            top_p=self._options.top_p,
        )
        with running(self._network, self._options), quiet():
            written = self._network.generate(
                **{key: value.to(device) for key, value in inputs.items()},
                generation_config=self._settings,
                logits_processor=LogitsProcessorList([sampler]),
            )[:, start:].cpu()
        ends = torch.tensor(self._settings.eos_token_id).flatten()
        finished = torch.isin(written, ends).any(1).tolist()
        texts = self._tokenizer.batch_decode(written, skip_special_tokens=True)
        return [
            text if done else whole_lines(text) for text, done in zip(texts, finished, strict=True)
        ]

    def _render(self, conversations: Sequence[Messages]) -> dict[str, torch.Tensor]:
        with quiet():
            rendered: Any = self._tokenizer.apply_chat_template(
                list(conversations),
                add_generation_prompt=True,
                # Words of a caption must not be read as marks of whose turn it is.
                sanitize_control_tokens=True,
                padding=True,
                return_tensors="pt",
                return_dict=True,
                enable_thinking=False,  # a template that knows no such thing ignores it
            )
        return {key: rendered[key] for key in ("input_ids", "attention_mask")}

    def _generation(self) -> GenerationConfig:
        own: Any = self._network.generation_config
        ends = own.eos_token_id if own.eos_token_id is not None else self._tokenizer.eos_token_id
        if ends is None:
            raise BackendError(f"{self._name} has no token that ends an answer (eos_token)")
        # Everything that is not set here would be taken from the model's own file.
        for field in ("temperature", "top_p", "top_k", "max_length"):
            setattr(own, field, None)
        return GenerationConfig(
            do_sample=False,  # the sampler has drawn already
            num_beams=1,
            max_new_tokens=self._options.tokens,
            eos_token_id=ends,
            pad_token_id=self._tokenizer.pad_token_id,
            cache_implementation="static" if self._options.compile else None,
        )


class RowSampler(LogitsProcessor):  # type: ignore[misc]  # its base is Any
    """Draws the next word of each row with the row's own numbers (nucleus sampling).

    A temperature of 0 takes the likeliest; ``top_p`` is the share of the probability that is drawn
    from.
    """

    def __init__(
        self, seeds: Sequence[int], *, start: int, tokens: int, temperature: float, top_p: float
    ) -> None:
        self._draws = torch.from_numpy(
            np.stack([np.random.default_rng(seed).random(tokens, np.float32) for seed in seeds])
        )
        self._start, self._temperature, self._top_p = start, temperature, top_p

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        """Leave one word a row: (rows, words) scores, all but one of them minus infinity."""
        if self._temperature == 0:
            return scores
        chances, order = torch.softmax(scores.float() / self._temperature, -1).sort(
            -1, descending=True
        )
        before = chances.cumsum(-1) - chances
        chances = chances.where(before < self._top_p, 0.0)
        ends = chances.cumsum(-1)
        step = input_ids.shape[1] - self._start
        draw = self._draws[:, step : step + 1].to(scores.device) * ends[:, -1:]
        tokens = order.gather(-1, (ends <= draw).sum(-1, keepdim=True).clamp(max=ends.shape[1] - 1))
        return torch.full_like(scores, -torch.inf).scatter(-1, tokens, 0.0)


def _merged(messages: Messages) -> Messages:
    """What the system says put before what the user says, for templates that know no system."""
    system = [message["content"] for message in messages if message["role"] == "system"]
    turns = [dict(message) for message in messages if message["role"] != "system"]
    if system and turns:
        turns[0]["content"] = "\n\n".join([*system, turns[0]["content"]])
    return turns
