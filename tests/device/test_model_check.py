"""Hostile model files are refused before any runtime sees them; what we export passes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.device.device_site import colour_model
from tests.methods.sanitize.painted_world import SIDE

from understudy.core.errors import WireError
from understudy.device.model_check import check_model
from understudy.methods.sanitize.wire import MODEL_BYTES
from understudy.metrics.networks import small_cnn
from understudy.metrics.networks.onnx_export import onnx_bytes

Change = Callable[[onnx.ModelProto], None]


def another_file(model: onnx.ModelProto) -> None:
    tensor = model.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "../../../etc/passwd"


def another_file_of_a_constant(model: onnx.ModelProto) -> None:
    tensor = numpy_helper.from_array(np.zeros(1, np.float32), "t")
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    model.graph.node.append(helper.make_node("Constant", [], ["c"], value=tensor))


def another_domain(model: onnx.ModelProto) -> None:
    model.opset_import.append(helper.make_opsetid("com.evil", 1))
    model.graph.node[0].domain = "com.evil"


def unlisted_operator(model: onnx.ModelProto) -> None:
    model.graph.node[0].op_type = "NonMaxSuppression"


def endless_loop(model: onnx.ModelProto) -> None:
    body = helper.make_graph([], "body", [], [])
    model.graph.node.append(helper.make_node("Loop", ["", ""], ["x"], body=body))


def graph_in_a_listed_operator(model: onnx.ModelProto) -> None:
    model.graph.node[0].attribute.append(
        helper.make_attribute("then_branch", helper.make_graph([], "g", [], []))
    )


def function(model: onnx.ModelProto) -> None:
    opset = [helper.make_opsetid("", 17)]
    model.functions.append(helper.make_function("", "Flatten", [], [], [], opset))


def training_part(model: onnx.ModelProto) -> None:
    model.training_info.add()


def impossible_tensor(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = 2**40


def short_tensor(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].dims[0] = 4


def not_a_number(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].raw_data = np.full((3, 2), np.nan, np.float32).tobytes()


def sparse_numbers(model: onnx.ModelProto) -> None:
    model.graph.sparse_initializer.add()


def second_input(model: onnx.ModelProto) -> None:
    model.graph.input.append(helper.make_tensor_value_info("more", TensorProto.FLOAT, ["n", 3]))


def other_input(model: onnx.ModelProto) -> None:
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 4096


def strings(model: onnx.ModelProto) -> None:
    model.graph.initializer.append(numpy_helper.from_array(np.array(["a"], object), "s"))


def memory_bomb(model: onnx.ModelProto) -> None:
    """A convolution whose padding makes its result 100,000 pixels a side."""
    weight = np.zeros((1, 3, 1, 1), np.float32)
    model.graph.initializer.append(numpy_helper.from_array(weight, "w"))
    node = helper.make_node("Conv", ["images", "w"], ["huge"], pads=[50_000] * 4)
    model.graph.node.insert(0, node)


def size_from_values(model: onnx.ModelProto) -> None:
    """A reshape by numbers that are only known when it runs."""
    model.graph.node.append(helper.make_node("Reshape", ["images", "shape"], ["unknown"]))
    model.graph.node.append(helper.make_node("Identity", ["images"], ["shape"]))


def cycle(model: onnx.ModelProto) -> None:
    model.graph.node[0].input[0] = "scores"


def many_operators(model: onnx.ModelProto) -> None:
    for number in range(1001):
        model.graph.node.append(helper.make_node("Relu", ["images"], [f"r{number}"]))


def other_output(model: onnx.ModelProto) -> None:
    model.graph.initializer[0].CopyFrom(
        numpy_helper.from_array(np.zeros((3, 5), np.float32), "weights")
    )
    model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.zeros(5, np.float32), "bias"))
    model.graph.output[0].type.tensor_type.shape.dim[1].dim_value = 5


HOSTILE: list[tuple[Change, str]] = [
    (another_file, "another file"),
    (another_file_of_a_constant, "another file"),
    (another_domain, "another domain"),
    (unlisted_operator, "not on the list"),
    (endless_loop, "not on the list"),
    (graph_in_a_listed_operator, "inside of an operator"),
    (function, "functions"),
    (training_part, "training part"),
    (impossible_tensor, "impossible size"),
    (short_tensor, "more or fewer numbers"),
    (not_a_number, "not finite"),
    (sparse_numbers, "sparse"),
    (second_input, "number of inputs"),
    (other_input, "its input is not"),
    (strings, "another type"),
    (memory_bomb, "too large"),
    (size_from_values, "hold together|cannot be known"),
    (cycle, "hold together"),
    (many_operators, "1 to 1000"),
    (other_output, "its output is not"),
]


@pytest.mark.parametrize(
    ("change", "reason"), HOSTILE, ids=lambda one: getattr(one, "__name__", "")
)
def test_a_hostile_model_is_refused(change: Change, reason: str) -> None:
    model = onnx.load_model_from_string(colour_model())
    change(model)
    with pytest.raises(WireError, match=reason):
        check_model(model.SerializeToString(), "classifier", SIDE, 2)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "0 bytes"),
        (b"\0" * (MODEL_BYTES + 1), "are allowed"),
        (b"not a model at all", "not an ONNX file"),
        (colour_model()[:-40], "not an ONNX file|is refused"),
    ],
    ids=["empty", "too large", "text", "cut off"],
)
def test_other_bytes_are_refused(data: bytes, reason: str) -> None:
    with pytest.raises(WireError, match=reason):
        check_model(data, "classifier", SIDE, 2)


def test_what_a_server_exports_passes() -> None:
    check_model(colour_model(), "classifier", SIDE, 2)
    shape = (SIDE, SIDE, 3)
    network = small_cnn(shape, 4).eval()
    ones = np.ones(3, np.float32)
    check_model(onnx_bytes(network, shape, ones, ones), "classifier", SIDE, 4)
