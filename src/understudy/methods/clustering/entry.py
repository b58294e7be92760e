"""What is decided about the space of the statistics before anything private is looked at."""

from __future__ import annotations

from dataclasses import dataclass

from understudy.core.errors import ConfigError
from understudy.core.types import Shape
from understudy.methods.base import Context
from understudy.steps.grid import description_length

_MATRIX_DIM = 1024  # a full covariance of more dimensions is refused or cut
_IMAGE_COMPONENTS = 400
_EMBEDDING_COMPONENTS = 256


@dataclass(frozen=True)
class Entry:
    """What is decided about the space from public facts.

    Attributes:
        total: D, the length of an embedding.
        dim: d, the dimensions that statistics are taken in.
        power: Signed power of the embeddings first; None: by the sign of public embeddings.
        whiten: Whether public images whiten the space.
        bound: A bound on norms in the space that is known without looking; None: ask.
        images: Whether images are released.
        grid: Shape of the latents whose descriptions are the space; None: a linear space.
        ordered: Whether the numbers of a linear space come in order of importance: by the encoder's
            word, or by their variance on public images.
    """

    total: int
    dim: int
    power: float | None
    whiten: bool
    bound: float | None
    images: bool
    grid: Shape | None = None
    ordered: bool = False

    @classmethod
    def of(
        cls,
        context: Context,
        power: float | None,
        components: int | None,
        *,
        matrix: bool,
        whiten: bool,
    ) -> Entry:
        """Decide.

        Args:
            context: The run's public facts.
            power: Of the parameters.
            components: Of the parameters; None: chosen.
            matrix: Whether a full covariance will be measured.
            whiten: Whether public images, where there are some, whiten the space.

        Raises:
            ConfigError: More dimensions than a full covariance can be measured in.
        """
        encoder = context.encoder
        total = int(context.shape[0]) if encoder is None else encoder.dim
        grid = cls.grid_of(context, power, components)
        if grid is not None:
            return cls(total, description_length(grid), None, True, None, True, grid)
        public = context.public and whiten
        ordered = public or (encoder is not None and encoder.ordered)
        if components is None and matrix and ordered:
            components = _IMAGE_COMPONENTS if context.decoder is not None else _EMBEDDING_COMPONENTS
        if components is not None and components < total and not ordered:
            raise ConfigError(
                f"components={components} needs --public images to choose the directions by: the "
                f"{total} dimensions of this encoder come in no order"
            )
        dim = total if components is None else min(components, total)
        if matrix and dim > _MATRIX_DIM:
            raise ConfigError(
                f"a full covariance of {dim} dimensions is more than {_MATRIX_DIM}: give --public "
                "images and --set components=256, or take --set covariance=diagonal"
            )
        bound = None
        if encoder is not None and not public and power in (None, 1):
            bound = encoder.norm_bound
        images = context.decoder is not None
        return cls(total, dim, power, public, bound, images, ordered=ordered)

    @staticmethod
    def grid_of(context: Context, power: float | None, components: int | None) -> Shape | None:
        """Shape of the latents where their descriptions are the space.

        Whoever asks for a power or a number of components wants the linear space.
        """
        return context.grid if power is None and components is None else None
