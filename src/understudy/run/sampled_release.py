"""``understudy sample --classes``: a base set, which is a release without private data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from understudy.backends.registry import load_model
from understudy.core.errors import ConfigError
from understudy.core.ports import Events, Generator
from understudy.core.types import Release, SyntheticBatch
from understudy.core.version import understudy_version
from understudy.data import write_release
from understudy.data.names import names_of_classes
from understudy.data.open_source import CONTACT_SHEET
from understudy.methods.base import Context, check_template, prompts_of
from understudy.release.documents import write_release_documents
from understudy.release.galleries import contact_sheet_of, first_of_each
from understudy.release.outputs import open_release
from understudy.report import ModelRecord, RunRecord
from understudy.report.meaning import NO_PRIVATE_DATA
from understudy.run.models import phrase_of
from understudy.run.progress import ProgressMode, reporting
from understudy.run.safeguards import drawn_anew, require_empty

METHOD = "base-set"
TEMPLATE = "a photo of a {class}"
"""What a sentence says of a class where nothing else is named."""

_AT_ONCE = 256
_HOW = (
    "each image was drawn by a public model from its class's prompt; no private data was used (the "
    "papers' baseline of the generator alone)"
)


@dataclass(frozen=True, slots=True)
class BaseSet:
    """What was drawn.

    Attributes:
        release: The folder of the release.
        contact_sheet: A few images of each class, on one sheet.
        count: How many images it holds.
    """

    release: Path
    contact_sheet: Path
    count: int


def base_set(
    classes: Sequence[str],
    *,
    out: Path,
    count: int,
    model: str = "embedded:studio",
    template: str = TEMPLATE,
    seed: int = 0,
    progress: ProgressMode | Events = "auto",
) -> BaseSet:
    """Draw a release of some classes from their names alone.

    Nothing private is read and nothing is spent. The folder is laid out as that of
    `understudy.synthesize`, so that it can be evaluated, compared and taken for ``--base``;
    ``captions.csv`` holds the prompt of each image and the licence of the model that drew it.
    """
    names = names_of_classes(classes)
    if count < len(names):
        raise ConfigError(f"count must be {len(names)} or more, one for each class, found {count}")
    require_empty(out)
    generator = load_model(Generator, model)
    phrases = tuple(map(phrase_of, names))
    context = Context(generator.shape, public=True, mu=0.0, classes=names, phrases=phrases)
    check_template(context, template, conditional=True)
    release = _release(generator, names, prompts_of(phrases, template), count, seed)
    with reporting(progress) as events, drawn_anew(out) as draft:
        step = events.step("drawing the base set", count)
        folder = draft / "release"
        facts = write_release(release, folder, format="png", progress=step)
        (draft / "owner").mkdir(mode=0o700)  # what evaluate measures is kept there
        write_release_documents(folder, _record(release, generator, template, seed, facts))
        _write_sheet(folder, generator, draft / CONTACT_SHEET)
    return BaseSet(out / "release", out / CONTACT_SHEET, count)


def _record(
    release: Release,
    generator: Generator,
    template: str,
    seed: int,
    facts: Mapping[str, Any],
) -> RunRecord:
    """The public facts of a base set; there are no others."""
    return RunRecord(
        method=METHOD,
        receipt=NO_PRIVATE_DATA,
        classes=release.classes,
        count=release.count,
        format="png",
        version=understudy_version(),
        date=datetime.now(UTC).date().isoformat(),
        params={"template": template, "seed": seed},
        image_shape=generator.shape,
        models=(ModelRecord.of("generator", generator),),
        facts=facts,
        how=_HOW,
    )


def _release(
    generator: Generator, classes: tuple[str, ...], prompts: Sequence[str], count: int, seed: int
) -> Release:
    """The images, drawn a part at a time: the first few show every class."""
    labels = np.arange(count, dtype=np.int64) % len(classes)

    def batches() -> Iterator[SyntheticBatch]:
        for number, start in enumerate(range(0, count, _AT_ONCE)):
            part = labels[start : start + _AT_ONCE]
            texts = [prompts[label] for label in part.tolist()]
            # A seed of its own for each part, or images a part apart would share their noise.
            own = int(np.random.SeedSequence([seed, number]).generate_state(1)[0])
            yield SyntheticBatch(part, images=generator.generate(texts, seed=own), captions=texts)

    return Release(
        METHOD,
        classes,
        count,
        batches,
        image_shape=generator.shape,
        captioned=True,
        licence=generator.licence.replace("\n", " "),
    )


def _write_sheet(folder: Path, generator: Generator, path: Path) -> None:
    """A few images of each class on one sheet."""
    source = open_release(folder, generator.shape)
    pairs = ((batch.labels, batch.values) for batch in source.batches(_AT_ONCE))
    path.write_bytes(contact_sheet_of(first_of_each(pairs, len(source.classes))))
