"""The device's folder: what the owner's machine stores of photos, requests, jobs and models.

    settings.json            pixels a side, the ledger, the dataset's id there
    photos.json, photos/     the photos as arrays under random names, and what each is
    request.json             what model is wanted, and how much may leave for it
    segments.npz, review/    where the objects are, and sheets of it
    preview/                 what would leave, drawn from the bytes that would be sent
    outbox/DIGEST/           what was previewed, to be sent as it is; states of its jobs, receipts
    offer.json               the preview that may be agreed to, and the server that it is for
    sent.json                what was agreed to, in order, and which server it was for
    servers.json             addresses, keys and tokens of the paired servers
    noise.key                secret that the noise of every photo is derived from
    models/                  models that came back or were trained here, and which one is installed
    lock                     held by the process that changes any of this

A file is written aside, synced and renamed: a crash leaves the old one or the new one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from understudy.core.damaged_files import from_json
from understudy.core.errors import ConfigError, RunError
from understudy.core.files import lock_of, make_private_folder, write_whole
from understudy.privacy.ledger.database import data_folder
from understudy.privacy.ledger.ledger import Ledger

_held = threading.local()


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """What is settled when the first photo is added.

    Attributes:
        side: Pixels a side of every photo and of all that is sent.
        ledger: Path or URL of the ledger; None for the owner's own.
        dataset: Id of the photos in that ledger. Photos that are added later may change it.
        device: Random id of the device, by which its disclosures are known whatever photos it has.
    """

    side: int
    ledger: str | None
    dataset: str
    device: str

    def open_ledger(self) -> Ledger:
        """The ledger that the device's disclosures stand in."""
        return Ledger(self.ledger)


@dataclass(frozen=True, slots=True)
class DeviceHome:
    """The folder, and how files are written in it.

    Attributes:
        folder: It is made for the owner alone (mode 0700).
    """

    folder: Path

    @classmethod
    def of(cls, folder: Path | None = None) -> DeviceHome:
        """The folder of ``--home``; None for ``device`` in the owner's data folder."""
        if folder is None:
            folder = data_folder() / "device"
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder} is a file: --home names a folder")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{folder} cannot be made ({error.strerror}): name another by --home"
            ) from error
        return cls(folder)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder: whoever else wants to change it waits. A process that ends lets go."""
        depths = vars(_held).setdefault("depths", {})
        key = str(self.folder.absolute())
        if depths.get(key, 0):
            depths[key] += 1
            try:
                yield
            finally:
                depths[key] -= 1
            return
        with lock_of(self.path("lock")):
            depths[key] = 1
            try:
                yield
            finally:
                depths[key] = 0

    def path(self, *names: str) -> Path:
        """A path in the folder."""
        return self.folder.joinpath(*names)

    @property
    def settings(self) -> DeviceSettings:
        """What was settled when the first photo was added.

        Raises:
            RunError: None was, or the folder is of an earlier version.
        """
        stored = self.read("settings.json", None)
        if stored is None:
            raise RunError(f"{self.folder} holds no photos yet: understudy device add PHOTOS first")
        try:
            return DeviceSettings(**stored)
        except TypeError:
            raise RunError(
                f"{self.folder} is of an earlier version: begin another folder (--home)"
            ) from None

    def read(self, name: str, default: Any) -> Any:
        """The values of a JSON file, ``default`` where there is none.

        Raises:
            RunError: It was damaged.
        """
        try:
            return from_json(self.path(name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return default
        except ValueError as error:
            raise RunError(f"{self.path(name)} is damaged: restore it or remove it") from error

    def write(self, name: str, values: Mapping[str, Any] | list[Any]) -> None:
        """Write values as JSON, for the owner alone."""
        text = json.dumps(values, indent=1) + "\n"  # ASCII: the name of a folder may be any bytes
        write_file(self.path(name), text.encode("ascii"))


def write_file(path: Path, data: bytes) -> None:
    """Write a file of the home whole or not at all (`write_whole`), and its folders before it."""
    make_private_folder(path.parent)
    write_whole(path, data)
