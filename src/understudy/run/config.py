"""A run's configuration: the same names on the command line, in a YAML file and in Python."""

from __future__ import annotations

import dataclasses
import difflib
import os
import typing
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypedDict

from understudy.backends.yaml_files import read_yaml
from understudy.core.entry_points import DEFAULT_METHOD
from understudy.core.errors import ConfigError
from understudy.core.files import ReleaseFormat, folder_name, home_path
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
    "source": "name the private dataset, such as photos/, or with --config as 'source: photos/'",
    "out": "name a folder for the result, --out out/, or with --config as 'out: out/'",
    "epsilon": (
        "say how much of the dataset's privacy this run may spend: --epsilon 1 (1 to 3 is usual), "
        "or a part of the budget that `understudy ledger set-budget` sets: --epsilon rest, "
        "--epsilon 10%"
    ),
}
_SCORE_SHARE = 0.1  # by which settings are chosen: twice what is usual, for scores to differ
_MOST_UNIT_ROWS = 50_000  # with a block of other rows below the 2^16 of sums.bounded_outer_sum


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Which private records a run reads, and how."""

    source: Annotated[str, Option("The private dataset: a folder, a file or hf:NAME.")]
    size: Annotated[int | None, Option("Resize images to SIZE x SIZE pixels.", least=1)] = None
    fit: Annotated[
        Literal["stretch", "crop", "pad"],
        Option("How images of another shape are brought to SIZE: stretch, crop or pad."),
    ] = "stretch"
    channels: Annotated[int | None, Option("Read images as 1 (grey) or 3 (colour).")] = None
    label: Annotated[
        str | None, Option("Column that holds the class; 'none' if there are no labels.")
    ] = None
    classes: Annotated[
        tuple[str, ...] | None,
        Option("Names of all classes, which you declare to be public.", metavar="NAME,NAME"),
    ] = None
    skip_bad: Annotated[bool, Option("Leave out files that cannot be read.")] = False
    test: Annotated[str | None, Option("Real test set on which accuracy is measured.")] = None
    test_rows: Annotated[
        int | None, Option("Most rows to train on when accuracy is measured.", least=1)
    ] = None

    def __post_init__(self) -> None:
        from understudy.data.labels import NO_LABELS
        from understudy.data.names import names_of_classes
        from understudy.data.reading_options import require_size

        require_size(self.fit, self.size)
        object.__setattr__(self, "source", folder_name(self.source))
        if self.classes is not None:
            object.__setattr__(self, "classes", names_of_classes(self.classes))
            if self.label == NO_LABELS:
                raise ConfigError("--label none leaves no classes to declare: leave out --classes")
        if self.channels not in (None, 1, 3):
            raise ConfigError(f"channels is 1 (grey) or 3 (colour), found {self.channels}")


@dataclass(frozen=True, kw_only=True)
class PrivacyOptions:
    """What a run may spend, on whose protection, and where that is recorded."""

    epsilon: Annotated[
        float | str,
        Option("Privacy budget, such as 1; or rest, or 10% of the total."),
    ]
    delta: Annotated[float, Option("Delta of the guarantee; 1e-5 by default.")] = 1e-5
    accept_epsilon: Annotated[
        bool, Option("Confirm an epsilon above 100, or a delta above 0.001.")
    ] = False
    unit: Annotated[
        str | None, Option("Column with the person or case that each image belongs to.")
    ] = None
    unit_from: Annotated[
        Literal["folder", "file"] | None,
        Option("Images of one folder (below its class) or of one file belong together."),
    ] = None
    unit_from_name: Annotated[
        str | None,
        Option(
            r"Images whose paths agree in this group belong together: 'case_(\d+)'.",
            metavar="REGEX",
        ),
    ] = None
    unit_rows: Annotated[
        int, Option("Most images used of each person or case.", most=_MOST_UNIT_ROWS)
    ] = 64
    adjacency: Annotated[
        Adjacency, Option("Neighbouring datasets differ by add-remove or replace-one.")
    ] = "add-remove"
    ledger: Annotated[
        str | None, Option("Path or address of the ledger that records spending.")
    ] = None
    hold_out: Annotated[
        float | str | None,
        Option("Random part set aside before the run, such as 5%.", metavar="SHARE"),
    ] = None
    allow_remote_private: Annotated[
        str | None,
        Option(
            "Host that may be sent private images; no guarantee holds towards it.", metavar="HOST"
        ),
    ] = None
    quality_share: Annotated[
        float | str | None,
        Option("Part of the budget for a published measure of quality.", metavar="SHARE"),
    ] = None
    tune: Annotated[
        str | None,
        Option("Choose settings by a DP score: quick, or a YAML file.", metavar="SPACE"),
    ] = None

    def __post_init__(self) -> None:
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
        if self.hold_out is not None:
            read_share("--hold-out", self.hold_out)
        _ = self.quality_part

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
        """Part of the run's squared mu that pays for measuring its quality; 0: none.

        Settings are chosen by that measure.
        """
        if self.quality_share is None:
            return 0.0 if self.tune is None else _SCORE_SHARE
        return read_share("--quality-share", self.quality_share)


@dataclass(frozen=True, kw_only=True)
class MethodOptions:
    """The method, its settings, and the models and datasets it works with.

    ``roles`` holds the models and datasets that the user named; each is an option of its own.
    """

    method: Annotated[str, Option("One of the methods that `understudy methods` lists.")] = (
        DEFAULT_METHOD
    )
    settings: Annotated[
        Mapping[str, Any], Option("Parameters of the method; see `understudy methods`.")
    ] = field(default_factory=dict)
    roles: RoleNames = field(default_factory=RoleNames)
    candidates_public: Annotated[
        bool, Option("You declare that no private image had a part in the candidates.")
    ] = False
    device: Annotated[
        str | None, Option("Where models run: cpu, cuda, cuda:1, or auto for the best there is.")
    ] = None
    otherwise: Annotated[
        str | None, Option("Method that gets the rest of the budget if the first one stops.")
    ] = None
    quality: Annotated[
        str | None, Option("Measure by which images are chosen: piqe, niqe or niqe:FILE.")
    ] = None
    quality_threshold: Annotated[
        float | None, Option("Draw an image again unless it scores below this.")
    ] = None
    images_per_embedding: Annotated[
        int | None, Option("Images drawn of each embedding; the best is taken.", least=1)
    ] = None
    max_calls: Annotated[
        int | None, Option("Most requests to models that servers run.", least=1)
    ] = None
    max_cost: Annotated[
        float | None, Option("Most that they may cost, by the prices in their names.", above=0)
    ] = None


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What a run writes, and how it goes on."""

    out: Annotated[Path, Option("Folder of the result.")]
    count: Annotated[
        int | None,
        Option("Synthetic images to make; by default one per record or unit.", least=1),
    ] = None
    seed: Annotated[int, Option("Seed of the sampling; the noise has none.", least=0)] = 0
    format: Annotated[ReleaseFormat, Option("Write images as png, parquet or npz.")] = "png"
    licence: Annotated[str, Option("Licence of the release.")] = "unknown"
    contact: Annotated[str | None, Option("Whom to ask about the release.")] = None
    publish_total: Annotated[
        bool, Option("State in the release what all releases of the dataset come to.")
    ] = False
    resume: Annotated[bool, Option("Go on with an interrupted run in OUT.")] = False
    dry_run: Annotated[bool, Option("Show the plan, spend nothing and stop.")] = False
    watch: Annotated[
        bool, Option("Report the distance to the private images as it goes, to you alone.")
    ] = False
    engine: Annotated[
        Literal["local", "ray"], Option("Where private records are read: here, or by Ray.")
    ] = "local"
    ray_address: Annotated[
        str | None, Option("Ray cluster to use, as HOST:PORT; else one of this machine is started.")
    ] = None
    ray_trusted: Annotated[
        bool, Option("You vouch for a Ray cluster with other machines (docs/scale.md).")
    ] = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", home_path(self.out))
        if self.engine == "local" and (self.ray_address is not None or self.ray_trusted):
            raise ConfigError("--ray-address and --ray-trusted say how Ray is used: --engine ray")


class ReadingOptions(TypedDict, total=False):
    """How a private dataset is read, and delta, as `understudy.synthesize` takes them."""

    delta: float
    unit: str | None
    unit_from: Literal["folder", "file"] | None
    unit_from_name: str | None
    unit_rows: int
    size: int | None
    fit: Literal["stretch", "crop", "pad"]
    label: str | None
    classes: Sequence[str] | str | None
    channels: int | None
    skip_bad: bool


AUDITED = (
    *("method", *ROLES, "adjacency", "unit", "unit_from", "unit_from_name", "unit_rows"),
    *("size", "fit", "label", "classes", "channels", "skip_bad", "seed"),
)
"""The options of a run that an audit takes as they are."""

OPTION_GROUPS: Mapping[str, type[Any]] = {
    "data": DataOptions,
    "privacy": PrivacyOptions,
    "models": MethodOptions,
    "output": OutputOptions,
}
"""The four groups of options by their names in a `RunConfig`."""


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What ``understudy synthesize`` is asked to do: its options in four groups."""

    data: DataOptions
    privacy: PrivacyOptions
    models: MethodOptions
    output: OutputOptions

    def as_options(self) -> dict[str, Any]:
        """Every option by its name; a role that was left open is None."""
        roles = self.models.roles
        return {
            name: roles.get(name) if name in ROLES else getattr(getattr(self, group), name)
            for name, group in group_of_options().items()
        }

    def changed(self, **options: Any) -> RunConfig:
        """The same run with some options changed; ``roles`` are all of them."""
        groups = dict.fromkeys((*group_of_options(), "roles"), "models") | group_of_options()
        parts = {
            group: {name: value for name, value in options.items() if groups[name] == group}
            for group in OPTION_GROUPS
        }
        return RunConfig(
            **{name: replace(getattr(self, name), **part) for name, part in parts.items()}
        )

    def identity(self) -> dict[str, Any]:
        """What a resumed run must agree on, as JSON values."""
        skip = {"out", "resume", "dry_run", "test", "test_rows", "ledger", "licence", "watch"}
        skip |= {"accept_epsilon", "contact", "publish_total", "max_calls", "max_cost"}
        skip |= {"engine", "ray_address", "ray_trusted"}  # every engine gives the same sums
        return {
            name: dict(value) if isinstance(value, Mapping) else value
            for name, value in self.as_options().items()
            if name not in skip
        }


@cache
def run_options() -> dict[str, Any]:
    """The annotation of every option of a run by its name: those of each group, each role one."""
    roles = typing.get_type_hints(RoleNames, include_extras=True)
    annotations: dict[str, Any] = {}
    for group in OPTION_GROUPS.values():
        for name, hint in declared_options(group).items():
            annotations |= roles if name == "roles" else {name: hint}
    return annotations


@cache
def group_of_options() -> dict[str, str]:
    """The group of every option of a run by its name."""
    fields = {
        name: group for group, kind in OPTION_GROUPS.items() for name in kind.__dataclass_fields__
    } | dict.fromkeys(ROLES, "models")
    return {name: fields[name] for name in run_options()}


@cache
def option_defaults() -> dict[str, Any]:
    """The default of every option that has one; that of a role is None."""
    defaults: dict[str, Any] = dict.fromkeys(ROLES)
    for kind in OPTION_GROUPS.values():
        for one in dataclasses.fields(kind):
            if one.default is not dataclasses.MISSING:
                defaults[one.name] = one.default
    return defaults


def source_name(what: str, source: object) -> str:
    """The name of a dataset, for Python takes paths too."""
    if isinstance(source, str | os.PathLike):
        return str(os.fspath(source))
    raise ConfigError(
        f"{what} is a folder, a file or hf:NAME, found {type(source).__name__}. Arrays are read "
        'from a file: np.savez("data.npz", images=images, labels=labels), or embeddings='
    )


def unknown(what: str, name: str, options: Iterable[str]) -> ConfigError:
    """The error for a name that does not exist, with the nearest that does."""
    names = sorted(options)
    near = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ConfigError(f"unknown {what} {name!r}.{hint} There are: {', '.join(names)}")


def require_known(what: str, names: Iterable[str], options: Collection[str]) -> None:
    """Refuse the first name that does not exist."""
    for name in names:
        if name not in options:
            raise unknown(what, name, options)


def read_config(path: Path) -> dict[str, Any]:
    """The options in a YAML file.

    Raises:
        ConfigError: A file that cannot be read, is no mapping, or has an unknown key.
    """
    content = read_yaml(path, "configuration")
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected 'name: value' lines, found {type(content).__name__}")
    declarations = run_options()
    options = {str(key).replace("-", "_"): value for key, value in content.items()}
    if "set" in options:
        if "settings" in options:
            raise ConfigError(f"{path}: 'set' and 'settings' are the same: give one of them")
        options["settings"] = options.pop("set")
    require_known(f"key in {path}:", options, declarations)
    if options.get("settings") is not None:
        options["settings"] = _read("settings", options["settings"], declarations)
    return options


def make_config(options: Mapping[str, Any]) -> RunConfig:
    """A configuration from options of any origin, with their types and ranges checked.

    Raises:
        ConfigError: An unknown or missing option, or a value of the wrong type or out of range.
    """
    declarations = run_options()
    require_known("option", options, declarations)
    for name, remedy in _NEEDED.items():
        if options.get(name) in (None, ""):
            raise ConfigError(f"{name} is missing: {remedy}")
    values = {name: _read(name, value, declarations) for name, value in options.items()}
    given = (values.get("settings") or {}).items()
    if numbers := {key: one.tolist() for key, one in given if hasattr(one, "tolist")}:
        values["settings"] = {**values["settings"], **numbers}  # of NumPy, which are no JSON
    roles = {name: values.pop(name) for name in ROLES if name in values}
    parts: dict[str, dict[str, Any]] = {group: {} for group in OPTION_GROUPS}
    for name, value in values.items():
        parts[group_of_options()[name]][name] = value
    parts["models"]["roles"] = {role: name for role, name in roles.items() if name is not None}
    return RunConfig(**{group: OPTION_GROUPS[group](**part) for group, part in parts.items()})


def parse_settings(pairs: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` texts as a mapping."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError(f"--set takes NAME=VALUE, found {pair!r}")
        settings[name.strip()] = value.strip()
    return settings


def make_params(params: type[Any], settings: Mapping[str, Any]) -> Any:
    """A method's parameters from ``--set`` values, which may be text.

    Raises:
        ConfigError: An unknown setting, or a value of the wrong type or out of range.
    """
    declarations = declared_options(params)
    require_known("setting", settings, declarations)
    return params(**{name: _read(name, value, declarations) for name, value in settings.items()})


def _read(name: str, value: Any, declarations: Mapping[str, Any]) -> Any:
    """A value as the option of that name takes it."""
    from understudy.backends.option_reading import read_value

    return read_value(name, value, declarations[name])


def json_schema() -> dict[str, Any]:
    """The JSON Schema of a configuration file; the command line may say what the file does not."""
    from pydantic import ConfigDict, create_model

    from understudy.backends.option_reading import field_of

    defaults = option_defaults() | dict.fromkeys(_NEEDED, ...) | {"settings": {}}
    fields: dict[str, Any] = {
        name: (field_of(hint), defaults.get(name)) for name, hint in run_options().items()
    }
    strict = ConfigDict(extra="forbid", title="A run of Understudy")
    schema: dict[str, Any] = create_model("Run", __config__=strict, **fields).model_json_schema()
    del schema["required"]
    return schema
