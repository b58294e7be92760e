"""Images to what a network of the hub takes: resized, cropped, scaled, whole batches at a time.

The same numbers as the image processors of ``transformers`` give, read from the same file
(``preprocessor_config.json``), without their loop over single images and without torchvision.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch.nn import functional

from understudy.backends.arrays import with_channels
from understudy.backends.hub.pretrained import read_hub_json
from understudy.core.errors import BackendError
from understudy.core.types import Images

_CLIP = ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711))
_IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_HALF = ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5))

_LONGEST_SIDE = 2**14  # pixels; a batch of larger images fills any memory
_BILINEAR, _BICUBIC = 2, 3  # Pillow's numbers, as the files use them
_MODES = {_BILINEAR: "bilinear", _BICUBIC: "bicubic"}

# What the processors do where the file says nothing.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "CLIP": {"size": 224, "crop": 224, "resample": _BICUBIC, "norm": _CLIP, "square": False},
    "Bit": {"size": 224, "crop": 224, "resample": _BICUBIC, "norm": _CLIP, "square": False},
    "ChineseCLIP": {"size": 224, "crop": 224, "resample": _BICUBIC, "norm": _CLIP, "square": False},
    "Siglip": {"size": 224, "resample": _BICUBIC, "norm": _HALF},
    "Siglip2": {"size": 256, "resample": _BILINEAR, "norm": _HALF},
    "Blip": {"size": 384, "resample": _BICUBIC, "norm": _CLIP},
    "ViT": {"size": 224, "resample": _BILINEAR, "norm": _HALF},
    "DINOv3ViT": {"size": 224, "resample": _BILINEAR, "norm": _IMAGENET},
    "Segformer": {"size": 512, "resample": _BILINEAR, "norm": _IMAGENET},
    "RTDetr": {"size": 640, "resample": _BILINEAR, "norm": None},
}
_OTHER = {
    "size": {"shortest_edge": 800, "longest_edge": 1333},
    "resample": _BILINEAR,
    "norm": _IMAGENET,
}


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
    """How a model's own files say that images are made ready.

    ``dense`` is for outputs at every pixel: nothing is cut away at the sides.
    """
    config = preparation_config(model, revision=revision, subfolder=subfolder)
    kind = str(config.get("image_processor_type") or config.get("feature_extractor_type") or "")
    kind = kind.removesuffix("Fast").removesuffix("ImageProcessor").removesuffix("FeatureExtractor")
    base = _DEFAULTS.get(kind, _OTHER)
    if config.get("rescale_offset"):
        raise BackendError(f"hf:{model}: rescale_offset of {kind}ImageProcessor is not known here")
    try:
        size, edges = _size(config.get("size", base["size"]), base.get("square", True), config)
        crop = config.get("crop_size", base.get("crop"))
        # BiT's, ViT's and others' files may hold a crop size that is not used.
        cuts = config.get("do_center_crop", "crop" in base) and not dense
        mean, std = base["norm"] or ((0.0,) * 3, (1.0,) * 3)
        normalise = config.get("do_normalize", base["norm"] is not None)
        return Preparation(
            size=size if config.get("do_resize", True) else None,
            edges=edges,
            crop=_pair(crop) if cuts and crop is not None else None,
            divisor=int(config.get("size_divisor") or config.get("pad_size_divisor") or 1),
            resample=Image.Resampling(int(config.get("resample", base["resample"]))),
            scale=float(config.get("rescale_factor", 1 / 255))
            if config.get("do_rescale", 1)
            else 1.0,
            mean=_channels(config.get("image_mean", mean)) if normalise else (0.0,) * 3,
            std=_channels(config.get("image_std", std)) if normalise else (1.0,) * 3,
            flip=bool(config.get("do_flip_channel_order", kind == "MobileViT")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise BackendError(
            f"hf:{model}: its preprocessor_config.json cannot be used: {error!r}"
        ) from error


def preparation_config(
    model: str, *, revision: str | None = None, subfolder: str | None = None
) -> dict[str, Any]:
    """What the model's files say of its image processor, wherever they say it."""
    # A network inside a pipeline has its processor in a folder beside it.
    folders = [subfolder, *(("feature_extractor", "image_processor") if subfolder else ())]
    places = [(model, folder) for folder in folders]
    if not subfolder:
        places += [(f"{model}/..", "feature_extractor"), (f"{model}/..", "image_processor")]
    for location, folder in places:
        if location.endswith("/..") and not Path(location).is_dir():
            continue
        whole = read_hub_json(
            location, "processor_config.json", revision=revision, subfolder=folder
        )
        if whole is not None and isinstance(whole.get("image_processor"), Mapping):
            return dict(whole["image_processor"])
        config = read_hub_json(
            location, "preprocessor_config.json", revision=revision, subfolder=folder
        )
        if config is not None:
            return config
    raise BackendError(
        f"hf:{model} has no preprocessor_config.json, which says how its images are made ready: "
        "add one (AutoImageProcessor's save_pretrained writes it)"
    )


def _size(size: Any, square: bool, config: Mapping[str, Any]) -> tuple[tuple[int, int], bool]:
    """``size`` of a file in all its spellings, and whether it speaks of edges."""
    if isinstance(size, Mapping):
        if size.get("height") and size.get("width"):
            return (int(size["height"]), int(size["width"])), False
        if size.get("shortest_edge"):
            return (int(size["shortest_edge"]), int(size.get("longest_edge") or 0)), True
        raise ValueError(f"size {dict(size)}")
    if isinstance(size, list | tuple):
        return _pair(size), False
    if square and "max_size" not in config:
        return (int(size), int(size)), False
    return (int(size), int(config.get("max_size") or 0)), True


def _pair(size: Any) -> tuple[int, int]:
    if isinstance(size, Mapping):
        return int(size["height"]), int(size["width"])
    if isinstance(size, list | tuple):
        return int(size[0]), int(size[-1])
    return int(size), int(size)


def _channels(statistic: Any) -> tuple[float, ...]:
    values = (
        tuple(float(value) for value in statistic)
        if isinstance(statistic, list | tuple)
        else (statistic,)
    )
    if len(values) not in (1, 3):
        raise ValueError(f"{len(values)} numbers for the three colours")
    return values * (3 // len(values))
