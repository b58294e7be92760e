"""The options of pictures, decoders and autoencoders; every one can stand in a model's name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar

from understudy.backends.arrays import check_side_text, sizes_of
from understudy.backends.hub.hub_models import HubOptions
from understudy.core.option import Option


@dataclass(frozen=True, slots=True)
class DenoisingOptions(HubOptions):
    """Options of everything that samples; those of `HubOptions` besides.

    Attributes:
        steps: Denoising steps; by default the pipeline's own number, made for its own scheduler, or
            the few of a distilled model (`distilled.few_steps`).
        guidance: Classifier-free guidance; 1 or less turns it off. By default the pipeline's own,
            and none for a distilled model.
        scheduler: A scheduler of diffusers by its class name, such as DPMSolverMultistepScheduler
            or LCMScheduler; by default the one in the folder.
        size: Pixels that the model works at, ``"512"``, or ``"512x768"`` for height x width; by
            default the model's own.
    """

    steps: Annotated[int | None, Option("", least=1)] = None
    guidance: float | None = None
    negative: str | None = None
    scheduler: str | None = None
    size: str | None = None

    def __post_init__(self) -> None:
        HubOptions.__post_init__(self)
        check_side_text(self.size)


@dataclass(frozen=True, slots=True)
class GeneratorOptions(DenoisingOptions):
    """Options of a generator; those of `DenoisingOptions` besides.

    Attributes:
        shape: The images it takes and makes, ``"64x64"`` or ``"64x64x1"``; they are resized to and
            from the size the model works at. By default that size, in colour.
        lora: Adapters to fold into the weights, name or folder; those of the denoising network go
            into the inpainting model too.
        inpainting: A true inpainting model of the same family, name or folder; by default the
            model itself inpaints, as far as its family can.
        controlnet: ControlNets by the kind of hint, ``"edges:NAME,pose:NAME"``.
        prior: The prior of a Kandinsky decoder, name or folder: it turns prompts into embeddings.
        seam: Pixels over which inpainting fades in, inside the mask; by default 1/32 of the image.
    """

    shape: str | None = None
    lora: str | None = None
    inpainting: str | None = None
    controlnet: str | None = None
    control_scale: float = 1.0
    prior: str | None = None
    seam: Annotated[int | None, Option("", least=0)] = None

    def __post_init__(self) -> None:
        DenoisingOptions.__post_init__(self)
        if self.shape is not None:
            sizes = sizes_of(self.shape, "shape")
            if len(sizes) not in (2, 3) or sizes[2:] not in ((), (1,), (3,)):
                raise ValueError(f"shape must be like 64x64 or 64x64x1, found {self.shape!r}")
        dict(self.hints())

    def hints(self) -> Iterator[tuple[str, str]]:
        """Kind of hint and name of its ControlNet, for each one told."""
        kinds = set()
        for part in filter(None, (self.controlnet or "").split(",")):
            kind, colon, name = part.partition(":")
            if not (kind and colon and name) or kind == "hf":
                raise ValueError(f"controlnet must be like edges:NAME,pose:NAME, found {part!r}")
            if kind in kinds:
                raise ValueError(f"controlnet names {kind} twice")
            kinds.add(kind)
            yield kind, name


@dataclass(frozen=True, slots=True)
class UnclipOptions(DenoisingOptions):
    """Options of a decoder of image embeddings; those of `DenoisingOptions` besides.

    Attributes:
        scale: What embeddings are multiplied by first. By default the embeddings of an encoder of
            unit norm are given the typical length of those the model was trained on, and others
            stay as they are.
        noise_level: Of `decode`, which is told none.
        prior: The prior of a Kandinsky decoder, name or folder. It knows the typical length of an
            embedding, and the blank one that guidance leads away from.
    """

    scale: Annotated[float | None, Option("", above=0)] = None
    noise_level: Annotated[int, Option("", least=0)] = 0
    prior: str | None = None


@dataclass(frozen=True, slots=True)
class LatentOptions(HubOptions):
    """Options of an autoencoder's halves; those of `HubOptions` besides.

    Attributes:
        size: Pixels that images are resized to first, ``"64"`` or ``"64x96"``; by default the
            dataset's own size.
    """

    exact: ClassVar[bool] = True

    size: str | None = None

    def __post_init__(self) -> None:
        HubOptions.__post_init__(self)
        check_side_text(self.size)
