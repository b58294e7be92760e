"""The items that pass between a device and a server: arrays of fixed size behind a fixed header.

No image file, no name, no time, and no length that depends on a photo. Every item carries a random
salt: its digest says nothing of its content, and equal boxes have different digests. docs/wire.md
is printed from this module and from `wire`, which holds the messages.
"""

from __future__ import annotations

import secrets
import struct
from hashlib import blake2b
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)

from understudy.core.errors import WireError

WIRE_VERSION = 1
SIDES = (16, 32, 64, 128, 256)
"""Pixels a side that items may have."""
OBJECTS = 4
"""Objects of a request at most; part 0 is the background, parts 1 to 4 are the objects."""
REFERENCES = 64
"""Reference photos of a request at most."""
BOX_CELLS = 16
"""Cells a side of the grid that boxes lie on: nothing finer can be sent."""
POSE_SLOTS = 17
"""Keypoints of a pose; a skeleton of fewer leaves the last ones empty."""
FILL = 127
"""The grey of all pixels of a target's image outside its segment."""
SALT_BYTES = 16
MAGIC = b"USPN"
_HEADER = struct.Struct(">4sBBBB16sII")  # magic, version, kind, part, log2 side, salt, length, 0
HEADER_BYTES = _HEADER.size
ITEM_BYTES = HEADER_BYTES + 256 * 256 * 3 + 256 * 256 // 8
"""Bytes of an item at most."""

SKELETONS: dict[str, tuple[str, ...]] = {
    "person": (
        *("head", "neck", "left shoulder", "left elbow", "left wrist", "right shoulder"),
        *("right elbow", "right wrist", "left hip", "left knee", "left ankle"),
        *("right hip", "right knee", "right ankle"),
    ),
    "dog": (
        *("nose", "eye", "ear", "neck", "shoulder", "front paw", "other front paw", "hip"),
        *("rear paw", "other rear paw", "tail"),
    ),
}
"""The keypoints of a pose, in the order of its slots."""


def hex_text(digits: int) -> StringConstraints:
    """So many hexadecimal digits, in lower case."""
    return StringConstraints(pattern=f"^[0-9a-f]{{{digits}}}$", max_length=digits)


Digest = Annotated[str, hex_text(64)]
"""BLAKE2b, 256 bits, in hexadecimal."""
Side = Literal[16, 32, 64, 128, 256]
PartNumber = Annotated[int, Field(ge=0, le=OBJECTS)]


class Message(BaseModel):
    """What every message and item is: frozen, strict, without unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        strict=True,
        extra="forbid",
        use_attribute_docstrings=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )


class Item(Message):
    """One part of one photo, as it is sent. `of` makes one from arrays, `arrays` gives them back.

    Bytes of the array are in the order of its rows, without padding.
    """

    code: ClassVar[int] = 0
    name: ClassVar[str] = ""
    fixed_bytes: ClassVar[int] = 0
    pixel_bits: ClassVar[int] = 0

    part: PartNumber
    side: Side
    salt: Annotated[bytes, Field(min_length=SALT_BYTES, max_length=SALT_BYTES)]
    """Random: equal arrays have different digests."""
    payload: Annotated[bytes, Field(max_length=ITEM_BYTES)]

    @classmethod
    def length(cls, side: int) -> int:
        """Bytes of the array."""
        return cls.fixed_bytes + cls.pixel_bits * side * side // 8

    def fault(self) -> str | None:
        """What is wrong with an array of the right length; None where nothing is."""
        return None

    @model_validator(mode="after")
    def _sized(self) -> Self:
        if len(self.payload) != self.length(self.side):
            raise ValueError(
                f"the array of this kind has {self.length(self.side)} bytes at {self.side} pixels "
                f"a side, found {len(self.payload)}"
            )
        if (fault := self.fault()) is not None:
            raise ValueError(fault)
        if (self.part == 0) != (self.name == "background") and self.name != "edges":
            raise ValueError(f"part {self.part} has no items of the kind {self.name!r}")
        return self

    @classmethod
    def _pack(cls, part: int, side: int, values: NDArray[Any]) -> Self:
        salt = secrets.token_bytes(SALT_BYTES)
        fields = {"part": part, "side": side, "salt": salt, "payload": values.tobytes()}
        try:
            return cls.model_validate(fields)
        except ValidationError as error:
            raise WireError(f"the {cls.name} cannot be sent: {first_problem(error)}") from None

    def _numbers(self, *shape: int) -> NDArray[np.uint8]:
        return np.frombuffer(self.payload, np.uint8).reshape(shape)


class BoxItem(Item):
    """L1: where the object is, as left, top, right and bottom on a grid of 16 x 16 cells.

    uint8 each, left below right and top below bottom, at most 16.
    """

    code: ClassVar[int] = 1
    name: ClassVar[str] = "box"
    fixed_bytes: ClassVar[int] = 4

    def fault(self) -> str | None:
        """A box must be on the grid, and not empty."""
        left, top, right, bottom = self.payload
        inside = left < right <= BOX_CELLS and top < bottom <= BOX_CELLS
        return None if inside else "the box is empty or not on the grid"

    @classmethod
    def of(cls, part: int, side: int, box: NDArray[Any]) -> Self:
        """(4,) left, top, right, bottom in pixels; it grows to the grid, never shrinks.

        Raises:
            WireError: It is empty or outside of the image.
        """
        sides = np.asarray(box, np.float64)
        if sides.shape != (4,) or not (0 <= sides.min() <= sides.max() <= side):
            raise WireError(f"a box has four sides within 0 and {side} pixels: clip it first")
        if (sides[:2] >= sides[2:]).any():
            raise WireError("a box has its left side below its right one, its top below its bottom")
        cells = sides * BOX_CELLS / side
        snapped = np.concatenate([np.floor(cells[:2]), np.ceil(cells[2:])])
        return cls._pack(part, side, snapped.astype(np.uint8))

    def box(self) -> NDArray[np.float32]:
        """(4,) left, top, right, bottom in pixels."""
        return (self._numbers(4) * (self.side / BOX_CELLS)).astype(np.float32)


class PoseItem(Item):
    """L1: the object's keypoints, 17 slots of x, y and visibility, uint8 each.

    x and y are in 1/255 of the side. Visibility is 0 or 1; a slot of 0 is all 0.
    """

    code: ClassVar[int] = 2
    name: ClassVar[str] = "pose"
    fixed_bytes: ClassVar[int] = 3 * POSE_SLOTS

    def fault(self) -> str | None:
        """Unseen keypoints hold nothing."""
        slots = self._numbers(POSE_SLOTS, 3)
        empty = slots[:, 2] == 0
        if slots[:, 2].max() > 1 or slots[empty].any():
            return "the visibility of a keypoint is 0 or 1, and at 0 its position is 0"
        return None

    @classmethod
    def of(cls, part: int, side: int, points: NDArray[Any]) -> Self:
        """(k, 3) x and y in pixels, and a score that is above 0 where the keypoint is visible.

        The keypoints are in the order of the request's skeleton, k <= 17.

        Raises:
            WireError: There are more, or a visible one is outside of the image.
        """
        values = np.asarray(points, np.float64)
        if values.ndim != 2 or values.shape[1] != 3 or len(values) > POSE_SLOTS:
            raise WireError(f"a pose is (k, 3) with k <= {POSE_SLOTS}, not {values.shape}")
        visible = values[:, 2] > 0
        at = values[visible, :2]
        if not np.isfinite(at).all() or (at < 0).any() or (at > side).any():
            raise WireError("a visible keypoint is outside of the image: mark it as not visible")
        slots = np.zeros((POSE_SLOTS, 3), np.uint8)
        slots[: len(values)][visible, :2] = np.rint(at * (255 / side))
        slots[: len(values), 2] = visible
        return cls._pack(part, side, slots)

    def points(self) -> NDArray[np.float32]:
        """(17, 3) x and y in pixels, and 1 where the keypoint is visible."""
        slots = self._numbers(POSE_SLOTS, 3).astype(np.float32)
        slots[:, :2] *= self.side / 255
        return slots


class EdgesItem(Item):
    """L1: the edges of the part alone, 1 bit a pixel, the first pixel in the highest bit."""

    code: ClassVar[int] = 3
    name: ClassVar[str] = "edges"
    pixel_bits: ClassVar[int] = 1

    @classmethod
    def of(cls, part: int, edges: NDArray[np.bool_]) -> Self:
        """(side, side) bool, True on an edge.

        Raises:
            WireError: It has another type or shape.
        """
        _require(edges, np.bool_, 2)
        return cls._pack(part, len(edges), np.packbits(edges))

    def edges(self) -> NDArray[np.bool_]:
        """(side, side) bool, True on an edge."""
        bits = np.unpackbits(self._numbers(len(self.payload)))
        return bits.reshape(self.side, self.side).astype(bool)


class TargetItem(Item):
    """L2: the object's segment. RGB of all pixels, uint8, then its mask, 1 bit a pixel.

    Every pixel outside of the mask is grey (127, 127, 127): nothing else of the photo is in it.
    """

    code: ClassVar[int] = 4
    name: ClassVar[str] = "target"
    pixel_bits: ClassVar[int] = 25

    def fault(self) -> str | None:
        """Outside of the mask there is grey alone."""
        outside = self.image()[~self.mask()]
        return None if (outside == FILL).all() else f"pixels outside of the mask are not {FILL}"

    @classmethod
    def of(cls, part: int, image: NDArray[np.uint8], mask: NDArray[np.bool_]) -> Self:
        """(side, side, 3) uint8 of which only what is inside the (side, side) mask is sent.

        Raises:
            WireError: The arrays have another type or shape.
        """
        _require(image, np.uint8, 3)
        _require(mask, np.bool_, 2)
        if image.shape[:2] != mask.shape:
            raise WireError(f"an image of {image.shape[:2]} has a mask of {mask.shape}")
        pixels = np.where(mask[..., None], image, np.uint8(FILL))
        return cls._pack(part, len(image), np.concatenate([pixels.ravel(), np.packbits(mask)]))

    def image(self) -> NDArray[np.uint8]:
        """(side, side, 3) uint8, grey outside of the segment."""
        area = self.side * self.side
        return self._numbers(len(self.payload))[: 3 * area].reshape(self.side, self.side, 3)

    def mask(self) -> NDArray[np.bool_]:
        """(side, side) bool, True on the segment."""
        bits = np.unpackbits(self._numbers(len(self.payload))[3 * self.side * self.side :])
        return bits.reshape(self.side, self.side).astype(bool)


class BackgroundItem(Item):
    """L2: the background as RGB, uint8, its holes filled before. There is no mask."""

    code: ClassVar[int] = 5
    name: ClassVar[str] = "background"
    pixel_bits: ClassVar[int] = 24

    @classmethod
    def of(cls, image: NDArray[np.uint8]) -> Self:
        """(side, side, 3) uint8.

        Raises:
            WireError: It has another type or shape.
        """
        _require(image, np.uint8, 3)
        return cls._pack(0, len(image), image)

    def image(self) -> NDArray[np.uint8]:
        """(side, side, 3) uint8."""
        return self._numbers(self.side, self.side, 3)


ITEMS: dict[int, type[Item]] = {
    kind.code: kind for kind in (BoxItem, PoseItem, EdgesItem, TargetItem, BackgroundItem)
}
"""The kinds of item by the code in their header."""


def _require(array: NDArray[Any], kind: type, axes: int) -> None:
    shape = array.shape
    square = len(shape) == axes and shape[0] == shape[1] and shape[2:] in ((), (3,))
    if array.dtype != kind or not square or shape[0] not in SIDES:
        raise WireError(
            f"an array of {np.dtype(kind)} with {axes} axes and one of {SIDES} pixels a side is "
            f"sent, not {array.dtype} of shape {shape}: resize it first"
        )


def first_problem(error: ValidationError) -> str:
    """The first thing that a model refused, by its field; never what stood there."""
    problem = error.errors(include_url=False, include_input=False, include_context=False)[0]
    unknown = problem["type"] == "extra_forbidden"  # its name would be the sender's text
    at = ".".join(str(step) for step in problem["loc"][: -1 if unknown else None])
    said = problem["msg"].removeprefix("Value error, ")
    return f"{at}: {said}" if at else said


def encode_item(item: Item) -> bytes:
    """The header, then the array."""
    header = _HEADER.pack(
        MAGIC,
        WIRE_VERSION,
        item.code,
        item.part,
        item.side.bit_length() - 1,
        item.salt,
        len(item.payload),
        0,
    )
    return header + item.payload


def decode_item(data: bytes) -> Item:
    """The item of these bytes, all of them.

    Raises:
        WireError: They are not exactly one item.
    """
    if not HEADER_BYTES < len(data) <= ITEM_BYTES:
        raise WireError(f"an item has {HEADER_BYTES + 4} to {ITEM_BYTES} bytes, not {len(data)}")
    magic, version, code, part, log2_side, salt, length, rest = _HEADER.unpack_from(data)
    if magic != MAGIC or version != WIRE_VERSION or rest != 0 or code not in ITEMS:
        raise WireError("the bytes do not begin with the header of an item of this version")
    if length != len(data) - HEADER_BYTES:
        raise WireError("the header of an item states another length than it has")
    fields = {"part": part, "side": 1 << min(log2_side, 63), "salt": salt}
    try:
        return ITEMS[code].model_validate({**fields, "payload": data[HEADER_BYTES:]})
    except ValidationError as error:
        raise WireError(f"the item is not valid: {first_problem(error)}") from None


def item_digest(data: bytes) -> str:
    """BLAKE2b of an encoded item, 64 hexadecimal digits."""
    return blake2b(data, digest_size=32, person=b"understudy-item").hexdigest()
