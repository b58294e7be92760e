"""The network that is trained: its weights are a vector, and a record's gradient is its own."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from understudy.backends.registry import load_model  # noqa: E402
from understudy.core.errors import BackendError  # noqa: E402
from understudy.core.ports import Denoiser  # noqa: E402

SHAPE, CLASSES, RECORDS, DRAWS = (8, 12, 3), 4, 5, 3
NAME = "embedded:denoiser?width=8&depth=1"

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def denoiser():
    return load_model(Denoiser, NAME)


@pytest.fixture
def trained(denoiser):
    """Weights by which every layer has a part in the answer."""
    weights = denoiser.initial(SHAPE, CLASSES, seed=0)
    return weights + np.random.default_rng(0).normal(0, 0.2, len(weights)).astype(np.float32)


def asked(seed=0):
    rng = np.random.default_rng(seed)
    pairs = rng.normal(size=(RECORDS, DRAWS, 2, *SHAPE)).astype(np.float32)
    levels = rng.normal(size=(RECORDS, DRAWS)).astype(np.float32)
    labels = rng.integers(0, CLASSES, RECORDS)
    targets = rng.normal(size=(RECORDS, DRAWS, *SHAPE)).astype(np.float32)
    return pairs, levels, labels, targets


def error(denoiser, weights, record):
    """The mean squared error of one record."""
    pairs, levels, labels, targets = (part[record] for part in asked())
    images = denoiser.predict(weights, pairs, levels, np.repeat(labels, DRAWS))
    return float(np.square(images.astype(np.float64) - targets).mean())


def test_untrained_it_answers_zero_and_asks_no_global_seed(denoiser):
    weights = denoiser.initial(SHAPE, CLASSES, seed=0)
    torch.manual_seed(1)
    assert np.array_equal(weights, denoiser.initial(SHAPE, CLASSES, seed=0))
    assert not np.array_equal(weights, denoiser.initial(SHAPE, CLASSES, seed=1))
    pairs, levels, labels, _ = asked()
    assert not denoiser.predict(weights, pairs[:, 0], levels[:, 0], labels).any()


def test_a_gradient_is_that_of_the_records_error(denoiser, trained):
    gradients = denoiser.gradients(trained, *asked(), len(trained))
    assert gradients.shape == (RECORDS, len(trained))
    rng = np.random.default_rng(1)
    direction = rng.normal(size=len(trained)).astype(np.float32)
    direction *= 1e-2 / np.linalg.norm(direction)
    for record in range(RECORDS):
        ahead, behind = (error(denoiser, trained + s * direction, record) for s in (1, -1))
        slope = float(gradients[record].astype(np.float64) @ direction)
        assert (ahead - behind) / 2 == pytest.approx(slope, rel=0.02, abs=1e-6)


def test_a_gradient_is_the_same_bits_beside_other_records_and_at_other_places(denoiser, trained):
    one = denoiser.gradients(trained, *asked(), len(trained))
    turned = denoiser.gradients(trained, *(part[::-1].copy() for part in asked()), len(trained))
    assert np.array_equal(one, turned[::-1])
    mixed = [np.concatenate([a[:1], b[1:]]) for a, b in zip(asked(), asked(9), strict=True)]
    assert np.array_equal(denoiser.gradients(trained, *mixed, len(trained))[0], one[0])


def test_the_weights_that_adapt_it_are_few_and_the_last(denoiser, trained):
    last = denoiser.adapted(SHAPE, CLASSES)
    assert 0 < last < len(trained) / 2
    whole = denoiser.gradients(trained, *asked(), len(trained))
    np.testing.assert_allclose(
        denoiser.gradients(trained, *asked(), last), whole[:, -last:], rtol=1e-4, atol=1e-7
    )


def test_a_class_has_its_own_answer(denoiser, trained):
    pairs, levels, _, _ = asked()
    images = [
        denoiser.predict(trained, pairs[:1, 0], levels[:1, 0], np.array([label]))
        for label in range(CLASSES)
    ]
    assert len({image.tobytes() for image in images}) == CLASSES


def test_its_name_loads_it_again_and_other_options_are_refused(denoiser):
    assert load_model(Denoiser, denoiser.name).name == denoiser.name == NAME
    with pytest.raises(BackendError, match="multiple of 8"):
        load_model(Denoiser, "embedded:denoiser?width=9")


def test_threads_side_by_side_give_the_gradients_of_one(denoiser, trained):
    """Without a lock more than half of these calls gave others, or ended with an error."""
    calls = [asked(seed) for seed in range(4)]
    expected = [denoiser.gradients(trained, *call, len(trained)) for call in calls]

    def same(number):
        gradients = (denoiser.gradients(trained, *calls[number], len(trained)) for _ in range(8))
        return [np.array_equal(one, expected[number]) for one in gradients]

    with ThreadPoolExecutor(len(calls)) as pool:
        assert all(map(all, pool.map(same, range(len(calls)))))
