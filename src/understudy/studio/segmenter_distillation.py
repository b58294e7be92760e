"""`understudy studio segmenter`: the segmenter of ``embedded:photo``, distilled from a larger one.

It learns what another segmenter, its teacher, says of public photos. Small photos are shown to the
teacher nine to a square, beside others of their folder: a teacher that learnt from large photos
finds about twice as much in them then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from torch.nn import functional

from understudy.backends.embedded.photo.photo_segmenter import NetworkSegmenter, save_segmenter
from understudy.backends.embedded.photo.segmenter_network import SegmenterNetwork
from understudy.backends.hub.hub_models import HubOptions
from understudy.backends.registry import load_model
from understudy.backends.training_loop import Machine, Schedule
from understudy.core.errors import ConfigError
from understudy.core.ports import Events, Segmenter
from understudy.core.types import Images
from understudy.run.progress import ProgressMode, reporting
from understudy.studio.corpus import Corpus, CorpusRow, read_corpus, write_corpus
from understudy.studio.photographs import public_images
from understudy.studio.stages import train_stage

PHOTO_SIDE = 64
"""Pixels a side of a photo of the corpus."""

_ACROSS = 3  # photos along a side of the square that the teacher sees
_FIXED_BLOCKS = 6  # edges and textures, which photos of any kind share
_SQUARES = 0.5  # of the passes
_ENLARGED = (128, 160)  # pixels a side


def labelled_rows(
    images: str, count: int, teacher: Segmenter, done: Callable[[int], None] = lambda count: None
) -> Iterator[CorpusRow]:
    """Photos with what the teacher says of each of their pixels.

    Args:
        images: A public source, such as a folder of folders.
        count: How many of its photos, spread over the whole of it.
        teacher: Its classes are those of the rows.
        done: Told how many more are labelled.
    """
    photos, side = public_images(images, count, PHOTO_SIDE), _ACROSS * PHOTO_SIDE
    while batch := list(islice(photos, _ACROSS * _ACROSS)):
        shown = np.stack((batch * _ACROSS * _ACROSS)[: _ACROSS * _ACROSS])
        grid = shown.reshape(_ACROSS, _ACROSS, PHOTO_SIDE, PHOTO_SIDE, 3).swapaxes(1, 2)
        (segments,) = teacher.segment(grid.reshape(1, side, side, 3))
        cells = segments.reshape(_ACROSS, PHOTO_SIDE, _ACROSS, PHOTO_SIDE).swapaxes(1, 2)
        labels = cells.reshape(-1, PHOTO_SIDE, PHOTO_SIDE).astype(np.uint8)
        for photo, label in zip(batch, labels, strict=False):
            yield CorpusRow(photo, [], segments=label)
        done(len(batch))


class PhotoSegmenterStage:
    """Cross entropy with what the teacher says of every cell of the network's answer.

    A pass sees photos enlarged, or four of them to a square; parts of them, mirrored, in another
    light. Rare classes count more.

    Args:
        corpus: `labelled_rows`.
        network: Its first blocks stay as they are.
        device: Where.
    """

    name = "segmenter"

    def __init__(self, corpus: Corpus, network: SegmenterNetwork, device: torch.device) -> None:
        if corpus.segments is None:
            raise ConfigError("a segmenter learns from segments, and the training set has none")
        self.network = network
        self.rows = len(corpus)
        self._corpus, self._segments, self._device = corpus, corpus.segments, device
        for part in (network.stem, *network.blocks[:_FIXED_BLOCKS]):
            part.requires_grad_(False)
        counts = np.bincount(self._segments[: self.rows].ravel(), minlength=len(corpus.classes))
        weights = np.sqrt(counts.mean() / np.maximum(counts, 1)).clip(0.3, 4)
        self._weights = torch.tensor(weights, dtype=torch.float32, device=device)

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        """Of some rows, as many as four squares need."""
        rng = np.random.default_rng(random.initial_seed())
        order = rows.numpy()
        pixels = torch.from_numpy(np.asarray(self._corpus.images[order])).to(self._device)
        pixels = pixels.permute(0, 3, 1, 2).float() / 255
        labels = torch.from_numpy(np.asarray(self._segments[order])).to(self._device).long()
        targets = functional.one_hot(labels, len(self._corpus.classes)).permute(0, 3, 1, 2).float()
        pixels, targets = self._view(pixels, targets, rng)
        light = torch.rand((2, len(pixels), 1, 1, 1), generator=random, device=self._device)
        tint = 0.85 + 0.3 * torch.rand((len(pixels), 3, 1, 1), generator=random).to(self._device)
        pixels = (pixels * tint * (0.7 + 0.6 * light[0]) + 0.3 * (light[1] - 0.5)).clamp(0, 1)
        logarithms = functional.log_softmax(self.network(pixels), dim=1)
        targets = functional.interpolate(targets, logarithms.shape[-2:], mode="area")
        weighted = targets * self._weights[:, None, None]
        return {"cells": -(weighted * logarithms).sum() / weighted.sum()}

    @staticmethod
    def _view(
        pixels: torch.Tensor, targets: torch.Tensor, rng: np.random.Generator
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Four photos to a square in half of the passes, else a part of each; enlarged."""
        if rng.random() < 0.5:
            pixels, targets = pixels.flip(-1), targets.flip(-1)
        if rng.random() < _SQUARES:
            whole = functional.interpolate(_squares(pixels), scale_factor=2, mode="bicubic")
            return whole, _squares(targets)
        part = int(rng.integers(PHOTO_SIDE * 5 // 8, PHOTO_SIDE + 1))
        top, left = rng.integers(PHOTO_SIDE - part + 1, size=2)
        pixels, targets = (
            maps[:, :, top : top + part, left : left + part] for maps in (pixels, targets)
        )
        side = int(rng.choice(_ENLARGED))
        return functional.interpolate(pixels, (side, side), mode="bicubic"), targets

    @torch.no_grad()
    def sheet(self) -> Images:
        """Held-out photos, each above its segments as the network sees them."""
        images = np.asarray(self._corpus.images[self._corpus.last(16)])
        segments = NetworkSegmenter(self.network, self._corpus.classes).segment(images)
        steps = np.arange(len(self._corpus.classes))
        colours = np.stack([steps * 67 % 256, steps * 131 % 256, steps * 29 % 256], -1)
        shown = colours.astype(np.uint8)[segments]
        return np.concatenate([images[:8], shown[:8], images[8:], shown[8:]])


def _squares(maps: torch.Tensor) -> torch.Tensor:
    """Maps (4 n, channels, h, w) four to a square: (n, channels, 2 h, 2 w)."""
    count, channels, height, width = maps.shape
    whole = maps[: count // 4 * 4].reshape(-1, 2, 2, channels, height, width)
    return whole.permute(0, 3, 1, 4, 2, 5).reshape(-1, channels, 2 * height, 2 * width)


def distil_segmenter(
    images: Sequence[str],
    teacher: str,
    out: Path,
    *,
    start: Path | None = None,
    count: int = 3_000,
    steps: int = 90,
    device: str = "auto",
    progress: ProgressMode | Events = "auto",
) -> Path:
    """`understudy studio segmenter`: a segmenter, from photos and a larger one; begun work goes on.

    Args:
        images: Public sources; their licences must allow weights to be made from them.
        teacher: Name of a segmenter.
        out: Gets the network, and the folder ``work`` with the corpus and the checkpoints.
        start: A DeepLab over MobileNetV2 in TensorFlow Lite, whose convolutions it begins with;
            None: it begins anew.
        count: Photos of each source.
        steps: Of the optimiser, 16 photos each; 0: the network stays as it began.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        progress: Where events go, as for `understudy.synthesize`.

    Raises:
        ConfigError: A source cannot be used, or ``start`` is of another network.
        BackendError: There is no such teacher.
    """
    place, _ = HubOptions(device=device).placement()
    labeller = load_model(Segmenter, teacher)
    folder, total = out / "work" / "corpus", count * len(images)
    with reporting(progress) as events:
        corpus = read_corpus(folder)
        if corpus is None:
            done = events.step("photos labelled", total)
            rows = (row for name in images for row in labelled_rows(name, count, labeller, done))
            write_corpus(folder, rows, total, classes=labeller.classes)
            corpus = read_corpus(folder)
        if corpus is None or len(corpus.images) != total:
            raise ConfigError(f"{folder} holds other photos: choose another folder with --out")
        torch.manual_seed(0)
        network = SegmenterNetwork(len(corpus.classes))
        if start is not None:
            network.begin_as(start)
        stage = PhotoSegmenterStage(corpus, network, place)
        schedule = Schedule(steps=steps, batch=16, rate=3e-4, warmup=steps // 10, average=0.98)
        trained, last = events.step(stage.name, steps), 0

        def report(name: str, step: int, steps: int, losses: dict[str, float]) -> None:
            nonlocal last
            trained(step - last)
            last = step

        if steps:
            train_stage(stage, schedule, Machine(place), out / "work" / stage.name, report)
    save_segmenter(network, corpus.classes, out)
    return out
