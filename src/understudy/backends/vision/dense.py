"""What segmenters, detectors and pose estimators of the hub share: options, batches, a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import torch

from understudy.backends.hub.hub_models import HubOptions
from understudy.backends.hub.preprocessing import Preparation, read_preparation
from understudy.backends.hub.pretrained import (
    built_for,
    config_of,
    licence_of,
    load_network,
    network_classes,
    running,
    wrong_kind,
)
from understudy.backends.plugin import PositiveCount, full_name
from understudy.core.option import Option
from understudy.core.types import Images

QUERIES = frozenset({"mask2former", "maskformer"})
"""``model_type`` of networks with a mask for each of many queries."""

_OF_QUERIES = "ForUniversalSegmentation"


@dataclass(frozen=True, slots=True)
class VisionOptions(HubOptions):
    """Options of a segmenter, besides those of `HubOptions`.

    Attributes:
        size: Pixels of the shorter side that images are resized to, instead of what the model's
            files say.
    """

    batch: PositiveCount = 8
    size: Annotated[int | None, Option("", least=1)] = None


def network_kind(model: str, options: VisionOptions, *, port: str, head: str) -> tuple[Any, bool]:
    """The class of transformers that loads a model, and whether it is of `QUERIES`.

    ``head`` is what the architecture of a network without queries ends with.
    """
    config = config_of(model, revision=options.revision)
    queries = config.get("model_type") in QUERIES
    if not queries and not built_for(config, head):
        raise wrong_kind(f"hf:{model}", port, config)
    import transformers

    return getattr(transformers, f"AutoModel{_OF_QUERIES if queries else head}"), queries


class DenseNetwork:
    """A network that takes images and speaks of places in them; what its ports share."""

    def __init__(self, model: str, options: VisionOptions, kind: Any, port: str) -> None:
        self.name = full_name(f"hf:{model}", options)
        self.licence = licence_of(model, options.revision)
        preparation = read_preparation(model, revision=options.revision, dense=True)
        self._preparation = preparation.with_size(options.size)
        self._options = options
        self._network: Any = load_network(kind, model, options, port=port)
        self.classes = network_classes(self._network.config)
        self._forward = torch.compile(self._network) if options.compile else self._network

    def _run(self, images: Images) -> Any:
        """The network's outputs for one batch."""
        device, dtype = self._options.placement()
        with running(self._network, self._options):
            pixels = self._preparation_of(images)(images, device, dtype)
            return self._forward(pixel_values=pixels)

    def _preparation_of(self, images: Images) -> Preparation:
        """How a batch is shown to the network."""
        return self._preparation
