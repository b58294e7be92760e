"""A domain of its own for alignment and evolution, offline: a studio of satellite tiles.

    python -m benchmarks satellite                # trains the studio first: hours without a GPU
    UNDERSTUDY_STUDIO=folder python -m benchmarks satellite alignment captions --sheets sheets/

The studio learns from the public half of EuroSAT, with captions; the private half looks different
(`benchmarks.satellite_world`). Each part prints, for the base set and for the release at epsilon 1,
the Frechet distance to private tiles that the run did not read, in the studio's embeddings and in
those of a network that has no part in it, and the balanced accuracy of two networks that learnt
from it, on the same tiles. Needs ``../shared/data``.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from benchmarks.alignment import accuracies, embedded, halved, kept
from benchmarks.satellite_world import NAMES, WORDINGS, grammar, private_rows, public_rows, tiles
from benchmarks.studio import STUDIO, studio_sum
from benchmarks.tables import CACHE, DATA, Table, load, need, percent, utility
from understudy import synthesize
from understudy.backends.registry import load_encoder, load_model
from understudy.core.ports import Encoder, Generator
from understudy.metrics.fidelity import frechet_distance
from understudy.metrics.utility import Labelled
from understudy.report import contact_sheet
from understudy.studio.train import Order, make_studio

EPSILON, DELTA = 1.0, 1e-5
SIDE = 64
PUBLIC_EACH = 600
PRIVATE_EACH = 300
TEST_EACH = 130
TEMPLATE = "a satellite image of a {class}"
STAGES = ("vae", "clip", "unet", "decoder")  # all that both methods need of a studio

FOLDER = CACHE / "satellite"
SHOWN = 12  # images of a class on a sheet


@dataclass(frozen=True)
class Setup:
    """What all parts share."""

    studio: str  # the studio's name
    private: Path  # private tiles that a run reads, as npz
    test: Labelled  # private tiles that it does not read
    # images that the studio draws of each class, as npz: what there is without any private tile
    base: Path
    count: int  # samples of a release, and images of the base set
    epochs: int | None  # of every network that learns from them; None: those of its recipe
    seeds: int  # releases of each part
    sheets: Path | None  # where contact sheets go
    # whether the small network alone learns, from half the side: on a processor training takes
    # longest
    quick: bool


def trained_studio() -> Path:
    """The folder of the studio: ``UNDERSTUDY_STUDIO``, or one that is trained here."""
    if STUDIO:
        return need(Path(STUDIO))
    data, table = FOLDER / "public", FOLDER / "public.csv"
    if not table.exists():
        write_public(data, table)
    make_studio(Order(FOLDER / "studio", data=data, captions=table, stages=STAGES))
    return FOLDER / "studio"


def write_public(data: Path, table: Path) -> None:
    """The public half as ``understudy studio train --data --captions`` reads it."""
    data.mkdir(parents=True, exist_ok=True)
    lines = []
    every = tiles(_eurosat("train"), odd=False, each=PUBLIC_EACH)
    for number, (tile, caption) in enumerate(public_rows(every)):
        name = f"{number:05d}.png"
        Image.fromarray(tile).save(data / name, compress_level=1)
        lines.append((name, caption))
    with table.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("path", "caption"), *lines])


def private_tiles(split: str, each: int) -> Path:
    """Tiles of the private half, in its look, as npz."""
    path = FOLDER / f"private-{split}-{each}.npz"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        pairs = list(private_rows(tiles(_eurosat(split), odd=True, each=each)))
        images, names = zip(*pairs, strict=True)
        np.savez(path, images=np.stack(images), labels=np.array(names))
    return path


def _eurosat(split: str) -> Path:
    return need(DATA / "images" / "eurosat" / split)


def public_tiles(each: int) -> Labelled:
    """Tiles of the public half as they are: what a base set of real images would be."""
    every = tiles(_eurosat("train"), odd=False, each=each)
    names = [WORDINGS[tile.folder][0] for tile in every]
    classes = tuple(sorted(NAMES))
    labels = np.array([classes.index(name) for name in names])
    return Labelled(np.stack([tile.read() for tile in every]), labels, classes)


def drawn_base(folder: Path, count: int) -> Path:
    """The same number of images of each class, by the studio's generator, as npz."""

    def draw() -> Labelled:
        classes = tuple(sorted(NAMES))
        labels = np.repeat(np.arange(len(classes)), -(-count // len(classes)))
        prompts = [TEMPLATE.replace("{class}", classes[label]) for label in labels]
        images = load_model(Generator, named(folder)).generate(prompts, seed=0)
        return Labelled(images, labels, classes)

    return kept(f"satellite-base-{count}-{studio_sum(folder)}", draw)


def named(folder: Path) -> str:
    """A studio's name, as ``--encoder`` and the like take it."""
    return f"embedded:studio?folder={folder}"


# Runs: what a part releases.


def aligned(setup: Setup, folder: Path, seed: int) -> dict[str, Any]:
    """Moves the base set across the gap."""
    return {
        "method": "alignment",
        "base": str(setup.base),
        "decoder": setup.studio,
        "settings": {"template": TEMPLATE},
    }


def evolved_images(setup: Setup, folder: Path, seed: int) -> dict[str, Any]:
    """Private Evolution: images, varied by the studio."""
    settings = {"candidates": "images", "template": TEMPLATE}
    return {"method": "evolution", "generator": setup.studio, "settings": settings}


def evolved_captions(setup: Setup, folder: Path, seed: int) -> dict[str, Any]:
    """SPTI: captions by the grammar that the studio's captions come from."""
    file = folder / "grammar.json"
    file.write_text(json.dumps(grammar()), encoding="utf-8")
    writer = f"embedded:writer?grammar={file}&keep=target,name"
    models = {"generator": setup.studio, "writer": writer}
    return {
        "method": "evolution",
        "settings": {"lookahead": 0, "population": 120, "rounds": 4},
        **models,
    }


PARTS: dict[str, Callable[[Setup, Path, int], dict[str, Any]]] = {
    "alignment": aligned,
    "images": evolved_images,
    "captions": evolved_captions,
}


def released(setup: Setup, part: str, seed: int) -> Labelled:
    """The release of a part at epsilon 1."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        result = synthesize(
            setup.private,
            out=folder / "out",
            epsilon=EPSILON,
            delta=DELTA,
            encoder=setup.studio,
            count=setup.count,
            seed=seed,
            ledger=str(folder / "ledger.db"),
            **PARTS[part](setup, folder, seed),
        )
        return load(result.release)


# Measures


@cache
def judges(studio: str) -> dict[str, Encoder]:
    """Encoders that Frechet distances are measured in; the second has no part in any method."""
    file = need(DATA / "models" / "mobilenet_v2_features.onnx")
    return {
        "studio": load_encoder(studio, shape=(SIDE, SIDE, 3)),
        "MobileNetV2": load_encoder(f"onnx:{file}?size=128", shape=(SIDE, SIDE, 3)),
    }


@cache
def test_embeddings(studio: str, name: str) -> NDArray[np.float32]:
    """Private tiles that no run reads, as a judge sees them."""
    return embedded(judges(studio)[name], load(private_tiles("test", TEST_EACH)).values)


def row(setup: Setup, data: Labelled, seed: int = 0) -> Iterator[float | str]:
    """Distances to the private tiles by each judge, then accuracies on them."""
    for name, encoder in judges(setup.studio).items():
        reference = test_embeddings(setup.studio, name)
        yield frechet_distance(embedded(encoder, data.values), reference)
    if not setup.quick:
        yield from accuracies(data, setup.test, seed, setup.epochs)
        return
    small = (halved(data), halved(setup.test))
    yield percent(utility(*small, network="cnn", seed=seed, epochs=setup.epochs).balanced)


def show(setup: Setup, name: str, data: Labelled) -> None:
    """A row of images of each class."""
    if setup.sheets is None:
        return
    columns = min(SHOWN, int(np.bincount(data.labels, minlength=len(data.classes)).min()))
    rows = [np.flatnonzero(data.labels == label)[:columns] for label in range(len(data.classes))]
    setup.sheets.mkdir(parents=True, exist_ok=True)
    file = setup.sheets / f"satellite-{name}.png"
    file.write_bytes(contact_sheet(data.values[np.concatenate(rows)], columns))


def main(
    parts: Sequence[str] = tuple(PARTS),
    *,
    count: int = 1000,
    seeds: int = 1,
    epochs: int | None = None,
    sheets: Path | None = None,
    quick: bool = False,
) -> None:
    """The base set, what each part makes of it, and the private tiles themselves."""
    folder = trained_studio()
    studio, base = named(folder), drawn_base(folder, count)
    private = private_tiles("train", PRIVATE_EACH)
    test = load(private_tiles("test", TEST_EACH))
    setup = Setup(studio, private, test, base, count, epochs, seeds, sheets, quick)
    table = Table(
        f"EuroSAT's private half, {PRIVATE_EACH} tiles a class, epsilon {EPSILON:g}, {count:,} "
        f"samples; majority {100 / len(NAMES):.0f} %",
        ("trained on", *(f"FD {name}" for name in judges(studio)), "small CNN, %", "ResNet-9, %"),
        first=40,
    )

    def measured(words: str, data: Labelled, name: str, seed: int = 0) -> list[float | str]:
        cells = list(row(setup, data, seed))
        table.row(words, *cells)
        show(setup, name, data)
        return cells

    before = measured("the base set, drawn by the studio", load(base), "base")
    for part in parts:
        for seed in range(seeds):
            after = measured(f"{part}, seed {seed}", released(setup, part, seed), part, seed)
            falls = [f"{100 * (1 - float(after[k]) / float(before[k])):.0f} %" for k in (0, 1)]
            table.row("  falls by", *falls)
    measured("public tiles as they are", public_tiles(count // len(NAMES)), "public")
    measured("private tiles, not private", load(private).at_most(count, 0), "private")
