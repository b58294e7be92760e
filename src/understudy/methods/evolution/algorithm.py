"""Private Evolution on images, and on captions with image voting (SPTI): one algorithm.

Lin, Gopi, Kulkarni, Nori, Yekhanin: Differentially Private Synthetic Data via Foundation Model
APIs 1: Images. Wang, Lin, Yu, Zhang: Synthesize Privacy-Preserving High-Resolution Images via
Private Textual Intermediaries, Algorithm 2, whose lines are cited here. Where this differs from the
papers and from their code, and why: docs/methods/evolution.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from understudy.core.types import Release
from understudy.methods.base import CLASS, Context, Materials, Method
from understudy.methods.evolution import arithmetic as steps
from understudy.methods.evolution import voting
from understudy.methods.evolution.params import OPTIONS, EvolutionParams
from understudy.methods.evolution.population import Nature
from understudy.methods.evolution.result import (
    check_count,
    class_sizes,
    given_sizes,
    last_of,
    released,
)
from understudy.privacy.queries import Votes
from understudy.steps.separation import separation_fit, vote_fit

_SIZES = 0.05  # part of the budget that counts the classes


def roles(params: EvolutionParams, named: frozenset[str]) -> Mapping[str, str | None]:
    """The models that are used: images need no words, and image voting no captioner."""
    found: dict[str, str | None] = {"encoder": "embedded:studio", "generator": "embedded:studio"}
    if params.alphabet == "images":
        return found
    found |= {"renderer": None, "writer": "embedded:writer"}
    return found | ({"captioner": "embedded:studio"} if params.vote == "text" else {})


def settled(params: EvolutionParams, context: Context) -> EvolutionParams:
    """The parameters with every ``None`` decided, from public facts only.

    Images that are voted for stay (L = 3): an image drawn twice is the same image twice, and the
    population would soon be a few. Captions drawn twice become two pictures (L = 1): with little
    budget looking ahead at few of them pays, with much (mu >= 1) more of them.
    """
    rich, images = context.mu >= 1, params.alphabet == "images"
    variations = params.variations or (3 if images else 1)
    first, last = (0.7, 0.3) if images else (0.4, 0.1)
    lookahead = params.lookahead
    if lookahead is None:
        lookahead = 0 if rich or variations > 1 else 4
    few, many = (160, 320) if variations > 1 else (200, 800)
    usual = many if rich and lookahead == 0 else few
    return replace(
        params,
        population=params.population or max(usual, 16 * _classes(params, context)),
        rounds=params.rounds or (6 if images else 5),
        variations=variations,
        lookahead=lookahead,
        degree=first if params.degree is None else params.degree,
        last_degree=last if params.last_degree is None else params.last_degree,
    )


def _classes(params: EvolutionParams, context: Context) -> int:
    return max(1, len(context.classes)) if params.conditional else 1


def weights(params: EvolutionParams, context: Context) -> Mapping[str, float]:
    """The weight of each stage: the rounds share equally, mu / sqrt(G) each (Eq. 1)."""
    voting.check_models(
        context,
        alphabet=params.alphabet,
        vote=params.vote,
        template=params.template,
        conditional=params.conditional,
    )
    check_count(params.sizes, context.count)
    counted = given_sizes(params.sizes, _classes(params, context)) is None
    count = settled(params, context).rounds or 1
    rounds = [f"round {number}" for number in range(1, count + 1)]
    part = (1 - _SIZES if counted else 1.0) / count
    return ({"sizes": _SIZES} if counted else {}) | dict.fromkeys(rounds, part)


def evolution(materials: Materials, params: EvolutionParams) -> Release:
    """Algorithm 2, for either alphabet. Rounds are counted from 1 here."""
    params = settled(params, materials.context)
    nature = _nature(materials, params)
    # 1: C_0 <- RANDOM_API(N). A writer without words for a class says so here: nothing is paid yet.
    rounds = params.rounds or 1
    degrees = steps.schedule(params.degree or 0.0, params.last_degree or 0.0, rounds)
    population = nature.first(len(materials.context.called), degrees[0])
    voting.watched(nature, population, 0, vote=params.vote)
    # 2: E_priv <- EncodeImage(D).
    voters = voting.voters_of(
        materials, vote=params.vote, distance=params.distance, conditional=params.conditional
    )
    sizes, facts = class_sizes(voters, params.sizes, nature.classes, materials.count)
    # 3: for g = 0 to G - 1 do.
    for number, degree in enumerate(degrees, 1):
        words = f"round {number} of {rounds}, {voting.spent_words(voters.receipt())}"
        # 4 to 12: E_gen <- the mean over k of EncodeImage(Diffusion(VARIATION_API(C_g))).
        seen = steps.averaged(nature.looked_ahead(population, degree, number, words))
        if number == 1:
            alike = params.alphabet == "images" and CLASS not in params.template
            names = () if alike else materials.context.called
            fit = separation_fit(seen, population.kinds.ravel(), names)
            if fit is not None:
                materials.report_fit(fit)
        # 13 to 18: every private row votes for the nearest candidate of its class; noise.
        query = Votes(voting.placed(seen, params.distance, nature.classes))
        votes = voters.release(query, stage=f"round {number}").reshape(nature.classes, -1)
        # 19 to 25: P <- H / sum H; C'_g <- who goes on.
        sd = voters.noise_sd(query, stage=f"round {number}")
        if number == 1:
            materials.report_fit(vote_fit(votes, sd))
        cut = params.threshold * sd
        voted, chosen = nature.elected(population, votes, cut, number)
        voting.watched(nature, voted, number, vote=params.vote)
        # 22 to 28: C_{g+1} <- VARIATION_API(C'_g), and C'_g itself where L > 1.
        variants = []
        if number < rounds or _varies_last(params):
            variants = nature.variants(voted, degree, f"round {number}", words)
            population = variants[0] if nature.variations == 1 else voted.and_also(variants)
    last = last_of(voted, chosen, variants, params.release, degrees[-1])
    facts |= {"rounds": rounds, "candidates": nature.classes * nature.size}
    return released(nature, last, sizes, METHOD.name, facts, conditional=params.conditional)


def _varies_last(params: EvolutionParams) -> bool:
    """Whether variants are made after the last vote: captions of them cost no picture."""
    return params.release != "voted" or params.alphabet == "captions"


def _nature(materials: Materials, params: EvolutionParams) -> Nature:
    classes = _classes(params, materials.context)
    alphabet = voting.alphabet_of(
        materials, alphabet=params.alphabet, vote=params.vote, template=params.template
    )
    size = -(-(params.population or 1) // classes)
    variations = params.variations or 1
    return Nature(materials, alphabet, classes, size, variations, params.lookahead or 0)


METHOD = Method(
    name="evolution",
    summary="captions or images that evolve by DP votes of the private images, then rendered",
    source="Synthesize Privacy-Preserving High-Resolution Images via Private Textual Intermediaries"
    " (SPTI), and Private Evolution",
    params=EvolutionParams,
    settle=settled,
    weights=weights,
    run=evolution,
    roles=roles,
    options=OPTIONS,
)
