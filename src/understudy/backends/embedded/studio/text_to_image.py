"""The studio's networks that draw from texts, by PyTorch alone.

Diffusers and transformers take longer to import than sixteen pictures to draw. These are the same
operations in the same order as those of their classes that the folders name, so that pictures are
the same to the bit, and no call goes through hooks.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch.nn import functional

_TRAINED_STEPS = 1000  # of the noising, a cosine that ends in pure noise (Nichol & Dhariwal 2021)
_GUARD = 1e-6  # of group norms before attention, as transformers of diffusers have it


class _Part:
    """The weights below a name of a network, float32, and the layers that they are of."""

    def __init__(self, weights: Mapping[str, torch.Tensor], name: str = "") -> None:
        self._weights, self._name = weights, name

    def __getitem__(self, name: str) -> _Part:
        return _Part(self._weights, f"{self._name}{name}.")

    def __contains__(self, name: str) -> bool:
        return f"{self._name}{name}.weight" in self._weights

    def both(self) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Weight and bias."""
        return self._weights[f"{self._name}weight"], self._weights.get(f"{self._name}bias")

    def linear(self, values: torch.Tensor) -> torch.Tensor:
        """A matrix."""
        return functional.linear(values, *self.both())

    def convolution(self, values: torch.Tensor, stride: int = 1) -> torch.Tensor:
        """A convolution of 3 x 3 or 1 x 1 that keeps the size, or halves it."""
        weight, bias = self.both()
        return functional.conv2d(values, weight, bias, stride, padding=weight.shape[-1] // 2)

    def layer_norm(self, values: torch.Tensor) -> torch.Tensor:
        """Zero mean and unit variance of every vector."""
        return functional.layer_norm(values, values.shape[-1:], *self.both())

    def group_norm(self, values: torch.Tensor, groups: int, guard: float = 1e-5) -> torch.Tensor:
        """Zero mean and unit variance of every group of channels."""
        return functional.group_norm(values, groups, *self.both(), guard)


def _read(folder: Path) -> tuple[_Part, dict[str, Any]]:
    """The weights of a folder, and what its file of settings says."""
    (file,) = folder.glob("*.safetensors")
    weights = {name: weight.float() for name, weight in load_file(file).items()}
    for name, weight in weights.items():
        if weight.dim() == 4:  # the order of channels that convolutions are fast at
            weights[name] = weight.to(memory_format=torch.channels_last)
    return _Part(weights), json.loads((folder / "config.json").read_text(encoding="utf-8"))


def _attention(
    queries: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    heads: int,
    *,
    causal: bool = False,
) -> torch.Tensor:
    apart = [  # (n, heads, length, width / heads)
        each.view(len(each), -1, heads, each.shape[2] // heads).transpose(1, 2)
        for each in (queries, keys, values)
    ]
    mixed = functional.scaled_dot_product_attention(apart[0], apart[1], apart[2], is_causal=causal)
    return mixed.transpose(1, 2).reshape(queries.shape)


class TextTower:
    """The text half of CLIP: prompts to what the network hears, (n, tokens, width)."""

    def __init__(self, folder: Path) -> None:
        part, config = _read(folder)
        self._part, self._config = part["text_model"], config["text_config"]
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))  # it pads and cuts

    def __call__(self, prompts: Sequence[str]) -> torch.Tensor:
        """The last hidden states."""
        tokens = [each.ids for each in self._tokenizer.encode_batch(list(prompts))]
        words, places = (
            self._part["embeddings"][name].both()[0]
            for name in ("token_embedding", "position_embedding")
        )
        states = functional.embedding(torch.tensor(tokens), words)
        states = states + places[: states.shape[1]]
        for number in range(self._config["num_hidden_layers"]):
            states = self._layer(self._part["encoder"]["layers"][str(number)], states)
        return self._part["final_layer_norm"].layer_norm(states)

    def _layer(self, layer: _Part, states: torch.Tensor) -> torch.Tensor:
        normal, attention = layer["layer_norm1"].layer_norm(states), layer["self_attn"]
        queries, keys, values = (attention[f"{name}_proj"].linear(normal) for name in "qkv")
        heads = self._config["num_attention_heads"]
        mixed = _attention(queries, keys, values, heads, causal=True)
        states = states + attention["out_proj"].linear(mixed)
        inner = layer["mlp"]["fc1"].linear(layer["layer_norm2"].layer_norm(states))
        inner = inner * torch.sigmoid(1.702 * inner)
        return states + layer["mlp"]["fc2"].linear(inner)


class DenoisingNetwork:
    """The U-Net, told a text and no embedding: latents, a step and prompts to velocities."""

    def __init__(self, folder: Path) -> None:
        self._part, config = _read(folder)
        self.channels, self.side = config["in_channels"], config["sample_size"]
        self._levels, self._layers = len(config["block_out_channels"]), config["layers_per_block"]
        self._heads, self._groups = config["attention_head_dim"], config["norm_num_groups"]
        self._width = config["block_out_channels"][0]
        # Without an embedding, what the network makes of one is a constant of the last bias.
        first, last = (self._part["class_embedding"][f"linear_{at}"] for at in (1, 2))
        nothing = torch.zeros(1, first.both()[0].shape[1])
        constant = last.linear(functional.silu(first.linear(nothing)))[0]
        weight, bias = self._part["time_embedding"]["linear_2"].both()
        self._last = weight, constant if bias is None else bias + constant

    def __call__(self, latents: torch.Tensor, step: int, text: torch.Tensor) -> torch.Tensor:
        """As many velocities as there are latents and texts."""
        time = self._time(step, len(latents))
        values = self._part["conv_in"].convolution(latents)
        skips = [values]
        for level in range(self._levels):
            block = self._part["down_blocks"][str(level)]
            for at in range(self._layers):
                values = self._resnet(block["resnets"][str(at)], values, time)
                values = self._transformer(block["attentions"][str(at)], values, text)
                skips.append(values)
            if level < self._levels - 1:
                values = block["downsamplers"]["0"]["conv"].convolution(values, stride=2)
                skips.append(values)
        middle = self._part["mid_block"]
        values = self._resnet(middle["resnets"]["0"], values, time)
        values = self._transformer(middle["attentions"]["0"], values, text)
        values = self._resnet(middle["resnets"]["1"], values, time)
        for level in range(self._levels):
            block = self._part["up_blocks"][str(level)]
            for at in range(self._layers + 1):
                values = torch.cat([values, skips.pop()], dim=1)
                values = self._resnet(block["resnets"][str(at)], values, time)
                values = self._transformer(block["attentions"][str(at)], values, text)
            if level < self._levels - 1:
                values = block["upsamplers"]["0"]["conv"].convolution(_doubled(values))
        values = self._part["conv_norm_out"].group_norm(values, self._groups)
        return self._part["conv_out"].convolution(functional.silu(values))

    def _time(self, step: int, rows: int) -> torch.Tensor:
        half = self._width // 2
        speeds = torch.exp(-math.log(10000) * torch.arange(half, dtype=torch.float32) / half)
        angles = torch.full((rows, 1), float(step)) * speeds
        waves = torch.cat([torch.cos(angles), torch.sin(angles)], dim=-1)
        first = self._part["time_embedding"]["linear_1"].linear(waves)
        return functional.linear(functional.silu(first), *self._last)

    def _resnet(self, part: _Part, values: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        inner = functional.silu(part["norm1"].group_norm(values, self._groups))
        inner = part["conv1"].convolution(inner)
        inner = inner + part["time_emb_proj"].linear(functional.silu(time))[:, :, None, None]
        inner = functional.silu(part["norm2"].group_norm(inner, self._groups))
        inner = part["conv2"].convolution(inner)
        if "conv_shortcut" in part:
            values = part["conv_shortcut"].convolution(values)
        return values + inner

    def _transformer(self, part: _Part, values: torch.Tensor, text: torch.Tensor) -> torch.Tensor:
        inner = part["proj_in"].convolution(part["norm"].group_norm(values, self._groups, _GUARD))
        rows, width, height, length = inner.shape
        tokens = inner.permute(0, 2, 3, 1).reshape(rows, height * length, width)
        block = part["transformer_blocks"]["0"]
        for name, norm, heard in (("attn1", "norm1", None), ("attn2", "norm2", text)):
            normal, layer = block[norm].layer_norm(tokens), block[name]
            heard = normal if heard is None else heard
            keys, mixed = layer["to_k"].linear(heard), layer["to_v"].linear(heard)
            mixed = _attention(layer["to_q"].linear(normal), keys, mixed, self._heads)
            tokens = layer["to_out"]["0"].linear(mixed) + tokens
        gated = block["ff"]["net"]["0"]["proj"].linear(block["norm3"].layer_norm(tokens))
        inner, gate = gated.chunk(2, dim=-1)
        tokens = block["ff"]["net"]["2"].linear(inner * functional.gelu(gate)) + tokens
        inner = tokens.reshape(rows, height, length, width).permute(0, 3, 1, 2).contiguous()
        return part["proj_out"].convolution(inner) + values


def _doubled(values: torch.Tensor) -> torch.Tensor:
    """Twice the height and the width, each value four times."""
    if len(values) >= 64:  # as diffusers does it, and the order decides how a convolution adds
        values = values.contiguous()
    return functional.interpolate(values, scale_factor=2.0, mode="nearest")


class LatentDecoder:
    """The autoencoder's half that draws: latents to pixels where 0 is black and 1 is white."""

    def __init__(self, folder: Path) -> None:
        part, self._config = _read(folder)
        self._layers = part["decoder"]["layers"]
        self.scale = 2 ** (len(self._config["block_out_channels"]) - 1)

    def __call__(self, latents: torch.Tensor) -> torch.Tensor:
        """(n, 3, height, width)."""
        values = torch.tanh(latents / 3) * 3
        values = functional.relu(self._layers["0"].convolution(values))
        at, blocks = 2, self._config["num_decoder_blocks"]
        for level, count in enumerate(blocks):
            for number in range(count):
                part = self._layers[str(at + number)]["conv"]
                inner = functional.relu(part["0"].convolution(values))
                inner = functional.relu(part["2"].convolution(inner))
                values = functional.relu(part["4"].convolution(inner) + values)
            at += count
            if level < len(blocks) - 1:
                values = functional.interpolate(values, scale_factor=2.0, mode="nearest")
                at += 1
            values = self._layers[str(at)].convolution(values)
            at += 1
        pixels = values.mul(2).sub(1)
        return (pixels * 0.5 + 0.5).clamp(0, 1)


class DpmSolver:
    """DPM-Solver++ of second order (Lu et al. 2022) at some steps, the last of first order."""

    def __init__(self, steps: Sequence[int]) -> None:
        cosine = [
            math.cos((at / _TRAINED_STEPS + 0.008) / 1.008 * math.pi / 2) ** 2
            for at in range(_TRAINED_STEPS + 1)
        ]
        betas = [min(1 - after / before, 0.999) for before, after in pairwise(cosine)]
        left = torch.cumprod(1.0 - torch.tensor(betas, dtype=torch.float32), dim=0)
        sigmas = (((1 - left) / left) ** 0.5)[list(steps)]
        sigmas = torch.cat([sigmas, torch.zeros(1)])
        self.steps = tuple(steps)
        self.signal = 1 / (sigmas**2 + 1) ** 0.5
        self.noise = sigmas * self.signal
        self._ratio = torch.log(self.signal) - torch.log(self.noise)

    def clean(self, at: int, latents: torch.Tensor, velocity: torch.Tensor) -> torch.Tensor:
        """What is left of latents without their noise."""
        return self.signal[at] * latents - self.noise[at] * velocity

    def next(self, at: int, latents: torch.Tensor, clean: Sequence[torch.Tensor]) -> torch.Tensor:
        """The latents of the next step, by what was found to be clean in this and before."""
        span = self._ratio[at + 1] - self._ratio[at]
        weight = self.signal[at + 1] * (torch.exp(-span) - 1.0)
        result = (self.noise[at + 1] / self.noise[at]) * latents - weight * clean[-1]
        if at in (0, len(self.steps) - 1):
            return result
        before = (self._ratio[at] - self._ratio[at - 1]) / span
        return result - 0.5 * weight * ((1.0 / before) * (clean[-1] - clean[-2]))


class TextToImage:
    """From prompts to pixels in a few steps, away from what a negative prompt says."""

    def __init__(self, folder: Path, steps: Sequence[int], guidance: float, negative: str) -> None:
        self._read, self._network = TextTower(folder / "clip"), DenoisingNetwork(folder / "unet")
        self._solver, self._decoder = DpmSolver(steps), LatentDecoder(folder / "vae")
        self._guidance = guidance
        self._away = self._read([negative]) if guidance > 1 else None
        self.side = int(self._network.side * self._decoder.scale)

    @torch.no_grad()
    def __call__(
        self, prompts: Sequence[str], sources: Sequence[torch.Generator]
    ) -> NDArray[np.float32]:
        """(n, height, width, 3); 0 is black and 1 is white.

        A row is of its own prompt and source of noise.
        """
        shape = (1, self._network.channels, self._network.side, self._network.side)
        latents = torch.cat([torch.randn(shape, generator=source) for source in sources])
        distinct = list(dict.fromkeys(prompts))
        text = self._read(distinct)[[distinct.index(prompt) for prompt in prompts]]
        if self._away is not None:
            text = torch.cat([self._away.expand(text.shape), text])
        clean: list[torch.Tensor] = []
        for at, step in enumerate(self._solver.steps):
            both = latents if self._away is None else torch.cat([latents, latents])
            velocity = self._network(both, step, text)
            if self._away is not None:
                away, velocity = velocity.chunk(2)
                velocity = away + self._guidance * (velocity - away)
            clean.append(self._solver.clean(at, latents, velocity))
            latents = self._solver.next(at, latents, clean)
        pixels: NDArray[np.float32] = self._decoder(latents).permute(0, 2, 3, 1).numpy()
        return pixels
