"""Alignment: how much of the domain gap closes, at what noise, and what its settings are worth.

    python -m benchmarks alignment                      # noise, gap and eurosat: hours on two cores
    python -m benchmarks alignment ablations settings   # parts that run only when they are named
    UNDERSTUDY_STUDIO=folder python -m benchmarks alignment gap --seeds 1 --count 200

The private homes of the playhouse are a street that the studio never saw; their test split is other
pictures of the same homes. Every figure against real pictures is owner-only; here they are drawn.
"""

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.dp_sgd_images import opacus_convnet
from benchmarks.studio import named, studio_sum
from benchmarks.tables import CACHE, DATA, Skipped, Table, need, percent, utility
from understudy import synthesize
from understudy.backends.registry import load_decoder, load_encoder, load_model
from understudy.core.errors import BackendError
from understudy.core.ports import Decoder, Encoder, Generator, PromptedDecoder
from understudy.core.types import Images
from understudy.data import open_source
from understudy.methods.alignment.algorithm import METHOD, AlignmentParams
from understudy.methods.base import Context, weights_of
from understudy.metrics.fidelity import frechet_distance
from understudy.metrics.utility import Labelled, Network, gather
from understudy.playhouse.source import open_playhouse
from understudy.privacy.budget import Budget
from understudy.privacy.budget_plan import Plan

DELTA = 1e-5
PRIVATE = "playhouse:pet-status"
SIDE = 64
NOT_PRIVATE = 1e6  # an epsilon at which next to no noise is drawn: the method without privacy

BASE_TILES = 100  # EuroSAT tiles of each class that are public

MULTIPLES = (1, 2, 3, 5, 7, 10)
EPSILONS = (0.1, 0.3, 1.0, 3.0, 10.0)
CLUSTERS = (1, 5, 10)
NETWORKS: tuple[Network, ...] = ("convnet", "resnet9", "resnet50", "vgg11")
"""Of the paper's table 2; its figures 5 and 6 train the first."""


@dataclass(frozen=True)
class Asked:
    """What the command line asks for."""

    seeds: int
    count: int
    epochs: int | None


# Data


def read(name: str | Path, **options: Any) -> Labelled:
    """A dataset in memory."""
    source = open_source(name, **options)
    return gather(source.batches(512), source.classes)


def kept(name: str, make: Callable[[], Labelled]) -> Path:
    """A dataset as npz, made once."""
    path = CACHE / f"{name}.npz"
    if not path.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        data = make()
        np.savez(path, images=data.values, labels=np.array(data.classes)[data.labels])
    return path


def studio_base(each: int, seed: int) -> Path:
    """Pictures by the studio from the paper's prompt, so many of each class: the base set alone."""

    def draw() -> Labelled:
        generator = load_model(Generator, named())
        source = open_playhouse(PRIVATE)
        labels = np.repeat(np.arange(len(source.phrases)), each)
        prompts = [f"a photo of a {source.phrases[label]}" for label in labels]
        return Labelled(generator.generate(prompts, seed=seed), labels, source.classes)

    return kept(f"base-{each}-{seed}-{studio_sum()}", draw)


def eurosat() -> tuple[Path, Path]:
    """Private tiles and public ones: `BASE_TILES` of each class, held apart."""
    tiles = read(need(DATA / "images" / "eurosat" / "train"))
    order = np.random.default_rng(0).permutation(len(tiles.labels))
    rank = np.empty(len(order), dtype=np.int64)
    for label in range(len(tiles.classes)):
        mine = order[tiles.labels[order] == label]
        rank[mine] = np.arange(len(mine))
    paths = []
    for name, rows in (("private", rank >= BASE_TILES), ("public", rank < BASE_TILES)):
        part = Labelled(tiles.values[rows], tiles.labels[rows], tiles.classes)
        paths.append(kept(f"eurosat-{name}", lambda part=part: part))
    return paths[0], paths[1]


def aligned(
    source: str | Path, base: Path, epsilon: float, seed: int = 0, **options: Any
) -> Labelled:
    """A release, read back; ``settings`` are those of the method, all else of the run."""
    with tempfile.TemporaryDirectory() as folder:
        made = synthesize(
            source,
            out=Path(folder) / "out",
            method="alignment",
            base=str(base),
            epsilon=epsilon,
            delta=DELTA,
            seed=seed,
            ledger=str(Path(folder) / "ledger.db"),
            **options,
        )
        return read(made.release)


def decoded(data: Labelled, encoder: Encoder, decoder: Decoder) -> Labelled:
    """Images through an encoder and its decoder and back, with nothing done in between."""
    embeddings = embedded(encoder, data.values)
    seeds = np.arange(len(embeddings), dtype=np.uint64)
    if isinstance(decoder, PromptedDecoder):
        phrases = open_playhouse(PRIVATE).phrases
        prompts = [f"a photo of a {phrases[label]}" for label in data.labels]
        images = decoder.decode_prompted(embeddings, prompts, seeds=seeds, noise_level=0)
    else:
        parts = np.array_split(seeds.astype(np.int64), max(1, len(seeds) // 256))
        images = np.concatenate(
            [decoder.decode(embeddings[part], seeds=seeds[part]) for part in parts]
        )
    return replace(data, values=images)


# Measures


@functools.cache
def judges() -> dict[str, Encoder]:
    """Encoders that Frechet distances are measured in; the second has no part in the method."""
    shape = (SIDE, SIDE, 3)
    file = need(DATA / "models" / "mobilenet_v2_features.onnx")
    return {
        "studio": load_encoder(named(), shape=shape),
        "MobileNetV2": load_encoder(f"onnx:{file}?size=128", shape=shape),
    }


def embedded(encoder: Encoder, images: Images) -> NDArray[np.float32]:
    parts = np.array_split(images, max(1, len(images) // 256))
    return np.concatenate([encoder.encode(part) for part in parts])


def distances(images: Images, test: Images) -> Iterator[float]:
    """Frechet distance to the test split by each judge."""
    for encoder in judges().values():
        yield frechet_distance(embedded(encoder, images), embedded(encoder, test))


def learned(train: Labelled, test: Labelled, asked: Asked, network: Network) -> str:
    """Mean balanced accuracy over the seeds, and the spread."""
    found = [
        utility(train, test, network=network, seed=seed, epochs=asked.epochs).balanced
        for seed in range(asked.seeds)
    ]
    return f"{percent(float(np.mean(found)))} ({100 * float(np.std(found)):.1f})"


def accuracies(data: Labelled, test: Labelled, seed: int, epochs: int | None) -> Iterator[str]:
    """Balanced, of the small CNN and, at half the side, of ResNet-9, trained with one seed."""
    small = utility(data, test, network="cnn", seed=seed, epochs=epochs)
    deep = utility(halved(data), halved(test), network="resnet9", seed=seed, epochs=epochs)
    yield from (percent(small.balanced), percent(deep.balanced))


def halved(data: Labelled) -> Labelled:
    """Pictures of half the side, means of four pixels: ResNet-9 is made for 32 x 32."""
    n, height, width, channels = data.values.shape
    fours = data.values.reshape(n, height // 2, 2, width // 2, 2, channels)
    return replace(data, values=np.rint(fours.mean(axis=(2, 4))).astype(np.uint8))


# Parts


def noise(asked: Asked) -> None:
    """Acceptance 3: the default plan's noise over its sensitivity."""
    encoder = load_encoder("embedded:dct", shape=(SIDE, SIDE, 3))
    context = Context(
        (SIDE, SIDE, 3), encoder=encoder, public=False, mu=0.27, classes=("a", "b"), base=True
    )
    table = Table(
        f"Noise over sensitivity at delta {DELTA:g}", ("plan", "epsilon 1", "2", "4", "8"), first=40
    )
    for words, params in (
        ("one cluster (the default)", AlignmentParams()),
        ("clusters=5, its first release", AlignmentParams(clusters=5)),
    ):
        weights = weights_of(METHOD.stages(params, context))
        plans = (Plan.of(Budget(e, DELTA), weights) for e in (1, 2, 4, 8))
        table.row(words, *(1 / plan.stage_mu("gap") for plan in plans))
    table.row("the paper's Corollary 1", 4.901, 2.499, 1.296, 0.690)


def gap(asked: Asked) -> None:
    """Acceptance 2: the base set, aligned at epsilon 1, aligned without privacy, real homes."""
    test = read(f"{PRIVATE}?split=test")
    each = -(-asked.count // len(test.classes))
    table = Table(
        f"{PRIVATE}, {asked.count} rows: to the test split; balanced accuracy",
        ("trained on / seed", *(f"FD {name}" for name in judges()), "small CNN, %", "ResNet-9, %"),
        first=42,
    )
    models: dict[str, Any] = dict.fromkeys(("encoder", "decoder"), named())
    real, encoder = read(PRIVATE), judges()["studio"]
    decoder = load_decoder(named(), shape=(SIDE, SIDE, 3), encoder=encoder)
    for seed in range(asked.seeds):
        base = studio_base(each, seed)
        rows = {
            "the base set": read(base),
            "aligned, epsilon 1": aligned(PRIVATE, base, 1.0, seed, count=asked.count, **models),
            "the same, sensor_noise=false": aligned(
                PRIVATE,
                base,
                1.0,
                seed,
                count=asked.count,
                settings={"sensor_noise": False},
                **models,
            ),
            "aligned, not private": aligned(
                PRIVATE, base, NOT_PRIVATE, seed, count=asked.count, **models
            ),
            "real embeddings decoded, not private": decoded(real, encoder, decoder),
            "real homes, not private": real,
        }
        for words, data in rows.items():
            table.row(
                f"{words}, {seed}",
                *distances(data.values, test.values),
                *accuracies(data, test, seed, asked.epochs),
            )


def on_eurosat(asked: Asked) -> None:
    """Acceptance 5: real tiles, an autoencoder's latents, and a partition by MobileNetV2."""
    private, public = eurosat()
    test = read(DATA / "images" / "eurosat" / "test")
    models: dict[str, Any] = {
        "encoder": f"onnx:{need(DATA / 'models' / 'taef2_encoder.onnx')}",
        "decoder": f"onnx:{need(DATA / 'models' / 'taef2_decoder.onnx')}",
        "cluster_encoder": f"onnx:{DATA / 'models' / 'mobilenet_v2_features.onnx'}?size=128",
    }
    table = Table(
        f"EuroSAT, small CNN: balanced accuracy in % on real test tiles, {asked.seeds} trainings "
        "(spread)",
        ("trained on", "%"),
    )
    base = read(public)
    table.row(f"the base set, {len(base.labels):,} tiles", learned(base, test, asked, "cnn"))
    encoder = load_encoder(models["encoder"], shape=base.values.shape[1:])
    decoder = load_decoder(models["decoder"], shape=base.values.shape[1:], encoder=encoder)
    back = decoded(base, encoder, decoder)
    table.row("the base set there and back", learned(back, test, asked, "cnn"))
    for epsilon in (1.0, 8.0):
        data = aligned(private, public, epsilon, count=2 * asked.count, **models)
        words = f"aligned, epsilon {epsilon:g}, {len(data.labels):,} tiles"
        table.row(words, learned(data, test, asked, "cnn"))
    table.row("real tiles, not private", learned(read(private), test, asked, "cnn"))


def ablations(asked: Asked) -> None:
    """The paper's figures 5 and 6 and table 2 on private homes."""
    test, real = read(f"{PRIVATE}?split=test"), read(PRIVATE)
    each = -(-asked.count // len(test.classes))
    base = studio_base(each * max(MULTIPLES), 0)
    models: dict[str, Any] = dict.fromkeys(("encoder", "decoder"), named())
    release = functools.partial(aligned, PRIVATE, base, **models)

    sizes = Table("Rows of the release: ConvNet, %", ("times the private set", "base", "aligned"))
    everything = read(base)
    for multiple in MULTIPLES:
        rows = multiple * asked.count
        some = np.random.default_rng(0).permutation(len(everything.labels))[:rows]
        alone = Labelled(everything.values[some], everything.labels[some], everything.classes)
        moved = release(1.0, count=rows)
        sizes.row(
            str(multiple), *(learned(data, test, asked, "convnet") for data in (alone, moved))
        )

    grid = Table(
        "Epsilon by K: ConvNet, %", ("clusters", *(f"epsilon {e:g}" for e in EPSILONS)), first=24
    )
    for partition in ("public", "matched"):
        for clusters in CLUSTERS:
            settings = {"clusters": clusters, "partition": partition}
            found = (release(e, count=asked.count, settings=settings) for e in EPSILONS)
            cells = (learned(data, test, asked, "convnet") for data in found)
            grid.row(f"{partition}, K = {clusters}", *cells)

    moved = release(1.0, count=asked.count)
    deep = Table("Networks, epsilon 1: %", ("trained on", *NETWORKS, "DP-SGD, convnet"), first=24)
    sgd = opacus_convnet(real.values, real.labels, test.values, test.labels, 1.0, DELTA)
    alone = read(studio_base(each, 0))
    for words, data in (("the base set", alone), ("aligned", moved), ("real homes", real)):
        cells = [learned(data, test, asked, network) for network in NETWORKS]
        deep.row(words, *cells, percent(sgd.balanced) if data is real else None)


def settings(asked: Asked) -> None:
    """What each choice of ours is worth, at epsilon 1: Frechet distances to the test split."""
    test = read(f"{PRIVATE}?split=test")
    base = studio_base(-(-asked.count // len(test.classes)), 0)
    models: dict[str, Any] = dict.fromkeys(("encoder", "decoder"), named())
    table = Table("Settings at epsilon 1", ("settings", *(f"FD {name}" for name in judges())))
    for given in (
        {},
        {"shrink": False},
        {"clip_norm": 1.0, "shrink": False},
        {"second_moment": True},
        {"clusters": 5},
        {"clusters": 5, "partition": "matched"},
        {"sphere": False},
        {"sensor_noise": False},
    ):
        data = aligned(PRIVATE, base, 1.0, count=asked.count, settings=given, **models)
        words = ", ".join(f"{k}={v}" for k, v in given.items()) or "defaults"
        table.row(words, *distances(data.values, test.values))


PARTS = {
    "noise": noise,
    "gap": gap,
    "eurosat": on_eurosat,
    "ablations": ablations,
    "settings": settings,
}


USUAL = ("noise", "gap", "eurosat")  # the parts that run where none is named


def main(
    parts: Sequence[str] = USUAL, *, seeds: int = 3, count: int = 1000, epochs: int | None = None
) -> None:
    """Print the tables of some parts; a part that lacks something is skipped with the reason."""
    for part in parts:
        try:
            PARTS[part](Asked(seeds, count, epochs))
        except (Skipped, BackendError) as reason:  # no data, or no studio
            print(f"\n{part}: skipped, {reason}")
