"""Models that work on a bare machine: nothing to download.

``embedded:dct`` is an exact codec and ``embedded:scattering`` an encoder that needs PyTorch; both
have no weights, nor has ``embedded:denoiser``, a network to be trained. ``embedded:energies`` is a
codec of shapes and textures, ``embedded:photo`` an autoencoder of images of any kind, a segmenter
of photos and a pose estimator of persons, and ``embedded:studio`` the mini studio, small models of
every kind: their weights are in this package.
``embedded:writer`` writes captions from a grammar.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from understudy.backends.embedded.dct import DctDecoder, DctEncoder, DctOptions
from understudy.backends.embedded.shipped import (
    ENERGY_WEIGHTS,
    PHOTO_WEIGHTS,
    STUDIO_WEIGHTS,
    is_shipped,
)
from understudy.backends.embedded.writer import GrammarOptions, GrammarWriter
from understudy.backends.plugin import BackendInfo, Kind, installed, read_options
from understudy.core.errors import BackendError, packages_for
from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Shape

_DCT, _WRITER, _STUDIO = "embedded:dct", "embedded:writer", "embedded:studio"
_DENOISER, _PHOTO = "embedded:denoiser", "embedded:photo"
_DCT_WORDS = "orthonormal 2-D cosine transform, low frequencies first; exact inverse"
_ENERGY_WORDS = "low cosines and oriented energies: shapes and textures of any kind of image"
_PHOTO_WORDS = "autoencoder of images of any kind and size: 28 numbers for 8 x 8 pixels"
_POSE_WORDS = "14 keypoints of one person, in photos and drawings"
_OBJECT_WORDS = "persons in photos; animals, bottles, chairs and cars less well"
_WAVE_WORDS = "wavelet scattering: stable to shifts and deformations, no weights"
_STUDIO_WORDS = "the mini studio: CLIP, unCLIP, text to image, inpainting, control, segments"
_DENOISER_WORDS = "a small transformer of image patches, to be trained: no weights"
_MODULES = {
    "denoiser": ("denoiser", "torch"),
    "energies": ("energies.energy_models", "torch"),
    "photo": ("photo.photo_models", "models"),
    "scattering": ("scattering", "torch"),
    "studio": ("studio.studio_models", "models"),
}
"""The module of each model that needs an extra, and the extra."""


class EmbeddedBackend:
    """The family ``embedded``."""

    def models(self) -> list[BackendInfo]:
        """The codecs, the scattering encoder, the studio and the writer."""
        torch = installed("torch")
        energies = torch and is_shipped(ENERGY_WEIGHTS)
        photo = installed("torch", "diffusers") and is_shipped(PHOTO_WEIGHTS)
        studio = installed("torch", "transformers", "diffusers") and is_shipped(STUDIO_WEIGHTS)
        pair: Kind = "encoder and decoder"
        ours = "Apache-2.0"
        return [
            BackendInfo(_DCT, pair, _DCT_WORDS, None, True, "none"),
            BackendInfo("embedded:energies", pair, _ENERGY_WORDS, "torch", energies, ours),
            BackendInfo(_PHOTO, pair, _PHOTO_WORDS, "models", photo, ours, device=True),
            BackendInfo(_PHOTO, "pose estimator", _POSE_WORDS, "models", photo, ours, device=True),
            BackendInfo(_PHOTO, "segmenter", _OBJECT_WORDS, "models", photo, ours, device=True),
            BackendInfo("embedded:scattering", "encoder", _WAVE_WORDS, "torch", torch, "none"),
            BackendInfo(_STUDIO, "all kinds", _STUDIO_WORDS, "models", studio, ours, device=True),
            BackendInfo(_DENOISER, "denoiser", _DENOISER_WORDS, "torch", torch, "none"),
            BackendInfo(_WRITER, "writer", "captions by a grammar", None, True, "none"),
        ]

    def encoder(self, rest: str, shape: Shape, **options: Any) -> Encoder:
        """``dct``, ``energies``, ``photo``, ``scattering`` or ``studio``."""
        if rest == "dct":
            return DctEncoder(shape, read_options(options, DctOptions, name=_DCT))
        if rest not in _MODULES or rest == "denoiser":
            raise BackendError(
                f"there is no encoder embedded:{rest}. There are {_DCT}, embedded:energies, "
                f"embedded:photo, embedded:scattering and {_STUDIO}"
            )
        load = getattr(_module(rest), f"{rest}_encoder")
        return load(shape, options)  # type: ignore[no-any-return]

    def decoder(self, rest: str, shape: Shape, encoder: Encoder | None, **options: Any) -> Decoder:
        """``dct``, with as many coefficients as its encoder unless options say so, or others."""
        if rest in _MODULES and rest not in ("scattering", "denoiser"):
            load = getattr(_module(rest), f"{rest}_decoder")
            return load(shape, encoder, options)  # type: ignore[no-any-return]
        if rest != "dct":
            raise BackendError(
                f"there is no decoder embedded:{rest}. There are {_DCT}, embedded:energies, "
                f"embedded:photo and {_STUDIO}"
            )
        if encoder is not None:
            if not isinstance(encoder, DctEncoder):
                raise BackendError(
                    f"{_DCT} decodes its own embeddings only, found those of {encoder.name}"
                )
            options.setdefault("coefficients", encoder.dim)
        return DctDecoder(shape, read_options(options, DctOptions, name=_DCT))

    def model(self, kind: Kind, rest: str, **options: Any) -> object:
        """``studio`` for most, ``photo`` for objects and poses in photos, ``writer`` for texts."""
        if rest == "writer" and kind == "writer":
            return GrammarWriter(read_options(options, GrammarOptions, name=_WRITER))
        if (rest, kind) == ("denoiser", "denoiser"):
            return _module(rest).denoiser(options)
        if (rest, kind) == ("photo", "pose estimator"):
            return _module(rest).photo_pose_estimator(options)
        if (rest, kind) == ("photo", "segmenter"):
            return _module(rest).photo_segmenter(options)
        if (rest, kind) == ("studio", "generator"):
            return _module(rest, "studio.studio_generator").studio_generator(options)
        if rest == "studio" and kind in ("tuner", "segmenter", "captioner"):
            return getattr(_module(rest).studio_of(options), kind)(options)
        raise BackendError(
            f"there is no {kind} embedded:{rest}. {_STUDIO} is a generator, tuner, segmenter and "
            f"captioner; embedded:photo a segmenter and a pose estimator; {_WRITER} is a writer, "
            "embedded:denoiser a denoiser"
        )


def _module(rest: str, part: str | None = None) -> Any:
    """The module of a model that needs an extra, or of a part of it."""
    module, extra = _MODULES[rest]
    with packages_for(f"embedded:{rest}", extra):
        return import_module(f"understudy.backends.embedded.{part or module}")


backend = EmbeddedBackend()
