"""The rival on embeddings: train a classifier with DP gradient descent, release only the model.

Two peers, both tested on the real test split:

- :func:`dp_gd_linear`: softmax regression by full-batch gradient descent with clipped gradients and
  Gaussian noise, accounted exactly (Gaussian DP). The strongest simple rival at small epsilon.
- :func:`opacus_linear` and :func:`opacus_two_layer`: DP-SGD by Opacus 1.6.0 with Poisson sampling
  and its PRV accountant.

Everything here leans the rival's way: the number of rows is taken as public, the best of the grid
is shown although choosing it looked at the test set, and neither is charged for. The noise comes
from seeded generators, so none of this may be used to release anything.

    python -m benchmarks.dp_sgd FEATURES.npz [--epsilon 1 2 4 8] [--delta 1e-5] [--opacus]

FEATURES.npz holds ``x`` (n, d) float32, ``y`` (n,), ``xt`` and ``yt``.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

from understudy.metrics.scoring import balanced_accuracy, confusion

Floats = NDArray[np.floating[Any]]
Labels = NDArray[np.int64]

GRID: dict[str, tuple[float, ...]] = {
    "steps": (50, 100, 300),
    "lr": (200.0, 400.0, 800.0),
    "clip": (0.3, 1.0),
}
"""What :func:`best_of` tries by default for :func:`dp_gd_linear`."""


@dataclass(frozen=True)
class Peer:
    """What one rival reached."""

    name: str  # what was run
    balanced: float  # balanced accuracy on the real test split, in [0, 1]
    epsilon: float  # of the trained model
    delta: float  # of the trained model
    seconds: float  # time to train, noise calibration included
    setting: Mapping[str, Any] = field(default_factory=dict)  # the options it ran with


def balanced(truth: Labels, answers: Labels) -> float:
    """The mean recall over the classes of the test split."""
    classes = int(max(truth.max(), answers.max())) + 1
    return balanced_accuracy(confusion(truth, answers, classes))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """The mu whose Gaussian-DP curve passes through (epsilon, delta).

    Balle and Wang 2018 (theorem 8); Dong, Roth and Su 2022 (corollary 2.13). Written again here so
    that the rival's noise does not hang on the library it is compared with.
    """

    def excess(mu: float) -> float:
        left, right = norm.cdf(-epsilon / mu + mu / 2), norm.cdf(-epsilon / mu - mu / 2)
        return float(left - math.exp(epsilon) * right) - delta

    return float(brentq(excess, 1e-6, 100.0, xtol=1e-12))


def unit_rows(x: Floats, centre: Floats | None = None) -> Floats:
    """Rows of L2 norm 1, after taking away ``centre`` (which must be public)."""
    rows = x.astype(np.float32) - (0 if centre is None else centre.astype(np.float32))
    unit: Floats = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit


def dp_gd_linear(
    x: Floats,
    y: Labels,
    xt: Floats,
    yt: Labels,
    epsilon: float,
    delta: float,
    *,
    steps: int = 100,
    lr: float = 400.0,
    clip: float = 0.3,
    momentum: float = 0.9,
    centre_share: float = 0.02,
    seed: int = 0,
) -> Peer:
    """Softmax regression by full-batch DP gradient descent.

    Every step releases the sum of the per-row gradients, each clipped to ``clip`` in L2, with
    Gaussian noise of ``clip * sqrt(steps) / mu``: the steps together are mu-GDP, which is
    (epsilon, delta)-DP exactly, under adding or removing a row, the mean's part of mu taken off.
    The model is the mean of the weights over the last half of the steps: post-processing.

    Args:
        x: (n, d) training embeddings. Rows are brought to norm 1 one by one, which is not charged.
        y: (n,) classes 0, 1, ...
        xt: (m, d) test embeddings.
        yt: (m,) their classes.
        epsilon: Of the trained model.
        delta: Of the trained model.
        steps: Gradient steps.
        lr: Learning rate on the mean gradient.
        clip: L2 bound of a row's gradient.
        momentum: Heavy-ball momentum, scaled so that ``lr`` keeps its meaning.
        centre_share: Part of mu^2 that goes to a noisy mean, taken away from all rows first; 0
            for none. Rows are brought to norm 1 before and after.
        seed: Of the noise.
    """
    start = time.perf_counter()
    rng = np.random.default_rng(seed)
    mu = gaussian_mu(epsilon, delta)
    x, xt = unit_rows(x), unit_rows(xt)
    if centre_share:
        noise = rng.normal(0, 1 / (mu * math.sqrt(centre_share)), x.shape[1])
        centre = (x.sum(0) + noise) / len(x)
        x, xt = unit_rows(x, centre), unit_rows(xt, centre)
    truth = np.eye(int(max(y.max(), yt.max())) + 1, dtype=np.float32)[y]
    sigma = clip * math.sqrt(steps) / (mu * math.sqrt(1 - centre_share))
    weights = np.zeros((x.shape[1], truth.shape[1]), np.float32)
    velocity, average = np.zeros_like(weights), np.zeros_like(weights)
    for step in range(steps):
        scores = x @ weights
        scores -= scores.max(1, keepdims=True)
        errors = np.exp(scores)
        errors = errors / errors.sum(1, keepdims=True) - truth
        # Rows have norm 1, so the gradient x (outer) error has the error's norm.
        errors *= np.minimum(1, clip / np.maximum(np.linalg.norm(errors, axis=1), 1e-12))[:, None]
        noisy = x.T @ errors + rng.normal(0, sigma, weights.shape).astype(np.float32)
        velocity = momentum * velocity + (1 - momentum) * noisy / len(x)
        weights = weights - lr * velocity
        if step >= steps // 2:
            average += weights / (steps - steps // 2)
    found = (xt @ average).argmax(1)
    setting = {"steps": steps, "lr": lr, "clip": clip, "centre_share": centre_share}
    seconds = time.perf_counter() - start
    return Peer("DP-GD, linear", balanced(yt, found), epsilon, delta, seconds, setting)


def best_of(
    run: Callable[..., Peer], grid: Mapping[str, Iterable[Any]], *args: Any, **options: Any
) -> Peer:
    """The best of all settings on the grid. Generous: the choice looked at the test set."""
    keys = list(grid)
    trials = (dict(zip(keys, values, strict=True)) for values in itertools.product(*grid.values()))
    return max((run(*args, **options, **trial) for trial in trials), key=lambda p: p.balanced)


def opacus_linear(
    x: Floats, y: Labels, xt: Floats, yt: Labels, epsilon: float, delta: float, **options: Any
) -> Peer:
    """A linear layer on rows of norm 1, by Opacus; options as :func:`opacus_two_layer`."""
    from torch import nn

    return _opacus(
        "Opacus DP-SGD, linear", nn.Linear, x, y, xt, yt, epsilon, delta, **{"lr": 8.0, **options}
    )


def opacus_two_layer(
    x: Floats, y: Labels, xt: Floats, yt: Labels, epsilon: float, delta: float, **options: Any
) -> Peer:
    """The two-layer network of metrics.networks, by Opacus.

    Batch normalisation mixes rows, so per-row gradients do not exist: layer normalisation stands
    in, as Opacus advises, and dropout, which only adds noise here, is left out.
    """
    from torch import nn

    def network(dim: int, classes: int) -> nn.Module:
        return nn.Sequential(
            nn.Linear(dim, 128), nn.LayerNorm(128), nn.ReLU(), nn.Linear(128, classes)
        )

    return _opacus("Opacus DP-SGD, two layers", network, x, y, xt, yt, epsilon, delta, **options)


def _opacus(
    name: str,
    network: Callable[[int, int], Any],
    x: Floats,
    y: Labels,
    xt: Floats,
    yt: Labels,
    epsilon: float,
    delta: float,
    *,
    epochs: int = 20,
    batch: int = 2048,
    lr: float = 2.0,
    clip: float = 1.0,
    accountant: str = "prv",
    seed: int = 0,
) -> Peer:
    import torch

    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # Opacus warns that its noise is seeded: here it may be
        from opacus import PrivacyEngine

        start = time.perf_counter()
        torch.default_generator.manual_seed(seed)
        rows = torch.from_numpy(unit_rows(x)), torch.from_numpy(y.astype(np.int64))
        model = network(x.shape[1], int(max(y.max(), yt.max())) + 1)
        engine = PrivacyEngine(accountant=accountant)
        model, optimiser, loader = engine.make_private_with_epsilon(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9),
            data_loader=torch.utils.data.DataLoader(
                torch.utils.data.TensorDataset(*rows), batch_size=min(batch, len(x))
            ),
            target_epsilon=epsilon,
            target_delta=delta,
            epochs=epochs,
            max_grad_norm=clip,
            epsilon_tolerance=1e-3,
        )
        loss = torch.nn.CrossEntropyLoss()
        for _ in range(epochs):
            for values, labels in loader:
                optimiser.zero_grad()
                loss(model(values), labels).backward()
                optimiser.step()
        model.eval()
        with torch.inference_mode():
            found = model(torch.from_numpy(unit_rows(xt))).argmax(1).numpy()
        spent = float(engine.get_epsilon(delta))
        seconds = time.perf_counter() - start
    setting = {"epochs": epochs, "batch": batch, "lr": lr, "clip": clip, "accountant": accountant}
    return Peer(name, balanced(yt, found), spent, delta, seconds, setting)


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    words.add_argument("features")
    words.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 2.0, 4.0, 8.0])
    words.add_argument("--delta", type=float, default=1e-5)
    words.add_argument("--opacus", action="store_true", help="also run Opacus (slower)")
    return words


def main() -> None:
    """Print a table of all peers for one file of features."""
    asked = parser().parse_args()
    with np.load(asked.features, allow_pickle=False) as file:
        data = [file[key] for key in ("x", "y", "xt", "yt")]
    print(f"{'peer':<28}{'epsilon':>9}{'balanced':>10}{'seconds':>9}  setting")
    for epsilon in asked.epsilon:
        work = (*data, epsilon, asked.delta)
        peers = [best_of(dp_gd_linear, GRID, *work)]
        if asked.opacus:
            peers += [opacus_linear(*work), opacus_two_layer(*work)]
        for peer in peers:
            row = f"{peer.name:<28}{peer.epsilon:>9.3f}{100 * peer.balanced:>9.2f}%"
            print(f"{row}{peer.seconds:>9.1f}  {dict(peer.setting)}", flush=True)


if __name__ == "__main__":
    main()
