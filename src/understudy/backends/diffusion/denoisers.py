"""The port `Denoiser` over diffusers: a UNet or a DiT stays as it is, and few weights adapt it.

Adapters of low rank at every attention layer (LoRA, Hu et al. 2022), a vector a class, which is
added to the embedding of the noise level, and a gate a noise level, which says how much of the
model's answer is taken and how much of the class's Gaussian: D = G + g(sigma) (D_hub - G). At first
it is 1 / (1 + sigma / deviation): the model knows details, the Gaussian what is of the private
images, and much noise leaves that alone. Each record has a pass of its own, of one shape, so its
gradient is its own to the last bit, whatever the network is made of.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, ClassVar

import diffusers
import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from understudy.backends.arrays import fit_images, to_uint8
from understudy.backends.diffusion.autoencoders import (
    AutoencoderDecoder,
    AutoencoderEncoder,
    pixels_of_latent,
)
from understudy.backends.diffusion.loading import read_pipeline
from understudy.backends.diffusion.options import LatentOptions
from understudy.backends.diffusion.text_conditioning import PromptEncoder
from understudy.backends.hub.hub_models import AUTOENCODER_CLASSES, HubOptions
from understudy.backends.hub.pretrained import exact_kernels, licence_of, quiet
from understudy.backends.plugin import PositiveCount, full_name, read_options
from understudy.core.denoising import ImageRows, NoisyImages, Weights
from understudy.core.errors import BackendError
from understudy.core.types import Images, Labels, Shape

_ADAPTED = ("to_q", "to_k", "to_v", "to_out.0")  # layers of an attention that LoRA adapts
_LEAST_ALPHA = 1e-6  # of a schedule that ends in noise alone, where sigma would be infinite
_AUTOENCODERS = AUTOENCODER_CLASSES[:3]  # of latents that have places
_GATES = np.arange(-4.0, 4.1)  # logarithms of the noise over the deviation at which a gate is known
_PREDICTIONS = ("epsilon", "v_prediction", "sample")

_Codec = tuple[AutoencoderEncoder, AutoencoderDecoder]


@dataclass(frozen=True, slots=True)
class HubDenoiserOptions(HubOptions):
    """Options of a network that is adapted; those of `HubOptions` besides.

    Attributes:
        rank: Of the adapters.
    """

    exact: ClassVar[bool] = True

    rank: PositiveCount = 4


class _Adapter:
    """What two matrices of low rank add to a linear layer."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        self.down, self.up = (rank, layer.in_features), (layer.out_features, rank)
        self.sizes = math.prod(self.down), math.prod(self.up)
        self._matrices: tuple[torch.Tensor, torch.Tensor] | None = None
        layer.register_forward_hook(self._add)

    def set(self, down: torch.Tensor, up: torch.Tensor) -> None:
        """Use these weights, in vectors."""
        self._matrices = down.reshape(self.down), up.reshape(self.up)

    def _add(self, _: nn.Module, inputs: tuple[Any, ...], output: torch.Tensor) -> torch.Tensor:
        if self._matrices is None:
            return output
        down, up = self._matrices
        result: torch.Tensor = output + inputs[0] @ down.mT @ up.mT
        return result


def _hats(noisy: NoisyImages) -> torch.Tensor:
    """How near each of n noise levels is to each gate's, linearly: (n, gates), rows of sum 1."""
    logs = np.clip(np.log(noisy.sigmas / noisy.deviation), _GATES[0], _GATES[-1])
    return torch.from_numpy(np.maximum(0, 1 - np.abs(logs[:, None] - _GATES)).astype(np.float32))


class HubDenoiser:
    """A diffusion model of the hub; see `understudy.core.ports.Denoiser`.

    Args:
        pipeline: With a UNet or a DiT, its noise schedule, and an autoencoder where it has latents.
        options: Its options.
        name: The name it was asked for by.
        licence: Of its weights.
    """

    def __init__(
        self, pipeline: Any, options: HubDenoiserOptions, *, name: str, licence: str
    ) -> None:
        self.name, self.licence = name, licence
        self._pipeline, self._options = pipeline, options
        network: Any = getattr(pipeline, "unet", None) or getattr(pipeline, "transformer", None)
        self._network = network
        self._check()
        for part in (network, getattr(pipeline, "vae", None)):
            if part is not None:
                part.eval().requires_grad_(False)
        self._adapters = [
            _Adapter(layer, options.rank)
            for path, layer in network.named_modules()
            if path.endswith(_ADAPTED) and isinstance(layer, nn.Linear)
        ]
        if not self._adapters:
            raise BackendError(f"{name} has no attention layer, which adapters of low rank need")
        self._class_vectors: torch.Tensor | None = None  # of the images in a pass
        for layer in self._level_embeddings:
            layer.register_forward_hook(self._add_class)
        self._lock = threading.Lock()  # held while the network is at some weights
        # Here, for a network travels to the workers of an engine, which load its denoiser.
        self.prompts, self.codec = cache(self._prompts), cache(self._codec)

    def network(self, shape: Shape, classes: Sequence[str]) -> HubNetwork:
        """As of a `Denoiser`: a prompt is the name of a class, where the network reads prompts."""
        return HubNetwork(self, shape, tuple(classes))

    @cached_property
    def latent(self) -> Shape:
        """(channels, height, width) of what the network denoises."""
        sides: Any = self._network.config["sample_size"]
        height, width = (sides, sides) if isinstance(sides, int) else sides
        return int(self._network.config["in_channels"]), int(height), int(width)

    @property
    def adapter_size(self) -> int:
        """Weights of all adapters."""
        return sum(sum(adapter.sizes) for adapter in self._adapters)

    @property
    def class_width(self) -> int:
        """Numbers of a class's vector."""
        layer: Any = self._level_embeddings[0]
        embedder = getattr(layer, "timestep_embedder", layer)
        return int(embedder.linear_2.out_features)

    def initial(self, seed: int) -> NDArray[np.float32]:
        """Adapters that add nothing: one matrix of each is zero."""
        rng, parts = np.random.default_rng(seed), []
        for adapter in self._adapters:
            down, up = adapter.sizes
            normal = rng.standard_normal(down, dtype=np.float32)
            parts.append(normal / np.float32(math.sqrt(adapter.down[1])))
            parts.append(np.zeros(up, dtype=np.float32))
        return np.concatenate(parts)

    def _prompts(self, classes: tuple[str, ...]) -> torch.Tensor | None:
        """Embeddings of the names, (C, tokens, width); None where the network reads no prompt."""
        if not self._network.config.get("cross_attention_dim"):
            return None
        encoder = PromptEncoder(self._pipeline, negative=None, guided=False)
        with exact_kernels():
            embeddings: torch.Tensor = encoder.conditioning(classes)["prompt_embeds"]
        return embeddings.detach()

    def _codec(self, shape: Shape) -> _Codec | None:
        """Images of a shape to latents, and back; None where the network denoises pixels."""
        vae = getattr(self._pipeline, "vae", None)
        if vae is None:
            return None
        height, width = (side * pixels_of_latent(vae) for side in self.latent[1:])
        options = LatentOptions(batch=self._options.batch, size=f"{height}x{width}")
        names = {"name": self.name, "licence": self.licence}
        return (
            AutoencoderEncoder(vae, shape, options, **names),
            AutoencoderDecoder(vae, shape, options, latent=self.latent, **names),
        )

    def exactly(self) -> AbstractContextManager[None]:
        """While records pass through the network: each by itself to the last bit, on a GPU too."""
        return exact_kernels(deterministic=self._network.device.type != "cpu")

    def corrections(
        self,
        weights: torch.Tensor,
        prompts: torch.Tensor | None,
        noisy: NoisyImages,
        labels: Labels,
    ) -> torch.Tensor:
        """F of n noisy images of (n,) classes, by (P,) weights: (n, channels, height, width).

        ``prompts``: (C, tokens, width), where the network reads prompts.
        """
        network = self._network
        images, denoised, sigmas, scales = (
            torch.from_numpy(part).to(network.device)
            for part in (noisy.images, noisy.denoised, noisy.sigmas, noisy.scales)
        )
        index = torch.from_numpy(labels).to(network.device)
        weights = weights.to(network.device)
        sizes = [size for adapter in self._adapters for size in adapter.sizes]
        ends = np.cumsum([*sizes, len(weights) - sum(sizes) - len(_GATES)]).tolist()
        *matrices, vectors, gates = torch.tensor_split(weights, ends)
        with self._lock:
            for number, adapter in enumerate(self._adapters):
                adapter.set(*(part.to(network.dtype) for part in matrices[2 * number :][:2]))
            vectors = vectors.to(network.dtype).reshape(-1, self.class_width)
            self._class_vectors = vectors[index]
            arguments = {} if prompts is None else {"encoder_hidden_states": prompts[index]}
            levels = sigmas.clamp(max=self._most_sigma)[:, None, None, None]
            result = self._denoise(images, levels, arguments)
        gate = torch.sigmoid(_hats(noisy).to(weights) @ gates) / scales
        # With more noise than it was trained on, the Gaussian denoises alone.
        gate = gate * (sigmas <= self._most_sigma)
        return gate[:, None, None, None] * (result - denoised)

    def _denoise(
        self, images: torch.Tensor, sigma: torch.Tensor, arguments: dict[str, Any]
    ) -> torch.Tensor:
        """D(x; sigma) of (n, c, h, w) images and (n, 1, 1, 1) noise levels that it knows."""
        root = torch.sqrt(1 + sigma**2)
        arguments["timestep"] = times = self._times(sigma.flatten())
        if self._no_class is not None:
            arguments["class_labels"] = torch.full_like(times, self._no_class, dtype=torch.long)
        channels = self._network((images / root).to(self._network.dtype), **arguments).sample
        answer: torch.Tensor = channels[:, : images.shape[1]].float()  # variances may follow it
        prediction = self._pipeline.scheduler.config.prediction_type
        if prediction == "epsilon":
            return images - sigma * answer
        if prediction == "v_prediction":
            return images / root**2 - sigma / root * answer
        return answer

    @cached_property
    def _most_sigma(self) -> float:
        """The most noise that the network was trained on."""
        return float(np.exp(self._log_sigmas[-1]))

    @cached_property
    def _log_sigmas(self) -> NDArray[np.float64]:
        """Of each time step of its noise schedule."""
        alphas = self._pipeline.scheduler.alphas_cumprod.double().numpy()
        alphas = np.maximum(alphas, _LEAST_ALPHA)
        return np.asarray(np.log((1 - alphas) / alphas) / 2)

    def _times(self, sigmas: torch.Tensor) -> torch.Tensor:
        """The time steps of noise levels, between whole ones."""
        logs = np.log(sigmas.double().cpu().numpy())
        times = np.interp(logs, self._log_sigmas, np.arange(len(self._log_sigmas)))
        return torch.from_numpy(times).to(sigmas)

    @property
    def _level_embeddings(self) -> list[nn.Module]:
        """The layers that embed the noise level."""
        if isinstance(self._network, diffusers.DiTTransformer2DModel):
            return [block.norm1.emb for block in self._network.transformer_blocks]
        return [self._network.time_embedding]

    @property
    def _no_class(self) -> int | None:
        """The class that stands for none: a DiT was trained with one, of a UNet it is the first."""
        if isinstance(self._network, diffusers.DiTTransformer2DModel):
            return int(self._network.config["num_embeds_ada_norm"])
        return None if self._network.config.get("num_class_embeds") is None else 0

    def _add_class(self, _: nn.Module, inputs: tuple[Any, ...], output: torch.Tensor) -> Any:
        return output if self._class_vectors is None else output + self._class_vectors

    def _check(self) -> None:
        """Refuse what is no such model, before anything is asked of it."""
        pipeline, network, scheduler = self._pipeline, self._network, self._pipeline.scheduler
        config, vae = network.config, getattr(pipeline, "vae", None)
        kinds = (diffusers.UNet2DModel, diffusers.DiTTransformer2DModel)
        with quiet():  # of torchvision, which nothing here needs
            reads_prompts = isinstance(pipeline, diffusers.StableDiffusionPipeline)
        reason = None
        if not (reads_prompts or isinstance(network, kinds)):
            reason = f"it is a {type(pipeline).__name__} of a {type(network).__name__}"
        elif getattr(scheduler, "alphas_cumprod", None) is None:
            reason = f"its schedule is a {type(scheduler).__name__}, which has no alphas_cumprod"
        elif scheduler.config.prediction_type not in _PREDICTIONS:
            reason = f"it predicts {scheduler.config.prediction_type!r}"
        elif config.get("class_embed_type"):
            reason = f"its classes are embedded by {config['class_embed_type']!r}"
        elif config.get("sample_size") is None:
            reason = "it states no sample_size"
        elif {"vqvae", "movq"} & set(pipeline.components) or (
            vae is not None and type(vae).__name__ not in _AUTOENCODERS
        ):
            reason = f"its autoencoder is none of {', '.join(_AUTOENCODERS)}"
        elif self.latent[0] not in ((1, 3) if vae is None else (vae.config["latent_channels"],)):
            reason = f"its network reads {self.latent[0]} channels, which are no image's or latents"
        if reason is not None:
            raise BackendError(
                f"{self.name} cannot be adapted: {reason}. What can be are UNets and DiTs of "
                "diffusers with a noise schedule, of pixels or of an autoencoder's latents: "
                "DDPMPipeline, StableDiffusionPipeline, DiTPipeline"
            )
        if self._options.offload or self._options.compile:
            raise BackendError(
                f"{self.name}: a network that is trained is neither compiled nor offloaded: leave "
                "these options out"
            )


@dataclass(frozen=True)
class HubNetwork:
    """A model of the hub for some classes; see `understudy.core.denoising.TrainableNetwork`."""

    denoiser: HubDenoiser
    image_shape: Shape
    classes: tuple[str, ...]

    @property
    def name(self) -> str:
        """The denoiser's."""
        return self.denoiser.name

    @property
    def shape(self) -> Shape:
        """(channels, height, width), as its own rows are."""
        return self.denoiser.latent

    @property
    def size(self) -> int:
        """Adapters, vectors of classes and gates."""
        vectors = len(self.classes) * self.denoiser.class_width
        return self.denoiser.adapter_size + vectors + len(_GATES)

    @property
    def adapted(self) -> int:
        """All of them."""
        return self.size

    def rows(self, images: Images) -> ImageRows:
        """As of a `TrainableNetwork`: latents, or pixels of -1 to 1."""
        if self._codec is not None:
            return self._codec[0].encode(images)
        channels, height, width = self.shape
        pixels = fit_images(images, (height, width, channels)).transpose(0, 3, 1, 2)
        return np.asarray(pixels.reshape(len(images), -1) / 127.5 - 1, dtype=np.float32)

    def images(self, rows: ImageRows) -> Images:
        """As of a `TrainableNetwork`."""
        if self._codec is not None:
            return self._codec[1].decode(rows)
        pixels = rows.reshape(-1, *self.shape).transpose(0, 2, 3, 1)
        return fit_images(to_uint8((pixels + 1) / 2), self.image_shape)

    def initial(self, *, seed: int) -> Weights:
        """As of a `TrainableNetwork`: those by which the model is what it was."""
        vectors = np.zeros(len(self.classes) * self.denoiser.class_width)
        parts = self.denoiser.initial(seed), vectors, -_GATES
        return np.concatenate(parts).astype(np.float32)

    def predict(self, weights: Weights, noisy: NoisyImages, labels: Labels) -> NDArray[np.float32]:
        """As of a `TrainableNetwork`."""
        vector = torch.from_numpy(weights)
        with self.denoiser.exactly(), torch.no_grad():
            answer = self.denoiser.corrections(vector, self._prompts, noisy, labels)
        result: NDArray[np.float32] = answer.cpu().numpy()
        return result

    def gradients(
        self,
        weights: Weights,
        noisy: NoisyImages,
        labels: Labels,
        targets: NDArray[np.float32],
        last: int,
    ) -> NDArray[np.float32]:
        """As of a `TrainableNetwork`: a record at a time."""
        gradients = []
        for record, label in enumerate(labels):
            one = replace(
                noisy,
                images=noisy.images[record],
                denoised=noisy.denoised[record],
                sigmas=noisy.sigmas[record],
            )
            vector = torch.from_numpy(weights).clone().requires_grad_()
            with self.denoiser.exactly():
                of_class = np.full(len(one.sigmas), label)
                answer = self.denoiser.corrections(vector, self._prompts, one, of_class)
                error = (answer - torch.from_numpy(targets[record]).to(answer)).square().mean()
                gradients.append(torch.autograd.grad(error, vector)[0][-last:])
        result: NDArray[np.float32] = torch.stack(gradients).numpy()
        return result

    @property
    def _codec(self) -> _Codec | None:
        return self.denoiser.codec(self.image_shape)

    @property
    def _prompts(self) -> torch.Tensor | None:
        return self.denoiser.prompts(self.classes)


def load_denoiser(rest: str, options: Mapping[str, Any]) -> HubDenoiser:
    """A denoiser of a pipeline in the hub's format, for `understudy.backends.hub`."""
    read = read_options(options, HubDenoiserOptions, name=f"hf:{rest}")
    name = full_name(f"hf:{rest}", read)
    licence = licence_of(rest, read.revision)
    return HubDenoiser(read_pipeline(rest, read), read, name=name, licence=licence)
