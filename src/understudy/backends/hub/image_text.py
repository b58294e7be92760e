"""``hf:MODEL`` as an encoder: CLIP and SigLIP (images and text), DINO (images).

    hf:openai/clip-vit-base-patch32
    hf:google/siglip2-base-patch16-224
    hf:facebook/dinov2-small
    hf:sd2-community/stable-diffusion-2-1-unclip?subfolder=image_encoder

Embeddings have unit norm unless ``normalise=false``, which leaves out the texts: cosines compare
the two kinds only at the same length.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray

from understudy.backends.arrays import (
    BELOW_ONE,
    index_slices,
    require_any_images,
    require_images,
)
from understudy.backends.hub.hub_models import Config, HubOptions
from understudy.backends.hub.preprocessing import read_preparation
from understudy.backends.hub.pretrained import (
    config_of,
    licence_of,
    load_network,
    load_tokenizer,
    running,
    wrong_kind,
)
from understudy.backends.plugin import PositiveCount, full_name, read_options
from understudy.core.errors import BackendError
from understudy.core.independence import even_parts
from understudy.core.option import Option
from understudy.core.types import Embeddings, Images, Shape, Texts, Vocabulary

CONTRASTIVE = frozenset({"altclip", "chinese_clip", "clip", "metaclip_2", "siglip"})
"""``model_type`` of models with images and texts in one space."""

_DINO = frozenset({"dinov2", "dinov2_with_registers", "dinov3_vit", "vit"})
_TOWERS = frozenset({"CLIPVisionModel", "CLIPVisionModelWithProjection", "SiglipVisionModel"})
_TOKENS = 16  # texts are filled up to a multiple of so many tokens

FeatureFunction = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, slots=True)
class HubEncoderOptions(HubOptions):
    """Options of an encoder, besides those of `HubOptions`.

    Attributes:
        subfolder: Folder inside the model, for an image encoder that is part of a pipeline.
        size: Pixels a side that images are resized to, instead of what the model's files say;
            smaller is faster, and further from what the model was trained on.
    """

    exact: ClassVar[bool] = True

    batch: PositiveCount = 64
    subfolder: str | None = None
    size: Annotated[int | None, Option("", least=1)] = None
    normalise: bool = True


class HubEncoder:
    """Images to embeddings by a network of the hub."""

    ordered = False
    vocabulary: Vocabulary | None = None

    def __init__(
        self, model: str, shape: Shape | None, options: HubEncoderOptions, config: Config
    ) -> None:
        self.name = full_name(f"hf:{model}", options)
        self.shape = shape
        self.norm_bound = 1.0 if options.normalise else None
        self.licence = licence_of(model, options.revision)
        self._options = options
        self._network = _load(model, options, config)
        self._config: Any = self._network.config
        preparation = read_preparation(
            model, revision=options.revision, subfolder=options.subfolder
        )
        self._preparation = preparation.with_size(options.size)
        features: FeatureFunction = partial(_features(self._network), self._network)
        self._features = torch.compile(features) if options.compile else features
        probe = np.zeros((1, *(shape or (64, 64, 3))), dtype=np.uint8)
        self.dim = int(self._raw(probe).shape[1])

    def encode(self, images: Images) -> Embeddings:
        """(n, height, width, channels) uint8 to (n, d) float32."""
        if self.shape is not None:
            require_images(images, self.shape, self.name)
        require_any_images(images, self.name)
        out = np.empty((len(images), self.dim), dtype=np.float32)
        for rows, part in even_parts(images, self._options.batch):
            out[rows] = self._raw(part)[: len(out[rows])]
        return _finished(out, self._options.normalise, self.name)

    def _raw(self, images: Images) -> NDArray[np.float32]:
        """One batch: (n, d), of any norm."""
        device, dtype = self._options.placement()
        with running(self._network, self._options):
            values = self._features(self._preparation(images, device, dtype))
            return values.float().cpu().numpy()


class HubTextEncoder(HubEncoder):
    """Images and texts to embeddings of one space."""

    def __init__(
        self, model: str, shape: Shape | None, options: HubEncoderOptions, config: Config
    ) -> None:
        super().__init__(model, shape, options, config)
        self._tokenizer = load_tokenizer(
            model, options.revision, name=f"hf:{model}", subfolder=options.subfolder
        )
        # SigLIP was trained on texts filled up to the end, without a mask.
        self._fills = self._config.model_type == "siglip"
        self._longest = int(self._config.text_config.max_position_embeddings)
        if self._config.model_type == "altclip":  # RoBERTa counts positions from 2 on
            self._longest -= 2

    def encode_text(self, texts: Texts) -> Embeddings:
        """n texts to (n, d) float32 of unit norm; the longest are cut off."""
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise BackendError(f"{self.name} takes a list of texts")
        out = np.empty((len(texts), self.dim), dtype=np.float32)
        widths = self._widths(texts)
        for width in np.unique(widths):
            alike = np.flatnonzero(widths == width)
            for rows in index_slices(len(alike), self._options.batch):
                part = [texts[index] for index in alike[rows]]
                out[alike[rows]] = self._of_width(part, int(width))
        return _finished(out, True, self.name)

    def _widths(self, texts: Texts) -> NDArray[np.int64]:
        """How many tokens each text is filled up to, (n,): by its own length alone."""
        if self._fills or len(texts) == 0:
            return np.full(len(texts), self._longest)
        tokens = self._tokenizer(list(texts), truncation=True, max_length=self._longest)
        lengths = np.array([len(ids) for ids in tokens["input_ids"]])
        return np.asarray(np.minimum(-(-lengths // _TOKENS) * _TOKENS, self._longest))

    def _of_width(self, texts: list[str], width: int) -> NDArray[np.float32]:
        """Raw embeddings of at most a batch of texts, always of that many at once: (n, d)."""
        device, _ = self._options.placement()
        network: Any = self._network
        tokens = self._tokenizer(
            texts + [""] * (self._options.batch - len(texts)),
            padding="max_length",
            truncation=True,
            max_length=width,
            return_tensors="pt",
        ).to(device)
        used = {"input_ids": tokens["input_ids"]}
        if not self._fills:
            used["attention_mask"] = tokens["attention_mask"]
        with running(self._network, self._options):
            embeddings = _pooled(network.get_text_features(**used)).float().cpu().numpy()
        return np.asarray(embeddings[: len(texts)], dtype=np.float32)


def load_hub_encoder(rest: str, shape: Shape | None, options: Mapping[str, Any]) -> HubEncoder:
    """The encoder of a model of the hub."""
    name = f"hf:{rest}"
    read = read_options(options, HubEncoderOptions, name=name)
    config = config_of(rest, revision=read.revision, subfolder=read.subfolder)
    speaks = config.get("model_type") in CONTRASTIVE and "text_config" in config
    kind = HubTextEncoder if speaks and read.normalise else HubEncoder
    return kind(rest, shape, read, config)


def _load(model: str, options: HubEncoderOptions, config: Config) -> Any:
    """The network, of the class that its files name."""
    family = config.get("model_type", "")
    built = str(next(iter(config.get("architectures") or []), ""))
    standard = family in CONTRASTIVE | _DINO | {"clip_vision_model", "siglip_vision_model"}
    if not standard and built not in _TOWERS:
        raise wrong_kind(f"hf:{model}", "encoder of images", config)
    import transformers

    kind = getattr(transformers, built) if built in _TOWERS else transformers.AutoModel
    left_out: dict[str, Any] = {"add_pooling_layer": False} if family == "vit" else {}
    return load_network(
        kind, model, options, subfolder=options.subfolder, port="encoder of images", **left_out
    )


def _features(network: Any) -> Callable[[Any, torch.Tensor], torch.Tensor]:
    """What makes embeddings of prepared images with such a network."""
    if network.config.model_type in _DINO:
        return _class_token
    return _joint if hasattr(network, "get_image_features") else _tower


def _joint(network: Any, pixels: torch.Tensor) -> torch.Tensor:
    other = _other_size(network.config.vision_config, pixels)
    return _pooled(network.get_image_features(pixels, interpolate_pos_encoding=other))


def _tower(network: Any, pixels: torch.Tensor) -> torch.Tensor:
    outputs = network(pixels, interpolate_pos_encoding=_other_size(network.config, pixels))
    return _pooled(outputs if "image_embeds" not in outputs else outputs.image_embeds)


def _class_token(network: Any, pixels: torch.Tensor) -> torch.Tensor:
    more = {"interpolate_pos_encoding": True} if network.config.model_type == "vit" else {}
    return network(pixels, **more).last_hidden_state[:, 0]  # type: ignore[no-any-return]


def _pooled(outputs: Any) -> torch.Tensor:
    return outputs if isinstance(outputs, torch.Tensor) else outputs.pooler_output


def _other_size(config: Any, pixels: torch.Tensor) -> bool:
    """Whether images have not the size that the positions were learned at."""
    return tuple(pixels.shape[2:]) != (config.image_size, config.image_size)


def _finished(rows: NDArray[np.float32], normalise: bool, name: str) -> Embeddings:
    """Checked, and of unit norm if so asked."""
    if not np.isfinite(rows).all():
        raise BackendError(
            f"{name} gave embeddings that are not finite; with dtype=float16 try bfloat16 or "
            "float32"
        )
    if not normalise:
        return rows
    exact = rows.astype(np.float64)
    norms = np.linalg.norm(exact, axis=1, keepdims=True)
    unit: Embeddings = (exact / np.maximum(norms, 1e-12) * BELOW_ONE).astype(np.float32)
    return unit
