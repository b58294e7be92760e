"""DICOM files: pixels as a viewer shows them, and nothing of the person.

Only the elements that describe pixels are parsed (`_ELEMENTS`); names, dates and numbers of a
patient are passed over as bytes. A field that names a unit is read by itself (`dicom_field`), where
the owner asks for it or a check counts patients. No message of the reader is passed on, as it may
quote a value.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from understudy.core.types import Images
from understudy.data.image_decoding import (
    MAX_PIXELS,
    BadImage,
    Header,
    byte_stream,
    many_frames,
    medical_reader,
)
from understudy.data.reading_options import Reading, Window, bytes_of

if TYPE_CHECKING:  # an extra
    from pydicom.dataset import FileDataset

DICOM_SUFFIXES = frozenset({".dcm", ".dicom", ".ima"})
"""File names that count as DICOM; others do by their first bytes."""

_ELEMENTS = (
    *("SOPClassUID", "Modality", "SamplesPerPixel", "PhotometricInterpretation", "Rows", "Columns"),
    *("PlanarConfiguration", "NumberOfFrames", "BitsAllocated", "BitsStored", "HighBit"),
    *("PixelRepresentation", "RescaleSlope", "RescaleIntercept", "ModalityLUTSequence"),
    *("VOILUTSequence", "WindowCenter", "WindowWidth", "VOILUTFunction", "BurnedInAnnotation"),
    *("RedPaletteColorLookupTableDescriptor", "GreenPaletteColorLookupTableDescriptor"),
    *("BluePaletteColorLookupTableDescriptor", "RedPaletteColorLookupTableData"),
    *("GreenPaletteColorLookupTableData", "BluePaletteColorLookupTableData"),
    *("SegmentedRedPaletteColorLookupTableData", "SegmentedGreenPaletteColorLookupTableData"),
    *("SegmentedBluePaletteColorLookupTableData", "PixelData"),
)
_GREY_KINDS = ("MONOCHROME1", "MONOCHROME2")
_DRAWN_ON = frozenset({"US", "IVUS", "SC", "OT", "ES", "XC", "GM"})  # usually with text in them
_DEFLATED = "1.2.840.10008.1.2.1.99"


def is_dicom(start: bytes) -> bool:
    """Whether a file is DICOM by its first 132 bytes."""
    return start[128:132] == b"DICM"


def dicom_header(data: bytes | Path, reading: Reading) -> Header:
    """What a file says of its image."""
    with _quiet():
        image = _read(data)
        frames = _frame_count(image)
        if frames > 1 and reading.frames is None:
            raise BadImage(many_frames(frames))
        _require_decoder(image)
        grey = image.PhotometricInterpretation in _GREY_KINDS
        window = reading.window is not None if grey else None
        own = _own_window(image) if window is False else None
        size = int(image.Rows), int(image.Columns)
        return Header(*size, grey, window, _burnt_in(image), own_window=own)


def dicom_frames(data: bytes | Path) -> int:
    """How many frames a file has."""
    with _quiet():
        return _frame_count(_read(data))


def dicom_image(data: bytes | Path, reading: Reading, frame: int = 0) -> Image.Image:
    """One frame as an image of mode L or RGB.

    Rescaled by the modality's slope and intercept or table; then black and white are those of the
    declared window, else of the file's own VOI table or window, else all of its bits.
    """
    with _quiet():
        from pydicom.pixels.utils import pixel_array

        image = _read(data)
        _require_decoder(image)
        values = pixel_array(image, index=frame if _frame_count(image) > 1 else None)
        kind = image.PhotometricInterpretation
        if kind in _GREY_KINDS:
            from pydicom.pixels.processing import apply_modality_lut

            # as the modality means them, such as Hounsfield units
            modality = np.asarray(apply_modality_lut(values, image), dtype=np.float64)
            grey = _shown(image, modality, reading.window)
            return Image.fromarray(255 - grey if kind == "MONOCHROME1" else grey)
        return Image.fromarray(_colours(image, values))


def dicom_pixel_bytes(data: bytes | Path, frame: int = 0) -> bytes:
    """The stored bytes of one frame's pixels, and nothing else of the file: for digests."""
    from pydicom.encaps import get_frame

    with _quiet():
        image = _read(data)
        count = _frame_count(image)
        stored = bytes(image.PixelData)
        if image.file_meta.TransferSyntaxUID.is_compressed:
            return get_frame(stored, frame, number_of_frames=count)
        length = len(stored) // count
        return stored[frame * length : (frame + 1) * length]


def dicom_field(data: bytes | Path, keyword: str) -> str | None:
    """A field that names a unit, such as ``"PatientID"``; None where it is missing or empty."""
    with _quiet():
        value = _parsed(data, [keyword]).get(keyword)
        text = "" if value is None else str(value).strip()
        return text or None


@contextmanager
def _quiet() -> Iterator[None]:
    """No warning and no log of the reader, which quote values; every failure without its text."""
    log = logging.getLogger("pydicom")
    was_disabled, log.disabled = log.disabled, True
    try:
        with medical_reader("DICOM file"):
            yield
    finally:
        log.disabled = was_disabled


def _parsed(data: bytes | Path, elements: Sequence[str]) -> FileDataset:
    from pydicom import filereader
    from pydicom.errors import InvalidDicomError

    with byte_stream(data) as stream:
        try:
            filereader.read_preamble(stream, force=False)
        except InvalidDicomError:
            raise BadImage("has no DICOM header (no DICM at byte 128)") from None
        # The file's own header is group 2.
        meta = filereader.read_dataset(
            stream, False, True, stop_when=lambda tag, *_: tag >> 16 != 2
        )
        if meta.get("TransferSyntaxUID") == _DEFLATED:  # to any length
            raise BadImage("is a deflated DICOM file: inflate it first, such as with dcmconv +te")
        stream.seek(0)
        return filereader.dcmread(stream, specific_tags=list(elements))


def _read(data: bytes | Path) -> FileDataset:
    """The elements that describe pixels; checked, as far as a header can be."""
    image = _parsed(data, _ELEMENTS)
    if "PixelData" not in image:
        raise BadImage("holds no image: a report, a structure or an index (DICOMDIR)")
    if "TransferSyntaxUID" not in image.file_meta:
        raise BadImage("does not say how its pixels are stored (no transfer syntax)")
    rows, columns = int(image.Rows), int(image.Columns)
    if not 0 < rows * columns <= MAX_PIXELS:
        raise BadImage(f"is {columns} x {rows}: expected 1 to {MAX_PIXELS:,} pixels")
    frames, stored = _frame_count(image), len(image.PixelData)
    pixels = 1 if image.file_meta.TransferSyntaxUID.is_compressed else rows * columns
    if frames > 1 and frames * pixels > 8 * stored:  # of one bit at least
        raise BadImage(f"says that it has {frames:,} frames, in {stored:,} bytes of pixels")
    if "PhotometricInterpretation" not in image:
        raise BadImage("does not say what its numbers mean (no photometric interpretation)")
    return image


def _frame_count(image: FileDataset) -> int:
    return max(1, int(image.get("NumberOfFrames") or 1))


def _burnt_in(image: FileDataset) -> bool:
    """Whether text may be burnt in: the file says so, or says nothing and is of such a kind."""
    annotation = str(image.get("BurnedInAnnotation") or "").upper()
    return annotation == "YES" or (not annotation and str(image.get("Modality") or "") in _DRAWN_ON)


def _require_decoder(image: FileDataset) -> None:
    """Refuse a compression that cannot be undone here."""
    from pydicom.pixels.decoders.base import get_decoder

    syntax = image.file_meta.TransferSyntaxUID
    try:
        available = get_decoder(syntax).is_available
    except NotImplementedError:
        available = False
    if not available:
        raise BadImage(
            f"is compressed as {syntax.name}, for which no decoder is installed: pip install "
            "'pylibjpeg[all]', or decompress it first, such as with gdcmconv --raw"
        )


def _shown(
    image: FileDataset, values: NDArray[np.float64], declared: Window | None
) -> NDArray[np.uint8]:
    """Values of the modality as 0..255."""
    if declared is not None:
        return declared.eight_bits(values)
    if image.get("VOILUTSequence"):
        return _by_table(image, values)
    if (own := _own_window(image)) is None:
        return _all_bits(image).eight_bits(values)
    centre, width = own
    function = str(image.get("VOILUTFunction") or "LINEAR").upper()
    if function == "SIGMOID":
        curve = 1 / (1 + np.exp(np.clip(-4 * (values - centre) / width, -700, 700)))
        return bytes_of(curve)
    if function == "LINEAR_EXACT":
        return bytes_of((values - centre) / max(width, 1e-9) + 0.5)
    if width < 1:
        raise BadImage("has a window of a width below 1: declare one with '?window=CENTRE,WIDTH'")
    return Window(centre, width).eight_bits(values)


def _own_window(image: FileDataset) -> tuple[float, float] | None:
    """The first window that a file names, where it names one and no table."""
    centre, width = (_first(image.get(name)) for name in ("WindowCenter", "WindowWidth"))
    if image.get("VOILUTSequence") or centre is None or width is None:
        return None
    return centre, width


def _by_table(image: FileDataset, values: NDArray[np.float64]) -> NDArray[np.uint8]:
    """By the first VOI table; its entries have a number of bits, whose range is black to white."""
    from pydicom.pixels.processing import apply_voi

    bits = int(image.VOILUTSequence[0].LUTDescriptor[2])
    if not 1 <= bits <= 16:
        raise BadImage(f"has a VOI table of {bits} bits")
    grey = apply_voi(np.rint(values).astype(np.int64), image, index=0)
    return bytes_of(grey.astype(np.float64) / (2**bits - 1))


def _all_bits(image: FileDataset) -> Window:
    """From the least to the greatest number that the stored bits can hold, rescaled.

    The range of the pixels themselves would make one image's black depend on its content.
    """
    bits = int(image.BitsStored)
    low = -(2 ** (bits - 1)) if int(image.get("PixelRepresentation") or 0) else 0
    slope, intercept = (
        float(default if image.get(name) is None else image.get(name))
        for name, default in (("RescaleSlope", 1.0), ("RescaleIntercept", 0.0))
    )
    ends = [value * slope + intercept for value in (low, low + 2**bits - 1)]
    width = max(ends) - min(ends) + 1
    return Window((ends[0] + ends[1] + 1) / 2, width)


def _colours(image: FileDataset, values: NDArray[Any]) -> Images:
    """(rows, columns, 3) uint8."""
    bits = int(image.BitsStored)
    if image.PhotometricInterpretation == "PALETTE COLOR":
        from pydicom.pixels.processing import apply_color_lut

        bits = int(image.RedPaletteColorLookupTableDescriptor[2])
        values = apply_color_lut(values, image)[..., :3]
    if values.ndim != 3 or values.shape[2] != 3:
        raise BadImage(
            f"has pixels of a kind that is not known ({image.PhotometricInterpretation})"
        )
    if bits == 8:
        return np.ascontiguousarray(values, dtype=np.uint8)
    return bytes_of(values.astype(np.float64) / (2**bits - 1))


def _first(value: Any) -> float | None:
    """A number, or the first of several; None where there is none."""
    if value is None or value == "":
        return None
    many = isinstance(value, Sequence) and not isinstance(value, str)
    if many and not len(value):
        return None
    number = float(value[0] if many else value)
    if not np.isfinite(number):
        raise BadImage("has a window that is no number: declare one with '?window=CENTRE,WIDTH'")
    return number
