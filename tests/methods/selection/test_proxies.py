"""States, costates and scores against central differences and against torch."""

import numpy as np
import pytest
from benchmarks.network_proxy import NetworkProxy

from understudy.core.errors import ConfigError
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


def linear(utility):
    return LinearProxy(FEATURES, LABELS, CLASSES, NORM, settings(utility))


def two_layers(utility):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(DIM, 7), torch.nn.Tanh(), torch.nn.Linear(7, CLASSES)
    )
    return NetworkProxy(network.double(), FEATURES, LABELS, NORM, settings(utility))


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


def network_losses(gamma):
    import torch

    def loss(network, values, labels, weights):
        losses = torch.nn.functional.cross_entropy(network(values), labels, reduction="none")
        return torch.as_tensor(weights) @ losses

    torch.manual_seed(0)
    network = torch.nn.Sequential(
        torch.nn.Linear(DIM, 7), torch.nn.Tanh(), torch.nn.Linear(7, CLASSES)
    ).double()
    values, labels = torch.as_tensor(FEATURES), torch.as_tensor(LABELS)
    others, other_labels = torch.as_tensor(REFERENCE.features), torch.as_tensor(REFERENCE.labels)
    descent = torch.optim.SGD(network.parameters(), lr=0.7, weight_decay=0.03)
    losses = []
    for _ in range(settings().steps):
        descent.zero_grad()
        (loss(network, values, labels, gamma) / NORM).backward()
        descent.step()
        with torch.no_grad():
            losses.append(float(loss(network, others, other_labels, REFERENCE.weights)))
    return losses


@pytest.mark.parametrize(
    ("proxy", "losses", "utility"),
    [(linear, linear_losses, "area"), (two_layers, network_losses, "final")],
)
def test_a_score_is_minus_the_derivative_of_the_reference_loss(proxy, losses, utility):
    scores = proxy(utility).scores(GAMMA, REFERENCE).scores
    total = sum if utility == "area" else lambda values: values[-1]
    step = 1e-5
    for index in range(0, CANDIDATES, 6):
        up, down = GAMMA.copy(), GAMMA.copy()
        up[index] += step
        down[index] -= step
        difference = (total(losses(up)) - total(losses(down))) / (2 * step)
        error = abs(-0.7 / NORM * scores[index] - difference)
        assert error <= 1e-6 * 0.7 / NORM * np.abs(scores).max()


@pytest.mark.parametrize("utility", ["area", "final"])
def test_the_closed_form_is_what_torch_computes(utility):
    torch = pytest.importorskip("torch")
    features = FEATURES.astype(np.float32)
    reference = RecordReference(
        REFERENCE.features.astype(np.float32), REFERENCE.labels, REFERENCE.weights
    )
    network = torch.nn.Linear(DIM, CLASSES)
    torch.nn.init.zeros_(network.weight)
    torch.nn.init.zeros_(network.bias)
    closed = LinearProxy(features, LABELS, CLASSES, NORM, settings(utility))
    other = NetworkProxy(network, features, LABELS, NORM, settings(utility))
    one, two = (proxy.scores(GAMMA, reference) for proxy in (closed, other))
    np.testing.assert_allclose(one.scores, two.scores, atol=1e-5 * np.abs(two.scores).max())
    assert one.converged == two.converged


def test_layers_that_mix_samples_are_refused():
    torch = pytest.importorskip("torch")
    for layer in (torch.nn.BatchNorm1d(DIM), torch.nn.Dropout(0.1)):
        network = torch.nn.Sequential(layer, torch.nn.Linear(DIM, CLASSES))
        with pytest.raises(ConfigError, match=type(layer).__name__):
            NetworkProxy(network, FEATURES, LABELS, NORM, settings())


def test_a_network_refuses_answers_that_are_gradients_of_the_linear_proxy():
    torch = pytest.importorskip("torch")

    class Answers:
        def gradient(self, state):
            return state

    proxy = NetworkProxy(torch.nn.Linear(DIM, CLASSES), FEATURES, LABELS, NORM, settings())
    with pytest.raises(ConfigError, match="reference records"):
        proxy.scores(GAMMA, Answers())


def test_a_gradient_is_the_derivative_of_the_loss():
    theta = RNG.normal(size=(DIM + 1, CLASSES))
    gradient = REFERENCE.gradient(theta)
    for index in ((0, 0), (DIM, 1), (2, 2)):
        up, down = theta.copy(), theta.copy()
        up[index] += 1e-6
        down[index] -= 1e-6
        difference = (reference_loss(up) - reference_loss(down)) / 2e-6
        assert gradient[index] == pytest.approx(difference, rel=1e-6)
