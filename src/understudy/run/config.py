"""A run's configuration: the same names on the command line, in a YAML file and in Python."""

from __future__ import annotations

import dataclasses
import difflib
import os
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from understudy.core.errors import ConfigError
from understudy.core.option import Option, declared_options, read_share
from understudy.core.roles import ROLES, RoleNames
from understudy.privacy.budget import Budget, part_of_budget
from understudy.privacy.unit import Adjacency, Unit

# What reads images is imported where it is needed: the command line's help is made from this
# module, and needs none of it.

LARGE_EPSILON = 100.0
"""Above it a run has to say that it means its epsilon (``--accept-epsilon``)."""

LARGE_DELTA = 1e-3
"""Above it likewise: of a thousand records one may be exposed outright."""

NOTED_EPSILON = 10.0
"""Above it the plan says how little an epsilon protects."""

_NEEDED: Mapping[str, str] = {
    "source": "say it on the command line or in the file",
    "out": "say it on the command line or in the file",
    "epsilon": (
        "say how much of the dataset's privacy this run may spend: --epsilon 1 (1 to 3 is usual), "
        "or a part of the budget that `understudy ledger set-budget` sets: --epsilon rest, "
        "--epsilon 10%"
    ),
}
_MOST_QUALITY = 0.5
_MOST_UNIT_ROWS = 50_000  # with a block of other rows below the 2^16 of sums.bounded_outer_sum


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What ``understudy synthesize`` is asked to do; `understudy.synthesize` says each at length.

    ``roles`` holds the models and datasets that the user named; each is an option of its own.
    """

    source: Annotated[str, Option("The private dataset.")]
    out: Annotated[Path, Option("Folder of the result.")]
    epsilon: Annotated[
        float | str,
        Option("Privacy budget of this run: a number; or rest or 10% of the dataset's budget."),
    ]
    method: Annotated[str, Option("See `understudy methods`.")] = "clustering"
    delta: Annotated[float, Option("Its delta; 1e-5 if not given.")] = 1e-5
    accept_epsilon: Annotated[
        bool, Option("Take an epsilon above 100, or a delta above 0.001.")
    ] = False
    roles: RoleNames = field(default_factory=RoleNames)
    settings: Annotated[
        Mapping[str, Any], Option("Parameters of the method; see `understudy methods`.")
    ] = field(default_factory=dict)
    count: Annotated[int | None, Option("Synthetic rows to make.", least=1)] = None
    seed: Annotated[int, Option("Of sampling; the noise takes none.")] = 0
    unit: Annotated[str | None, Option("Column that says whose row it is.")] = None
    unit_from: Annotated[
        Literal["folder", "file"] | None,
        Option("folder (below the class) or file (of frames): the unit, instead of a column."),
    ] = None
    unit_from_name: Annotated[
        str | None, Option(r"The unit by an image's path, such as 'case_(\d+)'.", metavar="REGEX")
    ] = None
    unit_rows: Annotated[int, Option("Rows of a unit to use at most.", most=_MOST_UNIT_ROWS)] = 64
    adjacency: Annotated[Adjacency, Option("add-remove or replace-one.")] = "add-remove"
    ledger: Annotated[str | None, Option("Path or URL of the ledger.")] = None
    test: Annotated[str | None, Option("Real test set, to measure accuracy.")] = None
    test_rows: Annotated[int | None, Option("Train on at most so many.", least=1)] = None
    size: Annotated[int | None, Option("Resize images to SIZE x SIZE.", least=1)] = None
    fit: Annotated[
        Literal["stretch", "crop", "pad"],
        Option("stretch, crop or pad (with black) images of other ratios."),
    ] = "stretch"
    label: Annotated[str | None, Option("Column that holds the class; 'none': no labels.")] = None
    classes: Annotated[
        tuple[str, ...] | None,
        Option("All classes there are, declared by the owner.", metavar="NAME,NAME"),
    ] = None
    channels: Annotated[int | None, Option("Convert to 1 (grey) or 3 (RGB).")] = None
    hold_out: Annotated[
        float | str | None,
        Option("Set a random part aside before the run, such as 5%.", metavar="SHARE"),
    ] = None
    quality_share: Annotated[
        float | str | None,
        Option("Part of the budget that measures and publishes the quality.", metavar="SHARE"),
    ] = None
    otherwise: Annotated[
        str | None, Option("Method that gets the rest of the budget where METHOD stops.")
    ] = None
    candidates_public: Annotated[
        bool, Option("No private image had a part in the candidates: you declare it.")
    ] = False
    format: Annotated[Literal["png", "parquet"], Option("png or parquet.")] = "png"
    licence: Annotated[str, Option("Licence of the release.")] = "unknown"
    contact: Annotated[str | None, Option("Whom to ask about the release.")] = None
    publish_total: Annotated[
        bool, Option("State what all releases of the dataset come to, in the release.")
    ] = False
    resume: Annotated[bool, Option("Go on with OUT.")] = False
    dry_run: Annotated[bool, Option("Only show the plan.")] = False
    skip_bad: Annotated[bool, Option("Pass over unreadable files.")] = False
    watch: Annotated[bool, Option("Tell how far off it is; for the owner alone.")] = False
    quality: Annotated[str | None, Option("Choose images by piqe, niqe or niqe:FILE.")] = None
    quality_threshold: Annotated[float | None, Option("Draw again what is not below it.")] = None
    images_per_embedding: Annotated[
        int | None, Option("Images to choose from, each time.", least=1)
    ] = None

    def __post_init__(self) -> None:
        from understudy.data.labels import NO_LABELS
        from understudy.data.names import names_of_classes
        from understudy.data.reading_options import require_size
        from understudy.run.held_out import check_hold_out

        if isinstance(self.epsilon, str):
            _ = part_of_budget(self.epsilon), Budget(1.0, self.delta)
        else:
            _ = self.budget
            self._require_meant(self.epsilon)
        if self.delta > LARGE_DELTA and not self.accept_epsilon:
            raise ConfigError(
                f"delta {self.delta:g} allows that a record is exposed outright with that "
                f"probability. Take 1e-5, or {LARGE_DELTA:g} at most; --accept-epsilon says that "
                "it is meant"
            )
        _ = self.privacy_unit
        require_size(self.fit, self.size)
        if self.classes is not None:
            object.__setattr__(self, "classes", names_of_classes(self.classes))
            if self.label == NO_LABELS:
                raise ConfigError("--label none leaves no classes to declare: leave out --classes")
        if self.channels not in (None, 1, 3):
            raise ConfigError(f"channels is 1 (grey) or 3 (colour), found {self.channels}")
        if self.hold_out is not None:
            check_hold_out(self.hold_out, self.privacy_unit)
        if self.quality_part > _MOST_QUALITY:
            raise ConfigError(
                f"quality_share is {_MOST_QUALITY:.0%} at most, found {self.quality_share}: what "
                "is measured has to be made first; 2% is usual"
            )

    def _require_meant(self, epsilon: float) -> None:
        if epsilon > LARGE_EPSILON and not self.accept_epsilon:
            raise ConfigError(
                f"epsilon {epsilon:g} protects next to nothing: an attacker may be right as "
                f"good as always. Take 1 to 10, or {LARGE_EPSILON:g} at most; "
                "--accept-epsilon says that it is meant"
            )

    @property
    def budget(self) -> Budget:
        """(epsilon, delta) of this run.

        Raises:
            ConfigError: Epsilon is a part of the dataset's budget, which the ledger has to say
                first (`understudy.run.books.with_epsilon`).
        """
        if isinstance(self.epsilon, str):
            raise ConfigError(f"epsilon {self.epsilon} is no number before the ledger was asked")
        return Budget(self.epsilon, self.delta)

    @property
    def privacy_unit(self) -> Unit:
        """The unit of protection."""
        return Unit(self.unit_column, self.unit_rows, self.adjacency)

    @property
    def unit_column(self) -> str | None:
        """The column, or the rule as text, that says whose row it is; None: its own."""
        from understudy.data.units import unit_column

        return unit_column(self.unit, self.unit_from, self.unit_from_name)

    @property
    def quality_part(self) -> float:
        """Part of the run's squared mu that pays for measuring its quality; 0: none."""
        if self.quality_share is None:
            return 0.0
        return read_share("quality_share", self.quality_share)

    def as_options(self) -> dict[str, Any]:
        """Every option by its name; a role that was left open is None."""
        return {
            name: self.roles.get(name) if name in ROLES else getattr(self, name)
            for name in run_options()
        }

    def identity(self) -> dict[str, Any]:
        """What a resumed run must agree on, as JSON values."""
        skip = {"out", "resume", "dry_run", "test", "test_rows", "ledger", "licence", "watch"}
        skip |= {"accept_epsilon", "contact", "publish_total"}
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in self.as_options().items()
            if name not in skip
        }


@cache
def run_options() -> dict[str, Any]:
    """The annotation of every option of a run by its name: those of `RunConfig`, each role one."""
    hints = typing.get_type_hints(RunConfig, include_extras=True)
    roles = typing.get_type_hints(RoleNames, include_extras=True)
    annotations: dict[str, Any] = {}
    for one in dataclasses.fields(RunConfig):
        annotations |= roles if one.name == "roles" else {one.name: hints[one.name]}
    return annotations


def source_name(what: str, source: object) -> str:
    """The name of a dataset, for Python takes paths too.

    Args:
        what: The option, for the error.
        source: A folder, a file or ``hf:NAME``.

    Raises:
        ConfigError: Something else, such as an array.
    """
    if isinstance(source, str | os.PathLike):
        return str(os.fspath(source))
    raise ConfigError(
        f"{what} is a folder, a file or hf:NAME, found {type(source).__name__}. Arrays are read "
        'from a file: np.savez("data.npz", images=images, labels=labels), or embeddings='
    )


def unknown(what: str, name: str, known: list[str]) -> ConfigError:
    """The error for a name that does not exist, with the nearest that does."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ConfigError(f"unknown {what} {name!r}.{hint} There are: {', '.join(sorted(known))}")


def read_yaml(path: Path, what: str) -> Any:
    """The content of a YAML file.

    Args:
        path: The file.
        what: What it is, for the error: ``"configuration"``.

    Raises:
        ConfigError: It cannot be read, or is no YAML.
    """
    import yaml

    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the {what}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a YAML file: {error}") from error


def read_config(path: Path) -> dict[str, Any]:
    """The options in a YAML file.

    Raises:
        ConfigError: A file that cannot be read, is no mapping, or has an unknown key.
    """
    content = read_yaml(path, "configuration")
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected 'name: value' lines, found {type(content).__name__}")
    known = run_options()
    options = {str(key).replace("-", "_"): value for key, value in content.items()}
    for name in options:
        if name not in known:
            raise unknown(f"key in {path}:", name, list(known))
    if options.get("settings") is not None:
        options["settings"] = _read("settings", options["settings"], known)
    return options


def make_config(options: Mapping[str, Any]) -> RunConfig:
    """A configuration from options of any origin, with their types and ranges checked.

    Raises:
        ConfigError: An unknown or missing option, or a value of the wrong type or out of range.
    """
    known = run_options()
    for name in options:
        if name not in known:
            raise unknown("option", name, list(known))
    for name, remedy in _NEEDED.items():
        if options.get(name) in (None, ""):
            raise ConfigError(f"{name} is missing: {remedy}")
    values = {name: _read(name, value, known) for name, value in options.items()}
    roles = {name: values.pop(name) for name in ROLES if name in values}
    named = typing.cast(RoleNames, {name: one for name, one in roles.items() if one is not None})
    return RunConfig(roles=named, **values)


def make_params(params: type[Any], settings: Mapping[str, Any]) -> Any:
    """A method's parameters from ``--set`` values, which may be text.

    Raises:
        ConfigError: An unknown setting, or a value of the wrong type or out of range.
    """
    known = declared_options(params)
    for name in settings:
        if name not in known:
            raise unknown("setting", name, list(known))
    return params(**{name: _read(name, value, known) for name, value in settings.items()})


def _read(name: str, value: Any, known: Mapping[str, Any]) -> Any:
    """A value as the option of that name takes it.

    Raises:
        ConfigError: It does not.
    """
    from understudy.backends.option_reading import read_value

    return read_value(name, value, known[name])


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a configuration file; the command line may say what the file does not."""
    from pydantic import ConfigDict, create_model

    from understudy.backends.option_reading import field_of

    defaults = {one.name: one.default for one in dataclasses.fields(RunConfig)}
    defaults |= dict.fromkeys(_NEEDED, ...) | {"settings": {}}  # the first two without a default
    fields: dict[str, Any] = {
        name: (field_of(hint), defaults.get(name)) for name, hint in run_options().items()
    }
    strict = ConfigDict(extra="forbid", title="A run of Understudy")
    schema: dict[str, Any] = create_model("Run", __config__=strict, **fields).model_json_schema()
    del schema["required"]
    return schema
