"""``hf:MODEL`` as a segmenter: a class for every pixel.

    hf:nvidia/segformer-b0-finetuned-ade-512-512
    hf:facebook/mask2former-swin-tiny-ade-semantic?size=512

Networks with a score for each class and pixel (SegFormer, UperNet, BEiT, DPT, ...), and networks
with a mask for each of many queries (MaskFormer, Mask2Former).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from understudy.backends.arrays import class_indices, index_slices, require_any_images
from understudy.backends.plugin import read_options
from understudy.backends.vision.dense import DenseNetwork, VisionOptions, network_kind
from understudy.core.types import Images, Maps, Scores, Texts

_NUMBERS = 2**26  # scores held at once when they are brought to the size of the images


class HubSegmenter(DenseNetwork):
    """Images to semantic maps, and to the scores of classes."""

    def __init__(self, model: str, options: VisionOptions, kind: Any) -> None:
        super().__init__(model, options, kind, "segmenter")

    def segment(self, images: Images) -> Maps:
        """(n, height, width) int64 at the size of the images."""
        require_any_images(images, self.name)
        maps = np.empty(images.shape[:3], dtype=np.int64)
        for rows in index_slices(len(images), self._options.batch):
            scores, _ = self._scores(self._run(images[rows]))
            parts = [part.argmax(dim=1) for part in _enlarged(scores, images.shape[1:3])]
            maps[rows] = torch.cat(parts).cpu().numpy()
        return maps

    def score(self, images: Images, classes: Texts) -> Scores:
        """The scores of some classes: (n, len(classes), height, width) float32 in [0, 1].

        Probabilities; where each of many queries has a mask, their sum, 1 at most.

        Raises:
            BackendError: No images, or a class that the model does not know.
        """
        require_any_images(images, self.name)
        indices = class_indices(classes, self.classes, self.name)
        scores = np.empty((len(images), len(indices), *images.shape[1:3]), dtype=np.float32)
        for rows in index_slices(len(images), self._options.batch):
            raw, normalised = self._scores(self._run(images[rows]))
            parts = [
                (part if normalised else part.softmax(dim=1))[:, indices].clamp(0, 1).cpu()
                for part in _enlarged(raw, images.shape[1:3])
            ]
            scores[rows] = torch.cat(parts).numpy()
        return scores

    def _scores(self, outputs: Any) -> tuple[torch.Tensor, bool]:
        """(n, classes, h, w) at the size of the outputs, and whether they are probabilities."""
        if "class_queries_logits" not in outputs:
            return outputs.logits.float(), False
        # The last class of a query is "nothing".
        classes = outputs.class_queries_logits.float().softmax(dim=-1)[..., :-1]
        masks = outputs.masks_queries_logits.float().sigmoid()
        return torch.einsum("bqc,bqhw->bchw", classes, masks), True


def _enlarged(scores: torch.Tensor, size: tuple[int, ...]) -> Iterator[torch.Tensor]:
    """Scores at the size of the images, so many rows at a time as memory has room for."""
    step = max(1, _NUMBERS // (scores.shape[1] * size[0] * size[1]))
    for part in torch.split(scores, step):
        yield functional.interpolate(part, size=size, mode="bilinear")


def load_segmenter(rest: str, options: Mapping[str, Any]) -> HubSegmenter:
    """The segmenter of a model of the hub; see `VisionOptions`."""
    read = read_options(options, VisionOptions, name=f"hf:{rest}")
    kind, _ = network_kind(rest, read, port="segmenter", head="ForSemanticSegmentation")
    return HubSegmenter(rest, read, kind)
