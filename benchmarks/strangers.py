"""Images that nothing public resembles: the README's line on sets of many domains.

``python -m benchmarks strangers [SET or FOLDER ...]`` releases each set with all defaults, at 64
pixels unless its images are smaller, and prints for each: balanced accuracy of the small CNN
trained on samples and on the real images, that of the classifier of ``understudy train`` where it
is another one, that of the released classifier, seconds of the run, on the wall and of all cores,
and which domain the samples look like (`benchmarks.domains`); and the medians over the sets. A
FOLDER holds ``train/CLASS/`` and ``test/CLASS/``, or classes of which a fifth is set aside.

``--epsilon 1,8``, ``--seeds``, ``--records`` (of each set at most), ``--count``, ``--channels 3``
(grey images stored in colour), ``--set NAME=VALUE`` of the method, ``--sheets FOLDER``. With
several settings, ``--setting NAME=KEY=VALUE,...`` each, the one that is best by the median over all
sets but one is shown on that one. Every run is kept in ``--out`` and read back, so a benchmark that
was stopped goes on. ``--data`` holds ``images``; needs ``../shared/data`` and Fashion-MNIST.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.domains import (
    DEFAULTS,
    DOMAIN_RECORDS,
    RECORDS,
    Domains,
    ImageSet,
    default_sets,
    folder_set,
    in_colour,
    shaped,
    spread,
)
from benchmarks.fashion_mnist import DELTA
from benchmarks.judges import sheet
from benchmarks.medians import (
    HEADS,
    Summary,
    median_cells,
    print_choices,
    print_falls,
    write_results,
)
from benchmarks.packs import read_pack, write_pack
from benchmarks.tables import CACHE, DATA, ROOT, Skipped, Table, load, utility
from understudy import synthesize
from understudy.core.errors import ConfigError, InputError, UnderstudyError
from understudy.data import open_source
from understudy.metrics.scoring import balanced_accuracy, confusion
from understudy.metrics.utility import Labelled, Network, match_classes
from understudy.run.accuracy import usual_networks
from understudy.run.trained_model import train_classifier

PARTS = DEFAULTS
FOLDERS = True  # words that name a folder are sets too
JUDGE: Network = "cnn"
EPSILONS = (1.0, 8.0)
SEEDS = 3
MODELS = (
    "method",
    "encoder",
    "decoder",
    "public",
    "denoiser",
)  # keys of a setting that the method has not
DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    epsilons: Sequence[float] = EPSILONS  # ascending
    seeds: int = SEEDS  # runs, each with a judge of its own
    count: int | None = None  # samples of a release; None: the default
    epochs: int | None = None  # of the judge; None: those of its recipe
    channels: int | None = None  # images of every set are stored so; None: as they are
    device: str = "cpu"  # of the judge
    out: Path = CACHE / "strangers"  # folder of results
    sheets: Path | None = None  # folder of contact sheets, if any


@dataclass(frozen=True, slots=True)
class Setting:
    """A name, and what differs from the defaults: settings of the method, or one of `MODELS`."""

    name: str
    overrides: Mapping[str, str]

    @classmethod
    def read(cls, words: str, common: Sequence[str] = ()) -> Setting:
        """``NAME`` or ``NAME=KEY=VALUE,...``, with ``KEY=VALUE`` of all settings."""
        name, _, pairs = words.partition("=")
        parts = [*common, *filter(None, pairs.split(","))]
        if not name or not all("=" in part for part in parts):
            raise InputError(f"--setting is NAME=KEY=VALUE,KEY=VALUE, found {words!r}")
        return cls(name, dict(part.split("=", 1) for part in parts))

    @property
    def options(self) -> dict[str, Any]:
        """As `understudy.synthesize` takes it."""
        models = {key: value for key, value in self.overrides.items() if key in MODELS}
        others = {key: value for key, value in self.overrides.items() if key not in MODELS}
        return {**models, **({"settings": others} if others else {})}


# Runs


def released_accuracy(out: Path, test: Labelled) -> float | None:
    """Balanced accuracy of what a run released of its classes, on test images, in [0, 1].

    None: it released no statistics that classify images.
    """
    file = out / "statistics.onnx"
    try:
        model = train_classifier(out, from_="statistics", export=file, progress="none")
    except ConfigError:
        return None
    images = shaped(test.values, model.shape)
    return exported_accuracy(file, model.classes, replace(test, values=images))


def trained_accuracy(out: Path, test: Labelled, seed: int) -> float | None:
    """Balanced accuracy of what ``understudy train`` makes of a run; None where it is the judge."""
    if usual_networks(open_source(out))[-1] == JUDGE:
        return None
    file = out / "classifier.onnx"
    model = train_classifier(out, export=file, seed=seed, progress="none")
    images = shaped(test.values, model.shape)
    return exported_accuracy(file, model.classes, replace(test, values=images))


def exported_accuracy(file: Path, classes: Sequence[str], test: Labelled) -> float:
    """Balanced accuracy of a classifier of images that was written as ONNX."""
    import onnxruntime

    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
    truth = match_classes(test.labels, test.classes, classes)
    guesses = [
        session.run(["scores"], {"images": batch.transpose(0, 3, 1, 2).astype(np.float32)})[0]
        for batch in np.array_split(test.values, -(-len(truth) // 256))
    ]
    return balanced_accuracy(confusion(truth, np.concatenate(guesses).argmax(axis=1), len(classes)))


def run(
    image_set: ImageSet, setting: Setting, epsilon: float, seed: int, asked: Asked, pack: Path
) -> dict[str, Any]:
    """Release a set once and judge it; some samples go into a pack, as `Domains` looks at them."""
    train, test = image_set.split
    with tempfile.TemporaryDirectory() as name:
        private, out = Path(name) / "private.npz", Path(name) / "out"
        np.savez(private, images=train.values, labels=np.array(train.classes)[train.labels])
        start, processor = time.perf_counter(), time.process_time()
        result = synthesize(
            private,
            out=out,
            epsilon=epsilon,
            delta=DELTA,
            seed=seed,
            count=asked.count,
            ledger=f"sqlite:///{name}/ledger.db",
            progress="none",
            **setting.options,
        )
        seconds, processor = time.perf_counter() - start, time.process_time() - processor
        samples = load(result.release)
        released, trained = released_accuracy(out, test), trained_accuracy(out, test, seed)
    samples = replace(samples, values=shaped(samples.values, test.values.shape[1:]))
    some = spread(samples, DOMAIN_RECORDS)
    write_pack(pack, replace(some, values=in_colour(some.values)))
    if asked.sheets is not None and seed == 0:
        asked.sheets.mkdir(parents=True, exist_ok=True)
        file = f"{image_set.name}-{epsilon:g}-{setting.name}.png".replace("/", "-")
        (asked.sheets / file).write_bytes(sheet(samples, test, classes=10))
    return {
        "records": len(train.labels),
        "accuracy": judged(samples, image_set, seed, asked),
        "trained": trained,
        "released": released,
        "seconds": seconds,
        "processor": processor,
    }


def judged(release: Labelled | None, image_set: ImageSet, seed: int, asked: Asked) -> float:
    """Balanced accuracy of the judge, trained on no more samples than there are real images.

    ``release`` None: on the real images.
    """
    train, test = image_set.split
    return utility(
        train if release is None else release,
        test,
        network=JUDGE,
        seed=seed,
        epochs=asked.epochs,
        at_most=len(train.labels),
        device=asked.device,
    ).balanced


def remembered(
    file: Path, question: Mapping[str, Any], answer: Callable[[], dict[str, Any]]
) -> dict[str, Any]:
    """The answer in a file, where it is one to this question; else it is computed and written."""
    if file.is_file():
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["question"] == question:
            return dict(content["answer"])
    computed = {**answer(), "code": code_digest()}
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_text(json.dumps({"question": question, "answer": computed}, indent=1))
    part.replace(file)
    return computed


@cache
def code_digest() -> str:
    """Of the package's modules: results of other code are told apart by it."""
    files = sorted((ROOT / "src" / "understudy").rglob("*.py"))
    return hashlib.blake2b(b"".join(map(Path.read_bytes, files)), digest_size=8).hexdigest()


def case(
    image_set: ImageSet, setting: Setting, epsilon: float, seed: int, asked: Asked, domains: Domains
) -> dict[str, Any]:
    """One run with its verdicts: of what is not in the folder of results yet."""
    about = {
        "source": image_set.source,
        "records": image_set.records,
        "epochs": asked.epochs,
        "channels": asked.channels,
    }
    folder = asked.out / image_set.name
    real = remembered(
        folder / f"real-{seed}.json", about, lambda: {"real": judged(None, image_set, seed, asked)}
    )
    name, folder = f"{epsilon:g}-{seed}", folder / setting.name.replace("/", "-")
    pack = folder / f"{name}.npz"
    answer = remembered(
        folder / f"{name}.json",
        {**about, "count": asked.count, "overrides": dict(setting.overrides)},
        lambda: run(image_set, setting, epsilon, seed, asked, pack),
    )
    looks = remembered(
        folder / f"{name}-domains.json",
        {"domains": domains.sources, "samples": hashlib.blake2b(pack.read_bytes()).hexdigest()},
        lambda: {"domains": domains.shares(read_pack(pack).values)},
    )
    return {**real, **looks, **answer}


def summarise(
    image_set: ImageSet, setting: Setting, epsilon: float, asked: Asked, domains: Domains
) -> Summary:
    """The means over the seeds."""
    cases = [case(image_set, setting, epsilon, seed, asked, domains) for seed in range(asked.seeds)]
    recalls = remembered(
        asked.out / "domains.json",
        {"domains": domains.sources},
        lambda: {"recalls": domains.recalls()},
    )

    def mean(key: str) -> float | None:
        values = [each[key] for each in cases]
        return None if None in values else float(np.mean(values))

    accuracies = [each["accuracy"] for each in cases]
    return Summary(
        name=image_set.name,
        setting=setting.name,
        epsilon=epsilon,
        records=cases[0]["records"],
        accuracy=float(np.mean(accuracies)),
        spread=float(np.std(accuracies, ddof=1)) if len(cases) > 1 else 0.0,
        real=float(np.mean([each["real"] for each in cases])),
        trained=mean("trained"),
        released=mean("released"),
        seconds=float(np.mean([each["seconds"] for each in cases])),
        processor=float(np.mean([each["processor"] for each in cases])),
        domains={
            name: float(np.mean([each["domains"][name] for each in cases]))
            for name in domains.names
        },
        own_recall=recalls["recalls"][image_set.name],
        outdated=sum(each["code"] != code_digest() for each in cases),
    )


# Tables


def report(
    sets: Sequence[ImageSet], settings: Sequence[Setting], domains: Domains, asked: Asked
) -> list[Summary]:
    """Print a table a setting and epsilon, what becomes of accuracy along epsilon, and choices.

    All summaries are also written to ``results.json`` of the folder of results.
    """
    summaries: list[Summary] = []
    for setting in settings:
        for epsilon in asked.epsilons:
            table = Table(
                f"Strangers, {setting.name}, epsilon {epsilon:g}, delta {DELTA:g}, "
                f"balanced accuracy, runs: {asked.seeds}",
                HEADS,
                first=20,
            )
            for image_set in sets:
                try:
                    summary = summarise(image_set, setting, epsilon, asked, domains)
                except UnderstudyError as error:
                    table.row(image_set.name, f"  no release: {error}")
                    continue
                summaries.append(summary)
                table.row(*summary.cells())
                write_results(asked.out / "results.json", summaries)
            table.row(*median_cells(summaries, setting.name, epsilon))
    if len(asked.epsilons) > 1:
        print_falls(summaries)
    if len(settings) > 1:
        print_choices(summaries)
    if outdated := sum(summary.outdated for summary in summaries):
        print(f"\n{outdated} of the runs are of other code: --out another folder makes them anew")
    return summaries


def chosen_sets(
    words: Sequence[str], data: Path, records: int | None, channels: int | None
) -> tuple[list[ImageSet], Domains]:
    """The sets that are named, or all default ones; and the domains: these and all default ones."""
    defaults = default_sets(data, records, channels)
    if missing := [name for name in words or DEFAULTS if name in DEFAULTS and name not in defaults]:
        if words:
            raise Skipped(f"{', '.join(missing)}: not in {data} or not installed")
        print(f"\nnot there: {', '.join(missing)}")
    folders = [folder_set(Path(word), records, channels) for word in words if word not in DEFAULTS]
    names = [*defaults, *(each.name for each in folders)]
    if len(set(names)) < len(names):
        raise InputError(f"two sets have one name: rename a folder; the names are {names}")
    chosen = [defaults[word] for word in words if word in DEFAULTS] + folders
    return chosen or list(defaults.values()), Domains([*defaults.values(), *folders])


def main(
    parts: tuple[str, ...] = (),
    *,
    setting: Sequence[str] = (),
    settings: Sequence[str] = (),
    epsilon: Sequence[float] = EPSILONS,
    records: int = RECORDS,
    seeds: int = SEEDS,
    count: int | None = None,
    epochs: int | None = None,
    channels: int | None = None,
    device: str = "cpu",
    data: Path = DATA,
    out: Path = CACHE / "strangers",
    sheets: Path | None = None,
) -> None:
    """Every default set, or those that are named, and folders."""
    sets, domains = chosen_sets(parts, data, records, channels)
    name = ",".join(settings).replace("=", ":") or DEFAULT
    chosen = [Setting.read(words, settings) for words in setting or (name,)]
    asked = Asked(sorted(set(epsilon)), seeds, count, epochs, channels, device, out, sheets)
    report(sets, chosen, domains, asked)
