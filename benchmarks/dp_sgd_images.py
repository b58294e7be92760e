"""The rival on images: train the small convolutional network itself by DP-SGD (Opacus).

As in :mod:`benchmarks.dp_sgd` everything leans to the rival: the number of rows is public and the
noise comes from a seeded generator. ResNet-50 and VGG-11 have no such rival: batch normalisation
mixes rows, so per-row gradients do not exist (the alignment paper leaves them out as well).
"""

from __future__ import annotations

import math
import time
import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.dp_sgd import Labels, Peer

Images = NDArray[np.uint8]


def opacus_cnn(
    images: Images,
    y: Labels,
    test: Images,
    yt: Labels,
    epsilon: float,
    delta: float,
    *,
    epochs: int = 20,
    batch: int = 256,
    lr: float = 0.5,
    clip: float = 1.0,
    seed: int = 0,
) -> Peer:
    """The small CNN of evaluate.networks by Opacus: Poisson sampling, its PRV accountant.

    Args:
        images: (n, height, width, channels) private images.
        y: (n,) their classes.
        test: Real test images.
        yt: Their classes.
        epsilon: Of the trained model.
        delta: Of the trained model.
        epochs: Passes over the images.
        batch: Expected rows of a step.
        lr: Learning rate of SGD with momentum 0.9.
        clip: L2 bound of a row's gradient.
        seed: Of weights, sampling and noise.
    """
    import torch
    from opacus import PrivacyEngine

    from understudy.evaluate.networks import small_cnn

    start = time.perf_counter()
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # Opacus warns that its noise is seeded: here it may be
        torch.default_generator.manual_seed(seed)
        classes = int(max(y.max(), yt.max())) + 1
        rows = torch.utils.data.TensorDataset(_tensor(images), torch.from_numpy(y))
        model: Any = small_cnn(images.shape[1:], classes)
        model, optimiser, loader = PrivacyEngine(accountant="prv").make_private_with_epsilon(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9),
            data_loader=torch.utils.data.DataLoader(rows, batch_size=min(batch, len(y))),
            target_epsilon=epsilon,
            target_delta=delta,
            epochs=epochs,
            max_grad_norm=clip,
        )
        loss = torch.nn.CrossEntropyLoss()
        for _ in range(epochs):
            for values, labels in loader:
                optimiser.zero_grad()
                if len(labels):
                    loss(model(values), labels).backward()
                    optimiser.step()
        model.eval()
        with torch.inference_mode():
            parts = np.array_split(np.arange(len(yt)), math.ceil(len(yt) / 512))
            found = np.concatenate([model(_tensor(test[part])).argmax(1) for part in parts])
    setting = {"epochs": epochs, "batch": batch, "lr": lr, "clip": clip}
    seconds = time.perf_counter() - start
    accuracy = float((found == yt).mean())
    return Peer("Opacus DP-SGD, small CNN", accuracy, epsilon, delta, seconds, setting)


def _tensor(images: Images) -> Any:
    """Pixels from -1 to 1, channels first: no statistics of private images are looked at."""
    import torch

    return torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1
