"""The files of jobs, each sealed under a key of its own job: destroying the key deletes them all.

Everything that a device sent, and everything that a pipeline made of it, is encrypted before it
touches a disk (AES-256-GCM, in chunks). A job's key is one small file in a folder of its own, which
is overwritten and removed when the job is deleted: copies that a file system, a journal or a backup
may hold of the other files are then noise, whatever a database or a disk does with freed space.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import struct
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from understudy.core.errors import RunError, packages_for
from understudy.core.files import HALF_WRITTEN, sync_folder, write_whole

with packages_for("the server", "server"):
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_CHUNK = 2**20
_TAG, _PREFIX = 16, 7
_COUNTER = struct.Struct(">IB")  # number of the chunk, whether it is the last
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")

WORK = ("items", "stages")
"""What is of no use once the model is there."""


class JobGoneError(RunError):
    """The job was deleted: its key is no more."""


class JobFolders:
    """The sealed files of every job below one folder.

    The folder is made with mode 0700 where it is missing.
    """

    def __init__(self, folder: Path) -> None:
        self._jobs, self._keys = folder / "jobs", folder / "keys"
        for path in (folder, self._jobs, self._keys):
            path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def create(self, job: str) -> None:
        """A new key and an empty folder."""
        (self._jobs / job).mkdir(mode=0o700)
        write_whole(self._keys / job, secrets.token_bytes(32))

    def write(self, job: str, path: str, data: bytes) -> None:
        """Seal a file. It is there whole or not at all, and writing it again changes nothing.

        Raises:
            JobGoneError: The job was deleted.
        """
        sealed = self._seal(job, path, data)
        target = self._jobs / job / path
        try:
            target.parent.mkdir(mode=0o700, exist_ok=True)
            write_whole(target, sealed)
        except FileNotFoundError:
            raise JobGoneError(f"job {job} was deleted") from None

    def read(self, job: str, path: str) -> bytes:
        """The content of a file.

        Raises:
            JobGoneError: The job was deleted, or there is no such file.
            RunError: The file was changed.
        """
        try:
            sealed = (self._jobs / job / path).read_bytes()
        except FileNotFoundError:
            raise JobGoneError(f"job {job} was deleted, or has no {path}") from None
        return self._open(job, path, sealed)

    def exists(self, job: str, path: str) -> bool:
        """Whether a file or a stage is there, whole."""
        return (self._jobs / job / path).exists()

    def names(self, job: str, folder: str) -> set[str]:
        """The whole files of a folder of the job."""
        try:
            return {
                entry.name
                for entry in os.scandir(self._jobs / job / folder)
                if not entry.name.endswith(HALF_WRITTEN)
            }
        except FileNotFoundError:
            return set()

    def write_stage(self, job: str, stage: str, files: Mapping[str, bytes]) -> None:
        """Seal all files of a stage: the stage is there with all of them, or not at all.

        Raises:
            JobGoneError: The job was deleted.
            RunError: The name of a file is not `[a-z0-9][a-z0-9._-]{0,63}`.
        """
        if bad := [name for name in files if not _NAME.fullmatch(name)]:
            raise RunError(f"the stage {stage} names a file {bad[0]!r}: use {_NAME.pattern}")
        target = self._jobs / job / "stages" / stage
        half = target.with_name(f"{stage}-{secrets.token_hex(4)}{HALF_WRITTEN}")
        try:
            target.parent.mkdir(mode=0o700, exist_ok=True)
            half.mkdir(mode=0o700)
            for name, data in files.items():
                write_whole(half / name, self._seal(job, f"stages/{stage}/{name}", data))
            sync_folder(half)
            try:
                half.rename(target)
            except OSError:
                if not target.exists():  # else another worker was faster, with the same files
                    raise
            sync_folder(target.parent)
        except FileNotFoundError:
            raise JobGoneError(f"job {job} was deleted") from None

    def drop_work(self, job: str) -> None:
        """Remove the items and the results of the stages; the model and the submission stay."""
        for name in WORK:
            shutil.rmtree(self._jobs / job / name, ignore_errors=True)

    def destroy(self, job: str) -> None:
        """Destroy the key, then remove the files. Twice is once, also at the same time."""
        key = self._keys / job
        with suppress(FileNotFoundError):  # who removed it had written over it before
            with key.open("r+b", buffering=0) as file:
                file.write(bytes(32))
                os.fsync(file.fileno())
            key.unlink()
            sync_folder(self._keys)
        for _ in range(3):  # a file that was being written may appear while others go
            shutil.rmtree(self._jobs / job, ignore_errors=True)

    def jobs(self) -> set[str]:
        """Every job of which a key or a folder is left."""
        names = {entry for folder in (self._keys, self._jobs) for entry in os.listdir(folder)}
        return {name for name in names if not name.endswith(HALF_WRITTEN)}

    def _cipher(self, job: str) -> AESGCM:
        try:
            key = (self._keys / job).read_bytes()
        except FileNotFoundError:
            raise JobGoneError(f"job {job} was deleted") from None
        if not any(key):  # written over, and removed in a moment
            raise JobGoneError(f"job {job} is being deleted")
        return AESGCM(key)

    def _seal(self, job: str, path: str, data: bytes) -> bytes:
        cipher, prefix = self._cipher(job), secrets.token_bytes(_PREFIX)
        about, sealed = f"{job}/{path}".encode(), [prefix]
        chunks = range(0, max(len(data), 1), _CHUNK)
        for number, start in enumerate(chunks):
            nonce = prefix + _COUNTER.pack(number, start == chunks[-1])
            sealed.append(cipher.encrypt(nonce, data[start : start + _CHUNK], about))
        return b"".join(sealed)

    def _open(self, job: str, path: str, sealed: bytes) -> bytes:
        cipher, prefix = self._cipher(job), sealed[:_PREFIX]
        about, size = f"{job}/{path}".encode(), _CHUNK + _TAG
        starts = range(_PREFIX, len(sealed), size)
        try:
            if not starts:
                raise ValueError("even an empty file has one chunk")
            return b"".join(
                cipher.decrypt(
                    prefix + _COUNTER.pack(number, start == starts[-1]),
                    sealed[start : start + size],
                    about,
                )
                for number, start in enumerate(starts)
            )
        except (InvalidTag, ValueError):
            raise RunError(f"{path} of job {job} was changed on disk: delete the job") from None
