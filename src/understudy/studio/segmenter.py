"""The segmenter stage: what is where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from torch.nn import functional

from understudy.core.errors import ConfigError
from understudy.core.types import Images
from understudy.studio.autoencoder import in_pairs, to_network
from understudy.studio.corpus import Corpus


def new_segmenter(classes: Sequence[str]) -> Any:
    """An untrained SegFormer whose answer has half the sides of the image."""
    names = dict(enumerate(classes))
    config = transformers.SegformerConfig(
        num_encoder_blocks=4,
        depths=[2, 2, 2, 1],
        sr_ratios=[8, 4, 2, 1],
        hidden_sizes=[24, 48, 96, 128],
        num_attention_heads=[1, 2, 3, 4],
        patch_sizes=[5, 3, 3, 3],
        strides=[2, 2, 2, 2],
        mlp_ratios=[3, 3, 3, 3],
        decoder_hidden_size=96,
        id2label=names,
        label2id={name: at for at, name in names.items()},
    )
    return transformers.SegformerForSemanticSegmentation(config)


class SegmenterStage:
    """Cross entropy of every pixel; rare classes count more."""

    name = "segmenter"

    def __init__(self, corpus: Corpus, network: Any, device: torch.device) -> None:
        if corpus.segments is None:
            raise ConfigError("a segmenter learns from segments, and the training set has none")
        self.network = network
        self.rows = len(corpus)
        self._corpus, self._segments, self._device = corpus, corpus.segments, device
        counts = np.bincount(self._segments[:500].ravel(), minlength=len(corpus.classes))
        self._weights = class_weights(counts, device)

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Cross entropy at the size of the images, under changes of light, tint and mirroring."""
        at = np.sort(rows.numpy())
        pixels = to_network(self._corpus.images[at], self._device)
        truth = torch.from_numpy(np.array(self._segments[at])).to(self._device).long()
        pixels = relit(pixels, random)
        if torch.rand((), generator=random, device=self._device) < 0.5:
            pixels, truth = pixels.flip(-1), truth.flip(-1)
        logits = self.network(pixel_values=pixels).logits.float()
        logits = functional.interpolate(logits, size=truth.shape[-2:], mode="bilinear")
        return {"pixels": functional.cross_entropy(logits, truth, weight=self._weights)}

    @torch.no_grad()
    def sheet(self) -> Images:
        """Held-out images, each above its segments as the network sees them."""
        images = np.asarray(self._corpus.images[self._corpus.last(16)])
        logits = self.network(pixel_values=to_network(images, self._device)).logits
        logits = functional.interpolate(logits, size=images.shape[1:3], mode="bilinear").argmax(1)
        return in_pairs(images, coloured(logits, len(self._corpus.classes)))


def class_weights(counts: NDArray[np.int64], device: torch.device) -> torch.Tensor:
    """What a pixel of each class counts, by how many pixels the classes have."""
    weights = np.sqrt(counts.mean() / np.maximum(counts, 1)).clip(0.3, 4)
    return torch.tensor(weights, dtype=torch.float32, device=device)


def relit(pixels: torch.Tensor, random: torch.Generator) -> torch.Tensor:
    """Images (n, 3, h, w) in [-1, 1] in another light and tint, with a sensor's noise."""
    draw = torch.rand((3, len(pixels), 1, 1, 1), generator=random, device=pixels.device)
    tint = 0.75 + 0.5 * torch.rand((len(pixels), 3, 1, 1), generator=random, device=pixels.device)
    sensor_noise = torch.randn(pixels.shape, generator=random, device=pixels.device)
    changed = (
        pixels * tint * (0.7 + 0.6 * draw[0])
        + (draw[1] - 0.5) * 0.5
        + sensor_noise * 0.08 * draw[2]
    )
    return changed.clamp(-1, 1)


def coloured(segments: torch.Tensor, classes: int) -> Images:
    """Maps (n, h, w) of so many classes as images, a colour each."""
    steps = np.arange(classes)
    colours = np.stack([steps * 67 % 256, steps * 131 % 256, steps * 29 % 256], -1)
    return np.asarray(colours.astype(np.uint8)[segments.cpu().numpy()])
