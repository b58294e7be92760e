"""A prior of a few thousand untrained weights, beside a copy of the shipped autoencoder."""

from __future__ import annotations

import shutil
from pathlib import Path

import diffusers
import numpy as np
import torch

from understudy.backends.diffusion.loading import quiet
from understudy.backends.embedded.photo.latent_prior import write_descriptions
from understudy.backends.embedded.photo.photo_models import PRIOR
from understudy.backends.embedded.shipped import PHOTO_WEIGHTS
from understudy.backends.registry import load_encoder
from understudy.core.prior_decoder import COVARIANCE
from understudy.data import open_source
from understudy.steps.grid import Description
from understudy.studio.diffusion import NOISING
from understudy.studio.prior_training import new_prior
from understudy.studio.stages import save_network

SIDES = (32, 64)


def described(pixels: int, kind: str = "leaves") -> Description:
    """What latents of drawings have in common, by the shipped autoencoder."""
    source = open_source(f"procedural:{kind}?count=120&seed=5", size=pixels)
    encoder = load_encoder("embedded:photo?prior=false", shape=(pixels, pixels, 3))
    latents = encoder.encode(next(batch.values for batch in source.batches(120)))
    return Description.of(latents, encoder.latent)  # type: ignore[attr-defined]


def tiny_prior(folder: Path) -> Path:
    """An autoencoder's folder with a prior for images of `SIDES` pixels; returns the folder."""
    ignored = shutil.ignore_patterns(PRIOR, "SHA256SUMS", "*.md")
    shutil.copytree(PHOTO_WEIGHTS, folder, ignore=ignored)
    descriptions = {pixels // 8: described(pixels) for pixels in SIDES}
    torch.manual_seed(0)
    longest = max(description.dim for description in descriptions.values())
    with quiet():
        save_network(new_prior(28, longest, (16, 32), 32), folder / PRIOR)
        diffusers.DPMSolverMultistepScheduler(**NOISING).save_pretrained(folder / PRIOR)
    arrays = {
        side: {**description.arrays(), COVARIANCE: np.eye(description.dim, dtype=np.float32)}
        for side, description in descriptions.items()
    }
    write_descriptions(folder / PRIOR, arrays, folder)
    return folder
