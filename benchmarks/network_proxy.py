"""States, costates and scores of any torch network (Theorem 1, Eq. 22), by ``torch.func``.

The network must be a function of its parameters alone: no batch normalisation, no dropout. It is
trained by plain gradient descent on the whole weighted set, because Adam's moments would need
costates of their own.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.types import Labels, Vector
from understudy.methods.selection.base import ProxySettings, Reference, RoundScores, converged
from understudy.methods.selection.reference import RecordReference

if TYPE_CHECKING:
    import torch

_AT_ONCE = 256


class NetworkProxy:
    """A network trained on the weighted candidates, whose training is differentiated.

    Of the T states every sqrt(T)-th is kept and the others are computed again on the way back, so
    memory holds 2 sqrt(T) copies of the parameters whatever the number of candidates.

    Args:
        network: Inputs (n, ...) to logits (n, C). Left as it is; its parameters are theta_0.
        inputs: (M, ...) of the candidates, as the network takes them.
        labels: (M,) class of each.
        norm: How many candidates are selected in the end.
        settings: T, eta, decay, and what is to be small.
        score_every: Scores are taken at every so many steps, and stand for those between.

    Raises:
        ConfigError: A network with batch normalisation or dropout.
    """

    def __init__(
        self,
        network: torch.nn.Module,
        inputs: NDArray[Any],
        labels: Labels,
        norm: float,
        settings: ProxySettings,
        *,
        score_every: int = 1,
    ) -> None:
        import torch

        _require_pure(network)
        _load_forward_derivatives()
        self.settings, self.norm, self.score_every = settings, norm, score_every
        self._network = network
        self._start = {name: value.detach().clone() for name, value in network.named_parameters()}
        dtype = next(iter(self._start.values())).dtype
        self._inputs = torch.as_tensor(inputs, dtype=dtype)
        self._labels = torch.as_tensor(labels)

    def scores(self, gamma: Vector, reference: Reference) -> RoundScores:
        """One pass of Eq. 22; see `LinearProxy.scores`.

        Raises:
            ConfigError: A reference that is not there record by record.
        """
        import torch

        if not isinstance(reference, RecordReference):
            raise ConfigError(
                "a network proxy needs reference records: private answers under differential "
                "privacy are gradients of the linear proxy"
            )
        settings = self.settings
        weights = torch.as_tensor(gamma, dtype=self._inputs.dtype)
        segment = max(1, math.isqrt(settings.steps))
        checkpoints, losses = self._checkpoints(weights, segment)
        utility = self._reference_gradient(reference)
        scores = torch.zeros(len(weights), dtype=self._inputs.dtype)
        costate = utility(self._last_state)
        for number in range(len(checkpoints) - 1, -1, -1):
            first = number * segment
            states = self._segment(checkpoints[number], weights, first, segment)
            for step in range(min(first + segment, settings.steps) - 1, first - 1, -1):
                state = states[step - first]
                if step % self.score_every == 0:
                    scores += self._directional_losses(state, costate) * self._stands_for(step)
                turned = self._hessian_product(state, costate, weights)
                costate = {
                    name: costate[name] - settings.learning_rate * turned[name] for name in costate
                }
                if settings.utility == "area" and step > 0:
                    gradient = utility(state)
                    costate = {name: costate[name] + gradient[name] for name in costate}
        return RoundScores(scores.double().numpy(), converged(losses))

    def _stands_for(self, step: int) -> int:
        """How many steps a score taken at ``step`` stands for."""
        return min(self.score_every, self.settings.steps - step)

    def _checkpoints(self, weights: Any, segment: int) -> tuple[list[dict[str, Any]], Vector]:
        """The first state of each segment, and the training loss at each step."""
        checkpoints, losses = [], np.zeros(self.settings.steps)
        state = self._start
        for step in range(self.settings.steps):
            if step % segment == 0:
                checkpoints.append(state)
            losses[step], gradient = self._training_gradient(state, weights)
            state = self._stepped(state, gradient)
        self._last_state = state
        return checkpoints, losses

    def _segment(
        self, state: dict[str, Any], weights: Any, first: int, segment: int
    ) -> list[dict[str, Any]]:
        """The states of a segment, computed again from its first."""
        states = [state]
        for _ in range(first + 1, min(first + segment, self.settings.steps)):
            _, gradient = self._training_gradient(states[-1], weights)
            states.append(self._stepped(states[-1], gradient))
        return states

    def _stepped(self, state: dict[str, Any], gradient: dict[str, Any]) -> dict[str, Any]:
        rate = self.settings.learning_rate
        return {name: value - rate * gradient[name] for name, value in state.items()}

    def _losses(self, state: dict[str, Any], inputs: Any, labels: Any) -> Any:
        from torch.func import functional_call
        from torch.nn.functional import cross_entropy

        logits = functional_call(self._network, state, (inputs,))
        return cross_entropy(logits, labels, reduction="none")

    def _blocks(self) -> Iterator[tuple[slice, Any, Any]]:
        for start in range(0, len(self._inputs), _AT_ONCE):
            block = slice(start, start + _AT_ONCE)
            yield block, self._inputs[block], self._labels[block]

    def _block_loss(self, inputs: Any, labels: Any, weights: Any) -> Callable[[Any], Any]:
        return lambda state: weights @ self._losses(state, inputs, labels) / self.norm

    def _training_gradient(
        self, state: dict[str, Any], weights: Any
    ) -> tuple[float, dict[str, Any]]:
        from torch.func import grad_and_value

        decay = self.settings.weight_decay
        gradient = {name: decay * value for name, value in state.items()}
        loss = decay / 2 * sum(float((value * value).sum()) for value in state.values())
        for block, inputs, labels in self._blocks():
            part, value = grad_and_value(self._block_loss(inputs, labels, weights[block]))(state)
            gradient = {name: gradient[name] + part[name] for name in gradient}
            loss += float(value)
        return loss, gradient

    def _hessian_product(
        self, state: dict[str, Any], direction: dict[str, Any], weights: Any
    ) -> dict[str, Any]:
        """Hessian of the training loss times a direction, at the same weights as the states.

        (Line 2 of Eq. 22 writes gamma_0 for them; Eq. 28 has gamma_0 = gamma.)
        """
        from torch.func import grad, jvp

        result = {name: self.settings.weight_decay * value for name, value in direction.items()}
        for block, inputs, labels in self._blocks():
            loss = self._block_loss(inputs, labels, weights[block])
            part = jvp(grad(loss), (state,), (direction,))[1]
            result = {name: result[name] + part[name] for name in result}
        return result

    def _directional_losses(self, state: dict[str, Any], direction: dict[str, Any]) -> Any:
        """lambda' grad l_i for every candidate at once, as one directional derivative: (M,)."""
        import torch
        from torch.func import jvp

        parts = []
        for _, inputs, labels in self._blocks():
            parts.append(
                jvp(
                    lambda moved, inputs=inputs, labels=labels: self._losses(moved, inputs, labels),
                    (state,),
                    (direction,),
                )[1]
            )
        return torch.cat(parts).detach()

    def _reference_gradient(
        self, reference: RecordReference
    ) -> Callable[[dict[str, Any]], dict[str, Any]]:
        import torch
        from torch.func import grad

        inputs = torch.as_tensor(reference.features, dtype=self._inputs.dtype)
        labels = torch.as_tensor(reference.labels)
        weights = torch.as_tensor(reference.weights, dtype=self._inputs.dtype)

        def gradient(state: dict[str, Any]) -> dict[str, Any]:
            total = {name: torch.zeros_like(value) for name, value in state.items()}
            for start in range(0, len(inputs), _AT_ONCE):
                block = slice(start, start + _AT_ONCE)

                def loss(moved: dict[str, Any], block: slice = block) -> Any:
                    return weights[block] @ self._losses(moved, inputs[block], labels[block])

                part = grad(loss)(state)
                total = {name: total[name] + part[name] for name in total}
            return total

        return gradient


def _load_forward_derivatives() -> None:
    """Load what torch differentiates forwards with, whose first use warns of a part of torch."""
    import torch

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.func.jvp(torch.sin, (torch.zeros(1),), (torch.ones(1),))


def _require_pure(network: Any) -> None:
    """Refuse layers that make a sample's loss depend on other samples or on chance."""
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.modules.dropout import _DropoutNd

    for name, layer in network.named_modules():
        if isinstance(layer, _BatchNorm | _DropoutNd):
            raise ConfigError(
                f"the proxy's layer {name!r} is a {type(layer).__name__}: its loss would depend on "
                "other samples or on chance; take a network without such layers"
            )
