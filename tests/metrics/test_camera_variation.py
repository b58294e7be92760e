from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from understudy.metrics.networks.camera_variation import CameraVariation  # noqa: E402
from understudy.metrics.networks.classifier_training import train_on_images  # noqa: E402


def grey(value: float = 120.0) -> torch.Tensor:
    images = torch.full((200, 8, 8, 3), value)
    images[:, :, 4:] = 2 * value
    return images


def changed(**settings: float) -> torch.Tensor:
    nothing = dict.fromkeys(("light", "tint", "contrast", "blur", "sensor_noise"), 0.0)
    torch.manual_seed(0)
    return CameraVariation(**{**nothing, **settings})(grey(100.0))


def test_without_any_change_the_images_stay() -> None:
    assert torch.allclose(changed(), grey(100.0), atol=1e-3)


def test_light_is_of_the_image_and_tint_of_its_colours() -> None:
    light = changed(light=0.2)[:, 0, 0]
    assert 79 < float(light.min()) < 85
    assert 115 < float(light.max()) < 121
    assert torch.allclose(light[:, 0], light[:, 2])
    tint = changed(tint=0.2)[:, 0, 0]
    assert float((tint[:, 0] - tint[:, 2]).abs().max()) > 10


def test_blur_touches_the_edge_alone_and_noise_every_pixel() -> None:
    blurred = changed(blur=1.0)
    assert torch.allclose(blurred[:, :, :3], torch.full((), 100.0), atol=1e-3)
    assert float((blurred[:, :, 3] - 100).max()) > 20
    noise = (changed(sensor_noise=10.0) - grey(100.0)).flatten(1).std(dim=1)
    assert float(noise.max()) < 12
    assert float(noise.min()) < 2 < 8 < float(noise.max())


def test_values_stay_in_their_range() -> None:
    strong = CameraVariation(light=2.0, contrast=2.0, sensor_noise=100.0)(grey())
    assert strong.dtype == torch.float32
    assert float(strong.min()) >= 0
    assert float(strong.max()) <= 255


@pytest.mark.slow
def test_a_model_that_met_other_cameras_knows_a_dim_noisy_image() -> None:
    """Squares and discs, drawn smoothly; then in half of the light, with noise."""
    rng = np.random.default_rng(0)
    y, x = np.mgrid[:24, :24] - 11.5
    shapes = [np.maximum(abs(x), abs(y)) < 6, x**2 + y**2 < 45]
    labels = rng.integers(0, 2, 200)
    images = np.stack([np.where(shapes[one], 200, 120) for one in labels])
    shifted = np.stack([np.roll(one, rng.integers(-4, 5, 2), (0, 1)) for one in images])
    drawn = np.repeat(shifted[..., None], 3, axis=3).astype(np.uint8)
    photos = np.clip(0.4 * drawn + rng.normal(0, 12, drawn.shape), 0, 255).astype(np.uint8)
    scores = [
        (
            train_on_images(drawn, labels, classes=2, epochs=60, camera=camera).predict(photos)
            == labels
        ).mean()
        for camera in (None, CameraVariation())
    ]
    assert scores[1] > 0.9
    assert scores[1] > scores[0] + 0.1
