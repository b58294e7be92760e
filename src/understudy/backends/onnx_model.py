"""An ONNX file loaded by ONNX Runtime, with one chosen input and output."""

from __future__ import annotations

import math
import signal
import subprocess
import sys
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from understudy.backends.arrays import FloatArray
from understudy.backends.plugin import PositiveCount
from understudy.core.errors import BackendError, packages_for
from understudy.core.files import home_path

_PROBE = """
import sys, numpy, onnxruntime
options = onnxruntime.SessionOptions()
options.log_severity_level = 4
session = onnxruntime.InferenceSession(sys.argv[1], options, providers=["CPUExecutionProvider"])
shape = [int(size) for size in sys.argv[4:]]
session.run([sys.argv[3]], {sys.argv[2]: numpy.zeros(shape, numpy.float32)})
"""


@dataclass(frozen=True, slots=True)
class OnnxOptions:
    """Options of any file.

    Attributes:
        output: Which output is taken, where there are several.
        scale: What black and white are in images: ``"0..1"``, ``"-1..1"``, ``"0..255"``.
    """

    batch: PositiveCount = 64
    threads: PositiveCount = 2
    output: str | None = None
    scale: str = "0..1"

    def __post_init__(self) -> None:
        scale_ends(self.scale)


class OnnxModel:
    """A loaded file with one chosen input and output."""

    def __init__(self, file: str, options: OnnxOptions) -> None:
        self.path = home_path(file)
        if not self.path.is_file():
            raise BackendError(f"{self.path}: there is no such file; write onnx:FILE")
        onnxruntime = require_onnx_runtime(f"onnx:{file}")
        settings = onnxruntime.SessionOptions()
        settings.intra_op_num_threads = options.threads
        settings.inter_op_num_threads = 1
        settings.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        settings.use_deterministic_compute = True
        # A thread that waits for work sleeps: on a busy machine spinning costs more than waking.
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
        settings.log_severity_level = 4  # what goes wrong is raised
        try:
            self._session = onnxruntime.InferenceSession(
                str(self.path), settings, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # ONNX Runtime's errors share no base class of their own
            raise BackendError(f"{self.path}: not a readable ONNX model ({error})") from error
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            names = ", ".join(one.name for one in inputs)
            raise BackendError(f"{self.path}: its inputs are {names}; it must have one only")
        node = inputs[0]
        if node.type != "tensor(float)":
            raise BackendError(
                f"{self.path}: its input {node.name} is {node.type}; only float32 is supported"
            )
        self.input, self.output = node.name, self._output_name(options.output)
        # A dimension that the model leaves open is None here; the first is the batch.
        sizes = [size if isinstance(size, int) else None for size in node.shape]
        self.sizes: tuple[int | None, ...] = tuple(sizes[1:])
        self.batch = sizes[0] if sizes and sizes[0] else options.batch
        self._fixed = bool(sizes) and sizes[0] is not None

    def _output_name(self, name: str | None) -> str:
        names: list[str] = [item.name for item in self._session.get_outputs()]
        if name is None and len(names) == 1:
            return names[0]
        if name is not None and name in names:
            return name
        advice = "choose one with ?output=NAME" if name is None else f"there is no {name!r}"
        raise BackendError(f"{self.path}: its outputs are {', '.join(names)}; {advice}")

    @property
    def metadata(self) -> dict[str, str]:
        """What the file says of itself."""
        return dict(self._session.get_modelmeta().custom_metadata_map)

    @property
    def licence(self) -> str:
        """What the file says of its licence, else where to look."""
        for key, value in self.metadata.items():
            if key.lower() in ("license", "licence") and value:
                return value
        return f"see {self.path.name}"

    def run(self, values: FloatArray) -> FloatArray:
        """Run at most ``batch`` rows."""
        rows = len(values)
        if self._fixed and rows < self.batch:
            filler = np.zeros((self.batch - rows, *values.shape[1:]), dtype=np.float32)
            values = np.concatenate([values, filler])
        try:
            (out,) = self._session.run([self.output], {self.input: values})
            with np.errstate(over="ignore"):  # refused below
                out = np.asarray(out, dtype=np.float32)  # also of texts, and of lists
        except Exception as error:  # as above
            raise BackendError(
                f"{self.path}: cannot run on {'x'.join(map(str, values.shape[1:]))} ({error})"
            ) from error
        if out.ndim < 2 or len(out) != len(values) or out.size == 0:
            raise BackendError(
                f"{self.path}: {len(values)} rows gave an output {self.output} of shape "
                f"{out.shape}; it must hold one row for each"
            )
        if not np.isfinite(out[:rows]).all():
            raise BackendError(f"{self.path}: its output {self.output} is not finite (NaN or inf)")
        return out[:rows]

    def survives(self, shape: tuple[int, ...]) -> None:
        """Try a blank input in a process of its own: ONNX Runtime dies of some small ones."""
        arguments = [str(self.path), self.input, self.output, str(self.batch), *map(str, shape)]
        done = subprocess.run(
            # -P: no file of the folder that the owner is in takes the place of a library
            [sys.executable, "-P", "-c", _PROBE, *arguments],
            capture_output=True,
            check=False,
        )
        if done.returncode < 0:
            raise BackendError(
                f"{self.path}: ONNX Runtime crashes ({signal.Signals(-done.returncode).name}) on "
                f"images of {shape[1]} x {shape[2]} pixels, which is too small for this model. "
                "Resize them, for example with ?size=128"
            )


def require_onnx_runtime(name: str = "an ONNX file") -> ModuleType:
    """The package ONNX Runtime."""
    with packages_for(name, "onnx"):
        import onnxruntime
    module: ModuleType = onnxruntime
    return module


def scale_ends(scale: str) -> tuple[float, float]:
    """``"-1..1"`` as (-1.0, 1.0)."""
    low, dots, high = scale.partition("..")
    try:
        ends = float(low), float(high)
    except ValueError:
        dots = ""
    if not dots or not all(map(math.isfinite, ends)) or ends[0] == ends[1]:
        raise ValueError(f"scale must be like 0..1 or -1..1, found {scale!r}")
    return ends
