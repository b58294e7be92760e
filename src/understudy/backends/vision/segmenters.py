"""``hf:MODEL`` as a segmenter: a class for every pixel.

    hf:nvidia/segformer-b0-finetuned-ade-512-512
    hf:facebook/mask2former-swin-tiny-ade-semantic?size=512
    hf:shi-labs/oneformer_ade20k_swin_tiny

Networks with a score for each class and pixel (SegFormer, UperNet, BEiT, DPT, ...), and networks
with a mask for each of many queries (MaskFormer, Mask2Former, OneFormer).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch.nn import functional

from understudy.backends.arrays import index_slices
from understudy.backends.hub.preprocessing import check_model_images
from understudy.backends.plugin import read_options
from understudy.backends.vision.dense import DenseNetwork, VisionOptions, network_kind
from understudy.core.types import Images, Maps

_NUMBERS = 2**26  # scores held at once when they are brought to the size of the images


class HubSegmenter(DenseNetwork):
    """Images to semantic maps."""

    def __init__(self, model: str, options: VisionOptions, kind: Any, *, task: bool) -> None:
        super().__init__(model, options, kind, "segmenter")
        if task:
            self._ask(model, "semantic")

    def segment(self, images: Images) -> Maps:
        """(n, height, width) int64 at the size of the images.

        Raises:
            BackendError: No images.
        """
        check_model_images(images, self.name)
        maps = np.empty(images.shape[:3], dtype=np.int64)
        for rows in index_slices(len(images), self._options.batch):
            class_maps = self._maps(self._run(images[rows]), images.shape[1:3])
            maps[rows] = class_maps.cpu().numpy()
        return maps

    def _maps(self, outputs: Any, size: tuple[int, ...]) -> torch.Tensor:
        """The best class of each pixel."""
        if "class_queries_logits" in outputs:
            # The last class of a query is "nothing".
            classes = outputs.class_queries_logits.float().softmax(dim=-1)[..., :-1]
            masks = outputs.masks_queries_logits.float().sigmoid()
            scores = torch.einsum("bqc,bqhw->bchw", classes, masks)
        else:
            scores = outputs.logits.float()
        step = max(1, _NUMBERS // (scores.shape[1] * size[0] * size[1]))
        parts = [
            functional.interpolate(part, size=size, mode="bilinear").argmax(dim=1)
            for part in torch.split(scores, step)
        ]
        return torch.cat(parts)


def load_segmenter(rest: str, options: Mapping[str, Any]) -> HubSegmenter:
    """The segmenter of a model of the hub.

    Args:
        rest: Its name on the hub or a local folder.
        options: See `VisionOptions`.

    Raises:
        BackendError: There is no such model, it is no segmenter, or an option is wrong.
        HubUnreachable: It is not on this machine and the hub does not answer.
    """
    read = read_options(options, VisionOptions, name=f"hf:{rest}")
    kind, queries = network_kind(rest, read, port="segmenter", head="ForSemanticSegmentation")
    return HubSegmenter(rest, read, kind, task=queries == "oneformer")
