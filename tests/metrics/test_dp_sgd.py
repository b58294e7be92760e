"""DP-SGD learns, spends what it says by another library's accountant, and mixes no rows."""

import functools
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from tests.metrics.test_utility import cloud

from understudy.metrics.dp_sgd import _untrained, dp_sgd
from understudy.metrics.networks import recipes
from understudy.metrics.utility import Labelled

pytest.importorskip("opacus", reason="pip install 'understudy[bench]'")


def pictures(n: int, seed: int) -> Labelled:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    x = rng.integers(0, 100, (n, 16, 16, 1)) + 120 * y[:, None, None, None]
    return Labelled(x.astype(np.uint8), y, ("dark", "light"))


EASY: dict[str, Any] = {"epsilon": 2.0, "delta": 1e-4, "epochs": 5, "batch": 64}
QUICK: dict[str, Any] = {"epsilon": 0.1, "delta": 1e-4, "epochs": 1, "batch": 20}
"""What the accountant is soon done with."""


def test_embeddings_are_learned_and_the_accounting_is_googles() -> None:
    told: list[tuple[int, int]] = []
    found = dp_sgd(
        cloud(1000, 1),
        cloud(500, 2),
        network="two-layer",
        progress=lambda *now: told.append(now),
        **EASY,
    )
    assert found.result.accuracy > 0.9
    assert found.result.network == "two-layer"
    assert (found.steps, found.rate) == (5 * 16, 1 / 16)
    assert told == [(epoch, 5) for epoch in range(1, 6)]
    assert 1.95 < found.epsilon <= 2.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import dp_accounting
        from dp_accounting.pld import PLDAccountant
    step = dp_accounting.PoissonSampledDpEvent(
        found.rate, dp_accounting.GaussianDpEvent(found.noise)
    )
    again = PLDAccountant().compose(step, found.steps).get_epsilon(1e-4)
    assert found.epsilon == pytest.approx(again, rel=0.01)


@pytest.mark.slow
def test_images_are_learned_by_the_networks_that_mix_no_rows() -> None:
    for network in ("cnn", "convnet"):
        found = dp_sgd(pictures(400, 1), pictures(200, 2), network=network, lr=0.1, **EASY)
        assert found.result.accuracy > 0.95
        assert len(found.result.confusion) == 2


def test_at_a_tiny_epsilon_nothing_is_learned() -> None:
    hidden = dp_sgd(cloud(1000, 1), cloud(900, 2), network="two-layer", **{**EASY, "epsilon": 0.05})
    assert hidden.result.accuracy < 0.8
    assert hidden.noise > 10


def test_batch_normalisation_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    build, recipe = recipes.IMAGES["resnet9"]
    narrow = functools.partial(build, width=4)
    monkeypatch.setitem(recipes.IMAGES, "resnet9", (narrow, recipe))
    monkeypatch.setattr("understudy.metrics.dp_sgd._GRADIENTS", 1)  # one row at a time
    data = pictures(24, 1)
    options = {**QUICK, "batch": 3}  # so few that some steps have no row at all
    assert dp_sgd(data, data, network="resnet9", **options).steps == 8
    kinds = {type(one) for one in _untrained("resnet9", data).model.modules()}
    assert torch.nn.BatchNorm2d not in kinds
    assert torch.nn.GroupNorm in kinds
