"""Tiny ONNX models, made on the spot: linear maps whose results can be worked out by hand."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

Dims = Sequence[int | str]


def save(
    path: Path,
    nodes: Sequence[tuple[str, Sequence[str], Sequence[str], dict[str, object]]],
    inputs: dict[str, Dims],
    outputs: dict[str, Dims],
    weights: dict[str, NDArray[np.generic]] | None = None,
    *,
    kind: int = 1,
    properties: dict[str, str] | None = None,
) -> Path:
    """Write a model of (operator, inputs, outputs, attributes) nodes; ``kind`` 1 is float32."""
    onnx = pytest.importorskip("onnx")
    helper = onnx.helper
    graph = helper.make_graph(
        [helper.make_node(op, list(i), list(o), **attrs) for op, i, o, attrs in nodes],
        "tiny",
        [helper.make_tensor_value_info(n, kind, list(dims)) for n, dims in inputs.items()],
        [helper.make_tensor_value_info(n, 1, list(dims)) for n, dims in outputs.items()],
        [onnx.numpy_helper.from_array(v, n) for n, v in (weights or {}).items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    if properties:
        helper.set_model_props(model, properties)
    onnx.save(model, str(path))
    return path


def block_means(path: Path, channels: int = 3, **more: object) -> Path:
    """An encoder: the mean of each 4 x 4 block of each channel, (n, channels, h / 4, w / 4)."""
    return save(
        path,
        [("AveragePool", ["images"], ["latents"], {"kernel_shape": [4, 4], "strides": [4, 4]})],
        {"images": ["n", channels, "h", "w"]},
        {"latents": ["n", channels, "h4", "w4"]},
        **more,  # type: ignore[arg-type]
    )


def block_fill(path: Path, channels: int = 3) -> Path:
    """Its decoder: each number fills a 4 x 4 block."""
    return save(
        path,
        [("Resize", ["latents", "", "scales"], ["images"], {"mode": "nearest"})],
        {"latents": ["n", channels, "h", "w"]},
        {"images": ["n", channels, "H", "W"]},
        {"scales": np.array([1, 1, 4, 4], dtype=np.float32)},
    )


def channel_means(path: Path, batch: int | str = "n", size: int | str = "h") -> Path:
    """An encoder: the mean of each channel, (n, 3)."""
    return save(
        path,
        [("ReduceMean", ["images"], ["means"], {"axes": [2, 3], "keepdims": 0})],
        {"images": [batch, 3, size, size if isinstance(size, int) else "w"]},
        {"means": [batch, 3]},
    )
