"""From a mixture to a release: sampled, filtered, brought back from its space, decoded."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import Any

import numpy as np
import scipy

from understudy.core.errors import ConfigError
from understudy.core.ports import LinearDecoder
from understudy.core.types import Embeddings, Images, Labels, Release, Seeds, SyntheticBatch, Vector
from understudy.methods.base import UNLABELLED, Arrays, Materials
from understudy.methods.clustering.embedding_space import EmbeddingSpace
from understudy.methods.clustering.label_classifier import LabelClassifier
from understudy.methods.clustering.vote_filter import Candidates, VoteFilter
from understudy.steps.contrast import Contrast
from understudy.steps.mixture import Mixture

Batches = Callable[[], Iterator[SyntheticBatch]]
Another = Callable[[Labels, int], tuple[Vector, Labels]]
"""Other points, and their components, for some samples of a block in another round of a quality."""

_BLOCK = 4096
_DECODED = 512  # few at a time where each is decoded: a handful needs not wait for thousands
_TRIED = 512  # samples whose contrast is looked at
_TRIED_PIXELS = 1 << 17
_MOST_DEVIATION = 3.0  # a latent deviation exceeds the wanted one by this factor at most


@dataclass(frozen=True)
class Producer:
    """Draws synthetic samples: the same seed gives the same samples.

    Attributes:
        materials: Decoder, seed, classes.
        space: The space the mixture lives in, and the way out of it.
        mixture: The released mixture.
    """

    materials: Materials
    space: EmbeddingSpace
    mixture: Mixture

    @property
    def block(self) -> int:
        """Samples that are finished at a time."""
        return _BLOCK if self.materials.decoder is None else _DECODED

    def finish(
        self, name: str, first: int, points: Vector, components: Labels, another: Another
    ) -> SyntheticBatch:
        """Points of the space as embeddings or images.

        Args:
            name: A name for these samples; another name gives other noise.
            first: The number of the first of them.
            points: (n, d).
            components: (n,).
            another: Points in place of those whose images are not good enough.
        """
        labels, materials = self.mixture.labels[components], self.materials
        if materials.decoder is None:
            rng = materials.rng_of(f"{name} {first}")
            return SyntheticBatch(labels, embeddings=self.space.backward(points, rng))

        def draw(samples: Labels, number: int, image: int) -> Images:
            chosen = (points[samples], components[samples])
            if number:
                chosen = another(samples, number)
            rng = materials.rng_of(f"{name} {first} round {number}")
            seeds = materials.seeds_of(f"{name} round {number} image {image}", first + samples)
            return self._decoded(*chosen, seeds, rng)

        return SyntheticBatch(labels, images=materials.selected(len(points), draw))

    def anew(
        self, name: str, components: Labels, samples: Labels, number: int
    ) -> tuple[Vector, Labels]:
        """New points of the components of some samples (`Another`)."""
        rng = self.materials.rng_of(f"{name} again {number}")
        return self.mixture.draw(components[samples], rng), components[samples]

    def _decoded(
        self, points: Vector, components: Labels, seeds: Seeds, rng: np.random.Generator
    ) -> Images:
        decoder = self.materials.decoder
        if decoder is None:
            raise ConfigError("images need a decoder: this release is of embeddings alone")
        if isinstance(decoder, LinearDecoder) and self.space.sphere is None:
            return self._rectified(decoder, points, components, rng)
        return decoder.decode(self.space.backward(points, rng), seeds=seeds)

    def _rectified(
        self,
        decoder: LinearDecoder,
        points: Vector,
        components: Labels,
        rng: np.random.Generator,
    ) -> Images:
        """Decoded with the released moments after the cut to a pixel's range.

        Those of each pixel hold by `latent_moments`, that of all together by `Contrast`.
        """
        pixels = self._contrast(self._cut(decoder, points, components, rng))
        return np.asarray(np.rint(pixels * 255), dtype=np.uint8)

    def _cut(
        self,
        decoder: LinearDecoder,
        points: Vector,
        components: Labels,
        rng: np.random.Generator,
    ) -> Vector:
        """Pixels of 0 to 1, each with the moments that were released (`latent_moments`)."""
        pixels = decoder.pixels(self.space.backward(points, rng))
        moments = self._pixel_moments
        for component in np.unique(components):
            mine, of = components == component, moments[component]
            pixels[mine] = of.latent + (pixels[mine] - of.mean) * of.factor
        return np.clip(pixels, 0.0, 1.0)

    @cached_property
    def _contrast(self) -> Contrast:
        """What restores the released contrast of grey images, by samples of a fixed seed.

        Of colours it moves hues, and a network learnt less from them.
        """
        if self._linear.shape[2] != 1 or self.mixture.rest is None:
            return Contrast()
        mixture, rng, moments = self.mixture, np.random.default_rng(0), self._pixel_moments
        components = rng.choice(len(mixture.weights), _TRIED, p=mixture.weights)
        tried = self._cut(self._linear, mixture.draw(components, rng), components, rng)
        mean = float(mixture.weights @ [of.mean.mean() for of in moments])
        square = float(mixture.weights @ [(of.mean**2 + of.sd**2).mean() for of in moments])
        every = max(1, tried.size // _TRIED_PIXELS)
        return Contrast.of(tried.ravel()[::every], mean, square)

    @property
    def _linear(self) -> LinearDecoder:
        decoder = self.materials.decoder
        if not isinstance(decoder, LinearDecoder):
            raise ConfigError("only a linear decoder has pixels before the cut to their range")
        return decoder

    @cached_property
    def _pixel_moments(self) -> list[_PixelMoments]:
        """Those of each component."""
        decoder = self._linear

        def decode(points: Vector) -> Vector:
            return decoder.pixels(self.space.backward(points, None)).astype(np.float64)

        zero = decode(np.zeros((1, self.mixture.dim)))
        means = decode(self.mixture.means)
        roots = (self.mixture.root(index) for index in range(len(self.mixture.roots)))
        variances = [((decode(root.T) - zero) ** 2).sum(axis=0) for root in roots]
        if (rest := self.mixture.rest) is not None:
            common = ((decode(rest.T) - zero) ** 2).sum(axis=0)
            variances = [variance + common for variance in variances]
        return [
            _PixelMoments.of(mean, np.sqrt(variances[root]))
            for mean, root in zip(means, self.mixture.root_of, strict=True)
        ]


@dataclass(frozen=True)
class _PixelMoments:
    """What is known of the pixels of a component.

    Attributes:
        mean: Released mean of each.
        sd: Released standard deviation.
        latent: Mean before the cut to a pixel's range.
        factor: Standard deviation before that cut, over the released one.
    """

    mean: Vector
    sd: Vector
    latent: Vector
    factor: Vector

    @classmethod
    def of(cls, mean: Vector, sd: Vector) -> _PixelMoments:
        latent, latent_sd = latent_moments(mean, sd)
        return cls(mean, sd, latent, latent_sd / (sd + 1e-4))


@cache
def _table() -> tuple[Vector, Vector, Vector]:
    """a, mean / sd and sd of max(0, a + N(0, 1)), on a grid of a."""
    a = np.linspace(-4.0, 12.0, 4000)
    density = np.exp(-a * a / 2) / np.sqrt(2 * np.pi)
    mean = a * scipy.special.ndtr(a) + density
    variance = np.maximum((a * a + 1) * scipy.special.ndtr(a) + a * density - mean * mean, 1e-12)
    return a, mean / np.sqrt(variance), np.sqrt(variance)


def latent_moments(mean: Vector, sd: Vector) -> tuple[Vector, Vector]:
    """Mean and deviation before clipping that give ``mean`` and ``sd`` after it.

    Clipping a Gaussian pixel to [0, 1] raises its mean where the background is black, and washes
    images out. That pixels lie in [0, 1] is public, so the latent Gaussian can be chosen such that,
    *after* clipping, mean and standard deviation are those that were released. Only the nearer
    end of the range is reckoned with.

    Args:
        mean: Wanted means; those outside of [0, 1] are moved to its ends.
        sd: Wanted standard deviations, same shape.

    Returns:
        Two arrays of the same shape.
    """
    a, ratio, scale = _table()
    sd = sd + 1e-4
    mean = np.clip(mean, 0.0, 1.0)
    upper = mean > 0.5
    height = np.where(upper, 1 - mean, mean)
    location = np.interp(height / sd, ratio, a)
    latent_sd = np.minimum(sd / np.interp(location, a, scale), _MOST_DEVIATION * sd)
    far = height / sd >= ratio[-1]
    latent_sd = np.where(far, sd, latent_sd)
    latent = np.where(far, height, location * latent_sd)
    return np.where(upper, 1 - latent, latent), latent_sd


def produce(
    materials: Materials,
    space: EmbeddingSpace,
    mixture: Mixture,
    method: str,
    total: float,
    vote_filter: VoteFilter,
    classifier: LabelClassifier | None = None,
) -> Release:
    """Lines 9 to 17 of Algorithm 1.

    Args:
        materials: Decoder, seed, classes, count.
        space: The space of the mixture.
        mixture: What to sample from.
        method: The method's name.
        total: Noisy number of private records, for the default count.
        vote_filter: Which samples are released.
        classifier: What says where the classes of embeddings end; None: the mixture alone.
    """
    materials = materials.for_samples
    count = materials.count or max(1, round(total))
    producer = Producer(materials, space, mixture)
    facts: dict[str, Any] = {"noisy_rows": round(total), "components": len(mixture.weights)}
    if vote_filter.stages:
        batches, filter_facts = _filtered(producer, count, total, vote_filter)
        facts |= filter_facts
    else:
        sizes = (
            mixture.allot(count)
            if materials.per_class is None
            else mixture.allot_classes(np.full(space.classes, materials.per_class))
        )
        count = int(sizes.sum())
        batches = _unfiltered(producer, sizes, classifier)
    shape = None if materials.decoder is None else materials.decoder.shape
    dim = space.settings.total if shape is None else None
    classes = materials.classes if space.classes > 1 else UNLABELLED
    return Release(method, classes, count, batches, dim, shape, facts)


def _unfiltered(producer: Producer, sizes: Labels, classifier: LabelClassifier | None) -> Batches:
    """So many samples of each component, drawn as they are read."""

    def batches() -> Iterator[SyntheticBatch]:
        blocks = producer.mixture.sample(sizes, producer.materials.seed, producer.block)
        for number, (points, components) in enumerate(blocks):
            first = number * producer.block
            if classifier is not None:
                rng = producer.materials.rng_of(f"classified {first}")
                embeddings = classifier.embeddings(components, rng)
                yield SyntheticBatch(producer.mixture.labels[components], embeddings=embeddings)
                continue
            another = partial(producer.anew, f"samples {first}", components)
            yield producer.finish("samples", first, points, components, another)

    return batches


def _filtered(
    producer: Producer, count: int, total: float, vote_filter: VoteFilter
) -> tuple[Batches, dict[str, Any]]:
    """Lines 11 to 17 of Algorithm 1: ``count`` of the candidates, by votes of private records.

    Args:
        producer: The mixture and the decoder.
        count: Samples wanted.
        total: Noisy number of private records.
        vote_filter: The filter.

    Returns:
        The samples, and public facts about the filter.
    """
    space, rng = producer.space, producer.materials.rng_of("candidates")
    candidates = Candidates.of(producer.mixture, count, vote_filter.oversample, space.classes, rng)
    samples, stages, votes = _CandidateSamples(producer, candidates), vote_filter.stages, []
    if stages.embeddings is not None:
        votes.append(candidates.vote(space.vault, candidates.points, stages.embeddings))
    if stages.images is not None:
        votes.append(candidates.vote(space.vault, samples.encoded(), stages.images))
    scores, noise_sd = np.min([score for score, _ in votes], axis=0), votes[-1][1]
    chosen, below = candidates.most_voted(scores, vote_filter.threshold)
    facts: dict[str, Any] = {"candidates": len(scores), "kept": count - below}
    facts["below_threshold"] = below
    facts["votes_per_candidate"] = round(max(total, 0.0) / len(scores), 3)
    facts["votes_noise_sd"] = round(noise_sd, 3)
    facts["notes"] = list(_filter_notes(facts))
    if stages.images is not None:
        return samples.judged_images(chosen), facts
    return samples.batches(chosen, scores), facts


def _filter_notes(facts: Mapping[str, Any]) -> Iterator[str]:
    """What the owner should know of a filter that could not do what it is for."""
    votes, noise_sd = facts["votes_per_candidate"], facts["votes_noise_sd"]
    if votes < noise_sd / 2:
        yield (
            f"the filter had {votes:.2g} votes for each candidate and noise of {noise_sd:.2g}: "
            "it chose nearly at random. It needs fewer samples (--count), a larger epsilon or "
            "more private records; filter=none leaves its budget to the mixture"
        )
    if below := facts["below_threshold"]:
        yield (
            f"{below:,} samples are below the threshold of the filter: too few candidates "
            "reach it, and the most voted of the others make up the count of their class"
        )


@dataclass(frozen=True)
class _CandidateSamples:
    """Samples of the candidates of a filter, and their images where those are voted on."""

    producer: Producer
    candidates: Candidates

    def batches(self, chosen: Labels, scores: Vector) -> Batches:
        """These candidates; those not chosen stand in, most voted first, for images too poor."""
        producer, candidates, size = self.producer, self.candidates, self.producer.block
        classes = range(len(candidates.wanted))
        spare = np.setdiff1d(np.arange(len(scores)), chosen)
        spare = spare[np.argsort(-scores[spare], kind="stable")]
        spares = [spare[candidates.labels[spare] == label] for label in classes]
        position = np.empty(len(chosen), dtype=np.int64)  # of each sample in its class
        for label in classes:
            mine = candidates.labels[chosen] == label
            position[mine] = np.arange(mine.sum())

        def another(first: int, samples: Labels, number: int) -> tuple[Vector, Labels]:
            others = chosen[first + samples]
            for slot, sample in enumerate((first + samples).tolist()):
                label = int(candidates.labels[chosen[sample]])
                if len(spares[label]):
                    index = position[sample] + (number - 1) * candidates.wanted[label]
                    others[slot] = spares[label][index % len(spares[label])]
            return candidates.points[others], candidates.components[others]

        def batches() -> Iterator[SyntheticBatch]:
            for first in range(0, len(chosen), size):
                part = chosen[first : first + size]
                points, components = candidates.points[part], candidates.components[part]
                instead = partial(another, first)
                yield producer.finish("filtered", first, points, components, instead)

        return batches

    def encoded(self) -> Vector:
        """What private records vote on after decoding: the candidates' images, encoded: (m, d)."""
        encoder, space = self.producer.materials.encoder, self.producer.space
        if encoder is None:
            raise ConfigError("a filter of images needs an encoder")
        points: list[Embeddings] = [
            np.asarray(space.forward(encoder.encode(self._images(first))))
            for first in range(0, len(self.candidates.points), self.producer.block)
        ]
        return np.concatenate(points).astype(np.float64)

    def judged_images(self, chosen: Labels) -> Batches:
        """The very images that were voted on, of these candidates."""

        def batches() -> Iterator[SyntheticBatch]:
            for first in range(0, len(self.candidates.points), self.producer.block):
                indices = chosen[(chosen >= first) & (chosen < first + self.producer.block)]
                if len(indices):
                    labels = self.candidates.labels[indices]
                    yield SyntheticBatch(labels, images=self._images(first)[indices - first])

        return batches

    def _images(self, first: int) -> Images:
        """Images of the block of candidates that starts at ``first``: drawn once, then kept."""
        producer, candidates = self.producer, self.candidates
        part = slice(first, first + producer.block)

        def make() -> Arrays:
            points, components = candidates.points[part], candidates.components[part]
            instead = partial(producer.anew, f"candidates {first}", components)
            images = producer.finish("candidates", first, points, components, instead).images
            if images is None:
                raise ConfigError("a filter of images needs a decoder")
            return {"images": images}

        arrays = producer.materials.keep(f"candidates {first:08d}", make)
        return np.asarray(arrays["images"], dtype=np.uint8)
