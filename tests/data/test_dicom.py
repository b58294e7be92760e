import logging
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydicom.pixels import processing
from tests.data.dicom_files import CANARIES, dicom, hospital, jpeg_2000, saved
from tests.data.samples import units_of

from understudy.core.errors import SourceError
from understudy.data import open_source
from understudy.data.dicom import dicom_header, dicom_image, dicom_pixel_bytes
from understudy.data.encoded_images import RecordSource
from understudy.data.holdout import HoldOut, split
from understudy.data.image_decoding import BadImage
from understudy.data.reading_options import AS_STORED, Reading, Window
from understudy.testing.source_suite import KEY, read_all, sound_rows

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


@pytest.mark.parametrize(("bits", "dtype"), [(12, "u2"), (16, "u2"), (16, "i2"), (8, "u1")])
def test_without_a_window_all_stored_bits_are_shown(bits: int, dtype: str) -> None:
    low = -(2 ** (bits - 1)) if dtype == "i2" else 0
    values = np.array([[low, low + 2**bits - 1]]).astype(dtype)
    assert shown(dicom(values, bits=bits)).tolist() == [[0, 255]]
    narrow = dicom(values // 2, bits=bits)  # the range of the pixels themselves is no window
    assert shown(narrow).max() < 200


def test_monochrome1_is_inverted() -> None:
    two, one = (
        dicom(RAMP, kind=f"MONOCHROME{n}", WindowCenter=900, WindowWidth=800) for n in (2, 1)
    )
    np.testing.assert_array_equal(shown(one), 255 - shown(two))


def test_colour_palettes_and_planes() -> None:
    colour = np.random.default_rng(0).integers(0, 256, (6, 4, 3)).astype(np.uint8)
    image = dicom(colour, modality="US", kind="RGB", bits=8)
    np.testing.assert_array_equal(shown(image), colour)
    planes = dicom(colour, modality="US", kind="RGB", bits=8, PlanarConfiguration=1)
    planes.PixelData = colour.transpose(2, 0, 1).tobytes()
    np.testing.assert_array_equal(shown(planes), colour)
    palette = dicom(np.array([[0, 1]], np.uint8), modality="US", kind="PALETTE COLOR", bits=8)
    for name, values in (("Red", [0, 65_535]), ("Green", [0, 0]), ("Blue", [65_535, 0])):
        setattr(palette, f"{name}PaletteColorLookupTableDescriptor", [2, 0, 16])
        table = np.array(values, np.uint16).tobytes()
        setattr(palette, f"{name}PaletteColorLookupTableData", table)
    assert shown(palette).tolist() == [[[0, 0, 255], [255, 0, 0]]]


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
    values, _, _ = sound_rows(every)
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
    sound_rows(source)
    assert source.classes == ("ct", "mr", "us")
    assert source.shape == (8, 8, 3)
    assert isinstance(source, RecordSource)
    assert source.burnt_in == 6  # ultrasound says nothing of burnt-in text, and often has it
    assert source.window_premise == ("that of each file", False)
    assert open_source(f"{tmp_path}?window=40,400").window_premise == ([40.0, 400.0], True)  # type: ignore[attr-defined]


def test_stated_burnt_in_text_is_believed(tmp_path: Path) -> None:
    for name, stated in (("a", "YES"), ("b", "NO")):
        image = dicom(RAMP, modality="US", BurnedInAnnotation=stated)
        saved(image, tmp_path / name / "x.dcm")
    assert open_source(tmp_path).burnt_in == 1  # type: ignore[attr-defined]


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


def test_a_manifest_may_name_dicom_files(tmp_path: Path) -> None:
    hospital(tmp_path / "scans", 2)
    files = sorted((tmp_path / "scans" / "ct").iterdir())
    lines = [f"scans/ct/{file.name},{row % 2}" for row, file in enumerate(files)]
    (tmp_path / "manifest.csv").write_text("\n".join(["path,label", *lines]))
    source = open_source(tmp_path, unit="PatientID")
    assert source.classes == ("0", "1")
    assert len(set(units_of(source))) == 2


def test_no_warning_or_log_of_the_reader_comes_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    """Values that break the standard, of which pydicom warns with the value itself."""
    for name in ("a", "b"):
        image = dicom(RAMP, WindowCenter=1, WindowWidth="123456789012")
        path = saved(image, tmp_path / name / "x.dcm")
        broken = path.read_bytes().replace(b"123456789012", b"CANARY-WIDTH")
        path.write_bytes(broken.replace(b"19000101", b"CANARY!!"))
    caplog.set_level(logging.DEBUG)
    with pytest.raises(SourceError, match=r"damaged.*DICOM file \(ValueError\)") as caught:
        read_all(open_source(tmp_path))
    assert "CANARY" not in caplog.text + "".join(capfd.readouterr()) + str(caught.value)
