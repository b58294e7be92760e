"""``SHA256SUMS``: the hash of every file of a release, and a signature of them.

The list has the form of ``sha256sum``, so that ``sha256sum --check SHA256SUMS`` reads it. It is
written last, and covers every file of the release but itself and its signature.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from understudy.core.errors import ConfigError, RunError
from understudy.core.files import files_below, read_bounded

CHECKSUMS = "SHA256SUMS"
SIGNATURE = "SHA256SUMS.sig"
"""``ed25519``, the public key and the signature in hexadecimal, on a line."""

_PURPOSE = b"understudy/release/v1\0"


def checksums_of(
    release: Path, digests: Mapping[str, str] = MappingProxyType({})
) -> dict[str, str]:
    """The SHA-256 of every file of a release but the list and its signature, by path.

    Args:
        release: Its folder.
        digests: Those of files that this process wrote, which are not read again.

    Raises:
        RunError: A name that a line cannot hold, or a link, which leads out of the folder.
    """
    sums = {}
    for name in files_below(release):
        if name not in (CHECKSUMS, SIGNATURE):
            if not name.isprintable() or "\\" in name:
                raise RunError(f"{name!r} cannot stand in {CHECKSUMS}: rename the file")
            if name not in digests:
                with open(f"{release}/{name}", "rb", buffering=0) as file:  # twice as fast
                    sums[name] = hashlib.file_digest(file, "sha256").hexdigest()
            else:
                sums[name] = digests[name]
    return sums


def checksums_text(sums: dict[str, str]) -> str:
    """The list: a line for each file, by path."""
    return "".join(f"{digest}  {name}\n" for name, digest in sorted(sums.items()))


def write_checksums(release: Path, digests: Mapping[str, str] = MappingProxyType({})) -> None:
    """Write the list of a release, unsigned then; ``digests`` as in `checksums_of`."""
    (release / SIGNATURE).unlink(missing_ok=True)
    text = checksums_text(checksums_of(release, digests))
    (release / CHECKSUMS).write_text(text, encoding="utf-8")


def checksum_faults(release: Path) -> list[str]:
    """What of a release is not as its list says, a sentence each."""
    try:
        content = read_bounded(release / CHECKSUMS)
    except FileNotFoundError:
        return [f"{CHECKSUMS} is missing: it was removed, or an earlier version wrote this release"]
    except OSError as error:
        return [f"{CHECKSUMS}: cannot be read: {error}"]
    actual = checksums_of(release)
    sums = _listed(content)
    faults = [f"{name}: was removed" for name in sums if name not in actual]
    faults += [f"{name}: was added" for name in actual if name not in sums]
    faults += [
        f"{name}: was changed" for name in actual if sums.get(name, actual[name]) != actual[name]
    ]
    if not faults and content != checksums_text(actual).encode():
        faults.append(f"{CHECKSUMS}: was changed")
    return sorted(faults)


def _listed(content: bytes) -> dict[str, str]:
    """The lines of a list, as far as they can be read."""
    lines = content.decode("utf-8", "replace").split("\n")
    pairs = (line.partition("  ") for line in lines if line)
    return {name: digest for digest, _, name in pairs}


def sign_release(release: Path, key: Path) -> str:
    """Sign the list of a release with a private key; the public key in hexadecimal.

    Args:
        release: Its folder, which is as its list says.
        key: Ed25519, PEM, as ``openssl genpkey -algorithm ed25519`` writes it.

    Raises:
        RunError: The release is not as its list says.
        ConfigError: The file is no such key.
        MissingExtra: The package of signatures is not installed.
    """
    from understudy.methods.sanitize.ed25519 import public_key_of, signature_of

    if faults := checksum_faults(release):
        raise RunError(f"{release}: cannot be signed: {faults[0]}")
    private = _private_key(key)
    public = public_key_of(private)
    signature = signature_of(private, _PURPOSE + (release / CHECKSUMS).read_bytes())
    (release / SIGNATURE).write_text(f"ed25519 {public} {signature}\n", encoding="utf-8")
    return public


def signature_faults(release: Path, key: str | None) -> tuple[str | None, list[str]]:
    """The public key that signed a release, and what is wrong with the signature.

    Args:
        release: Its folder.
        key: The public key that must have signed it: a PEM file, or 64 hexadecimal digits; None:
            any key.

    Raises:
        ConfigError: ``key`` is neither.
        MissingExtra: The package of signatures is not installed, and there is a signature.
    """
    path, owner_key = release / SIGNATURE, None if key is None else _public_key(key)
    if not path.is_file():
        return None, [] if key is None else [f"{SIGNATURE} is missing: nobody signed this release"]
    from understudy.methods.sanitize.ed25519 import signature_fits

    checksums = release / CHECKSUMS
    try:
        text = read_bounded(path).decode("utf-8", "replace")
        signed = _PURPOSE + (read_bounded(checksums) if checksums.is_file() else b"")
    except OSError as error:
        return None, [f"{SIGNATURE}: cannot be checked: {error}"]
    words = text.split(" ")
    public, signature = (words[1], words[2].rstrip("\n")) if len(words) == 3 else ("", "")
    canonical = f"ed25519 {public} {signature}\n" == text and text == text.lower()
    if not canonical or not signature_fits(public, signature, signed):
        return None, [f"{SIGNATURE}: does not fit: it or {CHECKSUMS} was changed after signing"]
    if owner_key is not None and public != owner_key:
        return public, [f"{SIGNATURE}: another key signed this release: {public}"]
    return public, []


def _private_key(path: Path) -> bytes:
    from understudy.methods.sanitize.ed25519 import private_key_of_pem

    try:
        return private_key_of_pem(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the key: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(
            f"{path}: is no private Ed25519 key in PEM without a password. Make one: openssl "
            "genpkey -algorithm ed25519 -out key.pem"
        ) from error


def _public_key(key: str) -> str:
    """The key as 64 hexadecimal digits."""
    if len(key) == 64 and all(digit in "0123456789abcdef" for digit in key.lower()):
        return key.lower()
    from understudy.methods.sanitize.ed25519 import public_key_of_pem

    try:
        return public_key_of_pem(Path(key).read_bytes())
    except OSError as error:
        raise ConfigError(f"{key}: cannot read the key: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(
            f"{key}: is no public Ed25519 key in PEM, nor 64 hexadecimal digits. Write one: "
            "openssl pkey -in key.pem -pubout -out public.pem"
        ) from error
