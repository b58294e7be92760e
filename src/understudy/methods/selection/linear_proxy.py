"""States, costates and scores of a softmax regression in closed form (Theorem 1, Eq. 22)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Labels, Vector
from understudy.methods.selection.base import ProxySettings, Reference, RoundScores, converged
from understudy.steps.space import Space, signed_power, whitening

_AT_ONCE = 2048  # candidates of a block: its features and probabilities stay in the cache


@dataclass(frozen=True)
class LinearProxy:
    """Softmax regression on fixed features, trained on the weighted candidates.

    The training loss is L(theta, gamma) = sum_i gamma_i l_i(theta) / n + decay / 2 |theta|^2, with
    theta the (d + 1, C) weights, the last row for the intercept, and n the number of candidates
    that are selected in the end. theta_0 is zero. Work and memory: T states of C (d + 1) numbers
    are kept and nothing else that grows with T; candidates are worked on in blocks.

    Attributes:
        features: (M, d) of the candidates, float32 or float64; all else is computed in that type.
        labels: (M,) class of each.
        classes: C.
        norm: n.
        settings: T, eta, decay, and what is to be small.
    """

    features: NDArray[Any]
    labels: Labels
    classes: int
    norm: float
    settings: ProxySettings

    @np.errstate(over="ignore", invalid="ignore")  # who asks looks whether scores are finite
    def scores(self, gamma: Vector, reference: Reference) -> RoundScores:
        """One pass of Eq. 22: states forwards, costates backwards, a score for each candidate.

        The score of candidate i is sum over t = 0..T-1 of lambda_{t+1}' grad l_i(theta_t). It is
        -(n / eta) dJ / dgamma_i exactly, J being the reference loss at theta_T
        (``utility="final"``) or summed over theta_1 to theta_T (``"area"``): a candidate of high
        score lowers the loss.

        Args:
            gamma: (M,) weights.
            reference: Gives the gradient of the reference loss.
        """
        settings, weights = self.settings, gamma.astype(self.features.dtype)
        states, losses = self._states(weights)
        scores = np.zeros(len(self.features))
        costate = self._gradient(reference, states[-1])  # lambda_T
        for step in range(settings.steps - 1, -1, -1):
            product = settings.weight_decay * costate  # the Hessian times lambda_{t+1}
            for block, probabilities in self._probabilities(states[step]):
                slopes = self._logits(costate, block)
                mean = (probabilities * slopes).sum(0)
                scores[block] += mean - slopes[self.labels[block], np.arange(len(mean))]
                slopes -= mean
                slopes *= probabilities
                slopes *= weights[block] / self.norm
                product[:-1] += (slopes @ self.features[block]).T
                product[-1] += slopes.sum(1)
            costate = costate - settings.learning_rate * product
            if settings.utility == "area" and step > 0:
                costate = costate + self._gradient(reference, states[step])
        return RoundScores(scores, converged(losses))

    def final_state(self, gamma: Vector) -> Vector:
        """theta_T: (d + 1, C) float64."""
        return self.checkpoints(gamma, [self.settings.steps])[0]

    @np.errstate(over="ignore", invalid="ignore")
    def checkpoints(self, gamma: Vector, steps: Sequence[int]) -> list[Vector]:
        """theta_t at some steps from 0 to T: (d + 1, C) float64 each."""
        states, _ = self._states(gamma.astype(self.features.dtype))
        return [np.asarray(states[step], dtype=np.float64) for step in steps]

    def _gradient(self, reference: Reference, state: NDArray[Any]) -> NDArray[Any]:
        return reference.gradient(state.astype(np.float64)).astype(self.features.dtype)

    def _states(self, gamma: NDArray[Any]) -> tuple[list[NDArray[Any]], Vector]:
        """theta_0 to theta_T by gradient descent, and the training loss at each but the last."""
        settings, dtype = self.settings, self.features.dtype
        state: NDArray[Any] = np.zeros((self.features.shape[1] + 1, self.classes), dtype)
        states, losses = [state], np.zeros(settings.steps)
        for step in range(settings.steps):
            gradient = settings.weight_decay * state
            losses[step] = settings.weight_decay / 2 * float(np.vdot(state, state))
            for block, probabilities in self._probabilities(state):
                labels, rows = self.labels[block], np.arange(len(self.labels[block]))
                likelihoods = np.maximum(probabilities[labels, rows], np.finfo(dtype).tiny)
                losses[step] -= float(gamma[block] @ np.log(likelihoods)) / self.norm
                probabilities[labels, rows] -= 1
                probabilities *= gamma[block] / self.norm
                gradient[:-1] += (probabilities @ self.features[block]).T
                gradient[-1] += probabilities.sum(1)
            state = state - settings.learning_rate * gradient
            states.append(state)
        return states, losses

    def _probabilities(self, state: NDArray[Any]) -> Iterator[tuple[slice, NDArray[Any]]]:
        """Blocks of candidates and their probabilities, (C, b): sums over classes are quick so."""
        for start in range(0, len(self.features), _AT_ONCE):
            block = slice(start, start + _AT_ONCE)
            yield block, softmax(self._logits(state, block))

    def _logits(self, state: NDArray[Any], block: slice) -> NDArray[Any]:
        """What weights (d + 1, C) make of a block of candidates: (C, b)."""
        return np.asarray(state[:-1].T @ self.features[block].T + state[-1][:, None])


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    """Probabilities (C, n) of logits (C, n), in place."""
    logits -= logits.max(0)
    np.exp(logits, out=logits)
    logits /= logits.sum(0)
    return logits


def cross_entropies(features: NDArray[Any], labels: Labels, state: Vector) -> Vector:
    """Loss of each sample at a proxy's weights: (n,) float64.

    Args:
        features: (n, d).
        labels: (n,) class of each.
        state: (d + 1, C), the last row for the intercept.
    """
    logits = state[:-1].T @ features.astype(np.float64).T + state[-1][:, None]
    likelihoods = softmax(logits)[labels, np.arange(len(labels))]
    return np.asarray(-np.log(np.maximum(likelihoods, np.finfo(np.float64).tiny)))


def proxy_space(candidates: NDArray[Any], public: NDArray[Any] | None, axes: int) -> Space:
    """The space that the proxy is trained in: leading axes of public embeddings, whitened.

    Public embeddings of another domain have another mean, and variances far from the candidates';
    gradient descent at the usual rate would diverge there. So the space is centred on the
    candidates and scaled until none of its directions has more than unit variance in them.

    Args:
        candidates: (M, D); never private, so what is computed of them costs nothing.
        public: (n, D), whose covariance whitens; None: the candidates' own.
        axes: How many directions are kept.
    """
    space = whitening(candidates if public is None else public, None, axes)
    values = signed_power(candidates.astype(np.float32), space.power)
    space = replace(space, centre=values.mean(axis=0, dtype=np.float64))
    rows = space.forward(candidates).astype(np.float64)
    largest = float(np.linalg.eigvalsh(rows.T @ rows / len(rows))[-1])
    return replace(space, scales=space.scales * np.sqrt(max(1.0, largest)))
