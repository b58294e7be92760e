"""Models that work on a bare machine: nothing to download, no weights.

``embedded:dct`` is an exact codec, ``embedded:scattering`` an encoder that needs PyTorch.
"""

from __future__ import annotations

from typing import Any

from understudy.backends.embedded.dct import DctDecoder, DctEncoder, DctOptions
from understudy.backends.plugin import BackendInfo, installed, read_options
from understudy.core.errors import BackendError, MissingExtra
from understudy.core.ports import Decoder, Encoder
from understudy.core.types import Shape

_DCT = "embedded:dct"
_SCATTERING = "embedded:scattering"


class EmbeddedBackend:
    """The family ``embedded``."""

    def models(self) -> list[BackendInfo]:
        """The codec and the scattering encoder."""
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
                name=_SCATTERING,
                kind="encoder",
                what="wavelet scattering: stable to shifts and deformations, no weights",
                extra="torch",
                available=installed("torch"),
                licence="none",
            ),
        ]

    def encoder(self, rest: str, shape: Shape, **options: Any) -> Encoder:
        """``dct`` or ``scattering``.

        Raises:
            BackendError: Another name, or wrong options.
            MissingExtra: Scattering without PyTorch.
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
        raise BackendError(
            f"there is no encoder embedded:{rest}. There are {_DCT} and {_SCATTERING}"
        )

    def decoder(self, rest: str, shape: Shape, encoder: Encoder | None, **options: Any) -> Decoder:
        """``dct``, with as many coefficients as its encoder unless options say otherwise.

        Raises:
            BackendError: Another name, wrong options, or an encoder of another kind.
        """
        if rest != "dct":
            raise BackendError(f"there is no decoder embedded:{rest}. There is {_DCT}")
        if encoder is not None:
            if not isinstance(encoder, DctEncoder):
                raise BackendError(
                    f"{_DCT} decodes its own embeddings only, found those of {encoder.name}"
                )
            options.setdefault("coefficients", encoder.dim)
        return DctDecoder(shape, read_options(options, DctOptions, name=_DCT))


backend = EmbeddedBackend()
