"""``understudy sample``: images of a sentence."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

from PIL import Image

from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError
from understudy.core.ports import Events, Generator
from understudy.report.images import contact_sheet
from understudy.run.progress import ProgressMode, reporting
from understudy.run.safeguards import drawn_anew, require_empty

_MOST = 10_000  # images of a sentence


@dataclass(frozen=True, slots=True)
class Samples:
    """What was drawn."""

    sheet: Path
    image_paths: tuple[Path, ...]


def sample(
    prompt: str,
    *,
    out: Path,
    count: int = 16,
    model: str = "embedded:studio",
    seed: int = 0,
    progress: ProgressMode | Events = "auto",
) -> Samples:
    """Draw images of a sentence.

    Nothing private is read and nothing is spent.

    Raises:
        ConfigError: The prompt is empty or a folder, or the count makes no sense.
        RunError: ``out`` holds something.
        BackendError: There is no such generator.
    """
    if not prompt.strip():
        raise ConfigError("say what to draw: understudy sample 'a brown dog sleeping on a sofa'")
    if Path(prompt).is_dir():
        raise ConfigError(
            f"{prompt} is a folder, and what is drawn is a sentence. More samples of a run: "
            f"understudy resample {shlex.quote(prompt)} --out FOLDER"
        )
    if not 1 <= count <= _MOST:
        raise ConfigError(f"count is 1 to {_MOST:,}, found {count}")
    require_empty(out)
    generator = load_model(Generator, model)
    names = [f"{at:0{len(str(count))}d}.png" for at in range(1, count + 1)]
    with reporting(progress) as events, drawn_anew(out) as draft:
        step = events.step("drawing images", count)
        images = generator.generate([prompt] * count, seed=seed)
        step(count)
        for name, image in zip(names, images, strict=True):
            pixels = image if image.shape[2] == 3 else image[:, :, 0]
            Image.fromarray(pixels).save(draft / name)
        (draft / "sheet.png").write_bytes(contact_sheet(images))
    return Samples(out / "sheet.png", tuple(out / name for name in names))
