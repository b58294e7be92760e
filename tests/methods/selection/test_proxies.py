"""States, costates and scores against central differences."""

import numpy as np
import pytest

from understudy.methods.selection.base import ProxySettings
from understudy.methods.selection.linear_proxy import LinearProxy, cross_entropies
from understudy.methods.selection.reference import RecordReference

CANDIDATES, DIM, CLASSES, NORM = 40, 5, 3, 20.0
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(CANDIDATES, DIM))
LABELS = RNG.integers(0, CLASSES, CANDIDATES)
GAMMA = RNG.uniform(0.1, 1.0, CANDIDATES)  # uneven
REFERENCE = RecordReference.of(
    RNG.normal(size=(30, DIM)), RNG.integers(0, CLASSES, 30), balanced=True
)


def reference_loss(theta):
    return REFERENCE.weights @ cross_entropies(REFERENCE.features, REFERENCE.labels, theta)


def settings(utility="final", **more):
    return ProxySettings(
        **{"steps": 23, "learning_rate": 0.7, "weight_decay": 0.03, "utility": utility} | more
    )


def linear_losses(gamma):
    """The reference loss at theta_1 to theta_T, by a training that is written out."""
    values, one_hot = np.c_[FEATURES, np.ones(CANDIDATES)], np.eye(CLASSES)[LABELS]
    theta, losses = np.zeros((DIM + 1, CLASSES)), []
    for _ in range(settings().steps):
        logits = values @ theta
        residuals = np.exp(logits) / np.exp(logits).sum(1, keepdims=True) - one_hot
        gradient = values.T @ (gamma[:, None] * residuals) / NORM + 0.03 * theta
        theta = theta - 0.7 * gradient
        losses.append(reference_loss(theta))
    return losses


@pytest.mark.parametrize("utility", ["area", "final"])
def test_a_score_is_minus_the_derivative_of_the_reference_loss(utility):
    proxy = LinearProxy(FEATURES, LABELS, CLASSES, NORM, settings(utility))
    scores = proxy.scores(GAMMA, REFERENCE).scores
    total = sum if utility == "area" else lambda values: values[-1]
    step = 1e-5
    for index in range(0, CANDIDATES, 6):
        up, down = GAMMA.copy(), GAMMA.copy()
        up[index] += step
        down[index] -= step
        difference = (total(linear_losses(up)) - total(linear_losses(down))) / (2 * step)
        error = abs(-0.7 / NORM * scores[index] - difference)
        assert error <= 1e-6 * 0.7 / NORM * np.abs(scores).max()


def test_a_gradient_is_the_derivative_of_the_loss():
    theta = RNG.normal(size=(DIM + 1, CLASSES))
    gradient = REFERENCE.gradient(theta)
    for index in ((0, 0), (DIM, 1), (2, 2)):
        up, down = theta.copy(), theta.copy()
        up[index] += 1e-6
        down[index] -= 1e-6
        difference = (reference_loss(up) - reference_loss(down)) / 2e-6
        assert gradient[index] == pytest.approx(difference, rel=1e-6)
