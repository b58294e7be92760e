"""Private Evolution on images, and on captions with image voting (SPTI): one algorithm.

Lin, Gopi, Kulkarni, Nori, Yekhanin: Differentially Private Synthetic Data via Foundation Model
APIs 1: Images. Wang, Lin, Yu, Zhang: Synthesize Privacy-Preserving High-Resolution Images via
Private Textual Intermediaries, Algorithm 2, whose lines are cited here. Where this differs from the
papers and from their code, and why: docs/methods/evolution.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal

from understudy.core.errors import ConfigError
from understudy.core.option import Option, check_options
from understudy.core.ports import TextEncoder
from understudy.core.types import Receipt, Release, Stage, Vector
from understudy.methods.base import (
    CLASS,
    Context,
    Inventory,
    Materials,
    Method,
    PrivateView,
    Proposal,
    stages_of,
)
from understudy.methods.evolution import arithmetic
from understudy.methods.evolution.candidates import (
    CAPTIONED_AT_ONCE,
    candidates_of,
    captions_embedded,
    check_models,
    encoder_of,
    text_encoder_of,
)
from understudy.methods.evolution.population import RoundSettings
from understudy.methods.evolution.result import (
    final_candidates,
    given_sizes,
    release_candidates,
    sizes_of_classes,
)
from understudy.privacy.accounting import Gaussian, epsilon_of
from understudy.privacy.queries import Votes
from understudy.steps.row_arithmetic import unit_rows
from understudy.steps.separation import separation_fit, vote_fit

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.privacy.vault import Vault

_TEMPLATE = "a photo of a {class}"
_SIZES = 0.05  # part of the budget that counts the classes


@dataclass(frozen=True)
class EvolutionParams:
    """Parameters of evolution; ``None``: chosen by the candidates and the classes.

    Raises:
        ConfigError: A value out of range, or two that exclude each other.
    """

    candidates: Annotated[
        Literal["captions", "images"],
        Option("what evolves: captions, rendered for the vote (SPTI), or images (PE)"),
    ] = "captions"
    population: Annotated[
        int | None,
        Option(
            "candidates in all (N), as many a class; default 160 to 800 by L, K and mu", least=1
        ),
    ] = None
    rounds: Annotated[
        int | None,
        Option(
            "rounds of votes, 1 to 100 (G), that share the budget equally; default 5, images 6",
            least=1,
            most=100,
        ),
    ] = None
    variations: Annotated[
        int | None,
        Option(
            "L: 1 resamples by votes (captions); more varies the top L - 1 times (images: 3)",
            least=1,
        ),
    ] = None
    lookahead: Annotated[
        int | None,
        Option(
            "variations averaged for a vote (K); default 4, or none where mu >= 1 or L > 1", least=0
        ),
    ] = None
    vote: Annotated[
        Literal["image", "text"],
        Option(
            "image: private images vote for rendered captions; text: their captions for captions"
        ),
    ] = "image"
    distance: Annotated[
        Literal["l2", "cosine"], Option("by which a candidate is nearest: l2 or cosine")
    ] = "l2"
    threshold: Annotated[
        float,
        Option("votes below so many standard deviations of the noise are noise (L = 1)", least=0),
    ] = 1.0
    degree: Annotated[
        float | None,
        Option(
            "how much a variation changes in the first round; default 0.4, images 0.7",
            least=0,
            most=1,
        ),
    ] = None
    last_degree: Annotated[
        float | None,
        Option("and in the last, linearly between; default 0.1, images 0.3", least=0, most=1),
    ] = None
    sizes: Annotated[
        str, Option("class sizes: count (DP), or public numbers such as 100,200,50")
    ] = "count"
    release: Annotated[
        Literal["voted", "variants", "both"],
        Option("voted: the candidates of the last vote; variants: variations of them; both"),
    ] = "voted"
    template: Annotated[
        str, Option("prompt of the first images; {class} is the class (candidates=images)")
    ] = _TEMPLATE
    conditional: Annotated[
        bool, Option("a population for each class; false: one for all, released without classes")
    ] = True

    def __post_init__(self) -> None:
        check_options(self)
        if self.vote == "text" and self.candidates == "images":
            raise ConfigError(
                "vote=text compares captions: take candidates=captions, or vote=image"
            )
        if self.candidates == "captions" and self.template != _TEMPLATE:
            raise ConfigError(
                "template is the prompt of first images, and these are drawn from captions that a "
                "writer writes: leave it out, or take candidates=images"
            )


def _roles_used(params: EvolutionParams, named: frozenset[str]) -> Mapping[str, str | None]:
    """The models that are used: images need no writer, and image voting no captioner."""
    roles: dict[str, str | None] = {"encoder": "embedded:studio", "generator": "embedded:studio"}
    if params.candidates == "images":
        return roles
    roles |= {"renderer": None, "writer": "embedded:writer"}
    return roles | ({"captioner": "embedded:studio"} if params.vote == "text" else {})


def _settled(params: EvolutionParams, context: Context) -> EvolutionParams:
    """The parameters with every ``None`` decided, from public facts only.

    Images that are voted for stay (L = 3): an image drawn twice is the same image twice, and the
    population would soon be a few. Captions drawn twice become two images (L = 1): with little
    budget looking ahead at few of them pays, with much (mu >= 1) more of them.
    """
    rich, images = context.mu >= 1, params.candidates == "images"
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


@dataclass(frozen=True)
class EvolutionStages:
    """The releases of evolution, in their order."""

    sizes: Stage | None  # the class sizes, unless the owner states them
    rounds: tuple[Stage, ...]  # the votes of each round


def _plan(params: EvolutionParams, context: Context) -> EvolutionStages:
    """The releases: the rounds share equally, mu / sqrt(G) each (Eq. 1)."""
    has_sizes = given_sizes(params.sizes, _classes(params, context)) is None
    count = params.rounds or 1
    weight = (1 - _SIZES if has_sizes else 1.0) / count
    return EvolutionStages(
        Stage("sizes", _SIZES) if has_sizes else None,
        tuple(Stage(f"round {number}", weight) for number in range(1, count + 1)),
    )


def _stages(params: EvolutionParams, context: Context) -> tuple[Stage, ...]:
    """The releases and their weights in the budget."""
    check_models(context, params)
    settled, classes = _settled(params, context), _classes(params, context)
    if settled.variations == 1 and (settled.population or 0) <= classes:
        raise ConfigError(
            f"population={settled.population} is one candidate a class, and votes would choose "
            f"among none: take {2 * classes} or more"
        )
    return stages_of(_plan(settled, context))


def evolution(materials: Materials, params: EvolutionParams) -> Release:
    """Algorithm 2, for either kind of candidates. Rounds are counted from 1 here."""
    params = _settled(params, materials.context)
    plan, settings = _plan(params, materials.context), _round_settings(materials, params)
    # 1: C_0 <- RANDOM_API(N). A writer without words for a class says so here: nothing is paid yet.
    rounds = len(plan.rounds)
    degrees = arithmetic.schedule(params.degree or 0.0, params.last_degree or 0.0, rounds)
    population = settings.initial(len(materials.context.called), degrees[0])
    settings.show_owner(population, 0, vote=params.vote)
    # 2: E_priv <- EncodeImage(D).
    voters = _voters(materials, params)
    sizes, facts = sizes_of_classes(materials, voters, params.sizes, settings.classes, plan.sizes)
    # 3: for g = 0 to G - 1 do.
    for number, (degree, stage) in enumerate(zip(degrees, plan.rounds, strict=True), 1):
        caption = f"round {number} of {rounds}, {_spent(voters.receipt())}"
        # 4 to 12: E_gen <- the mean over k of EncodeImage(Diffusion(VARIATION_API(C_g))).
        embeddings = arithmetic.averaged(settings.looked_ahead(population, degree, number, caption))
        if number == 1:
            alike = params.candidates == "images" and CLASS not in params.template
            names = () if alike else materials.context.called
            fit = separation_fit(embeddings, population.phrase_of.ravel(), names)
            if fit is not None:
                materials.report_fit(fit)
        # 13 to 18: every private record votes for the nearest candidate of its class; noise.
        query = Votes(_among_voters(embeddings, params.distance, settings.classes))
        votes = voters.release(query, stage=stage.name).reshape(settings.classes, -1)
        # 19 to 25: P <- H / sum H; C'_g <- the candidates that go on.
        sd = voters.noise_sd(query, stage=stage.name)
        if number == 1:
            materials.report_fit(vote_fit(votes, sd))
        voted, selection = settings.selected(population, votes, params.threshold * sd, number)
        settings.show_owner(voted, number, vote=params.vote)
        # 22 to 28: C_{g+1} <- VARIATION_API(C'_g), and C'_g itself where L > 1.
        variants = []
        if number < rounds or _varies_last(params):
            variants = settings.variants(voted, degree, f"round {number}", caption)
            population = variants[0] if settings.variations == 1 else voted.extended(variants)
    final = final_candidates(voted, selection, variants, params.release, degrees[-1])
    facts |= {"rounds": rounds, "candidates": settings.classes * settings.size}
    return release_candidates(materials, settings.candidates, final, sizes, params, facts)


def _varies_last(params: EvolutionParams) -> bool:
    """Whether variants are made after the last vote: captions of them cost no image."""
    return params.release != "voted" or params.candidates == "captions"


def _round_settings(materials: Materials, params: EvolutionParams) -> RoundSettings:
    classes = _classes(params, materials.context)
    candidates = candidates_of(materials, params)
    size = -(-(params.population or 1) // classes)
    variations = params.variations or 1
    return RoundSettings(materials, candidates, classes, size, variations, params.lookahead or 0)


def _voters(materials: Materials, params: EvolutionParams) -> Vault:
    """Line 2: E_priv <- EncodeImage(D); for votes of texts, of captions made inside the vault."""
    encoder, captioner = encoder_of(materials.context), materials.context.captioner
    if params.vote == "text" and captioner is not None:
        encode = captions_embedded(captioner, text_encoder_of(encoder))
        vault = materials.vault.map(encode, batch=CAPTIONED_AT_ONCE)
    else:
        vault = materials.vault.map(encoder.encode)
    # On the unit sphere L2 and cosine have the same nearest.
    vault = vault.view(unit_rows) if params.distance == "cosine" else vault
    return vault if params.conditional else vault.unconditional()


def _among_voters(embeddings: Vector, distance: str, classes: int) -> Vector:
    """Candidates (n, d) in the space of the voters: (classes, m, d)."""
    values = unit_rows(embeddings) if distance == "cosine" else embeddings
    return values.reshape(classes, -1, values.shape[1])


def _spent(receipt: Receipt) -> str:
    """``epsilon 0.42 spent``: what the releases so far compose to."""
    events = [Gaussian(stage.mu, receipt.slack * stage.share) for stage in receipt.stages]
    return f"epsilon {epsilon_of(events, receipt.delta) if events else 0.0:.2g} spent"


def _check_resample(params: EvolutionParams, context: Context) -> None:
    """More samples are rendered from the last candidates, or are variations of them."""


def _propose(inventory: Inventory) -> Proposal | None:
    """As `Method.propose`: with a text-to-image model."""
    if "generator" not in inventory.roles:
        return None
    reason = "a text-to-image model is at hand, and votes of the private images steer it"
    return Proposal(1, reason, inventory.roles)


def _views(context: Context) -> tuple[PrivateView, ...]:
    """As `Method.views`: private images are captioned, and their captions embedded."""
    if context.captioner is None or not isinstance(context.encoder, TextEncoder):
        return ()
    embed = captions_embedded(context.captioner, context.encoder)
    return (PrivateView(context.captioner.name, embed, CAPTIONED_AT_ONCE),)


def _calls(params: EvolutionParams, context: Context, records: int) -> Mapping[str, int]:
    """As `Method.calls`."""
    classes, rounds = _classes(params, context), params.rounds or 1
    size = -(-(params.population or 1) // classes) * classes
    variations, ahead = params.variations or 1, params.lookahead or 0
    voted = size * variations  # candidates of a round
    looks = rounds * voted * max(ahead, 1)
    others = (variations - 1) * size  # of the first population
    fresh = (rounds - 1 + _varies_last(params)) * size * max(1, variations - 1)
    varied, samples = others + rounds * voted * ahead + fresh, context.count or records
    if params.candidates == "images":
        return {"generator": size + varied + samples, "encoder": looks + records}
    draws = looks if params.vote == "image" else 0
    final = "generator" if context.renderer is None else "renderer"
    calls = {"writer": size + varied, "encoder": looks + records, "captioner": records}
    return calls | {"generator": draws} | {final: samples + (draws if final == "generator" else 0)}


METHOD = Method(
    name="evolution",
    summary="captions or images that evolve by DP votes of the private images, then rendered",
    source="Synthesize Privacy-Preserving High-Resolution Images via Private Textual Intermediaries"
    " (SPTI), and Private Evolution",
    params=EvolutionParams,
    settle=_settled,
    stages=_stages,
    run=evolution,
    check_resample=_check_resample,
    roles=_roles_used,
    propose=_propose,
    views=_views,
    calls=_calls,
)
