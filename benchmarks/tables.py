"""What every benchmark prints with: a line about the machine, and plain tables."""

from __future__ import annotations

import os
import platform
import tempfile
from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from understudy import synthesize
from understudy.core.ports import Encoder
from understudy.data import open_source
from understudy.metrics.utility import Labelled, Network, UtilityResult, fit, gather, score

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
CACHE = ROOT / "build" / "benchmarks"
PACKAGES = ("numpy", "scipy", "opendp", "torch", "onnxruntime", "opacus", "diffusers")


class Skipped(Exception):
    """Something that a benchmark needs is not there."""


def need(path: Path) -> Path:
    """The path, if it is there."""
    if not path.exists():
        raise Skipped(f"{path} is not there")
    return path


def load(source: Path, split: Literal["train", "test"] = "train") -> Labelled:
    """A dataset in memory."""
    opened = open_source(source, split=split)
    return gather(opened.batches(1024), opened.classes)


def released(source: Path, epsilon: float, **options: Any) -> Labelled:
    """The samples of one release, which is charged in a ledger of its own."""
    with tempfile.TemporaryDirectory() as name:
        result = synthesize(
            source,
            out=Path(name) / "out",
            epsilon=epsilon,
            ledger=f"sqlite:///{name}/ledger.db",
            **options,
        )
        return load(result.release)


def machine() -> str:
    """Processor, cores, load, Python and the packages that matter."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = f"load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    parts = [_processor(), f"{cores} cores", load, f"Python {platform.python_version()}"]
    return ", ".join(part for part in [*parts, *_versions()] if part)


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _versions() -> Iterable[str]:
    for name in PACKAGES:
        try:
            yield f"{name} {version(name)}"
        except PackageNotFoundError:
            continue


class Table:
    """A table that prints each row as soon as it is known."""

    def __init__(self, title: str, heads: Sequence[str], first: int = 34) -> None:
        self._widths = [first, *(max(len(head), 8) + 2 for head in heads[1:])]
        print(f"\n{title}\n")
        self._print(heads)
        self._print(["-" * (width - 2) for width in self._widths])

    def row(self, *values: Any) -> None:
        """Print one row; None is left empty."""
        self._print([_text(value) for value in values])

    def _print(self, cells: Sequence[str]) -> None:
        first, *rest = cells
        line = first.ljust(self._widths[0])
        aligned = (cell.rjust(width) for cell, width in zip(rest, self._widths[1:], strict=False))
        print((line + "".join(aligned)).rstrip(), flush=True)


def _text(value: Any) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def percent(value: float) -> str:
    """0.9031 as 90.3."""
    return f"{100 * value:.1f}"


def utility(
    train: Labelled,
    test: Labelled,
    *,
    network: Network,
    seed: int = 0,
    epochs: int | None = None,
    at_most: int | None = None,
    device: str = "cpu",
    encoder: Encoder | None = None,
) -> UtilityResult:
    """Train on one dataset, on ``at_most`` rows, and test on another."""
    rows = train.at_most(at_most, seed)
    model = fit(rows, network=network, seed=seed, epochs=epochs, device=device, encoder=encoder)
    return score(model, test, train.classes, n_train=len(rows.labels))
