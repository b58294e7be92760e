"""``--encoder auto``: which encoder and decoder of images a run gets where none is named.

A codec is an encoder that brings the decoder of its own embeddings. What is chosen depends on
public facts alone: the size and the channels of the images, and which packages are installed. Never
on how many records there are, nor on what they show. What was measured: docs/benchmarks.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

from understudy.core.types import Shape

ENERGIES = "embedded:energies"
"""The codec for images of 16 to 256 pixels a side, with torch."""

ENERGIES_SIDE = 32
"""Pixels a side that it looks at, of images of any size."""

PLAIN_DCT = "embedded:dct"
"""The codec for all others; and for many small grey images, which is no public fact: `understudy
plan` recommends it, and no run takes it by itself."""

CODECS = (PLAIN_DCT, ENERGIES, "embedded:photo")
"""Encoders that bring the decoder of their own embeddings."""

_SIDES = (16, 256)  # that energies are of
_SMALL = 32
_WHY_ENERGIES = "its numbers say where edges and textures are in images of any kind"
_WHY_COSINES = "it takes images of any size, and needs no package"


def has_energies(shape: Shape) -> bool:
    """Whether images (height, width, channels) are of a size that energies are of."""
    return _SIDES[0] <= min(shape[:2]) and max(shape[:2]) <= _SIDES[1]


def lacks_torch() -> bool:
    """Whether the package that energies need is not installed."""
    return find_spec("torch") is None


def is_small_grey(shape: Shape) -> bool:
    """Whether cosines serve many such images (height, width, channels) better."""
    return len(shape) == 3 and shape[2] == 1 and max(shape[:2]) <= _SMALL


@dataclass(frozen=True, slots=True)
class CodecChoice:
    """A codec for one run."""

    codec: str
    reason: str
    hint: str = ""  # where a plan may know of a better one: what goes on after the reason


def choose_codec(shape: Shape | None, *, images: bool = True) -> CodecChoice:
    """The codec of a run that names none.

    Args:
        shape: (height, width, channels) of the images; None, or that of embeddings: nothing is
            encoded.
        images: Whether images are released, not their embeddings.
    """
    if shape is None or len(shape) != 3 or not images:
        return CodecChoice(PLAIN_DCT, f"{PLAIN_DCT} encodes where no image is decoded")
    size = f"{shape[0]} x {shape[1]}, {'grey' if shape[2] == 1 else 'colour'}"
    if not has_energies(shape):
        return CodecChoice(
            PLAIN_DCT,
            f"{PLAIN_DCT} is taken for these images ({size}) because {_WHY_COSINES}",
        )
    if lacks_torch():
        return CodecChoice(
            PLAIN_DCT,
            f"{PLAIN_DCT} is taken for these images ({size}) because {ENERGIES}, which is better "
            "for them, needs packages that are not installed: pip install 'understudy[torch]'",
        )
    hint = f"; understudy plan says whether {PLAIN_DCT} serves as many better"
    return CodecChoice(
        ENERGIES,
        f"{ENERGIES} is taken for these images ({size}) because {_WHY_ENERGIES}",
        hint if is_small_grey(shape) else "",
    )


def codec_roles(models: Mapping[str, str], shape: Shape | None = None) -> dict[str, str | None]:
    """Encoder and decoder of a run; where one half of a codec is named, the other is its own."""
    encoder, decoder = models.get("encoder"), models.get("decoder")
    if encoder is not None:
        own = encoder.partition("?")[0]
        return {"encoder": encoder, "decoder": own if own in CODECS else None}
    if decoder is not None and (own := decoder.partition("?")[0]) in CODECS:
        return {"encoder": own, "decoder": decoder}
    codec = choose_codec(shape, images=decoder != "none").codec
    return {"encoder": codec, "decoder": codec}


AUTO_IN_WORDS = (
    f"{ENERGIES} for images of {_SIDES[0]} to {_SIDES[1]} pixels a side, with torch "
    f"({_WHY_ENERGIES}); {PLAIN_DCT} for all others ({_WHY_COSINES})"
)
"""What ``auto`` stands for, in a line."""
