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

from understudy.core.denoising import (
    ImageRows,
    NoiseLevels,
    NoisyImages,
    TrainableNetwork,
    Weights,
)
from understudy.core.types import Labels, Seeds
from understudy.methods.finetuning.class_gaussians import ClassGaussians

_LOG_MEAN, _LOG_DEVIATION = -0.4, 1.2  # of noise levels over the data's deviation (table 1: -1.2 of
# an absolute level, with a deviation of the data of 0.5)
_LEAST_SIGMA, _MOST_SIGMA, _RHO = 0.02, 80.0, 7.0  # over the data's deviation; equation (5)


@dataclass(frozen=True)
class Diffusion:
    """A network at some weights, about Gaussians."""

    network: TrainableNetwork
    gaussians: ClassGaussians
    weights: Weights

    def at(self, weights: Weights) -> Diffusion:
        """The same at other weights."""
        return replace(self, weights=weights)

    def denoise(self, images: ImageRows, sigmas: NoiseLevels, labels: Labels) -> ImageRows:
        """D(x; sigma) of (n, d) images with (n,) noise levels and classes: (n, d)."""
        noisy = self._noisy(images, sigmas, labels, (len(labels),))
        change = self.network.predict(self.weights, noisy, labels)
        scaled = noisy.scales[:, None] * change.reshape(images.shape)
        return np.asarray(noisy.denoised.reshape(images.shape) + scaled, dtype=np.float32)

    def _noisy(
        self, images: ImageRows, sigmas: NoiseLevels, labels: Labels, leading: tuple[int, ...]
    ) -> NoisyImages:
        """What the network is asked about (n, d) images with (n,) noise levels and classes."""
        denoised = self.gaussians.denoise(images, sigmas, labels)
        shape = (*leading, *self.network.shape)
        return NoisyImages(
            images.reshape(shape),
            denoised.reshape(shape),
            sigmas.reshape(leading),
            self.gaussians.deviation,
        )

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
        return self._loss_gradients(clean, labels, sigmas, noise, self.network.adapted)

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
        images = (clean + sigmas[:, None] * noise).astype(np.float32)
        noisy = self._noisy(images, sigmas, np.repeat(labels, k), (n, k))
        error = clean.reshape(noisy.images.shape) - noisy.denoised
        targets = (error / noisy.scales[..., None, None, None]).astype(np.float32)
        return self.network.gradients(self.weights, noisy, labels, targets, last)

    def draw(self, rng: np.random.Generator, k: int) -> tuple[NoiseLevels, ImageRows]:
        """k noise levels, (k,), and noise, (k, d)."""
        normal = rng.standard_normal(k, dtype=np.float32)
        sigmas = self.gaussians.deviation * np.exp(_LOG_MEAN + _LOG_DEVIATION * normal)
        noise = rng.standard_normal((k, self.gaussians.means.shape[1]), dtype=np.float32)
        return sigmas.astype(np.float32), noise

    def sample(self, steps: int, labels: Labels, seeds: Seeds) -> ImageRows:
        """A sample of each class and seed, (n, d), by Heun's method (Algorithm 1, no churn)."""
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
        return self.diffusion.network.adapted

    @property
    def fingerprint(self) -> str:
        """A digest of the weights, the Gaussians and the settings."""
        diffusion, gaussians = self.diffusion, self.diffusion.gaussians
        digest = hashlib.sha256(self.seed)
        digest.update(
            f"{diffusion.network.name} {diffusion.network.shape} {self.multiplicity}".encode()
        )
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
