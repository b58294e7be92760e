from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydicom.pixels import processing
from tests.data.dicom_files import CANARIES, dicom, hospital, jpeg_2000, saved
from tests.data.samples import KEY, check_source, units_of

from understudy.core.errors import SourceError
from understudy.data import open_source
from understudy.data.dicom import dicom_header, dicom_image, dicom_pixel_bytes
from understudy.data.encoded_images import RecordSource
from understudy.data.holdout import HoldOut, split
from understudy.data.image_decoding import BadImage
from understudy.data.reading_options import AS_STORED, Reading, Window

RAMP = np.arange(4096, dtype=np.uint16).reshape(64, 64)


def encoded(image: Any) -> bytes:
    file = BytesIO()
    image.save_as(file, enforce_file_format=True)
    return file.getvalue()


def shown(image: Any, reading: Reading = AS_STORED) -> np.ndarray:
    return np.asarray(dicom_image(encoded(image), reading))


def by_pydicom(image: Any, window: tuple[float, float] | None = None) -> np.ndarray:
    """What pydicom's own functions make of it, over the range of their output."""
    again = processing.apply_modality_lut(image.pixel_array, image)
    if window is not None:
        image.WindowCenter, image.WindowWidth = window
    out = processing.apply_voi_lut(again, image).astype(float)
    slope, intercept = (
        float(image.get(n, d)) for n, d in (("RescaleSlope", 1), ("RescaleIntercept", 0))
    )
    low, high = (v * slope + intercept for v in (0, 2**image.BitsStored - 1))
    return np.rint(np.clip((out - low) / (high - low), 0, 1) * 255)


@pytest.mark.parametrize("function", ["LINEAR", "LINEAR_EXACT", "SIGMOID"])
@pytest.mark.parametrize("intercept", [0, -1024])
def test_the_file_s_own_window_is_that_of_pydicom(function: str, intercept: int) -> None:
    image = dicom(
        RAMP,
        RescaleSlope=1,
        RescaleIntercept=intercept,
        WindowCenter=[1040 + intercept, 0],
        WindowWidth=[400, 1],
        VOILUTFunction=function,
    )
    pixels = shown(image)
    assert np.abs(pixels - by_pydicom(image)).max() <= 1
    assert pixels.min() == 0
    assert pixels.max() == 255
    assert dicom_header(encoded(image), Reading()).window is False


def test_a_declared_window_comes_first() -> None:
    image = dicom(RAMP, WindowCenter=1, WindowWidth=2, RescaleSlope=2, RescaleIntercept=-100)
    reading = Reading(Window(1000, 500))
    np.testing.assert_array_equal(shown(image, reading), by_pydicom(image, (1000, 500)))
    assert dicom_header(encoded(image), reading).window is True


def test_monochrome1_is_inverted() -> None:
    two, one = (
        dicom(RAMP, kind=f"MONOCHROME{n}", WindowCenter=900, WindowWidth=800) for n in (2, 1)
    )
    np.testing.assert_array_equal(shown(one), 255 - shown(two))


def test_jpeg_2000_comes_back_and_other_compressions_name_a_remedy() -> None:
    from pydicom.uid import JPEGLSLossless

    grey = (RAMP // 16).astype(np.uint8)
    image = jpeg_2000(grey)
    np.testing.assert_array_equal(shown(image), grey)
    image.file_meta.TransferSyntaxUID = JPEGLSLossless
    with pytest.raises(BadImage, match=r"JPEG-LS.*no decoder is installed: pip install"):
        shown(image)


def test_frames_are_refused_or_split(tmp_path: Path) -> None:
    frames = np.random.default_rng(0).integers(0, 4096, (3, 6, 5)).astype(np.uint16)
    for name in ("a", "b"):
        saved(dicom(frames, frames=3), tmp_path / name / "x.dcm")
    with pytest.raises(SourceError, match=r"has 3 frames.*\?frames=first.*\?frames=all"):
        open_source(tmp_path)
    first, every = (open_source(f"{tmp_path}?frames={what}") for what in ("first", "all"))
    assert (len(first), len(every)) == (2, 6)
    values, _, _ = check_source(every)
    one_by_one = [shown(dicom(frame)) for frame in frames]
    np.testing.assert_array_equal(values[:3, :, :, 0], np.stack(one_by_one))
    assert len(set(every.digests(KEY))) == 3
    assert isinstance(every, RecordSource)
    assert every.grouping is not None
    assert every.grouping.option == "unit_from"
    units = units_of(open_source(f"{tmp_path}?frames=all", unit="its file"))
    assert [len(set(part)) for part in (units[:3], units[3:], units)] == [1, 1, 2]


def test_a_hospital_s_folder_is_a_dataset(tmp_path: Path) -> None:
    source = open_source(hospital(tmp_path, 3))
    check_source(source)
    assert source.classes == ("ct", "mr", "us")
    assert source.shape == (8, 8, 3)
    assert isinstance(source, RecordSource)
    assert source.burnt_in == 6  # ultrasound says nothing of burnt-in text, and often has it
    assert source.window_premise == ("that of each file", False)
    assert open_source(f"{tmp_path}?window=40,400").window_premise == ([40.0, 400.0], True)  # type: ignore[attr-defined]


def test_digests_are_of_the_pixels_alone(tmp_path: Path) -> None:
    one, other, different = (
        dicom(RAMP, patient=1),
        dicom(RAMP, patient=2, StudyDate="20200202"),
        dicom(RAMP + 1, patient=1),
    )
    assert dicom_pixel_bytes(encoded(one)) == dicom_pixel_bytes(encoded(other))
    assert dicom_pixel_bytes(encoded(one)) != dicom_pixel_bytes(encoded(different))


def test_a_patient_is_a_unit_on_request_and_never_by_name(tmp_path: Path) -> None:
    hospital(tmp_path, 6, 1)
    source = open_source(tmp_path, unit="PatientID")
    units = units_of(source)
    assert len(set(units)) == 6
    assert not any(canary in unit for unit in units for canary in CANARIES)
    again = units_of(open_source(tmp_path, unit="PatientID"))
    assert not set(units) & set(again)  # each opening has a key of its own
    hold_out = HoldOut(b"k" * 32, 0.5, "PatientID")
    parts, same = split(source, hold_out), split(open_source(tmp_path, unit="PatientID"), hold_out)
    assert list(parts.members.digests(KEY)) == list(same.members.digests(KEY))
    with pytest.raises(SourceError, match="unit column 'Patient'"):
        open_source(tmp_path, unit="Patient")
