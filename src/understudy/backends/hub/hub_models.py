"""``hf:NAME``: any model in the hub's format, by its name on the hub or by a local folder.

    hf:openai/clip-vit-base-patch32
    hf:sd2-community/stable-diffusion-2-1-unclip-small?revision=main&dtype=bfloat16
    hf:./my-model?device=cpu&batch=8

What the folder holds decides which file here runs it: `clip` (embeddings), `diffusion` (pictures),
`vision` (captions, segments, boxes, poses), `language` (texts), `tuning` (DreamBooth). Weights
are read from safetensors only: other formats can run code while they are loaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from understudy.backends.plugin import BackendInfo, Kind, PositiveCount, installed
from understudy.core.errors import (
    BackendError,
    HubUnreachable,
    MissingExtra,
    UnderstudyError,
    packages_for,
)
from understudy.core.option import check_options
from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Shape

if TYPE_CHECKING:
    import torch

Config = dict[str, Any]

EXTRA = "models"
_PACKAGES = ("torch", "transformers", "diffusers", "accelerate", "peft", "skimage", "tokenizers")
_CODEC_ALTERNATIVE, _ALTERNATIVE = "embedded:dct", "embedded:studio"
"""Named where the hub cannot be reached: the codec takes images of any kind, the studio its own."""
AUTOENCODER_CLASSES = ("AutoencoderKL", "AutoencoderTiny", "AutoencoderDC", "AutoencoderRAE")


@dataclass(frozen=True, slots=True)
class HubOptions:
    """Options that every model of the hub takes.

    Attributes:
        revision: Branch, tag or commit on the hub; pin a commit for a result that can be repeated.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, or ``"auto"`` for the best there is.
        dtype: ``"float32"``, ``"bfloat16"``, ``"float16"``, or ``"auto"``: bfloat16 on a GPU,
            float32 elsewhere, and for what may be given private images.
        compile: Whether to compile the network first; worth it for long runs on a GPU.
        offload: Whether to keep parts of a pipeline in main memory until they are needed.
    """

    exact: ClassVar[bool] = False
    """Whether a result may depend on nothing but its own input, as that of a private image."""

    revision: str | None = None
    device: str = "auto"
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    batch: PositiveCount = 16
    compile: bool = False
    offload: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    def placement(self) -> tuple[torch.device, torch.dtype]:
        """The device and the number format to run with."""
        import torch

        name = self.device
        if name == "auto":
            name = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            device = torch.device(name)
            torch.empty(0, device=device)
        except (RuntimeError, AssertionError) as error:
            raise BackendError(f"device {name!r} cannot be used here: {error}") from error
        if device.type == "cuda" and self.exact:
            # cuBLAS reads it when it begins, and adds in one order only where it is set.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        if self.dtype == "auto":
            half = device.type == "cuda" and not self.exact
            return device, torch.bfloat16 if half else torch.float32
        return device, getattr(torch, self.dtype)


@contextmanager
def hub_errors(
    name: str,
    instead: str = _ALTERNATIVE,
    *,
    local: str = "a local folder (hf:/path/to/model)",
) -> Iterator[None]:
    """Turn what the hub's libraries raise into our errors.

    ``instead`` is the embedded model to name where the hub cannot be reached, ``local`` what of
    one's own can be named there: those of the outermost call, which knows what the model is for.
    """
    try:
        yield
    except ImportError as error:
        if not installed(*_PACKAGES):
            raise MissingExtra(name, EXTRA) from error
        reason = " ".join(str(error).split())
        raise BackendError(f"{name} needs another package, none of an extra: {reason}") from error
    except HubUnreachable as error:
        raise HubUnreachable(error.name, instead, local) from error
    except UnderstudyError:
        raise
    except Exception as error:  # those of its libraries share no base class
        if _is_connection(error):
            raise HubUnreachable(name, instead, local) from error
        raise BackendError(f"{name} cannot be loaded: {type(error).__name__}: {error}") from error


def _is_connection(error: BaseException | None) -> bool:
    """Whether this error, or one that led to it, says that the hub did not answer."""
    names = {
        *("ConnectError", "ConnectTimeout", "ConnectionError", "LocalEntryNotFoundError"),
        *("OfflineModeIsEnabled", "ProxyError", "ReadTimeout", "TimeoutException"),
    }
    for _ in range(10):
        if error is None:
            break
        if names & {kind.__name__ for kind in type(error).__mro__}:
            return True
        error = error.__cause__ or error.__context__
    return False


def read_hub_config(model: str, revision: str | None) -> tuple[str, Config]:
    """What a model on the hub or in a local folder says it is.

    ``"pipeline"`` and its ``model_index.json``, or ``"model"`` and its ``config.json``.
    """
    name, local = f"hf:{model}", Path(model).is_dir()
    if not local and (model.startswith((".", "/", "~")) or model.count("/") > 1):
        raise BackendError(f"{name}: there is no folder {model}")
    with hub_errors(name):
        from understudy.backends.hub.pretrained import read_hub_json
    for kind, file in (("pipeline", "model_index.json"), ("model", "config.json")):
        config = read_hub_json(model, file, revision=revision)
        if config is not None:
            return kind, config
    if local:
        raise BackendError(f"{name} is a folder without model_index.json or config.json")
    raise BackendError(f"{name} has neither model_index.json nor config.json on the hub")


_LOADERS = {
    "generator": "diffusion.generators:load_generator",
    "denoiser": "diffusion.denoisers:load_denoiser",
    "tuner": "tuning.tuner:load_tuner",
    "writer": "chat.language_model:load_writer",
    "captioner": "vision.captioners:load_captioner",
    "segmenter": "vision.segmenters:load_segmenter",
    "detector": "vision.detectors:load_detector",
    "pose estimator": "vision.pose_estimators:load_pose_estimator",
}
"""The function that loads each kind of model; its module needs the extra."""


def _function(location: str, rest: str) -> Any:
    """A function of one of the sibling modules that need the extra."""
    module, _, name = location.partition(":")
    with packages_for(f"hf:{rest}", EXTRA):
        return getattr(import_module(f"understudy.backends.{module}"), name)


class HubBackend:
    """The family ``hf``."""

    def models(self) -> list[BackendInfo]:
        """One line: what it runs is decided by the model."""
        what = "any model of the hub or a local folder in its format, safetensors only"
        there = installed(*_PACKAGES)
        return [
            BackendInfo("hf:MODEL", "all kinds", what, EXTRA, there, "the model's", device=True)
        ]

    def encoder(self, rest: str, shape: Shape, **options: Any) -> Encoder:
        """Embeddings of CLIP, SigLIP or DINOv2, or the latents of an autoencoder."""
        with hub_errors(f"hf:{rest}", _CODEC_ALTERNATIVE):
            kind, config = read_hub_config(rest, options.get("revision"))
            inside = options.get("subfolder") not in (None, "vae")  # an image encoder of a pipeline
            if not inside and (
                kind == "pipeline" or config.get("_class_name") in AUTOENCODER_CLASSES
            ):
                encoder = _function("diffusion.autoencoders:latent_encoder", rest)
            else:
                encoder = _function("hub.image_text:load_hub_encoder", rest)
            return encoder(rest, shape, options)  # type: ignore[no-any-return]

    def decoder(self, rest: str, shape: Shape, encoder: Encoder | None, **options: Any) -> Decoder:
        """UnCLIP, or the decoder of an autoencoder."""
        with hub_errors(f"hf:{rest}", _CODEC_ALTERNATIVE):
            read_hub_config(rest, options.get("revision"))
            load = _function("diffusion.unclip:load_unclip_decoder", rest)
            return load(rest, shape, encoder, options)  # type: ignore[no-any-return]

    def model(self, kind: Kind, rest: str, **options: Any) -> object:
        """Any other kind of model: those of `_LOADERS`."""
        if kind not in _LOADERS:
            raise BackendError(f"hf: has no {kind}")
        instead = {"writer": "embedded:writer", "denoiser": "embedded:denoiser"}.get(
            kind, _ALTERNATIVE
        )
        with hub_errors(f"hf:{rest}", instead):
            read_hub_config(rest, options.get("revision"))
            return _function(_LOADERS[kind], rest)(rest, options)


backend = HubBackend()
