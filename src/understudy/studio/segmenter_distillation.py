"""`understudy studio segmenter`: a small network learns what a larger one says of public photos.

Small photos are shown to the teacher nine to a square: one that learnt from large photos finds
about twice as much in them then as in one photo enlarged.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any

import numpy as np
import torch
import transformers
from torch.nn import functional

from understudy.backends.training_loop import Schedule
from understudy.core.errors import ConfigError
from understudy.core.ports import Segmenter
from understudy.core.types import Images
from understudy.studio.autoencoder import in_pairs, to_network
from understudy.studio.corpus import Corpus, CorpusRow
from understudy.studio.photographs import public_images
from understudy.studio.segmenter import class_weights, coloured, relit

PHOTO_SIDE, SHOWN_SIDE = 64, 96
"""Pixels a side of a photo of the training set, and of what the network is shown."""

_ACROSS = 3  # photos along a side of the square that the teacher sees
_LEAST_PART = 40  # pixels a side of a part of one photo
_CELL = 4  # pixels a side of a cell of the network's answer


def new_photo_network(classes: Sequence[str]) -> Any:
    """An untrained UPerNet (Xiao et al. 2018) over a ResNet, of fewer than a million numbers."""
    names = dict(enumerate(classes))
    widths = [24, 48, 96, 128]
    backbone = transformers.ResNetConfig(
        embedding_size=widths[0],
        hidden_sizes=widths,
        depths=[2, 2, 3, 1],
        layer_type="basic",
        out_features=[f"stage{number}" for number in range(1, 5)],
    )
    config = transformers.UperNetConfig(
        backbone_config=backbone,
        hidden_size=28,
        use_auxiliary_head=False,
        id2label=names,
        label2id={name: at for at, name in names.items()},
    )
    return transformers.UperNetForSemanticSegmentation(config)


def distillation_schedule(steps: int) -> Schedule:
    """So many steps of 32 photos, or persons."""
    warmup = min(100, steps // 5)
    return Schedule(steps=steps, batch=32, rate=2e-3, warmup=warmup, decay=0.05, average=0.998)


def labelled_rows(images: Sequence[str], count: int, teacher: Segmenter) -> Iterator[CorpusRow]:
    """Photos with what the teacher says of each pixel, as many of each source; ``count`` in all."""
    many = _ACROSS * _ACROSS
    for name in images:
        photos = public_images(name, -(-count // len(images)), PHOTO_SIDE)
        while batch := list(islice(photos, many)):
            pixels = np.stack(list(islice(cycle(batch), many))).transpose(0, 3, 1, 2)
            square = tiled(torch.from_numpy(pixels), _ACROSS).permute(0, 2, 3, 1)
            (segments,) = teacher.segment(square.numpy()).astype(np.uint8)
            cells = segments.reshape(_ACROSS, PHOTO_SIDE, _ACROSS, PHOTO_SIDE).swapaxes(1, 2)
            labels = cells.reshape(many, PHOTO_SIDE, PHOTO_SIDE)
            for photo, label in zip(batch, labels, strict=False):
                yield CorpusRow(photo, [], segments=label)


class PhotoSegmenterStage:
    """Cross entropy with what the teacher says of each cell of the network's answer.

    A pass sees parts of photos enlarged, and four and nine photos to a square, all of them in every
    batch, since a batch is normalised as one; mirrored, and in another light. Rare classes count
    more, and photos in which the teacher finds anything but the commonest class come twice as
    often.
    """

    name = "segmenter"

    def __init__(self, corpus: Corpus, network: Any, device: torch.device) -> None:
        if corpus.segments is None:
            raise ConfigError("a segmenter learns from segments, and the training set has none")
        self.network = network
        self._corpus, self._segments, self._device = corpus, corpus.segments, device
        counts = np.bincount(self._segments.ravel(), minlength=len(corpus.classes))
        self._weights = class_weights(counts, device)
        other = (self._segments != counts.argmax()).mean(axis=(1, 2)) > 0.01
        self._rows = np.concatenate([np.arange(len(corpus)), np.flatnonzero(other)])
        self.rows = len(self._rows)

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Of cells of four pixels a side."""
        rng = np.random.default_rng(random.initial_seed())
        at = self._rows[rows.numpy()]
        labels = torch.from_numpy(self._segments[at]).to(self._device).long()
        truth = functional.one_hot(labels, len(self._corpus.classes)).permute(0, 3, 1, 2).float()
        pixels, targets = _views(to_network(self._corpus.images[at], self._device), truth, rng)
        pixels = relit(pixels, random)
        if rng.random() < 0.5:
            pixels, targets = pixels.flip(-1), targets.flip(-1)
        pixels = pixels.contiguous(memory_format=torch.channels_last)
        scores = self.network.decode_head(self.network.backbone(pixels).feature_maps)
        weighted = targets * self._weights[:, None, None]
        losses = -weighted * functional.log_softmax(scores.float(), dim=1)
        return {"cells": losses.sum() / weighted.sum()}

    @torch.no_grad()
    def sheet(self) -> Images:
        """Sixteen photos, each above its segments as the network sees them."""
        at = np.linspace(0, len(self._corpus) - 1, 16).astype(int)
        images = np.asarray(self._corpus.images[at])
        pixels = functional.interpolate(to_network(images, self._device), SHOWN_SIDE)
        logits = self.network(pixel_values=pixels).logits
        segments = functional.interpolate(logits, images.shape[1:3], mode="bilinear").argmax(1)
        return in_pairs(images, coloured(segments, len(self._corpus.classes)))


def _views(
    pixels: torch.Tensor, targets: torch.Tensor, rng: np.random.Generator
) -> tuple[torch.Tensor, torch.Tensor]:
    """What a pass sees of photos, and the part of each class in its cells.

    Of 32 photos parts of 15, and of the others one square of nine and two of four.
    """
    nine = 9 * (len(pixels) // 32)
    four = len(pixels) // 4 // 4 * 4
    ends = np.cumsum([len(pixels) - nine - four, four, nine])
    part = int(rng.integers(_LEAST_PART, PHOTO_SIDE + 1))
    top, left = rng.integers(PHOTO_SIDE - part + 1, size=2)
    window = np.s_[..., top : top + part, left : left + part]
    views, truths = [], []
    for across, start, end in zip((1, 2, 3), (0, *ends[:-1]), ends, strict=True):
        image, truth = (tiled(one[start:end], across) for one in (pixels, targets))
        if across == 1:
            image, truth = image[window], truth[window]
        if len(image):
            size = SHOWN_SIDE // _CELL
            views.append(functional.interpolate(image, SHOWN_SIDE, mode="bilinear", antialias=True))
            truths.append(functional.interpolate(truth, size, mode="area"))
    return torch.cat(views), torch.cat(truths)


def tiled(maps: torch.Tensor, across: int) -> torch.Tensor:
    """(n, channels, h, w) as squares of ``across`` maps a side; n is a multiple of its square."""
    count, channels, height, width = maps.shape
    squares = maps.reshape(count // across**2, across, across, channels, height, width)
    return squares.permute(0, 3, 1, 4, 2, 5).reshape(-1, channels, across * height, across * width)
