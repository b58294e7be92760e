"""A model from a server is checked before any runtime loads it: it may be anything.

What passes is one plain graph of common operators on float32, with all of its numbers inside, whose
results have a known size and treat each image by itself (`model_sizes`). No file is named, no
function, loop or branch is in it, and none of its operators comes from elsewhere. Even so it is
only read and run in the process of a trial (`model_trial`), which has little memory and time.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from understudy.core.errors import WireError, packages_for
from understudy.device.model_sizes import SIZE_RULES, Cost, GraphRefusedError, graph_cost
from understudy.methods.sanitize.wire import MODEL_BYTES, ModelKind
from understudy.metrics.box_maps import BOX_SIDES

with packages_for("a model as ONNX", "server"):
    import onnx
    from google.protobuf.message import DecodeError
    from onnx import AttributeProto, TensorProto, numpy_helper

OPERATORS = frozenset({*SIZE_RULES, "Constant"})
"""What a small classifier or detector is made of. Not one makes its result's size from values."""

NODES = 1000
"""Operators of a model at most."""
VALUES = 2**25
"""Numbers of all intermediate results at most, for one image: 128 MiB. The largest network that
`serve` trains has half of it, at 256 pixels a side."""
MULTIPLICATIONS = 2**31
"""Multiplications of an image at most; that network has half of it."""
OPSETS = range(11, 23)
_TYPES: dict[int, int] = {TensorProto.FLOAT: 4, TensorProto.INT64: 8, TensorProto.INT32: 4}


def check_model(data: bytes, kind: ModelKind, side: int, classes: int) -> Cost:
    """What a model takes for one image; refuse it where it is no small network for such images.

    Args:
        data: The bytes, which a signature already vouches for.
        kind: What it should be.
        side: Pixels a side of its input, (n, 3, side, side) float32.
        classes: Of a classifier: its output is (n, classes). Of a detector: its output is
            (n, classes + 4, rows, columns), of no more cells than the image has pixels.

    Raises:
        WireError: It is not; the message says what is wrong and quotes nothing of the model.
    """
    if not 0 < len(data) <= MODEL_BYTES:
        raise WireError(f"the model has {len(data)} bytes; 1 to {MODEL_BYTES} are allowed")
    try:
        model = onnx.load_model_from_string(data)
    except DecodeError:
        raise WireError("the model is not an ONNX file, or was cut off") from None
    problem = next(_problems(model, side), None)
    if problem is not None:
        raise WireError(f"the model is refused: {problem}")
    try:
        onnx.checker.check_model(model)
        opset = model.opset_import[0].version
        cost = graph_cost(model.graph, opset, values=VALUES, work=MULTIPLICATIONS)
    except GraphRefusedError as error:
        raise WireError(f"the model is refused: {error}") from None
    except (onnx.checker.ValidationError, ValueError, TypeError, IndexError):
        raise WireError("the model is refused: its graph does not hold together") from None
    problem = _output_problem(model.graph, cost, kind, side, classes)
    if problem is not None:
        raise WireError(f"the model is refused: {problem}")
    return cost


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
    inputs = graph.input
    if len(inputs) != 1:
        yield "it has another number of inputs than one"
    elif _dims(inputs[0])[1:] != [3, side, side] or not _is_float(inputs[0]):
        yield f"its input is not (n, 3, {side}, {side}) float32"
    elif not _batch(inputs[0]):
        yield "its input takes a fixed number of images, not any number"
    if len(graph.output) != 1:
        yield "it has another number of outputs than one"
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


def _output_problem(
    graph: onnx.GraphProto, cost: Cost, kind: ModelKind, side: int, classes: int
) -> str | None:
    """What is wrong with the result: its size, its batch, or what the file states of it."""
    output, shape = graph.output[0], cost.output
    if kind == "classifier" and shape != (classes,):
        return f"its output is not (n, {classes})"
    if kind == "detector":
        channels = classes + BOX_SIDES
        if len(shape) != 3 or shape[0] != channels or max(shape[1:]) > side:
            return f"its output is not (n, {channels}, rows, columns) of at most {side} cells"
    if _dims(output)[1:] != list(shape) or not _is_float(output):
        return "it states another output than it has"
    if _batch(output) != _batch(graph.input[0]):
        return "its output has another batch than its input"
    return None


def _batch(value: onnx.ValueInfoProto) -> str:
    """Name of the axis in front, which has no size; "" where it has one."""
    axes = value.type.tensor_type.shape.dim
    return axes[0].dim_param if axes and not axes[0].HasField("dim_value") else ""


def _dims(value: onnx.ValueInfoProto) -> list[int | None]:
    """Sizes of a value's axes; None where one is left open."""
    axes = value.type.tensor_type.shape.dim
    return [axis.dim_value if axis.HasField("dim_value") else None for axis in axes]


def _is_float(value: onnx.ValueInfoProto) -> bool:
    return bool(value.type.tensor_type.elem_type == TensorProto.FLOAT)
