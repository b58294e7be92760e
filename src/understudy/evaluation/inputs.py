"""What an evaluation needs, opened, and whatever does not fit refused before anything is read."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from understudy.core.errors import ConfigError, InputError, MissingExtra, RunError, SourceError
from understudy.core.ports import Encoder, PerceptualDistance, Source
from understudy.data import open_source
from understudy.data.adapted import AdaptedSource
from understudy.data.captions import with_captions
from understudy.data.encoded_images import Options
from understudy.data.holdout import split, unit_digests
from understudy.data.names import UNLABELLED_NAME
from understudy.data.reading_options import OF_EACH_FILE, window_premise
from understudy.data.units import rule_of, unit_column
from understudy.evaluation.embedding_pass import FeatureExtractor, load_features
from understudy.metrics.nearest_neighbours import NEAREST_NEIGHBOURS
from understudy.metrics.utility import Network
from understudy.release.outputs import RunPaths, open_release, read_json, release_folder
from understudy.release.verify import fault_words, verify
from understudy.report.meaning import budget, unit_in_words
from understudy.run.held_out import read_hold_out
from understudy.run.models import encoder_name, load_perceptual
from understudy.run.prepare import open_labelled, open_test, require_classes

if TYPE_CHECKING:
    from understudy.release.run_file import RunFile

SEARCHED_ROWS = 60_000
"""Rows of a side whose nearest neighbours are searched by default, at most."""


@dataclass(frozen=True, slots=True)
class EvaluationOptions:
    """What an evaluation is to measure, and with what: see `understudy.evaluate`."""

    features: str | None = None
    full: bool = False
    networks: Sequence[Network] | None = None
    seeds: int = 1
    epochs: int | None = None
    rows: int = SEARCHED_ROWS
    attacks: bool = True
    encoder: str | None = None
    skip_bad: bool = False
    lpips: str | Path | None = None
    dp_sgd: bool = False
    label: str | None = None

    @property
    def trains(self) -> bool:
        """Whether models are trained."""
        return self.full or bool(self.networks)


@dataclass(frozen=True, slots=True)
class Inputs:
    """Three sets of rows that compare, and what they are compared with.

    Attributes:
        release: The samples.
        real: The private records that the run used.
        test: Real rows that it did not.
        features: What they are compared in.
        encoder: Embeds real images where the release holds embeddings.
        distance: The perceptual distance, where one was named.
        guarantee: The release's epsilon and delta, where DP-SGD is to keep them.
        held_out: The random part of the private dataset that the run left out: non-members from
            the members' own pool. None where it left none out.
        facts: Public facts of the release's run.
        claim: What the publisher of the release says of its guarantee, and whether it was verified.
        protected: Whether it has a guarantee that was, which covers what follows from it alone.
        shared: What is said of persons who stand in the test set and in the private dataset.
    """

    release: Source
    real: Source
    test: Source
    features: FeatureExtractor
    encoder: Encoder | None
    distance: PerceptualDistance | None
    guarantee: tuple[float, float] | None
    held_out: Source | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    claim: str = ""
    protected: bool = False
    shared: str = ""

    @classmethod
    def open(cls, path: Path, real: str, test: str | None, options: EvaluationOptions) -> Inputs:
        """Open everything, and refuse what does not fit.

        ``path`` is the release, or a dataset that nothing is stated of; without ``test``, what the
        run held out is the test set.
        """
        has_statement = (path / "privacy.json").is_file()
        outside = None if has_statement else _open_outside(path, options)
        facts = _facts(path) if outside is None else _facts_of(outside)
        shape = tuple(facts["data"]["image_shape"] or ()) or None
        release = with_captions(open_release(path, shape)) if outside is None else outside
        declared = _declared(facts, options, None if shape is None else shape[:2])
        train, held_out, tests = _real(
            path,
            real,
            test,
            declared,
            unprotected=facts.get("guarantee", {}).get("kind") == "none",
        )
        require_classes(train, tests)
        if outside is not None:
            release = _of_classes(release, train)
        encoder = None
        if release.kind == "embeddings":
            encoder = _encoder(path, facts, options.encoder, train)
            name = "of the release" if encoder is None else encoder.name
            features = FeatureExtractor(name, encoder)
            if options.features is not None:
                raise ConfigError(
                    "the release holds embeddings and is compared in them: leave out --features"
                )
        else:
            features = load_features(options.features, release.shape)
        _require_one_shape(release, train, tests, encoder)
        if options.trains:
            from understudy.evaluation.utility_adapter import require_trainable

            require_trainable(release, tests, options.networks)
        if options.rows < (least := 2 * NEAREST_NEIGHBOURS):
            raise ConfigError(f"--rows must be {least} or more, found {options.rows}")
        distance = None if options.lpips is None else load_perceptual(options.lpips, release)
        guarantee = _guarantee(path, facts, options) if options.dp_sgd else None
        return cls(
            release,
            train,
            tests,
            features,
            encoder,
            distance,
            guarantee,
            held_out,
            facts["data"].get("facts", {}),
            *(_claim(path) if has_statement else (_NO_CLAIM, False)),
            _shared_units(path, real, test, declared),
        )


def evaluated_place(folder: Path) -> Path:
    """What is evaluated: the release of a run's folder, a release, or any other dataset.

    Raises:
        RunError: There is none, or the run that it is of is not finished.
    """
    try:
        return release_folder(folder)
    except RunError:
        unfinished = any(RunPaths(each).start.is_file() for each in (folder, folder.parent))
        if unfinished or not (folder.exists() or ":" in str(folder)):
            raise
        return folder


_NO_CLAIM = (
    "nothing is stated of it (no privacy.json): it is measured as it is, and whatever its owner "
    "claims is unverified"
)


def _claim(path: Path) -> tuple[str, bool]:
    """What a release states of its guarantee in words, and whether it has one that holds."""
    checked = verify(path)
    statement = "" if checked.record is None else budget(checked.record.receipt)
    if checked.sound and checked.record is not None:
        words = f"it states {statement}; its files and numbers add up (understudy verify)"
        return words, not checked.record.unprotected
    words = (
        f"it states {statement or 'nothing that can be read'}, unverified: "
        f"{fault_words(checked.faults)}"
    )
    return words, False


def _open_outside(path: Path, options: EvaluationOptions) -> Source:
    """A dataset that is no release: somebody else's."""
    try:
        return open_labelled(str(path), label=options.label, skip_bad=options.skip_bad)
    except SourceError as error:
        raise RunError(
            f"{path}: holds no release (no privacy.json, here or in release/), and cannot be read "
            f"as a dataset: {error}"
        ) from error


def _of_classes(release: Source, real: Source) -> Source:
    """Somebody else's samples, under the class names of the real records; any class may have none.

    Whole-number labels are indices into names that are no numbers, in order, as in every reader of
    class folders.

    Raises:
        ConfigError: Some labels are of no class of the real records: the samples are mislabelled.
    """
    ours, names = set(release.classes), set(real.classes)
    indexed = all(map(str.isdecimal, ours)) and not any(map(str.isdecimal, names))
    unknown = {name for name in ours if int(name) >= len(names)} if indexed else ours - names
    if ours == names or not (indexed or ours & names):
        return release
    if unknown:
        raise ConfigError(
            f"{release.name}: has samples of label {', '.join(sorted(unknown)[:10])}, and the real "
            f"rows are of {len(names)} classes: {', '.join(real.classes[:20])}. Mend its labels"
        )
    if indexed:
        return AdaptedSource.indexed(release, real.classes)
    return AdaptedSource(release, Options(release.name, classes=real.classes))


def _facts_of(source: Source) -> dict[str, Any]:
    """What is known of a dataset that states nothing."""
    images = source.kind == "images"
    premises = [{"name": "colour channels", "value": source.shape[-1], "origin": "declared"}]
    shape = list(source.shape) if images else None
    return {"data": {"image_shape": shape}, "models": [], "premises": premises if images else []}


def _declared(
    facts: dict[str, Any], options: EvaluationOptions, size: tuple[int, int] | None
) -> dict[str, Any]:
    """How the private dataset is opened: as the owner declared it for the run."""
    premises = facts.get("premises", ())
    values = {one["name"]: one["value"] for one in premises if one["origin"] == "declared"}
    names = values.get("class names")
    if size is None and "image size" in values:  # of a release of embeddings of images
        height, width = values["image size"]
        size = height, width
    return {
        "label": options.label or values.get("label column"),
        "classes": None if names == list(UNLABELLED_NAME) else names,
        "channels": values.get("colour channels"),
        "window": values.get("intensity window"),
        "fit": values.get("image fit", "stretch"),
        "size": size,
        "skip_bad": options.skip_bad,
    }


def _real(
    path: Path, real: str, test: str | None, declared: dict[str, Any], *, unprotected: bool
) -> tuple[Source, Source | None, Source]:
    """The members, what the run held out of the private dataset (or None), and the test set."""
    owner = path.parent / "owner"
    hold_out = read_hold_out(owner) if path.name == "release" else None
    if hold_out is not None and unprotected:
        # What was set aside calibrated a selection, and may have had a part in the candidates.
        hold_out = None
        if test is None:
            raise ConfigError(
                "say --test: real records that were not in the private dataset. What a selection "
                "without a guarantee set aside may have had a part in its candidates"
            )
    if test is None and hold_out is None:
        raise ConfigError(
            "say --test: real records that were not in the private dataset. This run held none out "
            "(understudy synthesize --hold-out 5%)"
        )
    run = _run_of(path)
    settings = {} if run is None else run.settings
    unit = _unit_rule(settings) if hold_out is None else hold_out.unit
    declared = declared | {"nested": _unit_of(settings) is not None}
    own = declared | {"skip_bad": declared["skip_bad"] or bool(settings.get("skip_bad"))}
    members = open_source(real, split="train", unit=unit, **own)
    held_out: Source | None = None
    if hold_out is not None:
        members, held_out = split(members, hold_out)
    tests = held_out if test is None else open_test(test, **declared)
    if tests is None:
        raise ConfigError("there is no test set")
    return members, held_out, tests


def other_records(path: Path, name: str, real: Source) -> str | None:
    """What is said where ``real`` has another name and length than what the run read."""
    run = _run_of(path) if path.name == "release" else None
    if run is None:
        return None
    own_run = run.spending is not None  # else its records are those of an earlier release
    sizes = run.rows, run.rows + run.rows_held_out
    if not own_run or Path(name) == Path(run.dataset) or len(real) in sizes:
        return None
    return (
        f"the run read {run.dataset}, and --real is {name}, of another size: what is measured of "
        "copies and attacks says something only of the records that the run read"
    )


def other_windows(path: Path, sources: Iterable[Source]) -> str | None:
    """What is said where another intensity window is declared than that of the run."""
    premises = _facts(path).get("premises", ()) if (path / "privacy.json").is_file() else ()
    own = [one["value"] for one in premises if one["name"] == "intensity window"]
    windows = {one.name: window_premise(one) for one in sources}
    others = [name for name, one in windows.items() if one and one[1] and list(one[0]) not in own]
    if not others or not own or own == [OF_EACH_FILE]:
        return None
    centre, width = own[0]
    return (
        f"the run read its images by window={centre:g},{width:g}, and {' and '.join(others)} is of "
        "another contrast: what is measured goes by that, too"
    )


def single_images(path: Path) -> str | None:
    """What is said where the guarantee covers several images together, and figures count each."""
    facts = _facts(path) if (path / "privacy.json").is_file() else {}
    unit = (facts.get("guarantee") or {}).get("unit") or ""
    if not unit.startswith("rows "):
        return None
    return (
        f"the guarantee covers {unit_in_words(unit)} together, and figures count single images: "
        "intervals are narrower than they should be, and where private and test records are of one "
        "person, attacks find less than there is"
    )


def _shared_units(path: Path, real: str, test: str | None, declared: dict[str, Any]) -> str:
    """What is said where the test set has persons, as the run told them apart, who are private."""
    run = _run_of(path) if path.name == "release" else None
    column = None if run is None else _unit_of(run.settings)
    if run is None or column is None or test is None or column == unit_column(None, "file", None):
        return ""  # files of one name are not of one person
    key, declared = secrets.token_bytes(32), declared | {"unit": column}
    own = declared | {"skip_bad": declared["skip_bad"] or bool(run.settings.get("skip_bad"))}
    try:
        sources = open_source(real, split="train", **own), open_test(test, **declared)
        private, others = (list(unit_digests(one, key)) for one in sources)
    except InputError:  # the test set has no such column, or no such names
        return ""
    shared = set(private) & set(others)
    rows = sum(one in shared for one in others)
    if not shared:
        return ""
    return (
        f"{len(shared):,} of the {len(set(others)):,} units of the test set, by {column}, have the "
        f"names of private ones, with {rows:,} of its {len(others):,} records: what is measured on "
        "them says little of other persons, and attacks find less than there is. Name a test set "
        "of others (--test)"
    )


def _run_of(path: Path) -> RunFile | None:
    """The run that a release is of; None where its owner's folder is not beside it."""
    file = path.parent / "owner" / "run.json"
    if not file.is_file():
        return None
    from understudy.release.run_file import read_run_file  # imports pydantic

    return read_run_file(file)


def _unit_rule(settings: Mapping[str, Any]) -> str | None:
    """The rule by which a run told units from folders or names; None where it did not."""
    column = _unit_of(settings)
    return column if rule_of(column) is not None else None


def _unit_of(settings: Mapping[str, Any]) -> str | None:
    """The column or the rule that told a run whose an image is."""
    return unit_column(*map(settings.get, ("unit", "unit_from", "unit_from_name")))


def _guarantee(
    path: Path, facts: dict[str, Any], options: EvaluationOptions
) -> tuple[float, float]:
    """The release's epsilon and delta, which DP-SGD is to keep."""
    if not options.trains:
        raise ConfigError("--dp-sgd is compared with trained models: add --full")
    guarantee = facts.get("guarantee", {})
    epsilon, delta = (float(guarantee.get(name) or math.nan) for name in ("epsilon", "delta"))
    if not (0 < epsilon < math.inf and 0 < delta < 1):
        raise RunError(
            f"{path / 'privacy.json'}: states no epsilon and delta that DP-SGD could keep (found "
            f"{guarantee.get('epsilon')} and {guarantee.get('delta')}): leave out --dp-sgd"
        )
    from understudy.backends.plugin import installed

    if not installed("opacus"):
        raise MissingExtra("DP-SGD on the private records (--dp-sgd)", "bench")
    return epsilon, delta


def _require_one_shape(
    release: Source, real: Source, test: Source, encoder: Encoder | None
) -> None:
    """Refuse rows that do not compare with those of the release."""
    for source in (real, test):
        shape = source.shape
        if source.kind == "images" and encoder is not None:
            shape = (encoder.dim,)
        if shape != release.shape:
            raise ConfigError(
                f"the release has rows of shape {release.shape}, {source.name} of {shape}: "
                "evaluate it with data as it was made from"
            )


def _facts(path: Path) -> dict[str, Any]:
    facts = read_json(path / "privacy.json")
    if "image_shape" not in facts.get("data", {}):
        raise RunError(f"{path / 'privacy.json'}: does not say the shape of the images")
    return facts


def _encoder(path: Path, facts: dict[str, Any], name: str | None, real: Source) -> Encoder | None:
    """The release's encoder: as the owner's run named it, else as the release does."""
    if real.kind == "embeddings":
        return None
    names = [m["name"] for m in facts.get("models", ()) if m["role"] == "encoder"]
    if (run := _run_of(path)) is not None:
        names = [run.settings.get("encoder"), *names]
    choice = name or next(filter(None, names), None)
    if choice is None:
        raise RunError("the release names no encoder: say --encoder NAME to embed the real images")
    from understudy.backends.registry import load_encoder

    return load_encoder(encoder_name(choice), shape=real.shape)
