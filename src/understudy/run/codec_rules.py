"""``--encoder auto``: which encoder and decoder of images a run gets where none is named.

A codec is an encoder that brings the decoder of its own embeddings. What is chosen depends on
public facts alone: the size and the channels of the images, and which packages are installed. Never
on how many records there are, nor on what they show.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec

from understudy.core.types import Shape


@dataclass(frozen=True, slots=True)
class CodecRule:
    """Images for which one codec is chosen.

    Attributes:
        codec: Its name.
        images: Which images, in words.
        reason: Why it is chosen for them, to follow "because".
        channels: Channels that such images have.
        least: Pixels of their shorter side, at least.
        most: Pixels of their longer side, at most.
        packages: What the codec needs, and the extra that brings each.
        finest: Pixels a side that it looks at, of images of any size; None: all of them.
    """

    codec: str
    images: str
    reason: str
    channels: tuple[int, ...] = (1, 3)
    least: int = 1
    most: int = 1 << 16
    packages: Mapping[str, str] = field(default_factory=dict)
    finest: int | None = None

    def fits(self, shape: Shape) -> bool:
        """Whether images (height, width, channels) are of these."""
        height, width, channels = shape
        sides = self.least <= min(height, width) and max(height, width) <= self.most
        return sides and channels in self.channels

    @property
    def missing(self) -> tuple[str, ...]:
        """Extras that the codec needs and that are not installed."""
        lacking = (extra for name, extra in self.packages.items() if find_spec(name) is None)
        return tuple(dict.fromkeys(lacking))


ENERGIES = CodecRule(
    codec="embedded:energies",
    images="images of 16 to 256 pixels a side",
    reason="its numbers say where edges and textures are in images of any kind",
    least=16,
    most=256,
    packages={"torch": "torch"},
    finest=32,
)

ANY_SHAPE = CodecRule(
    codec="embedded:dct",
    images="all others",
    reason="it takes images of any size, and needs no package",
)

RULES: tuple[CodecRule, ...] = (ENERGIES, ANY_SHAPE)
"""The first that fits is taken; what was measured: docs/benchmarks.md."""

MANY_SMALL_GREY = CodecRule(
    codec="embedded:dct",
    images="grey images of up to 32 pixels a side",
    reason="its numbers hold all of so small an image",
    channels=(1,),
    most=32,
)
"""For many records, which is no public fact: `understudy plan` recommends it, and no run takes it
by itself."""

CODECS = ("embedded:dct", "embedded:energies", "embedded:photo")
"""Encoders that bring the decoder of their own embeddings."""


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
        return CodecChoice(ANY_SHAPE.codec, f"{ANY_SHAPE.codec} encodes where no image is decoded")
    rule = next(rule for rule in RULES if rule.fits(shape))
    size = f"{shape[0]} x {shape[1]}, {'grey' if shape[2] == 1 else 'colour'}"
    if rule.missing:
        extras = ",".join(rule.missing)
        return CodecChoice(
            ANY_SHAPE.codec,
            f"{ANY_SHAPE.codec} is taken for these images ({size}) because {rule.codec}, which is "
            f"better for them, needs packages that are not installed: pip install "
            f"'understudy[{extras}]'",
        )
    reason = f"{rule.codec} is taken for these images ({size}) because {rule.reason}"
    if not MANY_SMALL_GREY.fits(shape) or rule.codec == MANY_SMALL_GREY.codec:
        return CodecChoice(rule.codec, reason)
    hint = f"; understudy plan says whether {MANY_SMALL_GREY.codec} serves as many better"
    return CodecChoice(rule.codec, reason, hint)


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


def rules_in_words() -> str:
    """What ``auto`` stands for, in a line."""
    parts = []
    for rule in RULES:
        needs = " and ".join(rule.packages)
        where = f", with {needs}" if needs else ""
        parts.append(f"{rule.codec} for {rule.images}{where} ({rule.reason})")
    return "; ".join(parts)
