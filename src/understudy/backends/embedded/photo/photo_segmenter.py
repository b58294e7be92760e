"""``embedded:photo`` as a segmenter: the classes of Pascal VOC in photos.

The network of `segmenter_network`, as `understudy studio segmenter` made it, or another one of
that command by ``embedded:photo?folder=FOLDER``. What it misses stands in its card and in
``docs/device.md``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch.nn import functional

from understudy.backends.arrays import index_slices
from understudy.backends.embedded.photo.photo_models import (
    PHOTO_NAME,
    PhotoOptions,
    autoencoder_folder,
    photo_licence,
)
from understudy.backends.embedded.photo.segmenter_network import SegmenterNetwork
from understudy.backends.hub.preprocessing import check_model_images
from understudy.backends.plugin import full_name, read_options
from understudy.core.errors import BackendError
from understudy.core.types import Images, Maps, Scores, Texts

SEGMENTER_FILE = "segmenter.safetensors"
_SCALE = ".scale"  # of a convolution's output channels

_LEAST, _MOST, _STEP = 256, 384, 16
"""Pixels of the shorter side that the network is shown, and what sides are multiples of."""


class NetworkSegmenter:
    """Images to semantic maps, and to the scores of classes.

    Args:
        network: On the device where it runs.
        classes: Names of its classes.
        name: As it loads the model again.
        licence: Of its weights.
        batch: Images run at once.
    """

    def __init__(
        self,
        network: SegmenterNetwork,
        classes: Sequence[str],
        *,
        name: str = PHOTO_NAME,
        licence: str = "",
        batch: int = 8,
    ) -> None:
        self.name, self.licence, self.classes = name, licence, tuple(classes)
        self._network, self._batch = network, batch

    def segment(self, images: Images) -> Maps:
        """(n, height, width) int64 at the size of the images.

        Raises:
            BackendError: No images.
        """
        maps = [scores.argmax(dim=1).cpu().numpy() for scores in self._scores(images)]
        return np.concatenate([*maps, np.zeros((0, *images.shape[1:3]), dtype=np.int64)])

    def score(self, images: Images, classes: Texts) -> Scores:
        """The scores of some classes: (n, len(classes), height, width) float32 in [0, 1].

        Raises:
            BackendError: No images, or a class that the model does not know.
        """
        if unknown := [name for name in classes if name not in self.classes]:
            raise BackendError(
                f"{self.name} knows no class {unknown[0]!r}; it knows {', '.join(self.classes)}"
            )
        indices = [self.classes.index(name) for name in classes]
        rows = [scores.softmax(dim=1)[:, indices].cpu().numpy() for scores in self._scores(images)]
        none = np.zeros((0, len(indices), *images.shape[1:3]), dtype=np.float32)
        return np.concatenate([*rows, none])

    def _scores(self, images: Images) -> Iterator[torch.Tensor]:
        """Scores of all classes at the size of the images, batch by batch."""
        with torch.inference_mode():
            for pixels in self._pixels(images):
                scores = self._network(pixels)
                yield functional.interpolate(scores, images.shape[1:3], mode="bilinear")

    def _pixels(self, images: Images) -> Iterator[torch.Tensor]:
        """Images as the network is shown them, batch by batch."""
        check_model_images(images, self.name)
        size = network_size(images.shape[1:3])
        for rows in index_slices(len(images), self._batch):
            pixels = torch.from_numpy(np.ascontiguousarray(images[rows])).permute(0, 3, 1, 2)
            pixels = pixels.to(next(self._network.parameters()).device).float() / 255
            if pixels.shape[1] == 1:
                pixels = pixels.expand(-1, 3, -1, -1)
            yield functional.interpolate(pixels, size, mode="bicubic", antialias=True).clamp(0, 1)


def network_size(size: tuple[int, ...]) -> tuple[int, int]:
    """(height, width) at which the network is shown images of a (height, width)."""
    shorter = min(size)
    scale = min(max(shorter, _LEAST), _MOST) / shorter
    height, width = (max(_STEP, round(side * scale / _STEP) * _STEP) for side in size)
    return height, width


def save_segmenter(network: SegmenterNetwork, classes: Sequence[str], folder: Path) -> None:
    """Write a network, its convolutions in 8 bits, and the names of its classes."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = {}
    for key, value in network.state_dict().items():
        weights[key] = value.half().contiguous()
        if value.ndim == 4:
            scale = value.abs().amax((1, 2, 3), keepdim=True).clamp(min=1e-8) / 127
            weights[key + _SCALE] = scale.contiguous()
            weights[key] = (value / scale).round().to(torch.int8).contiguous()
    save_file(weights, folder / SEGMENTER_FILE, metadata={"classes": json.dumps(list(classes))})


def read_segmenter(folder: Path) -> tuple[SegmenterNetwork, tuple[str, ...]]:
    """A network and the names of its classes.

    Raises:
        BackendError: There is none, or its file cannot be read.
    """
    try:
        with safe_open(folder / SEGMENTER_FILE, framework="pt") as file:
            classes = tuple(json.loads(file.metadata()["classes"]))
            weights = {key: file.get_tensor(key).float() for key in file.keys()}  # noqa: SIM118
        for key in [key for key in weights if key.endswith(_SCALE)]:
            weights[key.removesuffix(_SCALE)] *= weights.pop(key)
        network = SegmenterNetwork(len(classes))
        network.load_state_dict(weights)
    except Exception as error:
        raise BackendError(
            f"{folder} holds no segmenter that can be read ({error}); "
            "`understudy studio segmenter` makes one"
        ) from error
    return network.eval(), classes


def photo_segmenter(options: Mapping[str, Any]) -> NetworkSegmenter:
    """The segmenter of ``embedded:photo``; ``options`` as in a model's name."""
    read = read_options(options, PhotoOptions, name=PHOTO_NAME)
    network, classes = read_segmenter(autoencoder_folder(read))
    device, _ = read.placement()
    return NetworkSegmenter(
        network.to(device),
        classes,
        name=full_name(PHOTO_NAME, read),
        licence=photo_licence(read),
        batch=read.batch,
    )
