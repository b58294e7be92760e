"""What a device does: embedding, decoding, sampling and training a judge, a line each.

    scripts/gpu_check.sh                        on the GPU
    scripts/gpu_check.sh --device cpu --tiny    on the processor, at toy size: whether it runs

Images are random: only speed, memory and independence are looked at. An encoder that is called
dependent would be refused by a run, for its embedding of an image depends on the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from benchmarks.tables import Skipped, Table
from understudy.backends.registry import load_decoder, load_encoder, load_model, named_on
from understudy.core.errors import BackendError
from understudy.core.ports import Generator
from understudy.core.types import Images
from understudy.metrics.networks.classifier_training import train_on_images
from understudy.privacy.probe import require_independent

SHAPE = (64, 64, 3)
ENCODERS = ("embedded:studio?dtype=float32", "embedded:studio?dtype=bfloat16", "embedded:photo")
DECODERS = ("embedded:photo?dtype=float32", "embedded:photo?dtype=bfloat16")
GENERATORS = ("embedded:studio?dtype=float32", "embedded:studio?dtype=bfloat16")
COMPILED = "&compile=true"
HEADS = ("what", "images/s", "memory", "records")


@dataclass(frozen=True)
class Size:
    """How much is done.

    Attributes:
        images: Embedded and decoded.
        drawn: Sampled.
        trained: That a judge learns from, for an epoch.
        compiled: Whether networks are compiled, too.
    """

    images: int
    drawn: int
    trained: int
    compiled: bool


FULL, TINY = Size(8192, 256, 50_000, True), Size(64, 2, 64, False)


def random_images(count: int) -> Images:
    return np.random.default_rng(0).integers(0, 256, (count, *SHAPE), dtype=np.uint8)


def measured(work: Callable[[], object], count: int, device: str) -> tuple[str, str]:
    """Images a second, and the most memory of the GPU, after a first time that does not count."""
    work()
    if device != "cpu":
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    work()
    seconds = time.perf_counter() - start
    memory = "" if device == "cpu" else f"{torch.cuda.max_memory_allocated() / 1e9:.2f} GB"
    return f"{count / seconds:,.1f}", memory


def variants(names: Sequence[str], device: str, size: Size) -> list[str]:
    """The models, and those that can be compiled so; a processor is slow at bfloat16."""
    usable = [name for name in names if device != "cpu" or "bfloat16" not in name]
    return usable + [f"{name}{COMPILED}" for name in usable if "?" in name and size.compiled]


def embedding(name: str, device: str, size: Size) -> tuple[str, ...]:
    encoder = load_encoder(named_on(name, device), shape=SHAPE)
    images = random_images(size.images)
    try:
        require_independent(encoder.encode, SHAPE, name)
        records = "independent"
    except BackendError:
        records = "dependent"
    return *measured(lambda: encoder.encode(images), len(images), device), records


def decoding(name: str, device: str, size: Size) -> tuple[str, ...]:
    encoder = load_encoder(named_on("embedded:photo", device), shape=SHAPE)
    decoder = load_decoder(named_on(name, device), shape=SHAPE, encoder=encoder)
    embeddings = encoder.encode(random_images(size.images))
    seeds = np.arange(len(embeddings), dtype=np.uint64)
    return measured(lambda: decoder.decode(embeddings, seeds=seeds), len(embeddings), device)


def sampling(name: str, device: str, size: Size) -> tuple[str, ...]:
    generator = load_model(Generator, named_on(name, device))
    prompts = ["a brown dog sleeping on a sofa"] * size.drawn
    return measured(lambda: generator.generate(prompts), size.drawn, device)


def judging(device: str, size: Size) -> tuple[str, ...]:
    images, labels = random_images(size.trained), np.arange(size.trained) % 10

    def train() -> object:
        return train_on_images(images, labels, classes=10, epochs=1, device=device)

    return measured(train, size.trained, device)


def main(device: str = "cuda", tiny: bool = False, encoder: Sequence[str] = ()) -> None:
    """Print the table.

    Args:
        device: ``"cuda"`` or ``"cpu"``.
        tiny: At toy size.
        encoder: Encoders to measure besides, such as ``hf:openai/clip-vit-large-patch14``.
    """
    if device != "cpu" and not torch.cuda.is_available():
        raise Skipped("PyTorch finds no GPU here; --device cpu measures the processor")
    size = TINY if tiny else FULL
    where = "the processor" if device == "cpu" else torch.cuda.get_device_name()
    table = Table(f"{where}, random images of 64 x 64", HEADS, first=54)
    for name in variants([*ENCODERS, *encoder], device, size):
        table.row(f"embedding {name}", *embedding(name, device, size))
    for name in variants(DECODERS, device, size):
        table.row(f"decoding {name}", *decoding(name, device, size))
    for name in variants(GENERATORS, device, size):
        table.row(f"sampling {name}", *sampling(name, device, size))
    table.row("training a judge: small CNN, an epoch", *judging(device, size))
