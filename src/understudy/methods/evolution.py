"""Private Evolution on images, and on captions with image voting (SPTI): one algorithm.

Lin, Gopi, Kulkarni, Nori, Yekhanin: Differentially Private Synthetic Data via Foundation Model
APIs 1: Images. Wang, Lin, Yu, Zhang: Synthesize Privacy-Preserving High-Resolution Images via
Private Textual Intermediaries, Algorithm 2, whose lines are cited here. Where this differs from the
papers and from their code, and why: docs/methods/evolution.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.types import Release
from understudy.methods.parts import voting
from understudy.methods.parts.evolved import (
    check_count,
    class_sizes,
    given_sizes,
    last_of,
    released,
)
from understudy.methods.parts.evolving import Nature
from understudy.methods.parts.interface import Context, Materials, Method
from understudy.methods.parts.params import require_at_least
from understudy.privacy.queries import Votes
from understudy.steps import evolution as steps

_SIZES = 0.05  # part of the budget that counts the classes


@dataclass(frozen=True)
class EvolutionParams:
    """Parameters of evolution; ``None``: chosen by the alphabet and the classes (`settled`).

    Raises:
        ConfigError: A value out of range, or two that exclude each other.
    """

    alphabet: Literal["captions", "images"] = "captions"
    population: int | None = None
    rounds: int = 5
    variations: int = 1
    lookahead: int | None = None
    vote: Literal["image", "text"] = "image"
    distance: Literal["l2", "cosine"] = "l2"
    threshold: float = 1.0
    degree: float | None = None
    last_degree: float | None = None
    sizes: str = "count"
    release: Literal["voted", "variants", "both"] = "voted"
    template: str = "a photo of a {class}"
    conditional: bool = True

    def __post_init__(self) -> None:
        require_at_least(self, {"population": 1, "rounds": 1, "variations": 1, "lookahead": 0})
        if self.rounds > 100:
            raise ConfigError(f"rounds must be 1 to 100, found {self.rounds}")
        if not 0 <= self.threshold < np.inf:
            raise ConfigError(f"threshold must be 0 or more, found {self.threshold}")
        for name in ("degree", "last_degree"):
            if (value := getattr(self, name)) is not None and not 0 <= value <= 1:
                raise ConfigError(f"{name} must lie in [0, 1], found {value}")
        if self.vote == "text" and self.alphabet == "images":
            raise ConfigError("vote=text compares captions: take alphabet=captions, or vote=image")


OPTIONS = {
    "alphabet": "what evolves: captions, rendered for the vote (SPTI), or images (PE)",
    "population": "candidates in all (N), as many a class; default 200, or 800 where mu >= 1",
    "rounds": "rounds of votes, 1 to 100 (G); they share the budget equally",
    "variations": "L: 1 resamples by votes; more keeps the top and varies each L - 1 times",
    "lookahead": "variations averaged for a vote (K); 0: none; default 4, or 0 where mu >= 1",
    "vote": "image: private images vote for rendered captions; text: their captions for captions",
    "distance": "who is nearest: l2 or cosine",
    "threshold": "votes below so many standard deviations of the noise are noise (L = 1)",
    "degree": "how much a variation changes in the first round; default 0.4, images 0.7",
    "last_degree": "and in the last, linearly between; default 0.1, images 0.3",
    "sizes": "class sizes: count (DP), balanced, or public numbers such as 100,200,50",
    "release": "voted: who was voted for in the last round; variants: variations of them; both",
    "template": "prompt of the first images; {class} is the class (alphabet=images)",
    "conditional": "a population for each class; false: one for all, released without classes",
}


def roles(params: EvolutionParams, named: frozenset[str]) -> Mapping[str, str | None]:
    """The models that are used: images need no words, and image voting no captioner."""
    found: dict[str, str | None] = {"encoder": "embedded:studio", "generator": "embedded:studio"}
    if params.alphabet == "images":
        return found
    found |= {"renderer": None, "writer": "embedded:writer"}
    return found | ({"captioner": "embedded:studio"} if params.vote == "text" else {})


def settled(params: EvolutionParams, context: Context) -> EvolutionParams:
    """The parameters with every ``None`` decided, from public facts only.

    The votes draw 4,000 pictures. With little budget they go into looking ahead at few candidates,
    which so get more votes than noise; with much (mu >= 1), into more candidates.
    """
    rich = context.mu >= 1
    lookahead = (0 if rich else 4) if params.lookahead is None else params.lookahead
    usual = 800 if rich and lookahead == 0 else 200
    first, last = (0.7, 0.3) if params.alphabet == "images" else (0.4, 0.1)
    return replace(
        params,
        population=params.population or max(usual, 16 * _classes(params, context)),
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
    rounds = [f"round {number}" for number in range(1, params.rounds + 1)]
    part = (1 - _SIZES if counted else 1.0) / params.rounds
    return ({"sizes": _SIZES} if counted else {}) | dict.fromkeys(rounds, part)


def evolution(materials: Materials, params: EvolutionParams) -> Release:
    """Algorithm 2, for either alphabet. Rounds are counted from 1 here."""
    params = settled(params, materials.context)
    nature = _nature(materials, params)
    # 1: C_0 <- RANDOM_API(N). A writer without words for a class says so here: nothing is paid yet.
    degrees = steps.schedule(params.degree or 0.0, params.last_degree or 0.0, params.rounds)
    population = nature.first(len(materials.context.called), degrees[0])
    voting.watched(nature, population, 0, vote=params.vote)
    # 2: E_priv <- EncodeImage(D).
    voters = voting.voters_of(
        materials, vote=params.vote, distance=params.distance, conditional=params.conditional
    )
    sizes, facts = class_sizes(voters, params.sizes, nature.classes, materials.count)
    # 3: for g = 0 to G - 1 do.
    for number, degree in enumerate(degrees, 1):
        words = f"round {number} of {params.rounds}, {voting.spent_words(voters.receipt())}"
        # 4 to 12: E_gen <- the mean over k of EncodeImage(Diffusion(VARIATION_API(C_g))).
        seen = steps.averaged(nature.looked_ahead(population, degree, number, words))
        # 13 to 18: every private row votes for the nearest candidate of its class; noise.
        query = Votes(voting.placed(seen, params.distance, nature.classes))
        votes = voters.release(query, stage=f"round {number}").reshape(nature.classes, -1)
        # 19 to 25: P <- H / sum H; C'_g <- who goes on.
        cut = params.threshold * voters.noise_sd(query, stage=f"round {number}")
        voted, chosen = nature.elected(population, votes, cut, number)
        voting.watched(nature, voted, number, vote=params.vote)
        # 22 to 28: C_{g+1} <- VARIATION_API(C'_g), and C'_g itself where L > 1.
        variants = []
        if number < params.rounds or _varies_last(params):
            variants = nature.variants(voted, degree, f"round {number}", words)
            population = variants[0] if params.variations == 1 else voted.and_also(variants)
    last = last_of(voted, chosen, variants, params.release, degrees[-1])
    facts |= {"rounds": params.rounds, "candidates": nature.classes * nature.size}
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
    return Nature(materials, alphabet, classes, size, params.variations, params.lookahead or 0)


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
