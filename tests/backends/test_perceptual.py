"""TorchScript files as perceptual distances: whole metrics, and networks that give maps."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")


from understudy.backends.perceptual_network import ScriptedDistance  # noqa: E402
from understudy.core.errors import BackendError  # noqa: E402
from understudy.core.ports import PerceptualDistance  # noqa: E402
from understudy.core.types import Images  # noqa: E402


class Metric(torch.nn.Module):
    """Mean absolute difference."""

    def forward(self, a, b):
        return (a - b).abs().mean(dim=(1, 2, 3), keepdim=True)


class Whole(torch.nn.Module):
    """One number for the batch, which is no metric of pairs."""

    def forward(self, a, b):
        return (a - b).abs().mean()


class Layers(torch.nn.Module):
    def forward(self, x):
        return x, torch.nn.functional.avg_pool2d(x, 2)[:, :2]


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


def test_what_is_no_metric(saved: Callable[..., Path], tmp_path: Path) -> None:
    a = pictures(3, 1)
    with pytest.raises(BackendError, match="no such file"):
        ScriptedDistance(tmp_path / "none.pt")
    (tmp_path / "text.pt").write_text("not this")
    with pytest.raises(BackendError, match="not a readable TorchScript file"):
        ScriptedDistance(tmp_path / "text.pt")
    torch.save({"lin0.weight": torch.ones(3)}, tmp_path / "alex.pth")
    with pytest.raises(BackendError, match="weights alone"):
        ScriptedDistance(tmp_path / "alex.pth")
    with pytest.raises(BackendError, match="one finite number a pair"):
        ScriptedDistance(saved(Whole())).distance(a, a)
    with pytest.raises(BackendError, match="cannot run on 2 x"):
        ScriptedDistance(saved(Layers())).distance(a, a)
    with pytest.raises(BackendError, match="one shape"):
        ScriptedDistance(saved(Metric())).distance(a, a[:1])
