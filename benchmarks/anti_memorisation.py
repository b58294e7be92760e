"""Anti-memorisation guidance, AMG (Chen, Liu and Xu, CVPR 2024): images unlike the given ones."""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from understudy.backends.arrays import index_slices
from understudy.backends.diffusion.autoencoders import latents_of, to_tensor
from understudy.backends.diffusion.generators import DiffusionGenerator
from understudy.backends.diffusion.loading import rebuilt
from understudy.backends.diffusion.networks import shallow_copy
from understudy.backends.diffusion.pipelines import Pipelines
from understudy.core.types import Images

_LEAST_SHARE = 1e-6  # of signal or of noise in a latent: none is divided by
_LEAST_ANGLE = 1e-3  # radians; nearer than that, rounding says which way is out
_SAME = 1 - 1e-6  # the cosine of two latents of one image


@dataclass(frozen=True, slots=True)
class AntiMemorisationOptions:
    """How strongly images are guided away, and when.

    The similarity of a guess at the final latent is its cosine with the nearest given latent,
    moved and scaled so that 0 is how similar given images are to one another (the median of each
    to its nearest other) and 1 is a copy.

    Attributes:
        scale: Dissimilarity guidance, c_3: 1 turns the guess away from its nearest given latent by
            up to 45 degrees, as the noise level says; 0 leaves this guidance out.
        threshold: Similarity above which a row is guided at the last step, lambda_max.
        early_threshold: The same at the first step, where a guess is vague, lambda_min.
    """

    scale: float = 1.0
    threshold: float = 0.3
    early_threshold: float = 0.0


@dataclass(frozen=True, slots=True)
class NearestLatents:
    """The given latent that is most like each guess.

    Attributes:
        similarity: (n,), see `AntiMemorisationOptions`.
        outward: (n, c, h, w) of norm 1, orthogonal to the guess: the direction in which its cosine
            with that latent falls fastest. Shorter for the exact copy of a latent.
        norms: (n, 1, 1, 1) of the guesses about the centre.
    """

    similarity: torch.Tensor
    outward: torch.Tensor
    norms: torch.Tensor


class GivenLatents:
    """Latents (n, c, h, w) float32 that a guess is compared with.

    Attributes:
        usual: The cosine of a latent with its nearest other, the median of all; copies of an image
            count once. 0 for a single image.
    """

    def __init__(self, latents: torch.Tensor) -> None:
        rows = latents.flatten(1)
        # About zero where there is one image alone: it has no other to be compared with.
        self._centre = rows.mean(0) if len(rows) > 1 else torch.zeros_like(rows[0])
        self._directions = functional.normalize(rows - self._centre, dim=1)
        cosines = self._directions @ self._directions.T
        cosines[cosines > _SAME] = -1.0
        nearest = cosines.amax(1)
        known = nearest[nearest > -1.0]
        self.usual = float(known.median()) if len(known) else 0.0

    def nearest(self, guesses: torch.Tensor) -> NearestLatents:
        """The nearest given latent of each of (n, c, h, w) guesses."""
        rows = guesses.float().flatten(1) - self._centre.to(guesses.device)
        norms = rows.norm(dim=1, keepdim=True).clamp(min=_LEAST_SHARE)
        directions = self._directions.to(guesses.device)
        cosines, index = (rows / norms @ directions.T).max(1)
        similarity = (cosines - self.usual) / max(1 - self.usual, _LEAST_ANGLE)
        # The gradient of the cosine for the guess, up to its length.
        outward = cosines[:, None] * rows / norms - directions[index]
        outward = functional.normalize(outward, dim=1, eps=_LEAST_ANGLE)
        return NearestLatents(similarity, outward.view_as(guesses), norms.view(-1, 1, 1, 1))


class DissimilarityHook:
    """What a denoising network says, changed where it leads to a given image.

    Registered on a network, it looks at the guided prediction g = u + s_0 (c - u) of the
    unconditional and conditional rows u and c, guesses the final latent by it and returns u and
    c + G / s_0, so that the pipeline's own guidance gives g + G.

    Args:
        scheduler: Of the pipeline: its ``alphas_cumprod`` and the kind of its prediction.
        guidance: s_0, the scale of classifier-free guidance; 1 or less: there are no rows u.
    """

    def __init__(
        self, given: GivenLatents, options: AntiMemorisationOptions, scheduler: Any, guidance: float
    ) -> None:
        self._given, self._options = given, options
        self._signal_shares = scheduler.alphas_cumprod.float().cpu()
        self._kind = str(scheduler.config.get("prediction_type", "epsilon"))
        self._guidance = guidance

    def __call__(self, network: Any, args: tuple[Any, ...], options: Any, output: Any) -> Any:
        """The output of a call of the network, as `register_forward_hook` gives and takes it."""
        whole = output[0] if isinstance(output, tuple) else output.sample
        free, bound = whole.float().chunk(2) if self._guidance > 1 else (None, whole.float())
        latents, share = args[0][-len(bound) :].float(), self._signal_share(args[1])
        prediction = bound if free is None else free + self._guidance * (bound - free)
        near = self._given.nearest(self._guess(latents, prediction, share))
        first, last = self._options.early_threshold, self._options.threshold
        active = near.similarity > first + (last - first) * share**2  # a parabola in alpha-bar
        if not bool(active.any()):
            return output
        change = self._dissimilarity(near, share)
        if free is not None:
            change /= self._guidance
        bound = torch.where(active.view(-1, 1, 1, 1), bound + change, bound).to(whole.dtype)
        whole = bound if free is None else torch.cat([whole[: len(bound)], bound])
        if isinstance(output, tuple):
            return (whole, *output[1:])
        output.sample = whole
        return output

    def _signal_share(self, time: Any) -> float:
        """Of the signal in the square of a latent at a time step: alpha-bar."""
        step = min(max(round(float(time)), 0), len(self._signal_shares) - 1)
        share = float(self._signal_shares[step])
        return min(max(share, _LEAST_SHARE), 1 - _LEAST_SHARE)

    def _guess(self, latents: torch.Tensor, prediction: torch.Tensor, share: float) -> torch.Tensor:
        """The final latents that a prediction leads to at once."""
        signal, noise = math.sqrt(share), math.sqrt(1 - share)
        if self._kind == "v_prediction":
            return signal * latents - noise * prediction
        if self._kind == "epsilon":
            return (latents - noise * prediction) / signal
        return prediction

    def _dissimilarity(self, near: NearestLatents, share: float) -> torch.Tensor:
        """G_sim, of the guess alone: the network is not differentiated for it."""
        signal, noise = math.sqrt(share), math.sqrt(1 - share)
        moved = self._options.scale * noise * near.norms * near.outward
        if self._kind == "v_prediction":
            return -moved / noise
        if self._kind == "epsilon":
            return -signal * moved / noise
        return moved


class AntiMemorisationGenerator(DiffusionGenerator):
    """A generator that is guided away from given images wherever it comes near one.

    At every denoising step of every task, the final latent of each row is guessed from the
    network's prediction (eq. 4 of DDIM) and compared with the latents of the given images. Where
    the nearest is more similar than a threshold, dissimilarity guidance is added to the prediction
    (Chen, Liu and Xu 2024, "Towards memorization-free diffusion models"; of its three guidances,
    the one that reads images). The paper compares by SSCD or by pixels and differentiates the
    network; here similarity is the cosine in the model's own latents, its gradient is that of the
    guess, and a scale of 1 has the same meaning for every model. A distance would be satisfied by
    more contrast.

    **This is no privacy guarantee.** The given images are read without any noise, and what is drawn
    depends on each of them: what this generator draws can carry no claim, and an attacker who has
    images with and without the guidance learns which images were given.

    ``images`` are (m, height, width, channels) uint8 of the generator's shape, one or more;
    near-duplicates are left out, which would raise what counts as usual.
    """

    def __init__(
        self,
        generator: DiffusionGenerator,
        images: Images,
        options: AntiMemorisationOptions | None = None,
    ) -> None:
        options = options or AntiMemorisationOptions()
        pipelines = generator._pipelines
        name = f"{generator.name} (guided away from {len(images)} images)"
        super().__init__(pipelines, generator._options, name=name, licence=generator.licence)
        self.vocabulary = generator.vocabulary
        given = GivenLatents(self._latents(images))
        network = pipelines.network
        distilled = network.config.get("time_cond_proj_dim") is not None  # it hears its guidance
        guidance = 1.0 if distilled else pipelines.guidance()
        scheduler = pipelines.text.scheduler
        hook = DissimilarityHook(given, options, scheduler, guidance)
        if options.scale > 0:
            self._pipelines = _guided(pipelines, hook)

    @torch.no_grad()
    def _latents(self, images: Images) -> torch.Tensor:
        """The images as the model's own autoencoder encodes them: (m, c, h, w) float32."""
        vae = self._pipelines.vae
        pixels = self._scaled(images)
        parts = [
            latents_of(vae, to_tensor(pixels[rows], vae.device, vae.dtype)).float().cpu()
            for rows in index_slices(len(pixels), self._options.batch)
        ]
        return torch.cat(parts)


def _hooked(network: Any, hook: DissimilarityHook) -> Any:
    """The same network, with the hook on its calls; the original has none."""
    twin = shallow_copy(network)
    for table in [key for key in vars(twin) if key.startswith("_forward_hooks")]:
        setattr(twin, table, OrderedDict(getattr(network, table)))
    twin.register_forward_hook(hook, with_kwargs=True)
    return twin


def _guided(pipelines: Pipelines, hook: DissimilarityHook) -> Pipelines:
    """The same task pipelines over networks with the hook; these stay as they are."""
    twin = copy.copy(pipelines)
    networks = [pipelines.network, *(one.unet for one in pipelines._by_task.values())]
    hooked = {id(one): _hooked(one, hook) for one in networks}
    twin.network = hooked[id(pipelines.network)]
    twin._by_task = {
        task: rebuilt(pipeline, unet=hooked[id(pipeline.unet)])
        for task, pipeline in pipelines._by_task.items()
    }
    return twin
