"""Models that a server might send to take memory, time or trust from a device, one a row."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from tests.methods.sanitize.painted_world import SIDE

from understudy.methods.sanitize.wire import ModelKind

CLASSES = 2
CELLS = 8
"""Rows and columns of a detector's map."""

Node = onnx.NodeProto
node = helper.make_node


@dataclass(frozen=True)
class Hostile:
    """One model: its name, what it pretends to be, its bytes, and the words of its refusal."""

    name: str
    kind: ModelKind
    data: Callable[[], bytes]
    reason: str
    runs: bool = False
    """It passes the check of the file, and only its trial shows what it does."""


def network(
    nodes: Sequence[Node],
    constants: dict[str, Any] | None = None,
    *,
    kind: ModelKind = "classifier",
    batch: int | str = "n",
    output_batch: int | str = "n",
    side: int = SIDE,
    result: Sequence[int] | None = None,
    opset: int = 17,
) -> onnx.ModelProto:
    """A model from ``images`` to ``result``; constants are float32 unless they are int64."""
    stated = [CLASSES] if kind == "classifier" else [CLASSES + 4, CELLS, CELLS]
    values = {name: np.asarray(value) for name, value in (constants or {}).items()}
    graph = helper.make_graph(
        list(nodes),
        "hostile",
        [helper.make_tensor_value_info("images", TensorProto.FLOAT, [batch, 3, side, side])],
        [
            helper.make_tensor_value_info(
                "result", TensorProto.FLOAT, [output_batch, *(result or stated)]
            )
        ],
        [
            numpy_helper.from_array(
                value if value.dtype == np.int64 else value.astype(np.float32), name
            )
            for name, value in values.items()
        ],
    )
    opsets = [helper.make_opsetid("", opset)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def head(source: str) -> tuple[list[Node], dict[str, Any]]:
    """From maps of 3 channels to the scores of two classes."""
    return [
        node("GlobalAveragePool", [source], ["means"]),
        node("Flatten", ["means"], ["row"], axis=1),
        node("Gemm", ["row", "w"], ["result"]),
    ], {"w": np.eye(3, CLASSES)}


def before(nodes: Sequence[Node], constants: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """Operators from ``images`` to ``x``, and then a head."""
    tail, weights = head("x")
    return bytes(
        network([*nodes, *tail], {**weights, **(constants or {})}, **fields).SerializeToString()
    )


def after(nodes: Sequence[Node], constants: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """A head to ``scores``, and then operators to ``result``."""
    start, weights = head("images")
    start[-1].output[0] = "scores"
    return bytes(
        network([*start, *nodes], {**weights, **(constants or {})}, **fields).SerializeToString()
    )


def maps(nodes: Sequence[Node], constants: dict[str, Any] | None = None, **fields: Any) -> bytes:
    """A detector: a convolution to maps of 8 x 8 cells, ``maps``, and then operators."""
    step = SIDE // CELLS
    weight = {"k": np.full((CLASSES + 4, 3, step, step), 1e-4)}
    start = [node("Conv", ["images", "k"], ["maps"], strides=[step, step])]
    model = network([*start, *nodes], {**weight, **(constants or {})}, kind="detector", **fields)
    return bytes(model.SerializeToString())


def doublings(count: int = 13) -> bytes:
    names = ["images", *(f"d{number}" for number in range(count - 1)), "x"]
    pairs = itertools.pairwise(names)
    return before([node("Concat", [one, one], [two], axis=0) for one, two in pairs])


def wide_convolutions() -> bytes:
    weights = {
        "a": np.zeros((512, 3, 1, 1)),
        "b": np.zeros((512, 512, 3, 3)),
        "z": np.zeros((3, 512, 1, 1)),
    }
    layers = [node("Conv", ["images", "a"], ["v0"])]
    layers += [node("Conv", [f"v{k}", "b"], [f"v{k + 1}"], pads=[1] * 4) for k in range(20)]
    return before([*layers, node("Conv", ["v20", "z"], ["x"])], weights)


def long_chain(count: int = 990) -> bytes:
    """Additions, each of which keeps a result of its own alive until the end."""
    weights = {"a": np.zeros((64, 3, 1, 1)), "z": np.zeros((3, 64, 1, 1))}
    nodes = [node("Conv", ["images", "a"], ["r0"])]
    nodes += [node("Relu", [f"r{k}"], [f"r{k + 1}"]) for k in range(count // 2)]
    nodes += [node("Add", [f"r{count // 2}", f"r{k}"], [f"s{k}"]) for k in range(count // 2)]
    return before([*nodes, node("Conv", ["s0", "z"], ["x"])], weights)


def changed(data: bytes, change: Callable[[onnx.ModelProto], Any]) -> bytes:
    model = onnx.load_model_from_string(data)
    change(model)
    return bytes(model.SerializeToString())


def plain() -> bytes:
    nodes, weights = head("images")
    return bytes(network(nodes, weights).SerializeToString())


def empty_operators() -> bytes:
    """A file of 16 MB that is 8 million objects in memory."""
    graph = b"\x0a\x00" * (8 * 10**6 - 20)
    size, stated = len(graph), b""
    while size:
        stated += bytes([size & 127 | (128 if size > 127 else 0)])
        size >>= 7
    return b"\x08\x08\x3a" + stated + graph


def nested_graphs(depth: int = 60) -> bytes:
    body = helper.make_graph([], "body", [], [])
    for _ in range(depth):
        inner = node("If", ["c"], ["r"], then_branch=body, else_branch=body)
        body = helper.make_graph([inner], "body", [], [])
        if body.ByteSize() > 2**20:
            break
    return before([node("If", ["images"], ["x"], then_branch=body, else_branch=body)])


def with_input(shape: Sequence[Any], kind: int = TensorProto.FLOAT) -> bytes:
    value = helper.make_tensor_value_info("images", kind, shape)
    return changed(plain(), lambda model: model.graph.input[0].CopyFrom(value))


def sequence_input() -> bytes:
    value = helper.make_tensor_sequence_value_info("images", TensorProto.FLOAT, ["n", 3])
    return changed(plain(), lambda model: model.graph.input[0].CopyFrom(value))


def external(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "/dev/zero"


def external_constant(model: onnx.ModelProto) -> None:
    tensor = numpy_helper.from_array(np.zeros(1, np.float32), "t")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    model.graph.node.append(node("Constant", [], ["c"], value=tensor))


def function(model: onnx.ModelProto) -> None:
    opset = [helper.make_opsetid("", 17)]
    body = [helper.make_node("Identity", ["x"], ["y"])]
    model.functions.append(helper.make_function("", "Flatten", ["x"], ["y"], body, opset))


def custom_domain(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    model.graph.node[0].domain = "com.microsoft"


def control(operator: str) -> bytes:
    """A branch, loop or scan whose body is a graph."""
    outer = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    body = helper.make_graph([node("Identity", ["images"], ["y"])], "body", [], [outer])
    fields: dict[str, Any] = {
        "If": {"then_branch": body, "else_branch": body},
        "Loop": {"body": body},
        "Scan": {"body": body, "num_scan_inputs": 1},
    }[operator]
    return before([node(operator, ["images"], ["x"], **fields)])


def sized(name: str, sizes: Sequence[int], operator: str, *others: Any, **fields: Any) -> bytes:
    """An operator that takes the size of its result from a constant."""
    constants = {name: np.array(sizes, np.int64)}
    constants |= {f"o{number}": np.asarray(other) for number, other in enumerate(others)}
    return before([node(operator, ["images", *constants], ["x"], **fields)], constants)


def shifted(by: str, rank: int = 2) -> bytes:
    """Scores by the number of the row: what is added has a row for each of six images."""
    table = np.eye(CLASSES)[np.arange(6) % CLASSES] * 1000
    table = table.reshape((1,) * (rank - 2) + table.shape)
    return after([node(by, ["scores", "t"], ["result"])], {"t": table})


def matrix(values: Any, *, left: bool) -> bytes:
    pair = ["m", "scores"] if left else ["scores", "m"]
    return after([node("MatMul", pair, ["result"])], {"m": values})


_EXTREME = 3e38
_LARGEST_PADS = [2000, 2000, 2000, 2000]
ALL_BATCH = "mixes the images"
UNLISTED = "not on the list"

# fmt: off
MEMORY = [
    Hostile("13 batch doublings", "classifier", doublings, ALL_BATCH),
    Hostile("a batch doubled by a negative axis", "classifier",
            lambda: after([node("Concat", ["scores", "scores"], ["result"], axis=-2)]), ALL_BATCH),
    Hostile("a padding of 2000 pixels", "classifier",
            lambda: before([node("Conv", ["images", "k"], ["x"], pads=_LARGEST_PADS)],
                           {"k": np.zeros((3, 3, 1, 1))}), "padding"),
    Hostile("a padding in a pool", "classifier",
            lambda: before([node("MaxPool", ["images"], ["x"], kernel_shape=[1, 1],
                                 pads=_LARGEST_PADS)]), "padding"),
    Hostile("pixels into the batch", "classifier",
            lambda: before([node("Reshape", ["images", "s"], ["b"]),
                            node("Conv", ["b", "k"], ["x"])],
                           {"s": np.array([-1, 1, 1, 1]), "k": np.zeros((4096, 1, 1, 1))}),
            ALL_BATCH),
    Hostile("a fixed batch of one", "classifier",
            lambda: before([node("Relu", ["images"], ["x"])], batch=1, output_batch=1),
            "fixed number"),
    Hostile("a fixed batch behind", "classifier",
            lambda: before([node("Relu", ["images"], ["x"])], output_batch=64), "another batch"),
    Hostile("wide convolutions", "classifier", wide_convolutions, "too many multiplications"),
    Hostile("a thousand results at once", "classifier", long_chain, "too large"),
    Hostile("a pool of very many windows", "classifier",
            lambda: before([node("AveragePool", [f"p{k}" if k else "images"],
                                 ["x" if k == 99 else f"p{k + 1}"], kernel_shape=[101, 101],
                                 pads=[50] * 4) for k in range(100)]), "too many multiplications"),
    Hostile("1001 operators", "classifier",
            lambda: before([node("Relu", [f"r{k}" if k else "images"],
                                 ["x" if k == 1000 else f"r{k + 1}"]) for k in range(1001)]),
            "1 to 1000"),
    Hostile("an outer product of pixels", "classifier",
            lambda: before([node("Reshape", ["images", "c"], ["u"]),
                            node("Reshape", ["images", "r"], ["v"]),
                            node("MatMul", ["u", "v"], ["x"])],
                           {"c": np.array([0, 1, -1, 1]), "r": np.array([0, 1, 1, -1])}),
            "too large|hold together"),
    Hostile("8 million objects", "classifier", empty_operators, "trial|operators|ONNX file", True),
    Hostile("a tensor that states 2^40 numbers", "classifier",
            lambda: changed(plain(), lambda m: m.graph.initializer[0].dims.__setitem__(0, 2**40)),
            "impossible size"),
]

SIZES_FROM_VALUES = [
    Hostile("Range", "classifier",
            lambda: before([node("Range", ["a", "b", "c"], ["x"])],
                           {"a": 0.0, "b": 1e12, "c": 1.0}), UNLISTED),
    Hostile("ConstantOfShape", "classifier",
            lambda: before([node("ConstantOfShape", ["s"], ["x"])],
                           {"s": np.array([10**5, 10**5])}), UNLISTED),
    Hostile("Expand", "classifier",
            lambda: sized("s", [10**4, 3, SIDE, SIDE], "Expand"), UNLISTED),
    Hostile("a reshape by pixels", "classifier",
            lambda: before([node("Reshape", ["images", "images"], ["x"])]), ALL_BATCH),
    Hostile("a reshape with two free axes", "classifier",
            lambda: sized("s", [-1, 3, -1, SIDE], "Reshape"), "hold together"),
]

ROW_NUMBERS = [
    Hostile("a table of rows, added", "classifier", lambda: shifted("Add"), ALL_BATCH),
    Hostile("a table of rows in a Gemm", "classifier",
            lambda: after([node("Gemm", ["scores", "i", "t"], ["result"])],
                          {"i": np.zeros((2, 2)), "t": np.eye(6, 2) * 1000}), ALL_BATCH),
    Hostile("a product from the left", "classifier",
            lambda: matrix(np.ones((6, 6)), left=True), ALL_BATCH),
    Hostile("images times images", "classifier",
            lambda: after([node("Transpose", ["scores"], ["t"], perm=[1, 0]),
                           node("MatMul", ["scores", "t"], ["s"]),
                           node("MatMul", ["s", "scores"], ["result"])]), ALL_BATCH),
    Hostile("a transposed Gemm", "classifier",
            lambda: after([node("Gemm", ["scores", "i"], ["result"], transA=1)],
                          {"i": np.ones((6, 2))}), ALL_BATCH),
    Hostile("places of a maximum, which count the batch", "classifier",
            lambda: before([node("MaxPool", ["images"], ["x", "places"], kernel_shape=[2, 2])]),
            "more results"),
    Hostile("the batch as channels", "classifier",
            lambda: before([node("Transpose", ["images"], ["t"], perm=[1, 0, 2, 3]),
                            node("GlobalAveragePool", ["t"], ["g"]),
                            node("Transpose", ["g"], ["x"], perm=[1, 0, 2, 3])]), ALL_BATCH),
    Hostile("the batch flattened", "classifier",
            lambda: before([node("Flatten", ["images"], ["x"], axis=0)]), ALL_BATCH),
    Hostile("the batch in one row", "classifier",
            lambda: after([node("Reshape", ["scores", "s"], ["r"]),
                           node("Softmax", ["r"], ["q"]), node("Reshape", ["q", "t"], ["result"])],
                          {"s": np.array([1, -1]), "t": np.array([-1, 2])}), ALL_BATCH),
    Hostile("a softmax over the batch from behind", "classifier",
            lambda: after([node("Softmax", ["scores"], ["result"], axis=-2)]), ALL_BATCH),
    Hostile("statistics of the batch", "classifier",
            lambda: before([node("BatchNormalization", ["images", *"gbmv"], ["x"],
                                 training_mode=1)],
                           {"g": [1] * 3, "b": [0] * 3, "m": [0] * 3, "v": [1] * 3}), ALL_BATCH),
    *(
        Hostile(operator, "classifier",
                lambda operator=operator, inputs=inputs, fields=fields: after(
                    [node(operator, inputs, ["result"], **fields)],
                    {"k": np.array([0])}), UNLISTED)
        for operator, inputs, fields in (
            ("CumSum", ["scores", "k"], {}),
            ("Unique", ["scores"], {"axis": 0}),
            ("Shape", ["scores"], {}),
            ("LSTM", ["scores", "k", "k"], {}),
            ("RandomNormalLike", ["scores"], {}),
            ("NoSuchOperator", ["scores"], {}),
        )
    ),
]

FILES = [
    Hostile("numbers in another file", "classifier",
            lambda: changed(plain(), external), "another file"),
    Hostile("a function in place of an operator", "classifier",
            lambda: changed(plain(), function), "functions"),
    Hostile("an operator of another domain", "classifier",
            lambda: changed(plain(), custom_domain), "another domain"),
    *(Hostile(operator, "classifier", lambda operator=operator: control(operator), UNLISTED)
      for operator in ("If", "Loop", "Scan")),
    Hostile("graphs in graphs", "classifier", nested_graphs, f"{UNLISTED}|inside|ONNX file"),
    Hostile("a constant in another file", "classifier",
            lambda: changed(plain(), external_constant), "another file"),
    Hostile("a part that trains", "classifier",
            lambda: changed(plain(), lambda m: m.training_info.add()), "training part"),
    Hostile("sparse numbers", "classifier",
            lambda: changed(plain(), lambda m: m.graph.sparse_initializer.add()), "sparse"),
    Hostile("fewer numbers than stated", "classifier",
            lambda: changed(plain(), lambda m: m.graph.initializer[0].dims.__setitem__(0, 4)),
            "more or fewer numbers"),
    Hostile("a second input", "classifier",
            lambda: changed(plain(), lambda m: m.graph.input.append(
                helper.make_tensor_value_info("more", TensorProto.FLOAT, ["n", 3]))),
            "number of inputs"),
    Hostile("strings", "classifier",
            lambda: changed(plain(), lambda m: m.graph.initializer.append(
                numpy_helper.from_array(np.array(["a"], object), "s"))), "another type"),
    Hostile("a sequence as input", "classifier", sequence_input, "its input is not"),
    Hostile("whole numbers as input", "classifier",
            lambda: with_input(["n", 3, SIDE, SIDE], TensorProto.INT64), "its input is not"),
    Hostile("numbers that are none", "classifier",
            lambda: before([node("Mul", ["images", "k"], ["x"])], {"k": [np.nan]}), "not finite"),
    Hostile("a cycle", "classifier",
            lambda: before([node("Add", ["images", "y"], ["x"]),
                            node("Relu", ["x"], ["y"])]), "hold together"),
    Hostile("a group of no channels", "classifier",
            lambda: before([node("Conv", ["images", "k"], ["x"], group=0)],
                           {"k": np.zeros((3, 3, 1, 1))}), "hold together"),
    Hostile("an answer that is a constant", "classifier",
            lambda: bytes(network([node("Relu", ["images"], ["y"]), node("Identity", ["c"],
                                  ["result"])], {"c": np.zeros((1, 2))}).SerializeToString()),
            "hold together"),
    Hostile("another number of classes", "classifier",
            lambda: changed(plain(), lambda m: m.graph.initializer[0].CopyFrom(
                numpy_helper.from_array(np.zeros((3, 5), np.float32), "w"))), "its output is not"),
    Hostile("infinite by its weights", "classifier",
            lambda: before([node("Mul", ["images", "k"], ["y"]), node("Mul", ["y", "k"], ["x"])],
                           {"k": [_EXTREME]}), "not finite", True),
    Hostile("the root of a negative number", "classifier",
            lambda: before([node("BatchNormalization", ["images", *"gbmv"], ["x"])],
                           {"g": [1] * 3, "b": [0] * 3, "m": [0] * 3, "v": [-9] * 3}),
            "not finite", True),
]

DETECTORS = [
    Hostile("10 million boxes", "detector",
            lambda: maps([node("Conv", ["maps", "i"], ["result"], pads=[1600] * 4)],
                         {"i": np.zeros((6, 6, 1, 1))}, result=[6, 3208, 3208]), "padding"),
    Hostile("more cells than pixels", "detector",
            lambda: bytes(network([node("Reshape", ["images", "s"], ["y"]),
                                   node("Conv", ["y", "k"], ["result"])],
                                  {"s": np.array([0, 1, 1, -1]), "k": np.zeros((6, 1, 1, 1))},
                                  kind="detector", result=[6, 1, 3 * SIDE**2]).SerializeToString()),
            "its output is not"),
    Hostile("two outputs", "detector",
            lambda: changed(maps([node("Relu", ["maps"], ["result"])]),
                            lambda m: m.graph.output.append(helper.make_tensor_value_info(
                                "maps", TensorProto.FLOAT, ["n", 6, CELLS, CELLS]))),
            "number of outputs"),
    Hostile("maps by the number of the row", "detector",
            lambda: maps([node("Add", ["maps", "t"], ["result"])],
                         {"t": np.zeros((4, 6, 1, 1))}), ALL_BATCH),
    Hostile("maps that are not finite", "detector",
            lambda: maps([node("Mul", ["maps", "f"], ["y"]), node("Mul", ["y", "f"], ["result"])],
                         {"f": [_EXTREME]}), "not finite", True),
    Hostile("boxes wider than any image", "detector",
            lambda: maps([node("Mul", ["maps", "f"], ["result"])], {"f": [1e20]}),
            "boxes that are none", True),
]

# fmt: on
HOSTILE = [*MEMORY, *SIZES_FROM_VALUES, *ROW_NUMBERS, *FILES, *DETECTORS]
