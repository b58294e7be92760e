"""Photos of the device: decoded once, by one door, whether from a folder, a camera or an upload.

A photo is turned upright, laid on white, cropped to a square and stored as an array of the wire's
size. Nothing else of its file is stored: no EXIF, no name, no time. Labelled photos are for
measuring and training on the device; they are never references, so no pixel of them is ever sent.
"""

from __future__ import annotations

import hashlib
import io
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Literal

import numpy as np

from understudy.core.errors import InputError, SourceError, escaped
from understudy.core.types import Batch, Images, Labels, Shape
from understudy.data.image_decoding import BadImage, DeepImage, decode
from understudy.data.image_files import is_image_name, is_litter
from understudy.data.reading_options import ImageFit, Reading
from understudy.device.home_folder import DeviceHome, DeviceSettings, write_file
from understudy.methods.sanitize.wire_items import SIDES

_INDEX = "photos.json"


@dataclass(frozen=True, slots=True)
class StoredPhoto:
    """What the device knows of a photo beside its pixels.

    Attributes:
        id: Random; the name of its array.
        label: The owner's label; None for a reference.
        digest: Keyed digest of the file that it was read from, 16 bytes in hexadecimal: the ledger
            recognises a dataset by these, and a photo that is added again is passed over.
    """

    id: str
    label: str | None
    digest: str


@dataclass(frozen=True, slots=True)
class PhotoFile:
    """A file of a photo that is to be added, with the owner's label; None for a reference."""

    path: Path
    label: str | None = None


@dataclass(frozen=True, slots=True)
class AddedPhotos:
    """What became of photos that were to be added; ``faults``: why others were not, each."""

    added: int
    repeats: int
    faults: tuple[str, ...]
    references: int
    labelled: int


@dataclass(frozen=True, slots=True)
class PhotoSet:
    """Some photos of the device.

    Attributes:
        images: (n, side, side, 3) uint8.
        labels: Of each; "" for a reference.
    """

    ids: tuple[str, ...]
    images: Images
    labels: tuple[str, ...]

    def classes(self) -> tuple[str, ...]:
        """The labels that there are, in the order of letters."""
        return tuple(sorted(set(self.labels)))


def photo_files(place: Path, *, labelled: bool = False) -> list[PhotoFile]:
    """The photos of a folder, or one file.

    With ``labelled`` a place has one folder a class, whose names are the labels.

    Raises:
        SourceError: Nothing is there, or no image.
    """
    if not place.exists():
        raise SourceError("no such file or folder", place)
    if labelled:
        folders = [one for one in sorted(place.iterdir()) if one.is_dir()] if place.is_dir() else []
        files = [
            PhotoFile(path, folder.name)
            for folder in folders
            for path in _image_paths(folder)
            if not is_litter(folder.name)
        ]
        remedy = "labelled photos lie in one folder a class, such as eating/1.jpg"
    else:
        files = [PhotoFile(path) for path in (_image_paths(place) if place.is_dir() else [place])]
        remedy = (
            "add a JPEG, PNG, WebP, TIFF, BMP or GIF file, or a folder of such files; where it has "
            "one folder a class, --labelled"
        )
    if not files:
        raise SourceError(f"holds no photo: {remedy}", place)
    return files


def _image_paths(folder: Path) -> list[Path]:
    return [
        path
        for path in sorted(folder.iterdir())
        if path.is_file() and is_image_name(path.name) and not is_litter(path.name)
    ]


def add_photos(
    home: DeviceHome,
    files: Sequence[PhotoFile],
    *,
    side: int | None = None,
    fit: ImageFit = "crop",
    ledger: str | None = None,
) -> AddedPhotos:
    """Decode photos and store them; the ledger knows them from then on.

    Two processes may do this at once: one waits for the other. One that is killed leaves the photos
    that were there, and those of its own once all of them are known to the ledger.

    Args:
        home: The device.
        files: Encoded photos.
        side: Pixels a side; None for what was settled before, or 64.
        fit: What happens to a photo that is no square.
        ledger: Where disclosures will stand; None for what was settled before, or the owner's own.

    Raises:
        SourceError: Not one of the files could be read.
        InputError: Another side or ledger than that of the photos that are there.
    """
    with home.locked():
        settings = _settings_for(home, side, ledger)
        index = stored_photos(home)
        count, faults = len(index), list[str]()
        labels = {photo.digest: photo.label for photo in index}
        by_pixels = {_shown(home.path("photos", one.id).read_bytes()): one.label for one in index}
        with settings.open_ledger() as book:
            for file in files:
                name = escaped(file.path.name)
                try:
                    photo, image = _decoded(file, settings.side, fit, book.key)
                except BadImage as error:
                    faults.append(f"{name} {error}")
                    continue
                pixels = _shown(image)
                before = labels.get(photo.digest, by_pixels.get(pixels, photo.label))
                if before != photo.label:
                    faults.append(f"{name} {_already(before)}")
                elif photo.digest not in labels:
                    labels[photo.digest] = by_pixels[pixels] = photo.label
                    write_file(home.path("photos", photo.id), image)
                    index.append(photo)
            if not index:
                raise SourceError(f"no photo could be read: {'; '.join(faults[:3])}")
            dataset = book.register(PhotoRecords(home, index, settings.side)).id
        home.write("settings.json", asdict(replace(settings, dataset=dataset)))
        home.write(_INDEX, [asdict(photo) for photo in index])
        names = {photo.id for photo in index}  # others a process left that was killed before this
        for path in home.path("photos").glob("*"):
            if path.name not in names:
                path.unlink()
    additions = len(index) - count
    labelled = sum(photo.label is not None for photo in index)
    repeats = len(files) - len(faults) - additions
    return AddedPhotos(additions, repeats, tuple(faults), len(index) - labelled, labelled)


def _settings_for(home: DeviceHome, side: int | None, ledger: str | None) -> DeviceSettings:
    """What was settled before, or what is settled now; its dataset may be none yet."""
    if home.read("settings.json", None) is not None:
        before = home.settings
        if side not in (None, before.side) or ledger not in (None, before.ledger):
            raise InputError(
                f"the photos of {home.folder} have {before.side} pixels a side and the ledger "
                f"{before.ledger or 'of this account'}: leave both out, or choose another --home"
            )
        return before
    side = 64 if side is None else side
    if side not in SIDES:
        sides = ", ".join(map(str, SIDES))
        raise InputError(f"photos have {sides} pixels a side on the wire, not {side}")
    return DeviceSettings(side, ledger, "", secrets.token_hex(16))


def _shown(image: bytes) -> bytes:
    """What tells the pixels of a photo, as they are stored, from those of others."""
    return hashlib.sha256(image).digest()


def _already(label: str | None) -> str:
    """What is wrong with a photo that was added before as something else."""
    what = "a reference, of which something may leave" if label is None else f"labelled {label!r}"
    return f"was added before, and stays {what}: another --home begins anew"


def decoded_photo(data: bytes, side: int, fit: ImageFit) -> Images:
    """(side, side, 3) uint8: an encoded photo; of an animated one the first frame.

    Raises:
        BadImage: It is none, or has more than 8 bits a colour.
    """
    first = Reading(frames="first")
    try:
        return decode(data, channels=3, size=(side, side), fit=fit, reading=first)
    except DeepImage as error:
        problem = "has grey values of 16 bits or more, and photos have 8: save it with 8 bits"
        raise BadImage(problem) from error


def _decoded(file: PhotoFile, side: int, fit: ImageFit, key: bytes) -> tuple[StoredPhoto, bytes]:
    """A new photo, and its pixels as the bytes of a ``.npy`` file."""
    data = file.path.read_bytes()
    pixels = decoded_photo(data, side, fit)
    stream = io.BytesIO()
    np.save(stream, pixels, allow_pickle=False)
    digest = hashlib.blake2b(data, digest_size=16, key=key).hexdigest()
    return StoredPhoto(f"{secrets.token_hex(8)}.npy", file.label, digest), stream.getvalue()


def stored_photos(home: DeviceHome) -> list[StoredPhoto]:
    """What the device knows of its photos, in the order in which they were added."""
    return [StoredPhoto(**one) for one in home.read(_INDEX, [])]


def references(home: DeviceHome) -> PhotoSet:
    """The photos without label.

    Raises:
        InputError: There is none.
    """
    photos = [photo for photo in stored_photos(home) if photo.label is None]
    if not photos:
        raise InputError(
            "the device has no photo without a label, and only such photos are references: "
            "understudy device add PHOTOS"
        )
    return _photo_set(home, photos)


def labelled_photos(home: DeviceHome) -> PhotoSet | None:
    """The photos with a label; None where there is none."""
    photos = [photo for photo in stored_photos(home) if photo.label is not None]
    return _photo_set(home, photos) if photos else None


def _photo_set(home: DeviceHome, photos: Sequence[StoredPhoto]) -> PhotoSet:
    arrays = [np.load(home.path("photos", photo.id), allow_pickle=False) for photo in photos]
    return PhotoSet(
        tuple(photo.id for photo in photos),
        np.stack(arrays),
        tuple(photo.label or "" for photo in photos),
    )


class PhotoRecords:
    """The photos as the ledger's fingerprint reads them: a `core.ports.Source`."""

    kind: Literal["images", "embeddings"] = "images"
    classes: tuple[str, ...] = ("all",)
    has_units: bool = False
    skipped: int = 0

    def __init__(self, home: DeviceHome, photos: Sequence[StoredPhoto], side: int) -> None:
        # The ledger shows a dataset by its first name: one that has doubled is a new one there.
        self.name = f"photos of the device {home.folder.name}, {len(photos)} at first"
        self.shape: Shape = (side, side, 3)
        self._home, self._photos = home, photos

    def __len__(self) -> int:
        return len(self._photos)

    def batches(self, size: int) -> Iterator[Batch]:
        """Every photo in order."""
        for start in range(0, len(self._photos), size):
            images = _photo_set(self._home, self._photos[start : start + size]).images
            labels: Labels = np.zeros(len(images), dtype=np.int64)
            yield Batch(images, labels)

    def digests(self, key: bytes) -> Iterator[bytes]:
        """Those of the files, as they were when the photos were added."""
        return (bytes.fromhex(photo.digest) for photo in self._photos)
