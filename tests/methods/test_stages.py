"""Every stage that a method plans is released, once, and nothing else is: for many settings."""

import itertools
from dataclasses import dataclass, field
from typing import Any, get_args

import numpy as np
import pytest
from tests.independence.worlds import images, run, source_of
from tests.methods.colour_world import Eye, Namer, Painter, Pen
from tests.methods.shapes_world import frames, shapes

from understudy.audit.adjacent_datasets import InMemorySource
from understudy.backends.registry import load_decoder, load_encoder
from understudy.core.errors import ConfigError
from understudy.core.types import Stage
from understudy.methods.alignment.algorithm import METHOD as ALIGNMENT
from understudy.methods.alignment.algorithm import AlignmentParams
from understudy.methods.base import Context, Method, weights_of
from understudy.methods.clustering.algorithm import METHOD as CLUSTERING
from understudy.methods.clustering.algorithm import ClusteringParams
from understudy.methods.clustering.params import Covariance
from understudy.methods.evolution.algorithm import METHOD as EVOLUTION
from understudy.methods.evolution.algorithm import EvolutionParams
from understudy.methods.labelling.algorithm import METHOD as LABELLING
from understudy.methods.labelling.algorithm import LabellingParams
from understudy.methods.selection.algorithm import METHOD as SELECTION
from understudy.methods.selection.algorithm import SelectionParams

SHAPE = (8, 8, 1)


def of_images(shape: tuple[int, ...] = SHAPE, **more: Any) -> dict[str, Any]:
    encoder = load_encoder("embedded:dct", shape=shape)
    decoder = load_decoder("embedded:dct", shape=shape, encoder=encoder)
    return {"shape": shape, "encoder": encoder, "decoder": decoder} | more


def of_energies(shape: tuple[int, ...] = (16, 16, 1), **more: Any) -> dict[str, Any]:
    pytest.importorskip("torch")
    encoder = load_encoder("embedded:energies", shape=shape)
    decoder = load_decoder("embedded:energies", shape=shape, encoder=encoder)
    return {"shape": shape, "encoder": encoder, "decoder": decoder} | more


def of_embeddings(**more: Any) -> dict[str, Any]:
    return {"shape": (7,), "encoder": None, "decoder": None} | more


def of_colours(**more: Any) -> dict[str, Any]:
    models = {"encoder": Eye(), "generator": Painter(), "writer": Pen(), "captioner": Namer()}
    return {"shape": (4, 4, 3), "decoder": None} | models | more


@dataclass
class Case:
    """A method, its parameters, and the facts of a run with its models."""

    method: Method
    params: Any
    facts: dict[str, Any] = field(default_factory=of_images)

    @property
    def context(self) -> Context:
        return Context(
            **{"public": False, "mu": 0.3, "classes": ("cat", "dog"), "count": 12} | self.facts
        )

    def records(self, count: int, seed: int) -> InMemorySource:
        shape = self.facts["shape"]
        if self.method is LABELLING:
            return source_of(*shapes((count, count), seed, shape))
        if len(shape) == 3:
            return images(count, shape, seed)
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 2, count)
        values = rng.normal(size=(count, *shape)) + 2 * labels[:, None]
        return source_of(values.astype(np.float32), labels)

    def planned(self) -> tuple[Stage, ...]:
        return self.method.stages(self.params, self.context)

    def released(self, folder: Any) -> set[str]:
        more: dict[str, Any] = {}
        if self.facts.get("base"):
            more["base"] = self.records(40, seed=8)
        if self.facts.get("candidates"):
            more["candidates"] = self.records(50, seed=9)
        if self.facts.get("public"):
            more["public"] = self.records(80, seed=7)
        params = self.method.settle(self.params, self.context)
        if self.method is LABELLING:
            more["contrast"] = source_of(frames(60, 8, self.facts["shape"]), np.zeros(60, np.int64))
            more["epsilon"] = 2000.0
        answers: dict[str, Any] = {}
        done = run(self.method, params, self.context, self.records(30, 0), folder, answers, **more)
        list(done.release.batches())
        return set(done.notes.sums)


def clustering_cases() -> list[Case]:
    """Every covariance, with one cluster and several, in every kind of space."""
    cases = []
    for covariance, clusters in zip(get_args(Covariance), itertools.cycle((1, 2)), strict=False):
        settings = {"covariance": covariance, "clusters": clusters}
        normalised = ClusteringParams(normalise=clusters == 2, **settings)
        cases.append(Case(CLUSTERING, normalised, of_embeddings()))
    for covariance in get_args(Covariance):
        cases.append(Case(CLUSTERING, ClusteringParams(components=9, covariance=covariance)))
    few = {"clusters": 2, "components": 9}
    return [
        *cases,
        Case(CLUSTERING, ClusteringParams(), of_images()),
        Case(CLUSTERING, ClusteringParams(), of_energies()),
        Case(CLUSTERING, ClusteringParams(), of_energies((32, 32, 3), mu=1.5)),
        Case(CLUSTERING, ClusteringParams(), of_embeddings()),
        Case(CLUSTERING, ClusteringParams(), of_embeddings(mu=1.5)),
        Case(CLUSTERING, ClusteringParams(), of_embeddings(public=True)),
        Case(CLUSTERING, ClusteringParams(conditional=False, **few)),
        Case(CLUSTERING, ClusteringParams(normalise=True, clusters=1)),
        *(
            Case(CLUSTERING, ClusteringParams(filter=kind, clusters=1, covariance="diagonal"))
            for kind in ("embeddings", "images", "both")
        ),
    ]


def alignment_cases() -> list[Case]:
    """Both partitions, with and without a known norm, one cluster and several."""
    based: dict[str, Any] = {"base": True}
    of_pixels = of_images(**based)
    choices = [
        ("public", 1, False),
        ("public", 2, True),
        ("matched", 1, True),
        ("matched", 2, False),
    ]
    cases = [
        Case(
            ALIGNMENT,
            AlignmentParams(
                partition=partition, clusters=clusters, second_moment=second, dimensions=3
            ),
            of_embeddings(**based) if second else of_pixels,
        )
        for partition, clusters, second in choices
    ]
    other = load_encoder("embedded:dct?coefficients=4", shape=SHAPE)
    return [
        *cases,
        Case(ALIGNMENT, AlignmentParams(), of_images(**based)),
        Case(ALIGNMENT, AlignmentParams(), of_embeddings(mu=1.5, **based)),
        Case(ALIGNMENT, AlignmentParams(clip_norm=3.0), of_embeddings(**based)),
        Case(ALIGNMENT, AlignmentParams(clip_radius=3.0), of_embeddings(**based)),
        Case(ALIGNMENT, AlignmentParams(conditional=False), of_embeddings(**based)),
        Case(ALIGNMENT, AlignmentParams(), of_images(cluster_encoder=other, **based)),
    ]


def evolution_cases() -> list[Case]:
    """What evolves, who votes, and how the class sizes are known."""
    few = {"population": 8, "rounds": 2, "lookahead": 0}
    settings = [
        few,
        {**few, "rounds": 3, "lookahead": 2},
        {**few, "variations": 2, "release": "both"},
        {**few, "vote": "text", "distance": "cosine"},
        {**few, "sizes": "10,5"},
        {**few, "conditional": False, "sizes": "10"},
        {"population": 8},
        {"population": 4, "candidates": "images"},
        {**few, "candidates": "images", "release": "variants", "rounds": 1},
    ]
    return [Case(EVOLUTION, EvolutionParams(**chosen), of_colours()) for chosen in settings]


def selection_cases() -> list[Case]:
    """Both references, with and without a public dataset, images and embeddings."""
    few: dict[str, Any] = {"steps": 5}
    given: dict[str, Any] = {"candidates": True}
    return [
        Case(SELECTION, SelectionParams(**few), of_embeddings(**given)),
        Case(SELECTION, SelectionParams(rounds=3, axes=2, **few), of_embeddings(**given)),
        Case(SELECTION, SelectionParams(**few), of_images(public=True, **given)),
        Case(SELECTION, SelectionParams(reference="moments", **few), of_images(**given)),
        Case(
            SELECTION,
            SelectionParams(reference="moments", utility="area", rounds=2, **few),
            of_embeddings(public=True, **given),
        ),
    ]


def labelling_cases() -> list[Case]:
    """Images as they are, and redrawn; enough budget for a run that does not stop."""
    facts = of_images((16, 16, 3), public=True)
    redrawn = facts | {"generator": Painter(shape=(16, 16, 3))}
    return [
        Case(LABELLING, LabellingParams(), facts),
        Case(LABELLING, LabellingParams(draw="varied", strength=0.1), redrawn),
    ]


CASES = [
    *clustering_cases(),
    *alignment_cases(),
    *evolution_cases(),
    *labelling_cases(),
    *selection_cases(),
]


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.method.name)
def test_what_is_planned_is_what_is_released(case: Case, tmp_path: Any) -> None:
    stages = case.planned()
    names = [stage.name for stage in stages]
    assert len(names) == len(set(names))
    assert all(stage.weight > 0 for stage in stages)
    assert case.released(tmp_path) == set(names)


def test_two_stages_of_one_name_are_refused() -> None:
    assert weights_of((Stage("means", 2.0), Stage("gap", 1.0))) == {"means": 2.0, "gap": 1.0}
    with pytest.raises(ConfigError, match="a name of its own, found means, means"):
        weights_of((Stage("means", 2.0), Stage("means", 1.0)))
