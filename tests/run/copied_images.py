"""Images with shapes of their own, and copies of them as somebody would pass them on."""

import io
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

Change = Callable[[Image.Image], Image.Image]


def photographs(folder: Path, per_class: int = 12, side: int = 48, seed: int = 0) -> Path:
    """``folder/CLASS/N.jpg``: bright and dark spots of many sizes, in colour."""
    rng = np.random.default_rng(seed)
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(per_class):
            image = np.zeros((side, side, 3))
            for cells in (3, 5, 9, 14):
                spots = Image.fromarray(rng.integers(0, 256, (cells, cells, 3), dtype=np.uint8))
                large = spots.resize((side, side), Image.Resampling.BICUBIC)
                image += np.asarray(large, dtype=float) / 4
            pixels = Image.fromarray(image.astype(np.uint8))
            pixels.save(folder / name / f"{number}.jpg", quality=92)
    return folder


def jpeg(image: Image.Image, quality: int) -> Image.Image:
    stream = io.BytesIO()
    image.save(stream, "JPEG", quality=quality)
    return Image.open(io.BytesIO(stream.getvalue())).convert("RGB")


def resized(image: Image.Image, factor: float) -> Image.Image:
    size = round(image.width * factor), round(image.height * factor)
    return image.resize(size, Image.Resampling.LANCZOS)


CHANGES: dict[str, tuple[Change, str]] = {
    "lossless": (lambda image: image, "decoded values"),
    "JPEG 75": (lambda image: jpeg(image, 75), "looks"),
    "JPEG 40": (lambda image: jpeg(image, 40), "looks"),
    "half": (lambda image: resized(image, 0.5), "looks"),
    "larger": (lambda image: resized(image, 1.4), "looks"),
    "mirrored": (ImageOps.mirror, "looks"),
    "turned": (lambda image: image.rotate(90), "looks"),
    "the centre": (lambda image: ImageOps.crop(image, 4), "looks"),
    "grey": (lambda image: image.convert("L"), "looks"),
    "half, mirrored, JPEG 75": (
        lambda image: jpeg(ImageOps.mirror(resized(image, 0.5)), 75),
        "looks",
    ),
}
"""What is done to each image, and what shows that it is the same one."""


def copies(source: Path, folder: Path, change: Change) -> Path:
    """The images of class folders, changed and stored as PNG."""
    for path in sorted(source.rglob("*.jpg")):
        place = folder / path.parent.name
        place.mkdir(parents=True, exist_ok=True)
        change(Image.open(path).convert("RGB")).save(place / f"{path.stem}.png")
    return folder


def with_a_byte(source: Path, folder: Path) -> Path:
    """The same files, each with a byte after its end."""
    shutil.copytree(source, folder)
    for path in folder.rglob("*.jpg"):
        path.write_bytes(path.read_bytes() + b"\0")
    return folder
