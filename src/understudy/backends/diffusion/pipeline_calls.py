"""One call of a pipeline on a few rows: the same noise for a row however rows are put together."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from understudy.backends.arrays import to_uint8
from understudy.backends.hub.pretrained import quiet
from understudy.core.errors import BackendError
from understudy.core.types import Images, Seeds


def generators(seed: int, rows: Iterable[int], task: str) -> list[torch.Generator]:
    """A source of noise a row: of the seed, the row's number and the task, and of nothing else.

    The task counts so that varying the images of ``seed`` with ``seed`` draws other noise than
    they were made of. They live on the processor: a GPU then draws the same images.
    """
    entropy = [seed % 2**64, _number_of(task)]
    return [_generator([*entropy, row]) for row in rows]


def seeded(seeds: Seeds, task: str) -> list[torch.Generator]:
    """A source of noise a row: of the row's own seed and the task, as `generators`."""
    return [_generator([seed, _number_of(task)]) for seed in seeds.tolist()]


def _number_of(task: str) -> int:
    return int.from_bytes(task.encode()[:8], "little")


def _generator(entropy: list[int]) -> torch.Generator:
    state = np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0]
    return torch.Generator().manual_seed(int(state) % 2**63)


def taken(pipeline: Any) -> Mapping[str, inspect.Parameter]:
    """The arguments that a pipeline's call takes."""
    return inspect.signature(type(pipeline).__call__).parameters


def call_pipeline(pipeline: Any, name: str, batch: int, **arguments: Any) -> Images:
    """Call a pipeline: (n, height, width, 3) uint8."""
    parameters = taken(pipeline)
    accepted = {key: value for key, value in arguments.items() if key in parameters}
    try:
        with quiet():
            images = pipeline(**accepted, output_type="np", return_dict=True).images
    except torch.OutOfMemoryError as error:
        raise out_of_memory(name, batch, error) from error
    return finite_pixels(np.asarray(images), name)


def finite_pixels(values: NDArray[np.float32], name: str) -> Images:
    """Values where 0 is black and 1 is white as uint8; what is not finite is refused."""
    if not np.isfinite(values).all():
        raise BackendError(
            f"{name} gave pixels that are not finite: use dtype=float32 or dtype=bfloat16"
        )
    return to_uint8(values)


def out_of_memory(name: str, batch: int, error: torch.OutOfMemoryError) -> BackendError:
    """What to say where a batch does not fit."""
    return BackendError(
        f"{name}: out of memory at batch={batch}: use a smaller batch, a smaller size, "
        f"dtype=bfloat16 or offload=true ({str(error).splitlines()[0]})"
    )
