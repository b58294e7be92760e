"""Denoising networks that take more than a latent and a text: image embeddings, masks.

The task pipelines of diffusers know latents and texts. What a network takes besides is put in by
a thin module around it, so that one pipeline serves unCLIP and inpainting too, with any number of
latent channels.
"""

from __future__ import annotations

import copy
from typing import Any, TypeVar

import torch
from diffusers import configuration_utils
from torch import nn

ModuleT = TypeVar("ModuleT", bound=nn.Module)

_frozen: Any = configuration_utils.FrozenDict


class Conditioned(nn.Module):
    """A network that is given class labels and more channels besides what a pipeline knows of.

    Under classifier-free guidance a pipeline asks for twice as many rows, the unconditional ones
    first: those get labels of zeros (as unCLIP is trained) and the same channels.
    """

    def __init__(self, network: Any, channels: int) -> None:
        super().__init__()
        self.network = network
        self.config = _frozen({**network.config, "in_channels": channels})
        self.labels: torch.Tensor | None = None
        self.more: torch.Tensor | None = None

    @property
    def dtype(self) -> torch.dtype:
        """Number format of the weights."""
        some: torch.Tensor = next(self.network.parameters())
        return some.dtype

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        some: torch.Tensor = next(self.network.parameters())
        return some.device

    def given(
        self, *, labels: torch.Tensor | None = None, more: torch.Tensor | None = None
    ) -> Conditioned:
        """Set what the next rows are given: (n, d) labels, (n, channels, h, w) more channels."""
        self.labels, self.more = labels, more
        return self

    def forward(self, sample: torch.Tensor, timestep: Any, *args: Any, **options: Any) -> Any:
        """Run the network on what the pipeline gives and on what it was given before."""
        if self.labels is not None:
            labels = self.labels.to(sample)
            if len(sample) == 2 * len(labels):
                labels = torch.cat([torch.zeros_like(labels), labels])
            options["class_labels"] = labels
        if self.more is not None:
            more = self.more.to(sample)
            times = len(sample) // len(more)
            sample = torch.cat([sample, more.repeat(times, 1, 1, 1)], dim=1)
        return self.network(sample, timestep, *args, **options)


def without_image_conditioning(network: ModuleT) -> ModuleT:
    """An unCLIP network as a plain text-to-image one: the same function where the embedding is 0.

    The network adds an embedding of its class labels to that of time. At labels of zeros the first
    is a constant, which is folded into the last bias of the second: exact, and nothing is run.

    Args:
        network: A UNet2DConditionModel or a ControlNetModel with ``class_embed_type`` projection;
            any other is given back as it is.

    Returns:
        A network that shares every parameter but that one bias.
    """
    whole: Any = network
    embedding, config = getattr(whole, "class_embedding", None), whole.config
    if embedding is None or config["class_embed_type"] != "projection":
        return network
    if config.get("class_embeddings_concat") or whole.time_embedding.post_act is not None:
        raise ValueError("a network that does not add its image embedding has no plain form")
    plain: Any = shallow_copy(whole)
    time = shallow_copy(whole.time_embedding)
    last = shallow_copy(time.linear_2)
    with torch.no_grad():
        zeros = torch.zeros(1, embedding.linear_1.in_features).to(embedding.linear_1.weight)
        constant = embedding(zeros)[0].float()
        folded = (last.bias.float() + constant).to(last.bias.dtype)
    last._parameters["bias"] = nn.Parameter(folded, requires_grad=last.bias.requires_grad)
    time._modules["linear_2"] = last
    plain._modules["time_embedding"], plain._modules["class_embedding"] = time, None
    change = {"class_embed_type": None, "projection_class_embeddings_input_dim": None}
    plain._internal_dict = _frozen({**config, **change})
    return plain  # type: ignore[no-any-return]


def shallow_copy(module: Any) -> Any:
    """The same module with its own tables of parameters and children, which stay shared."""
    twin = copy.copy(module)
    for table in ("_modules", "_parameters", "_buffers"):
        twin.__dict__[table] = dict(getattr(module, table))
    return twin
