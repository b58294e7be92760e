"""LPIPS and its like from a TorchScript file.

The file is made once by who has the weights (``torch.jit.trace(metric, (a, b)).save(file)``). It
takes (n, 3, height, width) float32 from -1, black, to 1, white, as the LPIPS package does. A
TorchScript file is a program: take it from people you trust.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np

from understudy.backends.arrays import index_slices, with_channels
from understudy.core.errors import BackendError, packages_for
from understudy.core.files import home_path
from understudy.core.types import Images, Vector

_BATCH = 32


def load_torchscript(path: Path, name: str) -> Any:
    """The module in a TorchScript file, on the processor and in evaluation mode."""
    with packages_for(name, "torch"):
        import torch
    load: Any = torch.jit.load
    try:
        with warnings.catch_warnings():
            # Torch would rather have everybody use its exporter; files that all have are of these.
            warnings.simplefilter("ignore", DeprecationWarning)
            return load(str(path), map_location="cpu").eval()
    except (RuntimeError, ValueError) as error:
        raise BackendError(
            f"{path}: not a readable TorchScript file ({str(error).splitlines()[0]}); a .pth file "
            "of weights alone is not one: save the module by torch.jit.trace(...).save(...)"
        ) from error


class ScriptedDistance:
    """A whole metric: two batches of images to one number a pair. A `PerceptualDistance`."""

    def __init__(self, path: str | Path) -> None:
        self.path = home_path(path)
        self.name = f"torchscript:{self.path.name}"
        self.licence = f"see {self.path.name}"
        if not self.path.is_file():
            raise BackendError(f"{self.path}: there is no such file; give a TorchScript file")
        self._module = load_torchscript(self.path, self.name)

    def distance(self, a: Images, b: Images) -> Vector:
        """How different each pair looks: (n,), 0 for the same picture."""
        if a.shape != b.shape:
            raise BackendError(f"pairs of images have one shape, found {a.shape} and {b.shape}")
        distances = np.empty(len(a))
        for rows in index_slices(len(a), _BATCH):
            out = self._run(a[rows], b[rows])
            values = None if not hasattr(out, "numpy") else out.double().numpy()
            if values is None or values.size != len(a[rows]) or not np.isfinite(values).all():
                raise BackendError(
                    f"{self.path}: a metric gives one finite number a pair; for "
                    f"{len(a[rows])} pairs it gave {getattr(values, 'shape', type(out).__name__)}"
                )
            distances[rows] = values.ravel()
        return distances

    def _run(self, *images: Images) -> Any:
        import torch

        inputs = [
            torch.from_numpy(with_channels(each, 3)).permute(0, 3, 1, 2).float() / 127.5 - 1
            for each in images
        ]
        try:
            with torch.inference_mode():
                return self._module(*inputs)
        except (RuntimeError, TypeError) as error:
            raise BackendError(
                f"{self.path}: cannot run on {len(images)} x {tuple(inputs[0].shape)} "
                f"({str(error).strip().splitlines()[-1]})"
            ) from error
