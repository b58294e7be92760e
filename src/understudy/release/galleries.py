"""Images for the pages of a run: the first few of each class, and those that are least like any."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from understudy.backends.arrays import fit_images
from understudy.core.errors import RunError
from understudy.core.ports import Source
from understudy.core.types import Images, Labels
from understudy.metrics.nearest_neighbours import clouds, nearest_rows
from understudy.release.outputs import read_arrays, write_arrays
from understudy.report import Sample, Sheet, contact_sheet

_SHOWN = 16  # images of a class on each side of a sheet
_POOL = 128  # of a class, among which the worst are looked for
_POOL_BYTES = 1 << 28  # of all classes together, about
_COMPARED = (12, 12, 3)  # what images are brought to before they are compared
_BATCH = 512

Pools = Mapping[int, Images]
"""Images of each class by its label; the first ones are shown, the worst are looked for in all."""


def first_of_each(
    pairs: Iterable[tuple[Labels, Images]], classes: int, most: int = _SHOWN
) -> dict[int, Images]:
    """The first few images of each class; stops reading once every class has them."""
    parts_by_label: dict[int, list[Images]] = {}
    for labels, images in pairs:
        for label in np.unique(labels).tolist():
            mine = parts_by_label.setdefault(label, [])
            missing = most - sum(map(len, mine))
            if missing > 0:
                mine.append(images[labels == label][:missing])
        if len(parts_by_label) >= classes and all(
            sum(map(len, k)) >= most for k in parts_by_label.values()
        ):
            break
    return {label: np.concatenate(parts) for label, parts in parts_by_label.items()}


def release_pools(release: Source, classes: Sequence[str]) -> dict[int, Images]:
    """Images of each class of a written release, by the label that the class has in a run."""
    pools = source_pools(release)
    return {classes.index(release.classes[label]): pools[label] for label in sorted(pools)}


def source_pools(source: Source) -> dict[int, Images]:
    """Images of each class of a source, by label."""
    pairs = ((batch.labels, batch.values) for batch in source.batches(_BATCH))
    classes = len(source.classes)
    bytes_of_each = max(1, classes) * int(np.prod(source.shape))
    held = int(np.clip(_POOL_BYTES // bytes_of_each, _SHOWN, _POOL))
    return first_of_each(pairs, classes, held)


def contact_sheet_of(synthetic: Pools) -> bytes:
    """A contact sheet as a PNG, a row a class; white where a class has no more."""
    columns = min(_SHOWN, max(len(images) for images in synthetic.values()))
    rows = [synthetic[label][:columns] for label in sorted(synthetic)]
    blank = np.full((columns, *rows[0].shape[1:]), 255, dtype=np.uint8)
    images = np.concatenate([part for row in rows for part in (row, blank[len(row) :])])
    return contact_sheet(images, columns)


def sheets(real: Source, synthetic: Pools) -> tuple[Sheet, ...]:
    """A few images of each class: real, synthetic, and the synthetic ones least like any real."""
    pools = source_pools(real)
    empty: Images = np.zeros((0, *real.shape), dtype=np.uint8)
    no_samples = next(iter(synthetic.values()), empty)[:0]  # they may be of another size
    gallery = []
    for index, name in enumerate(real.classes):
        of_real, of_release = pools.get(index, empty), synthetic.get(index, no_samples)
        worst = farthest(of_release, of_real) if len(of_real) else no_samples
        gallery.append(Sheet(name, of_real[:_SHOWN], of_release[:_SHOWN], worst))
    return tuple(gallery)


def release_samples(release: Source) -> list[Sample]:
    """A few images of each class of a release, and those that are least like the others."""
    pools = source_pools(release)
    return [
        Sample(release.classes[label], pools[label][:_SHOWN], farthest(pools[label]))
        for label in sorted(pools)
    ]


def farthest(images: Images, others: Images | None = None) -> Images:
    """The images whose nearest neighbour among others is farthest, the farthest first.

    Images are compared as small colour images, number by number.

    Args:
        images: (n, height, width, channels) uint8.
        others: (m, ...) of any size; None: the images themselves, each without itself.
    """
    if len(images) < (2 if others is None else 1):
        return images[:0]
    queries, rows = clouds(_small(images), _small(images if others is None else others))
    count = 2 if others is None else 1  # an image is the nearest of its own set to itself
    _, distances = nearest_rows(queries, rows, count)
    order = np.argsort(-distances[:, -1], kind="stable")
    return images[order[:_SHOWN]]


def _small(images: Images) -> np.ndarray[Any, np.dtype[np.float64]]:
    return fit_images(images, _COMPARED).reshape(len(images), -1).astype(np.float64)


_SIDES = ("real", "synthetic", "worst")


def write_gallery(owner: Path, gallery: Sequence[Sheet]) -> None:
    """Keep a gallery, so that the report can be written anew without the private dataset."""
    arrays: dict[str, Any] = {"names": np.array([sheet.name for sheet in gallery])}
    for side in _SIDES:
        images = [getattr(sheet, side) for sheet in gallery]
        arrays[side] = np.concatenate(images)
        arrays[f"{side}_of"] = np.repeat(np.arange(len(gallery)), [len(part) for part in images])
    write_arrays(owner / "gallery.npz", arrays)


def read_gallery(owner: Path) -> tuple[Sheet, ...]:
    """The gallery that was kept; empty where there is none.

    Raises:
        RunError: It is no gallery.
    """
    path = owner / "gallery.npz"
    if not path.is_file():
        return ()
    arrays = read_arrays(path)
    try:
        if any(arrays[side].ndim != 4 or arrays[side].dtype != np.uint8 for side in _SIDES):
            raise ValueError("it holds no images")
        return tuple(
            Sheet(str(name), *(arrays[side][arrays[f"{side}_of"] == index] for side in _SIDES))
            for index, name in enumerate(arrays["names"])
        )
    except (LookupError, TypeError, ValueError) as error:
        raise RunError(f"{path}: damaged: {error}") from error
