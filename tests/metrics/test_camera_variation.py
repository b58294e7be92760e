"""Images as other cameras would take them: what changes, and what must not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn import functional

from understudy.metrics.networks import camera_variation
from understudy.metrics.networks.camera_variation import as_other_cameras

SMOOTH = torch.linspace(60, 200, 48).repeat(48, 1).to(torch.uint8)


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


@pytest.mark.parametrize("channels", [1, 3])
def test_every_image_is_varied_in_its_own_way(channels: int) -> None:
    images = SMOOTH[None, ..., None].repeat(40, 1, 1, channels)
    varied = as_other_cameras(images)
    assert varied.dtype == torch.uint8
    assert varied.shape == images.shape
    assert len(varied.flatten(1).unique(dim=0)) == 40
    brightness = varied.float().mean((1, 2, 3))
    assert brightness.std() > 10


def test_hues_turn_and_grey_stays_grey() -> None:
    red = torch.zeros(300, 8, 8, 3, dtype=torch.uint8)
    red[..., 0], red[..., 1:] = 200, 40
    strongest = camera_variation._coloured(red.permute(0, 3, 1, 2) / 255).mean((2, 3)).argmax(1)
    assert set(strongest.tolist()) == {0, 1, 2}
    grey = torch.full((50, 3, 8, 8), 0.4)
    assert torch.allclose(camera_variation._coloured(grey), grey, atol=1e-5)


@pytest.mark.parametrize("still", [True, False])
def test_what_is_labelled_by_its_place_stays_there(still: bool) -> None:
    images = torch.full((60, 48, 48, 3), 30, dtype=torch.uint8)
    images[:, 8:20, 26:38] = 230
    varied = as_other_cameras(images, still=still).float().mean(3)
    brightest = functional.avg_pool2d(varied[:, None], 12, 1).flatten(1).argmax(1)
    corners = torch.stack([brightest // 37, brightest % 37], 1)
    away = (corners - torch.tensor([8, 26])).abs().amax(1)
    assert ((away <= 1).float().mean() > 0.8) == still
