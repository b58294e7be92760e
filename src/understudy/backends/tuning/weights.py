"""Tuned weights: adapters put on and folded in, what changed, merged into an inpainting model."""

from __future__ import annotations

import copy
import logging
import re
import warnings
from pathlib import Path
from typing import Any, TypeVar

import diffusers
import safetensors.torch
import torch
from huggingface_hub import constants, snapshot_download
from peft import LoraConfig
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import nn

from understudy.backends.diffusion.loading import loading, split_revision
from understudy.backends.tuning.tuning_settings import TuningSettings
from understudy.core.errors import BackendError

NetworkT = TypeVar("NetworkT", bound=nn.Module)

_ATTENTION = r".*\.(to_q|to_k|to_v|to_out\.0|proj_in|proj_out|ff\.net\.0\.proj|ff\.net\.2)"
_TUNED_PARTS = ("unet", "text_encoder")


def add_lora(network: Any, settings: TuningSettings) -> None:
    """Put adapters of LoRA on the attention of a denoising network; only they will be trained.

    The second matrix of each begins at 0, so that nothing changes before the first step.
    """
    network.requires_grad_(False)
    config = LoraConfig(
        r=settings.rank,
        lora_alpha=settings.rank,
        init_lora_weights="gaussian",
        target_modules=_ATTENTION,
    )
    network.add_adapter(config)
    for weight in network.parameters():
        if weight.requires_grad:
            weight.data = weight.data.float()


def has_lora(network: nn.Module) -> bool:
    """Whether adapters are on a network."""
    return any(isinstance(module, BaseTunerLayer) for module in network.modules())


def fused(network: NetworkT) -> NetworkT:
    """A network whose adapters are folded into its weights; one without any stays itself."""
    if not has_lora(network):
        return network
    plain = copy.deepcopy(network)
    for name, module in list(plain.named_modules()):
        if isinstance(module, BaseTunerLayer):
            module.merge()
            parent, _, key = name.rpartition(".")
            setattr(plain.get_submodule(parent), key, module.get_base_layer())
    for mark in ("peft_config", "_hf_peft_config_loaded"):
        vars(plain).pop(mark, None)
    return plain


def fold_adapters(pipeline: Any, inpainting: NetworkT | None, folder: str) -> NetworkT | None:
    """Fold saved adapters into a pipeline, in place; its inpainting network with them, if any."""
    if not hasattr(pipeline, "load_lora_weights"):
        raise BackendError(f"a {type(pipeline).__name__} cannot be given the adapters of {folder}")
    base = None if inpainting is None else copy.deepcopy(pipeline.unet)
    source, revision = split_revision(folder)
    with loading(f"hf:{source}"), warnings.catch_warnings():
        # Adapters that fit in part say so by a warning; they are of another model.
        warnings.simplefilter("error", RuntimeWarning)
        diffusers.logging.set_verbosity(logging.CRITICAL)  # else a line for each of their layers
        try:
            if constants.HF_HUB_OFFLINE and not Path(source).exists():  # it asks for a file
                source = snapshot_download(source, revision=revision)
            pipeline.load_lora_weights(source, revision=revision, use_safetensors=True)
        except (RuntimeWarning, RuntimeError) as error:
            said = " ".join(str(error).split())[:200]
            raise BackendError(f"the adapters of {folder} are of another model: {said}") from error
    for part in pipeline._lora_loadable_modules:
        if (network := getattr(pipeline, part, None)) is not None:
            setattr(pipeline, part, fused(network))
    if inpainting is None or base is None:
        return None
    return merge_into_inpainting(inpainting, pipeline.unet, base)


def changed_weights(tuned: Any, base: Any) -> bytes:
    """What differs between two pipelines' denoising networks and text encoders, as safetensors."""
    changed = {}
    for part in _TUNED_PARTS:
        start = fused(getattr(base, part)).state_dict()
        for key, weight in fused(getattr(tuned, part)).state_dict().items():
            if key not in start or not torch.equal(weight, start[key]):
                changed[f"{part}.{key}"] = weight.detach().cpu().contiguous()
    return safetensors.torch.save(changed)


def with_changed_weights(base: Any, changes: bytes, name: str) -> dict[str, Any]:
    """Copies of a pipeline's networks with the weights that `changed_weights` gave."""
    weights = safetensors.torch.load(changes)
    networks = {part: copy.deepcopy(fused(getattr(base, part))) for part in _TUNED_PARTS}
    for key, weight in weights.items():
        part, _, path = key.partition(".")
        goal = networks[part].state_dict().get(path) if part in networks else None
        if goal is None or goal.shape != weight.shape:
            raise BackendError(f"the weights are of another model than {name}: it has no {key}")
        with torch.no_grad():
            goal.copy_(weight)
    return networks


@torch.no_grad()
def merge_into_inpainting(inpainting: NetworkT, tuned: nn.Module, base: nn.Module) -> NetworkT:
    """What a tuning taught, put into an inpainting model (SpinML, section 3.3).

    new inpainting = inpainting + (tuned - base), weight by weight. The first convolution of an
    inpainting model takes more channels (the mask, and what is left of the image): these stay.

    Returns:
        A new network; the three are unchanged.
    """
    tuned_weights, start = fused(tuned).state_dict(), fused(base).state_dict()
    merged = copy.deepcopy(inpainting)
    goal = merged.state_dict()
    if tuned_weights.keys() != start.keys():
        raise BackendError(
            "the tuned model and its base are not of the same kind: only one of them has "
            f"{', '.join(sorted(tuned_weights.keys() ^ start.keys())[:3])}"
        )
    for key, weight in tuned_weights.items():
        if not weight.is_floating_point():
            continue
        delta = weight.float() - start[key].to(weight.device).float()
        if not delta.any():
            continue
        weights = goal.get(key)
        if weights is not None and re.fullmatch(r"conv_in\.weight", key):
            weights = weights[:, : weight.shape[1]]
        if weights is None or weights.shape != weight.shape:
            shape = "nothing" if weights is None else tuple(weights.shape)
            raise BackendError(
                f"the inpainting model does not belong to the tuned one: at {key} the tuned one "
                f"has {tuple(weight.shape)} and the inpainting one {shape}"
            )
        weights.copy_(weights.float() + delta.to(weights.device))
    return merged
