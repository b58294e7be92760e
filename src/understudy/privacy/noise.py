"""Discrete Gaussian noise on exact integer sums. The only module that draws DP noise.

The noise comes from OpenDP, which samples exactly (Canonne, Kamath and Steinke 2020) from the
operating system's generator. There is no seed to give, no floating-point sampler to attack
(Mironov 2012), and no ``except`` around the mechanism: an error in here ends the run.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray

# Not opendp.prelude, which imports scikit-learn and pandas: seconds, and nothing of it is used.
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import make_gaussian
from opendp.metrics import l2_distance
from opendp.mod import enable_features

from understudy.core.errors import ConfigError
from understudy.privacy.accounting import MIN_SCALE

enable_features("contrib")

_CHUNK = 1 << 11  # numbers, so that no thread waits long for another one


def require_scale(scale: float) -> None:
    """Refuse a noise scale for which the accounting would not hold.

    Raises:
        ConfigError: A scale below `MIN_SCALE`, or one that is not a finite number.
    """
    if not (math.isfinite(scale) and scale >= MIN_SCALE):
        raise ConfigError(
            f"the noise scale must be at least {MIN_SCALE} grid steps, found {scale:g}: the proof "
            "of the guarantee does not cover so little noise. Use a smaller epsilon"
        )


def add_discrete_gaussian(total: NDArray[np.int64], scale: float) -> NDArray[np.int64]:
    """Exact integer sums plus independent discrete Gaussian noise.

    Args:
        total: (D,) int64 exact sums, in grid steps.
        scale: Noise scale in grid steps, at least `MIN_SCALE`.
    """
    require_scale(scale)
    mechanism = make_gaussian(
        vector_domain(atom_domain(T="i64")), l2_distance(T="f64"), scale=scale
    )
    if len(total) <= _CHUNK:  # starting threads for it takes longer than a small draw
        return np.array(mechanism(total.tolist()), dtype=np.int64)
    chunks = [total[i : i + _CHUNK] for i in range(0, len(total), _CHUNK)]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        noisy = list(pool.map(lambda chunk: mechanism(chunk.tolist()), chunks))
    return np.concatenate([np.asarray(part, dtype=np.int64) for part in noisy])
