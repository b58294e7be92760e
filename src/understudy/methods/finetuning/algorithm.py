"""DP-SGD on a diffusion model: a small network learns what released statistics leave out.

Abadi et al. 2016; Dockhorn, Cao, Vahdat and Kreis, Differentially Private Diffusion Models, 2022;
Karras, Aittala, Aila and Laine 2022 for the diffusion. Where this differs from them, and why:
docs/methods/finetuning.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.denoising import TrainableNetwork
from understudy.core.errors import BackendError, ConfigError
from understudy.core.option import Option, check_options
from understudy.core.types import (
    Images,
    Labels,
    Release,
    Sampling,
    Stage,
    SyntheticBatch,
    UnitCounts,
)
from understudy.methods.base import (
    AUTO,
    PROCEDURAL,
    Advice,
    Context,
    Explanation,
    Materials,
    Method,
    NoiseOfStage,
    stages_of,
)
from understudy.methods.clustering.params import ClusteringParams
from understudy.methods.clustering.samplers.sampler import Sampler, sampler_of
from understudy.methods.finetuning.class_gaussians import gaussians_of
from understudy.methods.finetuning.edm import Diffusion
from understudy.methods.finetuning.training import (
    TrainingSettings,
    pretrained,
    released_clip_norm,
    trained_by_dp_sgd,
)
from understudy.privacy.accounting import MAX_SIZE

_NAME = "finetuning"

_SAMPLED, _BLOCK = 512, 64  # samples that are finished at a time, and those of a call
_USUAL_BATCH = 256  # expected units of a step: more take longer than they are worth
_TRAINING = 0.5  # part of the budget that DP-SGD gets; the rest pays for the warm start


@dataclass(frozen=True)
class FinetuningParams:
    """Parameters of fine-tuning.

    Raises:
        ConfigError: A value out of range.
    """

    steps: Annotated[int, Option("steps of DP-SGD", least=1, most=10_000)] = 300
    rate: Annotated[
        float, Option("probability of a unit to be in a step's sample", above=0, most=1)
    ] = 0.1
    multiplicity: Annotated[
        int, Option("draws of noise for each record of a step, averaged before clipping", least=1)
    ] = 4
    learning_rate: Annotated[float, Option("of DP-SGD, by Adam", above=0, most=100)] = 1e-3
    images: Annotated[
        int, Option("images of the warm start, which the network learns from first", least=16)
    ] = 1500
    pretraining: Annotated[int, Option("steps on these images", least=0)] = 3000
    solver_steps: Annotated[int, Option("denoising steps of a sample", least=2)] = 18

    def __post_init__(self) -> None:
        check_options(self)


@dataclass(frozen=True)
class FinetuningStages:
    """The releases of fine-tuning, in their order."""

    warm_start: Any  # those of clustering
    training: Stage


def finetuning(materials: Materials, params: FinetuningParams) -> Release:
    """DP-SGD on a diffusion model."""
    context, sampler = materials.context, _warm_start(materials.context)
    plan, classes = _plan(params, sampler), len(context.classes)
    # 1: the statistics that clustering releases, and images that are drawn from them.
    density = sampler.fit(materials, sampler.embed(materials))
    few = replace(context, count=params.images)
    warm = sampler.draw(replace(materials, context=few, quality=None, per_class=None), density)
    network = network_of(context)
    start = materials.keep("images of the warm start", partial(_images, materials, warm, network))
    images, labels = start["images"], start["labels"]
    # 2: the network learns from these what Gaussians of them do not know.
    weights = network.initial(seed=materials.seed_of("network"))
    untrained = Diffusion(network, gaussians_of(images, labels, classes), weights)
    bar = materials.progress("learning from images of the warm start", params.pretraining)
    rng = materials.rng_of("training before")
    before = partial(pretrained, untrained, images, labels, params.pretraining, rng, bar)
    prior = untrained.at(materials.keep("weights", lambda: {"weights": before()})["weights"])
    # 3: theta <- theta - Adam((sum of clipped gradients + noise) / expected batch).
    norm = partial(released_clip_norm, prior, images, labels, params.multiplicity)
    clip_norm = float(materials.keep("clip norm", lambda: {"norm": np.array(norm())})["norm"])
    vault = materials.vault.map(network.rows)
    settings = TrainingSettings(plan.training, params.learning_rate, clip_norm, params.multiplicity)
    bar = materials.progress("learning from private images, with noise", params.steps)
    units = float(warm.facts["noisy_rows"])
    seed = materials.seed_of("steps")
    tuned = prior.at(trained_by_dp_sgd(vault, prior, settings, classes, units, seed, bar))
    # 4: samples of the averaged weights.
    sizes = np.maximum(list(warm.facts["class_sizes"].values()), 1.0)
    counts = materials.for_samples.class_sizes(sizes / sizes.sum(), units)
    facts = {
        "parameters": network.size,
        "clip_norm": clip_norm,
        "expected_batch": params.rate * units,
        **warm.facts,
    }
    release = _release(materials.for_samples, tuned, counts, params, facts)
    return replace(release, classifier=warm.classifier)


def _warm_start(context: Context) -> Sampler:
    """What clustering would do by itself, of a part of the budget."""
    if len(context.shape) != 3 or context.decoder is None:
        raise ConfigError("fine-tuning draws images, and nothing here decodes any")
    mu = context.mu * math.sqrt(1 - _TRAINING)
    return sampler_of(ClusteringParams(), replace(context, mu=mu))


def _images(
    materials: Materials, warm: Release, network: TrainableNetwork
) -> dict[str, NDArray[Any]]:
    """The images of a release as the network sees them, (n, d), and their classes, (n,)."""
    bar = materials.progress("drawing images of the warm start", warm.count)
    images, labels = [np.empty((0, math.prod(network.shape)), np.float32)], []
    for batch in warm.batches():
        images.append(network.rows(np.asarray(batch.images)))
        labels.append(batch.labels)
        bar(len(batch.labels))
    return {"images": np.concatenate(images), "labels": np.concatenate(labels)}


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
                sample = partial(diffusion.sample, params.solver_steps)
                rows = materials.in_blocks(sample, _BLOCK, labels[first + samples], seeds)
                return diffusion.network.images(rows)

            yield SyntheticBatch(part, images=materials.selected(len(part), draw))

    return Release(
        method=_NAME,
        classes=materials.classes,
        count=len(labels),
        batches=batches,
        image_shape=materials.shape,
        facts=facts,
    )


def network_of(context: Context) -> TrainableNetwork:
    """The network.

    Raises:
        BackendError: It draws no such images, or is no such network.
        ConfigError: There is none.
    """
    if context.denoiser is None:
        raise ConfigError("fine-tuning needs a network (--denoiser embedded:denoiser)")
    network = context.denoiser.network(context.shape, context.classes)
    if not isinstance(network, TrainableNetwork):
        raise BackendError(
            f"{context.denoiser.name} gave a {type(network).__name__} as its network, which lacks "
            "a part of understudy.core.denoising.TrainableNetwork. Nothing was spent"
        )
    return network


def _plan(params: FinetuningParams, sampler: Sampler) -> FinetuningStages:
    weights = [stage.weight for stage in stages_of(sampler.stages)]
    weight = sum(weights) * _TRAINING / (1 - _TRAINING)
    return FinetuningStages(
        sampler.stages, Stage("training", weight, Sampling(params.rate, params.steps))
    )


def _stages(params: FinetuningParams, context: Context) -> tuple[Stage, ...]:
    """The releases and their weights in the budget."""
    sampler = _warm_start(context)
    sampler.check()
    size = network_of(context).adapted
    if size * params.steps > MAX_SIZE // 2:
        raise ConfigError(
            f"{params.steps} steps release {size:,} numbers each, and half of the {MAX_SIZE:,} "
            "that a run may release is for them: take fewer steps or a smaller network "
            "(embedded:denoiser?width=32), or rank=1 for one of the hub. Nothing was spent"
        )
    return stages_of(_plan(params, sampler))


def _explain(
    params: FinetuningParams, context: Context, noise: NoiseOfStage, units: UnitCounts | None
) -> Explanation:
    """As `Method.explain`: what a step sees, against its noise."""
    if units is None:
        return Explanation()
    batch, sampler = params.rate * units.total, _warm_start(context)
    spread = noise(_plan(params, sampler).training)
    return Explanation(
        partial(sampler.carried, noise),
        sampler.expected(noise, units),
        (
            f"a step of DP-SGD sees {batch:,.0f} units (owner only) and adds noise of {spread:.2f} "
            f"of the longest gradient to each parameter that it trains, {params.steps} times",
        ),
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


def _roles(params: FinetuningParams, _: frozenset[str]) -> dict[str, str | None]:
    """The defaults: those of clustering, and the network."""
    models: dict[str, str | None] = {"encoder": AUTO, "decoder": AUTO, "public": PROCEDURAL}
    return models | {"denoiser": "embedded:denoiser"}


METHOD = Method(
    name=_NAME,
    summary="a diffusion network about images of clustering, trained by DP-SGD on the private ones",
    source="Dockhorn et al., Differentially Private Diffusion Models; Abadi et al., Deep Learning "
    "with Differential Privacy",
    params=FinetuningParams,
    settle=lambda params, context: params,
    stages=_stages,
    run=finetuning,
    roles=_roles,
    explain=_explain,
    advise=_advise,
    check_resample=_check_resample,
)
