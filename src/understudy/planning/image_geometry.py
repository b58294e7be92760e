"""What private images lose where they are brought to one size and one colour, in plain words.

`understudy check` and `understudy plan` say it and propose what the owner may declare. It is
counted in private images, so it is for the owner alone. No run reads it: a run goes by what is
declared.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from understudy.core.errors import count_words
from understudy.data.encoded_images import VISIBLE_STRETCH
from understudy.data.inspection import Inspection
from understudy.data.reading_options import ImageFit
from understudy.run.codec_rules import ENERGIES, ENERGIES_SIDE
from understudy.run.command_words import PROPOSED_SIDES, USUAL_SIDE

_MAY_BE_ENLARGED = 0.05  # of the images, those that are smaller than what is proposed
_MOST_LISTED = 4  # sizes
_LONGEST_PADDED = 3 / 2  # ratio of an image in the middle of them all, above which it is cropped


@dataclass(frozen=True, slots=True)
class ImageGeometry:
    """The sizes and the colours of a dataset's images as they are stored; owner-only.

    Attributes:
        sizes: Images of each (height, width).
        grey: Images of one channel.
        colourless: Images that are stored in colour and whose channels are equal.
    """

    sizes: Mapping[tuple[int, int], int]
    grey: int = 0
    colourless: int = 0

    @classmethod
    def of(cls, inspection: Inspection) -> ImageGeometry:
        """That of the images that an inspection counted."""
        return cls(inspection.sizes, inspection.grey, inspection.colourless)

    @property
    def images(self) -> int:
        """How many there are."""
        return sum(self.sizes.values())

    @property
    def coloured(self) -> int:
        """How many have a colour."""
        return self.images - self.grey - self.colourless

    @property
    def all_grey(self) -> bool:
        """Whether no image has a colour, however it is stored."""
        return self.images > 0 and not self.coloured

    @property
    def side(self) -> int:
        """The side that is proposed: `USUAL_SIDE`, or less where the images are smaller."""
        fit = self.fit
        for side in reversed(PROPOSED_SIDES[: PROPOSED_SIDES.index(USUAL_SIDE) + 1]):
            if self._enlarged(side, fit) <= _MAY_BE_ENLARGED * self.images:
                return side
        return PROPOSED_SIDES[0]

    @property
    def fit(self) -> ImageFit:
        """The fit that is proposed.

        Squares are not distorted by any. Images of one ratio are stretched, for that distorts all
        of them alike and wastes no pixel. Else images are padded, for that cuts nothing off, unless
        more than a third of half of them would be black.
        """
        if self.square or self._one_ratio:
            return "stretch"
        passed = 0
        for ratio, count in sorted((_ratio(size), count) for size, count in self.sizes.items()):
            passed += count
            if 2 * passed >= self.images:
                return "pad" if ratio <= _LONGEST_PADDED else "crop"
        return "pad"

    @property
    def square(self) -> bool:
        """Whether all images are as good as squares, so that no fit distorts them."""
        return all(_ratio(size) <= VISIBLE_STRETCH for size in self.sizes)

    @property
    def _one_ratio(self) -> bool:
        """Whether all images are of one ratio of height to width."""
        ratios = [height / width for height, width in self.sizes]
        return max(ratios) <= VISIBLE_STRETCH * min(ratios)

    @property
    def words(self) -> str:
        """Their sizes and colours in words; empty without images."""
        if not self.images:
            return ""
        colours = {
            "grey": self.grey,
            "grey stored in colour": self.colourless,
            "in colour": self.coloured,
        }
        words = ", ".join(f"{count:,} {name}" for name, count in colours.items() if count)
        return f"{self.sizes_in_words}; {words}"

    @property
    def sizes_in_words(self) -> str:
        """The most frequent sizes."""
        frequent = Counter(self.sizes).most_common(_MOST_LISTED)
        words = ", ".join(f"{height} x {width} ({n:,})" for (height, width), n in frequent)
        more = len(self.sizes) - _MOST_LISTED
        return words + f" and {more} more" * (more > 0)

    def losses(
        self, side: int | None, fit: ImageFit, channels: int | None, energies: bool = False
    ) -> Iterator[tuple[str, str]]:
        """(option, what is lost by it) of images that are brought to one size and one colour.

        ``energies``: Whether the encoder of the run is that of energies.
        """
        if not self.sizes:
            return
        if side is not None:
            yield "size", self._lost_by_size(side, fit, energies)
            if any(height != width for height, width in self.sizes):
                yield "fit", self._lost_by_fit(fit)
        if channels == 1 and self.coloured:
            yield "channels", f"the colour of {self.coloured:,} images is lost"
        elif channels == 1 and self.colourless:
            yield (
                "channels",
                f"nothing is lost: all images are grey, {self.colourless:,} of them stored in "
                "colour with equal channels",
            )

    def _lost_by_size(self, side: int, fit: ImageFit, energies: bool) -> str:
        finest = min(side, ENERGIES_SIDE) if energies else side
        scale = max(_scale(size, finest, fit) for size in self.sizes)
        words = "no detail is lost"
        if scale > 1:
            words = f"details finer than {self._up_to}{_short(scale)} pixels of the original"
            words += " are lost"
        if finest < side:
            words += f", as {ENERGIES} looks at {finest} x {finest} pixels of any image"
        if enlarged := self._enlarged(side, fit):
            smaller = count_words(enlarged, "smaller image is", "smaller images are")
            words += f"; {smaller} enlarged, which adds no detail"
        return words

    def _lost_by_fit(self, fit: ImageFit) -> str:
        ratio = max(_ratio(size) for size in self.sizes)
        part = f"{self._up_to}{1 - 1 / ratio:.0%}"
        if fit == "pad":
            return f"nothing is cut off, and {part} of a sample is black"
        if fit == "crop":
            return f"{part} of an image is cut off, at both ends of its longer side"
        alike = ", all alike" if self._one_ratio else ""
        times = f"{ratio:.1f}".removesuffix(".0")
        return f"images are distorted, one side by {self._up_to}{times} times{alike}"

    @property
    def _up_to(self) -> str:
        """Said before a figure that is of the worst image."""
        return "up to " if len(self.sizes) > 1 else ""

    def _enlarged(self, side: int, fit: ImageFit) -> int:
        """How many images are smaller than a side that they are brought to."""
        return sum(count for size, count in self.sizes.items() if _scale(size, side, fit) < 1)


def _ratio(size: tuple[int, int]) -> float:
    """Of the longer side to the shorter one."""
    return max(size) / min(size)


def _scale(size: tuple[int, int], side: int, fit: ImageFit) -> float:
    """Pixels of an original, along a side, that become one pixel of ``side``."""
    return (min(size) if fit == "crop" else max(size)) / side


def _short(scale: float) -> str:
    """Pixels in whole numbers, but for less than two of them."""
    return f"{scale:.1f}".removesuffix(".0") if scale < 2 else f"{scale:.0f}"
