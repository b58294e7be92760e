"""A computation written down, operator by operator, for files that other programs run.

An encoder that can write down what it computes needs none of this package afterwards: a classifier
of its embeddings becomes one file, from pixels to scores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.ports import Encoder
from understudy.core.types import Vector

OperatorName = Literal["Add", "Concat", "Conv", "Flatten", "Log", "MatMul", "Mul", "Sqrt"]
"""The operators, by ONNX's names. ``Conv`` pads nothing; the last two axes of ``MatMul`` count."""

PIXELS = "images"
"""The input of a computation: (n, channels, height, width) float32 in [0, 255]."""


@dataclass(frozen=True, eq=False)
class Operation:
    """One operator."""

    operator: OperatorName
    inputs: tuple[str | NDArray[np.float32], ...]
    output: str
    attributes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class EncoderOperations:
    """What an encoder computes: operators from `PIXELS` to features, and embeddings from these.

    The last, linear part stands apart, so that a linear classifier of embeddings becomes one of
    features.

    Attributes:
        operations: In their order; the result of the last is the features, (n, m).
        matrix: (m, d): embeddings are features times this,
        offset: (d,), plus this.
    """

    operations: tuple[Operation, ...]
    matrix: Vector
    offset: Vector


@runtime_checkable
class WrittenEncoder(Encoder, Protocol):
    """An encoder of images that can write down what it computes."""

    def operations(self) -> EncoderOperations:
        """What it computes, up to float rounding."""
        ...
