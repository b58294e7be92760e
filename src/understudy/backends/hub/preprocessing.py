"""Images to what a network of the hub takes: resized, cropped, scaled, whole batches at a time.

The same numbers as the image processors of ``transformers`` give, which read the model's files,
without their loop over single images and without torchvision.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn import functional

from understudy.backends.arrays import with_channels
from understudy.backends.hub.hub_models import hub_errors
from understudy.backends.hub.pretrained import load_image_processor, read_text
from understudy.core.errors import BackendError
from understudy.core.types import Images

_LONGEST_SIDE = 2**14  # pixels; a batch of larger images fills any memory
_BILINEAR, _BICUBIC = 2, 3  # Pillow's numbers, as the files use them
_MODES = {_BILINEAR: "bilinear", _BICUBIC: "bicubic"}


@dataclass(frozen=True, slots=True)
class Preparation:
    """How images are made ready.

    Attributes:
        size: ``(height, width)``, or ``(shortest, longest)`` edge where ``edges`` is true, longest
            0 for no limit; None keeps the size.
        edges: Whether ``size`` speaks of edges, and the shape of the image is kept.
        crop: (height, width) cut from the centre; None for no cut.
        divisor: Heights and widths are rounded up to a multiple of it.
        resample: Pillow's number of the filter.
        scale: What a pixel in 0 to 255 is multiplied with.
    """

    size: tuple[int, int] | None
    edges: bool
    crop: tuple[int, int] | None
    divisor: int
    resample: int
    scale: float
    mean: tuple[float, ...]
    std: tuple[float, ...]
    flip: bool = False

    def __post_init__(self) -> None:
        height, width = self.size or (1, 1)
        sides = (height, width or int(self.edges), *(self.crop or ()), self.divisor)
        if min(sides) < 1 or max(sides) > _LONGEST_SIDE:
            raise ValueError(f"sides of {', '.join(map(str, sides))} pixels")

    def sized(self, height: int, width: int) -> Preparation:
        """The same with another size, without a crop."""
        return replace(self, size=(height, width), edges=False, crop=None)

    def with_size(self, size: int | None) -> Preparation:
        """The same with another size, and the same way to it: by the shorter edge, or squeezed."""
        if size is None:
            return self
        if not self.edges:
            return replace(self, size=(size, size))
        return replace(self, size=(size, 0), crop=(size, size) if self.crop else None)

    def target(self, height: int, width: int) -> tuple[int, int]:
        """(height, width) that an image of this size is resized to, before the crop."""
        if self.size is None:
            target = (height, width)
        elif not self.edges:
            target = self.size
        else:
            target = _by_edges(height, width, *self.size)
        step = self.divisor
        return (math.ceil(target[0] / step) * step, math.ceil(target[1] / step) * step)

    def __call__(
        self, images: Images, device: torch.device, dtype: torch.dtype = torch.float32
    ) -> torch.Tensor:
        """(n, height, width, channels) uint8 to (n, 3, height', width') on the device."""
        pixels = torch.from_numpy(np.array(with_channels(images, 3))).permute(0, 3, 1, 2)
        pixels = resize_batch(pixels.to(device), self.target(*images.shape[1:3]), self.resample)
        if self.crop is not None:
            pixels = _centre(pixels, *self.crop)
        if self.flip:
            pixels = pixels.flip(1)
        mean = torch.tensor(self.mean, device=device).view(1, -1, 1, 1)
        std = torch.tensor(self.std, device=device).view(1, -1, 1, 1)
        return ((pixels.to(torch.float32) * self.scale - mean) / std).to(dtype)


def resize_batch(pixels: torch.Tensor, size: tuple[int, int], resample: int) -> torch.Tensor:
    """(n, channels, height, width) uint8 resized as Pillow does it, uint8 again."""
    if tuple(pixels.shape[2:]) == size:
        return pixels
    if resample not in _MODES:
        return _by_pillow(pixels, size, resample)
    how: dict[str, Any] = {"size": size, "mode": _MODES[resample], "antialias": True}
    if pixels.device.type == "cpu":
        return functional.interpolate(pixels, **how)
    floats = functional.interpolate(pixels.float(), **how)  # a GPU has no kernel for bytes
    return floats.round().clamp(0, 255).to(torch.uint8)


def _by_pillow(pixels: torch.Tensor, size: tuple[int, int], resample: int) -> torch.Tensor:
    """With the filters that torch has not (Lanczos), or has otherwise (nearest)."""
    rows = pixels.permute(0, 2, 3, 1).cpu().numpy()
    resized_images = [
        np.asarray(Image.fromarray(row).resize(size[::-1], Image.Resampling(resample)))
        for row in rows
    ]
    return torch.from_numpy(np.stack(resized_images)).permute(0, 3, 1, 2).to(pixels.device)


def _by_edges(height: int, width: int, shortest: int, longest: int) -> tuple[int, int]:
    """The size whose shorter edge is ``shortest``, unless the longer one would pass ``longest``."""
    low, high = min(height, width), max(height, width)
    exact: float = shortest
    if longest and high / low * shortest > longest:
        exact = longest * low / high
    short, long = round(exact), int(exact * high / low)
    if short == low:
        return height, width
    return (short, long) if height <= width else (long, short)


def _centre(pixels: torch.Tensor, height: int, width: int) -> torch.Tensor:
    """The middle of each image, padded with black where it is smaller than that."""
    sides = pixels.shape[2:]
    down, right = max(0, height - sides[0]), max(0, width - sides[1])
    if down or right:
        top, left = (down + 1) // 2, (right + 1) // 2
        pixels = functional.pad(pixels, (left, right - left, top, down - top))
    top, left = (pixels.shape[2] - height) // 2, (pixels.shape[3] - width) // 2
    return pixels[:, :, top : top + height, left : left + width]


def read_preparation(
    model: str, *, revision: str | None = None, subfolder: str | None = None, dense: bool = False
) -> Preparation:
    """How the processor of a model's own files makes images ready.

    ``dense`` is for outputs at every pixel: nothing is cut away at the sides.
    """
    location, folder = _place_of_processor(model, revision, subfolder)
    processor = load_image_processor(location, revision, subfolder=folder, name=f"hf:{model}")
    with hub_errors(f"hf:{model}"):
        if getattr(processor, "rescale_offset", False):
            raise BackendError(f"hf:{model}: an offset of its pixels is not known here")
        size, crop = processor.size, processor.crop_size
        edges = size.shortest_edge is not None
        cuts = processor.do_center_crop and crop is not None and not dense
        whole = (size.shortest_edge, size.longest_edge or 0) if edges else (size.height, size.width)
        divisors = (getattr(processor, f"{name}divisor", 1) for name in ("size_", "pad_size_"))
        normalises = processor.do_normalize
        return Preparation(
            size=whole if processor.do_resize else None,
            edges=edges,
            crop=(crop.height, crop.width) if cuts else None,
            divisor=next((int(one) for one in divisors if one), 1),
            resample=Image.Resampling(processor.resample),
            scale=float(processor.rescale_factor) if processor.do_rescale else 1.0,
            mean=_of_colours(processor.image_mean if normalises else 0.0),
            std=_of_colours(processor.image_std if normalises else 1.0),
            flip=bool(getattr(processor, "do_flip_channel_order", False)),
        )


def _place_of_processor(
    model: str, revision: str | None, subfolder: str | None
) -> tuple[str, str | None]:
    """The model or the folder above it, and the folder inside, that say how images are made ready.

    A network inside a pipeline has its processor in a folder beside it.
    """
    folders = ("feature_extractor", "image_processor")
    places: list[tuple[str, str | None]] = [(model, subfolder)]
    if subfolder:
        places += [(model, folder) for folder in folders]
    elif Path(model, "..").is_dir():
        places += [(f"{model}/..", folder) for folder in folders]
    for location, folder in places:
        for file in ("preprocessor_config.json", "processor_config.json"):
            if read_text(location, file, revision=revision, subfolder=folder) is not None:
                return location, folder
    raise BackendError(
        f"hf:{model} has no preprocessor_config.json, which says how its images are made ready: "
        "add one (AutoImageProcessor's save_pretrained writes it)"
    )


def _of_colours(statistic: Any) -> tuple[float, ...]:
    values = np.atleast_1d(np.asarray(statistic, dtype=np.float64)).tolist()
    if len(values) not in (1, 3):
        raise ValueError(f"{len(values)} numbers for the three colours")
    return tuple(values) * (3 // len(values))
