"""``understudy check``: one pass over a private dataset, and everything that is wrong with it.

Spends nothing and writes nothing. What it says counts private records: it is the owner's alone.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from os import PathLike
from typing import Any, Unpack

from understudy.core.errors import BackendError, InputError, SourceError, count_words
from understudy.core.files import write_whole
from understudy.core.phrases import people_of, records_of
from understudy.core.ports import Events, Source
from understudy.core.types import Shape, UnitCounts
from understudy.data.encoded_images import RecordSource
from understudy.data.image_decoding import WINDOW_WORDS
from understudy.data.inspection import (
    FIRST,
    Inspection,
    lost_class_words,
    stray_words,
    unread_words,
)
from understudy.data.labels import label_column_of
from understudy.data.names import UNLABELLED_NAME, like_persons, lone_class_words, person_words
from understudy.data.open_source import reading_of
from understudy.data.units import DICOM_UNITS, alike_words, unit_shares
from understudy.methods.base import ClassCapacity
from understudy.planning.forecast import sheet_path
from understudy.planning.image_geometry import ImageGeometry
from understudy.release.galleries import contact_sheet_of, first_of_each
from understudy.run.codec_rules import ENERGIES, codec_roles
from understudy.run.command_words import (
    PROPOSED_SIDES,
    USUAL_SIDE,
    command_line,
    option_words,
)
from understudy.run.config import ReadingOptions, RunConfig, make_config, source_name
from understudy.run.models import named_roles
from understudy.run.prepare import lacks_size, open_private, prepare
from understudy.run.progress import ProgressMode, reporting
from understudy.run.run_plan import explanation
from understudy.run.run_record import ONE_CLASS, is_unlabelled

EPSILONS = (1.0, 3.0)
"""At which it is said what each class can carry."""

_MOST_NAMED = 200  # classes in a suggested command
_SHEET_IMAGES = 12  # of a class on a contact sheet
_SPOILT = 0.05  # of the images, by a window, of which a check says so
_LONE, _DEEP = "one-image class", "16-bit images"
_HIDDEN = "--unit {0} is the column of that name: rename it for the field of the DICOM files"
_IDENTIFIER = re.compile(r".*\d{4,}.*|[0-9a-f]{8,}", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that the owner should mend, or know.

    Attributes:
        kind: A short name, such as ``"mixed sizes"``.
        message: What is wrong, and what to do.
        blocking: Whether a run would be refused as things are.
        count: How many files it concerns.
        examples: Some of them.
    """

    kind: str
    message: str
    blocking: bool = False
    count: int = 1
    examples: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, repr=False)
class SourceCheck:
    """What a check says of a dataset.

    Attributes:
        source: Its name.
        images: Usable records.
        units: Whose they are, by the unit that was asked for or is proposed; otherwise each record
            is its own unit.
        people: What the units are called, such as ``"patients"``; None: images.
        class_units: Units of each class.
        unit_counts: What a method is told of the units before a run.
        classes: Usable records of each class.
        shape: Of a record, as a run would read it; None where it could not be opened.
        problems: Everything that is wrong, what blocks a run first.
        options: The options that a run needs, or should declare, besides those that were asked.
        command: A run that fits, on one line; None where none does.
        stored: Of what sizes and colours its images are, in words; empty for embeddings.
        losses: What images lose by the size, the fit and the channels of that run, by the option as
            it is typed.
        carried: For each epsilon, what each class can carry.
    """

    source: str
    images: int
    units: int
    classes: Mapping[str, int]
    shape: tuple[int, ...] | None
    problems: tuple[Problem, ...]
    options: Mapping[str, Any]
    command: str | None
    stored: str
    losses: Mapping[str, str]
    carried: Mapping[float, Mapping[str, ClassCapacity]]
    unit_counts: UnitCounts
    people: str | None = None
    class_units: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        """A line, for a notebook; the attributes have the rest."""
        messages = "; ".join(problem.message for problem in self.problems)
        records = f"{self.images:,} {records_of(self.shape)}"
        return f"<SourceCheck {self.source}: {records}. {messages or 'No problems'}>"

    @property
    def ready(self) -> bool:
        """Whether nothing would refuse a run."""
        return not any(problem.blocking for problem in self.problems)

    def as_dict(self) -> dict[str, Any]:
        """JSON values."""
        carried = {
            epsilon: {name: one.summary for name, one in classes.items()}
            for epsilon, classes in self.carried.items()
        }
        words = {"kind": "owner-only", "ready": self.ready}
        return words | asdict(self) | {"carried_in_words": carried}


def checked_dataset(
    source: str | PathLike[str],
    *,
    sheet: str | PathLike[str] | None = None,
    progress: ProgressMode | Events = "auto",
    **options: Unpack[ReadingOptions],
) -> SourceCheck:
    """Read a dataset once and say everything that is wrong with it. Spends and writes nothing.

    What comes back counts private records: it is for the owner alone.

    Args:
        source: The private dataset.
        sheet: A PNG to write, with a few private images of each class; None: nothing is written.
        progress: Where events go, as for `understudy.synthesize`.
        options: How it is read: options of `understudy.synthesize`, by their names.

    Raises:
        ConfigError: An option that makes no sense.
    """
    name = source_name("source", source)
    defaults = {"source": name, "out": "out", "epsilon": EPSILONS[0], "accept_epsilon": True}
    config = make_config({**options, **defaults})
    place = None if sheet is None else sheet_path(sheet, name)
    with reporting(progress) as events:
        step = events.step("reading the dataset")
        result = check_source(config)
        step.finish()
        if place is not None and result.shape is not None:
            step = events.step("drawing the contact sheet")
            readable = open_private(config.changed(**result.options), skip_bad=True)
            if readable.kind == "images":
                pairs = ((batch.labels, batch.values) for batch in readable.batches(_SHEET_IMAGES))
                images = first_of_each(pairs, len(readable.classes), _SHEET_IMAGES)
                write_whole(place, contact_sheet_of(images))
            step.finish()
    return result


def check_source(config: RunConfig) -> SourceCheck:
    """Read a dataset once and say everything that is wrong with it.

    Args:
        config: A run that the owner has in mind; its size, unit, label and so on are used.
    """
    inspection = Inspection(reading_of(config.data.source))
    source, problems = _opened(config, inspection)
    geometry = ImageGeometry.of(inspection)
    problems += _counted(config, inspection, geometry)
    column, by_unit = config.privacy.unit_column, inspection
    if source is not None:
        problems += _of_source(source, config)
        if column is None and (persons := _persons(config, source, inspection)) is not None:
            column, by_unit = persons
            problems.append(_unit_problem(column, by_unit, inspection))
            problems += _of_one_person(config, by_unit)
        columns = {*getattr(source, "person_columns", ())}
        if inspection.dicom and column in columns.intersection(DICOM_UNITS):
            problems.append(Problem("hidden field", _HIDDEN.format(column)))
    if words := alike_words(by_unit.units, column):
        problems.append(Problem("alike units", words))
    problems.sort(key=lambda problem: not problem.blocking)
    remedies = _remedies(config, geometry, source, problems)
    # what no option mends; images of 16 bits are not, where the owner asked to pass over them
    unmended = any(one.kind == _LONE or (one.kind == _DEEP and one.blocking) for one in problems)
    if by_unit is not inspection and by_unit.classes == inspection.classes:
        remedies = {name: remedies[name] for name in remedies if not name.startswith("unit_from")}
        remedies["unit"] = column
    run = config.changed(**remedies)
    values = run.as_options()
    if source is not None and source.kind == "images":
        source.shape = _shape_of(run, source.shape)
    units = len(by_unit.units) or inspection.classes.total()
    shares = dict(sorted(by_unit.classes.items())) | unit_shares(by_unit.class_units)
    return SourceCheck(
        source=config.data.source,
        images=inspection.classes.total(),
        units=units,
        people=people_of(column) if column is not None and by_unit.units else None,
        class_units=_class_units(by_unit),
        unit_counts=UnitCounts(units, sum(shares.values()) / max(1, len(shares))),
        classes=dict(sorted(inspection.classes.items())),
        shape=None if source is None else source.shape,
        stored=geometry.words,
        losses={
            " ".join(option_words(name, values[name])): loss
            for name, loss in geometry.losses(
                run.data.size, run.data.fit, run.data.channels, _takes_energies(run, source)
            )
        },
        problems=tuple(problems),
        options=remedies,
        command=None if source is None or unmended else command_line(config, remedies, EPSILONS[0]),
        carried={} if source is None else _carried(run, source, shares),
    )


def _class_units(inspection: Inspection) -> dict[str, int]:
    """Units of each class; records, where each is its own."""
    counts = dict(inspection.classes)
    counts |= {name: len(units) for name, units in inspection.class_units.items()}
    return dict(sorted(counts.items()))


def _persons(
    config: RunConfig, source: Source, inspection: Inspection
) -> tuple[str, Inspection] | None:
    """The field or column that says whose an image is, and the counts by it; None: none does.

    Nobody named one. Half of the images or more have a value, and several have the same.
    """
    columns = [*getattr(source, "person_columns", ())]
    columns += ["PatientID"] if inspection.dicom else []
    for column in columns:
        by_unit = Inspection(reading_of(config.data.source))
        by_column = config.changed(unit=column, unit_from=None, unit_from_name=None)
        try:
            units = open_private(by_column, skip_bad=True, observer=by_unit)
            if not isinstance(units, RecordSource):
                by_unit.count_arrays(units, units=True)
        except (SourceError, BackendError):  # of one patient, or a field that is empty
            continue
        images = by_unit.classes.total()
        if 2 * images >= inspection.classes.total() and 1 < len(by_unit.units) < images:
            return column, by_unit
    return None


def _unit_problem(column: str, by_unit: Inspection, inspection: Inspection) -> Problem:
    """What is said where images of the same people are protected one by one."""
    people, images = people_of(column), by_unit.classes.total()
    words = " ".join(option_words("unit", column))
    message = (
        f"{images:,} images of {len(by_unit.units):,} {people}: add {words}. Without it each image "
        "is protected by itself, and all images of one together less than epsilon says"
    )
    if nameless := inspection.classes.total() - images:
        lack = count_words(nameless, "image has", "images have")
        message += f". {lack} no {column}: say whose they are, or leave them out"
    return Problem("units", message, count=images)


def _of_one_person(config: RunConfig, by_unit: Inspection) -> Iterator[Problem]:
    """The classes that would be refused once the images of a person belong together."""
    lone = [name for name, units in by_unit.class_units.items() if len(units) == 1]
    if lone and config.data.classes is None:
        yield Problem(_LONE, lone_class_words(lone, has_units=True), count=len(lone))


def _opened(config: RunConfig, inspection: Inspection) -> tuple[Source | None, list[Problem]]:
    """The dataset without its bad files; None and why, where it cannot be opened at all."""
    try:
        source = open_private(config, skip_bad=True, observer=inspection)
        if not isinstance(source, RecordSource):
            inspection.count_arrays(source, units=config.privacy.unit_column is not None)
    except (SourceError, BackendError) as error:
        return None, [Problem("cannot be opened", str(error), blocking=True)]
    bad: list[tuple[str, str]] = getattr(source, "bad", [])
    deep = [(place, why) for place, why in bad if why.endswith(WINDOW_WORDS)]
    others = [one for one in bad if one not in deep]
    deep = [(place, why.removesuffix(WINDOW_WORDS)) for place, why in deep]
    messages = {
        _DEEP: f"{count_words(len(deep), 'file has', 'files have')} grey values of 16 bits or "
        f"more{WINDOW_WORDS}",
        "bad files": f"{count_words(len(others), 'file')} cannot be used; mend or remove them, or "
        "pass over them with --skip-bad",
    }
    return source, [
        Problem(kind, messages[kind], not config.data.skip_bad, len(files), _listed(files))
        for kind, files in ((_DEEP, deep), ("bad files", others))
        if files
    ]


def _listed(files: list[tuple[str, str]]) -> tuple[str, ...]:
    """The first files, each with what is wrong with it."""
    return tuple(f"{location}: {reason}" for location, reason in files[:FIRST])


def _shape_of(run: RunConfig, shape: Shape) -> Shape:
    """(height, width, channels) of images as a run reads them, of those that they have."""
    height, width = shape[:2] if run.data.size is None else (run.data.size, run.data.size)
    return height, width, shape[2] if run.data.channels is None else run.data.channels


def _takes_energies(run: RunConfig, source: Source | None) -> bool:
    """Whether the encoder is that of energies; no where what is named may bring another one."""
    roles = named_roles(run.models)
    if source is None or not roles.keys() <= {"encoder", "decoder"}:
        return False
    return codec_roles(roles, source.shape)["encoder"] == ENERGIES


def _counted(
    config: RunConfig, inspection: Inspection, geometry: ImageGeometry
) -> Iterator[Problem]:
    """What the counts of a dataset show."""
    sizes = inspection.sizes
    if len(sizes) > 1:
        message = f"images of {len(sizes)} sizes (height x width): {geometry.sizes_in_words}"
        if config.data.size is None:
            message += f". Bring them to one with --size {geometry.side}"
        yield Problem("mixed sizes", message, config.data.size is None, sizes.total())
    elif any(lacks_size(config, (*size, 3)) for size in sizes):
        ((height, width),) = sizes
        message = (
            f"the images are {height} x {width} (height x width), more than noisy sums can carry: "
            f"bring them to {max(PROPOSED_SIDES)} pixels a side or less, such as --size "
            f"{geometry.side}"
        )
        yield Problem("large images", message, blocking=True, count=sizes.total())
    for words, count in inspection.window_words(_SPOILT):
        yield Problem("window", words, count=count)
    yield from _colours(config, inspection, geometry)
    if inspection.equal_count:
        equal = count_words(inspection.equal_count, "file is", "files are")
        message = (
            f"{equal} equal to another one of their class. Two "
            "copies of an image count twice, and protect it less than its epsilon says"
        )
        examples = tuple(" = ".join(pair) for pair in inspection.equal)
        yield Problem("equal files", message, count=inspection.equal_count, examples=examples)
    if inspection.contradicting_count:
        count = inspection.contradicting_count
        files = count_words(count, "file is", "files are")
        message = f"{files} equal to one of another class: which label is right?"
        examples = tuple(" = ".join(pair) for pair in inspection.contradicting)
        yield Problem("contradicting labels", message, count=count, examples=examples)
    yield from _class_names(inspection.classes)
    yield from _folders(inspection)


def _colours(
    config: RunConfig, inspection: Inspection, geometry: ImageGeometry
) -> Iterator[Problem]:
    """What is said of images that are grey or stored in colour, where no channels are declared."""
    if config.data.channels is not None:
        return
    if geometry.all_grey and inspection.colourless:
        message = (
            f"all {geometry.images:,} images are grey, and {inspection.colourless:,} of them are "
            "stored in colour with equal channels, so a run would be in colour: declare "
            "--channels 1 for grey samples"
        )
        yield Problem("grey stored in colour", message, count=inspection.colourless)
    elif 0 < inspection.grey < geometry.images:
        message = (
            f"{inspection.grey:,} images are grey and {geometry.images - inspection.grey:,} are "
            "not, so all are read as RGB: declare --channels 1 or 3"
        )
        yield Problem("mixed colours", message, count=inspection.grey)


def _class_names(classes: Counter[str]) -> Iterator[Problem]:
    """Names of classes that look as if they named people: they would be published."""
    suspicious = [name for name in classes if _IDENTIFIER.fullmatch(name)]
    count, advice = len(classes), "say --label none --unit-from folder"
    if 2 * len(suspicious) > count:
        message = (
            f"class names are published, and these {count} look as if they named people or cases, "
            f"such as {', '.join(suspicious[:3])}. If folders are people, {advice}"
        )
        yield Problem("class names", message, count=count)
    elif persons := like_persons(sorted(classes)):
        yield Problem("class names", person_words(persons), count=len(persons))
    elif count > 20 and classes.total() < 20 * count:
        words = f"{count} are many for so few images, such as {min(classes)}"
        message = f"class names are published, and {words}. If they are people or cases, {advice}"
        yield Problem("class names", message, count=count)


def _folders(inspection: Inspection) -> Iterator[Problem]:
    """Fewer folders inside class folders than classes, and the same ones: are these people's?"""
    inner, outer = inspection.inner_folders, len(inspection.classes)
    if 0 < len(inner) < outer and all(2 * len(classes) >= outer for classes in inner.values()):
        message = (
            f"the {outer} class folders hold the same {len(inner)} folders, such as {min(inner)}. "
            "Class names are published: if the class folders are people and those inside are "
            "classes, list the images in a manifest.csv with columns path,label,unit"
        )
        yield Problem("folders", message, count=len(inner))


def _of_source(source: Source, config: RunConfig) -> Iterator[Problem]:
    """What opening the dataset showed."""
    if is_unlabelled(source, config.data):
        yield Problem("no classes", ONE_CLASS)
    lone: tuple[str, ...] = getattr(source, "lone_classes", ())
    if lone and config.data.classes is None:
        words = lone_class_words(lone, has_units=source.has_units)
        yield Problem(_LONE, words, blocking=True, count=len(lone))
    if not isinstance(source, RecordSource):
        return
    if source.unread:
        yield Problem("parts", unread_words(source), count=len(source.unread))
    if source.stray:
        yield Problem("stray files", stray_words(source), count=source.stray)
    if source.lost_classes:
        yield Problem("lost classes", lost_class_words(source), count=len(source.lost_classes))
    if source.burnt_in:
        message = (
            f"{count_words(source.burnt_in, 'image')} may have text burnt into the pixels: look "
            "at them, and mask or remove them, before you release anything"
        )
        yield Problem("burnt-in text", message, count=source.burnt_in)
    if source.grouping is not None:
        yield Problem("grouped names", source.grouping.warning)


def _remedies(
    config: RunConfig, geometry: ImageGeometry, source: Source | None, problems: list[Problem]
) -> dict[str, Any]:
    """The options that a run needs, or should declare, besides those of ``config``."""
    kinds = {problem.kind for problem in problems}
    options: dict[str, Any] = {}
    if source is None:
        return options
    if "bad files" in kinds:
        options["skip_bad"] = True
    grouping = source.grouping if isinstance(source, RecordSource) else None
    if grouping is not None and not grouping.misses:  # which would refuse the files that it misses
        options[grouping.option] = grouping.value
    if source.classes == UNLABELLED_NAME and config.data.label is None:
        options["label"] = "none"
    elif (
        config.data.classes is None
        and 1 < len(source.classes) <= _MOST_NAMED
        and _LONE not in kinds
    ):
        options["classes"] = source.classes
    column = label_column_of(source)
    if column is not None and config.data.label is None and _LONE not in kinds:
        options["label"] = column
    if source.kind == "images":
        if config.data.channels is None:
            options["channels"] = 1 if geometry.all_grey else source.shape[2]
        large = min(source.shape[:2]) > USUAL_SIDE or max(source.shape[:2]) > max(PROPOSED_SIDES)
        if config.data.size is None and (large or "mixed sizes" in kinds):
            options["size"] = geometry.side
            options |= {} if geometry.square else {"fit": geometry.fit}
        elif config.data.size is None and source.shape[0] == source.shape[1]:
            options["size"] = source.shape[0]  # as they are, and declared
    return options


def _carried(
    run: RunConfig, source: Source, units: Mapping[str, float]
) -> dict[float, dict[str, ClassCapacity]]:
    """What each class can carry at each epsilon; {} where the method cannot tell."""
    carried = {}
    try:
        for epsilon in EPSILONS:
            trial = run.changed(skip_bad=True, epsilon=epsilon)
            if (capacity := explanation(prepare(trial, source, probe=False)).capacity) is not None:
                carried[epsilon] = {name: capacity(count) for name, count in units.items()}
    except InputError:  # a method that does not fit is no fault of the dataset
        return {}
    return carried
