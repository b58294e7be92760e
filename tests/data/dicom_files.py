"""DICOM files written with ``pydicom``, full of identifiers that must never come out."""

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, features
from pydicom.dataset import Dataset, FileDataset, FileMetaDataset
from pydicom.encaps import encapsulate
from pydicom.uid import (
    CTImageStorage,
    ExplicitVRLittleEndian,
    JPEG2000Lossless,
    MRImageStorage,
    SecondaryCaptureImageStorage,
    generate_uid,
)

CANARIES = (
    *("CANARY^NAME", "CANARY-ID", "CANARY-ACCESSION", "CANARY HOSPITAL", "CANARY^DOCTOR"),
    *("19000101", "CANARY COMMENT", "CANARY-PRIVATE"),
)
"""What the headers say of the person; a patient's number follows the second."""

CLASSES_OF_STORAGE = {
    "CT": CTImageStorage,
    "MR": MRImageStorage,
    "US": SecondaryCaptureImageStorage,
}


def dicom(
    pixels: np.ndarray,
    *,
    modality: str = "CT",
    kind: str = "MONOCHROME2",
    bits: int = 12,
    patient: int = 0,
    frames: int | None = None,
    **elements: Any,
) -> FileDataset:
    """A file of one image, or of ``frames`` of them, with the patient in its header.

    Args:
        pixels: (height, width[, 3]) numbers, or (frames, height, width[, 3]).
        modality: As the standard abbreviates it.
        kind: The photometric interpretation.
        bits: Bits stored.
        patient: The number of the patient.
        frames: How many images there are.
        elements: Other elements by their keywords; None: leave it out.
    """
    meta = FileMetaDataset()
    meta.MediaStorageSOPClassUID = CLASSES_OF_STORAGE[modality]
    meta.MediaStorageSOPInstanceUID = generate_uid()
    meta.TransferSyntaxUID = ExplicitVRLittleEndian
    image = FileDataset("", Dataset(), file_meta=meta, preamble=bytes(128))
    image.SOPClassUID, image.SOPInstanceUID = CLASSES_OF_STORAGE[modality], generate_uid()
    image.PatientName, image.PatientID = "CANARY^NAME", f"CANARY-ID-{patient}"
    image.PatientBirthDate = image.StudyDate = "19000101"
    image.AccessionNumber, image.InstitutionName = "CANARY-ACCESSION", "CANARY HOSPITAL"
    image.ReferringPhysicianName, image.ImageComments = "CANARY^DOCTOR", "CANARY COMMENT"
    image.private_block(0x0011, "CANARY-PRIVATE", create=True).add_new(1, "LO", "CANARY-PRIVATE")
    image.Modality, image.PhotometricInterpretation = modality, kind
    shape = pixels.shape[1:] if frames else pixels.shape
    image.Rows, image.Columns = shape[:2]
    image.SamplesPerPixel = 3 if len(shape) == 3 else 1
    image.BitsAllocated = 8 if bits <= 8 else 16
    image.BitsStored, image.HighBit = bits, bits - 1
    image.PixelRepresentation = int(pixels.dtype.kind == "i")
    if len(shape) == 3:
        image.PlanarConfiguration = 0
    if frames:
        image.NumberOfFrames = frames
    stored = pixels.astype(f"{pixels.dtype.kind}{image.BitsAllocated // 8}")
    image.PixelData = stored.tobytes() + bytes(stored.nbytes % 2)
    for keyword, value in elements.items():
        if value is None:
            delattr(image, keyword)
        else:
            setattr(image, keyword, value)
    return image


def jpeg_2000(pixels: np.ndarray, **elements: Any) -> FileDataset:
    """A file of (height, width) uint8 numbers, compressed without loss by Pillow."""
    file = BytesIO()
    Image.fromarray(pixels).save(file, "JPEG2000", no_jp2=True)
    image = dicom(pixels, bits=8, **elements)
    image.PixelData = encapsulate([file.getvalue()])
    image["PixelData"].is_undefined_length = True
    image.file_meta.TransferSyntaxUID = JPEG2000Lossless
    return image


def saved(image: FileDataset, path: Path) -> Path:
    """Write a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save_as(path, enforce_file_format=True)
    return path


def hospital(folder: Path, patients: int = 10, images: int = 2) -> Path:
    """Class folders of three modalities: CT of 12 bits, MR of 16, and colour ultrasound.

    And an MR of 8 bits a patient as JPEG 2000, where Pillow can write it.

    MONOCHROME1 and 2, windows and slopes as scanners write them; persons in the headers alone.
    """
    rng = np.random.default_rng(0)
    for patient in range(patients):
        for number in range(images):
            ct = rng.integers(0, 4096, (8, 8)).astype(np.uint16)
            window = {"WindowCenter": 40, "WindowWidth": 400}
            slope = {"RescaleSlope": 1, "RescaleIntercept": -1024}
            image = dicom(ct, patient=patient, **window, **slope)
            saved(image, folder / "ct" / f"{patient}-{number}.dcm")
            mr = rng.integers(0, 60_000, (8, 8)).astype(np.uint16)
            kind = "MONOCHROME1" if number % 2 else "MONOCHROME2"
            image = dicom(mr, modality="MR", bits=16, kind=kind, patient=patient)
            saved(image, folder / "mr" / f"I{patient}{number}")
            us = rng.integers(0, 256, (8, 8, 3)).astype(np.uint8)
            image = dicom(us, modality="US", kind="RGB", bits=8, patient=patient)
            saved(image, folder / "us" / f"1.2.{patient}.{number}")
        if features.check("jpg_2000"):
            grey = rng.integers(0, 256, (8, 8)).astype(np.uint8)
            image = jpeg_2000(grey, modality="MR", patient=patient)
            saved(image, folder / "mr" / f"J{patient}")
    return folder
