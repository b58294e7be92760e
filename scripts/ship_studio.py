"""Put a trained studio into the package: the networks, their sums, and nothing of the training.

Usage: python scripts/ship_studio.py STUDIO
"""

from __future__ import annotations

import hashlib
import shutil
import sys
from pathlib import Path

WEIGHTS = Path(__file__).parents[1] / "src/understudy/backends/embedded/studio/weights"
SUMS = "SHA256SUMS"
MOST = 40_000_000
"""Bytes in all."""


def ship(studio: Path) -> None:
    """Copy the studio's networks over those in the package and write their sums.

    Raises:
        SystemExit: The studio is not complete, or too large.
    """
    folders = sorted(path for path in studio.iterdir() if path.is_dir() and path.name != "work")
    size = sum(file.stat().st_size for folder in folders for file in folder.rglob("*"))
    missing = {"clip", "vae", "unet", "inpainting", "segmenter"} - {f.name for f in folders}
    if missing or size > MOST:
        sys.exit(f"{studio}: {size:,} bytes of at most {MOST:,}; missing: {sorted(missing)}")
    for folder in folders:
        shutil.rmtree(WEIGHTS / folder.name, ignore_errors=True)
        shutil.copytree(folder, WEIGHTS / folder.name)
        for file in (WEIGHTS / folder.name).rglob("*"):
            file.chmod(0o644)
    files = sorted(p for p in WEIGHTS.rglob("*") if p.is_file() and p.parent != WEIGHTS)
    lines = [
        f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.relative_to(WEIGHTS).as_posix()}"
        for file in files
    ]
    (WEIGHTS / SUMS).write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(files)} files, {size:,} bytes")


if __name__ == "__main__":
    ship(Path(sys.argv[1]))
