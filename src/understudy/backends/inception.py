"""``inception:FILE``: the standard Inception network, from a TorchScript or ONNX file.

    inception:inception-2015-12-05.pt
    inception:hf:OWNER/NAME/net.onnx
    inception:hf:OWNER/NAME/net.pt?revision=0123456789abcdef0123456789abcdef01234567

FID, KID and the Inception score of different people compare only where network and resizing are
the same. The network is the one of Szegedy et al. (2016) with the weights of 2015-12-05 that Heusel
et al. (2017) used, which others have as ``inception-2015-12-05.pt``. The resizing is that of
clean-fid (Parmar, Zhang, Zhu 2022): Pillow's antialiased bicubic filter, channel by channel in
float, to 299 x 299. The file is not part of this package.

A TorchScript file is a program: take it from people you trust. One from the hub is taken at a
pinned commit only, so that what ran yesterday is what runs tomorrow.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy
from PIL import Image

from understudy.backends.arrays import FloatArray, require_images, with_channels
from understudy.backends.hub.hub_models import hub_errors
from understudy.backends.onnx_model import OnnxModel, OnnxOptions
from understudy.backends.perceptual_network import load_torchscript
from understudy.backends.plugin import (
    BackendInfo,
    PositiveCount,
    full_name,
    installed,
    read_options,
)
from understudy.core.errors import BackendError
from understudy.core.files import home_path
from understudy.core.independence import even_parts
from understudy.core.ports import Encoder
from understudy.core.types import Embeddings, Images, Shape

INCEPTION_SIDE = 299
"""Pixels a side that the network takes."""

_HUB = "hf:"
_COMMIT = re.compile("[0-9a-f]{40}")
_INSTEAD = "embedded:scattering"  # what `evaluate` measures with where nothing is named
_SUM = 1e-3  # what a row of probabilities may be off 1


@dataclass(frozen=True, slots=True)
class InceptionOptions:
    """Options of ``inception:FILE``.

    Attributes:
        output: Which output of an ONNX file is the features, where there are several.
        probabilities: Which output of an ONNX file holds class probabilities or logits; None: none.
        revision: Branch, tag or commit of a file on the hub; of a TorchScript file, a commit.
    """

    batch: PositiveCount = 32
    threads: PositiveCount = 2
    output: str | None = None
    probabilities: str | None = None
    revision: str | None = None


_Network = Callable[[FloatArray], tuple[FloatArray, FloatArray | None]]
"""A loaded file: (n, 3, 299, 299) float32 to features, and probabilities or logits."""


class InceptionEncoder:
    """Images to what the network's last pooling gives, and to its class probabilities."""

    ordered = False
    norm_bound: float | None = None

    def __init__(self, file: str, shape: Shape, options: InceptionOptions) -> None:
        path = _find(file, options.revision)
        self.name = full_name(f"inception:{file}", options)
        self.shape = shape
        self.licence = f"see {file if file.startswith(_HUB) else path.name}"
        self._network: _Network
        if path.suffix.lower() == ".onnx":
            self._network, self._batch = _onnx(path, options)
        else:
            self._network, self._batch = _torchscript(path), options.batch
        black = np.zeros((min(2, self._batch), *shape), dtype=np.uint8)
        self.dim = self._run(black)[0].shape[1]

    def encode(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 to (n, d) float32."""
        return self.score(images)[0]

    def score(self, images: Images) -> tuple[Embeddings, Embeddings | None]:
        """The features, and (n, classes) probabilities where the file gives some."""
        require_images(images, self.shape, self.name)
        parts = [self._run(part) for _, part in even_parts(images, self._batch)]
        if not parts:
            return np.zeros((0, self.dim), dtype=np.float32), None
        features = np.concatenate([features_part for features_part, _ in parts])[: len(images)]
        likely = [part[1] for part in parts if part[1] is not None]
        return features, np.concatenate(likely)[: len(images)] if likely else None

    def _run(self, images: Images) -> tuple[Embeddings, Embeddings | None]:
        values = resize_cleanly(with_channels(images, 3)).transpose(0, 3, 1, 2)
        features, classes = self._network((values - np.float32(128)) / np.float32(128))
        features = features.reshape(len(images), -1)
        if not np.isfinite(features).all():
            raise BackendError(f"{self.name}: its features are not finite (NaN or inf)")
        if classes is not None and not (
            (classes >= 0).all() and np.allclose(classes.sum(axis=1), 1, atol=_SUM)
        ):  # logits
            classes = np.asarray(scipy.special.softmax(classes, axis=1), dtype=np.float32)
        return features, classes


def _find(file: str, revision: str | None) -> Path:
    """The file on this machine; one of the hub is downloaded where it is not here yet."""
    if file.startswith(_HUB):
        return _download(file, revision)
    path = home_path(file)
    if revision is not None:
        raise BackendError(
            f"{path}: revision is for a file on the hub, inception:hf:OWNER/NAME/FILE"
        )
    if not path.is_file():
        raise BackendError(
            f"{path}: there is no such file; write inception:FILE, or inception:hf:OWNER/NAME/FILE "
            "for one on the hub"
        )
    return path


def _download(file: str, revision: str | None) -> Path:
    """``hf:OWNER/NAME/FILE`` as a path, from the hub's cache or from the hub."""
    name = f"inception:{file}"
    *owner_and_name, inside = file.removeprefix(_HUB).split("/", 2)
    if len(owner_and_name) != 2 or not all((*owner_and_name, inside)):
        raise BackendError(f"{name}: a file on the hub is named inception:hf:OWNER/NAME/FILE")
    if not inside.lower().endswith(".onnx") and not _COMMIT.fullmatch(revision or ""):
        raise BackendError(
            f"{name} is a TorchScript file, and that is a program. It is taken from the hub at a "
            f"pinned commit only, found revision={revision}: look at the file there, and write "
            "?revision= with the 40 digits of the commit you trust"
        )
    with hub_errors(name, _INSTEAD, local="a file of your own (inception:FILE)"):
        from huggingface_hub import hf_hub_download

        return Path(hf_hub_download("/".join(owner_and_name), inside, revision=revision))


def resize_cleanly(images: Images) -> FloatArray:
    """(n, 299, 299, c) float32 in 0 to 255, as clean-fid resizes."""
    resized_images = np.empty(
        (len(images), INCEPTION_SIDE, INCEPTION_SIDE, images.shape[3]), dtype=np.float32
    )
    for image, target in zip(images, resized_images, strict=True):
        for channel in range(image.shape[2]):
            plane = Image.fromarray(image[:, :, channel].astype(np.float32), mode="F")
            small = plane.resize((INCEPTION_SIDE, INCEPTION_SIDE), Image.Resampling.BICUBIC)
            target[:, :, channel] = np.clip(np.asarray(small), 0, 255)
    return resized_images


def _onnx(path: Path, options: InceptionOptions) -> tuple[_Network, int]:
    """An ONNX file, and how many images it takes at once."""
    model = OnnxModel(str(path), OnnxOptions(options.batch, options.threads, output=options.output))
    classes = None
    if options.probabilities is not None:
        output = options.probabilities
        classes = OnnxModel(str(path), OnnxOptions(options.batch, options.threads, output=output))

    def run(values: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        contiguous = np.ascontiguousarray(values)
        return model.run(contiguous), None if classes is None else classes.run(contiguous)

    return run, model.batch


def _torchscript(path: Path) -> _Network:
    """A TorchScript file."""
    module = load_torchscript(path, f"inception:{path}")
    import torch

    whole = hasattr(module, "layers")

    def run(values: FloatArray) -> tuple[FloatArray, FloatArray | None]:
        try:
            with torch.inference_mode():
                outputs = (module.layers if whole else module)(torch.from_numpy(values.copy()))
                features, classes = outputs if isinstance(outputs, tuple) else (outputs, None)
                features = features.reshape(len(values), -1)
                if classes is None and whole and hasattr(module, "output"):
                    classes = module.output(features)
                if classes is not None:
                    classes = classes.reshape(len(values), -1).float().numpy()
            return features.float().numpy(), classes
        except (RuntimeError, TypeError, ValueError, AttributeError) as error:
            raise BackendError(
                f"{path}: gives no features, a row for each, of {len(values)} images of "
                f"3 x {INCEPTION_SIDE} x {INCEPTION_SIDE} ({str(error).strip().splitlines()[-1]})"
            ) from error

    return run


class InceptionBackend:
    """The family ``inception``."""

    def models(self) -> list[BackendInfo]:
        """Any file of the network."""
        what = (
            "the standard Inception network of FID, a TorchScript or ONNX file, also of the hub: "
            "inception:hf:OWNER/NAME/FILE"
        )
        there = installed("torch") or installed("onnxruntime")
        return [BackendInfo("inception:FILE", "encoder", what, "torch", there, "that of the file")]

    def encoder(self, rest: str, shape: Shape, **options: Any) -> Encoder:
        """The network in the file ``rest``; see `InceptionOptions`."""
        read = read_options(options, InceptionOptions, name=f"inception:{rest}")
        return InceptionEncoder(rest, shape, read)


backend = InceptionBackend()
