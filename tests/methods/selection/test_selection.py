"""The fixed point, its warnings, and the method under differential privacy."""

import numpy as np
import pytest
from tests.methods.exact_vault import ExactVault
from tests.run.samples import class_folders, embeddings

from understudy import synthesize
from understudy.core.errors import ConfigError, SourceError
from understudy.core.types import Stage
from understudy.data import open_source
from understudy.data.captions import with_captions
from understudy.methods.base import Context
from understudy.methods.selection.algorithm import METHOD, SelectionParams, select_candidates
from understudy.methods.selection.arithmetic import class_budgets
from understudy.methods.selection.base import ProxySettings
from understudy.methods.selection.linear_proxy import LinearProxy
from understudy.methods.selection.penalties import Penalties
from understudy.methods.selection.reference import (
    GradientReference,
    MomentStages,
    RecordReference,
    moment_reference,
)
from understudy.privacy.ledger.ledger import Ledger
from understudy.privacy.queries import ClippedGradients

CLASSES, DIM = 3, 6
MEANS = 1.5 * np.random.default_rng(7).normal(size=(CLASSES, DIM))


def clouds(count, seed, mislabelled=0.0):
    """Embeddings about the means of their classes, labels, and which of those are wrong."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, CLASSES, count)
    features = (MEANS[labels] + rng.normal(size=(count, DIM))).astype(np.float32)
    wrong = rng.random(count) < mislabelled
    labels = np.where(wrong, (labels + rng.integers(1, CLASSES, count)) % CLASSES, labels)
    return features, labels, wrong


FEATURES, LABELS, WRONG = clouds(300, 0, mislabelled=0.4)
BUDGETS = class_budgets(LABELS, CLASSES, 0.3)
REFERENCE = RecordReference.of(*clouds(200, 1)[:2])


def proxy(**more):
    settings = {"steps": 60, "learning_rate": 1.0, "weight_decay": 0.03} | more
    return LinearProxy(FEATURES, LABELS, CLASSES, float(BUDGETS.sum()), ProxySettings(**settings))


@pytest.mark.parametrize("utility", ["final", "area"])
def test_wrong_labels_are_left_out(utility):
    result = select_candidates(proxy(utility=utility), LABELS, BUDGETS, REFERENCE)
    assert WRONG[result.indices].mean() < 0.1 < WRONG.mean()
    assert np.bincount(LABELS[result.indices]).tolist() == BUDGETS.tolist()
    assert result.warnings == ()
    assert result.facts["selected"] == BUDGETS.sum()


def test_the_scale_of_the_reference_loss_changes_nothing():
    once = select_candidates(proxy(), LABELS, BUDGETS, REFERENCE)
    larger = RecordReference(REFERENCE.features, REFERENCE.labels, 2.0**12 * REFERENCE.weights)
    again = select_candidates(proxy(), LABELS, BUDGETS, larger)
    np.testing.assert_array_equal(once.indices, again.indices)


def test_a_penalty_keeps_a_candidate_out():
    plain = select_candidates(proxy(), LABELS, BUDGETS, REFERENCE)
    penalty = np.zeros(len(LABELS))
    penalty[plain.indices[:10]] = 4.0
    result = select_candidates(
        proxy(), LABELS, BUDGETS, REFERENCE, penalties=Penalties(reconstruction=penalty)
    )
    assert not np.isin(plain.indices[:10], result.indices).any()
    assert result.warnings == ()


@pytest.mark.parametrize(
    ("settings", "penalty", "words"),
    [
        ({}, 4.0, "penalised the most"),  # the pool runs dry
        ({"steps": 5, "learning_rate": 0.01}, 0.0, "still falling"),  # the proxy still learns
    ],
)
def test_what_went_short_is_told(settings, penalty, words):
    penalties = Penalties(reconstruction=np.full(len(LABELS), penalty))
    result = select_candidates(proxy(**settings), LABELS, BUDGETS, REFERENCE, penalties=penalties)
    assert any(words in warning for warning in result.warnings)


def test_classes_that_run_short_are_told():
    labels = np.r_[LABELS, 3]
    budgets = np.r_[BUDGETS, 1, 0]
    features = np.r_[FEATURES, FEATURES[:1]]
    short = LinearProxy(features, labels, 5, float(budgets.sum()), ProxySettings(learning_rate=1.0))
    names = ("ant", "bee", "cat", "dog", "eel")
    result = select_candidates(short, labels, budgets, REFERENCE_OF_FIVE, class_names=names)
    assert any("no candidate is of class eel" in warning for warning in result.warnings)
    assert any("of class dog" in warning for warning in result.warnings)


REFERENCE_OF_FIVE = RecordReference.of(REFERENCE.features, REFERENCE.labels)


def test_a_training_that_diverges_is_refused():
    for diverging in ({"learning_rate": 1e30}, {"weight_decay": 1e30}):  # and nothing is warned of
        with pytest.raises(ConfigError, match="smaller learning_rate or weight_decay"):
            select_candidates(proxy(**diverging), LABELS, BUDGETS, REFERENCE)
        assert not np.isfinite(proxy(**diverging).final_state(np.ones(len(LABELS)))).all()


def test_an_interrupted_selection_ends_the_same():
    whole = select_candidates(proxy(), LABELS, BUDGETS, REFERENCE)
    stored = {}

    def keep(name, make):
        if name not in stored:
            if len(stored) == 3 and not interrupted:
                interrupted.append(name)
                raise KeyboardInterrupt
            stored[name] = make()
        return stored[name]

    interrupted = []
    with pytest.raises(KeyboardInterrupt):
        select_candidates(proxy(), LABELS, BUDGETS, REFERENCE, keep=keep)
    again = select_candidates(proxy(), LABELS, BUDGETS, REFERENCE, keep=keep)
    np.testing.assert_array_equal(again.indices, whole.indices)
    np.testing.assert_array_equal(again.gamma, whole.gamma)
    assert len(stored) == 8


# Private references.


def test_gradients_that_no_record_is_clipped_in_are_those_of_the_loss():
    theta = np.random.default_rng(3).normal(size=(DIM + 1, CLASSES))
    records = clouds(80, 4)[:2]
    query = ClippedGradients(theta, 1e3)
    answer = query.gradient(ExactVault(*records).release(query, stage=""))
    expected = len(records[1]) * RecordReference.of(*records).gradient(theta)
    np.testing.assert_allclose(answer, expected, atol=1e-3)


def test_a_gradient_is_scaled_to_its_clipping_norm():
    theta = np.zeros((DIM + 1, CLASSES))
    record = (np.full((1, DIM), 100.0, np.float32), np.array([1]))
    query = ClippedGradients(theta, 0.7)
    answer = query.gradient(ExactVault(*record).release(query, stage=""))
    whole = RecordReference.of(*record).gradient(theta)
    assert np.linalg.norm(answer) == pytest.approx(0.7, abs=1e-4)
    np.testing.assert_allclose(answer, 0.7 * whole / np.linalg.norm(whole), atol=1e-4)


def test_every_round_is_a_release_at_weights_that_are_stored():
    vault, stored = ExactVault(*clouds(200, 1)[:2]), {}

    def keep(name, make):
        return stored.setdefault(name, make())

    stages = tuple(Stage(f"gradient {number}", 1.0) for number in (1, 2, 3))
    reference = GradientReference(vault, stages, 2.0, keep)
    result = select_candidates(proxy(), LABELS, BUDGETS, reference, rounds=3)
    assert [stage for stage, _ in vault.asked] == ["gradient 1", "gradient 2", "gradient 3"]
    thetas = [query.theta for _, query in vault.asked]
    for one, two in zip(stored.values(), thetas, strict=True):
        np.testing.assert_array_equal(one["theta"], two)
    assert WRONG[result.indices].mean() < WRONG.mean()
    # A resumed run asks at the stored weights, whatever rounding makes of them now.
    again = GradientReference(vault, stages, 2.0, keep)
    again.gradient(np.nextafter(thetas[0], np.inf))
    assert vault.asked[-1][1].fingerprint() == vault.asked[0][1].fingerprint()


def test_pseudo_records_have_the_moments_of_the_private_records():
    features, labels, _ = clouds(3000, 5)
    mixed = np.random.default_rng(0).normal(size=(DIM, DIM)) / 2
    features = (MEANS[labels] + (features - MEANS[labels]) @ mixed).astype(np.float32)
    vault = ExactVault(features, labels)
    reference = moment_reference(
        vault,
        FEATURES * 3,  # far wider, so that nothing is clipped
        LABELS,
        CLASSES,
        MomentStages(Stage("means", 2.0), None, Stage("covariance", 1.0)),
        np.random.default_rng(0),
    )
    for label in range(CLASSES):
        mine = reference.labels == label
        np.testing.assert_allclose(
            reference.features[mine].mean(0), features[labels == label].mean(0), atol=0.4
        )
    assert reference.weights.sum() == pytest.approx(1)
    spread = np.cov(reference.features[reference.labels == 0].T)
    np.testing.assert_allclose(spread, mixed.T @ mixed, atol=0.4)


# Whole runs.


def options(tmp_path, **more):
    source = embeddings(tmp_path / "private.npz")
    candidates = embeddings(tmp_path / "candidates.npz", seed=3)
    return {
        "source": source,
        "method": "selection",
        "candidates": str(candidates),
        "candidates_public": True,
        "ledger": str(tmp_path / "ledger.db"),
        "out": tmp_path / "out",
        "epsilon": 4.0,
        "settings": {"rounds": 2, "steps": 20},
        "progress": "none",
    } | more


def check_refused(tmp_path, match, error=ConfigError, **more):
    with pytest.raises(error, match=match):
        synthesize(**options(tmp_path, **more))
    assert not (tmp_path / "ledger.db").exists()


@pytest.mark.parametrize(
    ("words", "changes"),
    [
        ("reconstruction must be 0", {"settings": {"reconstruction": 1.0}}),  # no DP penalty
        ("membership must be 0", {"settings": {"membership": 1.0}}),
        ("take utility=final", {"settings": {"utility": "area"}}),  # a gradient at every step
        ("give --candidates", {"candidates": None}),
        ("one class", {"label": "none"}),
        ("no use for --candidates", {"method": "clustering", "settings": {}}),
    ],
)
def test_what_does_not_go_together_is_refused(tmp_path, words, changes):
    check_refused(tmp_path, words, **changes)


def test_moments_of_candidates_that_are_all_alike_are_refused_unpaid(tmp_path):
    """One candidate of each class, or several alike, ended in a division by zero."""
    labels = np.array(["cat", "dog", "eel"])
    np.savez(tmp_path / "few.npz", embeddings=np.eye(3, 6, dtype=np.float32), labels=labels)
    settings = {"reference": "moments", "keep": 1.0}
    with pytest.raises(ConfigError, match="all alike"):
        synthesize(**options(tmp_path, candidates=str(tmp_path / "few.npz"), settings=settings))
    with Ledger(str(tmp_path / "ledger.db")) as ledger:
        assert [ledger.spent(one.id).events for one in ledger.datasets()] == [0]


def test_candidates_of_other_classes_are_refused_by_name(tmp_path):
    with np.load(embeddings(tmp_path / "others.npz"), allow_pickle=False) as archive:
        labels = np.char.replace(archive["labels"], "cat", "yak")
        np.savez(tmp_path / "others.npz", embeddings=archive["embeddings"], labels=labels)
    others = str(tmp_path / "others.npz")
    check_refused(tmp_path, "yak", SourceError, candidates=others)


def test_candidates_without_labels_or_of_another_length_are_refused(tmp_path):
    np.savez(tmp_path / "bare.npz", embeddings=np.ones((9, 6), np.float32))
    check_refused(tmp_path, "no labels", SourceError, candidates=str(tmp_path / "bare.npz"))
    others = str(embeddings(tmp_path / "others.npz", dim=4))
    check_refused(tmp_path, "embeddings of 4 numbers", SourceError, candidates=others)


@pytest.mark.parametrize(
    ("changes", "words", "unwritten"),
    [
        ({"count": 181}, "more than the 180 candidates", "*.npz"),
        ({"count": 1}, "1 samples for 3 classes", "*.npz"),  # one sample, and no share of all
    ],
)
def test_what_is_refused_before_anything_is_paid(tmp_path, changes, words, unwritten):
    with pytest.raises(ConfigError, match=words), np.errstate(all="ignore"):
        synthesize(**options(tmp_path, **changes))
    assert not list((tmp_path / "out").rglob(unwritten))


@pytest.mark.parametrize(
    "values", [{"keep": 0}, {"rounds": 0}, {"axes": 0}, {"weight_decay": -1}, {"clip_norm": 0}]
)
def test_values_out_of_range_are_refused(values):
    with pytest.raises(ConfigError, match=next(iter(values))):
        SelectionParams(**values)


def test_candidates_are_released_as_they_are(tmp_path):
    """Images of another size and colour than the private ones, by class folders, in order."""
    source = class_folders(tmp_path / "scans", {"cat": 30, "dog": 30}, (8, 8, 1))
    folder = class_folders(tmp_path / "drawn", {"cat": 20, "dog": 20}, (10, 12, 3), seed=1)
    result = synthesize(**options(tmp_path, source=source, candidates=str(folder), count=16))
    candidates, release = (next(open_source(name).batches(99)) for name in (folder, result.release))
    assert release.values.shape == (16, 10, 12, 3)
    assert np.bincount(release.labels).tolist() == [8, 8]
    numbers = [
        next(i for i, other in enumerate(candidates.values) if np.array_equal(image, other))
        for image in release.values
    ]
    assert (np.diff(numbers) > 0).all()
    np.testing.assert_array_equal(candidates.labels[numbers], release.labels)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["png", "parquet"])
def test_captions_stay_with_their_images(tmp_path, format):
    """A release with captions, read as candidates, and what is selected of it."""
    from understudy.core.types import Release, SyntheticBatch
    from understudy.data import write_release

    rng = np.random.default_rng(0)
    labels = np.arange(40) % 2
    images = rng.integers(0, 256, (40, 6, 6, 1), dtype=np.uint8)
    captions = [f"number {number}" for number in range(40)]
    batch = SyntheticBatch(labels, images=images, captions=captions)
    release = Release(
        "drawn", ("cat", "dog"), 40, lambda: iter([batch]), None, (6, 6, 1), {}, captioned=True
    )
    write_release(release, tmp_path / "drawn" / "release", format=format)
    caption_of = {image.tobytes(): text for image, text in zip(images, captions, strict=True)}
    source = class_folders(tmp_path / "scans", {"cat": 30, "dog": 30}, (8, 8, 1))
    given = options(tmp_path, source=source, candidates=str(tmp_path / "drawn"), format=format)
    result = synthesize(**given)
    selected = with_captions(open_source(result.release))
    assert len(selected) == len(selected.captions) == 8
    for image, text in zip(next(selected.batches(99)).values, selected.captions, strict=True):
        assert caption_of[image.tobytes()] == text


def test_the_owner_is_told_what_is_wrong(tmp_path):
    result = synthesize(**options(tmp_path, settings={"rounds": 2, "steps": 2, "keep": 6}))
    assert any("still falling" in warning for warning in result.warnings)
    assert any("fewer than 5 samples" in warning for warning in result.warnings)


def test_what_is_left_open_is_settled_by_public_facts():
    settled = METHOD.settle(SelectionParams(), context(dim=10))
    assert settled.axes == 10
    assert settled.clip_norm == pytest.approx(np.sqrt(11) / 2)
    assert settled.reconstruction == 0


def test_images_need_an_encoder():
    with pytest.raises(ConfigError, match="--encoder"):
        METHOD.stages(SelectionParams(), context(shape=(8, 8, 1)))


def context(dim=10, shape=None):
    return Context(shape or (dim,), public=False, mu=0.3, classes=("cat", "dog"), candidates=True)
