"""DP-SGD on a diffusion prior beside the default method, on four sets of small private images.

``python -m benchmarks finetuning [SET ...]`` releases hands, X-rays, EuroSAT and Fashion-MNIST by
both at epsilon 10 and prints the balanced accuracy of the small CNN, the Frechet distance of
samples to real test images by wavelet scattering (of as many of each), and seconds on the wall and
of all cores. Its steps see about 256 units. ``--records``, ``--seeds``, ``--epsilon``, ``--out``,
``--sheets``; ``--setting`` as of ``strangers``, whose runs these are: each is kept in ``--out`` and
read back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from benchmarks.domains import RECORDS, ImageSet, default_sets, shaped, spread
from benchmarks.packs import read_pack
from benchmarks.strangers import Asked, Setting, judged, remembered, run
from benchmarks.tables import CACHE, DATA, Skipped, Table, percent
from understudy.backends.registry import load_encoder
from understudy.core.types import Embeddings, Images
from understudy.metrics.fidelity import frechet_distance

PARTS = ("hands", "x-rays", "eurosat", "fashion_mnist")
EPSILONS = (10.0,)
HEADS = ("records", "accuracy %", "real %", "Frechet", "real to real", "wall s", "cores s")
_BATCH = 256  # expected units of a step


def settings_of(image_set: ImageSet) -> list[Setting]:
    """The default method, and fine-tuning with a rate that fits the set."""
    rate = min(0.2, _BATCH / len(image_set.split[0].labels))
    return [Setting.read("default"), Setting.read(f"finetuning=method=finetuning,rate={rate:.3g}")]


def features(images: Images) -> Embeddings:
    """Scattering of images in colour."""
    encoder = load_encoder("embedded:scattering?log=10&coefficients=400", shape=images.shape[1:])
    parts = [encoder.encode(images[start : start + 64]) for start in range(0, len(images), 64)]
    return np.concatenate(parts)


def case(
    image_set: ImageSet, setting: Setting, epsilon: float, seed: int, asked: Asked
) -> tuple[float, float, float, float]:
    """Accuracy, Frechet distance, and seconds on the wall and of all cores, of one run."""
    file = asked.out / image_set.name / setting.name / f"{epsilon:g}-{seed}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    pack = file.with_suffix(".npz")
    question = {"overrides": dict(setting.overrides), "records": image_set.records}
    answer = remembered(file, question, lambda: run(image_set, setting, epsilon, seed, asked, pack))
    samples = read_pack(pack).values
    test = spread(image_set.split[1], len(samples)).values
    real = shaped(test, samples.shape[1:])
    distance = frechet_distance(features(real), features(samples[: len(real)]))
    return answer["accuracy"], distance, answer["seconds"], answer["processor"]


def main(
    parts: tuple[str, ...] = PARTS,
    *,
    setting: Sequence[str] = (),
    epsilon: Sequence[float] = EPSILONS,
    records: int = RECORDS,
    seeds: int = 1,
    data: Path = DATA,
    out: Path = CACHE / "finetuning",
    sheets: Path | None = None,
) -> None:
    """Print a table for each epsilon."""
    sets = default_sets(data, records)
    if missing := [name for name in parts if name not in sets]:
        raise Skipped(f"{', '.join(missing)}: not in {data} or not installed")
    asked = replace(Asked(), seeds=seeds, out=out, sheets=sheets)
    for one in epsilon:
        table = Table(f"Fine-tuning, epsilon {one:g}, runs: {seeds}", HEADS, first=32)
        for image_set in (sets[name] for name in parts):
            train, test = image_set.split
            half = spread(train, min(len(train.labels), len(test.labels))).values
            real = frechet_distance(
                features(shaped(half, train.values.shape[1:])), features(test.values)
            )
            accuracy = judged(None, image_set, 0, asked)
            chosen = [Setting.read(words) for words in setting] or settings_of(image_set)
            for each in chosen:
                cases = [case(image_set, each, one, seed, asked) for seed in range(seeds)]
                means = np.mean(cases, axis=0)
                table.row(
                    f"{image_set.name}, {each.name}",
                    f"{len(train.labels):,}",
                    percent(means[0]),
                    percent(accuracy),
                    f"{means[1]:.3g}",
                    f"{real:.3g}",
                    f"{means[2]:.0f}",
                    f"{means[3]:.0f}",
                )
