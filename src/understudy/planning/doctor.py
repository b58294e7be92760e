"""``understudy doctor``: is this machine ready?"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from understudy.backends.embedded.shipped import PHOTO_WEIGHTS, STUDIO_WEIGHTS, damaged, is_shipped
from understudy.backends.registry import backends
from understudy.core.errors import UnderstudyError, count_words
from understudy.core.independence import product
from understudy.core.version import understudy_version
from understudy.privacy import noise
from understudy.privacy.accounting import MIN_SCALE
from understudy.privacy.ledger.ledger import Ledger


@dataclass(frozen=True)
class Check:
    """One finding."""

    name: str
    finding: str
    good: bool = True


def check_up() -> list[Check]:
    """Look at the packages, the processors, the ledger and the noise."""
    checks = [
        Check("understudy", understudy_version()),
        Check("python", f"{platform.python_version()} on {platform.platform()}"),
        Check("processors", str(os.cpu_count()), (os.cpu_count() or 0) > 0),
    ]
    for package in (
        "numpy",
        "opendp",
        "dp-accounting",
        "torch",
        "onnxruntime",
        "datasets",
        "psycopg",
    ):
        checks.append(_package(package))
    checks += [
        Check(f"{one.kind}: {one.name}", "ready" if one.available else f"needs {one.extra}")
        for one in backends()
    ]
    checks += [_weights("studio", STUDIO_WEIGHTS), _weights("photo", PHOTO_WEIGHTS)]
    return [*checks, _noise(), _independence(), _graphics(), _ledger()]


def _package(name: str) -> Check:
    try:
        return Check(name, version(name))
    except PackageNotFoundError:
        needed = name in ("numpy", "opendp", "dp-accounting")
        return Check(name, "not installed", not needed)


def _weights(model: str, folder: Path) -> Check:
    name = f"weights of embedded:{model}"
    if not is_shipped(folder):
        return Check(name, "none in this package: it needs a folder", False)
    wrong = damaged(folder)
    return Check(name, f"damaged: {', '.join(wrong)}" if wrong else "as shipped", not wrong)


def _noise() -> Check:
    draws = noise.add_discrete_gaussian(np.zeros(1000, dtype=np.int64), float(MIN_SCALE))
    spread = float(np.std(draws)) / MIN_SCALE
    # Five standard errors of 1000 draws: a sound sampler fails once in two million.
    return Check("noise", f"spread {spread:.2f} of 1 expected", abs(spread - 1) < 5 / np.sqrt(2000))


def _independence() -> Check:
    """Whether the product that views are made with gives a row the same bits in any batch."""
    rng = np.random.default_rng(0)
    rows, axes = rng.standard_normal((300, 64)), rng.standard_normal((64, 16))
    whole = product(rows, axes)
    good = all(np.array_equal(product(rows[:n], axes), whole[:n]) for n in (1, 8, 9, 195, 196))
    finding = "a row's product is its own" if good else "a row's product depends on other rows"
    return Check("record independence", f"{finding}; encoders are probed before each run", good)


def _graphics() -> Check:
    """What a GPU of this machine may do with private images."""
    if find_spec("torch") is None:
        return Check("gpu", "none is used without torch")
    import torch

    if not torch.cuda.is_available():
        return Check("gpu", "none")
    return Check(
        "gpu",
        f"{torch.cuda.get_device_name()}: private images are embedded in batches of constant "
        "shape, without TF32, by deterministic kernels; a model whose embedding of an image still "
        "depends on the others (bfloat16 may) is refused before anything is spent: take "
        "?dtype=float32 or ?device=cpu",
    )


def _ledger() -> Check:
    try:
        with Ledger(make=False) as ledger:
            if not ledger.exists:
                return Check("ledger", f"{ledger.address}: none yet, the first run makes it")
            findings = ledger.verify()
            count = len(ledger.datasets()) if not findings else 0
            intact = f"{ledger.address}: {count_words(count, 'dataset')}, intact"
            finding = findings[0] if findings else intact
            return Check("ledger", finding, not findings)
    except UnderstudyError as error:
        return Check("ledger", str(error), False)
