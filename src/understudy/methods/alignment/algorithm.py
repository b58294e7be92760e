"""Synthetic dataset alignment (PASDA): a base set moved across the DP gap to the private one.

"Advancing Differential Privacy through Synthetic Dataset Alignment", Algorithms 1 and 2. Where this
differs from the paper, and why: docs/methods/alignment.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.option import Option, check_options
from understudy.core.types import Release, Stage
from understudy.methods.alignment.base_set import Base, check_base, enough_samples, first_samples
from understudy.methods.alignment.decoding import check_decoder, decoded, release_aligned
from understudy.methods.alignment.gap import (
    AlignmentStages,
    align_variances,
    class_gaps,
    class_means,
    embed_records,
    facts_of,
    movement,
)
from understudy.methods.alignment.sensor_noise import split_noise_levels, with_noise_levels
from understudy.methods.base import (
    CLASS,
    Context,
    Inventory,
    Materials,
    Method,
    Proposal,
    stages_of,
)
from understudy.methods.dp_estimators import KMeansStages
from understudy.steps.separation import separation_fit


@dataclass(frozen=True)
class AlignmentParams:
    """Parameters of alignment; ``None``: chosen by what is known of the run.

    Raises:
        ConfigError: A value out of range, or the paper's own partition.
    """

    template: Annotated[
        str, Option("prompt of a base image, and of its decoding; {class} is its class")
    ] = "a photo of a {class}"
    multiple: Annotated[
        float,
        Option(
            "samples released for each private record (noisy count), unless --count is given",
            above=0,
        ),
    ] = 1.0
    first: Annotated[
        int, Option("base images of each class that are drawn before anything is asked", least=2)
    ] = 250
    clusters: Annotated[
        int | None,
        Option(
            "clusters per class (K); default 1, or 5 where mu >= 1 or --cluster-encoder", least=1
        ),
    ] = None
    partition: Annotated[
        str, Option("public: by synthetic centroids; matched: DP k-means and Hungarian matching")
    ] = "public"
    dimensions: Annotated[int, Option("dimensions that clusters are found in (d)", least=1)] = 10
    clip_norm: Annotated[
        float | None,
        Option(
            "clip embeddings at this norm (the paper's kappa); default: clip_radius",
            least=1e-12,
            most=10**12,
        ),
    ] = None
    clip_radius: Annotated[
        float | None,
        Option(
            "clip differences to the base set's mean at so many usual distances; 1.5, or 3 "
            "where mu >= 1, or measured (DP) where the encoder's norm is unknown",
            least=1e-12,
            most=10**12,
        ),
    ] = None
    shrink: Annotated[bool, Option("shrink gaps by the noise that is known to be in them")] = True
    second_moment: Annotated[bool, Option("align variances too, beyond the paper")] = False
    sphere: Annotated[
        bool | None,
        Option("keep each embedding's length; default where all of the base set's are one"),
    ] = None
    sensor_noise: Annotated[
        bool, Option("align the camera's noise too, beyond the paper; for encoders of a known norm")
    ] = True
    conditional: Annotated[
        bool, Option("a gap for each class; false: one for all, and a release without classes")
    ] = True

    def __post_init__(self) -> None:
        check_options(self)
        if self.partition == "paper":
            raise ConfigError(
                "the paper's partition clusters the private embeddings without noise, and one "
                "record can move every cluster, so its release is not differentially private: "
                "take partition=public or partition=matched"
            )
        if self.partition not in ("public", "matched"):
            raise ConfigError(f"partition is public or matched, found {self.partition!r}")


def _roles_used(params: AlignmentParams, named: frozenset[str]) -> Mapping[str, str | None]:
    """The models and datasets that are used; a base set that is given needs no generator."""
    studio = "embedded:studio"
    roles = {"encoder": studio, "decoder": studio, "base": None, "cluster_encoder": None}
    return roles if "base" in named else roles | {"generator": studio}


def _settled(params: AlignmentParams, context: Context) -> AlignmentParams:
    """The parameters with every ``None`` of the plan decided, from public facts only.

    The clipping radius stays open where a DP histogram of distances decides it.
    """
    several = context.mu >= 1 or context.cluster_encoder is not None
    by_measure = _measures_radius(params, context)
    return replace(
        params,
        clusters=params.clusters or (5 if several else 1),
        clip_radius=None if by_measure else params.clip_radius or _usual_radius(context),
    )


def _usual_radius(context: Context) -> float:
    """In usual distances. Rich budgets clip less: noise matters less than what is cut off."""
    return 3.0 if context.mu >= 1 else 1.5


def _measures_radius(params: AlignmentParams, context: Context) -> bool:
    """Whether the clipping radius is read off a DP histogram: the scale is unknown, none given."""
    is_bounded = context.encoder is not None and context.encoder.norm_bound is not None
    return params.clip_norm is None and params.clip_radius is None and not is_bounded


def _check_clip_norm(params: AlignmentParams, context: Context) -> None:
    """Refuse to add noise for norms that no embedding has."""
    encoder, norm = context.encoder, params.clip_norm
    bound = None if encoder is None else encoder.norm_bound
    if encoder is not None and norm is not None and bound is not None and norm > bound:
        raise ConfigError(
            f"clip_norm={norm:g} is above {bound:g}, the longest an embedding of {encoder.name} "
            "can be: it would clip nothing and add noise for lengths that never occur. Give "
            f"{bound:g} or less, or leave it out, which clips shorter differences instead"
        )


def _plan(params: AlignmentParams, context: Context) -> AlignmentStages:
    """The releases, of settled parameters; one where one cluster and a norm are known."""
    several = params.clusters != 1
    matched = several and params.partition == "matched"
    return AlignmentStages(
        radius=Stage("clip radius", 1.0) if _measures_radius(params, context) else None,
        gap=Stage("gap", 10.0),
        kmeans=KMeansStages.of(1, votes=3.0, lloyd=3.0) if matched else None,
        cluster_gaps=Stage("cluster gaps", 5.0) if several else None,
        spread=Stage("spread", 5.0) if params.second_moment else None,
    )


def _stages(params: AlignmentParams, context: Context) -> tuple[Stage, ...]:
    """The releases and their weights in the budget."""
    params = _settled(params, context)
    if context.cluster_encoder is not None and params.clusters == 1:
        raise ConfigError("--cluster-encoder makes clusters, and clusters=1 needs none")
    _check_clip_norm(params, context)
    check_decoder(context)
    check_base(context, params)
    return stages_of(_plan(params, context))


def _shown(materials: Materials, params: AlignmentParams) -> tuple[str, ...]:
    """What the images of the base set are of; () where one prompt draws them all."""
    if materials.base is not None and not params.conditional:
        return materials.base.classes
    drawn_alike = materials.base is None and CLASS not in params.template
    return () if drawn_alike else materials.context.called


def _report_separation(materials: Materials, params: AlignmentParams, base: Base) -> None:
    """Say how well the encoder tells apart what the base set shows."""
    embeddings = split_noise_levels(materials.context, base.embeddings)[0]
    fit = separation_fit(embeddings, base.prompt_of, _shown(materials, params))
    if fit is not None:
        materials.report_fit(fit)


def _check_resample(params: AlignmentParams, context: Context) -> None:
    """Refuse more samples where variances were measured about the means of the samples moved."""
    if params.second_moment:
        raise ConfigError(
            "second_moment=true measures variances about the very samples that are released: a run "
            "without it can be sampled anew"
        )


def alignment(materials: Materials, params: AlignmentParams) -> Release:
    """Algorithm 1: base set, embeddings, clusters, DP gaps, adjusted embeddings, unCLIP."""
    params = _settled(params, materials.context)
    plan = _plan(params, materials.context)
    context = with_noise_levels(materials.context, params.sensor_noise)
    materials = replace(materials, context=context)
    # Step 1: D(syn). What the decoder would refuse, it refuses now, before anything is paid.
    base = first_samples(materials, params)
    _report_separation(materials, params, base)
    prompts, seeds = [base.prompts[base.prompt_of[0]]], materials.seeds_of("trial", np.arange(1))
    decoded(materials, base.embeddings[:1], prompts, seeds)
    # 10: V(priv) <- CLIP(D(priv)), V(syn) <- CLIP(D(syn)).
    space = embed_records(materials, base, params)
    # 13: the gap of each class; its DP counts say how much of the base set there has to be.
    private = class_means(space, base, params, plan)
    counts = private.groups.counts
    base, sizes = enough_samples(materials, base, counts, params)
    gaps = class_gaps(space, base, private, shrink=params.shrink)
    # 11 to 14: ClusterMatch, the gap of each cluster, v + gap.
    shift = movement(materials, space, base, gaps, private, params, plan)
    if materials.resampling is not None:  # a base set that is drawn is drawn anew
        materials = materials.for_samples
        start = base.empty if materials.base is None else base
        base, sizes = enough_samples(materials, start, counts, params)
    aligned = shift.across(base)
    if plan.spread is not None:
        radius = params.clip_radius or _usual_radius(context)
        aligned = align_variances(space, aligned, base.labels, counts, radius, plan.spread)
    # 15: D(pasda) <- unCLIP(v + gap).
    facts = {"base_rows": len(base), "clusters": params.clusters or 1} | facts_of(private, gaps)
    if materials.context.mixed_units(len(private.groups.counts)):
        del facts["noisy_rows"]  # a unit of several classes counts more than once
    return release_aligned(materials, base, aligned, sizes, params, facts)


def _propose(inventory: Inventory) -> Proposal | None:
    """As `Method.propose`: with a public set of the same classes, or a small generator of them."""
    base = inventory.roles.get("base") or inventory.roles.get("public")
    if base is not None and inventory.same_classes:
        plain = {"encoder": "embedded:dct"} if inventory.images else {}
        others = {role: name for role, name in inventory.roles.items() if role != "public"}
        reason = (
            "a public set has the same classes, so its images can be moved to where the private "
            "ones are; where they are like the private ones already, share them as they are"
        )
        return Proposal(3, reason, {**plain, **others, "base": base})
    if inventory.roles.get("generator", "").startswith("embedded:studio"):
        reason = "a small generator draws the classes, and its images are moved to the private ones"
        return Proposal(2, reason, inventory.roles)
    return None


METHOD = Method(
    name="alignment",
    summary="a public or generated base set, moved across the DP gap to the private one, decoded",
    source="Advancing Differential Privacy through Synthetic Dataset Alignment (PASDA)",
    params=AlignmentParams,
    settle=_settled,
    stages=_stages,
    run=alignment,
    check_resample=_check_resample,
    roles=_roles_used,
    propose=_propose,
)
