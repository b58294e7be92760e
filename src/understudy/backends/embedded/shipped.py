"""The weights in this package, and whether they are still what was shipped."""

from __future__ import annotations

import hashlib
from pathlib import Path

STUDIO_WEIGHTS = Path(__file__).parent / "studio" / "weights"
PHOTO_WEIGHTS = Path(__file__).parent / "photo" / "weights"
ENERGY_WEIGHTS = Path(__file__).parent / "energies" / "weights"
SUMS = "SHA256SUMS"


def is_shipped(folder: Path) -> bool:
    """Whether the weights of a folder are there at all."""
    return (folder / SUMS).is_file()


def digest_of(folder: Path, name: str) -> str:
    """The SHA-256 of a file of a folder, as ``SHA256SUMS`` says it."""
    return _digests(folder)[name]


def damaged(folder: Path) -> list[str]:
    """Names of the files that are missing or are not what ``SHA256SUMS`` says."""
    wrong = []
    for name, expected in _digests(folder).items():
        file = folder / name
        if not file.is_file() or hashlib.sha256(file.read_bytes()).hexdigest() != expected:
            wrong.append(name)
    return wrong


def _digests(folder: Path) -> dict[str, str]:
    """What ``SHA256SUMS`` says of each file."""
    lines = (folder / SUMS).read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
