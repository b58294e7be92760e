"""NIfTI volumes: slices of them as grey images, along an anatomical axis that the owner names."""

from __future__ import annotations

import gzip
import zlib
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from understudy.data.image_decoding import MAX_BYTES, MAX_PIXELS, BadImage, Header, medical_reader
from understudy.data.reading_options import Reading, Window

if TYPE_CHECKING:  # an extra
    from nibabel.nifti1 import Nifti1Image

NIFTI_SUFFIXES = (".nii", ".nii.gz")  # file names that count as NIfTI

_ADVICE = (
    "is a volume: say which slices are images with '?axis=2&slices=middle' after the name of the "
    "dataset (0 sagittal, 1 coronal, 2 axial; slices=all, N or FIRST:LAST)"
)


def is_nifti(start: bytes) -> bool:
    """Whether a file is a NIfTI volume by its first 352 bytes, compressed or not."""
    return start[344:348] == b"n+1\0" or start[4:8] == b"n+2\0" or start[:2] == b"\x1f\x8b"


def nifti_header(data: bytes | Path, reading: Reading) -> Header:
    """What a volume says of its slices."""
    with medical_reader("NIfTI volume"):
        volume = _volume(data)
        axis, others = _axes(volume, reading)
        _window(volume, reading)
        height, width = (volume.shape[other] for other in reversed(others))
        if not height * width * volume.shape[axis] > 0 or height * width > MAX_PIXELS:
            raise BadImage(f"has slices of {width} x {height}: expected 1 to {MAX_PIXELS:,} pixels")
        return Header(height, width, True, reading.window is not None)


def nifti_slices(data: bytes | Path, reading: Reading) -> range:
    """The slices that are images, by their number along the axis."""
    with medical_reader("NIfTI volume"):
        volume = _volume(data)
        axis, _ = _axes(volume, reading)
        count = int(volume.shape[axis])
        if reading.slices is None:
            return range(count // 2, count // 2 + 1)
        first, last = reading.slices
        last = count if last is None else last
        if last > count:
            raise BadImage(
                f"has {count} slices along axis {reading.axis}, found slices up to {last}"
            )
        return range(first, last)


def nifti_image(data: bytes | Path, reading: Reading, number: int) -> Image.Image:
    """One slice as an image of mode L, its head or its front up."""
    with medical_reader("NIfTI volume"):
        volume = _volume(data)
        values = _slice(volume, reading, number).astype(np.float64)
        if not np.isfinite(values).all():
            raise BadImage(f"holds values that are no numbers in slice {number}")
        pixels = _window(volume, reading).eight_bits(values)
        return Image.fromarray(np.ascontiguousarray(pixels))


def nifti_pixel_bytes(data: bytes | Path, reading: Reading, number: int) -> bytes:
    """The numbers of a slice, and nothing else of the file: for digests."""
    with medical_reader("NIfTI volume"):
        return _slice(_volume(data), reading, number).tobytes()


def _volume(data: bytes | Path) -> Nifti1Image:
    """The volume, its numbers still in its file or in the bytes."""
    import nibabel

    if isinstance(data, bytes):
        content = _inflated(data) if data[:2] == b"\x1f\x8b" else data
    elif data.suffix == ".gz":
        content = _stored(data, data.stat().st_mtime_ns)
    else:
        return _whole(nibabel.load(data), data.stat().st_size)
    kind = nibabel.Nifti2Image if content[4:8] == b"n+2\0" else nibabel.Nifti1Image
    return _whole(kind.from_bytes(content), len(content))


def _whole(volume: Any, length: int) -> Nifti1Image:
    """The volume, if so many bytes can hold it."""
    header = volume.header
    values = int(np.prod(volume.shape, dtype=np.int64)) * header.get_data_dtype().itemsize
    expected = int(volume.dataobj.offset) + values
    if length < expected:
        raise BadImage(f"is cut short: it has {length:,} bytes of {expected:,}")
    checked: Nifti1Image = volume
    return checked


@lru_cache(maxsize=1)
def _stored(path: Path, changed: int) -> bytes:
    """The last compressed volume that was read: its slices come one after another."""
    del changed
    return _inflated(path.read_bytes())


def _inflated(content: bytes) -> bytes:
    with gzip.open(BytesIO(content)) as stream:
        try:
            inflated = stream.read(MAX_BYTES + 1)
        except (OSError, EOFError, zlib.error):
            raise BadImage("is damaged or cut short as a compressed NIfTI volume") from None
    if len(inflated) > MAX_BYTES:
        raise BadImage(f"has over {MAX_BYTES:,} bytes when inflated")
    return inflated


def _axes(volume: Any, reading: Reading) -> tuple[int, tuple[int, int]]:
    """The stored axis to slice along, and the two others in anatomical order."""
    if reading.axis is None:
        raise BadImage(_ADVICE)
    shape = volume.shape
    if len(shape) < 3 or any(length != 1 for length in shape[3:]):
        raise BadImage(f"has the shape {shape}: only volumes of three axes are read")
    order = [int(stored) for stored in np.argsort(_orientation(volume)[:, 0])]
    along = order.pop(reading.axis)
    return along, (order[0], order[1])


def _orientation(volume: Any) -> NDArray[np.float64]:
    """(3, 2) the anatomical axis of each stored one, and its direction."""
    from nibabel.orientations import io_orientation

    orientation: NDArray[np.float64] = np.asarray(
        io_orientation(volume.affine)  # type: ignore[no-untyped-call]
    )
    if not np.isfinite(orientation).all():
        raise BadImage("does not say which way its axes lie (a singular affine)")
    return orientation


def _slice(volume: Any, reading: Reading, number: int) -> NDArray[Any]:
    """(height, width) numbers of one slice: right to left or back to front, and head up."""
    along, (across, up) = _axes(volume, reading)
    directions = _orientation(volume)[:, 1]
    count = volume.shape[along]
    index: list[Any] = [slice(None)] * 3 + [0] * (len(volume.shape) - 3)
    index[along] = number if directions[along] > 0 else count - 1 - number
    plane = np.asarray(volume.dataobj[tuple(index)])
    if plane.ndim != 2:
        raise BadImage("holds values of several numbers each: only grey volumes are read")
    if across > up:
        plane = plane.T
    plane = plane if directions[across] > 0 else plane[::-1]
    plane = plane if directions[up] > 0 else plane[:, ::-1]
    return plane.T[::-1]


def _window(volume: Any, reading: Reading) -> Window:
    """The declared window, else the range that the file says it is shown in."""
    if reading.window is not None:
        return reading.window
    low, high = float(volume.header["cal_min"]), float(volume.header["cal_max"])
    if not high > low:
        values = np.asarray(volume.dataobj)
        raise BadImage(
            "does not say which of its values, in this volume from "
            f"{values.min():,g} to {values.max():,g}, are black and white: say so with "
            "'&window=CENTRE,WIDTH' after the name of the dataset"
        )
    return Window((low + high + 1) / 2, max(1.0, high - low + 1))
