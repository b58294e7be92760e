"""A diffusion model about a Gaussian: noise levels, preconditioning, loss and sampler of EDM.

Karras, Aittala, Aila and Laine 2022. Where they scale the network's input and output by the
deviation of the data, the data here are what is left of an image once a Gaussian has denoised it:
D(x; sigma) = G(x; sigma) + c_out(sigma) F(...), and a network F of zeros is the Gaussian.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from understudy.core.denoising import Denoiser, ImagePairs, Weights
from understudy.core.types import Labels, Seeds, Shape
from understudy.methods.finetuning.class_gaussians import ClassGaussians, ImageRows

_LOG_MEAN, _LOG_DEVIATION = -0.4, 1.2  # of noise levels over the data's deviation (table 1: -1.2 of
# an absolute level, with a deviation of the data of 0.5)
_LEAST_SIGMA, _MOST_SIGMA, _RHO = 0.02, 80.0, 7.0  # over the data's deviation; equation (5)
_LEVEL_SCALE = 0.25  # c_noise, table 1
_DECODED = 128  # samples that the network is asked about at a time

NoiseLevels = NDArray[np.float32]


@dataclass(frozen=True)
class Diffusion:
    """A network at some weights, about Gaussians."""

    denoiser: Denoiser
    gaussians: ClassGaussians
    shape: Shape  # (height, width, channels), of d numbers
    weights: Weights

    def at(self, weights: Weights) -> Diffusion:
        """The same at other weights."""
        return replace(self, weights=weights)

    def denoise(self, noisy: ImageRows, sigmas: NoiseLevels, labels: Labels) -> ImageRows:
        """D(x; sigma) of (n, d) images with (n,) noise levels and classes: (n, d)."""
        pairs, levels, base, scale = self.conditioned(noisy, sigmas, labels)
        change = self.denoiser.predict(self.weights, pairs, levels, labels)
        return np.asarray(base + scale[:, None] * change.reshape(base.shape), dtype=np.float32)

    def conditioned(
        self, noisy: ImageRows, sigmas: NoiseLevels, labels: Labels
    ) -> tuple[ImagePairs, NoiseLevels, ImageRows, NoiseLevels]:
        """What the network reads, (n, 2, ...) and (n,); G, (n, d); and c_out, (n,)."""
        deviation = self.gaussians.deviation
        base = self.gaussians.denoise(noisy, sigmas, labels)
        removed = (noisy - base) / np.sqrt(np.square(sigmas) + 1e-6)[:, None]
        pairs = np.stack([removed, base], axis=1).reshape(-1, 2, *self.shape)
        levels = _LEVEL_SCALE * np.log(sigmas / deviation)
        scale = sigmas * deviation / np.sqrt(np.square(sigmas) + deviation**2)
        return pairs.astype(np.float32), levels.astype(np.float32), base, scale.astype(np.float32)

    def gradients(
        self, images: ImageRows, labels: Labels, draws: list[tuple[NoiseLevels, ImageRows]]
    ) -> NoiseLevels:
        """Of each record's loss, the mean over its draws of noise: (n, weights that adapt).

        The loss is the squared error of F, which is that of D weighted by 1 / c_out^2 (equation 8).

        Args:
            images: (n, d).
            labels: (n,).
            draws: For each record its k noise levels, (k,), and its noise, (k, d).
        """
        sigmas = np.concatenate([sigma for sigma, _ in draws])
        noise = np.concatenate([one for _, one in draws])
        clean = np.repeat(images, len(draws[0][0]), axis=0)
        last = self.denoiser.adapted(self.shape, len(self.gaussians.means))
        return self._loss_gradients(clean, labels, sigmas, noise, last)

    def mean_gradient(
        self, images: ImageRows, labels: Labels, rng: np.random.Generator
    ) -> NoiseLevels:
        """The mean by all weights over images (c, k, d) of classes (c,), each noised once: (P,)."""
        clean = images.reshape(-1, images.shape[2])
        sigmas, noise = self.draw(rng, len(clean))
        gradients = self._loss_gradients(clean, labels, sigmas, noise, len(self.weights))
        return np.asarray(gradients.mean(axis=0))

    def _loss_gradients(
        self, clean: ImageRows, labels: Labels, sigmas: NoiseLevels, noise: ImageRows, last: int
    ) -> NoiseLevels:
        """By the last weights, the mean over each row's k images of (n * k, d): (n, last)."""
        n, k = len(labels), len(clean) // len(labels)
        noisy = clean + sigmas[:, None] * noise
        pairs, levels, base, scale = self.conditioned(noisy, sigmas, np.repeat(labels, k))
        targets = ((clean - base) / scale[:, None]).astype(np.float32)
        return self.denoiser.gradients(
            self.weights,
            pairs.reshape(n, k, 2, *self.shape),
            levels.reshape(n, k),
            labels,
            targets.reshape(n, k, *self.shape),
            last,
        )

    def draw(self, rng: np.random.Generator, k: int) -> tuple[NoiseLevels, ImageRows]:
        """k noise levels, (k,), and noise, (k, d)."""
        normal = rng.standard_normal(k, dtype=np.float32)
        sigmas = self.gaussians.deviation * np.exp(_LOG_MEAN + _LOG_DEVIATION * normal)
        noise = rng.standard_normal((k, self.gaussians.means.shape[1]), dtype=np.float32)
        return sigmas.astype(np.float32), noise

    def sample(self, labels: Labels, seeds: Seeds, steps: int) -> ImageRows:
        """A sample of each class and seed, (n, d), by Heun's method (Algorithm 1, no churn)."""
        parts = [slice(i, i + _DECODED) for i in range(0, len(labels), _DECODED)]
        samples = [self._solved(labels[part], seeds[part], steps) for part in parts]
        return np.concatenate(samples) if samples else self.gaussians.means[labels]

    def _solved(self, labels: Labels, seeds: Seeds, steps: int) -> ImageRows:
        deviation = self.gaussians.deviation
        least, most = _LEAST_SIGMA * deviation, _MOST_SIGMA * deviation
        ends = most ** (1 / _RHO), least ** (1 / _RHO)
        sigmas: list[float] = [*(np.linspace(*ends, steps) ** _RHO).tolist(), 0.0]
        means = self.gaussians.means[labels]
        noise = [
            np.random.default_rng(int(seed)).standard_normal(means.shape[1], dtype=np.float32)
            for seed in seeds
        ]
        images: ImageRows = (means + most * np.stack(noise)).astype(np.float32)
        for sigma, following in pairwise(sigmas):
            slope = self._slope(images, sigma, labels)
            estimate = (images + (following - sigma) * slope).astype(np.float32)
            if following > 0:
                slope = np.float32(0.5) * (slope + self._slope(estimate, following, labels))
                estimate = (images + (following - sigma) * slope).astype(np.float32)
            images = estimate
        return images

    def _slope(self, images: ImageRows, sigma: float, labels: Labels) -> ImageRows:
        sigmas = np.full(len(images), sigma, dtype=np.float32)
        return np.asarray((images - self.denoise(images, sigmas, labels)) / sigma, dtype=np.float32)


@dataclass(frozen=True)
class DenoisingLoss:
    """The loss of one step of DP-SGD: a record's noise depends on that record and the step alone.

    A record is noised several times, and its gradients are averaged before they are clipped: noise
    multiplicity (Dockhorn, Cao, Vahdat and Kreis 2022).
    """

    diffusion: Diffusion
    multiplicity: int
    seed: bytes  # public, of the step

    @property
    def size(self) -> int:
        """How many weights are trained."""
        diffusion = self.diffusion
        return diffusion.denoiser.adapted(diffusion.shape, len(diffusion.gaussians.means))

    @property
    def fingerprint(self) -> str:
        """A digest of the weights, the Gaussians and the settings."""
        diffusion, gaussians = self.diffusion, self.diffusion.gaussians
        digest = hashlib.sha256(self.seed)
        digest.update(f"{diffusion.denoiser.name} {diffusion.shape} {self.multiplicity}".encode())
        for part in (
            diffusion.weights,
            gaussians.means,
            gaussians.axes,
            gaussians.turns,
            gaussians.variances,
            np.float64(gaussians.rest),
        ):
            digest.update(np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()

    def gradients(self, values: ImageRows, labels: Labels) -> NoiseLevels:
        """Of records (n, d): (n, size)."""
        draws = []
        for record, label in zip(values, labels, strict=True):
            text = self.seed + int(label).to_bytes(8, "little") + record.tobytes()
            entropy = int.from_bytes(hashlib.blake2b(text, digest_size=16).digest(), "little")
            draws.append(self.diffusion.draw(np.random.default_rng(entropy), self.multiplicity))
        return self.diffusion.gradients(values, labels, draws)
