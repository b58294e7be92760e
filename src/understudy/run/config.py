"""A run's configuration: the same names on the command line, in a YAML file and in Python."""

from __future__ import annotations

import dataclasses
import difflib
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from understudy.core.errors import ConfigError
from understudy.data.labels import NO_LABELS
from understudy.data.names import names_of_classes
from understudy.privacy.budget import Budget
from understudy.privacy.unit import Adjacency, Unit
from understudy.run.held_out import check_hold_out

_MOST_UNIT_ROWS = 50_000  # with a block of other rows below the 2^16 of sums.bounded_outer_sum


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What ``understudy synthesize`` is asked to do.

    Attributes:
        source: The private dataset: a folder, a file or ``hf:NAME`` (docs/sources.md).
        out: Folder of the result; it must not exist, unless ``resume``.
        method: Name of a method (``understudy methods``).
        epsilon: Privacy budget of this run.
        delta: Its delta.
        encoder: Name of an encoder; None: ``embedded:dct`` for images.
        decoder: Name of a decoder; None: the encoder's own, if it has one; ``"none"``: release
            embeddings only.
        public: A public dataset that the method may learn from for free; None: procedural images
            for an encoder whose numbers come in no order; ``"none"``: no dataset at all.
        base: A public or synthetic dataset of the same classes that the method starts from
            instead of generating one.
        cluster_encoder: Encoder whose space is partitioned, where it is not ``encoder``'s.
        generator: Name of a text-to-image generator.
        renderer: Name of the generator of the final images; None: ``generator``.
        writer: Name of a caption writer.
        captioner: Name of a captioner.
        settings: Parameters of the method (``--set clusters=8``).
        count: Synthetic rows; None: about as many as there are private ones (noisy).
        seed: Seed of the public part (sampling). The noise takes none.
        unit: Column that says whose row it is; None: every image is a unit.
        unit_rows: At most so many rows of a unit are used.
        adjacency: ``"add-remove"`` or ``"replace-one"``.
        ledger: Where spending is recorded: a path or a database URL; None: the user's own ledger.
        test: A real test set, to measure accuracy on; owner-only.
        test_rows: Train on at most so many rows when accuracy is measured; None: on all.
        size: Resize all images to size x size pixels.
        label: Column that holds the class; ``"none"``: images without labels; None: the only one.
        classes: The class names, in label order, as the owner declares them: public whatever the
            images are. None: those that the private records have.
        channels: 1 or 3, to convert images to, as the owner declares it; None: those they have.
        hold_out: Share of the units that is set aside before the run, such as ``"5%"`` or 0.05;
            under replace-one also a number of images. None: nothing is.
        format: ``"png"`` or ``"parquet"``.
        licence: Licence of the released dataset, for its card; ``"unknown"`` is the hub's word for
            "not said".
        resume: Go on with an interrupted run in ``out``.
        dry_run: Print the plan and stop; nothing is read or spent.
        skip_bad: Pass over unreadable files, and count them.
        watch: Tell the owner, as the method goes on, how far its rows are from the private ones.
        quality: A measure that looks at no private data, by which images are chosen: ``"piqe"``,
            ``"niqe"`` (fitted to ``public`` or ``base``) or ``"niqe:FILE"``; None: the first that
            is drawn of each sample is released.
        quality_threshold: Images that do not score below it are drawn again; lower is better.
        images_per_embedding: Images drawn of each embedding, of which the best is taken; None: 2
            with ``quality`` where the decoder draws another one for another seed.
    """

    source: str
    out: Path
    method: str = "clustering"
    epsilon: float = 1.0
    delta: float = 1e-5
    encoder: str | None = None
    decoder: str | None = None
    public: str | None = None
    base: str | None = None
    cluster_encoder: str | None = None
    generator: str | None = None
    renderer: str | None = None
    writer: str | None = None
    captioner: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    count: int | None = None
    seed: int = 0
    unit: str | None = None
    unit_rows: int = 64
    adjacency: Adjacency = "add-remove"
    ledger: str | None = None
    test: str | None = None
    test_rows: int | None = None
    size: int | None = None
    label: str | None = None
    classes: tuple[str, ...] | None = None
    channels: int | None = None
    hold_out: float | str | None = None
    format: typing.Literal["png", "parquet"] = "png"
    licence: str = "unknown"
    resume: bool = False
    dry_run: bool = False
    skip_bad: bool = False
    watch: bool = False
    quality: str | None = None
    quality_threshold: float | None = None
    images_per_embedding: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "out", Path(self.out))
        _ = self.budget, self.privacy_unit
        for name in ("count", "size", "test_rows", "images_per_embedding"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ConfigError(f"{name} must be 1 or more, found {value}")
        if self.classes is not None:
            object.__setattr__(self, "classes", names_of_classes(self.classes))
            if self.label == NO_LABELS:
                raise ConfigError("--label none leaves no classes to declare: leave out --classes")
        if self.channels not in (None, 1, 3):
            raise ConfigError(f"channels is 1 (grey) or 3 (colour), found {self.channels}")
        if self.hold_out is not None:
            check_hold_out(self.hold_out, self.privacy_unit)
        if self.unit_rows > _MOST_UNIT_ROWS:
            raise ConfigError(
                f"unit_rows must be {_MOST_UNIT_ROWS} or fewer, found {self.unit_rows}: the exact "
                "sums take a unit's rows in one block"
            )
        if self.format not in ("png", "parquet"):
            raise ConfigError(f"format is 'png' or 'parquet', found {self.format!r}")

    @property
    def budget(self) -> Budget:
        """(epsilon, delta) of this run."""
        return Budget(self.epsilon, self.delta)

    @property
    def privacy_unit(self) -> Unit:
        """The unit of protection."""
        return Unit(self.unit, self.unit_rows, self.adjacency)

    def identity(self) -> dict[str, Any]:
        """What a resumed run must agree on, as JSON values."""
        names = [f.name for f in dataclasses.fields(self)]
        skip = {"out", "resume", "dry_run", "test", "test_rows", "ledger", "licence", "watch"}
        return {name: _plain(getattr(self, name)) for name in names if name not in skip}


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value)
    return dict(value) if isinstance(value, Mapping) else value


def unknown(what: str, name: str, known: list[str]) -> ConfigError:
    """The error for a name that does not exist, with the nearest that does."""
    near = difflib.get_close_matches(name, known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return ConfigError(f"unknown {what} {name!r}.{hint} There are: {', '.join(sorted(known))}")


def read_config(path: Path) -> dict[str, Any]:
    """The options in a YAML file.

    Raises:
        ConfigError: A file that cannot be read, is no mapping, or has an unknown key.
    """
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read the configuration: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a YAML file: {error}") from error
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected 'name: value' lines, found {type(content).__name__}")
    known = [f.name for f in dataclasses.fields(RunConfig)]
    options = {str(key).replace("-", "_"): value for key, value in content.items()}
    for name in options:
        if name not in known:
            raise unknown(f"key in {path}:", name, known)
    if options.get("settings") is not None:
        options["settings"] = coerce("settings", options["settings"], Mapping[str, Any])
    return options


def make_config(options: Mapping[str, Any]) -> RunConfig:
    """A configuration from options of any origin, with their types checked.

    Raises:
        ConfigError: An unknown or missing option, or a value of the wrong type.
    """
    fields = {f.name: f for f in dataclasses.fields(RunConfig)}
    for name in options:
        if name not in fields:
            raise unknown("option", name, list(fields))
    for name in ("source", "out"):
        if options.get(name) is None:
            raise ConfigError(f"{name} is missing: say it on the command line or in the file")
    hints = typing.get_type_hints(RunConfig)
    return RunConfig(**{name: coerce(name, value, hints[name]) for name, value in options.items()})


def make_params(params: Any, settings: Mapping[str, Any]) -> Any:
    """A method's parameters from ``--set`` values, which may be text.

    Raises:
        ConfigError: An unknown setting, or a value of the wrong type.
    """
    fields = {f.name: f for f in dataclasses.fields(params)}
    for name in settings:
        if name not in fields:
            raise unknown("setting", name, list(fields))
    hints = typing.get_type_hints(params)
    return params(**{name: coerce(name, value, hints[name]) for name, value in settings.items()})


def coerce(name: str, value: Any, hint: Any) -> Any:
    """``value`` as the type that ``hint`` asks for.

    Raises:
        ConfigError: It cannot be one.
    """
    origin, options = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        nothing = value is None or (str not in options and str(value).lower() == "none")
        if nothing and type(None) in options:
            return None
        errors = []
        for option in sorted(options, key=lambda o: o is str):
            if option is not type(None):
                try:
                    return coerce(name, value, option)
                except ConfigError as error:
                    errors.append(error)
        raise errors[0]
    if origin is typing.Literal:
        if value not in options:
            raise ConfigError(f"{name} is one of {', '.join(map(str, options))}, found {value!r}")
        return value
    if origin is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list | tuple):
            raise ConfigError(f"{name} is a list of names, such as a,b, found {value!r}")
        return tuple(str(part) for part in parts)
    if origin is not None and issubclass(origin, Mapping):
        if not isinstance(value, Mapping):
            raise ConfigError(f"{name} is a mapping of names to values, found {value!r}")
        return dict(value)
    return _scalar(name, value, hint)


def _scalar(name: str, value: Any, kind: Any) -> Any:
    if kind is bool and isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    try:
        if kind is bool and not isinstance(value, bool):
            raise ValueError
        if kind in (int, float) and isinstance(value, bool):
            raise ValueError
        if kind is int and not isinstance(value, str) and int(value) != value:
            raise ValueError
        if kind is str and not isinstance(value, str | Path):
            raise ValueError
        return kind(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{name} must be {_KINDS.get(kind, kind)}, found {value!r}") from error


_KINDS = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    Path: "a path",
}
