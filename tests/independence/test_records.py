"""S(D) - S(D minus u) == c(u), exactly, and the release the same bits given the same answers.

Every sensitivity of docs/promise.md rests on the first line: one record less changes a sum by what
that record adds, and by nothing else. It failed for encoders that round a batch of 8 otherwise
than one of 9, and for matrix products over the rows of a view.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from tests.backends.tiny_onnx import block_fill, block_means
from tests.independence.worlds import images, run, source_of
from tests.methods.colour_world import Painter, Pen
from tests.methods.shapes_world import frames, shapes

from understudy.audit.adjacent_datasets import InMemorySource
from understudy.backends.registry import load_decoder, load_encoder, load_model
from understudy.core.ports import Captioner, Denoiser
from understudy.methods.alignment.algorithm import METHOD as ALIGNMENT
from understudy.methods.alignment.algorithm import AlignmentParams
from understudy.methods.base import Context
from understudy.methods.clustering.algorithm import METHOD as CLUSTERING
from understudy.methods.clustering.algorithm import ClusteringParams
from understudy.methods.evolution.algorithm import METHOD as EVOLUTION
from understudy.methods.evolution.algorithm import EvolutionParams
from understudy.methods.finetuning.algorithm import METHOD as FINETUNING
from understudy.methods.finetuning.algorithm import FinetuningParams
from understudy.methods.labelling.algorithm import METHOD as LABELLING
from understudy.methods.labelling.algorithm import LabellingParams
from understudy.methods.selection.algorithm import METHOD as SELECTION
from understudy.methods.selection.algorithm import SelectionParams
from understudy.privacy.queries import ClippedGradients

pytestmark = pytest.mark.usefixtures("one_thread", "short_search")

BORDERS = (9, 65)
"""Records of D: one more than the 8 and the 64 at which libraries change their kernels."""


@dataclass
class Case:
    """A method, its parameters and models, and the records."""

    method: Any
    params: Any
    encoder: str | None
    shape: tuple[int, ...] = (16, 16, 3)
    decoder: str | None = None
    context: dict[str, Any] = field(default_factory=dict)
    public: bool = False
    base: bool = False
    candidates: bool = False
    world: Callable[..., InMemorySource] | None = None  # of the records; None: noise about a colour
    epsilon: float = 1.0
    mu: float = 0.3  # that the method is told of; `epsilon` is what pays
    unlabelled: bool = False
    count: int = 20  # samples

    @cached_property
    def models(self) -> dict[str, Any]:
        encoder = None if self.encoder is None else load_encoder(self.encoder, shape=self.shape)
        decoder = None
        if self.decoder is not None:
            decoder = load_decoder(self.decoder, shape=self.shape, encoder=encoder)
        return {"encoder": encoder, "decoder": decoder} | {
            role: make(self.shape) for role, make in self.context.items()
        }

    def records(self, count: int, seed: int = 0) -> InMemorySource:
        records = self._labelled(count, seed)
        if self.unlabelled:
            records = replace(records, labels=np.zeros_like(records.labels), classes=("all",))
        return records

    def _labelled(self, count: int, seed: int) -> InMemorySource:
        if self.world is not None:
            return self.world(count, self.shape, seed)
        if len(self.shape) == 3:
            return images(count, self.shape, seed)
        rng = np.random.default_rng(seed)
        labels = rng.integers(0, 2, count)
        values = rng.normal(size=(count, *self.shape)) + 2 * labels[:, None]
        return source_of(values.astype(np.float32), labels)

    def run(self, records: InMemorySource, folder: Any, answers: dict[str, Any]) -> Any:
        context = Context(
            self.shape,
            public=self.public,
            mu=self.mu,
            classes=records.classes,
            count=self.count,
            base=self.base,
            candidates=self.candidates,
            **self.models,
        )
        more = {}
        if self.public:
            count = 80 if self.world is None else 160
            more["public"] = replace(self.records(count, seed=7), classes=("all",))
        if self.method is LABELLING:
            more["contrast"] = source_of(frames(60, 8, self.shape), np.zeros(60, np.int64))
        if self.base:
            more["base"] = self.records(60, seed=8)
        if self.candidates:
            more["candidates"] = self.records(60, seed=9)
        more["epsilon"] = self.epsilon
        return run(self.method, self.params, context, records, folder, answers, **more)


def small_denoiser(_):
    return load_model(Denoiser, "embedded:denoiser?width=8&depth=1")


def hub_denoiser(_):
    diffusion = pytest.importorskip("tests.backends.tiny_models.diffusion")
    with TemporaryDirectory() as folder:
        return load_model(Denoiser, f"hf:{diffusion.saved('sd15', Path(folder))}?rank=1")


def studio_captioner(_):
    return load_model(Captioner, "embedded:studio")


def of_shapes(count: int, shape: tuple[int, ...], seed: int) -> InMemorySource:
    """Crosses and discs."""
    return source_of(*shapes((count // 2, count - count // 2), seed, shape))


def few(**more: Any) -> ClusteringParams:
    return ClusteringParams(**{"clusters": 2, "components": 12} | more)


def gaps(**more: Any) -> AlignmentParams:
    told = {"clusters": 2, "partition": "matched", "second_moment": True, "dimensions": 3}
    return AlignmentParams(**told | more)


def evolved(**more: Any) -> EvolutionParams:
    return EvolutionParams(**{"population": 16, "rounds": 2, "candidates": "captions"} | more)


def selected(**more: Any) -> SelectionParams:
    return SelectionParams(**{"rounds": 3, "steps": 10} | more)


def of_codec(method: Any, params: Any, codec: str, shape: tuple[int, ...], **more: Any) -> Case:
    """Images that are encoded and decoded by one codec."""
    return Case(method, params, codec, shape, decoder=codec, **more)


STUDIO = {"generator": lambda _: Painter(), "writer": lambda _: Pen()}
LABELLED: dict[str, Any] = {"public": True, "world": of_shapes, "epsilon": 2000.0}

CASES = {
    "finetuning": of_codec(
        FINETUNING,
        FinetuningParams(steps=2, images=16, pretraining=2, solver_steps=2, multiplicity=2),
        "embedded:energies",
        (16, 16, 3),
        context={"denoiser": small_denoiser},
    ),
    "finetuning, of the hub": of_codec(
        FINETUNING,
        FinetuningParams(steps=2, images=16, pretraining=1, solver_steps=2, multiplicity=2),
        "embedded:energies",
        (16, 16, 3),
        context={"denoiser": hub_denoiser},
    ),
    "clustering, dct to images": of_codec(CLUSTERING, few(), "embedded:dct", (8, 8, 1)),
    "clustering, dct, filtered": of_codec(
        CLUSTERING,
        few(clusters=1, covariance="diagonal", filter="both", oversample=1),
        "embedded:dct",
        (8, 8, 1),
    ),
    "clustering, energies": of_codec(
        CLUSTERING, ClusteringParams(), "embedded:energies", (17, 19, 3), count=6
    ),
    "clustering, energies, covariances of classes": of_codec(
        CLUSTERING, ClusteringParams(), "embedded:energies", (17, 19, 3), count=6, mu=200.0
    ),
    "clustering, energies of grey images": of_codec(
        CLUSTERING, ClusteringParams(), "embedded:energies", (64, 64, 1), count=6
    ),
    "clustering, embeddings": Case(CLUSTERING, few(), None, (37,), public=True),
    "clustering, embeddings, labels by a classifier": Case(
        CLUSTERING, few(labels="classifier"), None, (37,), public=True
    ),
    "clustering, embeddings off the sphere, labels by a classifier": Case(
        CLUSTERING, ClusteringParams(labels="classifier", normalise=False), None, (7,)
    ),
    "clustering, scattering": Case(
        CLUSTERING, few(), "embedded:scattering?log=10&coefficients=400", (17, 19, 3)
    ),
    "clustering, scattering, whitened": Case(
        CLUSTERING, few(covariance="full"), "embedded:scattering?J=1&L=4", (8, 8, 3), public=True
    ),
    "clustering, studio, whitened": Case(CLUSTERING, few(), "embedded:studio", public=True),
    "alignment, dct to images": of_codec(ALIGNMENT, gaps(), "embedded:dct", (8, 8, 3), base=True),
    "alignment, embeddings": Case(ALIGNMENT, gaps(partition="public"), None, (21,), base=True),
    "alignment, studio, clustered by dct": Case(
        ALIGNMENT,
        gaps(),
        "embedded:studio",
        base=True,
        context={"cluster_encoder": lambda shape: load_encoder("embedded:dct", shape=shape)},
    ),
    "evolution, studio": Case(EVOLUTION, evolved(), "embedded:studio", context=STUDIO),
    "evolution, studio, votes of texts": Case(
        EVOLUTION,
        evolved(vote="text"),
        "embedded:studio",
        context=STUDIO | {"captioner": studio_captioner},
    ),
    "labelling, scattering": Case(
        LABELLING,
        LabellingParams(),
        "embedded:scattering?J=2&L=4&log=10&coefficients=90",
        (16, 16, 1),
        **LABELLED,
    ),
    "labelling, dct": Case(
        LABELLING, LabellingParams(), "embedded:dct?coefficients=80", (16, 16, 3), **LABELLED
    ),
    "selection, embeddings": Case(SELECTION, selected(), None, (37,), candidates=True),
    "selection, dct": Case(
        SELECTION, selected(axes=20), "embedded:dct", (8, 8, 3), candidates=True, public=True
    ),
    "selection, embeddings, by moments": Case(
        SELECTION, selected(reference="moments"), None, (37,), candidates=True
    ),
}


@pytest.fixture(scope="module")
def onnx_cases(tmp_path_factory):
    folder = tmp_path_factory.mktemp("onnx")
    encoder, decoder = block_means(folder / "enc.onnx"), block_fill(folder / "dec.onnx")
    pair = Case(
        CLUSTERING,
        ClusteringParams(clusters=1),
        f"onnx:{encoder}?batch=24",
        (16, 16, 3),
        decoder=f"onnx:{decoder}",
        public=True,
    )
    return {"clustering, onnx, grid": pair}


def needed(case):
    if "studio" in str(case.encoder):
        pytest.importorskip("transformers")
        pytest.importorskip("diffusers")
    if any(name in str(case.encoder) for name in ("scattering", "energies")):
        pytest.importorskip("torch")


def broken(case, count, folder, places=(0,)):
    """What differs: stages whose sums of D, D without a record and that record do not fit; and
    the release, if that of D is not that of D without the record."""
    needed(case)
    answers: dict[str, Any] = {}
    records = case.records(count)
    whole, found = case.run(records, folder, answers), []
    assert len(whole.notes.sums) == len(answers) > 0
    for place in places:
        less = case.run(records.subset(np.delete(np.arange(len(records)), place)), folder, answers)
        alone = case.run(records.subset([place]), folder, answers)
        if not less.notes.asked == whole.notes.asked == alone.notes.asked:
            found.append(f"{place}: what is asked")
        for stage, total in whole.notes.sums.items():
            if not np.array_equal(total - less.notes.sums[stage], alone.notes.sums[stage]):
                found.append(f"{place}: {stage}")
        if not less.same_bits(whole):
            found.append(f"{place}: the release")
    return found


@pytest.mark.parametrize("count", BORDERS)
@pytest.mark.parametrize("name", CASES)
def test_a_record_less_changes_every_sum_by_what_it_adds_and_nothing_else(name, count, tmp_path):
    assert not broken(CASES[name], count, tmp_path)


@pytest.mark.parametrize("count", BORDERS)
def test_it_does_with_an_onnx_pair_whose_batch_parts_no_call_evenly(onnx_cases, count, tmp_path):
    for case in onnx_cases.values():
        assert not broken(case, count, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("count", [8, 64, 64 + 9, 8 * 64 + 9])
@pytest.mark.parametrize("name", CASES)
def test_it_does_at_every_place_of_larger_sets(name, count, tmp_path):
    assert not broken(CASES[name], count, tmp_path, places=(0, count // 2, count - 1))


def test_the_test_sees_embeddings_that_are_centred_by_their_batch(tmp_path):
    case = replace(CASES["clustering, dct to images"], decoder=None)
    encoder = case.models["encoder"]
    plain = encoder.encode

    def centred(batch):
        rows = plain(batch)
        return rows - rows.mean(axis=0)

    encoder.encode = centred
    assert "0: means" in broken(case, 9, tmp_path)


def test_the_test_sees_a_seed_that_depends_on_the_number_of_records(tmp_path):
    case = CASES["clustering, dct to images"]

    def seeded(materials, params):
        count = len(materials.vault._inside.source)
        return CLUSTERING.run(replace(materials, seed=count), params)

    # The release may still be the same: noise can leave no covariance to draw from.
    peeking = replace(case, method=replace(CLUSTERING, run=seeded))
    assert {"0: what is asked", "0: the release"} & set(broken(peeking, 9, tmp_path))


def test_the_test_sees_gradients_that_are_centred_by_their_batch(tmp_path, monkeypatch):
    plain = ClippedGradients.contributions

    def centred(query, values, labels):
        slots, gradients = plain(query, values, labels)
        return slots, gradients - gradients.mean(axis=0)

    monkeypatch.setattr(ClippedGradients, "contributions", centred)
    case = CASES["clustering, embeddings off the sphere, labels by a classifier"]
    assert "0: label gradient 1" in broken(case, 9, tmp_path)
