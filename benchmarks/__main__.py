"""``python -m benchmarks [NAME [PART ...] ...]``: without names, all of them in turn.

A word that follows a benchmark and names one of its parts is that part: ``alignment eurosat`` is
the part of ``alignment``; ``eurosat alignment`` are two benchmarks. Folders are sets of
``strangers`` where they follow it.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.tables import Skipped, machine

NAMES = (
    *("noise", "kmeans", "scale", "votes", "eurosat", "fashion_mnist", "diffusion"),
    *("studio", "photo", "alignment", "evolution", "satellite", "audit", "evaluate"),
    *("leakage", "leakage_shift", "independence", "small_classes", "images"),
    *("selection", "selection_baselines", "selection_privacy"),
    *("memorisation", "selection_memorised", "sanitize", "sanitize_models"),
    *("sanitize_photos", "photo_segmenter", "strangers", "finetuning"),
    *("papers", "dpimagebench", "gpu_check", "run_times"),
)

_LISTED = "without a name, the benchmarks; of papers, its tables"


@dataclass(frozen=True)
class Chosen:
    """A benchmark that was asked for."""

    name: str  # its name
    # the parts that were named; empty: those it runs by itself
    parts: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)  # the options that its ``main`` takes

    @property
    def module(self) -> ModuleType:
        """Where its ``main`` is."""
        return importlib.import_module(f"benchmarks.{self.name}")

    def run(self) -> None:
        """Print its tables."""
        self.module.main(*([tuple(self.parts)] if self.parts else []), **self.options)


def parse(arguments: Sequence[str] | None = None) -> list[Chosen]:
    """The benchmarks that a command line asks for; exits with a message where there are none."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--tiny", action="store_true", default=None, help="tiny, on a processor")
    parser.add_argument("--quick", action="store_true", default=None, help="in some minutes")
    parser.add_argument("--homes", type=int, help="private homes")
    parser.add_argument("--seeds", type=int, help="repetitions")
    parser.add_argument("--count", type=int, help="rows of a release")
    parser.add_argument("--epochs", type=int, help="of every network; else those of its recipe")
    parser.add_argument("--sheets", type=Path, help="a folder for contact sheets")
    parser.add_argument("--encoder", action="append", help="to compare; may be repeated")
    parser.add_argument("--segmenter", help="one more to measure")
    parser.add_argument("--set", action="append", dest="settings", metavar="NAME=VALUE")
    parser.add_argument("--setting", action="append", metavar="NAME=KEY=VALUE,...")
    parser.add_argument("--epsilon", action="extend", type=_numbers, help="1 or 1,8; repeatable")
    parser.add_argument("--records", type=int, help="private images of a set at most")
    parser.add_argument("--channels", type=int, choices=(1, 3), help="images are stored so")
    parser.add_argument("--data", type=Path, help="a folder that holds images/")
    parser.add_argument("--out", type=Path, help="a folder of results, to go on from")
    parser.add_argument("--device", choices=("cpu", "cuda"), help="of the judges")
    parser.add_argument("--table", help="of a paper: T1")
    parser.add_argument("--list", action="store_true", default=None, dest="list_only", help=_LISTED)
    options = vars(parser.parse_args(arguments))
    names = options.pop("names")
    if options["list_only"] and not names:
        print(*NAMES, sep="\n")
        parser.exit()
    try:
        chosen = _chosen(names)
        _give(chosen, {name: value for name, value in options.items() if value is not None})
    except ValueError as error:
        parser.error(str(error))
    return chosen


def _numbers(words: str) -> list[float]:
    return [float(word) for word in words.split(",")]


def _chosen(words: Sequence[str]) -> list[Chosen]:
    chosen: list[Chosen] = []
    for word in words:
        parts = tuple(getattr(chosen[-1].module, "PARTS", ())) if chosen else ()
        if word in parts:
            chosen[-1].parts.append(word)
        elif word in NAMES:
            chosen.append(Chosen(word))
        elif chosen and getattr(chosen[-1].module, "FOLDERS", False) and Path(word).is_dir():
            chosen[-1].parts.append(word)
        else:
            after = f"; {chosen[-1].name} has the parts {', '.join(parts)}" if parts else ""
            raise ValueError(f"no benchmark {word}; there are {', '.join(NAMES)}{after}")
    return chosen or [Chosen(name) for name in NAMES]


def _give(chosen: Sequence[Chosen], options: Mapping[str, Any]) -> None:
    """Each option to those that take it."""
    for name, value in options.items():
        takers = [one for one in chosen if name in inspect.signature(one.module.main).parameters]
        if not takers:
            names = ", ".join(one.name for one in chosen)
            flag = {"list_only": "list", "settings": "set"}.get(name, name)
            raise ValueError(f"--{flag}: {names} takes no such option")
        for one in takers:
            one.options[name] = value


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
