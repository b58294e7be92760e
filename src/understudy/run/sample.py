"""`understudy sample`: pictures from a sentence, to see what a generator can do."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError, RunError
from understudy.core.ports import Generator
from understudy.report.images import contact_sheet

_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Samples:
    """What was drawn.

    Attributes:
        sheet: All pictures on one sheet, ``sheet.png``.
        pictures: One file each.
    """

    sheet: Path
    pictures: tuple[Path, ...]


def sample(
    prompt: str, *, out: Path, count: int = 16, model: str = "embedded:studio", seed: int = 0
) -> Samples:
    """Draw pictures of a sentence.

    Nothing private is read and nothing is spent.

    Args:
        prompt: What to draw, such as ``"a brown dog sleeping on a sofa, blue wall"``.
        out: Folder of the pictures; made where there is none.
        count: How many.
        model: Any generator; see ``understudy backends``.
        seed: The same seed draws the same pictures.

    Raises:
        ConfigError: The prompt is empty or the count makes no sense.
        RunError: ``out`` holds other things.
        BackendError: There is no such generator.
    """
    if not prompt.strip():
        raise ConfigError("say what to draw: understudy sample 'a brown dog sleeping on a sofa'")
    if not 1 <= count <= _MOST:
        raise ConfigError(f"count is 1 to {_MOST:,}, found {count}")
    if out.is_file() or (out.is_dir() and any(not _ours(path) for path in out.iterdir())):
        raise RunError(f"{out}: holds other things than an earlier sample; choose another --out")
    generator = load_model(Generator, model)
    images = generator.generate([prompt] * count, seed=seed)
    out.mkdir(parents=True, exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    width = len(str(count))
    pictures = tuple(out / f"{at:0{width}d}.png" for at in range(1, count + 1))
    for path, image in zip(pictures, images, strict=True):
        Image.fromarray(image if image.shape[2] == 3 else image[:, :, 0]).save(path)
    sheet = out / "sheet.png"
    sheet.write_bytes(contact_sheet(images))
    return Samples(sheet, pictures)


def _ours(path: Path) -> bool:
    """Whether a file is of an earlier sample."""
    return (
        path.is_file() and path.suffix == ".png" and (path.stem.isdecimal() or path.stem == "sheet")
    )
