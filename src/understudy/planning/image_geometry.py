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
    def all_grey(self) -> bool:
        """Whether no image has a colour, however it is stored."""
        return self.images > 0 and self.grey + self.colourless == self.images

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
        coloured = self.images - self.grey - self.colourless
        parts = (
            (self.grey, "grey"),
            (self.colourless, "grey stored in colour"),
            (coloured, "in colour"),
        )
        colours = ", ".join(f"{count:,} {name}" for count, name in parts if count)
        return f"{self.sizes_in_words}; {colours}"

    @property
    def sizes_in_words(self) -> str:
        """The most frequent sizes, and how many images are upright or lie where they differ."""
        frequent = Counter(self.sizes).most_common(_MOST_LISTED)
        words = ", ".join(f"{height} x {width} ({n:,})" for (height, width), n in frequent)
        more = len(self.sizes) - _MOST_LISTED
        words += f" and {more} more" * (more > 0)
        return f"{words}; {self._orientation}" if self._orientation else words

    @property
    def _orientation(self) -> str:
        """How many images are upright, lie or are square, in words; empty where all are alike."""
        upright = sum(count for (height, width), count in self.sizes.items() if height > width)
        lying = sum(count for (height, width), count in self.sizes.items() if height < width)
        square = self.images - upright - lying
        parts = ((upright, "portrait"), (lying, "landscape"), (square, "square"))
        words = [f"{count:,} {name}" for count, name in parts if count]
        return ", ".join(words) if len(words) > 1 else ""

    def losses(
        self, side: int | None, fit: ImageFit, channels: int | None, energies: bool = False
    ) -> Iterator[tuple[str, str]]:
        """(option, what is lost by it) of images that are brought to one size and one colour.

        ``energies``: Whether the encoder of the run is that of energies.
        """
        if not self.sizes:
            return
        if side is not None:
            yield "size", self._of_size(side, fit, energies)
            if any(height != width for height, width in self.sizes):
                yield "fit", self._of_fit(fit)
        if channels == 1 and self.grey < self.images:
            coloured = self.images - self.grey - self.colourless
            yield (
                "channels",
                f"the colour of {coloured:,} images is lost"
                if coloured
                else f"nothing is lost: all images are grey, {self.colourless:,} of them stored in "
                "colour with equal channels",
            )

    def _of_size(self, side: int, fit: ImageFit, energies: bool) -> str:
        """What one side loses, and what the others would."""
        finest = ENERGIES_SIDE if energies else max(PROPOSED_SIDES[-1], side)
        least, most = self._scales(min(side, finest), fit)
        if most <= 1:
            words = "no detail is lost"
        else:
            words = f"details finer than {_span(max(least, 1), most)} pixels of the original"
            words += " are lost"
        if finest < side:
            words += f", as {ENERGIES} looks at {finest} x {finest} pixels of any image"
        others = {one: self._scales(one, fit)[1] for one in PROPOSED_SIDES if one <= finest}
        losses = [
            f"{_short(scale)} at {one}"
            for one, scale in others.items()
            if scale >= 1.5 and scale != most
        ]
        if losses:
            words += f" ({'up to ' if len(self.sizes) > 1 else ''}{', '.join(losses)})"
        if enlarged := self._enlarged(side, fit):
            smaller = count_words(enlarged, "smaller image is", "smaller images are")
            words += f"; {smaller} enlarged, which adds no detail"
        return words

    def _enlarged(self, side: int, fit: ImageFit) -> int:
        """How many images are smaller than a side that they are brought to."""
        return sum(count for size, count in self.sizes.items() if _scale(size, side, fit) < 1)

    def _scales(self, side: int, fit: ImageFit) -> tuple[float, float]:
        """Least and most pixels of an original, along a side, that become one pixel."""
        scales = [_scale(size, side, fit) for size in self.sizes]
        return min(scales), max(scales)

    def _of_fit(self, fit: ImageFit) -> str:
        """What one fit loses, and what the others would."""
        ratio = max(_ratio(size) for size in self.sizes)
        part = f"{'up to ' if len(self.sizes) > 1 else ''}{1 - 1 / ratio:.0%}"
        cut = f"{part} of an image is cut off, at both ends of its longer side"
        black = f"{part} of a sample is black"
        if fit == "pad":
            return f"nothing is cut off, and {black} (with crop {cut})"
        if fit == "crop":
            return f"{cut} (with pad nothing is, and {black})"
        times = f"{ratio:.1f}".removesuffix(".0")
        effect = f"images are distorted, one side by up to {times} times"
        if self._one_ratio:
            effect = f"all images are distorted alike, one side {times} times, and none is cut"
        return f"{effect} (with crop {cut}; with pad {black})"


def _ratio(size: tuple[int, int]) -> float:
    """Of the longer side to the shorter one."""
    return max(size) / min(size)


def _scale(size: tuple[int, int], side: int, fit: ImageFit) -> float:
    """Pixels of an original, along a side, that become one pixel of ``side``."""
    return (min(size) if fit == "crop" else max(size)) / side


def _span(least: float, most: float) -> str:
    low, high = _short(least), _short(most)
    return high if low == high else f"{low} to {high}"


def _short(scale: float) -> str:
    """Pixels in whole numbers, but for less than two of them."""
    return f"{scale:.1f}".removesuffix(".0") if scale < 2 else f"{scale:.0f}"
