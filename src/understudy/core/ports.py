"""What a model or a dataset must offer; implementations live in ``backends`` and ``data``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from understudy.core.denoising import Denoiser as Denoiser
from understudy.core.types import (
    Batch,
    Embeddings,
    Found,
    Images,
    Maps,
    Masks,
    Scores,
    Seeds,
    Shape,
    Texts,
    Vector,
    Vocabulary,
)

T = TypeVar("T")
R = TypeVar("R")


@runtime_checkable
class Encoder(Protocol):
    """Images to embeddings.

    Attributes:
        name: The name it was asked for by, such as ``"embedded:dct"``.
        dim: d, the length of an embedding.
        norm_bound: A number that no embedding's L2 norm exceeds, known without looking at any
            private image; None where none is known.
        ordered: Whether the numbers of an embedding come in order of importance, so that the first
            ones can stand for all.
        licence: Licence and origin of the weights, for the card; ``"none"`` without weights.
    """

    name: str
    dim: int
    norm_bound: float | None
    ordered: bool
    licence: str

    def encode(self, images: Images) -> Embeddings:
        """Embed (n, height, width, channels) uint8 images: (n, d) float32, finite.

        A row depends on its own image only, to the last bit: private images come in batches of one
        shape, and a run refuses an encoder of which it is not true
        (docs/promise.md, "Record independence"). n = 0 gives (0, d).
        """
        ...


@runtime_checkable
class LatentEncoder(Encoder, Protocol):
    """An encoder that says what shape its embeddings had before they were flattened.

    Attributes:
        latent: That shape; (channels, height, width) where they lie on a grid.
    """

    latent: Shape


@runtime_checkable
class Decoder(Protocol):
    """Embeddings to images.

    Image i depends on embedding i and seed i, and not on its batch (up to float rounding). One with
    a ``block`` above 0 makes so many images of a call at a time, to the same bit on any machine.

    Attributes:
        name: The name it was asked for by.
        dim: d, the length of an embedding it takes.
        shape: (height, width, channels) of the images it makes.
        licence: Licence and origin of the weights.
        stochastic: Whether an image depends on its seed, as where a diffusion draws it. Without,
            an embedding has one image, and seeds are ignored.
    """

    name: str
    dim: int
    shape: Shape
    licence: str
    stochastic: bool

    def decode(self, embeddings: Embeddings, *, seeds: Seeds) -> Images:
        """Decode (n, d) float32 embeddings with (n,) seeds: (n, height, width, channels) uint8."""
        ...


@runtime_checkable
class LinearDecoder(Decoder, Protocol):
    """A decoder that is linear up to the last step, the cut to the range of a pixel."""

    def pixels(self, embeddings: Embeddings) -> NDArray[np.float32]:
        """Before that cut: (n, height, width, channels) float32, 0 black to 1 white, unbounded."""
        ...


@runtime_checkable
class TextEncoder(Encoder, Protocol):
    """An encoder that puts texts into the space of its images: cosines compare the two.

    Both kinds of embedding have unit norm.
    """

    def encode_text(self, texts: Texts) -> Embeddings:
        """Embed n texts: (n, d) float32 of unit norm."""
        ...


@runtime_checkable
class ScoringEncoder(Encoder, Protocol):
    """An encoder that is a classifier: the Inception network of FID and the Inception score."""

    def score(self, images: Images) -> tuple[Embeddings, Embeddings | None]:
        """(n, d) float32 features, and (n, classes) float32 probabilities, rows summing to 1.

        The latter are None where the network was cut off before its classes.
        """
        ...


@runtime_checkable
class Model(Protocol):
    """What every model below states.

    Attributes:
        name: The name it was asked for by; asking again gives the same model.
        licence: Licence and origin of the weights, for the card.
    """

    name: str
    licence: str


@runtime_checkable
class Generator(Model, Protocol):
    """Text to images, and what else the same model can do.

    Row i of a call with ``seed`` depends on its own inputs, on ``seed`` and on i, and not on how
    rows are put in batches (up to float rounding).

    Attributes:
        shape: (height, width, channels) of the images it makes.
        tasks: What it can do: ``"text"``, ``"variation"``, ``"inpainting"``, and ``"control:KIND"``
            for each kind of hint, such as ``"control:edges"``. The method of a task that is not
            listed raises `UnsupportedTask`.
    """

    shape: Shape
    tasks: frozenset[str]

    def generate(self, prompts: Texts, *, seed: int = 0) -> Images:
        """One image a prompt: (n, height, width, channels) uint8."""
        ...

    def vary(self, images: Images, prompts: Texts, *, strength: float, seed: int = 0) -> Images:
        """Image to image: ``strength`` in [0, 1], 0 gives the image back, 1 forgets it."""
        ...

    def inpaint(
        self,
        images: Images,
        masks: Masks,
        prompts: Texts,
        *,
        seed: int = 0,
        control: tuple[str, Images] | None = None,
        negative: str | None = None,
    ) -> Images:
        """Draw anew where a mask is True; every other pixel stays exactly as it was.

        Args:
            images: (n, height, width, channels) uint8.
            masks: (n, height, width).
            prompts: What is drawn, one an image.
            seed: Of the noise.
            control: A kind of hint and a hint for each image, which what is drawn follows; for
                models that list both tasks.
            negative: What not to draw, instead of the model's own negative prompt; without
                classifier-free guidance it counts for nothing.
        """
        ...

    def control(self, kind: str, hints: Images, prompts: Texts, *, seed: int = 0) -> Images:
        """Images that follow hints (n, height, width, channels) uint8, such as edges or poses."""
        ...


@runtime_checkable
class StepwiseModel(Model, Protocol):
    """A generator or decoder that draws in denoising steps.

    Attributes:
        sampling: Steps and guidance in words, and where they come from; for the plan of a run.
    """

    sampling: str


@runtime_checkable
class PromptedDecoder(Decoder, Protocol):
    """A decoder that is told what to draw besides (unCLIP)."""

    def decode_prompted(
        self, embeddings: Embeddings, prompts: Texts, *, seeds: Seeds, noise_level: int = 0
    ) -> Images:
        """Decode (n, d) float32 embeddings of images with a class prompt and a seed each.

        ``noise_level`` is the step of the noising schedule that the embeddings are moved to first:
        more of it means more variety and less likeness.
        """
        ...


@runtime_checkable
class TaughtModel(Model, Protocol):
    """A model that says which words it was taught.

    Attributes:
        vocabulary: Those words; None where they are unknown or as good as all.
    """

    vocabulary: Vocabulary | None


@runtime_checkable
class Tuner(Model, Protocol):
    """Fine-tunes a generator on a few images of one subject (DreamBooth)."""

    def tune(
        self,
        images: Images,
        prompt: str | Sequence[str],
        *,
        class_prompt: str | None = None,
        settings: Mapping[str, Any] | None = None,
        seed: int = 0,
        masks: Masks | None = None,
    ) -> Generator:
        """A new generator that knows the subject by ``prompt``; the old one is unchanged.

        Args:
            images: (n, height, width, channels) uint8 of the subject.
            prompt: Names the subject by a rare word, such as ``"a photo of xyz dog"``; one for all
                images, or one an image.
            class_prompt: Names its class, for prior preservation; None leaves that out.
            settings: Of the tuner: steps, learning rate, rank, ...
            seed: Of the training.
            masks: (n, height, width) bool: the pixels to learn from, some in each image; None: all.
        """
        ...

    def of(self, generator: Generator) -> Tuner:
        """A tuner of a generator that this one has tuned: its tunings go on from there.

        Raises:
            BackendError: A generator of another kind.
        """
        ...

    def changes(self, generator: Generator) -> bytes:
        """The weights of a tuned generator that differ from those this tuner began with.

        Raises:
            BackendError: A generator of another kind.
        """
        ...

    def restore(self, changes: bytes) -> Generator:
        """The generator of these weights.

        Raises:
            BackendError: They are of another model.
        """
        ...


@runtime_checkable
class Captioner(Model, Protocol):
    """Images to texts."""

    def caption(self, images: Images) -> list[str]:
        """One caption an image, never empty."""
        ...


@runtime_checkable
class Writer(Model, Protocol):
    """Writes captions: RANDOM_API and VARIATION_API of text Private Evolution."""

    def write(self, count: int, *, label: str | None = None, seed: int = 0) -> list[str]:
        """``count`` captions from nothing, of a class if one is given."""
        ...

    def vary(self, texts: Texts, *, degree: float = 0.5, seed: int = 0) -> list[str]:
        """One variation a text; ``degree`` in [0, 1] is how much of it may change."""
        ...


@runtime_checkable
class Segmenter(Model, Protocol):
    """Images to semantic maps."""

    classes: tuple[str, ...]

    def segment(self, images: Images) -> Maps:
        """(n, height, width) int64 at the size of the images."""
        ...


@runtime_checkable
class ScoringSegmenter(Segmenter, Protocol):
    """A segmenter that says how sure it is of a class at each pixel.

    What must not be missed is found at a lower score than the best class needs.
    """

    def score(self, images: Images, classes: Texts) -> Scores:
        """The scores of some classes: (n, len(classes), height, width) float32 in [0, 1].

        The class of a pixel in `segment` is the one with its largest score (up to rounding). A row
        depends on its own image only.

        Args:
            images: (n, height, width, channels) uint8.
            classes: Some of the model's class names, in any order.

        Raises:
            BackendError: No images, or a class that the model does not know.
        """
        ...


@runtime_checkable
class Detector(Model, Protocol):
    """Images to objects: boxes, and masks where the model gives instances."""

    classes: tuple[str, ...]

    def detect(self, images: Images) -> list[Found]:
        """What is in each image."""
        ...


@runtime_checkable
class PoseEstimator(Model, Protocol):
    """Images to keypoints."""

    keypoints: tuple[str, ...]

    def pose(self, images: Images) -> list[NDArray[np.float32]]:
        """For each image (people, keypoints, 3): x and y in pixels, and a score in [0, 1]."""
        ...


@runtime_checkable
class PerceptualDistance(Model, Protocol):
    """How different two pictures look, such as LPIPS."""

    def distance(self, a: Images, b: Images) -> Vector:
        """Of each pair of (n, height, width, channels) uint8: (n,), 0 for the same picture."""
        ...


@runtime_checkable
class Source(Protocol):
    """A dataset that can be read any number of times, in the same order, in a stream.

    Attributes:
        name: The name it was opened by.
        kind: ``"images"`` or ``"embeddings"``.
        shape: Shape of one record: (height, width, channels) or (d,). Public.
        classes: Class names, sorted as labels index them. Public. ``("all",)`` without labels.
        has_units: Whether rows carry a unit.
        skipped: Bad files passed over so far (``--skip-bad``). Owner-only.
    """

    name: str
    kind: Literal["images", "embeddings"]
    shape: Shape
    classes: tuple[str, ...]
    has_units: bool
    skipped: int

    def __len__(self) -> int:
        """Number of rows. Private under add/remove: owner-only."""
        ...

    def batches(self, size: int) -> Iterator[Batch]:
        """Every row in order, ``size`` at a time (the last batch may be shorter)."""
        ...

    def digests(self, key: bytes) -> Iterator[bytes]:
        """A keyed 16-byte BLAKE2b digest of each row's stored bytes (not its name or label)."""
        ...


@runtime_checkable
class IndexedSource(Source, Protocol):
    """A source whose records can be read at any position."""

    def read(self, positions: NDArray[np.int64]) -> Batch:
        """The records at increasing positions, counted as in `batches`."""
        ...

    def units(self) -> Iterator[str]:
        """The unit of each record in order, without decoding any."""
        ...


@runtime_checkable
class PhrasedSource(Source, Protocol):
    """A source that knows how to speak of its classes.

    Attributes:
        phrases: A noun phrase for each class, public, such as ``"dog eating"`` for ``"eating"``.
    """

    phrases: tuple[str, ...]


@runtime_checkable
class CaptionedSource(Source, Protocol):
    """A source of images that come with a caption each.

    Attributes:
        captions: (n,) a line of text for each record, in their order.
        licence: Of the model that drew the images; None where it does not stand beside them.
    """

    captions: Texts
    licence: str | None


class Engine(Protocol):
    """Where a function over many blocks runs."""

    def map(self, function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """The results, in any order. ``items`` is read only a little ahead."""
        ...


class Step(Protocol):
    """A step of a long piece of work that has started; call it with the number of items done."""

    def __call__(self, done: int) -> None:
        """Advance by so many items; the step finishes by itself when all are done."""
        ...

    def finish(self) -> None:
        """Finish a step whose total is not known, or not reached; twice is once."""
        ...


class Events(Protocol):
    """Where long work reports what it is doing: bars, lines, a web page or silence.

    Every event may come from any thread.
    """

    def step(self, name: str, total: int | None = None, *, owner_only: bool = False) -> Step:
        """Report that a step has started.

        Args:
            name: What is being done, such as ``"drawing the base set"``.
            total: The number of items; None where it is not known.
            owner_only: Whether the number of items is private, such as that of the private
                records; it may be shown to the owner and must not be written to a log.
        """
        ...

    def notice(self, message: str, *, owner_only: bool = False) -> None:
        """Report a fact, such as the losses of a training.

        Args:
            message: One sentence.
            owner_only: Whether it states a number that was measured on private records without
                noise; such a message must not be written to a log.
        """
        ...

    def warning(self, message: str) -> None:
        """Report what the owner should know at once, before the work goes on."""
        ...
