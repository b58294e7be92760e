"""A release as a reader finds it: its folder, its documents, its rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from understudy.core.errors import RunError
from understudy.core.ports import Source
from understudy.core.types import Shape
from understudy.data import open_source


def release_folder(folder: Path) -> Path:
    """The release in a run's folder, or the folder itself if it is one.

    Raises:
        RunError: There is none.
    """
    for candidate in (folder / "release", folder):
        if (candidate / "privacy.json").is_file():
            return candidate
    raise RunError(f"{folder}: holds no release (no privacy.json, here or in release/)")


def open_release(folder: Path, shape: Shape | None) -> Source:
    """A release as a source: its images where it has some, else its embeddings."""
    if shape is None:
        return open_source(folder / "embeddings.safetensors")
    return open_source(folder, size=(shape[0], shape[1]))


def read_json(path: Path) -> dict[str, Any]:
    """A JSON file with an object in it.

    Raises:
        RunError: It cannot be read, or is something else.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path}: cannot be read as JSON: {error}") from error
    if not isinstance(content, dict):
        raise RunError(f"{path}: holds a {type(content).__name__}, not a JSON object")
    return content
