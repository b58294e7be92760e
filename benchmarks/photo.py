"""The photo autoencoder: what comes back of images that it has not learnt from, and how fast.

``fidelity`` gives the mean over images of the peak signal-to-noise ratio, beside the cosine
transform with as many numbers. ``speed`` counts images a second on all cores. ``release``
compares a small release of EuroSAT's vegetation, epsilon 1, with that of the default. Set
``UNDERSTUDY_PHOTO`` to a folder to measure another autoencoder; ``--sheets FOLDER`` writes images
above what came back. Needs ``../shared/data`` and Fashion-MNIST.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from PIL import Image

from benchmarks.small_classes import COLUMNS, SUBSETS, run
from benchmarks.tables import DATA, Table, need
from understudy.backends.registry import load_decoder, load_encoder
from understudy.core.types import Images, Seeds
from understudy.data import open_source
from understudy.report import contact_sheet

PHOTO = "embedded:photo" + (
    f"?folder={os.environ['UNDERSTUDY_PHOTO']}" if os.environ.get("UNDERSTUDY_PHOTO") else ""
)
FASHION = Path("/usr/share/datasets/fashion-mnist")
PIXELS = 64
MOST = 400
SHOWN = 12


def held_out() -> Iterator[tuple[str, float | None, Images]]:
    """Name, the PSNR to reach in dB if there is one, and images of each held-out set."""
    images = DATA / "images"
    yield "EuroSAT, test", 30, some(need(images / "eurosat" / "test"), PIXELS)
    yield "clothing, test", 27, some(need(images / "clothing" / "test"), PIXELS)
    yield "65 photos", 26, photos(need(images / "photos" / "img"), PIXELS)
    yield "Fashion-MNIST, test, 32 px", 28, some(need(FASHION), 32, split="test")
    yield "the same, 28 px", None, some(FASHION, 28, split="test")


def some(source: Path, size: int, split: str = "train") -> Images:
    """At most `MOST` images of a source, spread over all of it."""
    opened = open_source(source, size=size, split=split)  # type: ignore[arg-type]
    rows = np.concatenate([batch.values for batch in opened.batches(512)])
    return rows[:: max(1, len(rows) // MOST)][:MOST]


def photos(folder: Path, size: int) -> Images:
    """The middle square of every photo."""
    rows = []
    for file in sorted(folder.glob("*.jpg")):
        with Image.open(file) as image:
            side = min(image.size)
            left, top = ((edge - side) // 2 for edge in image.size)
            square = image.convert("RGB").crop((left, top, left + side, top + side))
            rows.append(np.asarray(square.resize((size, size), Image.Resampling.BICUBIC)))
    return np.stack(rows)


def seeds_of(count: int) -> Seeds:
    """A seed for each image."""
    return np.arange(count, dtype=np.uint64)


def psnr(one: Images, other: Images) -> float:
    """Mean over images of the peak signal-to-noise ratio in dB."""
    squares = np.square(one.astype(float) - other).reshape(len(one), -1).mean(axis=1)
    return float((10 * np.log10(255**2 / np.maximum(squares, 1e-4))).mean())


def fidelity(sheets: Path | None = None) -> None:
    """PSNR of each held-out set."""
    table = Table("embedded:photo: PSNR in dB", ("images", "at least", "photo", "dct"), first=30)
    for name, least, images in held_out():
        shape = images.shape[1:]
        encoder = load_encoder(PHOTO, shape=shape)
        decoder, seeds = load_decoder(PHOTO, shape=shape, encoder=encoder), seeds_of(len(images))
        back = decoder.decode(encoder.encode(images), seeds=seeds)
        cosine = load_encoder(f"embedded:dct?coefficients={encoder.dim}", shape=shape)
        plain = load_decoder("embedded:dct", shape=shape, encoder=cosine)
        other = plain.decode(cosine.encode(images), seeds=seeds)
        table.row(name, least, f"{psnr(images, back):.1f}", f"{psnr(images, other):.1f}")
        if sheets is not None:
            pairs = np.concatenate([images[:SHOWN], back[:SHOWN]])
            file = sheets / f"photo-{name.split(',')[0].lower().replace(' ', '-')}.png"
            file.write_bytes(contact_sheet(pairs, SHOWN))


def speed(count: int = 512) -> None:
    """Images a second, each way and both."""
    shape = (PIXELS, PIXELS, 3)
    encoder = load_encoder(PHOTO, shape=shape)
    decoder = load_decoder(PHOTO, shape=shape, encoder=encoder)
    images = np.random.default_rng(0).integers(0, 256, (count, *shape), dtype=np.uint8)
    latents, seeds = encoder.encode(images), seeds_of(count)
    decoder.decode(latents[:64], seeds=seeds[:64])
    table = Table(f"embedded:photo: {PIXELS} px, images a second", ("", "wall", "processor"))
    ways: dict[str, Callable[[], object]] = {
        "to latents": lambda: encoder.encode(images),
        "back": lambda: decoder.decode(latents, seeds=seeds),
        "both ways (>= 200)": lambda: decoder.decode(encoder.encode(images), seeds=seeds),
    }
    for name, way in ways.items():
        wall, processor = time.perf_counter(), time.process_time()
        way()
        wall, processor = time.perf_counter() - wall, time.process_time() - processor
        table.row(name, f"{count / wall:.0f}", f"{count / processor:.0f}")


def release() -> None:
    """A release of EuroSAT's vegetation by the default and by this encoder."""
    table = Table("EuroSAT's vegetation, 64 px, epsilon 1", ("encoder", *COLUMNS[1:]))
    for name in ("embedded:dct", PHOTO):
        line, *_ = run(SUBSETS["vegetation"], None, encoder=name, decoder=name)
        table.row(name, *line[1:])


PARTS: dict[str, Callable[[], None]] = {"fidelity": fidelity, "speed": speed, "release": release}


def main(parts: tuple[str, ...] = (), *, sheets: Path | None = None) -> None:
    """Every part, or those named."""
    for name in parts or PARTS:
        if name == "fidelity":
            fidelity(sheets)
        else:
            PARTS[name]()
