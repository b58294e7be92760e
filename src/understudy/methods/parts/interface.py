"""What `run` needs to know of a method, and what a method is handed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from understudy.core.ports import Decoder, Encoder, LatentEncoder, LinearDecoder, Source
from understudy.core.types import Release, Shape
from understudy.privacy.vault import Vault
from understudy.steps.grid import is_grid


@dataclass(frozen=True)
class Context:
    """What is known of a run before anything private is read.

    Attributes:
        shape: Shape of a record.
        encoder: The encoder, or None.
        decoder: The decoder, or None.
        public: Whether a public dataset is given.
        mu: Gaussian-DP parameter of the run's budget.
    """

    shape: Shape
    encoder: Encoder | None
    decoder: Decoder | None
    public: bool
    mu: float

    @property
    def grid(self) -> Shape | None:
        """(C, H, W) of the latents, where images are decoded from a grid and some are public."""
        latent = self.encoder.latent if isinstance(self.encoder, LatentEncoder) else ()
        images = self.decoder is not None and not isinstance(self.decoder, LinearDecoder)
        return latent if images and self.public and is_grid(latent) else None


@dataclass(frozen=True)
class Materials:
    """Everything a method works with besides its parameters. All of it is public but the vault.

    Attributes:
        vault: The private rows.
        classes: Public class names; labels index into them.
        shape: Shape of a private record: (height, width, channels) or (d,).
        encoder: Images to embeddings; None where the source holds embeddings.
        decoder: Embeddings back to images; None for a release of embeddings.
        public: A public dataset, for what may be learnt for free; or None.
        count: Synthetic rows wanted; None: about as many as there are private ones (noisy).
        seed: Seed of everything public. Never of the noise.
        mu: Gaussian-DP parameter of the run's budget.
        progress: Given words for a step, returns a function that is called with rows done.
    """

    vault: Vault
    classes: tuple[str, ...]
    shape: Shape
    encoder: Encoder | None
    decoder: Decoder | None
    public: Source | None
    count: int | None
    seed: int
    mu: float
    progress: Callable[[str, int | None], Callable[[int], None]]

    @property
    def context(self) -> Context:
        """What of it is known before anything private is read."""
        return Context(self.shape, self.encoder, self.decoder, self.public is not None, self.mu)


@dataclass(frozen=True)
class Method:
    """A method as the registry and the command line see it.

    Attributes:
        name: Its name on the command line.
        summary: One line.
        source: The paper.
        params: A frozen dataclass of parameters with defaults; it checks itself.
        settle: Parameters and context to parameters with nothing left open, for the record.
        weights: Parameters and context to the weight of each stage in the budget. Raises
            ConfigError for parameters that do not fit the context, before anything is spent.
        run: Does it.
    """

    name: str
    summary: str
    source: str
    params: Callable[..., Any]
    settle: Callable[[Any, Context], Any]
    weights: Callable[[Any, Context], Mapping[str, float]]
    run: Callable[[Materials, Any], Release]
    options: Mapping[str, str] = field(default_factory=dict)
