"""The size of every result of a network, and the work it takes, for one image, before it runs.

Each operator has a rule. It knows which axis is the batch: the first one of every result, and of no
constant. An operator that would move it, split it, merge it with another axis, sum over it or give
it a size of its own is refused, so that no image's answer depends on the others of its batch, and
what is computed here for one image is true of any number.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import WireError, packages_for

with packages_for("a model as ONNX", "server"):
    import onnx
    from onnx import helper, numpy_helper

Sizes = tuple[int, ...]

_PADDING_REASON = "a padding, stride or kernel is of no size that a network has"
_BATCH_REASON = "an operator mixes the images of a batch, or moves its axis"
_FIT_REASON = "its graph does not hold together"


class GraphRefusedError(WireError):
    """The graph does what no small network does; the message says what."""


@dataclass(frozen=True, slots=True)
class Cost:
    """What a network takes for one image."""

    values: int
    work: int
    output: Sizes


@dataclass(frozen=True, slots=True)
class _Value:
    """A tensor of the graph: a constant, or a result with the batch in front of ``sizes``."""

    sizes: Sizes
    constant: NDArray[Any] | None = None


@dataclass(frozen=True, slots=True)
class _Call:
    """One operator with its inputs and attributes."""

    inputs: tuple[_Value | None, ...]
    attributes: dict[str, Any]
    opset: int

    def images(self, number: int = 0) -> Sizes:
        """Sizes of an input that has a batch."""
        value = self._input(number)
        _require(value is not None and value.constant is None, _FIT_REASON)
        return value.sizes  # type: ignore[union-attr]

    def constant(self, number: int) -> NDArray[Any]:
        """An input that is in the file."""
        value = self._input(number)
        _require(value is not None and value.constant is not None, _BATCH_REASON)
        return value.constant  # type: ignore[union-attr,return-value]

    def has(self, number: int) -> bool:
        return self._input(number) is not None

    def _input(self, number: int) -> _Value | None:
        return self.inputs[number] if number < len(self.inputs) else None

    def axis(self, default: int, rank: int) -> int:
        """The attribute ``axis``, counted from the front, the batch's axis being 0."""
        axis = int(self.attributes.get("axis", default))
        _require(-rank <= axis < rank, _FIT_REASON)
        return axis % rank


_Result = tuple[Sizes, int]
"""Sizes of a result without its batch, and the work of an image."""


def graph_cost(graph: onnx.GraphProto, opset: int, *, values: int, work: int) -> Cost:
    """The cost of one image, and the shape of the result.

    Raises:
        GraphRefusedError: The cost is higher, or an operator does not treat images independently.
    """
    source = graph.input[0]
    rows = tuple(axis.dim_value for axis in source.type.tensor_type.shape.dim[1:])
    tensors = {source.name: _Value(rows)}
    for tensor in graph.initializer:
        _require(tensor.name not in tensors, _FIT_REASON)
        array = numpy_helper.to_array(tensor)
        tensors[tensor.name] = _Value(array.shape, array)
    total_values, total_work = math.prod(rows), 0
    for node in graph.node:
        _require(len(node.output) == 1, "an operator has more results than one")
        _require(node.output[0] not in tensors, _FIT_REASON)
        _require(all(name in tensors for name in node.input if name), _FIT_REASON)
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        if node.op_type == "Constant":
            array = _constant(attributes)
            tensors[node.output[0]] = _Value(array.shape, array)
            continue
        inputs = tuple(tensors[name] if name else None for name in node.input)
        sizes, effort = SIZE_RULES[node.op_type](_Call(inputs, attributes, opset))
        _require(min(sizes, default=1) >= 1 and len(sizes) <= 5, _FIT_REASON)
        total_values += math.prod(sizes)
        total_work += effort
        _require(total_values <= values, "its results are too large")
        _require(total_work <= work, "it takes too many multiplications")
        tensors[node.output[0]] = _Value(sizes)
    result = tensors.get(graph.output[0].name)
    _require(result is not None and result.constant is None, _FIT_REASON)
    return Cost(total_values, total_work, result.sizes)  # type: ignore[union-attr]


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise GraphRefusedError(reason)


def _constant(attributes: dict[str, Any]) -> NDArray[Any]:
    _require(len(attributes) == 1, _FIT_REASON)
    ((name, value),) = attributes.items()
    if name == "value":
        return numpy_helper.to_array(value)
    types = {"value_float": "f4", "value_floats": "f4", "value_int": "i8", "value_ints": "i8"}
    _require(name in types, "it has numbers of another type than float32, int32 or int64")
    array: NDArray[Any] = np.array(value, types[name])
    _require(bool(np.isfinite(array).all()), "it has numbers that are not finite")
    return array


def _alongside(call: _Call) -> _Result:
    """Addition and its like: all results have their batch on the same axis, constants on none."""
    ranks = {len(value.sizes) for value in call.inputs if value and value.constant is None}
    _require(len(ranks) == 1 and len(call.inputs) == 2, _BATCH_REASON)
    (rank,) = ranks
    shapes = []
    for value in call.inputs:
        _require(value is not None, _FIT_REASON)
        sizes = value.sizes  # type: ignore[union-attr]
        if value.constant is not None and len(sizes) > rank:  # type: ignore[union-attr]
            _require(len(sizes) == rank + 1 and sizes[0] == 1, _BATCH_REASON)
            sizes = sizes[1:]
        shapes.append(sizes)
    sizes = _broadcast(*shapes)
    return sizes, math.prod(sizes)


def _broadcast(*shapes: Sizes) -> Sizes:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        raise GraphRefusedError(_FIT_REASON) from None


def _same(call: _Call) -> _Result:
    sizes = call.images()
    return sizes, 4 * math.prod(sizes)


def _clip(call: _Call) -> _Result:
    for number in (1, 2):
        _require(not call.has(number) or call.constant(number).size == 1, _FIT_REASON)
    return _same(call)


def _softmax(call: _Call) -> _Result:
    rank = len(call.images()) + 1
    _require(call.axis(-1 if call.opset >= 13 else 1, rank) != 0, _BATCH_REASON)
    return _same(call)


def _convolution(call: _Call) -> _Result:
    sizes, weight = call.images(), call.constant(1)
    groups = int(call.attributes.get("group", 1))
    _require(len(sizes) == 3 and weight.ndim == 4 and groups >= 1, _FIT_REASON)
    filters, channels, *kernel = weight.shape
    _require(sizes[0] == channels * groups and filters % groups == 0, _FIT_REASON)
    _require(not call.has(2) or call.constant(2).shape == (filters,), _FIT_REASON)
    _require(list(call.attributes.get("kernel_shape", kernel)) == kernel, _FIT_REASON)
    cells = _windows(call, sizes[1:], kernel)
    return (filters, *cells), filters * math.prod(cells) * weight[0].size


def _pool(call: _Call) -> _Result:
    sizes, kernel = call.images(), list(call.attributes.get("kernel_shape", ()))
    _require(len(sizes) == 3 and len(kernel) == 2, _FIT_REASON)
    cells = _windows(call, sizes[1:], kernel)
    return (sizes[0], *cells), sizes[0] * math.prod(cells) * math.prod(kernel)


def _windows(call: _Call, sizes: Sizes, kernel: Sequence[int]) -> Sizes:
    """How many places a kernel takes along each axis."""
    values = call.attributes
    _require(values.get("auto_pad", b"NOTSET") == b"NOTSET", _PADDING_REASON)
    strides, dilations = values.get("strides", [1, 1]), values.get("dilations", [1, 1])
    pads, up = values.get("pads", [0] * 4), bool(values.get("ceil_mode", 0))
    _require((len(strides), len(dilations), len(pads)) == (2, 2, 4), _PADDING_REASON)
    cells = []
    for axis, size in enumerate(sizes):
        before, after, step = pads[axis], pads[axis + 2], strides[axis]
        _require(min(kernel[axis], dilations[axis], step) >= 1, _PADDING_REASON)
        width = dilations[axis] * (kernel[axis] - 1) + 1
        _require(0 <= before < width and 0 <= after < width, _PADDING_REASON)
        free = size + before + after - width
        _require(free >= 0, _PADDING_REASON)
        places = -(-free // step) + 1 if up else free // step + 1
        # A window that would begin in the padding behind the image is left out.
        cells.append(places - (up and (places - 1) * step >= size + before))
    return tuple(cells)


def _whole_pool(call: _Call) -> _Result:
    sizes = call.images()
    _require(len(sizes) == 3, _FIT_REASON)
    return (sizes[0], 1, 1), math.prod(sizes)


def _normalisation(*constants: int) -> Callable[[_Call], _Result]:
    def rule(call: _Call) -> _Result:
        sizes = call.images()
        _require(not call.attributes.get("training_mode", 0), _BATCH_REASON)
        _require(len(call.inputs) == len(constants) + 1 and len(sizes) >= 1, _FIT_REASON)
        for number in constants:
            _require(call.constant(number).shape == (sizes[0],), _FIT_REASON)
        return sizes, 4 * math.prod(sizes)

    return rule


def _flatten(call: _Call) -> _Result:
    sizes = call.images()
    _require(call.axis(1, len(sizes) + 1) == 1, _BATCH_REASON)
    return (math.prod(sizes),), 0


def _reshape(call: _Call) -> _Result:
    sizes, target = call.images(), call.constant(1)
    _require(not call.attributes.get("allowzero", 0), _BATCH_REASON)
    _require(target.ndim == 1 and 1 <= len(target) <= 6 and target.dtype == np.int64, _FIT_REASON)
    first, *rest = target.tolist()
    _require(first in (0, -1) and min(rest, default=0) >= -1, _BATCH_REASON)
    _require(len(rest) <= len(sizes) or 0 not in rest[len(sizes) :], _FIT_REASON)
    rest = [size or sizes[axis] for axis, size in enumerate(rest)]
    _require(rest.count(-1) + (first == -1) <= 1, _FIT_REASON)
    if -1 in rest:
        rest[rest.index(-1)] = math.prod(sizes) // max(1, -math.prod(rest))
    _require(math.prod(rest) == math.prod(sizes), _BATCH_REASON)
    return tuple(rest), 0


def _transpose(call: _Call) -> _Result:
    sizes = call.images()
    order = list(call.attributes.get("perm", ()))
    _require(order[:1] == [0], _BATCH_REASON)
    _require(sorted(order) == list(range(len(sizes) + 1)), _FIT_REASON)
    return tuple(sizes[axis - 1] for axis in order[1:]), math.prod(sizes)


def _concatenation(call: _Call) -> _Result:
    every = [call.images(number) for number in range(len(call.inputs))]
    _require(len({len(sizes) for sizes in every}) == 1, _FIT_REASON)
    axis = call.axis(0, len(every[0]) + 1)
    _require(axis != 0, _BATCH_REASON)
    others = {sizes[: axis - 1] + sizes[axis:] for sizes in every}
    _require(len(others) == 1, _FIT_REASON)
    sizes = list(every[0])
    sizes[axis - 1] = sum(one[axis - 1] for one in every)
    return tuple(sizes), math.prod(sizes)


def _dense(call: _Call) -> _Result:
    sizes, weight = call.images(), call.constant(1)
    _require(len(sizes) == 1 and weight.ndim == 2, _FIT_REASON)
    _require(not call.attributes.get("transA", 0), _BATCH_REASON)
    inner, outer = weight.shape[:: -1 if call.attributes.get("transB", 0) else 1]
    _require(inner == sizes[0], _FIT_REASON)
    if call.has(2):
        shape = call.constant(2).shape
        _require(len(shape) < 2 or (len(shape) == 2 and shape[0] == 1), _BATCH_REASON)
        _require(_broadcast(shape[-1:], (outer,)) == (outer,), _FIT_REASON)
    return (outer,), inner * outer


def _product(call: _Call) -> _Result:
    """A product of matrices: the batch is neither rows nor columns that are summed over."""
    _require(len(call.inputs) == 2 and call.has(0) and call.has(1), _FIT_REASON)
    left, right = call.inputs
    shapes: list[Sizes] = []
    ranks = [len(one.sizes) + 1 for one in (left, right) if one and one.constant is None]
    _require(len(set(ranks)) == 1, _BATCH_REASON)
    for value in (left, right):
        sizes = value.sizes  # type: ignore[union-attr]
        if value.constant is None:  # type: ignore[union-attr]
            sizes = (1, *sizes)  # of one image
        else:
            _require(2 <= len(sizes) <= ranks[0], _BATCH_REASON)
            _require(len(sizes) < max(3, ranks[0]) or sizes[0] == 1, _BATCH_REASON)
        shapes.append(sizes)
    if ranks[0] == 2:  # rows of a matrix may be images where the other one is a constant
        _require(right is not None and right.constant is not None, _BATCH_REASON)
    a, b = shapes
    _require(a[-1] == b[-2], _FIT_REASON)
    sizes = (*_broadcast(a[:-2], b[:-2]), a[-2], b[-1])
    return sizes[1:], math.prod(sizes) * a[-1]


SIZE_RULES: dict[str, Callable[[_Call], _Result]] = {
    **dict.fromkeys(("Add", "Mul", "Sub"), _alongside),
    **dict.fromkeys(("Identity", "Relu", "Sigmoid"), _same),
    **dict.fromkeys(("AveragePool", "MaxPool"), _pool),
    **dict.fromkeys(("GlobalAveragePool", "GlobalMaxPool"), _whole_pool),
    "BatchNormalization": _normalisation(1, 2, 3, 4),
    "Clip": _clip,
    "Concat": _concatenation,
    "Conv": _convolution,
    "Flatten": _flatten,
    "Gemm": _dense,
    "InstanceNormalization": _normalisation(1, 2),
    "MatMul": _product,
    "Reshape": _reshape,
    "Softmax": _softmax,
    "Transpose": _transpose,
}
"""What a small classifier or detector is made of, besides `Constant`."""
