"""What a server needs of a pipeline that turns a request and its items into a model.

A pipeline is named stages in order: of SpinML these are customise, compose, train and export
(Section 3.3). Every stage is a function of the request, the items, the results of earlier stages
and the seed alone, and gives files: a server that is killed goes on after the last stage whose
files are on disk, with the same result.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.methods.sanitize.wire import (
    JobRequest,
    JobSubmission,
    ModelLicence,
    submission_digest,
)
from understudy.methods.sanitize.wire_items import Item

MODEL_FILE = "model.onnx"
"""What the last stage calls the model."""
VALIDATION_FILE = "validation.txt"
"""What the last stage calls the result on left-out synthetic images: one number in [0, 1]."""
DIRECTIONS_FILE = "directions.json"
"""What the last stage may call `ModelResult.directions`."""

StageFiles = Mapping[str, bytes]
"""What a stage gives: the content of files by their names, ``[a-z0-9._-]{1,64}``."""


@dataclass(frozen=True, slots=True)
class JobMaterial:
    """What a stage works with.

    Attributes:
        items: Reads the items of a part, by its number; () at L0.
        result: Reads a file of an earlier stage: the stage's name, the file's name.
        seed: Of everything random; equal submissions have equal seeds.
        beat: To be called now and then: raises where the job was deleted.
    """

    request: JobRequest
    items: Callable[[int], tuple[Item, ...]]
    result: Callable[[str, str], bytes]
    seed: int
    beat: Callable[[], None]


@runtime_checkable
class JobPipeline(Protocol):
    """The stages of a job.

    Attributes:
        models: The models it works with, for ``about`` and for results.
    """

    name: str
    stages: tuple[str, ...]
    models: tuple[ModelLicence, ...]

    def objection(self, request: JobRequest) -> str | None:
        """Why this pipeline cannot do what is asked; None where it can.

        One sentence that quotes nothing of the request.
        """
        ...

    def run(self, stage: str, material: JobMaterial) -> StageFiles:
        """The files of one stage; of the last one, `MODEL_FILE` and `VALIDATION_FILE`."""
        ...


def array_bytes(*arrays: NDArray[Any]) -> bytes:
    """Arrays in NumPy's format, one after another; the same arrays are the same bytes."""
    file = io.BytesIO()
    for array in arrays:
        np.save(file, np.ascontiguousarray(array), allow_pickle=False)
    return file.getvalue()


def stored_arrays_of(data: bytes) -> tuple[NDArray[Any], ...]:
    """The arrays that `array_bytes` wrote."""
    file, arrays = io.BytesIO(data), []
    while file.tell() < len(data):
        arrays.append(np.load(file, allow_pickle=False))
    return tuple(arrays)


def seed_of(submission: JobSubmission) -> int:
    """The seed of a job, below 2**32: a digest of everything that was submitted."""
    return int(submission_digest(submission)[:8], 16)
