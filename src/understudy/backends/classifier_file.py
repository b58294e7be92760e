"""A classifier in a file, ONNX or LiteRT: what ``understudy train --export`` writes, and others.

It takes ``images``, (n, channels, height, width) float32 in [0, 255] (LiteRT: channels last), or
embeddings, (n, d) float32, and gives a score for each class.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.backends.litert import LiteRtModel, LiteRtOptions
from understudy.backends.onnx_model import OnnxModel, OnnxOptions
from understudy.core.damaged_files import from_json
from understudy.core.errors import BackendError
from understudy.core.types import Shape

_LITERT_SUFFIX = ".tflite"
_METADATA = "understudy"  # of a LiteRT file: a JSON object of texts
_PIXELS = "0..255"
_BATCH = 64
_ROUNDING = 0.1  # what a row of probabilities of 8 bits each may be off 1


class ClassifierFile:
    """A classifier that was written to a file.

    Attributes:
        classes: The class names that it gives; empty where it says none.
        encoder: The name of the encoder of the embeddings that it takes; None where it says none.
        shape: (height, width, channels), or (d,); None of a size that is left open.
    """

    def __init__(self, file: str | Path) -> None:
        self.path = Path(file)
        self._model: LiteRtModel | OnnxModel
        self.kind: Literal["images", "embeddings"] = "images"
        self.shape: Shape | None
        if self.path.suffix == _LITERT_SUFFIX:
            self._model = model = LiteRtModel(str(self.path), LiteRtOptions(scale=_PIXELS))
            self.shape = (*model.size, model.channels)
            facts = _litert_facts(self.path)
        else:
            self._model = onnx = OnnxModel(str(self.path), OnnxOptions(batch=_BATCH, scale=_PIXELS))
            if len(onnx.sizes) not in (1, 3):
                raise BackendError(
                    f"{self.path}: a classifier takes images (n, channels, height, width) or "
                    f"embeddings (n, d), found {len(onnx.sizes) + 1} axes"
                )
            if len(onnx.sizes) == 1:
                self.kind = "embeddings"
            sizes = onnx.sizes if self.kind == "embeddings" else (*onnx.sizes[1:], onnx.sizes[0])
            shape = tuple(size for size in sizes if size is not None)
            self.shape = shape if len(shape) == len(sizes) else None
            facts = onnx.metadata
        self.encoder = facts.get("encoder")
        self.classes = _names(self.path, facts.get("classes", "[]"))

    @property
    def network(self) -> str:
        """What it is, in words."""
        return f"classifier {self.path.name}"

    def probabilities(self, values: NDArray[Any]) -> NDArray[np.float64]:
        """Class probabilities, (n, classes), of uint8 images or of float32 embeddings."""
        scores = np.asarray(self._scores(values), dtype=np.float64)
        if scores.ndim != 2 or len(scores) != len(values):
            raise BackendError(
                f"{self.path}: {len(values)} rows gave scores of shape {scores.shape}; a "
                "classifier gives one score a class for each row"
            )
        sums = scores.sum(axis=1, keepdims=True)
        if (scores >= 0).all() and np.allclose(sums, 1, atol=_ROUNDING):
            return np.asarray(scores / sums)  # probabilities already
        return np.asarray(scipy.special.softmax(scores, axis=1), dtype=np.float64)

    def _scores(self, values: NDArray[Any]) -> NDArray[Any]:
        model = self._model
        if isinstance(model, LiteRtModel):
            return np.stack([output for output, _ in model.run(values)])
        rows = values.transpose(0, 3, 1, 2) if values.ndim == 4 else values
        rows = np.ascontiguousarray(rows, dtype=np.float32)
        parts = (rows[at : at + model.batch] for at in range(0, len(rows), model.batch))
        return np.concatenate([model.run(part) for part in parts])


def _names(path: Path, text: str) -> tuple[str, ...]:
    """The class names that a file states."""
    try:
        names = from_json(text)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise BackendError(f"{path}: its class names cannot be read, found {text[:80]!r}")
    return tuple(names)


def _litert_facts(path: Path) -> dict[str, str]:
    """What a LiteRT file says of itself; empty where it does not."""
    from ai_edge_litert import schema_py_generated as schema

    model = schema.ModelT.InitFromObj(schema.Model.GetRootAs(path.read_bytes(), 0))
    for one in model.metadata or ():
        if one.name == _METADATA.encode():
            facts = json.loads(bytes(model.buffers[one.buffer].data))
            return {str(name): str(value) for name, value in facts.items()}
    return {}
