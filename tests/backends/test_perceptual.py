"""TorchScript files as perceptual distances: whole metrics, and networks that give maps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from understudy.backends.perceptual_network import ScriptedDistance  # noqa: E402
from understudy.core.ports import PerceptualDistance  # noqa: E402
from understudy.core.types import Images  # noqa: E402


class Metric(torch.nn.Module):
    """Mean absolute difference."""

    def forward(self, a, b):
        return (a - b).abs().mean(dim=(1, 2, 3), keepdim=True)


def pictures(n: int, seed: int, channels: int = 3) -> Images:
    return np.random.default_rng(seed).integers(0, 256, (n, 8, 8, channels)).astype(np.uint8)


@pytest.fixture
def saved(tmp_path: Path) -> Callable[..., Path]:
    def save(module: torch.nn.Module) -> Path:
        path = tmp_path / f"{type(module).__name__}.pt"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            torch.jit.script(module).save(str(path))
        return path

    return save


def test_a_whole_metric(saved: Callable[..., Path]) -> None:
    metric = ScriptedDistance(saved(Metric()))
    assert isinstance(metric, PerceptualDistance)
    a, b = pictures(70, 1), pictures(70, 2)  # more than one batch
    expected = np.abs(a.astype(float) - b).mean(axis=(1, 2, 3)) / 127.5
    assert metric.distance(a, b) == pytest.approx(expected, abs=1e-6)
    assert metric.distance(a, a).tolist() == [0] * 70
    assert metric.distance(a[:0], a[:0]).shape == (0,)
    assert metric.name == "torchscript:Metric.pt"
