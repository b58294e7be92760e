"""What ``understudy select`` is asked to do: the same names on the command line and in Python."""

from __future__ import annotations

import dataclasses
import math
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from understudy.core.entry_points import SELECTION_METHOD
from understudy.core.errors import ConfigError
from understudy.core.option import Option
from understudy.run.config import RunConfig, make_config, make_params, require_known, run_options

if TYPE_CHECKING:  # importing it takes NumPy
    from understudy.methods.base import Method
    from understudy.methods.open_selection import OpenSelection

HELD_OUT_PART = "held-out"
"""As ``--reference``: the part of the private dataset that calibrates the distances."""

_HOLD_OUT = "20%"
_OF_A_RUN = (
    *("out", "candidates_public", "delta", "accept_epsilon", "encoder", "public", "settings"),
    *("unit", "unit_from", "unit_from_name", "unit_rows", "adjacency", "ledger"),
    *("size", "fit", "label", "classes", "channels"),
    *("seed", "format", "licence", "resume", "skip_bad"),
)
_ABOUT_PRIVATE = (
    *("epsilon", "hold_out", "unit", "unit_from", "unit_from_name", "classes", "label"),
    *("penalty_encoder", "lpips"),
)
_NO_PENALTY = (
    "a penalty is a distance to the nearest private image, which has no useful private version"
)
_NOT_UNDER_PRIVACY = {
    "no_guarantee": "a selection has an epsilon or no guarantee",
    "reference": "under --epsilon the private records are the reference, by noisy gradients",
    "penalty_encoder": _NO_PENALTY,
    "lpips": _NO_PENALTY,
}
Form = Literal["no guarantee", "differential privacy", "post-processing"]


@dataclass(frozen=True, kw_only=True)
class SelectConfig:
    """What ``understudy select`` is asked to do; `understudy.select` says each at length.

    Attributes:
        run: The options that it shares with a run, as one on the private dataset, or on the
            candidates where there is none.
    """

    candidates: Annotated[str, Option("The candidates: a dataset, a release or a run's folder.")]
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
    penalty_encoder: Annotated[
        str | None, Option("Of the distances to private images; another than --encoder.")
    ] = None
    lpips: Annotated[
        str | None,
        Option("A perceptual distance to private images, as TorchScript.", metavar="FILE"),
    ] = None
    hold_out: float | str | None = None
    run: RunConfig

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
    def method(self) -> Method:
        """The method that selects."""
        from understudy.run.methods import method

        return method(SELECTION_METHOD)

    @property
    def openly(self) -> OpenSelection:
        """How it selects without noise."""
        if self.method.open_selection is None:
            raise ConfigError(f"{SELECTION_METHOD} selects nothing without an --epsilon")
        return self.method.open_selection

    @property
    def params(self) -> Any:
        """The settings of a selection without noise, with their types and ranges checked."""
        return make_params(self.openly.params, self.run.models.settings)

    def share_held_out(self, *, non_members: bool) -> float | str | None:
        """The share of the private dataset that is set aside; None: nothing.

        Args:
            non_members: Whether the reference holds records that are not private: then nothing is,
                unless it was asked for.
        """
        if self.private is None or _is_none(self.hold_out):
            return None
        return self.hold_out or (None if non_members else _HOLD_OUT)

    def identity(self) -> dict[str, Any]:
        """What a resumed run must agree on, as JSON values."""
        own = {name: getattr(self, name) for name in _own_options()}
        settings = {name: one for name, one in self.run.models.settings.items() if name != "keep"}
        return {**self.run.identity(), **own, "settings": settings}


def _is_none(hold_out: float | str | None) -> bool:
    """Whether ``--hold-out 0`` was asked for."""
    return str(hold_out).strip() in ("0", "0.0", "0%")


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


def _own_options() -> tuple[str, ...]:
    return tuple(one.name for one in dataclasses.fields(SelectConfig) if one.name != "run")


@cache
def select_options() -> dict[str, Any]:
    """The annotation of every option by its name; those of a run have the run's."""
    shared = {name: run_options()[name] for name in ("hold_out", *_OF_A_RUN)}
    own = typing.get_type_hints(SelectConfig, include_extras=True)
    return {name: own[name] for name in _own_options()} | shared


def make_select_config(options: Mapping[str, Any]) -> SelectConfig:
    """A configuration from options of any origin, with their types and ranges checked.

    Raises:
        ConfigError: An unknown or missing option, or values that make no sense together.
    """
    from understudy.backends.option_reading import read_value

    annotations = select_options()
    require_known("option", options, annotations)
    for name in ("candidates", "out", "keep"):
        if options.get(name) is None:
            raise ConfigError(f"{name} is missing: understudy select CANDIDATES --keep 50% --out D")
    values = {name: value for name, value in options.items() if value is not None}
    own = {
        name: read_value(name, values.pop(name), annotations[name])
        for name in _own_options()
        if name in values
    }
    own["keep"] = share_or_number(own["keep"])
    run = {**values, "method": SELECTION_METHOD, "candidates": own["candidates"]}
    run["source"] = own.get("private") or own["candidates"]
    run["epsilon"] = own.get("epsilon", 1.0)
    run["hold_out"] = None if _is_none(own.get("hold_out")) else own.get("hold_out")
    settings = read_value("settings", values.get("settings", {}), annotations["settings"])
    run["settings"] = {**settings, "keep": own["keep"]}
    config = SelectConfig(**own, run=make_config(run))
    if config.form == "differential privacy":
        _check_private_answers(config)
    else:
        _check_open(config)
    return config


def _check_private_answers(config: SelectConfig) -> None:
    for name, why in _NOT_UNDER_PRIVACY.items():
        if getattr(config, name):
            raise ConfigError(f"leave out --{name.replace('_', '-')}: {why}")
    params = make_params(config.method.params, config.run.models.settings)
    if params.penalised:
        raise ConfigError(f"leave out the penalties (--set): {_NO_PENALTY}")


def _check_open(config: SelectConfig) -> None:
    """Refuse what is about private images where there are none, and distances of no other space."""
    params, encoder = config.params, config.run.models.roles.get("encoder")
    if config.form == "no guarantee":
        if encoder is not None and encoder == config.penalty_encoder:
            raise ConfigError(
                f"--penalty-encoder is --encoder ({encoder}): distances by which candidates "
                "are penalised are taken in another space than the one that they are chosen in"
            )
        return
    options = {**config.run.as_options(), **config.identity()}
    for name in _ABOUT_PRIVATE:
        if options[name] is not None:
            raise ConfigError(
                f"--{name.replace('_', '-')} is about private images, and there is no "
                "--private: leave it out, or name the private dataset"
            )
    if config.reference == HELD_OUT_PART:
        raise ConfigError("--reference held-out is a part of --private, which is not given")
    if params.penalised:
        raise ConfigError(
            "the penalties (--set) are for what is near to private images, and there is no "
            "--private: leave them out"
        )
