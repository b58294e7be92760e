"""``understudy plan``: a method and settings for a dataset, each with its reason. Spends nothing.

What it says counts private records: it is the owner's alone, as a check is.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from os import PathLike
from typing import Any, Unpack, cast

from understudy.core.errors import InputError
from understudy.core.phrases import records_of
from understudy.core.ports import Events
from understudy.core.roles import RoleNames
from understudy.core.types import UnitCounts
from understudy.data import open_source
from understudy.data.inspection import stretch_notes, window_notes
from understudy.methods.base import AUTO, Expectation, Inventory
from understudy.planning.benchmark_results import BenchmarkResult, ReleaseKind, nearest_results
from understudy.planning.check import Problem, SourceCheck, check_source
from understudy.planning.dry import RecommendationOptions, timed_plan
from understudy.planning.forecast import Forecast, forecast_of, sheet_path, unfit_for_drawings
from understudy.privacy.budget_plan import run_mu_of
from understudy.privacy.ledger.ledger import Ledger
from understudy.run.codec_rules import PLAIN_DCT, choose_codec, codec_roles, is_small_grey
from understudy.run.command_words import command_line, option_words
from understudy.run.config import RunConfig, make_config, source_name
from understudy.run.methods import broken_methods, method, methods
from understudy.run.models import named_roles
from understudy.run.prepare import Prepared, prepare
from understudy.run.progress import ProgressMode, reporting
from understudy.run.run_plan import RunPlan, explanation, poor_notes, small_class_notes

_RUNTIMES = {"torch": "torch", "diffusers": "models", "onnxruntime": "onnx"}
"""Packages that models need, and the extra that brings each."""

_FEW = 4.0  # times the noise of a class size, below which little is known of a class
_MENDED_BY_OPTIONS = ("mixed sizes", "large images", "bad files")


@dataclass(frozen=True, slots=True)
class PlanFact:
    """Something that a recommendation goes by.

    Attributes:
        private: Whether it was counted in private records, so that it is for the owner alone.
    """

    name: str
    value: str
    private: bool


@dataclass(frozen=True, slots=True)
class Choice:
    """One option of the run that is recommended."""

    option: str
    reason: str


@dataclass(frozen=True, slots=True)
class Alternative:
    """What serves better than the samples of the run that is recommended."""

    command: str
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class Recommendation:
    """What to run on a dataset, why, what it costs and what to expect of it.

    Attributes:
        source: The dataset.
        facts: What it goes by.
        problems: What would refuse the run, where something would.
        choices: The method and the settings, each with its reason.
        command: The whole command line; None where the dataset has to be mended first.
        plan: What the run would do and spend; None where it cannot be planned.
        obstacle: Why it cannot be planned.
        expected: The benchmarks nearest to the run, measured on other data.
        notes: What the owner should know besides.
        instead: What would serve better than samples that serve little; the best first. Empty
            where nothing would.
        forecast: What the planned method makes of public images; None unless it was asked for.
    """

    source: str
    facts: tuple[PlanFact, ...]
    problems: tuple[Problem, ...]
    choices: tuple[Choice, ...]
    command: str | None
    plan: RunPlan | None
    obstacle: str | None
    expected: tuple[BenchmarkResult, ...]
    notes: tuple[str, ...]
    instead: tuple[Alternative, ...] = ()
    forecast: Forecast | None = None

    def __repr__(self) -> str:
        """A line, for a notebook; the attributes have the rest."""
        blocking = "; ".join(one.message for one in self.problems if one.blocking)
        return f"<Recommendation: {self.obstacle or self.command or blocking}>"

    def as_dict(self) -> dict[str, Any]:
        """JSON values; of a forecast its figures, not its images."""
        figures = None if self.forecast is None else self.forecast.figures()
        return {"kind": "owner-only"} | asdict(replace(self, forecast=None)) | {"forecast": figures}


def recommended_run(
    source: str | PathLike[str],
    *,
    epsilon: float | str,
    forecast: str | PathLike[str] | None = None,
    progress: ProgressMode | Events = "auto",
    **options: Unpack[RecommendationOptions],
) -> Recommendation:
    """Recommend a method and settings for a dataset, with the reasons. Spends nothing.

    What comes back counts private records: it is for the owner alone.

    Args:
        source: The private dataset.
        epsilon: As for `understudy.synthesize`.
        forecast: A PNG to write, with public images beside what the planned run makes of them; it
            takes a minute or two. None: nothing is written.
        progress: Where events go, as for `understudy.synthesize`.
        options: The models and public datasets that are at hand, and how the dataset is read:
            options of `understudy.synthesize`, by their names.

    Raises:
        ConfigError: An option that makes no sense.
        SourceError: The public dataset cannot be read.
    """
    name = source_name("source", source)
    config = make_config({**options, "source": name, "out": "out", "epsilon": epsilon})
    sheet = None if forecast is None else sheet_path(forecast, config.data.source)
    with reporting(progress) as events:
        step = events.step("reading the dataset")
        check = check_source(config)
        result, prepared = _recommended(config, check)
        step.finish()
        if sheet is None:
            return result
        reason = "no run can be planned" if prepared is None else unfit_for_drawings(prepared)
        if prepared is None or reason is not None:
            return replace(result, notes=(*result.notes, f"there is no forecast: {reason}"))
        names = prepared.context.classes
        sizes = [check.classes.get(name, 0) for name in names]
        class_units = [check.class_units.get(name, 0) for name in names]
        outcome = forecast_of(prepared, sizes, check.units, events, class_units)
        outcome.write(sheet)
    return replace(result, forecast=outcome)


def _recommended(config: RunConfig, check: SourceCheck) -> tuple[Recommendation, Prepared | None]:
    """What is recommended, and the run that is planned; None where none can be."""
    facts = _facts(config, check)
    problems = tuple(
        one for one in check.problems if one.blocking and one.kind not in _MENDED_BY_OPTIONS
    )
    if check.shape is None:
        return Recommendation(check.source, facts, problems, (), None, None, None, (), ()), None
    name, roles, choices = _method(config, check)
    for key, value in check.options.items():
        option = " ".join(option_words(key, value))
        loss = check.losses.get(option)
        reason = _REASONS[key] + ("" if loss is None else f"; {loss} (owner only)")
        choices.append(Choice(option, reason))
    run = config.changed(method=name, roles=roles, **check.options)
    values = config.as_options()  # options that the run has from what was asked
    overrides = {name: values[name] for name, usual in _KEPT.items() if values[name] != usual}
    prepared, plan, obstacle = _planned(run, check.unit_counts)
    advice = None
    if prepared is not None and prepared.method.advise is not None:
        advice = prepared.method.advise(prepared.context, check.unit_counts)
    if advice is not None:
        overrides["set"] = f"{advice.setting}={advice.value}"
        choices.append(Choice(f"--set {overrides['set']}", advice.reason))
        better = run.changed(settings={advice.setting: advice.value})
        prepared, plan, obstacle = _planned(better, check.unit_counts)
    epsilon = 1.0 if isinstance(config.privacy.epsilon, str) else config.privacy.epsilon
    epsilon = epsilon if plan is None else plan.epsilon
    options = {"method": name, **roles, **check.options, **overrides}
    rules = () if plan is None else plan.expectations
    nothing = _none_serves(prepared, check.unit_counts, rules)
    sizes = check.class_units or check.classes
    said = {*poor_notes(rules), *small_class_notes(sizes, epsilon, 1.0, check.people)}  # elsewhere
    if prepared is not None:
        said |= {*stretch_notes(prepared.source), *window_notes(prepared.source)}
    proposed = {choice.option for choice in choices}
    result = Recommendation(
        source=check.source,
        facts=facts,
        problems=problems,
        choices=tuple(choices),
        command=check.command and command_line(config, options, config.privacy.epsilon),
        plan=plan,
        obstacle=obstacle,
        expected=_expected(run, check, epsilon),
        notes=(
            *((NOTHING_SERVES,) if nothing else ()),
            *(problem.message for problem in check.problems if problem.kind == "units"),
            *(note for note in (() if plan is None else plan.notes) if note not in said),
            *[
                f"{option}: {loss} (owner only)"
                for option, loss in check.losses.items()
                if option not in proposed
            ],
            *small_class_notes(sizes, epsilon, _FEW, check.people),
        ),
        instead=() if nothing else _instead(config, options, rules),
    )
    return result, prepared


def _instead(
    config: RunConfig, options: Mapping[str, Any], rules: Sequence[Expectation]
) -> tuple[Alternative, ...]:
    """What would serve better than the images of a run, where rules say that something would."""
    kinds = dict.fromkeys(kind for rule in rules for kind in rule.instead)
    further = {name: value for name, value in options.items() if name != "encoder"}
    embeddings = command_line(config, {**further, "decoder": "none"}, config.privacy.epsilon)
    alternatives = {
        "classifier": Alternative(
            f"{command_line(config, options, config.privacy.epsilon)} && {_STATISTICS}",
            "the classifier that the released statistics are, which no sampling weakens: it costs "
            "nothing besides the run",
        ),
        "embeddings": Alternative(
            embeddings, "embeddings, from which a classifier is trained and no image is decoded"
        ),
    }
    return tuple(alternatives[kind] for kind in kinds)


def _none_serves(
    prepared: Prepared | None, units: UnitCounts, rules: Sequence[Expectation]
) -> bool:
    """Whether images serve little and the mean of the usual class is noise: then nothing serves."""
    if prepared is None or not any(rule.instead for rule in rules):
        return False
    capacity = explanation(prepared, units).capacity
    return capacity is not None and not capacity(units.of_class).own_mean


NOTHING_SERVES = (
    "neither samples nor the classifier or the embeddings that this run would release serve: the "
    "noise in the mean of a class is larger than what tells most classes apart. Join classes, take "
    "more images of each, or a larger epsilon"
)

_STATISTICS = "understudy train out/ --from statistics --export model.onnx"


_KEPT: Mapping[str, Any] = {
    "delta": 1e-5,
    "accept_epsilon": False,
    "adjacency": "add-remove",
    "ledger": None,
    "allow_remote_private": None,
    "max_calls": None,
    "max_cost": None,
}
"""Options that are kept, and their values where they need not be typed."""


def _expected(run: RunConfig, check: SourceCheck, epsilon: float) -> tuple[BenchmarkResult, ...]:
    """The benchmarks nearest to a run."""
    shape = check.shape or ()
    return nearest_results(
        run.models.method,
        run.models.roles.get("encoder") or "",
        _released(run, check),
        images=max(check.units, 1),
        classes=max(len(check.classes), 1),
        side=run.data.size or (shape[0] if len(shape) == 3 else 1),
        epsilon=epsilon,
    )


def _released(run: RunConfig, check: SourceCheck) -> ReleaseKind:
    """Embeddings of embeddings, and where nothing decodes those of images."""
    roles = named_roles(run.models)
    decoder = roles.get("decoder")
    if decoder is None and _takes_codec(run.models.method):
        decoder = codec_roles(roles, check.shape)["decoder"] or "none"
    plain = check.shape is not None and len(check.shape) == 1
    return "embeddings" if plain or decoder == "none" else "images"


_GROUPED = "names look grouped, and the guarantee should hold for a person, not for an image"
_REASONS = {
    "unit": "several images are of one of them, and the guarantee should hold for all of those",
    "skip_bad": "some files cannot be used, and are passed over and counted",
    "unit_from": _GROUPED,
    "unit_from_name": _GROUPED,
    "label": "declared, where classes are from, or that there are none, is public whatever it is",
    "classes": "declared, the class names are public whatever the images are",
    "channels": "declared, the number of channels is public whatever the images are",
    "size": "larger images leave less to each pixel, and differing ones have to be of one size",
    "fit": "images of another ratio become squares",
}


def _facts(config: RunConfig, check: SourceCheck) -> tuple[PlanFact, ...]:
    """What the recommendation goes by, private facts first."""
    installed = [extra for package, extra in _RUNTIMES.items() if find_spec(package) is not None]
    sizes = sorted((check.class_units or check.classes).values())
    facts = []
    if check.images:  # of what cannot be opened nothing was counted
        facts.append(PlanFact(records_of(check.shape), f"{check.images:,}", private=True))
    if check.people is not None:
        facts.append(PlanFact(check.people, f"{check.units:,}", private=True))
    if sizes:
        span = f"{sizes[0]:,}" + ("" if sizes[0] == sizes[-1] else f" to {sizes[-1]:,}")
        sizes_in_words = f"{len(sizes)} classes of {span} {check.people or records_of(check.shape)}"
        facts.append(PlanFact("class sizes", sizes_in_words, private=True))
    if check.stored:
        facts.append(PlanFact("stored as", check.stored, private=True))
    if check.shape is not None:
        declared = config.data.size is not None and config.data.channels is not None
        shape = " x ".join(map(str, check.shape))
        facts.append(PlanFact("read as", shape, private=not declared))
    models = ", ".join(f"{role} {name}" for role, name in config.models.roles.items())
    facts += [
        PlanFact("epsilon asked for", f"{config.privacy.epsilon}", private=False),
        PlanFact("given besides", models or "nothing", private=False),
        PlanFact("installed", ", ".join(installed) or "no model runtime", private=False),
        *(PlanFact("left out", fault, private=False) for fault in broken_methods()),
    ]
    return tuple(facts)


def _method(config: RunConfig, check: SourceCheck) -> tuple[str, RoleNames, list[Choice]]:
    """The method, the models and datasets of the run, and why: what the methods propose."""
    names = named_roles(config.models)
    base = names.get("base") or names.get("public") or "none"
    same_classes = base != "none" and _same_classes(base, check)
    inventory = Inventory(names, len(check.shape or ()) == 3, same_classes)
    proposals = {
        name: proposal
        for name, one in methods().items()
        if one.propose is not None and (proposal := one.propose(inventory)) is not None
    }
    name = max(proposals, key=lambda one: proposals[one].priority)
    proposal = proposals[name]
    choices = [Choice(f"--method {name}", proposal.reason)]
    roles = dict(proposal.roles)
    if inventory.images and _takes_codec(name):
        encoder, reason = _codec(config, check, name, names)
        choices.append(Choice(f"--encoder {encoder}", reason))
        roles["encoder"] = encoder
    return name, cast(RoleNames, roles), choices


def _takes_codec(name: str) -> bool:
    """Whether a method's encoder is chosen by the size of the images."""
    candidate = method(name)
    return candidate.roles(candidate.params(), frozenset()).get("encoder") == AUTO


def _codec(
    config: RunConfig, check: SourceCheck, name: str, names: Mapping[str, str]
) -> tuple[str, str]:
    """The encoder of a run whose method takes one by the size of the images, and why."""
    if "encoder" in names:
        return names["encoder"], "it was named, as one that knows them"
    if _serves_cosines(config, check, name, names):
        return PLAIN_DCT, _WHY_COSINES
    encoder = codec_roles(names, check.shape)["encoder"] or ""
    codec = choose_codec(check.shape, images=names.get("decoder") != "none")
    why = codec.reason if encoder == codec.codec else f"{encoder} is the decoder's own"
    return encoder, (
        f"no encoder is named, and {why}; an ONNX or hub encoder that knows these "
        "images, and its decoder, are what gains most (docs/benchmarks.md)"
    )


def _serves_cosines(
    config: RunConfig, check: SourceCheck, name: str, names: Mapping[str, str]
) -> bool:
    """Whether images are small and grey, and as many as a mixture needs."""
    if "decoder" in names or not is_small_grey(check.shape or ()):
        return False
    if isinstance(config.privacy.epsilon, str):
        _, plan, _ = _planned(config.changed(method=name, **check.options), check.unit_counts)
        mu = math.inf if plan is None or plan.mu is None else plan.mu
    else:
        mu = run_mu_of(config.privacy.budget)
    return check.unit_counts.of_class * mu >= MIXTURE_UNITS


MIXTURE_UNITS = 1_000.0
"""Units of a class times mu, from which on small grey images are served better by a mixture of
cosines than by one Gaussian a class over energies: between the 54 at which energies were better on
public drawings and the 1,600 at which cosines were on a public benchmark (docs/sources.md)."""

_WHY_COSINES = (
    "the images are small, grey and many for this budget (owner only), and a mixture of cosines "
    "serves such images better than one Gaussian a class over energies from about "
    f"{MIXTURE_UNITS:,.0f} units of a class times mu on"
)


def _same_classes(public: str, check: SourceCheck) -> bool:
    """Whether a public dataset has the classes of the private one."""
    size = None if check.shape is None or len(check.shape) != 3 else check.shape[:2]
    other = open_source(public, size=size)
    return set(other.classes) == set(check.classes)


def _planned(
    config: RunConfig, units: UnitCounts
) -> tuple[Prepared | None, RunPlan | None, str | None]:
    """The run and its plan, or why there are none."""
    try:
        prepared = prepare(config)
        with Ledger(prepared.config.privacy.ledger, make=False) as ledger:
            return prepared, timed_plan(prepared, ledger, units), None
    except InputError as error:
        return None, None, str(error)
