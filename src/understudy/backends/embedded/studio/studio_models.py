"""``embedded:studio``: the mini studio, or another one that `understudy studio train` made.

Its networks are stored one folder each, in the hub's formats, and run by the same code as the
hub's own models: `clip`, `diffusion`, `vision`, `tuning`. `studio_generator` draws from texts
without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import diffusers
import transformers

from understudy.backends.diffusion.generators import DiffusionGenerator
from understudy.backends.diffusion.loading import loading, read_network, stable_diffusion
from understudy.backends.diffusion.options import GeneratorOptions, UnclipOptions
from understudy.backends.diffusion.pipelines import Pipelines
from understudy.backends.diffusion.unclip import UnclipDecoder
from understudy.backends.embedded.shipped import STUDIO_WEIGHTS
from understudy.backends.embedded.studio.studio_generator import (
    GUIDANCE,
    STUDIO_LICENCE,
    STUDIO_NAME,
    TIMESTEPS,
    StudioOptions,
    hint_kinds,
    studio_tasks,
    studio_vocabulary,
)
from understudy.backends.hub.image_text import HubEncoder, load_hub_encoder
from understudy.backends.hub.pretrained import licence_of, require_own_words
from understudy.backends.hub.zero_shot import ZeroShotCaptioner
from understudy.backends.phrase_grammar import read_grammar
from understudy.backends.plugin import PositiveCount, full_name, read_options
from understudy.backends.vision.segmenters import HubSegmenter, load_segmenter
from understudy.core.errors import BackendError
from understudy.core.ports import Encoder, Model, TextEncoder
from understudy.core.types import Shape, Vocabulary

if TYPE_CHECKING:
    from understudy.backends.tuning.tuner import DreamBooth

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class StudioDecoderOptions(UnclipOptions):
    """Options of the studio's decoder; those of `UnclipOptions` besides.

    Attributes:
        caption: Whether an embedding that comes without a prompt is captioned, and drawn by its
            caption too; None: in the studio of this package, whose world the captioner knows.
        folder: Another studio than the one in this package.
    """

    batch: PositiveCount = 32
    guidance: float | None = GUIDANCE
    caption: bool | None = None
    folder: str | None = None


class Studio:
    """The networks of one studio, each loaded when it is first needed."""

    def __init__(self, folder: str | None = None) -> None:
        self.folder = STUDIO_WEIGHTS if folder is None else Path(folder)
        if not (self.folder / "clip" / "config.json").is_file():
            raise BackendError(
                f"{self.folder} holds no studio: it has no folder clip. "
                "`understudy studio train --out FOLDER` makes one"
            )
        query = "" if folder is None else f"?folder={folder}"
        self.name = f"{STUDIO_NAME}{query}"
        self._shipped = folder is None
        self.licence = STUDIO_LICENCE if folder is None else licence_of(str(self.folder))

    @cached_property
    def vocabulary(self) -> Vocabulary | None:
        """The words of the playhouse's captions; None for a studio of another world."""
        return studio_vocabulary() if self._shipped else None

    def encoder(self, shape: Shape | None, options: Mapping[str, Any]) -> HubEncoder:
        """CLIP: images and texts in one space."""
        left = {key: value for key, value in options.items() if key != "folder"}
        encoder = self._ours(load_hub_encoder(str(self.folder / "clip"), shape, left))
        encoder.vocabulary = self.vocabulary
        return encoder

    def decoder(
        self, shape: Shape, encoder: Encoder | None, options: Mapping[str, Any]
    ) -> UnclipDecoder:
        """UnCLIP: embeddings of `encoder` back to images."""
        read = read_options(options, StudioDecoderOptions, name=STUDIO_NAME)
        name = full_name(STUDIO_NAME, read)
        captions = read.folder is None if read.caption is None else read.caption
        with loading(name):
            normalizer = self._part("image_normalizer", unclip_normalizer(), read)
            noising = diffusers.DDPMScheduler.from_pretrained(self.folder / "image_noising")
        unet = self._part("unet", diffusers.UNet2DConditionModel, read)
        decoder = UnclipDecoder(
            Pipelines(self._text(read, unet), read, name=name, timesteps=TIMESTEPS),
            unet,
            shape,
            read,
            name=name,
            licence=self.licence,
            normalizer=normalizer,
            noising=noising,
            encoder=encoder,
            prompt_reader=(lambda rows: self._reader.captions_of(rows)) if captions else None,
        )
        decoder.vocabulary = self.vocabulary
        return decoder

    @cached_property
    def _reader(self) -> ZeroShotCaptioner:
        """Its own captioner, loaded where an embedding first comes without a prompt."""
        return self.captioner({})

    def generator(self, options: Mapping[str, Any]) -> DiffusionGenerator:
        """Text to images, variation, inpainting and control, all by diffusers."""
        read = read_options(options, StudioOptions, name=STUDIO_NAME)
        name = full_name(STUDIO_NAME, read)
        generator = DiffusionGenerator(
            self._pipelines(read, name), read, name=name, licence=self.licence
        )
        generator.vocabulary = self.vocabulary
        return generator

    def tuner(self, options: Mapping[str, Any]) -> DreamBooth:
        """DreamBooth over the generator."""
        from understudy.backends.tuning.tuner import DreamBooth  # takes a second to import

        read = read_options(options, StudioOptions, name=STUDIO_NAME)
        name = full_name(STUDIO_NAME, read)
        return DreamBooth(self._pipelines(read, name), read, name=name, licence=self.licence)

    def captioner(self, options: Mapping[str, Any]) -> ZeroShotCaptioner:
        """Captions in the words of the playhouse, by the nearest phrases (zero-shot)."""
        grammar = read_grammar(Path(__file__).with_name("grammar.json"))
        encoder = cast(TextEncoder, self.encoder(None, options))
        return ZeroShotCaptioner(encoder, grammar, name=self.name)

    def segmenter(self, options: Mapping[str, Any]) -> HubSegmenter:
        """What is where."""
        if not (self.folder / "segmenter").is_dir():
            raise BackendError(f"{self.name} has no segmenter: it was made from images alone")
        left = {key: value for key, value in options.items() if key != "folder"}
        return self._ours(load_segmenter(str(self.folder / "segmenter"), left))

    def _ours(self, model: M) -> M:
        """A model of the hub's backends under the studio's name, which holds no path."""
        model.name, model.licence = self.name, self.licence
        return model

    def _pipelines(self, options: GeneratorOptions, name: str) -> Pipelines:
        """What draws from texts, and the networks of other tasks."""
        unet, control = diffusers.UNet2DConditionModel, diffusers.ControlNetModel
        inpaints = "inpainting" in studio_tasks(self.folder)
        return Pipelines(
            self._text(options, self._part("unet", unet, options)),
            options,
            name=name,
            inpainting=self._part("inpainting", unet, options) if inpaints else None,
            controlnets={
                kind: self._part(f"controlnet-{kind}", control, options)
                for kind in hint_kinds(self.folder)
            },
            timesteps=TIMESTEPS,
        )

    def _text(self, options: Any, unet: Any) -> Any:
        """The text-to-image pipeline over a network, which it shares."""
        device, dtype = options.placement()
        with loading(self.name):
            clip = self.folder / "clip"
            require_own_words(str(clip), None)
            text = transformers.CLIPTextModel.from_pretrained(
                clip, dtype=dtype, use_safetensors=True
            )
            parts = {
                "tokenizer": transformers.CLIPTokenizer.from_pretrained(clip),
                "text_encoder": text.eval(),
                "vae": self._part("vae", diffusers.AutoencoderTiny, options),
                "unet": unet,
                "scheduler": diffusers.DPMSolverMultistepScheduler.from_pretrained(
                    self.folder / "scheduler"
                ),
            }
        return stable_diffusion(**parts).to(device)

    def _part(self, name: str, kind: Any, options: Any) -> Any:
        if not (self.folder / name).is_dir():
            raise BackendError(
                f"{self.folder} has no folder {name}: a studio draws once its stages vae, clip and "
                "unet are trained (understudy studio train)"
            )
        return read_network(kind, str(self.folder / name), options)


def studio_of(options: Mapping[str, Any]) -> Studio:
    """The studio that the option ``folder`` names, or the one in this package."""
    folder = options.get("folder")
    return Studio(None if folder is None else str(folder))


def studio_encoder(shape: Shape, options: Mapping[str, Any]) -> HubEncoder:
    """CLIP of a studio."""
    return studio_of(options).encoder(shape, options)


def studio_decoder(
    shape: Shape, encoder: Encoder | None, options: Mapping[str, Any]
) -> UnclipDecoder:
    """UnCLIP of a studio."""
    return studio_of(options).decoder(shape, encoder, options)


def unclip_normalizer() -> Any:
    """The class of the network that scales embeddings, which diffusers keeps deep inside."""
    from diffusers.pipelines.stable_diffusion import stable_unclip_image_normalizer

    return stable_unclip_image_normalizer.StableUnCLIPImageNormalizer
