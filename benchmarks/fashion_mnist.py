"""Fashion-MNIST without pretrained weights: images by DCT, embeddings by wavelet scattering.

Images are judged by both judges (`benchmarks.judges`), embeddings by the two-layer network. Beside
what others reached without pretrained weights, as DPImageBench publishes it. Needs the Debian
package ``dataset-fashion-mnist``.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.judges import HEADS, SEEDS, judge
from benchmarks.tables import Table, load, need, percent
from understudy import synthesize
from understudy.run.run_result import Result

FOLDER = Path("/usr/share/datasets/fashion-mnist")
DELTA = 1e-5
EPSILONS = (1.0, 10.0)
ROWS = 60_000
PUBLISHED = (("DP-MERF", "62.2", "62.2"), ("DPDM, 20 GPU hours", "76.4", "85.6"))


def release(out: Path, epsilon: float, **options: Any) -> Result:
    """A release of the training split."""
    ledger = f"sqlite:///{out}.db"
    return synthesize(FOLDER, out=out, epsilon=epsilon, delta=DELTA, ledger=ledger, **options)


def images(out: Path, epsilon: float, seeds: int) -> tuple[tuple[str, ...], Result, float]:
    """The judges' cells on synthetic images, the run, and seconds of training."""
    result = release(out, epsilon, encoder="embedded:dct", count=ROWS, format="parquet")
    start = time.perf_counter()
    verdict = judge(load(result.release), load(FOLDER, "test"), seeds)
    return verdict.cells(), result, time.perf_counter() - start


def embeddings(out: Path, epsilon: float, seeds: int) -> tuple[tuple[str, ...], Result, float]:
    """The accuracy of the two-layer network on synthetic scattering embeddings, likewise."""
    result = release(out, epsilon, encoder="embedded:scattering", test=str(FOLDER))
    accuracy = percent(result.accuracy[0].synthetic)
    return ("", "", accuracy, ""), result, result.seconds["measure accuracy"]


def main(*, seeds: int = SEEDS) -> None:
    """Print balanced accuracies on the real test split, and the seconds of each part."""
    need(FOLDER)
    table = Table(
        f"Fashion-MNIST, delta {DELTA:g}, {ROWS:,} synthetic rows",
        ("", "epsilon", *HEADS, "fit s", "sample s", "training s"),
        first=44,
    )
    for words, make in (
        ("images by DCT, two judges", images),
        ("embeddings by scattering, two layers", embeddings),
    ):
        for epsilon in EPSILONS:
            with tempfile.TemporaryDirectory() as name:
                cells, result, training = make(Path(name) / "out", epsilon, seeds)
            fit, sample = result.seconds["embed and fit"], result.seconds["sample and write"]
            table.row(words, f"{epsilon:g}", *cells, fit, sample, training)
    for words, *published in PUBLISHED:
        for epsilon, accuracy in zip(EPSILONS, published, strict=True):
            table.row(f"{words}, published", f"{epsilon:g}", "", "", accuracy)


if __name__ == "__main__":
    main()
