"""A classifier that is written down, as LiteRT (TensorFlow Lite): what phones run.

Written here by hand, as ONNX is: the graph has nine operators, and the schema of the format comes
with the interpreter's package. Images are (n, height, width, channels) here, as LiteRT has them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import packages_for
from understudy.core.operations import PIXELS, Operation
from understudy.core.types import Shape

with packages_for("a model as LiteRT", "litert"):
    import flatbuffers
    from ai_edge_litert import schema_py_generated as schema

METADATA = "understudy"
"""Name of the metadata of the file: a JSON object of texts."""

_VERSION = 3  # of the format
_IDENTIFIER = b"TFL3"
_CHANNELS_LAST, _CHANNELS_FIRST = (0, 2, 3, 1), (0, 3, 1, 2)


def operations_as_litert(
    operations: Sequence[Operation],
    shape: Shape,
    classes: int,
    facts: Mapping[str, str] | None = None,
) -> bytes:
    """The bytes of a model from float32 images in [0, 255] to scores, (n, classes).

    Args:
        operations: From `PIXELS` to scores, the result of the last.
        shape: (height, width, channels) of an image.
        classes: How many scores.
        facts: What the file says of the model besides.
    """
    graph = _Graph(shape)
    for operation in operations:
        getattr(graph, operation.operator.lower())(operation)
    return graph.model(graph.tensors[operations[-1].output], facts or {})


class _Graph:
    """Tensors and operators of a model, of which one is added after the other.

    Results are held as ONNX has them, channels first; a convolution takes them with channels last.
    """

    def __init__(self, shape: Shape) -> None:
        self._model = schema.ModelT()
        self._model.version, self._model.buffers = _VERSION, [schema.BufferT()]
        self._model.operatorCodes = []
        self._codes: dict[str, int] = {}
        self._graph = schema.SubGraphT()
        self._graph.tensors, self._graph.operators = [], []
        self.tensors: dict[str, int] = {}
        self._shapes: list[tuple[int, ...]] = []
        self._last: dict[str, int] = {PIXELS: self._tensor(PIXELS, (1, *shape))}
        self._input = self._last[PIXELS]

    def conv(self, operation: Operation) -> None:
        """A convolution, of all channels or of each by itself."""
        source, weights, *bias = operation.inputs
        group, stride = (operation.attributes.get(name, 1) for name in ("group", "stride"))
        filters = np.asarray(weights)
        at = self._channels_last(str(source))
        _, height, width, _ = self._shapes[at]
        alone = group > 1
        options = schema.DepthwiseConv2DOptionsT() if alone else schema.Conv2DOptionsT()
        options.padding = schema.Padding.VALID
        options.strideH = options.strideW = stride
        if alone:
            options.depthMultiplier = len(filters) // group
        sides = [
            (size - kernel) // stride + 1
            for size, kernel in zip((height, width), filters.shape[2:], strict=True)
        ]
        out = self._tensor(f"{operation.output} last", (1, *sides, len(filters)))
        arrays = [
            filters.transpose(1, 2, 3, 0) if alone else filters.transpose(0, 2, 3, 1),
            *(bias or [np.zeros(len(filters), np.float32)]),
        ]
        name = "DEPTHWISE_CONV_2D" if alone else "CONV_2D"
        self._operator(name, [at, *map(self._constant, arrays)], out, options)
        self._last[operation.output] = out
        shape = (1, len(filters), *sides)
        self._transposed(out, _CHANNELS_FIRST, self._result(operation.output, shape))

    def matmul(self, operation: Operation) -> None:
        """A product of results and a constant, on either side."""
        left, right = operation.inputs
        if isinstance(right, str):
            inputs = [self._constant(left), self.tensors[right]]
        elif len(self._shapes[self.tensors[str(left)]]) == 2:
            weights = self._constant(np.asarray(right).T)
            out = self._result(operation.output, (1, self._shapes[weights][0]))
            inputs = [self.tensors[str(left)], weights, -1]
            self._operator("FULLY_CONNECTED", inputs, out, schema.FullyConnectedOptionsT())
            return
        else:
            inputs = [self.tensors[str(left)], self._constant(right)]
        (*outer, rows, _), (*other, _, columns) = (self._shapes[tensor] for tensor in inputs)
        shape = (*max(outer, other, key=len), rows, columns)
        options = schema.BatchMatMulOptionsT()
        self._operator("BATCH_MATMUL", inputs, self._result(operation.output, shape), options)

    def add(self, operation: Operation) -> None:
        """A sum."""
        self._each("ADD", operation, schema.AddOptionsT())

    def mul(self, operation: Operation) -> None:
        """A product, number by number."""
        self._each("MUL", operation, schema.MulOptionsT())

    def sqrt(self, operation: Operation) -> None:
        """A square root."""
        self._each("SQRT", operation, None)

    def log(self, operation: Operation) -> None:
        """A logarithm."""
        self._each("LOG", operation, None)

    def concat(self, operation: Operation) -> None:
        """Rows beside rows."""
        inputs = [self.tensors[str(name)] for name in operation.inputs]
        options = schema.ConcatenationOptionsT()
        options.axis = 1
        out = self._result(operation.output, (1, sum(self._shapes[one][1] for one in inputs)))
        self._operator("CONCATENATION", inputs, out, options)

    def flatten(self, operation: Operation) -> None:
        """A row an image."""
        source = self.tensors[str(operation.inputs[0])]
        length = math.prod(self._shapes[source])
        options = schema.ReshapeOptionsT()
        options.newShape = [-1, length]
        sides = self._constant(np.array([-1, length], np.int32))
        self._operator(
            "RESHAPE", [source, sides], self._result(operation.output, (1, length)), options
        )

    def model(self, scores: int, facts: Mapping[str, str]) -> bytes:
        """The bytes of the model."""
        model, graph = self._model, self._graph
        graph.inputs, graph.outputs = [self._input], [scores]
        graph.tensors[scores].name = b"scores"
        model.subgraphs = [graph]
        signature = schema.SignatureDefT()
        signature.signatureKey, signature.subgraphIndex = b"serving_default", 0
        signature.inputs = [_named(PIXELS, self._input)]
        signature.outputs = [_named("scores", scores)]
        model.signatureDefs = [signature]
        metadata, buffer = schema.MetadataT(), schema.BufferT()
        buffer.data = np.frombuffer(json.dumps(dict(facts)).encode(), np.uint8)
        metadata.name, metadata.buffer = METADATA.encode(), len(model.buffers)
        model.buffers.append(buffer)
        model.metadata = [metadata]
        builder = flatbuffers.Builder(1 << 20)
        builder.Finish(model.Pack(builder), file_identifier=_IDENTIFIER)
        return bytes(builder.Output())

    def _each(self, name: str, operation: Operation, options: Any) -> None:
        inputs = [
            self.tensors[value] if isinstance(value, str) else self._constant(value)
            for value in operation.inputs
        ]
        shape = max((self._shapes[one] for one in inputs), key=len)
        self._operator(name, inputs, self._result(operation.output, shape), options)

    def _channels_last(self, name: str) -> int:
        """A result with its channels last."""
        if name not in self._last:
            source = self.tensors[name]
            shape = tuple(self._shapes[source][axis] for axis in _CHANNELS_LAST)
            self._last[name] = self._tensor(f"{name} last", shape)
            self._transposed(source, _CHANNELS_LAST, self._last[name])
        return self._last[name]

    def _transposed(self, source: int, axes: Sequence[int], out: int) -> None:
        order = self._constant(np.array(axes, np.int32))
        self._operator("TRANSPOSE", [source, order], out, schema.TransposeOptionsT())

    def _result(self, name: str, shape: tuple[int, ...]) -> int:
        self.tensors[name] = self._tensor(name, shape)
        return self.tensors[name]

    def _tensor(self, name: str, shape: tuple[int, ...], buffer: int = 0) -> int:
        """A tensor; without a buffer a result, of as many rows as there are images."""
        tensor = schema.TensorT()
        tensor.name, tensor.shape, tensor.buffer = name.encode(), list(shape), buffer
        tensor.type = schema.TensorType.FLOAT32
        if not buffer:
            tensor.shapeSignature = [-1, *shape[1:]]
        self._graph.tensors.append(tensor)
        self._shapes.append(shape)
        return len(self._shapes) - 1

    def _constant(self, value: Any) -> int:
        array: NDArray[Any] = np.ascontiguousarray(value)
        buffer = schema.BufferT()
        buffer.data = array.reshape(-1).view(np.uint8)
        self._model.buffers.append(buffer)
        number = len(self._model.buffers) - 1
        tensor = self._tensor(f"constant {number}", array.shape, number)
        if array.dtype == np.int32:
            self._graph.tensors[tensor].type = schema.TensorType.INT32
        return tensor

    def _operator(self, name: str, inputs: Sequence[int], out: int, options: Any) -> None:
        if name not in self._codes:
            code = schema.OperatorCodeT()
            code.builtinCode = getattr(schema.BuiltinOperator, name)
            code.deprecatedBuiltinCode = min(code.builtinCode, 127)
            code.version = 1
            self._codes[name] = len(self._model.operatorCodes)
            self._model.operatorCodes.append(code)
        operator = schema.OperatorT()
        operator.opcodeIndex, operator.inputs, operator.outputs = self._codes[name], inputs, [out]
        if options is not None:
            operator.builtinOptions = options
            kind = type(options).__name__.removesuffix("T")
            operator.builtinOptionsType = getattr(schema.BuiltinOptions, kind)
        self._graph.operators.append(operator)


def _named(name: str, tensor: int) -> Any:
    pair = schema.TensorMapT()
    pair.name, pair.tensorIndex = name.encode(), tensor
    return pair
