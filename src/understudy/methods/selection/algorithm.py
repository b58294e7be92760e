"""Data selection by Pontryagin's maximum principle (PrivSynth): keep what trains, not what leaks.

Weights gamma in [0, 1] on the candidates are chosen so that a proxy model, trained on the weighted
candidates, does well on a reference set, less a penalty for candidates that come near private
images. Theorem 1 (Eq. 22) gives the conditions: states (the proxy's training), costates (backwards
through it) and scores. The equation is a fixed point, because states and costates are those of the
optimal gamma; ranking once at gamma = 1 loses to a random subset, so gamma moves by projected
gradient for some rounds. Where this differs from the paper, and why: docs/methods/selection.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.option import Option
from understudy.core.types import Labels, Release, Stage, UnitCounts, Vector
from understudy.methods import dp_estimators
from understudy.methods.base import (
    Arrays,
    Context,
    Explanation,
    Make,
    Materials,
    Method,
    NoiseOfStage,
    stages_of,
)
from understudy.methods.open_selection import (
    OpenMaterials,
    OpenSelection,
    Selection,
    require_same,
)
from understudy.methods.selection.arithmetic import (
    class_budgets,
    largest_weights,
    project,
)
from understudy.methods.selection.base import (
    Reference,
    RoundScores,
    SelectionSettings,
    SteeredSettings,
)
from understudy.methods.selection.candidate_set import CandidateSet, embedded, read_candidates
from understudy.methods.selection.linear_proxy import LinearProxy, proxy_space
from understudy.methods.selection.penalties import (
    Penalties,
    calibrated_distances,
    penalties_of,
)
from understudy.methods.selection.reference import (
    DIVERGED,
    GradientReference,
    MomentStages,
    RecordReference,
    moment_reference,
)

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

_SLOWER = 0.1  # the step of round k is that of the first over 1 + 0.1 k
_FEW = 5  # samples of a class, below which a classifier learns little of it
_DRY = 4.0  # the penalty of a candidate that could not be nearer to a private image
_CLIPPED = 0.5  # of the usual length of a whitened record with its intercept


@dataclass(frozen=True)
class SelectionParams(SelectionSettings):
    """Parameters of a selection under differential privacy; ``None``: chosen by what is known.

    Raises:
        WrongValue: A value out of range.
    """

    reference: Annotated[
        Literal["gradients", "moments"],
        Option("what private records answer: gradients (a clipped gradient a round), or moments"),
    ] = "gradients"
    clip_norm: Annotated[
        float | None,
        Option(
            "what a record's gradient is clipped to; default: sqrt(axes + 1) / 2",
            least=1e-12,
            most=10**12,
        ),
    ] = None


class Proxy(Protocol):
    """A model whose training on weighted candidates can be differentiated."""

    def scores(self, gamma: Vector, reference: Reference) -> RoundScores:
        """One pass of states and costates at weights gamma: a score for each candidate."""
        ...


def select_candidates(
    proxy: Proxy,
    labels: Labels,
    budgets: NDArray[np.int64],
    reference: Reference,
    *,
    rounds: int = 8,
    step_size: float = 0.25,
    penalties: Penalties | None = None,
    class_names: tuple[str, ...] = (),
    progress: Callable[[int], None] = lambda done: None,
    keep: Callable[[str, Make], Arrays] = lambda name, make: make(),
) -> Selection:
    """The fixed point of Eq. 22 by projected gradient, a budget for each class.

    gamma_0 is the budget spread evenly over the class. Round k takes the scores s at gamma_k,
    divides them by the deviation sd that the first round's scores have within their classes, and
    goes to project(gamma_k + a / (1 + 0.1 k) (s / sd - penalties)). After R rounds the k_c largest
    weights of each class are selected.

    Args:
        proxy: Model and candidates.
        labels: (M,) class of each candidate.
        budgets: (C,) how many of each class are selected.
        reference: Asked for gradients in every round.
        rounds: R.
        step_size: a.
        penalties: Subtracted; None: nothing is.
        class_names: For warnings; labels stand for them where there are none.
        progress: Called with 1 after each round.
        keep: As `Materials.keep`: the weights after each round, so that an interrupted selection
            goes on from there and ends the same. Not with a reference that is paid for.

    Raises:
        ConfigError: Scores that are not finite: a learning rate too large.
    """
    shares = budgets / np.maximum(np.bincount(labels, minlength=len(budgets)), 1)
    subtracted = np.zeros(len(labels)) if penalties is None else penalties.total(len(labels))
    state: Arrays = {"gamma": shares[labels]}

    def one_round(number: int, state: Arrays) -> Arrays:
        result = proxy.scores(state["gamma"], reference)
        if not np.isfinite(result.scores).all():
            raise ConfigError(DIVERGED)
        scale = float(state["scale"]) if number else deviation_within(result.scores, labels)
        rate = step_size / (1 + _SLOWER * number)
        gamma = state["gamma"] + rate * (result.scores / scale - subtracted)
        return {
            "gamma": project(gamma, labels, budgets),
            "scores": result.scores / scale,
            "scale": np.array(scale),
            "converged": np.array(result.converged),
        }

    for number in range(rounds):
        state = keep(f"selection round {number + 1}", partial(one_round, number, state))
        progress(1)
    return _selected(state, labels, budgets, penalties, class_names, rounds)


def _selected(
    state: Arrays,
    labels: Labels,
    budgets: NDArray[np.int64],
    penalties: Penalties | None,
    class_names: tuple[str, ...],
    rounds: int,
) -> Selection:
    """The largest weights of the last round, and what the owner should know of them."""
    indices = largest_weights(state["gamma"], labels, budgets)
    warnings: tuple[str, ...] = () if state["converged"] else (_UNCONVERGED,)
    warnings += short_classes(labels, budgets, class_names)
    if penalties is not None:
        warnings += dry_pool(indices, penalties.total(len(labels)), penalties)
    facts = {"selected": len(indices), "candidates": len(labels), "rounds": rounds}
    return Selection(indices, state["gamma"], state["scores"], warnings, facts)


_UNCONVERGED = (
    "the proxy's training loss was still falling at its last step, so the scores say little more "
    "than a first gradient does (TracIn): raise steps or learning_rate"
)


def deviation_within(scores: Vector, labels: Labels) -> float:
    """Standard deviation of scores about the mean of their class; 1 where it is 0."""
    sizes = np.maximum(np.bincount(labels), 1)
    means = np.bincount(labels, weights=scores) / sizes
    deviation = float(np.sqrt(np.mean((scores - means[labels]) ** 2)))
    return deviation if deviation > 0 else 1.0


def short_classes(
    labels: Labels, budgets: NDArray[np.int64], class_names: tuple[str, ...]
) -> tuple[str, ...]:
    """Warnings of classes that have no candidate, or too few samples to be learnt."""
    sizes = np.bincount(labels, minlength=len(budgets))
    names = class_names or tuple(str(label) for label in range(len(budgets)))
    missing = [name for name, size in zip(names, sizes, strict=True) if size == 0]
    few = [name for name, budget in zip(names, budgets, strict=True) if 0 < budget < _FEW]
    warnings = []
    if missing:
        warnings.append(f"no candidate is of class {', '.join(missing)}: the selection has none")
    if few:
        warnings.append(f"fewer than {_FEW} samples are selected of class {', '.join(few)}")
    return tuple(warnings)


def dry_pool(
    indices: NDArray[np.int64], subtracted: Vector, penalties: Penalties
) -> tuple[str, ...]:
    """A warning where candidates are selected that could not be penalised more.

    A selection cannot leak less than its candidates let it.
    """
    weight = max(penalties.reconstruction_weight, penalties.membership_weight)
    worst = int((subtracted[indices] >= _DRY * weight).sum()) if weight > 0 else 0
    if worst == 0:
        return ()
    return (
        f"{worst:,} of the {len(indices):,} selected candidates are penalised the most that any "
        "can be: the candidates have too few that are unlike private images; keep fewer, raise "
        "the penalty, or generate more candidates",
    )


def _settled(params: SelectionParams, context: Context) -> SelectionParams:
    """The parameters with every ``None`` decided, from public facts only."""
    dim = context.shape[0] if context.encoder is None else context.encoder.dim
    axes = min(params.axes, dim)
    return replace(
        params,
        axes=axes,
        clip_norm=params.clip_norm or _CLIPPED * float(np.sqrt(axes + 1)),
        reconstruction=params.reconstruction or 0.0,
    )


@dataclass(frozen=True)
class SelectionStages:
    """The releases of a selection.

    Attributes:
        gradients: One of each round.
        moments: What stands for them with ``reference=moments``.
    """

    gradients: tuple[Stage, ...] = ()
    moments: MomentStages | None = None


def _plan(params: SelectionParams, context: Context) -> SelectionStages:
    if params.reference == "moments":
        units = dp_estimators.units_stage(context, len(context.classes), 0.5)
        moments = MomentStages(Stage("means", 2.0), units, Stage("covariance", 1.0))
        return SelectionStages(moments=moments)
    return SelectionStages(
        tuple(Stage(f"gradient {number + 1}", 1.0) for number in range(params.rounds))
    )


def _stages(params: SelectionParams, context: Context) -> tuple[Stage, ...]:
    """The releases and their weights; refuses what differential privacy rules out."""
    penalised = [name for name in ("reconstruction", "membership") if getattr(params, name)]
    if penalised:
        raise ConfigError(
            f"{' and '.join(penalised)} must be 0 under differential privacy: how near a candidate "
            "comes to private images is of single records, and noise that hides them leaves "
            "nothing of it. The epsilon bounds what candidates and selection give away"
        )
    if params.reference == "gradients" and params.utility == "area":
        raise ConfigError(
            "utility=area asks for a gradient at every step, and each would be paid for: take "
            "utility=final, or reference=moments"
        )
    if len(context.classes) < 2:
        raise ConfigError(
            "the private dataset has one class, and a proxy that knows one class has nothing to "
            "learn: no candidate is better than another. Name the column of its classes (--label)"
        )
    if not context.candidates:
        raise ConfigError(
            "there is nothing to select from: give --candidates, a synthetic or public dataset of "
            f"the classes {', '.join(context.classes[:10])}"
        )
    if len(context.shape) == 3 and context.encoder is None:
        raise ConfigError("a selection of images needs an --encoder")
    return stages_of(_plan(params, context))


def selection(materials: Materials, params: SelectionParams) -> Release:
    """Select candidates by what private records answer under differential privacy.

    Budgets, space and warnings come of the candidates and of noisy answers alone.
    """
    params = _settled(params, materials.context)
    candidates = read_candidates(materials)
    share = _share(materials.count, params.keep, len(candidates.labels))
    budgets = class_budgets(candidates.labels, len(materials.classes), share, params.budgets)
    require_same(materials.keep, candidates.source.name, candidates.digest)
    public = None
    if materials.public is not None:
        public = embedded(materials, materials.public, "public dataset")[0]
    space = proxy_space(candidates.embeddings, public, params.axes)
    proxy = LinearProxy(
        space.forward(candidates.embeddings),
        candidates.labels,
        len(materials.classes),
        float(budgets.sum()),
        params.proxy,
    )
    encoder, vault = materials.encoder, materials.vault
    records = vault.embedded() if encoder is None else vault.map(encoder.encode)
    result = select_candidates(
        proxy,
        candidates.labels,
        budgets,
        _reference(materials, records.view(space.forward), proxy, params),
        rounds=params.rounds,
        step_size=params.step_size,
        class_names=materials.classes,
        progress=materials.progress("selecting candidates", params.rounds),
    )
    facts = {**result.facts, "notes": result.warnings}
    return candidates.release(materials.classes, result.indices, METHOD.name, facts)


def _explain(
    params: SelectionParams, context: Context, noise: NoiseOfStage, units: UnitCounts | None
) -> Explanation:
    """As `Method.explain`: that a selection of everything asks for nothing."""
    if params.keep != 1 or context.count is not None:
        return Explanation()
    words = (
        "keep=100% selects every candidate, whatever private records answer, so epsilon is spent "
        "for nothing: keep less (--keep 20%; 1 is a share, too)"
    )
    return Explanation(notes=(words,))


def _share(count: int | None, keep: float, candidates: int) -> float:
    """What ``--count`` asks for as a share of the candidates; else ``keep`` as it is."""
    if count is None:
        return keep
    if count > candidates:
        raise ConfigError(
            f"--count {count:,} is more than the {candidates:,} candidates: ask for as many at most"
        )
    return count / candidates


def _reference(
    materials: Materials, records: Vault, proxy: LinearProxy, params: SelectionParams
) -> Reference:
    """Private records, in the proxy's space, as a reference set under differential privacy."""
    plan = _plan(params, materials.context)
    if plan.moments is None:
        return GradientReference(records, plan.gradients, params.clip_norm or 1.0, materials.keep)
    return moment_reference(
        records,
        proxy.features,
        proxy.labels,
        proxy.classes,
        plan.moments,
        materials.rng_of("pseudo-records"),
    )


def open_selection(materials: OpenMaterials, params: SteeredSettings) -> tuple[Release, Selection]:
    """Select candidates by records that answer without noise; parameters are settled."""
    (values, labels), (records, of_records) = materials.candidates, materials.reference
    classes = len(materials.names)
    budgets = _sizes(labels, classes, params)
    space = proxy_space(values, materials.public, params.axes)
    total = float(budgets.sum())
    proxy = LinearProxy(space.forward(values), labels, classes, total, params.proxy)
    distances = penalties = None
    if materials.members is not None and materials.non_members is not None:
        nearest = materials.distances()
        distances = calibrated_distances(*nearest)
        sides = materials.candidates, materials.members, materials.non_members
        penalties = penalties_of(params, *sides, classes, nearest)
    result = select_candidates(
        proxy,
        labels,
        budgets,
        RecordReference.of(space.forward(records), of_records, balanced=params.balanced),
        rounds=params.rounds,
        step_size=params.step_size,
        penalties=penalties,
        class_names=materials.names,
        progress=materials.progress("selecting candidates", params.rounds),
        keep=materials.keep,
    )
    selected = CandidateSet(materials.source, values, labels)
    release = selected.release(materials.names, result.indices, METHOD.name, result.facts)
    return release, replace(result, distances=distances)


def _sizes(labels: Labels, classes: int, params: SteeredSettings) -> NDArray[np.int64]:
    """How many candidates of each class are selected."""
    return class_budgets(labels, classes, params.keep, params.budgets)


def _settled_openly(params: SteeredSettings, private: bool) -> SteeredSettings:
    """A penalty where there are private records to keep away from."""
    if params.reconstruction is not None:
        return params
    return replace(params, reconstruction=1.0 if private else 0.0)


METHOD = Method(
    name="selection",
    summary="the candidates on which a model trains best for the private records, as they are",
    source="PrivSynth: data selection by Pontryagin's maximum principle (appendix, Theorem 1)",
    params=SelectionParams,
    settle=_settled,
    stages=_stages,
    run=selection,
    explain=_explain,
    roles=lambda params, named: {"encoder": "embedded:dct", "public": None, "candidates": None},
    open_selection=OpenSelection(
        SteeredSettings, _settled_openly, _sizes, open_selection, "--set reconstruction=0"
    ),
)
