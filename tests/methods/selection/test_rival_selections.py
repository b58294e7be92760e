"""Baselines of data selection: each takes what it says, a budget of each class."""

import dataclasses

import numpy as np
import pytest
from benchmarks.rival_selections import (
    BASELINES,
    LabelledFeatures,
    SelectionFacts,
    distances_among,
    masked,
    noisy_class_embeddings,
    tracin_scores,
    trained_attack_scores,
    without_duplicates,
)

from understudy.core.errors import ConfigError
from understudy.methods.selection.base import ProxySettings
from understudy.methods.selection.linear_proxy import cross_entropies
from understudy.methods.selection.penalties import Penalties, reconstruction_penalty
from understudy.methods.selection.reference import RecordReference

CLASSES, DIM = 3, 6
CENTRES = 2.0 * np.eye(CLASSES, DIM)


def clouds(rng: np.random.Generator, per_class: int, spread: float = 0.7) -> LabelledFeatures:
    labels = np.repeat(np.arange(CLASSES), per_class)
    return LabelledFeatures(CENTRES[labels] + rng.normal(0, spread, (len(labels), DIM)), labels)


@pytest.fixture
def facts() -> SelectionFacts:
    """Of each class 8 copies of private records, 8 others and 4 mislabelled ones, in this order."""
    rng = np.random.default_rng(0)
    private, non_members = clouds(rng, 10), clouds(rng, 10)
    features, labels, severity = [], [], []
    for label in range(CLASSES):
        own = private.features[private.labels == label]
        others = CENTRES[label] + rng.normal(0, 0.7, (8, DIM))
        wrong = CENTRES[(label + 1) % CLASSES] + rng.normal(0, 0.7, (4, DIM))
        features.append(np.concatenate([own[:8] + rng.normal(0, 0.01, (8, DIM)), others, wrong]))
        labels += [label] * 20
        severity += [1] * 8 + [0] * 8 + [2] * 4
    candidates = LabelledFeatures(np.concatenate(features), np.array(labels))

    def nearest(records: LabelledFeatures) -> np.ndarray:
        apart = candidates.features[:, None] - records.features[None]
        return np.asarray(np.linalg.norm(apart, axis=2).min(1))

    return SelectionFacts(
        candidates=candidates,
        budgets=np.array([8, 8, 8]),
        private=private,
        non_members=non_members,
        to_private=nearest(private),
        to_non_members=nearest(non_members),
        embeddings=candidates.features,
        severity=np.array(severity),
        settings=ProxySettings(steps=40, learning_rate=0.5),
    )


@pytest.mark.parametrize("name", sorted(set(BASELINES) - {"all"}))
def test_every_baseline_meets_the_budgets_and_repeats_itself(
    name: str, facts: SelectionFacts
) -> None:
    indices = BASELINES[name](facts)
    assert (np.diff(indices) > 0).all()
    assert np.bincount(facts.labels[indices], minlength=CLASSES).tolist() == [8, 8, 8]
    assert np.array_equal(indices, BASELINES[name](dataclasses.replace(facts)))


def test_all_candidates_are_all(facts: SelectionFacts) -> None:
    assert BASELINES["all"](facts).tolist() == list(range(60))


def test_another_seed_chooses_others_at_random(facts: SelectionFacts) -> None:
    indices = BASELINES["random"](facts)
    assert not np.array_equal(indices, BASELINES["random"](dataclasses.replace(facts, seed=1)))


def copies(facts: SelectionFacts, indices: np.ndarray) -> int:
    assert facts.severity is not None
    return int((facts.severity[indices] == 1).sum())


def test_the_filter_by_distance_leaves_no_copies_and_as_written_nothing_else(
    facts: SelectionFacts,
) -> None:
    assert copies(facts, BASELINES["distance"](facts)) == 0
    assert copies(facts, BASELINES["distance, as written"](facts)) == 24


def test_the_filter_by_model_gap_takes_the_candidates_with_the_least_gap(
    facts: SelectionFacts,
) -> None:
    def gap(records: LabelledFeatures) -> np.ndarray:
        """Loss of the candidates by gradient descent on the records, in a few lines of its own."""
        weights = np.zeros((DIM + 1, CLASSES))
        x = np.hstack([records.features, np.ones((len(records.labels), 1))])
        for _ in range(40):
            p = np.exp(x @ weights)
            p /= p.sum(1, keepdims=True)
            slope = x.T @ (p - np.eye(CLASSES)[records.labels]) / len(x)
            weights -= 0.5 * (slope + facts.settings.weight_decay * weights)
        return cross_entropies(facts.candidates.features, facts.candidates.labels, weights)

    gaps = gap(facts.non_members) - gap(facts.private)
    indices = BASELINES["model gap"](facts)
    for label in range(CLASSES):
        rows = np.flatnonzero(facts.labels == label)
        least = rows[np.argsort(gaps[rows])[:8]]
        assert set(least) == set(indices[facts.labels[indices] == label])
    as_written = BASELINES["model gap, as written"](facts)
    assert gaps[indices].mean() < 0 < gaps[as_written].mean()


def test_a_trained_attack_finds_what_a_model_learnt_by_heart(facts: SelectionFacts) -> None:
    """Labels by chance: only a model that was trained on a record knows its label."""
    rng = np.random.default_rng(3)

    def strangers(count: int) -> LabelledFeatures:
        return LabelledFeatures(rng.normal(size=(count, 60)), rng.integers(0, CLASSES, count))

    private, others, unknown = strangers(60), strangers(120), strangers(30)
    features = np.concatenate([private.features[:30], unknown.features])
    candidates = LabelledFeatures(features, np.concatenate([private.labels[:30], unknown.labels]))
    known = dataclasses.replace(
        facts, candidates=candidates, private=private, non_members=others, budgets=np.full(3, 8)
    )
    scores = trained_attack_scores(known)
    copied, new = scores[:30], scores[30:]
    assert (copied[:, None] > new).mean() > 0.8  # one label in three is right by chance
    kept = BASELINES["trained attack"](known)
    assert (kept < 30).mean() < (BASELINES["random"](known) < 30).mean()


@pytest.mark.parametrize(("name", "worst"), [("low loss", 1), ("oracle", 0)])
def test_low_loss_takes_nothing_mislabelled_and_the_oracle_what_does_no_harm(
    facts: SelectionFacts, name: str, worst: int
) -> None:
    assert facts.severity is not None
    assert facts.severity[BASELINES[name](facts)].max() == worst


def test_the_oracle_needs_the_truth(facts: SelectionFacts) -> None:
    with pytest.raises(ConfigError, match="needs the truth"):
        BASELINES["oracle"](dataclasses.replace(facts, severity=None))


def test_tracin_is_the_sum_of_products_of_gradients(facts: SelectionFacts) -> None:
    settings = ProxySettings(steps=8, learning_rate=0.5)
    facts = dataclasses.replace(facts, settings=settings)
    reference = RecordReference.of(facts.private.features, facts.private.labels)
    proxy = facts.proxy(facts.candidates, len(facts.labels))
    scores = tracin_scores(facts)
    for row in (0, 17, 33):
        one = RecordReference.of(facts.candidates.features[[row]], facts.labels[[row]])
        states = proxy.checkpoints(np.ones(60), range(1, 9))
        products = [float((reference.gradient(w) * one.gradient(w)).sum()) for w in states]
        assert scores[row] == pytest.approx(sum(products))


def test_the_selection_is_one_of_them_and_its_penalty_keeps_copies_out(
    facts: SelectionFacts,
) -> None:
    free = copies(facts, BASELINES["selection"](facts))
    penalties = Penalties(
        reconstruction_penalty(facts.to_private, facts.to_non_members), reconstruction_weight=2.0
    )
    held = copies(facts, BASELINES["selection"](dataclasses.replace(facts, penalties=penalties)))
    assert held < free


def test_of_each_most_similar_pair_the_later_image_goes() -> None:
    points = np.array([[0.0], [10.0], [0.1], [10.3], [20.0]])
    distances = distances_among(points)
    assert distances[0, 2] == pytest.approx(0.1)
    assert without_duplicates(distances, 4).tolist() == [0, 1, 3, 4]
    assert without_duplicates(distances, 3).tolist() == [0, 1, 4]
    assert without_duplicates(distances, 1).tolist() == [0]
    assert without_duplicates(distances, 0).tolist() == []


def test_masking_blackens_so_many_blocks_of_each_image() -> None:
    images = np.full((3, 16, 24, 3), 200, np.uint8)
    result = masked(images, 20, seed=1)
    blocks = result.reshape(3, 8, 2, 8, 3, 3).transpose(0, 1, 3, 2, 4, 5).reshape(3, 64, -1)
    assert ((blocks == 0).all(2).sum(1) == 20).all()
    assert ((blocks == 200).all(2).sum(1) == 44).all()
    assert not np.array_equal(result[0], result[1])
    assert (masked(images, 64) == 0).all()
    assert np.array_equal(masked(images, 0), images)


def test_noise_on_class_embeddings_has_the_deviation_asked_for() -> None:
    embeddings = np.random.default_rng(0).normal(0, 3.0, (40, 500))
    noise = noisy_class_embeddings(embeddings, 0.5, seed=1) - embeddings
    assert noise.std() == pytest.approx(1.5, rel=0.03)
    assert np.array_equal(noisy_class_embeddings(embeddings, 0.0), embeddings.astype(np.float32))
