"""A generator that really memorises, what guidance and de-duplication do about it, and how much.

The studio's denoising network is tuned in full on the images of a few private homes, some of which
stand many times in its training set, as they do in collections from the web (Carlini et al. 2023):
it copies these. ``amg`` draws from the same network with anti-memorisation guidance
(`AntiMemorisationGenerator`), ``deduplicated`` from one that was tuned as long on the set without
its near-duplicates, and ``noise`` with Gaussian noise on what the network is conditioned on for
each class: what PrivSynth's appendix charts as "DP", without any guarantee. Tuned weights and
images are kept in ``build/benchmarks/memorisation``: remove it after a change of the settings.

A copy is an image nearer to a private one than 99 % of other images of the same homes are, which
nobody trained on. Private images are looked at as the studio's autoencoder draws them: the attacker
has it, and MobileNetV2 tells its drawings from renders before it looks at what they show.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from scipy.spatial.distance import cdist

from benchmarks import rival_selections
from benchmarks.anti_memorisation import (
    AntiMemorisationGenerator,
    AntiMemorisationOptions,
)
from benchmarks.perceptual import looks_among
from benchmarks.tables import CACHE, DATA, Table, percent
from understudy.backends.arrays import to_uint8
from understudy.backends.diffusion.autoencoders import pixels_of
from understudy.backends.diffusion.loading import rebuilt
from understudy.backends.registry import load_encoder, load_model
from understudy.backends.tuning.dreambooth import Lesson, train_denoiser
from understudy.backends.tuning.material import Latents, encode_images
from understudy.backends.tuning.tuning_settings import TuningSettings
from understudy.core.files import write_whole
from understudy.core.ports import Generator, Tuner
from understudy.core.types import Images, Labels
from understudy.data import open_source

FOLDER = CACHE / "memorisation"
SHAPE = (64, 64, 3)
GAP = 0.5
REPEATED, FEWEST, MOST = 4, 8, 40
"""One in four of the private images stands in the training set again and again, from so many times
to so many."""

STEPS = 300
"""Eight images of each class a step: a duplicate passes by 110 to 560 times, a single image 14."""

CANDIDATES, HOMES = 400, 6
CLASSES = 4
FALSE_ALARMS = 0.01
GUIDANCE = AntiMemorisationOptions()

_CLOSEST = 1e-3  # the distance of an image to itself, for logarithms
SAME = 0.1
"""Two training images are near-duplicates within this distance of their embeddings (norm 1)."""

RIVALS = ("amg", "deduplicated", "noise 0.5", "noise 1")
"""Noise: its deviation on class embeddings, in the root mean square of their numbers."""

KINDS = ("plain", *RIVALS)  # of `memorised_candidates`


@dataclass(frozen=True)
class World:
    """Whose images are private."""

    seed: int = 0  # other homes for each
    # so little training that nothing is learnt: to see that it runs
    tiny: bool = False
    # private homes; candidates and steps of the tuning are proportional to them
    homes: int = HOMES

    @property
    def candidates(self) -> int:
        """Images that the generator draws."""
        return CANDIDATES * self.homes // HOMES

    @property
    def per_home(self) -> int:
        """Images of each."""
        return 8 if self.tiny else 20

    @property
    def first(self) -> int:
        """Number of the first private home."""
        return 1000 * self.seed

    @property
    def folder(self) -> Path:
        """Where weights and images are kept."""
        folder = FOLDER / "tiny" if self.tiny else FOLDER
        if self.homes != HOMES:
            folder /= f"{self.homes}-homes"
        return folder / f"world-{self.seed}" if self.seed else folder

    @property
    def settings(self) -> TuningSettings:
        """Of the tuning."""
        steps = 2 if self.tiny else STEPS * self.homes // HOMES
        return TuningSettings(steps=steps, rate=3e-4, batch=8, full=True, decay=0.0)


USUAL = World()


def _homes(world: World, options: str) -> tuple[Images, Labels]:
    source = open_source(f"playhouse:pet-status?per_home={world.per_home}&gap={GAP}&{options}")
    batches = list(source.batches(1024))
    return (
        np.concatenate([batch.values for batch in batches]),
        np.concatenate([batch.labels for batch in batches]),
    )


@cache
def private_images(world: World = USUAL) -> tuple[Images, Labels]:
    """(120, 64, 64, 3) uint8 images of the private homes, and their status: (120,) int64."""
    return _homes(world, f"homes={world.homes}&first={world.first}")


@cache
def held_out_images(world: World = USUAL) -> tuple[Images, Labels]:
    """As many other images of the same homes, which no generator is tuned on."""
    return _homes(world, f"homes={world.homes}&first={world.first}&split=test")


@cache
def non_members(world: World = USUAL) -> tuple[Images, Labels]:
    """Images of 20 other homes; homes of other numbers have no image in common."""
    return _homes(world, f"homes={4 if world.tiny else 20}&first={world.first + 100}")


def prompts_of(labels: Labels) -> list[str]:
    """What the generators were tuned on for each class."""
    source: Any = open_source("playhouse:pet-status")
    return [f"a photo of a {source.phrases[label]}" for label in labels]


@dataclass(frozen=True, slots=True)
class TrainingSet:
    """What a generator is tuned on."""

    images: Images  # (n, height, width, channels) uint8
    labels: Labels  # (n,) int64
    origin: NDArray[np.int64]  # (n,) int64, the private image that each is a near-duplicate of


def repeats(world: World = USUAL) -> NDArray[np.int64]:
    """(120,) how often each private image stands in the training set."""
    rng = np.random.default_rng(5)
    count = len(private_images(world)[0])
    times, repeated = np.ones(count, dtype=np.int64), count // REPEATED
    times[rng.permutation(count)[:repeated]] = np.geomspace(FEWEST, MOST, repeated).round()
    return times


def training_set(world: World = USUAL) -> TrainingSet:
    """The private images with their repeats, which differ a little in brightness and noise."""
    images, labels = private_images(world)
    origin = np.repeat(np.arange(len(images)), repeats(world))
    rng = np.random.default_rng(6)
    brightness = rng.uniform(-4, 4, (len(origin), 1, 1, 1))
    changed = images[origin] + brightness + rng.normal(0, 1.5, (len(origin), *SHAPE))
    return TrainingSet(np.clip(np.rint(changed), 0, 255).astype(np.uint8), labels[origin], origin)


def without_duplicates(training: TrainingSet, same: float = SAME) -> TrainingSet:
    """The set without images that look like one before them (de-duplication, Lee et al. 2022)."""
    embeddings = load_encoder("embedded:studio", shape=SHAPE).encode(training.images)
    distinct: list[int] = []
    for row, embedding in enumerate(embeddings):
        distances = np.linalg.norm(embeddings[distinct] - embedding, axis=1)
        if not len(distances) or distances.min() > same:
            distinct.append(row)
    return _part(training, np.array(distinct))


def without_lookalikes(training: TrainingSet, dropped: float) -> TrainingSet:
    """The set without one image of each pair that looks most alike, until a share is dropped.

    PrivSynth's appendix B.1, with the perceptual distance of `benchmarks.perceptual`.
    """
    count = len(training.labels) - round(dropped * len(training.labels))
    return _part(training, rival_selections.without_duplicates(looks_among(training.images), count))


def _part(training: TrainingSet, rows: NDArray[np.int64]) -> TrainingSet:
    return TrainingSet(training.images[rows], training.labels[rows], training.origin[rows])


def tuned_generator(kind: str, world: World = USUAL) -> Any:
    """The studio's generator, tuned in full on the training set with or without duplicates.

    One lesson a class, named by `prompts_of`. It is trained once, and kept.
    """
    tuner: Any = load_model(Tuner, "embedded:studio")
    kept = world.folder / f"{kind}.safetensors"
    if kept.is_file():
        return tuner.restore(kept.read_bytes())
    text = tuner._text
    training = training_set(world)
    name, strength = strength_of(kind)
    if name == "deduplicated":
        training = (
            without_duplicates(training)
            if strength is None
            else without_lookalikes(training, strength)
        )
    lessons = [
        Lesson(_rows(encode_images(text.vae, training.images), training.labels == label), (prompt,))
        for label, prompt in enumerate(prompts_of(np.arange(CLASSES)))
    ]
    network = train_denoiser(text, lessons, world.settings)
    generator = tuner._generator(rebuilt(text, unet=network))
    kept.parent.mkdir(parents=True, exist_ok=True)
    write_whole(kept, tuner.changes(generator))
    return generator


@dataclass(frozen=True)
class NoisyPrompts:
    """Prompts of classes to noisy embeddings; what the network is told besides stays as it is."""

    prompts: Any  # the generator's own
    embeddings: Mapping[str, torch.Tensor]  # the noisy embedding of each prompt: (tokens, d)

    def conditioning(self, prompts: list[str], negative: str | None = None) -> dict[str, Any]:
        """As `PromptEncoder.conditioning`."""
        noisy = torch.stack([self.embeddings[prompt] for prompt in prompts])
        return {**self.prompts.conditioning(prompts, negative), "prompt_embeds": noisy}


def with_noisy_classes(generator: Any, deviation: float, seed: int = 0) -> Any:
    """The generator with Gaussian noise on the embedding of each class (the paper's B.1, "DP")."""
    names = prompts_of(np.arange(CLASSES))
    embeddings = generator._prompts.conditioning(names)["prompt_embeds"]
    flat = embeddings.reshape(len(names), -1).numpy()
    noisy = torch.from_numpy(
        rival_selections.noisy_class_embeddings(flat, deviation, seed)
    ).reshape(embeddings.shape)
    result = copy.copy(generator)
    result._prompts = NoisyPrompts(generator._prompts, dict(zip(names, noisy, strict=True)))
    return result


def _rows(latents: Latents, chosen: NDArray[np.bool_]) -> Latents:
    rows = torch.from_numpy(chosen)
    return Latents(latents.mean[rows], latents.std[rows])


def strength_of(kind: str) -> tuple[str, float | None]:
    """A kind's name and its strength, where it has one."""
    name, _, strength = kind.partition(" ")
    return name, float(strength) if strength else None


def memorised_candidates(
    kind: str, count: int = CANDIDATES, world: World = USUAL
) -> tuple[Images, Labels]:
    """What a generator draws, its classes in turn: (count, 64, 64, 3) uint8 and (count,) int64."""
    labels, seed = np.arange(count, dtype=np.int64) % CLASSES, world.seed
    file = world.folder / f"{kind}-{seed}.npz"
    if file.is_file():
        with np.load(file) as stored:
            images = stored["images"]
        if len(images) >= count:
            return images[:count], labels
    name, strength = strength_of(kind)
    generator = tuned_generator(kind if name == "deduplicated" else "plain", world)
    if name == "amg":
        guidance = GUIDANCE if strength is None else AntiMemorisationOptions(scale=strength)
        generator = AntiMemorisationGenerator(generator, private_images(world)[0], guidance)
    elif name == "noise":
        generator = with_noisy_classes(generator, strength or 0.0, seed)
    images = generator.generate(prompts_of(labels), seed=seed)
    file.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(file, images=images)
    return images, labels


@torch.no_grad()
def as_drawn(images: Images) -> Images:
    """Images as the studio's autoencoder draws them, which every attacker has."""
    tuner: Any = load_model(Tuner, "embedded:studio")
    vae = tuner._text.vae
    pixels = pixels_of(vae, encode_images(vae, images).mean).permute(0, 2, 3, 1)
    return to_uint8(pixels.numpy())


Features = Callable[[Images], NDArray[np.floating[Any]]]


def spaces() -> dict[str, Features]:
    """Where copies are looked for: (n, d) of norm 1 each."""
    encoders = {"pixels": _patches, "studio": load_encoder("embedded:studio", shape=SHAPE).encode}
    file = DATA / "models" / "mobilenet_v2_features.onnx"
    if file.is_file():
        encoders["MobileNetV2"] = load_encoder(f"onnx:{file}", shape=SHAPE).encode
    return {name: _of_unit_norm(features) for name, features in encoders.items()}


def _patches(images: Images) -> NDArray[np.floating[Any]]:
    """Means of 4 x 4 pixels less the image's mean: brightness and contrast do not count."""
    blocks = images.reshape(len(images), 16, 4, 16, 4, 3).mean((2, 4)).reshape(len(images), -1)
    return np.asarray(blocks - blocks.mean(1, keepdims=True))


def _of_unit_norm(features: Features) -> Features:
    def scaled(images: Images) -> NDArray[np.floating[Any]]:
        rows = features(images)
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))

    return scaled


@dataclass(frozen=True, slots=True)
class Copies:
    """How near images come to the private ones, in one space."""

    nearest: NDArray[np.int64]  # (n,) int64, the private image that each is nearest to
    # (n,) its distance over that which 1 % of other images of the homes are within; below 1: a copy
    ratio: NDArray[np.floating[Any]]
    # (n,) log of the distance to the nearest non-member over that to the nearest private image: the
    # attack's score
    calibrated: NDArray[np.floating[Any]]

    @property
    def copied(self) -> NDArray[np.bool_]:
        """(n,) which are copies."""
        return self.ratio < 1


@cache
def _references() -> tuple[Images, Images, Images]:
    """Private images, held-out images and non-members, as drawn."""
    images = (private_images()[0], held_out_images()[0], non_members()[0])
    return as_drawn(images[0]), as_drawn(images[1]), as_drawn(images[2])


class CopyDetector:
    """Finds copies of private images in one space."""

    def __init__(self, features: Features) -> None:
        private, held_out, others = (features(images) for images in _references())
        self._features, self._private, self._others = features, private, others
        self._usual = float(np.quantile(cdist(held_out, private).min(1), FALSE_ALARMS))

    def copies(self, images: Images) -> Copies:
        """The nearest private image of each image, and how near it is."""
        rows = self._features(images)
        distances = cdist(rows, self._private)
        nearest = np.maximum(distances.min(1), _CLOSEST)
        others = cdist(rows, self._others).min(1)
        return Copies(distances.argmin(1), nearest / self._usual, np.log(others / nearest))


def sheet(images: Images, copies: Copies, file: Path, columns: int = 12) -> None:
    """Write images from the nearest to the farthest, each above its nearest private image."""
    order = np.argsort(copies.ratio)
    rows = order[np.linspace(0, len(order) - 1, 3 * columns).round().astype(int)]
    private = private_images()[0][copies.nearest[rows]]
    lines: list[Images] = []
    for start in range(0, len(rows), columns):
        part = slice(start, start + columns)
        lines += [np.concatenate(one, axis=1) for one in (images[rows[part]], private[part])]
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.concatenate(lines)).save(file)


def main(count: int = CANDIDATES, sheets: Path | None = None) -> None:
    """Shares of copies in what each kind of generator draws."""
    detectors = {name: CopyDetector(features) for name, features in spaces().items()}
    heads = [head for name in detectors for head in (f"{name} %", "calibrated")]
    homes = USUAL.homes * USUAL.per_home
    title = f"Copies among {count} images of a studio tuned on {homes} private ones"
    table = Table(title, ("images", *heads, "images copied", "repeated %"), first=22)
    rows: dict[str, Images] = {
        "held-out, as drawn": _references()[1],
        "private, as drawn": _references()[0],
        "untuned studio": load_model(Generator, "embedded:studio").generate(
            prompts_of(np.arange(120) % CLASSES), seed=0
        ),
    }
    for kind in KINDS:
        rows[kind] = memorised_candidates(kind, count)[0]
    for name, images in rows.items():
        results = {space: one.copies(images) for space, one in detectors.items()}
        cells: list[Any] = []
        for one in results.values():
            cells += [percent(float(one.copied.mean())), float(np.median(one.calibrated))]
        last = one.nearest[one.copied]
        repeated = percent(float((repeats()[last] > 1).mean())) if len(last) else None
        table.row(name, *cells, len(np.unique(last)), repeated)
        if sheets is not None:
            sheet(images, one, sheets / f"memorisation-{name.split(',')[0]}.png")
