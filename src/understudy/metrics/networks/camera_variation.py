"""Images as other cameras would take them, in other homes: domain randomisation for a training.

A model that learns from drawn images alone meets photos that differ in colours, light, patterns,
tilt and sensor noise, none of which tells what is seen. So each image is varied in all of these
while a network learns (Tobin et al. 2017, Domain Randomization). Everything random comes from
torch's default generator of the images' device.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

TILT = 8.0
"""Degrees that an image is turned by at most."""
ZOOM = (0.85, 1.1)
STRETCH = (0.88, 1.14)
HUE = 0.25
"""Part of the colour circle that hues are turned by at most."""
SATURATION = (0.5, 1.4)
GREYS = 0.1
"""Part of the images that lose their colours."""
LIGHT = 0.25
CAST = 0.1
"""Relative change of one colour channel's gain at most."""
GAMMA = (0.75, 1.35)
NOISE = 8.0
"""Largest deviation of the sensor's noise, of 255 levels."""
PATTERNED = 0.5
"""Part of the images on which blotches of one colour are laid."""
PATTERN_CELLS = 16
COVER = 0.6
"""How much a blotch covers at most."""
OUTLINED = 0.5
"""Part of the images whose dark lines grow."""
PAPERED = 0.5
"""Part of the images over which stripes or checks are laid."""
PAPER_PERIODS = (4.0, 16.0)
"""Over the side of an image."""
PAPER_CONTRAST = 0.08
VIGNETTE = 0.4
"""How much darker the corners are at most."""


def as_other_cameras(images: Tensor, *, still: bool = False) -> Tensor:
    """Each image with its own random pattern, pose of the camera, colours, light and noise.

    (n, height, width, 1 or 3) uint8 to the same, on the same device; ``still`` leaves everything
    where it is, because the labels say where.
    """
    with images.device:
        values = _shaded(_papered(_outlined(_patterned(_planes(images)))))
        return _photographed(values if still else _moved(values))


def as_other_photos(images: Tensor) -> Tensor:
    """Each image moved a little, in other colours, light and noise; what it shows is left as it is.

    As `as_other_cameras`, without patterns, outlines, papers and shades.
    """
    with images.device:
        return _photographed(_moved(_planes(images)))


def _planes(images: Tensor) -> Tensor:
    return images.permute(0, 3, 1, 2).float() / 255


def _photographed(planes: Tensor) -> Tensor:
    values = _lit(_coloured(planes))
    # Noise of a sensor, of an amount of its own for each image.
    values = values + torch.randn_like(values) * _uniform(0, NOISE / 255, len(values), 1, 1, 1)
    values = values.clamp(0, 1) * 255
    return values.round().to(torch.uint8).permute(0, 2, 3, 1)


def _uniform(low: float, high: float, *shape: int) -> Tensor:
    return low + (high - low) * torch.rand(*shape)


def _axis(low: float, high: float, steps: int, values: Tensor) -> Tensor:
    """Even steps on the device of other values.

    Transformers, once imported, hides `linspace` from the device that is set for a block.
    """
    return torch.linspace(low, high, steps, device=values.device)


def _patterned(values: Tensor) -> Tensor:
    """Blotches over coats, walls and floors: a thresholded smooth field."""
    n, channels, *sides = values.shape
    field = torch.randn(n, 1, PATTERN_CELLS, PATTERN_CELLS)
    field = functional.interpolate(field, size=sides, mode="bicubic", align_corners=False)
    inside = field > _uniform(0.3, 1.8, n, 1, 1, 1)
    presence = torch.rand(n, 1, 1, 1) < PATTERNED
    cover = inside * presence * _uniform(0, COVER, n, 1, 1, 1)
    return values * (1 - cover) + torch.rand(n, channels, 1, 1) * cover


def _outlined(values: Tensor) -> Tensor:
    """Dark lines up to a pixel thicker on each side: mixed with the darkest of the neighbours."""
    n = len(values)
    padded = functional.pad(values, (1, 1, 1, 1), mode="replicate")
    darkest = -functional.max_pool2d(-padded, 3, 1)
    share = _uniform(0, 1, n, 1, 1, 1) * (torch.rand(n, 1, 1, 1) < OUTLINED)
    return torch.lerp(values, darkest, share)


def _papered(values: Tensor) -> Tensor:
    """Faint stripes or checks in any direction, such as walls have."""
    n, _, height, width = values.shape
    down, across = _axis(0, 1, height, values)[:, None], _axis(0, 1, width, values)
    angle = _uniform(0, math.pi, n, 1, 1, 1)
    waves = _uniform(*PAPER_PERIODS, n, 1, 1, 1) * 2 * math.pi
    one = torch.sin(waves * (torch.cos(angle) * across + torch.sin(angle) * down))
    other = torch.sin(waves * (torch.cos(angle) * down - torch.sin(angle) * across))
    pattern = torch.where(torch.rand(n, 1, 1, 1) < 0.5, one, one * other).sign()
    contrast = _uniform(-PAPER_CONTRAST, PAPER_CONTRAST, n, 1, 1, 1)
    return values + pattern * contrast * (torch.rand(n, 1, 1, 1) < PAPERED)


def _shaded(values: Tensor) -> Tensor:
    """Darker towards the corners."""
    n, _, height, width = values.shape
    down, across = _axis(-1, 1, height, values)[:, None], _axis(-1, 1, width, values)
    return values * (1 - _uniform(0, VIGNETTE, n, 1, 1, 1) * (across**2 + down**2) / 2)


def _moved(values: Tensor) -> Tensor:
    """Turned, zoomed and stretched about the middle; edges repeated."""
    n = len(values)
    angle, zoom = _uniform(-TILT, TILT, n) * math.pi / 180, _uniform(*ZOOM, n)
    cosine, sine, wide = torch.cos(angle) / zoom, torch.sin(angle) / zoom, _uniform(*STRETCH, n)
    nowhere = torch.zeros(n)
    rows = [(cosine * wide, -sine, nowhere), (sine * wide, cosine, nowhere)]
    turns = torch.stack([torch.stack(row, 1) for row in rows], 1)
    grid = functional.affine_grid(turns, list(values.shape), align_corners=False)
    return functional.grid_sample(values, grid, padding_mode="border", align_corners=False)


def _coloured(values: Tensor) -> Tensor:
    """Hues turned about grey, more or less saturated; grey images stay as they are."""
    n, channels = values.shape[:2]
    if channels != 3:
        return values
    angle = _uniform(-HUE, HUE, n) * 2 * math.pi
    cosine, sine = torch.cos(angle), torch.sin(angle)
    same, third = (1 + 2 * cosine) / 3, (1 - cosine) / 3
    less, more = third - sine / math.sqrt(3), third + sine / math.sqrt(3)
    rows = ((same, less, more), (more, same, less), (less, more, same))
    rotation = torch.stack([torch.stack(row, 1) for row in rows], 1)
    strength = _uniform(*SATURATION, n) * (torch.rand(n) >= GREYS)
    grey = torch.full((3, 3), 1 / 3)
    mix = strength[:, None, None] * torch.eye(3) + (1 - strength[:, None, None]) * grey
    return torch.einsum("nij,njhw->nihw", rotation @ mix, values)


def _lit(values: Tensor) -> Tensor:
    """Brighter or darker, in another tint, and another gamma."""
    n, channels = values.shape[:2]
    gains = _uniform(1 - LIGHT, 1 + LIGHT, n, 1, 1, 1)
    gains = gains * _uniform(1 - CAST, 1 + CAST, n, channels, 1, 1)
    values = values * gains + _uniform(-0.08, 0.08, n, 1, 1, 1)
    return torch.as_tensor(values.clamp(1e-3, 1) ** _uniform(*GAMMA, n, 1, 1, 1))
