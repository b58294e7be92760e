"""The public images that a studio is trained on, kept in a folder as plain arrays."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Images

_TARGETS = ("dog", "person", "bottle", "frame")
"""Segments that a picture is of; the others are its surroundings."""

_BELONGINGS = "prop"
"""The segment of what a target eats from, plays with or reads."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Public images with what is known about each.

    Attributes:
        images: (n, height, width, 3) uint8, memory-mapped.
        captions: n lists of captions that say the same in other words.
        segments: (n, height, width) uint8 indices into ``classes``, or None.
        edges: (n, height, width) uint8, 0 or 255, or None.
        poses: (n, height, width, 3) uint8 drawn skeletons, or None.
        attributes: For each image, a value of each attribute that is known, or empty mappings.
        surroundings: n lists of captions of the images as they would be without what they are of;
            empty where these are not known.
        held_out: How many of the last rows are kept from training, to measure on.
        origin: What it was drawn or read from, in words; empty where nothing says it.
    """

    images: Images
    captions: tuple[tuple[str, ...], ...]
    segments: NDArray[np.uint8] | None = None
    edges: NDArray[np.uint8] | None = None
    poses: Images | None = None
    classes: tuple[str, ...] = ()
    attributes: tuple[Mapping[str, str], ...] = ()
    surroundings: tuple[tuple[str, ...], ...] = ()
    held_out: int = 0
    origin: str = ""

    def __len__(self) -> int:
        """Rows to train on."""
        return len(self.images) - self.held_out

    def last(self, count: int) -> NDArray[np.int64]:
        """The first ``count`` rows of those held out, or the last rows where none are."""
        start = len(self) if self.held_out >= count else len(self.images) - count
        return np.arange(max(0, start), min(len(self.images), max(0, start) + count))

    def targets(self, rows: NDArray[np.int64], *, belongings: bool = False) -> NDArray[np.bool_]:
        """Where the pictures show what they are of: (n, height, width); nowhere if not known.

        With ``belongings``, what belongs to a target, such as its bowl, counts as a part of it.
        """
        if self.segments is None:
            return np.zeros((len(rows), *self.images.shape[1:3]), dtype=bool)
        names = (*_TARGETS, _BELONGINGS) if belongings else _TARGETS
        mask = np.zeros(256, dtype=bool)
        mask[[at for at, name in enumerate(self.classes) if name in names]] = True
        return mask[self.segments[rows]]


@dataclass(frozen=True, slots=True)
class CorpusRow:
    """One row to be written; see `Corpus`."""

    image: Images
    captions: Sequence[str]
    segments: NDArray[np.uint8] | None = None
    edges: NDArray[np.uint8] | None = None
    pose: Images | None = None
    attributes: Mapping[str, str] | None = None
    surroundings: Sequence[str] = ()


def write_corpus(
    folder: Path,
    rows: Iterator[CorpusRow],
    count: int,
    *,
    classes: Sequence[str] = (),
    held_out: int = 0,
    origin: str = "",
) -> None:
    """Write ``count`` rows; the last file written marks the folder as complete."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "corpus.json").unlink(missing_ok=True)
    arrays: dict[str, NDArray[np.uint8]] = {}
    written = 0
    with (folder / "texts.jsonl").open("w") as texts:
        for at, row in zip(range(count), rows, strict=False):
            every = {
                "images": row.image,
                "segments": row.segments,
                "edges": row.edges,
                "poses": row.pose,
            }
            parts = {key: value for key, value in every.items() if value is not None}
            if at == 0:
                for key, value in parts.items():
                    file, shape = folder / f"{key}.npy", (count, *value.shape)
                    arrays[key] = np.lib.format.open_memmap(file, "w+", np.uint8, shape)
            if parts.keys() != arrays.keys():
                raise ConfigError(
                    f"image {at} of the training set has {', '.join(sorted(parts))}, the first "
                    f"one {', '.join(sorted(arrays))}: all must have the same"
                )
            for key, value in parts.items():
                arrays[key][at] = value
            line = {
                "captions": list(row.captions),
                "attributes": dict(row.attributes or {}),
                "surroundings": list(row.surroundings),
            }
            texts.write(json.dumps(line) + "\n")
            written = at + 1
    if written < count:
        raise ConfigError(f"the training set has {written} images, {count} were asked for")
    for array in arrays.values():
        array.flush()  # type: ignore[attr-defined]  # np.memmap
    about = {"count": count, "classes": list(classes), "held_out": held_out, "origin": origin}
    (folder / "corpus.json").write_text(json.dumps(about))


def read_corpus(folder: Path) -> Corpus | None:
    """The corpus in a folder; None where it is not, or not completely, there.

    Raises:
        ConfigError: A file of it is cut off.
    """
    if not (folder / "corpus.json").is_file():
        return None
    try:
        about = json.loads((folder / "corpus.json").read_text())
        arrays: dict[str, Any] = {
            key: np.load(folder / f"{key}.npy", mmap_mode="r", allow_pickle=False)
            for key in ("images", "segments", "edges", "poses")
            if (folder / f"{key}.npy").is_file()
        }
        with (folder / "texts.jsonl").open() as file:
            lines = [json.loads(line) for line in file]
    except (OSError, EOFError, ValueError) as error:
        raise ConfigError(
            f"{folder} is not whole ({error}): remove it, and it is made again"
        ) from error
    surroundings = tuple(tuple(line.get("surroundings", ())) for line in lines)
    return Corpus(
        **arrays,
        captions=tuple(tuple(line["captions"]) for line in lines),
        attributes=tuple(line["attributes"] for line in lines),
        surroundings=surroundings if all(surroundings) else (),
        classes=tuple(about["classes"]),
        held_out=about["held_out"],
        origin=about.get("origin", ""),
    )
