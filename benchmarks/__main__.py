"""``python -m benchmarks [NAME ...]``: without names, all of them one after the other."""

from __future__ import annotations

import argparse
import importlib
import time

from benchmarks.tables import Skipped, machine

NAMES = (
    *("noise", "kmeans", "scale", "votes", "eurosat", "fashion_mnist", "diffusion"),
    *("studio", "alignment", "evolution", "audit", "evaluate", "leakage", "leakage_shift"),
)


def main() -> None:
    """Run the benchmarks that were asked for, and say what could not run and why."""
    words = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    words.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    words.add_argument("--tiny", action="store_true", help="diffusion only: tiny, on a processor")
    told = words.parse_args()
    names = told.names or NAMES
    if unknown := sorted(set(names) - set(NAMES)):
        words.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(NAMES)}")
    print(machine())
    for name in names:
        start = time.perf_counter()
        try:
            options = {"tiny": True} if told.tiny and name == "diffusion" else {}
            importlib.import_module(f"benchmarks.{name}").main(**options)
        except Skipped as reason:
            print(f"\n{name}: skipped, {reason}")
        else:
            print(f"\n{name}: {time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
