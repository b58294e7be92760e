"""Given the same noisy answers, any other records whatever give the same release.

An adjacent data set is often too like the first one: without a record that is the longest, a
clipping radius that is the exact maximum stays what it was, and a number of records decides nothing
but at its threshold. So the records are replaced altogether: by a few extreme ones (white, black,
checkerboards, one colour; embeddings of length 0 and 10,000), one of them alone in its class, and
by many more. And every stage's answer has to carry its noise, that of a single number too.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from tests.independence.test_records import CASES, Case, few, gaps, needed, of_codec, onnx_cases
from tests.independence.worlds import Diverged, Notes, source_of

from understudy.methods import dp_estimators
from understudy.methods.alignment.algorithm import METHOD as ALIGNMENT
from understudy.methods.clustering import covariance, embedding_space
from understudy.methods.clustering.algorithm import METHOD as CLUSTERING
from understudy.methods.clustering.algorithm import ClusteringParams
from understudy.methods.clustering.samplers import tied_gaussian
from understudy.methods.clustering.samplers.mixture import MixtureSampler
from understudy.privacy import account

pytestmark = pytest.mark.usefixtures("one_thread", "short_search")
__all__ = ["onnx_cases"]

UNLABELLED = {
    "clustering, unlabelled images": of_codec(
        CLUSTERING, few(), "embedded:dct", (8, 8, 3), unlabelled=True
    ),
    "clustering, unlabelled embeddings": Case(CLUSTERING, few(), None, (9,), unlabelled=True),
    "clustering, unlabelled images of a codec": of_codec(
        CLUSTERING, ClusteringParams(), "embedded:energies", (17, 19, 3), unlabelled=True
    ),
    "alignment, unlabelled": of_codec(
        ALIGNMENT, gaps(template="a photo"), "embedded:dct", (8, 8, 3), base=True, unlabelled=True
    ),
}

ALL = CASES | UNLABELLED
NETWORKS = (
    *("finetuning", "studio", "scattering", "energies", "labelling", "codec", "by a classifier"),
)
QUICK = [name for name in ALL if not any(word in name for word in NETWORKS)]
SELDOM = (
    *("grey images", "of a codec", "studio, whitened", "votes of texts", "scattering, whitened"),
    *("labelling, scattering", "off the sphere"),
)
OFTEN = [
    pytest.param(name, marks=pytest.mark.slow) if any(w in name for w in SELDOM) else name
    for name in ALL
]


def of_classes(values, case):
    """Records, all of the first class but the last one, which is alone in its own."""
    labels = np.zeros(len(values), dtype=np.int64)
    labels[-1] = 0 if case.unlabelled else 1
    return source_of(values, labels, case.records(2).classes)


def extremes(case):
    """White, black, checkerboards, each corner of the colours; or embeddings of extreme lengths."""
    if len(case.shape) == 1:
        axes = np.eye(case.shape[0], dtype=np.float32)
        return of_classes(np.concatenate([0 * axes[:1], 1e4 * axes[:3], -1e4 * axes[-1:]]), case)
    row, column = np.indices(case.shape[:2])
    board = np.broadcast_to(255 * ((row + column) % 2)[..., None], case.shape)
    corners = [(i >> 2 & 1, i >> 1 & 1, i & 1) for i in (0, 7, 4, 2, 1, 3)]
    flat = [np.broadcast_to(255 * np.array(c[: case.shape[2]]), case.shape) for c in corners]
    return of_classes(np.stack([*flat, board, 255 - board]).astype(np.uint8), case)


def alone(case):
    """Two records, each alone in its class."""
    return of_classes(extremes(case).values[-2:], case)


def others_of(case, name):
    found = {"extremes": extremes(case), "alone": alone(case)}
    return found | ({"many": case.records(1_000, seed=5)} if name in QUICK else {})


def differences(case, records, others, folder):
    """For which other records a query or the release is not what it was, given the answers."""
    needed(case)
    answers = {}
    first, found = case.run(records, folder, answers), []
    for name, other in others.items():
        try:
            again = case.run(other, folder, answers)
        except Diverged as stage:
            found.append(f"{name}: what is asked as {stage}")
            continue
        if again.notes.asked != first.notes.asked:
            found.append(f"{name}: what is asked")
        elif not again.same_bits(first):
            found.append(f"{name}: the release")
    return found


@pytest.mark.parametrize("name", OFTEN)
def test_other_records_change_nothing_given_the_same_answers(name, tmp_path):
    case = ALL[name]
    assert differences(case, case.records(65), others_of(case, name), tmp_path) == []


def clear(case, count, folder):
    """The same where answers are clear and say that there are many records."""
    case = replace(case, epsilon=2_000.0)
    others = {"extremes": extremes(case), "alone": alone(case), "some": case.records(65)}
    return differences(case, case.records(count, seed=5), others, folder)


@pytest.mark.parametrize("name", QUICK)
def test_nor_beyond_the_thresholds_on_what_was_released(name, tmp_path):
    """Of the covariance, the clusters, the dimensions and the axes that are kept."""
    assert clear(ALL[name], 3_000, tmp_path) == []


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(ALL.keys() - set(QUICK)))
def test_nor_there_with_models_that_take_longer(name, tmp_path):
    assert clear(ALL[name], 600, tmp_path) == []


def test_nor_with_a_grid_of_latents(onnx_cases, tmp_path):
    for case in onnx_cases.values():
        assert differences(case, case.records(65), others_of(case, "grid"), tmp_path) == []
        assert clear(case, 600, tmp_path) == []


@pytest.mark.parametrize("name", [*QUICK, "clustering, energies", "labelling, dct"])
def test_every_answer_carries_its_noise_that_of_one_number_too(name, tmp_path):
    case = ALL[name]
    assert noiseless(case.run(case.records(65), tmp_path, {}).notes) == []


def noiseless(notes):
    """The stages whose answers lack noise, or have the same noise twice."""
    found = []
    for stage, answer in notes.answers.items():
        noise = ((answer - notes.sums[stage] * notes.grids[stage]) / notes.sigmas[stage]).ravel()
        low, high = stats.chi2.ppf([5e-10, 1 - 5e-10], noise.size)
        # Off the diagonal of a matrix the noise is smaller by sqrt(2).
        if not low / 2 < noise @ noise < high or len(np.unique(noise)) < noise.size - 2:
            found.append(stage)
    return found


# Each of these faults was planted, and no test saw it: so they are planted here for ever.


def exactly(monkeypatch, stage):
    """One stage answers without noise."""
    plain = Notes.release

    def release(notes, query, name, total):
        answer = plain(notes, query, name, total)
        return notes.sums[name] * notes.grids[name] if name == stage else answer

    monkeypatch.setattr(Notes, "release", release)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("clustering, dct to images", marks=pytest.mark.slow),
        pytest.param("clustering, embeddings", marks=pytest.mark.slow),
        "clustering, unlabelled embeddings",
        pytest.param("alignment, dct to images", marks=pytest.mark.slow),
        "selection, embeddings",
        pytest.param("selection, embeddings, by moments", marks=pytest.mark.slow),
    ],
)
def test_an_exact_answer_in_any_stage_is_seen(name, tmp_path, monkeypatch):
    """At a budget where noise drowns it, or at one where every answer counts."""
    unseen = set(planned := ALL[name].run(ALL[name].records(65), tmp_path, {}).notes.answers)
    for epsilon in (1.0, 2_000.0):
        case = replace(ALL[name], epsilon=epsilon)
        for stage in [stage for stage in planned if stage in unseen]:
            with monkeypatch.context() as patch:
                exactly(patch, stage)
                others = {"extremes": extremes(case), "alone": alone(case)}
                if differences(case, case.records(65), others, tmp_path):
                    unseen.discard(stage)
    assert unseen == set()


def embedded(vault):
    """What no method may look at: the private records of a vault."""
    blocks = vault._inside.rows[vault._position].blocks()
    return np.concatenate([vault._views(values) for values, _, _ in blocks])


def longest(plain):
    """A clipping radius that is the exact maximum."""

    def scale(vault, centre, edges, level, stage):
        plain(vault, centre, edges, level, stage)
        return float(np.linalg.norm(embedded(vault) - centre, axis=1).max())

    return scale


def counted(plain):
    """The exact number of records decides at the threshold of the dimensions."""
    return lambda mu, size, classes: plain(mu, float(COUNT[0]), classes)


def led(plain):
    """The exact number of records decides how many directions a covariance has."""
    return lambda size, most: 1 if COUNT[0] < 100 else plain(size, most)


def grey(plain):
    """Whether the images have colour is looked up."""

    def sizes(vault, centre, layout, size, stage):
        answer = plain(vault, centre, layout, size, stage)
        images = next(iter(vault._inside.source.batches(1_000))).values
        return np.where(np.ptp(images, axis=3).any(), np.maximum(answer, 1.0), 0 * answer + 1e-3)

    return sizes


def present(plain):
    """A class without a record is left out."""

    def class_sizes(vault, classes, dim, stage):
        sizes, deviation = plain(vault, classes, dim, stage)
        labels = next(iter(vault._inside.source.batches(10_000))).labels
        return np.where(np.bincount(labels, minlength=classes) > 1, sizes, 1.0), deviation

    return class_sizes


def clusters(plain):
    """Exact class sizes decide how many clusters a class is divided into."""

    def of_classes(vault, frame, start, sizes, number, stages, rng):
        labels = next(iter(vault._inside.source.batches(10_000))).labels
        number = number if np.bincount(labels).min() > 5 else 1
        return plain(vault, frame, start, sizes, number, stages, rng)

    return of_classes


def first_record(plain):
    """The seed is one of the records."""

    def draw(sampler, materials, fitted):
        record = next(iter(materials.vault._inside.source.batches(1))).values
        return plain(sampler, replace(materials, seed=int(record.sum())), fitted)

    return draw


COUNT = [0]
PLANTS = {
    "the longest record is the clipping radius": (
        "clustering, embeddings",
        embedding_space,
        "_scale",
        longest,
    ),
    "the exact number decides the dimensions": (
        "clustering, energies",
        tied_gaussian,
        "dimensions",
        counted,
    ),
    "colour is looked up": ("clustering, energies", tied_gaussian, "_block_sizes", grey),
    "classes without records are left out": (
        "clustering, dct to images",
        dp_estimators,
        "class_sizes",
        present,
    ),
    "exact class sizes divide classes": (
        "clustering, dct to images",
        dp_estimators,
        "clusters_of_classes",
        clusters,
    ),
    "the seed is a record": ("clustering, dct to images", MixtureSampler, "draw", first_record),
}


def count_records(monkeypatch):
    """`COUNT` holds the exact number of records of the run that is carried out."""
    run = Case.run

    def counting(case, records, *more):
        COUNT[0] = len(records)
        return run(case, records, *more)

    monkeypatch.setattr(Case, "run", counting)


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_fault_is_seen(plant, tmp_path, monkeypatch):
    name, module, attribute, change = PLANTS[plant]
    # Where clusters are clear, and the dimensions neither the least nor the most.
    case = replace(ALL[name], mu=9.0, epsilon=100.0)
    monkeypatch.setattr(module, attribute, change(getattr(module, attribute)))
    count_records(monkeypatch)
    records = case.records(65)
    others = {"extremes": extremes(case), "alone": alone(case)}
    assert differences(case, records, others, tmp_path)


def test_a_covariance_whose_threshold_is_an_exact_number_is_seen(onnx_cases, tmp_path, monkeypatch):
    monkeypatch.setattr(covariance, "leading_directions", led(covariance.leading_directions))
    (case,) = onnx_cases.values()
    count_records(monkeypatch)
    case = replace(case, epsilon=2_000.0)
    assert differences(case, case.records(600, seed=5), {"alone": alone(case)}, tmp_path)


def test_a_single_number_without_noise_is_seen(tmp_path, monkeypatch):
    plain = account._add_noise
    monkeypatch.setattr(
        account,
        "_add_noise",
        lambda exact, query, scale: exact if query.size == 1 else plain(exact, query, scale),
    )
    case = ALL["clustering, unlabelled embeddings"]
    assert "class sizes" in noiseless(case.run(case.records(65), tmp_path, {}).notes)


@pytest.mark.parametrize("factor", [0.01, 0.5, 2.0])
def test_noise_of_another_scale_is_seen(factor, tmp_path, monkeypatch):
    plain = account._add_noise

    def scaled(exact, query, scale):
        added = plain(exact, query, scale) - exact
        return exact + np.round(factor * added).astype(np.int64)

    monkeypatch.setattr(account, "_add_noise", scaled)
    case = ALL["clustering, embeddings"]
    assert noiseless(case.run(case.records(65), tmp_path, {}).notes)
