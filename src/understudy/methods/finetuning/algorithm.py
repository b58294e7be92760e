"""DP-SGD on a diffusion prior: a small network, trained on public images, learns the private ones.

Abadi et al. 2016; Dockhorn, Cao, Vahdat and Kreis, Differentially Private Diffusion Models, 2022;
Karras, Aittala, Aila and Laine 2022 for the diffusion. Where this differs from them, and why:
docs/methods/finetuning.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.denoising import Denoiser
from understudy.core.errors import ConfigError
from understudy.core.option import Option, check_options
from understudy.core.types import (
    Images,
    Labels,
    Release,
    Sampling,
    Shape,
    Stage,
    SyntheticBatch,
    UnitCounts,
)
from understudy.methods import dp_estimators
from understudy.methods.base import (
    PROCEDURAL,
    Advice,
    Context,
    Explanation,
    Materials,
    Method,
    NoiseOfStage,
    stages_of,
)
from understudy.methods.finetuning.class_gaussians import (
    GaussianStages,
    ImageRows,
    public_gaussian,
    released_gaussians,
)
from understudy.methods.finetuning.edm import Diffusion
from understudy.methods.finetuning.training import (
    TrainingSettings,
    pretrained,
    public_clip_norm,
    trained_by_dp_sgd,
)
from understudy.privacy.accounting import MAX_SIZE
from understudy.steps.row_arithmetic import spread_batches

_NAME = "finetuning"

_SIDE = 32  # longest side of the images that the network draws; larger ones are enlarged
_PUBLIC_IMAGES = 4_096  # are learnt from, at most
_FEWEST_PUBLIC = 100
_SAMPLED = 128  # samples that are finished at a time
_USUAL_BATCH = 256  # expected units of a step: more take longer than they are worth
_TRAINING = 0.5  # part of the budget that DP-SGD gets; the rest pays for the warm start
_WARM_START = {"sizes": 1.0, "centre": 2.0, "spread": 1.0, "means": 6.0, "covariances": 10.0}


@dataclass(frozen=True)
class FinetuningParams:
    """Parameters of fine-tuning.

    Raises:
        ConfigError: A value out of range.
    """

    steps: Annotated[int, Option("steps of DP-SGD", least=1, most=10_000)] = 200
    rate: Annotated[
        float, Option("probability of a unit to be in a step's sample", above=0, most=1)
    ] = 0.1
    multiplicity: Annotated[
        int, Option("draws of noise for each record of a step, averaged before clipping", least=1)
    ] = 4
    learning_rate: Annotated[float, Option("of DP-SGD, by Adam", above=0, most=100)] = 5e-4
    pretraining: Annotated[int, Option("steps on public images before", least=0)] = 600
    solver_steps: Annotated[int, Option("denoising steps of a sample", least=2)] = 18

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class FinetuningStages:
    """The releases of fine-tuning, in their order."""

    warm_start: GaussianStages
    training: Stage


def finetuning(materials: Materials, params: FinetuningParams) -> Release:
    """DP-SGD on a diffusion prior."""
    plan, grid = _plan(params, materials.context), grid_of(materials.context)
    classes = len(materials.classes)
    public = _public_images(materials, grid)
    prior = public_gaussian(public)
    # 1: the released statistics of each class, as a denoiser in closed form.
    vault = materials.vault.map(partial(_vectors, materials.resized, grid))
    along = (public - prior.means[0]) @ prior.axes / np.sqrt(prior.variances[0])
    gaussians, sizes, units = released_gaussians(
        vault, prior, np.linalg.norm(along, axis=1).astype(np.float64), classes, plan.warm_start
    )
    # 2: the network learns on public images what a Gaussian of them does not know.
    start = network_of(materials.context).initial(grid, classes, seed=materials.seed_of("network"))
    untrained = Diffusion(network_of(materials.context), prior, grid, start)
    steps = params.pretraining
    bar = materials.progress("learning from public images", steps)
    weights = materials.keep(
        "public weights",
        lambda: {
            "weights": pretrained(
                untrained, public, classes, steps, materials.rng_of("public training"), bar
            )
        },
    )["weights"]
    # 3: theta <- theta - Adam((sum of clipped gradients + noise) / expected batch).
    clip_norm = public_clip_norm(untrained.at(weights), public, params.multiplicity)
    clip_norm = float(
        materials.keep("clip norm", lambda: {"norm": np.array(clip_norm)})["norm"].item()
    )
    private = Diffusion(untrained.denoiser, gaussians, grid, weights)
    settings = TrainingSettings(plan.training, params.learning_rate, clip_norm, params.multiplicity)
    bar = materials.progress("learning from private images, with noise", params.steps)
    tuned = private.at(
        trained_by_dp_sgd(vault, private, settings, classes, units, materials.seed_of("steps"), bar)
    )
    # 4: samples of the averaged weights.
    facts = {
        "parameters": len(tuned.weights),
        "clip_norm": clip_norm,
        "expected_batch": params.rate * units,
    }
    counts = materials.for_samples.class_sizes(sizes / sizes.sum(), units)
    return _release(materials.for_samples, tuned, counts, params, facts)


def _release(
    materials: Materials,
    diffusion: Diffusion,
    counts: NDArray[np.int64],
    params: FinetuningParams,
    facts: dict[str, Any],
) -> Release:
    labels = materials.rng_of("order").permutation(np.repeat(np.arange(len(counts)), counts))

    def batches() -> Iterator[SyntheticBatch]:
        for first in range(0, len(labels), _SAMPLED):
            part = labels[first : first + _SAMPLED]

            def draw(samples: Labels, number: int, image: int, first: int = first) -> Images:
                name = f"samples round {number} image {image}"
                seeds = materials.seeds_of(name, first + samples)
                rows = diffusion.sample(labels[first + samples], seeds, params.solver_steps)
                pixels = (rows.reshape(-1, *diffusion.shape) + 1) * 127.5
                images = np.rint(np.clip(pixels, 0, 255)).astype(np.uint8)
                return materials.resized(images, materials.shape)

            yield SyntheticBatch(part, images=materials.selected(len(part), draw))

    return Release(
        method=_NAME,
        classes=materials.classes,
        count=len(labels),
        batches=batches,
        image_shape=materials.shape,
        facts=facts,
    )


def network_of(context: Context) -> Denoiser:
    """The network.

    Raises:
        ConfigError: There is none.
    """
    if context.denoiser is None:
        raise ConfigError("fine-tuning needs a network (--denoiser embedded:denoiser)")
    return context.denoiser


def grid_of(context: Context) -> Shape:
    """(height, width, channels) of the images that the network draws."""
    height, width, channels = context.shape
    side, longest = network_of(context).side, max(height, width)
    scale = min(1.0, _SIDE / longest)
    return (*(max(side, round(n * scale / side) * side) for n in (height, width)), channels)


def _vectors(resized: Callable[[Images, Shape], Images], grid: Shape, images: Images) -> ImageRows:
    """Images (n, height, width, c) as small ones of -1 to 1, (n, d)."""
    small = resized(images, grid)
    return np.asarray(small.reshape(len(small), -1) / 127.5 - 1, dtype=np.float32)


def _public_images(materials: Materials, grid: Shape) -> ImageRows:
    """Public images as the network draws them: (m, d)."""
    if materials.public is None:
        raise ConfigError("fine-tuning needs public images to learn from first (--public SOURCE)")
    batches = spread_batches(
        materials.public, _PUBLIC_IMAGES, materials.progress, "reading public images"
    )
    parts = [_vectors(materials.resized, grid, materials.fit(batch)) for batch in batches]
    public = np.concatenate([np.empty((0, int(np.prod(grid))), np.float32), *parts])
    if len(public) < _FEWEST_PUBLIC:
        raise ConfigError(
            f"{len(public)} public images are too few to learn from: {_FEWEST_PUBLIC} or more are "
            "needed, of any kind (--public procedural:all has enough). Nothing was spent"
        )
    if (public == public[0]).all():
        raise ConfigError(
            "the public images are all alike, and nothing can be learnt from them: take others "
            "(--public procedural:all). Nothing was spent"
        )
    return public


def _plan(params: FinetuningParams, context: Context) -> FinetuningStages:
    each = (1 - _TRAINING) / sum(_WARM_START.values())
    warm_start = {name: Stage(name, each * weight) for name, weight in _WARM_START.items()}
    units = dp_estimators.units_stage(context, len(context.classes), each * _WARM_START["sizes"])
    sampling = Sampling(params.rate, params.steps)
    return FinetuningStages(
        GaussianStages(units=units, **warm_start),
        Stage("training", _TRAINING, sampling),
    )


def _stages(params: FinetuningParams, context: Context) -> tuple[Stage, ...]:
    """The releases and their weights in the budget."""
    if len(context.shape) != 3:
        raise ConfigError("fine-tuning draws images, and this dataset holds embeddings")
    if not context.public:
        raise ConfigError("fine-tuning needs public images to learn from first (--public SOURCE)")
    network = network_of(context)
    size = len(network.initial(grid_of(context), len(context.classes), seed=0))
    if size * params.steps > MAX_SIZE // 2:
        raise ConfigError(
            f"{params.steps} steps release {size:,} numbers each, and half of the {MAX_SIZE:,} "
            "that a run may release is for them: take fewer steps or a smaller network, such as "
            "embedded:denoiser?width=32. Nothing was spent"
        )
    return stages_of(_plan(params, context))


def _explain(
    params: FinetuningParams, context: Context, noise: NoiseOfStage, units: UnitCounts | None
) -> Explanation:
    """As `Method.explain`: what a step sees, against its noise."""
    if units is None:
        return Explanation()
    batch = params.rate * units.total
    spread = noise(_plan(params, context).training)
    return Explanation(
        notes=(
            f"a step of DP-SGD sees {batch:,.0f} units (owner only) and adds noise of {spread:.2f} "
            f"of the longest gradient to each of the network's parameters, {params.steps} times",
        )
    )


def _advise(context: Context, units: UnitCounts) -> Advice | None:
    """As `Method.advise`: a lower rate where steps would see more than they need.

    A power of two, for it is published: the number of units is told to a factor of two.
    """
    rate = 2.0 ** round(np.log2(_USUAL_BATCH / max(units.total, 1.0)))
    if rate > FinetuningParams().rate / 2:
        return None
    return Advice("rate", f"{rate}", f"steps of about {_USUAL_BATCH} units take minutes, not hours")


def _check_resample(params: FinetuningParams, context: Context) -> None:
    """More samples are drawn by the weights that the stored answers come to."""


METHOD = Method(
    name=_NAME,
    summary="a diffusion network, trained on public images and by DP-SGD on the private ones",
    source="Dockhorn et al., Differentially Private Diffusion Models; Abadi et al., Deep Learning "
    "with Differential Privacy",
    params=FinetuningParams,
    settle=lambda params, context: params,
    stages=_stages,
    run=finetuning,
    roles=lambda params, named: {"denoiser": "embedded:denoiser", "public": PROCEDURAL},
    explain=_explain,
    advise=_advise,
    check_resample=_check_resample,
)
