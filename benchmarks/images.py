"""Seconds and memory of the default run on images, in a process of its own.

``--encoder`` (repeated) chooses what is compared. Needs ``../shared/data``.
"""

from __future__ import annotations

import resource
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.commands import command_seconds
from benchmarks.small_classes import PIXELS, Subset, extract
from benchmarks.tables import Table

ENCODERS = ("the default", "embedded:dct")
PRIVATE = Subset("eurosat", dict.fromkeys(("Forest", "Residential", "River", "SeaLake"), 1000))
COUNT = 2_000


def main(*, encoder: Sequence[str] = ENCODERS) -> None:
    """A line an encoder, which also decodes."""
    table = Table(
        f"{COUNT:,} samples of {PIXELS} px from 4,000 private images, epsilon 1",
        ("encoder", "seconds", "processor s", "peak GB"),
    )
    for name in encoder:
        with tempfile.TemporaryDirectory() as folder:
            train, _ = extract(PRIVATE, Path(folder) / "data")
            words = ["synthesize", str(train), "--epsilon", "1", "--yes"]
            words += ["--count", str(COUNT), "--size", str(PIXELS), "--out", f"{folder}/out"]
            words += ["--ledger", f"{folder}/ledger.db", "--progress", "none"]
            words += [] if name == ENCODERS[0] else ["--encoder", name, "--decoder", name]
            seconds, processor = command_seconds(*words)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
        # The largest of all children so far: the first line alone is exact, later ones are bounds.
        table.row(name, f"{seconds:.0f}", f"{processor:.0f}", f"{peak:.2f}")
