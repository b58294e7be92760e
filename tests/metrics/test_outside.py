"""The measures of fidelity against other people's programs, on the same features."""

import numpy as np
import pytest
from scipy.linalg import sqrtm

from understudy.metrics.fidelity import _squared_mmd, frechet_distance, inception_score

DIM = 64


@pytest.fixture(scope="module", params=[np.float32, np.float64], ids=["float32", "float64"])
def features(request):
    """Real and synthetic features about ten places, as classes lie."""
    rng = np.random.default_rng(0)
    places = rng.normal(size=(10, DIM)) * 2
    real = places[rng.integers(0, 10, 1500)] + rng.normal(size=(1500, DIM))
    synthetic = places[rng.integers(0, 9, 1200)] * 1.05 + 0.9 * rng.normal(size=(1200, DIM))
    return real.astype(request.param), synthetic.astype(request.param)


def test_the_frechet_distance_is_scipys(features):
    real, synthetic = (side.astype(np.float64) for side in features)
    one, two = np.cov(real, rowvar=False), np.cov(synthetic, rowvar=False)
    expected = np.square(real.mean(0) - synthetic.mean(0)).sum()
    expected += np.trace(one + two - 2 * sqrtm(one @ two).real)
    assert frechet_distance(*features) == pytest.approx(expected, abs=1e-4)


def test_the_kernel_distance_is_torchmetrics(features):
    torch = pytest.importorskip("torch")
    kid = pytest.importorskip("torchmetrics.image.kid", reason="pip install torchmetrics")
    real, synthetic = (torch.from_numpy(side[:300].astype(np.float64)) for side in features)
    expected = float(kid.poly_mmd(real, synthetic))
    assert _squared_mmd(real.numpy(), synthetic.numpy()) == pytest.approx(expected, abs=1e-4)


def test_the_inception_score_is_its_formula():
    rng = np.random.default_rng(1)
    logits = 3 * rng.normal(size=(500, 12))
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    parts = [
        np.exp(np.mean([(q * np.log(q / part.mean(axis=0))).sum() for q in part]))
        for part in np.split(np.random.default_rng(0).permutation(p), 10)
    ]
    assert inception_score(p).value == pytest.approx(np.mean(parts), abs=1e-4)
