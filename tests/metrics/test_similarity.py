"""MSE, PSNR and SSIM against scikit-image."""

import numpy as np
import pytest

from understudy.core.types import Images
from understudy.metrics.reconstruction import decibels, mse, ssim


def pairs(shape: tuple[int, int, int], n: int = 4) -> tuple[Images, Images]:
    """From nearly the same picture to nothing alike."""
    rng = np.random.default_rng(0)
    a = (
        rng.integers(0, 256, (n, *shape)).cumsum(axis=1)
        // np.arange(1, shape[0] + 1)[:, None, None]
    )
    noise = rng.normal(0, 1, a.shape) * np.array([2, 20, 60, 200])[:n, None, None, None]
    return a.astype(np.uint8), np.clip(a + noise, 0, 255).astype(np.uint8)


@pytest.mark.parametrize("shape", [(11, 11, 1), (28, 28, 1), (40, 33, 3)])
def test_against_scikit_image(shape: tuple[int, int, int]) -> None:
    metrics = pytest.importorskip("skimage.metrics")
    a, b = pairs(shape)
    options = {
        "gaussian_weights": True,
        "sigma": 1.5,
        "use_sample_covariance": False,
        "data_range": 255,
        "channel_axis": 2,
    }
    for at in range(len(a)):
        one, two = a[at].astype(np.float64), b[at].astype(np.float64)
        structural = metrics.structural_similarity(one, two, **options)
        assert ssim(a, b)[at] == pytest.approx(structural, abs=1e-9)
        assert mse(a, b)[at] == pytest.approx(metrics.mean_squared_error(one, two))
        peak = metrics.peak_signal_noise_ratio(one, two, data_range=255)
        assert decibels(mse(a, b))[at] == pytest.approx(peak)
