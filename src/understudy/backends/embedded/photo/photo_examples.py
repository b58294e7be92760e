"""Public examples of ``embedded:photo``: what its prior draws others like them by.

An example is a public image's latents, their description, and features of the image
(`understudy.backends.embedded.example_features`). Others like it are drawn by the description, from
its latents with noise on them. A file holds coarse latents for one size of grid; for another one
they are decoded, and the images encoded at their new size. All are whole numbers of eight bits.
Those of small grey images have a file of their own.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from understudy.backends.arrays import fit_images
from understudy.backends.embedded.example_features import (
    SMALL_IMAGE,
    ExampleFeatures,
    Features,
    FeatureScattering,
    features_of_public,
)
from understudy.backends.embedded.photo.latent_prior import encoder_sum
from understudy.backends.embedded.photo.photo_models import (
    PHOTO_NAME,
    PIXELS_A_PLACE,
    PRIOR,
    PhotoDecoder,
    PhotoEncoder,
    PhotoOptions,
    PhotoPriorDecoder,
    autoencoder_folder,
    photo_decoder_of,
    photo_licence,
)
from understudy.backends.plugin import full_name, read_options
from understudy.core.errors import BackendError
from understudy.core.public_examples import Described, DescribedBy
from understudy.core.types import Embeddings, Images, Labels, Seeds, Shape

_FILE, _SMALL_FILE = "examples.safetensors", "small_grey_examples.safetensors"
SMALL_GRID = SMALL_IMAGE // PIXELS_A_PLACE
"""Side of the grid of small images."""

_REACH = 6.0  # of descriptions, whose deviation is about 1
_LEVELS = 127


@dataclass(frozen=True)
class Recoding:
    """Latents of one size of grid to those of another, by way of images.

    Attributes:
        side: Places a side of the one.
        shape: (height, width, channels) of the images of the other.
        options: Of the autoencoder, which is loaded when it is wanted.
    """

    side: int
    shape: Shape
    options: PhotoOptions

    @cached_property
    def _decoder(self) -> PhotoDecoder:
        pixels = self.side * PIXELS_A_PLACE
        return PhotoDecoder((pixels, pixels, self.shape[2]), self.options)

    @cached_property
    def _encoder(self) -> PhotoEncoder:
        return PhotoEncoder(self.shape, self.options)

    def __call__(self, latents: Embeddings) -> Embeddings:
        """(n, d) float32 to (n, d') float32."""
        return self._encoder.encode(fit_images(self._decoder.decode(latents), self.shape))


@dataclass(frozen=True)
class PhotoExamples(ExampleFeatures):
    """Examples that others are drawn like (`understudy.core.public_examples.PublicExamples`).

    Attributes:
        descriptions: (m, k) float32.
        decoder: Draws by them.
        latents: (m, d) float32.
        recoding: To latents of the decoder; None: they are.
    """

    descriptions: NDArray[np.float32]
    decoder: PhotoPriorDecoder
    latents: Embeddings
    recoding: Recoding | None = None
    how: ClassVar[str] = "drawn like public examples of the images' kind"

    def draw(self, rows: Labels, *, seeds: Seeds) -> Images:
        """An image like each of these n examples: (n, height, width, channels) uint8."""
        start = self.latents[rows] if self.recoding is None else self.recoding(self.latents[rows])
        latents = self.decoder.draw(self.descriptions[rows], seeds=seeds, start=start)
        return self.decoder.decode(latents, seeds=seeds)


class PhotoExampleGenerator:
    """Draws images like public examples, by the prior of ``embedded:photo``.

    Args:
        options: See `PhotoOptions`.
    """

    def __init__(self, options: PhotoOptions) -> None:
        self.name, self.licence = full_name(PHOTO_NAME, options), photo_licence(options)
        self._folder = autoencoder_folder(options)
        self._encoder_of = cache(lambda shape: PhotoEncoder(shape, options))
        self._decoder_of = cache(lambda shape: photo_decoder_of(shape, options))
        self._known: dict[Shape, PhotoExamples | None] = {}

    def known(self, shape: Shape) -> PhotoExamples | None:
        """Its own examples for images (height, width, channels); None: it has none for these.

        Raises:
            BackendError: They are described by another autoencoder than the folder holds.
        """
        if shape not in self._known:
            decoder = self._decoder_of(shape)
            own = None
            if isinstance(decoder, PhotoPriorDecoder):
                own = read_examples(self._folder, decoder)
            self._known[shape] = own
        return self._known[shape]

    def describes(self, shape: Shape) -> DescribedBy:
        """The autoencoder for images (height, width, channels), whose latents are described.

        Raises:
            BackendError: The prior has not learnt latents of such images, or there is none.
        """
        decoder = self._decoder_of(shape)
        if not isinstance(decoder, PhotoPriorDecoder):
            raise BackendError(
                f"{self.name} draws no images of {shape[0]} x {shape[1]} pixels: it has no prior "
                "for these. embedded:unchanged takes public images of any size as they are"
            )
        return DescribedBy(self._encoder_of(shape), decoder)

    def like(self, images: Images, described: Described | None) -> PhotoExamples:
        """Examples that are other public images, (m, height, width, channels).

        Raises:
            BackendError: They are not described, or as `describes`.
        """
        shape: Shape = (images.shape[1], images.shape[2], images.shape[3])
        decoder = self.describes(shape).decoder
        if described is None or not isinstance(decoder, PhotoPriorDecoder):
            raise BackendError(f"{self.name} draws by descriptions, and was given none")
        own = self.known(shape)
        features = features_of_public(images, None if own is None else own.encode)
        latents, descriptions = described
        return PhotoExamples(
            **vars(features), descriptions=descriptions, decoder=decoder, latents=latents
        )


def photo_example_generator(options: Mapping[str, Any]) -> PhotoExampleGenerator:
    """With ``options`` as in a model's name."""
    return PhotoExampleGenerator(read_options(options, PhotoOptions, name=PHOTO_NAME))


def write_examples(
    folder: Path,
    features: ExampleFeatures,
    latents: Embeddings,
    descriptions: Mapping[int, NDArray[np.float32]],
) -> Path:
    """Write examples into the folder of an autoencoder's prior.

    Args:
        folder: Of the autoencoder whose latents are described.
        features: What the examples show.
        latents: (m, d) for the smallest of the grids.
        descriptions: (m, k) by the sides of grids.

    Returns:
        The file.
    """
    steps = np.abs(features.features).max(axis=0) / _LEVELS
    arrays = {
        "centre": features.encode.centre,
        "axes": features.encode.axes.astype(np.float16),
        "features": np.rint(features.features / steps).astype(np.int8),
        "steps": steps.astype(np.float32),
        "clusters": features.clusters.astype(np.int16),
        "kinds": features.kinds.astype(np.int16),
        "radii": features.radii.astype(np.float32),
        "latent_step": latents.std(dtype=np.float64, keepdims=True).ravel().astype(np.float32),
    }
    parts = np.rint(np.clip(latents / arrays["latent_step"], -_LEVELS, _LEVELS)).astype(np.int8)
    packed = zlib.compress(parts.tobytes(), 9)
    arrays[f"{min(descriptions)}.latents"] = np.frombuffer(packed, dtype=np.uint8)
    for side, values in descriptions.items():
        levels = np.rint(np.clip(values, -_REACH, _REACH) * (_LEVELS / _REACH))
        arrays[f"{side}.descriptions"] = levels.astype(np.int8)
    about = {"encoder": encoder_sum(folder), "kinds": json.dumps(features.kind_names)}
    file = folder / PRIOR / (_SMALL_FILE if min(descriptions) <= SMALL_GRID else _FILE)
    save_file(arrays, file, metadata=about)
    file.chmod(0o644)
    return file


def read_examples(folder: Path, decoder: PhotoPriorDecoder) -> PhotoExamples | None:
    """The examples of an autoencoder's folder that a decoder can draw; None where there are none.

    Raises:
        BackendError: They are described by another autoencoder.
    """
    small = max(decoder.shape[:2]) <= SMALL_IMAGE
    path = folder / PRIOR / (_SMALL_FILE if small else _FILE)
    if not path.is_file() or (small and decoder.shape[2] != 1):
        return None
    with safe_open(path, "np") as stored:
        about: dict[str, str] = stored.metadata()
        if about["encoder"] != encoder_sum(folder):
            raise BackendError(
                f"{path} describes images by another autoencoder than {folder} holds now: "
                "remove it, or make it again (`understudy studio examples`)"
            )
        side = int(decoder.description["shape"][1])
        arrays: dict[str, NDArray[Any]] = {
            name: stored.get_tensor(name)
            for name in stored.keys()  # noqa: SIM118
            if not name.endswith("descriptions") or name.startswith(f"{side}.")
        }
    levels = arrays.get(f"{side}.descriptions")
    if levels is None:
        return None
    scattering = FeatureScattering(decoder.shape)
    (coded,) = (int(name.partition(".")[0]) for name in arrays if name.endswith(".latents"))
    parts = np.frombuffer(zlib.decompress(arrays[f"{coded}.latents"].tobytes()), dtype=np.int8)
    recoding = None
    if decoder.latent[1:] != (coded, coded):
        recoding = Recoding(coded, decoder.shape, decoder.options)
    return PhotoExamples(
        arrays["features"].astype(np.float32) * arrays["steps"],
        arrays["clusters"].astype(np.int64),
        arrays["kinds"].astype(np.int64),
        tuple(json.loads(about["kinds"])),
        arrays["radii"],
        Features(arrays["centre"], arrays["axes"].astype(np.float32), scattering),
        levels.astype(np.float32) * np.float32(_REACH / _LEVELS),
        decoder,
        parts.reshape(len(levels), -1) * arrays["latent_step"],
        recoding,
    )
