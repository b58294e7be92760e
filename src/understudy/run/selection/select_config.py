"""What ``understudy select`` is asked to do: the same names on the command line and in Python."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from understudy.core.errors import ConfigError
from understudy.core.files import ReleaseFormat
from understudy.core.option import Option, option_of
from understudy.privacy.unit import Adjacency
from understudy.run.config import RunConfig, make_config, make_params, run_options, unknown

if TYPE_CHECKING:  # importing it takes NumPy
    from understudy.methods.selection.base import SteeredSettings

METHOD = "selection"
HELD_OUT_PART = "held-out"
"""As ``--reference``: the part of the private dataset that calibrates the distances."""

_HOLD_OUT = "20%"
Form = Literal["no guarantee", "differential privacy", "post-processing"]


@dataclass(frozen=True, kw_only=True)
class SelectConfig:
    """What ``understudy select`` is asked to do; `understudy.select` says each at length.

    Options without a description of their own are those of a run.
    """

    candidates: Annotated[str, Option("The candidates: a dataset, a release or a run's folder.")]
    out: Path
    keep: Annotated[
        float | str, Option("How many: a share such as 50%, or a number.", metavar="SHARE")
    ]
    private: Annotated[str | None, Option("The private dataset that is to be served.")] = None
    reference: Annotated[
        str | None,
        Option("Records that steer instead: held out, of a release; 'held-out'.", metavar="SOURCE"),
    ] = None
    epsilon: Annotated[
        float | str | None,
        Option("Select under differential privacy: a number; or rest or 10% of the budget."),
    ] = None
    no_guarantee: Annotated[
        bool, Option("Let private images steer without noise: no privacy guarantee.")
    ] = False
    candidates_public: Annotated[
        bool, Option("You declare that no private image had a part in the candidates.")
    ] = False
    delta: float = 1e-5
    accept_epsilon: bool = False
    encoder: str | None = None
    penalty_encoder: Annotated[
        str | None, Option("Of the distances to private images; another than --encoder.")
    ] = None
    lpips: Annotated[
        str | None,
        Option("A perceptual distance to private images, as TorchScript.", metavar="FILE"),
    ] = None
    public: str | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    hold_out: float | str | None = None
    unit: str | None = None
    unit_rows: int = 64
    adjacency: Adjacency = "add-remove"
    ledger: str | None = None
    size: int | None = None
    fit: Literal["stretch", "crop", "pad"] = "stretch"
    label: str | None = None
    classes: tuple[str, ...] | None = None
    seed: int = 0
    format: ReleaseFormat = "png"
    licence: str = "unknown"
    resume: bool = False
    skip_bad: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "keep", share_or_number(self.keep))
        _ = self.run  # checks the options that it shares with a run
        if self.form == "differential privacy":
            self._check_private_answers()
            return
        _ = self.chosen
        if self.form == "post-processing":
            self._check_post_processing()
        elif self.encoder is not None and self.encoder == self.penalty_encoder:
            raise ConfigError(
                f"--penalty-encoder is --encoder ({self.encoder}): distances by which candidates "
                "are penalised are taken in another space than the one that they are chosen in"
            )

    @property
    def form(self) -> Form:
        """Which of the three selections this is.

        Raises:
            ConfigError: Private images without noise, and nobody said that this is meant.
        """
        if self.private is None:
            return "post-processing"
        if self.epsilon is not None:
            return "differential privacy"
        if not self.no_guarantee:
            raise ConfigError(
                "choosing by private images without noise tells about them: the selection itself "
                "leaks, whatever the candidates are, and no epsilon covers it. Nothing was read. "
                "Either select under differential privacy (--epsilon 1), or say that this is meant "
                "(--no-guarantee): the release is then named so, and the ledger records it"
            )
        return "no guarantee"

    @property
    def chosen(self) -> SteeredSettings:
        """The settings of a selection without noise, with their types and ranges checked."""
        from understudy.methods.selection.base import SteeredSettings  # imports NumPy

        settings: SteeredSettings = make_params(SteeredSettings, self.settings)
        return settings

    @property
    def run(self) -> RunConfig:
        """The options that this shares with a run, as one on the private dataset."""
        own = {field.name for field in dataclasses.fields(self)}
        shared = {name: getattr(self, name) for name in own & set(run_options())}
        shared |= {"source": self.private or self.candidates, "method": METHOD}
        shared |= {"epsilon": 1.0 if self.epsilon is None else self.epsilon}
        if self.holds_none_out:
            shared["hold_out"] = None
        if self.form == "differential privacy":
            shared["settings"] = {**self.settings, "keep": self.keep}
        return make_config(shared)

    @property
    def holds_none_out(self) -> bool:
        """Whether ``--hold-out 0`` was asked for."""
        return str(self.hold_out).strip() in ("0", "0.0", "0%")

    def share_held_out(self, *, non_members: bool) -> float | str | None:
        """The share of the private dataset that is set aside; None: nothing.

        Args:
            non_members: Whether the reference holds records that are not private: then nothing is,
                unless it was asked for.
        """
        if self.holds_none_out:
            return None
        return self.hold_out or (None if non_members else _HOLD_OUT)

    def identity(self) -> dict[str, Any]:
        """What a resumed run must agree on, as JSON values."""
        skip = {"out", "resume", "ledger", "licence", "accept_epsilon"}
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in skip
        }
        settings = dict(self.settings)
        return {"method": METHOD, "source": self.run.data.source, **values, "settings": settings}

    def _check_private_answers(self) -> None:
        for name in ("no_guarantee", "reference", "penalty_encoder", "lpips"):
            if getattr(self, name):
                why = {
                    "no_guarantee": "a selection has an epsilon or no guarantee",
                    "reference": "under --epsilon the private records are the reference, by noisy "
                    "gradients",
                    "penalty_encoder": _NO_PENALTY,
                    "lpips": _NO_PENALTY,
                }[name]
                raise ConfigError(f"leave out --{name.replace('_', '-')}: {why}")
        for name in ("reconstruction", "membership"):
            if str(self.settings.get(name) or 0) not in ("0", "0.0", "none"):
                raise ConfigError(f"leave out --set {name}: {_NO_PENALTY}")

    def _check_post_processing(self) -> None:
        about_private = ("epsilon", "hold_out", "unit", "classes", "label")
        for name in (*about_private, "penalty_encoder", "lpips"):
            if getattr(self, name) is not None:
                raise ConfigError(
                    f"--{name.replace('_', '-')} is about private images, and there is no "
                    "--private: leave it out, or name the private dataset"
                )
        if self.reference == HELD_OUT_PART:
            raise ConfigError("--reference held-out is a part of --private, which is not given")
        if self.chosen.penalised:
            raise ConfigError(
                "--set reconstruction and membership penalise what is near to private images, and "
                "there is no --private: leave them out"
            )


_NO_PENALTY = (
    "a penalty is a distance to the nearest private image, which has no useful private version"
)


def share_or_number(keep: float | str) -> float:
    """What ``--keep`` says: a share in (0, 1], or a number of candidates.

    Raises:
        ConfigError: It says neither.
    """
    text = str(keep).strip()
    percent = text.endswith("%")
    try:
        number = float(text.removesuffix("%")) / (100 if percent else 1)
    except ValueError:
        number = math.nan
    whole = number == int(number) if math.isfinite(number) else False
    if not number > 0 or (percent and number > 1) or not (number <= 1 or whole):
        raise ConfigError(
            f"keep is a share above 0 and up to 100%, such as 50% or 0.5, or a number of samples, "
            f"found {keep!r}"
        )
    return number


@cache
def select_options() -> dict[str, Any]:
    """The annotation of every option by its name; those of a run have the run's."""
    hints = typing.get_type_hints(SelectConfig, include_extras=True)
    known = run_options()
    return {
        name: hint if option_of(hint).help else known.get(name, hint)
        for name, hint in hints.items()
    }


def make_select_config(options: Mapping[str, Any]) -> SelectConfig:
    """A configuration from options of any origin, with their types and ranges checked.

    Raises:
        ConfigError: An unknown or missing option, or values that make no sense together.
    """
    from understudy.backends.option_reading import read_value

    known = select_options()
    for name in options:
        if name not in known:
            raise unknown("option", name, list(known))
    for name in ("candidates", "out", "keep"):
        if options.get(name) is None:
            raise ConfigError(f"{name} is missing: understudy select CANDIDATES --keep 50% --out D")
    values = {
        name: str(value) if isinstance(value, Path) and name != "out" else value
        for name, value in options.items()
        if value is not None
    }
    return SelectConfig(
        **{name: read_value(name, value, known[name]) for name, value in values.items()}
    )
