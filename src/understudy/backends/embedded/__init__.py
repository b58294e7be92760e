"""Models that work on a bare machine: nothing to download.

``embedded:dct`` is an exact codec and ``embedded:scattering`` an encoder that needs PyTorch; both
have no weights. ``embedded:photo`` is an autoencoder of images of any kind and a segmenter of
photos, ``embedded:studio`` the mini studio, small models of every kind: their weights are in this
package.
``embedded:writer`` writes captions from a grammar.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from understudy.backends.embedded.dct import DctDecoder, DctEncoder, DctOptions
from understudy.backends.embedded.shipped import (
    ENERGY_WEIGHTS,
    PHOTO_WEIGHTS,
    STUDIO_WEIGHTS,
    is_shipped,
)
from understudy.backends.embedded.writer import GrammarOptions, GrammarWriter
from understudy.backends.plugin import BackendInfo, Kind, installed, read_options
from understudy.core.errors import BackendError, MissingExtra
from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Shape

if TYPE_CHECKING:
    from types import ModuleType

    from understudy.backends.embedded.studio.studio_models import Studio

_DCT = "embedded:dct"
_ENERGIES = "embedded:energies"
_PHOTO = "embedded:photo"
_SCATTERING = "embedded:scattering"
_STUDIO = "embedded:studio"
_WRITER = "embedded:writer"


class EmbeddedBackend:
    """The family ``embedded``."""

    def models(self) -> list[BackendInfo]:
        """The codec, the photo autoencoder, the scattering encoder, the studio and the writer."""
        shipped = installed("torch", "diffusers") and is_shipped(PHOTO_WEIGHTS)
        photo = partial(
            BackendInfo, name=_PHOTO, extra="models", available=shipped, licence="Apache-2.0"
        )
        return [
            BackendInfo(
                name=_DCT,
                kind="encoder and decoder",
                what="orthonormal 2-D cosine transform, low frequencies first; exact inverse",
                extra=None,
                available=True,
                licence="none",
            ),
            BackendInfo(
                name=_ENERGIES,
                kind="encoder and decoder",
                what="low cosines and oriented energies: shapes and textures of any kind of image",
                extra="torch",
                available=installed("torch") and is_shipped(ENERGY_WEIGHTS),
                licence="Apache-2.0",
            ),
            photo(
                kind="encoder and decoder",
                what="autoencoder of images of any kind and size: 28 numbers for 8 x 8 pixels",
            ),
            photo(
                kind="segmenter",
                what="persons, animals and things in photos: the 20 classes of Pascal VOC",
            ),
            BackendInfo(
                name=_SCATTERING,
                kind="encoder",
                what="wavelet scattering: stable to shifts and deformations, no weights",
                extra="torch",
                available=installed("torch"),
                licence="none",
            ),
            BackendInfo(
                name=_STUDIO,
                kind="all kinds",
                what="the mini studio: CLIP, unCLIP, text to image, inpainting, control, segments",
                extra="models",
                available=installed("torch", "transformers", "diffusers")
                and is_shipped(STUDIO_WEIGHTS),
                licence="Apache-2.0",
            ),
            BackendInfo(
                name=_WRITER,
                kind="writer",
                what="captions from a grammar of phrases",
                extra=None,
                available=True,
                licence="none",
            ),
        ]

    def encoder(self, rest: str, shape: Shape, **options: Any) -> Encoder:
        """``dct``, ``photo``, ``scattering`` or ``studio``.

        Raises:
            BackendError: Another name, or wrong options.
            MissingExtra: Scattering, the photo autoencoder or the studio without their packages.
        """
        if rest == "dct":
            return DctEncoder(shape, read_options(options, DctOptions, name=_DCT))
        if rest == "scattering":
            try:
                from understudy.backends.embedded import scattering
            except ImportError as error:
                raise MissingExtra(_SCATTERING, "torch") from error
            read = read_options(options, scattering.ScatteringOptions, name=_SCATTERING)
            return scattering.ScatteringEncoder(shape, read)
        if rest == "energies":
            return _energies().energy_encoder(shape, options)  # type: ignore[no-any-return]
        if rest == "photo":
            return _photo().photo_encoder(shape, options)  # type: ignore[no-any-return]
        if rest == "studio":
            return _studio(options).encoder(shape, options)
        raise BackendError(
            f"there is no encoder embedded:{rest}. There are {_DCT}, {_PHOTO}, {_SCATTERING} and "
            f"{_STUDIO}"
        )

    def decoder(self, rest: str, shape: Shape, encoder: Encoder | None, **options: Any) -> Decoder:
        """``dct``, with as many coefficients as its encoder unless options say so, or others.

        Raises:
            BackendError: Another name, wrong options, or an encoder of another kind.
        """
        if rest == "studio":
            return _studio(options).decoder(shape, encoder, options)
        if rest == "energies":
            return _energies().energy_decoder(shape, encoder, options)  # type: ignore[no-any-return]
        if rest == "photo":
            return _photo().photo_decoder(shape, encoder, options)  # type: ignore[no-any-return]
        if rest != "dct":
            raise BackendError(
                f"there is no decoder embedded:{rest}. There are {_DCT}, {_PHOTO} and {_STUDIO}"
            )
        if encoder is not None:
            if not isinstance(encoder, DctEncoder):
                raise BackendError(
                    f"{_DCT} decodes its own embeddings only, found those of {encoder.name}"
                )
            options.setdefault("coefficients", encoder.dim)
        return DctDecoder(shape, read_options(options, DctOptions, name=_DCT))

    def model(self, kind: Kind, rest: str, **options: Any) -> object:
        """``studio`` for most, ``photo`` for segments of photos, ``writer`` for texts.

        Raises:
            BackendError: Another name, wrong options, or a kind that it has not.
            MissingExtra: The studio without the packages that run it.
        """
        if rest == "writer" and kind == "writer":
            read = read_options(options, GrammarOptions, name=_WRITER)
            return GrammarWriter(read)
        if rest == "photo" and kind == "segmenter":
            _photo()
            from understudy.backends.embedded.photo.photo_segmenter import photo_segmenter

            return photo_segmenter(options)
        if rest == "studio":
            studio = _studio(options)
            if kind == "generator":
                return studio.generator(options)
            if kind == "tuner":
                return studio.tuner(options)
            if kind == "segmenter":
                return studio.segmenter(options)
            if kind == "captioner":
                return studio.captioner(options)
        raise BackendError(
            f"there is no {kind} embedded:{rest}. {_STUDIO} is a generator, tuner, segmenter and "
            f"captioner; {_PHOTO} is a segmenter; {_WRITER} is a writer"
        )


def _energies() -> ModuleType:
    try:
        from understudy.backends.embedded.energies import energy_models
    except ImportError as error:
        raise MissingExtra(_ENERGIES, "torch") from error
    return energy_models


def _photo() -> ModuleType:
    try:
        from understudy.backends.embedded.photo import photo_models
    except ImportError as error:
        raise MissingExtra(_PHOTO, "models") from error
    return photo_models


def _studio(options: Mapping[str, Any]) -> Studio:
    try:
        from understudy.backends.embedded.studio.studio_models import Studio
    except ImportError as error:
        raise MissingExtra(_STUDIO, "models") from error
    folder = options.get("folder")
    return Studio(None if folder is None else str(folder))


backend = EmbeddedBackend()
