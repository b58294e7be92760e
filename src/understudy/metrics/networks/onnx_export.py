"""A trained network as ONNX: layers one after another, of operators from a short list.

Written here by hand, not by torch's exporter: adaptive pooling over cells of unequal size, which
that one refuses, is two products with constant matrices, and the standardisation of the input is
part of the model. Every number is in the file itself, none in external data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import InputError, packages_for
from understudy.core.operations import PIXELS, Operation
from understudy.core.types import Shape
from understudy.metrics.networks.architectures import Residual

with packages_for("a model as ONNX", "onnx"):
    import onnx
    from onnx import TensorProto, helper, numpy_helper

import torch  # isort: skip
from torch import nn  # isort: skip

OPSET = 17
EMBEDDINGS_INPUT, OUTPUT = "embeddings", "scores"


class _Chain:
    """Nodes one after another, each of which takes what the one before it gave."""

    def __init__(self, source: str) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.last = source

    def add(self, operator: str, *values: NDArray[Any], first: bool = True, **fields: Any) -> None:
        """One operator on the last result, which stands before its constants or after them."""
        name = f"v{len(self.nodes)}"
        names = [f"{name}.{number}" for number in range(len(values))]
        for constant, value in zip(names, values, strict=True):
            array = np.ascontiguousarray(value, np.float32)
            self.constants.append(numpy_helper.from_array(array, constant))
        inputs = [self.last, *names] if first else [*names, self.last]
        self._append(operator, inputs, **fields)

    def join(self, operator: str, other: str) -> None:
        """One operator on the last result and an earlier one."""
        self._append(operator, [other, self.last])

    def _append(self, operator: str, inputs: list[str], **fields: Any) -> None:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **fields))
        self.last = name


def onnx_bytes(
    network: nn.Module,
    shape: Shape,
    mean: NDArray[np.float32],
    gain: NDArray[np.float32],
    facts: Mapping[str, str] | None = None,
) -> bytes:
    """The model's bytes: from float32 images or embeddings to the network's result.

    Images are (n, channels, height, width) in [0, 255], embeddings (n, d).

    Args:
        network: In evaluation mode: convolutions, batch normalisation, pooling, ReLU, flattening
            and dense layers, in a chain or with residual connections.
        shape: (height, width, channels) of an image, or (d,).
        mean: (channels,) or (d,) subtracted from the input first.
        gain: As many, that the difference is multiplied by.
        facts: What the file says of the model besides; none by default.

    Raises:
        InputError: A layer is of no kind that can be written.
    """
    images = len(shape) == 3
    source = PIXELS if images else EMBEDDINGS_INPUT
    row = (shape[2], *shape[:2]) if images else shape
    chain, at = _Chain(source), torch.zeros(1, *row)
    alongside = (-1, 1, 1) if images else (-1,)
    chain.add("Sub", mean.reshape(alongside))
    chain.add("Mul", gain.reshape(alongside))
    with torch.inference_mode():
        at = _write(chain, network, at)
    chain.nodes[-1].output[0] = OUTPUT
    return _model_bytes(chain.nodes, chain.constants, (source, row), at.shape[1:], facts)


def operations_as_onnx(
    operations: Sequence[Operation],
    shape: Shape,
    classes: int,
    facts: Mapping[str, str] | None = None,
) -> bytes:
    """The bytes of a model of operators that are written down.

    Args:
        operations: From `PIXELS` to scores, (n, classes), the result of the last.
        shape: (height, width, channels) of an image.
        classes: How many scores.
        facts: As for `onnx_bytes`.
    """
    nodes, constants = [], []
    for operation in operations:
        names = []
        for number, value in enumerate(operation.inputs):
            name = value if isinstance(value, str) else f"{operation.output}.{number}"
            if not isinstance(value, str):
                constants.append(numpy_helper.from_array(value, name))
            names.append(name)
        fields: dict[str, Any] = dict(operation.attributes)
        if stride := fields.pop("stride", None):
            fields["strides"] = [stride, stride]
        nodes.append(helper.make_node(operation.operator, names, [operation.output], **fields))
    nodes[-1].output[0] = OUTPUT
    row = (shape[2], *shape[:2])
    return _model_bytes(nodes, constants, (PIXELS, row), (classes,), facts)


def _model_bytes(
    nodes: Sequence[onnx.NodeProto],
    constants: Sequence[onnx.TensorProto],
    input_row: tuple[str, Shape],
    output_shape: Sequence[int],
    facts: Mapping[str, str] | None,
) -> bytes:
    """A model of rows that are taken, by a name and of a shape, and given."""
    source, row = input_row
    graph = helper.make_graph(
        nodes,
        "understudy",
        [helper.make_tensor_value_info(source, TensorProto.FLOAT, ["n", *row])],
        [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, ["n", *output_shape])],
        constants,
    )
    opset = helper.make_opsetid("", OPSET)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8, producer_name="")
    helper.set_model_props(model, dict(facts or {}))
    onnx.checker.check_model(model, full_check=True)
    data: bytes = model.SerializeToString(deterministic=True)
    return data


def _write(chain: _Chain, layer: nn.Module, at: torch.Tensor) -> torch.Tensor:
    """Write a layer and all inside it; what it makes of an example."""
    if isinstance(layer, nn.Sequential):
        for inner in layer:
            at = _write(chain, inner, at)
        return at
    if isinstance(layer, Residual):
        before, result = chain.last, _write(chain, layer.inner, at)
        chain.join("Add", before)
        return at + result
    write = _WRITERS.get(type(layer))
    if write is None:
        raise InputError(f"a layer {type(layer).__name__} cannot be written as ONNX")
    write(chain, layer, at)
    result = layer(at)
    return torch.as_tensor(result)


def _numbers(tensor: torch.Tensor | None) -> list[NDArray[Any]]:
    return [] if tensor is None else [tensor.detach().numpy()]


def _pair(value: Any) -> list[int]:
    return list(value) if isinstance(value, tuple) else [value, value]


def _convolution(chain: _Chain, layer: Any, at: torch.Tensor) -> None:
    chain.add(
        "Conv",
        *_numbers(layer.weight),
        *_numbers(layer.bias),
        strides=_pair(layer.stride),
        pads=2 * _pair(layer.padding),
        dilations=_pair(layer.dilation),
        group=layer.groups,
    )


def _max_pool(chain: _Chain, layer: Any, at: torch.Tensor) -> None:
    chain.add(
        "MaxPool",
        kernel_shape=_pair(layer.kernel_size),
        strides=_pair(layer.stride),
        pads=2 * _pair(layer.padding),
        ceil_mode=int(layer.ceil_mode),
    )


def _global_maximum(chain: _Chain, layer: Any, at: torch.Tensor) -> None:
    if _pair(layer.output_size) != [1, 1]:
        raise InputError("a maximum over cells cannot be written as ONNX: only over whole maps")
    chain.add("GlobalMaxPool")


def _instance_normalisation(chain: _Chain, layer: Any, at: torch.Tensor) -> None:
    if layer.num_groups != layer.num_channels:
        raise InputError("normalisation of groups of channels cannot be written as ONNX")
    numbers = (*_numbers(layer.weight), *_numbers(layer.bias))
    chain.add("InstanceNormalization", *numbers, epsilon=layer.eps)


def _adaptive_average(chain: _Chain, layer: Any, at: torch.Tensor) -> None:
    """Means over rows and over columns: ``R x C``, where cell i is i*n/m to (i+1)*n/m, outwards."""
    tall, wide = _pair(layer.output_size)
    chain.add("MatMul", _means(at.shape[2], tall), first=False)
    chain.add("MatMul", _means(at.shape[3], wide).T)


def _means(size: int, cells: int) -> NDArray[np.float32]:
    weights = np.zeros((cells, size), np.float32)
    for cell in range(cells):
        start, end = cell * size // cells, -(-(cell + 1) * size // cells)
        weights[cell, start:end] = 1 / (end - start)
    return weights


def _normalisation(chain: _Chain, layer: Any, at: torch.Tensor) -> None:
    numbers = (layer.weight, layer.bias, layer.running_mean, layer.running_var)
    chain.add("BatchNormalization", *(_numbers(one)[0] for one in numbers), epsilon=layer.eps)


_WRITERS: dict[type[nn.Module], Callable[[_Chain, Any, torch.Tensor], None]] = {
    nn.Conv2d: _convolution,
    nn.MaxPool2d: _max_pool,
    nn.AdaptiveAvgPool2d: _adaptive_average,
    nn.AdaptiveMaxPool2d: _global_maximum,
    nn.AvgPool2d: lambda chain, layer, at: chain.add(
        "AveragePool", kernel_shape=_pair(layer.kernel_size), strides=_pair(layer.stride)
    ),
    nn.BatchNorm1d: _normalisation,
    nn.BatchNorm2d: _normalisation,
    nn.GroupNorm: _instance_normalisation,
    nn.ReLU: lambda chain, layer, at: chain.add("Relu"),
    nn.ReLU6: lambda chain, layer, at: chain.add("Clip", np.array(0), np.array(6)),
    nn.Identity: lambda chain, layer, at: None,
    nn.Dropout: lambda chain, layer, at: None,
    nn.Flatten: lambda chain, layer, at: chain.add("Flatten", axis=1),
    nn.Linear: lambda chain, layer, at: chain.add(
        "Gemm", *_numbers(layer.weight), *_numbers(layer.bias), transB=1
    ),
}
"""How each kind of layer is written."""
