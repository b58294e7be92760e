"""Networks that are ready to see private images: in inference mode, without batch statistics."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from functools import partial
from inspect import getclosurevars
from types import FunctionType, MethodType
from typing import Any

from understudy.core.errors import BackendError

_DEEP = 5  # objects inside of objects that are looked into


def require_inference(model: object, name: str) -> None:
    """Refuse a model with a PyTorch network that is in training mode or goes by batch statistics.

    Dropout and batch normalisation make an image's embedding depend on chance and on the other
    images of its batch.
    """
    if "torch" not in sys.modules:
        return
    import torch

    for network in _networks(model, torch.nn.Module):
        for path, layer in network.named_modules():
            where = f"{type(network).__name__}{f' ({path})' if path else ''}"
            if layer.training:
                raise BackendError(
                    f"{name} is refused: its network {where} is in training mode, where an image's "
                    "embedding depends on the others of its batch. Nothing was spent. Call .eval() "
                    "on the network where the model is loaded"
                )
            normalises = isinstance(layer, torch.nn.modules.batchnorm._BatchNorm)
            if normalises and layer.running_mean is None:
                raise BackendError(
                    f"{name} is refused: its network {where} normalises by the statistics of the "
                    "batch, so an image's embedding depends on the others. Nothing was spent. Take "
                    "a network that keeps running statistics, or one without batch normalisation"
                )


def _networks(model: object, kind: type) -> list[Any]:
    """The networks among the attributes of an object and of what they hold."""
    networks: list[Any] = []
    identities: set[int] = set()
    level: list[object] = [model]
    for _ in range(_DEEP):
        below: list[object] = []
        for thing in level:
            if id(thing) in identities:
                continue
            identities.add(id(thing))
            if isinstance(thing, kind):
                networks.append(thing)
            else:
                below += _held(thing)
        level = below
    return networks


def _held(thing: object) -> Iterable[object]:
    """What an object refers to: attributes, items, what a function was made with."""
    if isinstance(thing, Mapping):
        return list(thing.values())
    if isinstance(thing, list | tuple):
        return list(thing)
    if isinstance(thing, MethodType):
        return [thing.__self__]
    if isinstance(thing, partial):
        return [thing.func, *thing.args, *thing.keywords.values()]
    if isinstance(thing, FunctionType):
        return list(getclosurevars(thing).nonlocals.values())
    if isinstance(thing, type) or type(thing).__module__ == "builtins":
        return []
    return list(getattr(thing, "__dict__", {}).values())
