"""What a run would make of public images: the planned method, run on drawings.

The method, its parameters, its models, its budget and its noise are those of the planned run, and
so are the numbers of records, of units and of the records of each class. The images are public, and
the ledger, which lies in a temporary folder, is the forecast's own: nothing private is read and
nothing is charged to anybody. What comes back depends on private counts, so it is the owner's.
"""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from understudy.backends.arrays import fit_images, with_channels
from understudy.core.errors import ConfigError, count_words
from understudy.core.files import home_path, write_whole
from understudy.core.ports import Events
from understudy.core.types import Embeddings, Images, Labels, LinearClassifier, Release
from understudy.data.open_source import paths_of
from understudy.engine.local import LocalEngine
from understudy.methods.base import memory_store
from understudy.planning.public_drawings import (
    DrawnRecords,
    DrawOfClass,
    drawn_records,
    public_kinds,
)
from understudy.privacy.account import Account
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.rows import RECORDS_PER_CALL
from understudy.privacy.vault import PrivateVault
from understudy.report.images import smaller
from understudy.run.prepare import Prepared
from understudy.run.progress import SilentEvents

_HELD_OUT = 500  # drawings that the released classifier is tried on
_MOST_HELD_OUT = 50  # of a class
_COLUMNS = 10  # of a sheet
_SMALLEST, _LARGEST = 64, 128  # pixels a side of an image on a sheet
_MARGIN = 4


@dataclass(frozen=True)
class KindForecast:
    """What came back of the public images of one kind.

    Attributes:
        originals: (n, height, width, channels) uint8 public images.
        samples: (n, height, width, channels) uint8, of the same classes one by one.
        accuracy: Of the released classifier on drawings that it was not made of, balanced over the
            classes; None where the method releases none.
    """

    kind: str
    originals: Images
    samples: Images
    accuracy: float | None


@dataclass(frozen=True)
class Forecast:
    """What the planned method makes of public images; for the owner, for it was made by counts."""

    kinds: tuple[KindForecast, ...]
    records: int
    units: int
    classes: int
    epsilon: float

    def figures(self) -> dict[str, Any]:
        """JSON values: all but the images."""
        return {
            "accuracy": {one.kind: one.accuracy for one in self.kinds},
            "records": self.records,
            "units": self.units,
            "classes": self.classes,
            "epsilon": self.epsilon,
        }

    def sheet(self) -> Images:
        """Public images above what came back of them, kind by kind: (h, w, 3) uint8."""
        strips = [_text(f"public drawings, {self._words}. For the owner alone")]
        for one in self.kinds:
            strips += [_text(f"{one.kind}: as they are, and as they come back")]
            strips += [_strip(one.originals), _strip(one.samples)]
        wide = max(strip.shape[1] for strip in strips)
        padded = [
            np.pad(strip, ((0, 0), (0, wide - strip.shape[1]), (0, 0)), constant_values=255)
            for strip in strips
        ]
        return np.concatenate(padded)

    @property
    def _words(self) -> str:
        units = f"{self.units:,} units in " if self.units < self.records else ""
        return (
            f"{units}{self.records:,} images in {count_words(self.classes, 'class', 'classes')}, "
            f"epsilon {self.epsilon:g}"
        )

    def write(self, path: Path) -> None:
        """Write the sheet as a PNG, whole or not at all."""
        data = io.BytesIO()
        Image.fromarray(self.sheet()).save(data, format="PNG", optimize=True)
        write_whole(path, data.getvalue())


def sheet_path(name: str | PathLike[str], source: str) -> Path:
    """Where a sheet for the owner is written.

    Raises:
        ConfigError: No PNG, a folder that does not exist, or one inside the private dataset, where
            the sheet would be taken for a private image.
    """
    path = home_path(name)
    if path.suffix.lower() != ".png" or path.is_dir():
        raise ConfigError(f"the sheet is a PNG, found {path}: call it something like sheet.png")
    if not path.parent.is_dir():
        raise ConfigError(f"there is no folder {path.parent} for the sheet")
    if any(path.resolve().is_relative_to(private.resolve()) for private in paths_of(source)):
        raise ConfigError(
            f"{path} lies inside the private dataset {source}: the sheet would be taken for a "
            "private image at the next look; choose a folder outside of it"
        )
    return path


def _strip(images: Images) -> Images:
    """Images in a row, (h, w, 3) uint8, small ones a whole number of times as large."""
    row = smaller(images, _LARGEST)
    times = max(1, _SMALLEST // max(row.shape[1:3]))
    row = with_channels(row, 3).repeat(times, axis=1).repeat(times, axis=2)
    row = np.pad(row, ((0, 0), (_MARGIN, 0), (_MARGIN, 0), (0, 0)), constant_values=255)
    return np.concatenate(list(row), axis=1)


def _text(words: str) -> Images:
    """A line of text, black on white: (h, w, 3) uint8."""
    left, _, right, bottom = ImageDraw.Draw(Image.new("L", (1, 1))).textbbox((_MARGIN, 8), words)
    line = Image.new("RGB", (round(right - left) + 2 * _MARGIN, round(bottom) + 1), "white")
    ImageDraw.Draw(line).text((_MARGIN, 8), words, fill="black")
    return np.asarray(line)


class _PublicVault(PrivateVault):
    """A vault of drawings: the same drawing is embedded once."""

    __slots__ = ()

    def map(
        self, encode: Callable[[NDArray[Any]], Embeddings], *, batch: int = RECORDS_PER_CALL
    ) -> Self:
        """As of a vault."""
        return super().map(partial(_embedded_once, encode, {}), batch=batch)


def _embedded_once(
    encode: Callable[[NDArray[Any]], Embeddings],
    embeddings: dict[bytes, NDArray[np.float32]],
    images: NDArray[Any],
) -> Embeddings:
    """Embeddings of images, of which those that were embedded before are looked up."""
    keys = [hashlib.blake2b(image.tobytes(), digest_size=16).digest() for image in images]
    if any(key not in embeddings for key in keys):
        embeddings.update(zip(keys, encode(images), strict=True))
    return np.stack([embeddings[key] for key in keys])


def forecast_of(
    prepared: Prepared,
    sizes: Sequence[int],
    units: int,
    events: Events,
    class_units: Sequence[int] | None = None,
) -> Forecast:
    """Run a planned method on public images.

    Args:
        prepared: The planned run.
        sizes: Records of each class.
        units: Units in all.
        events: Where progress goes.
        class_units: Units of each class, of which one may be of several; None: of one each.

    Raises:
        ConfigError: A method or a dataset that no drawings stand for.
    """
    if (reason := unfit_for_drawings(prepared)) is not None:
        raise ConfigError(f"there is no forecast: {reason}")
    records, kinds = sum(sizes), []
    for kind, draw in public_kinds(prepared.context.shape, len(sizes)).items():
        step = events.step(f"forecast: {kind}", None)
        kinds.append(_kind_forecast(prepared, kind, draw, sizes, units, class_units))
        step.finish()
    epsilon = prepared.config.privacy.budget.epsilon
    return Forecast(tuple(kinds), records, units, len(sizes), epsilon)


def unfit_for_drawings(prepared: Prepared) -> str | None:
    """Why no drawings stand for the private images of a run; None where they do."""
    context = prepared.context
    if context.decoder is None:
        return "the run releases embeddings, and a forecast shows images"
    if prepared.base is not None or prepared.candidates is not None or context.generator:
        return f"{prepared.method.name} begins with images of your classes, and drawings have none"
    return None


def _kind_forecast(
    prepared: Prepared,
    kind: str,
    draw: DrawOfClass,
    sizes: Sequence[int],
    units: int,
    class_units: Sequence[int] | None,
) -> KindForecast:
    """The planned method on drawings of one kind."""
    shape = prepared.context.shape
    records = drawn_records(kind, draw, sizes, units, prepared.context.classes, class_units)
    order = np.argsort(-np.array(sizes), kind="stable")[:_COLUMNS]
    largest = np.sort(order[np.array(sizes)[order] > 0]).tolist()
    each = max(1, _COLUMNS // len(largest))
    with tempfile.TemporaryDirectory(prefix="understudy-forecast-") as folder:  # mode 0700
        release = _release(prepared, records, each, Path(folder))
        labels, samples = _sampled(release)
    nothing = np.full((each, *samples.shape[1:]), 128, dtype=np.uint8)  # of a class that is lost
    of_class = [np.concatenate([samples[labels == label], nothing])[:each] for label in largest]
    originals = np.stack([draw(label, number) for label in largest for number in range(each)])
    accuracy = _accuracy(prepared, release.classifier, draw, sizes)
    return KindForecast(kind, originals, fit_images(np.concatenate(of_class), shape), accuracy)


def _release(prepared: Prepared, records: DrawnRecords, per_class: int, folder: Path) -> Release:
    """The release of the planned method on drawings, made as `understudy.run.synthesize` does."""
    config = prepared.config
    cache = folder / "cache"
    cache.mkdir(mode=0o700)
    with Ledger(folder / "ledger.db") as ledger:
        dataset = ledger.register(records)
        account = Account(
            ledger, dataset.id, config.privacy.privacy_unit, prepared.plan, folder / "stages"
        )
        vault = _PublicVault(records, account, LocalEngine(), cache, probe=False)
        materials = prepared.materials(
            vault, SilentEvents().step, memory_store(), per_class=per_class
        )
        release = prepared.method.run(materials, prepared.params)
        vault.close()
    return release


def _sampled(release: Release) -> tuple[Labels, Images]:
    """All samples of a release, and their classes."""
    batches = [batch for batch in release.batches() if batch.images is not None]
    labels = np.concatenate([batch.labels for batch in batches])
    return labels, np.concatenate([batch.images for batch in batches if batch.images is not None])


def _accuracy(
    prepared: Prepared, classifier: LinearClassifier | None, draw: DrawOfClass, sizes: Sequence[int]
) -> float | None:
    """Balanced accuracy of a released classifier on drawings that were in no record."""
    encoder = prepared.context.encoder
    if classifier is None or encoder is None:
        return None
    each = min(_MOST_HELD_OUT, max(1, _HELD_OUT // len(sizes)))
    first = max(sizes)  # numbers from here on are of no record
    images = [draw(label, first + n) for label in range(len(sizes)) for n in range(each)]
    labels = np.repeat(np.arange(len(sizes)), each)
    return float((classifier.predict(encoder.encode(np.stack(images))) == labels).mean())
