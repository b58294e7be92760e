"""``python -m benchmarks [NAME [PART ...] ...]``: without names, all of them in turn.

A word that follows a benchmark and names one of its parts is that part: ``alignment eurosat`` is
the part of ``alignment``; ``eurosat alignment`` are two benchmarks.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from benchmarks.tables import Skipped, machine

NAMES = (
    *("noise", "kmeans", "scale", "votes", "eurosat", "fashion_mnist", "diffusion"),
    *("studio", "alignment", "evolution", "audit", "evaluate", "leakage"),
)


@dataclass(frozen=True)
class Chosen:
    """A benchmark that was asked for.

    Attributes:
        name: Its name.
        module: Where its ``main`` is.
        parts: The parts that were named; empty: those it runs by itself.
        options: The options that its ``main`` takes.
    """

    name: str
    module: ModuleType
    parts: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def run(self) -> None:
        """Print its tables."""
        self.module.main(*([tuple(self.parts)] if self.parts else []), **self.options)


def parse(arguments: Sequence[str] | None = None) -> list[Chosen]:
    """The benchmarks that a command line asks for; exits with a message where there are none."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--tiny", action="store_true", default=None, help="tiny, on a processor")
    parser.add_argument("--seeds", type=int, help="repetitions")
    parser.add_argument("--count", type=int, help="rows of a release")
    parser.add_argument("--epochs", type=int, help="of every network; else those of its recipe")
    options = vars(parser.parse_args(arguments))
    chosen: list[Chosen] = []
    for word in options.pop("names") or NAMES:
        if chosen and word in getattr(chosen[-1].module, "PARTS", ()):
            chosen[-1].parts.append(word)
        elif word in NAMES:
            chosen.append(Chosen(word, importlib.import_module(f"benchmarks.{word}")))
        else:
            parts = ", ".join(getattr(chosen[-1].module, "PARTS", ())) if chosen else ""
            after = f"; parts of {chosen[-1].name} are {parts}" if parts else ""
            parser.error(f"no benchmark {word}; there are {', '.join(NAMES)}{after}")
    for name, value in options.items():
        takers = [one for one in chosen if name in inspect.signature(one.module.main).parameters]
        if value is None:
            continue
        if not takers:
            parser.error(f"--{name}: {', '.join(one.name for one in chosen)} takes no such option")
        for one in takers:
            one.options[name] = value
    return chosen


def main() -> None:
    """Run the benchmarks that were asked for, and say what could not run and why."""
    chosen = parse()
    print(machine())
    for one in chosen:
        start = time.perf_counter()
        try:
            one.run()
        except Skipped as reason:
            print(f"\n{one.name}: skipped, {reason}")
        else:
            print(f"\n{one.name}: {time.perf_counter() - start:.0f} s in all")


if __name__ == "__main__":
    main()
