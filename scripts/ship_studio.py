"""Put trained weights into the package: the networks, their sums, and nothing of the training.

Usage: python scripts/ship_studio.py STUDIO          the mini studio
       python scripts/ship_studio.py STUDIO photo    the autoencoder, pose estimator and segmenter
                                                     of photos, or whichever are there
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

EMBEDDED = Path(__file__).parents[1] / "src/understudy/backends/embedded"
SUMS, CARD = "SHA256SUMS", "README.md"
MOST = {"studio": 40_000_000, "photo": 25_000_000}
"""Bytes in all."""


def ship(studio: Path) -> None:
    """Copy a studio's networks over those in the package, each in its folder.

    Raises:
        SystemExit: The studio is not complete, or too large.
    """
    folders = sorted(path for path in studio.iterdir() if path.is_dir() and path.name != "work")
    if missing := {"clip", "vae", "unet", "inpainting", "segmenter"} - {f.name for f in folders}:
        sys.exit(f"{studio} is not complete; missing: {sorted(missing)}")
    check_size("studio", folders)
    weights = EMBEDDED / "studio" / "weights"
    for folder in folders:
        shutil.rmtree(weights / folder.name, ignore_errors=True)
        shutil.copytree(folder, weights / folder.name)
    write_sums(weights)


def ship_photo(studio: Path) -> None:
    """Copy the networks of photographs over those in the package.

    Raises:
        SystemExit: None is there, or they are too large.
    """
    weights = EMBEDDED / "photo" / "weights"
    places = {"vae": weights, **{name: weights / name for name in ("pose", "segmenter")}}
    done = {studio / n: to for n, to in places.items() if (studio / n / "config.json").is_file()}
    if not done:
        sys.exit(f"{studio} holds no folder {', '.join(places)} that is done")
    check_size("photo", list(done))
    for folder, place in done.items():
        shutil.copytree(folder, place, dirs_exist_ok=True)
    write_sums(weights)


def check_size(name: str, folders: Sequence[Path]) -> None:
    size = sum(file.stat().st_size for folder in folders for file in folder.rglob("*"))
    if size > MOST[name]:
        sys.exit(f"{size:,} bytes of at most {MOST[name]:,}")


def write_sums(weights: Path) -> None:
    """The sums of everything in a folder but the cards."""
    files = sorted(
        path for path in weights.rglob("*") if path.is_file() and path.name not in (CARD, SUMS)
    )
    lines = []
    for file in files:
        file.chmod(0o644)
        total = hashlib.sha256(file.read_bytes()).hexdigest()
        lines.append(f"{total}  {file.relative_to(weights).as_posix()}")
    (weights / SUMS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(files)} files, {sum(file.stat().st_size for file in files):,} bytes")


if __name__ == "__main__":
    {"studio": ship, "photo": ship_photo}[(sys.argv[2:] or ["studio"])[0]](Path(sys.argv[1]))
