"""A model from a server is checked before any runtime loads it: it may be anything.

What passes is one plain graph of common operators on float32, with all of its numbers inside, whose
every intermediate result has a known size. No file is named, no function, loop or branch is in it,
and none of its operators comes from elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from understudy.core.errors import MissingExtra, WireError
from understudy.methods.sanitize.wire import MODEL_BYTES, ModelKind

try:
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import AttributeProto, TensorProto, numpy_helper
except ImportError as error:
    raise MissingExtra("a model as ONNX", "server") from error

OPERATORS = frozenset(
    {
        *("Add", "AveragePool", "BatchNormalization", "Clip", "Concat", "Constant", "Conv"),
        *("Flatten", "Gemm", "GlobalAveragePool", "Identity", "InstanceNormalization"),
        *("MatMul", "MaxPool", "Mul", "Relu", "Reshape", "Sigmoid", "Softmax", "Sub", "Transpose"),
    }
)
"""What a small classifier or detector is made of. Not one makes its result's size from values."""

NODES = 1000
"""Operators of a model at most."""
VALUES = 2**24
"""Numbers of one intermediate result at most, for one image: 64 MiB."""
OPSETS = range(11, 23)
_TYPES: dict[int, int] = {TensorProto.FLOAT: 4, TensorProto.INT64: 8, TensorProto.INT32: 4}


def check_model(data: bytes, kind: ModelKind, side: int, classes: int) -> None:
    """Refuse a model that is anything else than a small network for such images.

    Args:
        data: The bytes, which a signature already vouches for.
        kind: What it should be.
        side: Pixels a side of its input, (n, 3, side, side) float32.
        classes: Of a classifier: its output is (n, classes).

    Raises:
        WireError: It is not; the message says what is wrong and quotes nothing of the model.
    """
    if not 0 < len(data) <= MODEL_BYTES:
        raise WireError(f"the model has {len(data)} bytes; 1 to {MODEL_BYTES} are allowed")
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        raise WireError("the model is not an ONNX file, or was cut off") from None
    problem = next(_problems(model, side), None) or _size_problem(model, kind, classes)
    if problem is not None:
        raise WireError(f"the model is refused: {problem}")


def _problems(model: onnx.ModelProto, side: int) -> Iterator[str]:
    """What is wrong with what stands in the file."""
    graph = model.graph
    if any(one.domain not in ("", "ai.onnx") for one in model.opset_import):
        yield "it has operators of another domain than ONNX"
    if [one.version for one in model.opset_import if one.version in OPSETS] == []:
        yield f"its operators are of no version from {OPSETS[0]} to {OPSETS[-1]}"
    if len(model.opset_import) != 1:
        yield "it imports more than one set of operators"
    if model.functions or model.training_info:
        yield "it has functions or a training part of its own"
    if graph.sparse_initializer or graph.quantization_annotation:
        yield "it has sparse or quantised numbers"
    if not 1 <= len(graph.node) <= NODES:
        yield f"it has {len(graph.node)} operators; 1 to {NODES} are allowed"
    constants = {tensor.name for tensor in graph.initializer}
    inputs = [one for one in graph.input if one.name not in constants]
    if len(inputs) != 1 or len(inputs) < len(graph.input):
        yield "it has another number of inputs than one"
    elif _dims(inputs[0])[1:] != [3, side, side] or not _is_float(inputs[0]):
        yield f"its input is not (n, 3, {side}, {side}) float32"
    for node in graph.node:
        yield from _node_problems(node)
    for tensor in graph.initializer:
        yield from _tensor_problems(tensor)


def _node_problems(node: onnx.NodeProto) -> Iterator[str]:
    if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS:
        yield "an operator is not on the list of those that are allowed"
    for attribute in node.attribute:
        if attribute.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) or attribute.graphs:
            yield "a graph is inside of an operator"
        if attribute.type in (AttributeProto.SPARSE_TENSOR, AttributeProto.SPARSE_TENSORS):
            yield "it has sparse numbers"
        if attribute.ref_attr_name:
            yield "an attribute refers to a function"
        for tensor in (*attribute.tensors, *([attribute.t] if attribute.HasField("t") else [])):
            yield from _tensor_problems(tensor)
        if len(attribute.ints) + len(attribute.floats) > 4096:
            yield "an attribute is too long"


def _tensor_problems(tensor: onnx.TensorProto) -> Iterator[str]:
    if tensor.data_location != TensorProto.DEFAULT or tensor.external_data:
        yield "its numbers lie in another file"
        return
    size = _TYPES.get(tensor.data_type)
    if size is None or tensor.HasField("segment"):
        yield "it has numbers of another type than float32, int32 or int64"
        return
    if min(tensor.dims, default=1) < 0 or math.prod(tensor.dims) * size > MODEL_BYTES:
        yield "a tensor states an impossible size"
        return
    stored = len(tensor.raw_data) or size * (
        len(tensor.float_data) + len(tensor.int64_data) + len(tensor.int32_data)
    )
    if stored != math.prod(tensor.dims) * size:
        yield "a tensor has more or fewer numbers than it states"
        return
    if not np.isfinite(numpy_helper.to_array(tensor)).all():
        yield "it has numbers that are not finite"


def _size_problem(model: onnx.ModelProto, kind: ModelKind, classes: int) -> str | None:
    """What is wrong with the results: ONNX's own checks, and the size of each of them."""
    try:
        onnx.checker.check_model(model)
        inferred = onnx.shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError):
        return "its graph does not hold together"
    graph = inferred.graph
    known = {one.name: _dims(one) for one in (*graph.value_info, *graph.output, *graph.input)}
    known |= {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    for name in (name for node in graph.node for name in node.output if name):
        sizes = known.get(name)
        if sizes is None or any(size is None or size < 0 for size in sizes[1:]):
            return "the size of a result cannot be known before it runs"
        if math.prod(size or 1 for size in sizes) > VALUES:
            return "a result is too large"
    if kind == "classifier" and [_dims(one)[1:] for one in graph.output] != [[classes]]:
        return f"its output is not (n, {classes})"
    return None


def _dims(value: onnx.ValueInfoProto) -> list[int | None]:
    """Sizes of a value's axes; None where one is left open."""
    axes = value.type.tensor_type.shape.dim
    return [axis.dim_value if axis.HasField("dim_value") else None for axis in axes]


def _is_float(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == TensorProto.FLOAT)
