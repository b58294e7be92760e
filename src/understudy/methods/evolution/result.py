"""From the last generation to a release: how many samples of each class, and the final images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.ports import Generator
from understudy.core.types import Images, Labels, Release, Stage, SyntheticBatch, Vector
from understudy.methods.base import UNLABELLED, Materials, planned
from understudy.methods.evolution.arithmetic import spread_over
from understudy.methods.evolution.candidates import (
    CandidateKind,
    ImageCandidates,
    Population,
    generator_of,
)
from understudy.privacy.cells import Cells
from understudy.privacy.queries import Counts

if TYPE_CHECKING:  # it imports the noise, which `understudy methods` does without
    from understudy.methods.evolution.algorithm import EvolutionParams
    from understudy.privacy.vault import Vault

COUNTED = "count"

_AT_ONCE = 64  # final images that are made at a time: a handful is looked at first


def given_sizes(sizes: str, classes: int) -> Vector | None:
    """Class sizes that the owner states publicly; None where they are counted.

    ``sizes``: ``count``, or numbers with commas.

    Raises:
        ConfigError: None of these, or not a number for each class.
    """
    if sizes == COUNTED:
        return None
    try:
        numbers = np.array([int(word) for word in sizes.split(",")], dtype=np.float64)
    except ValueError:
        raise ConfigError(
            f"sizes is {COUNTED} or whole numbers with commas, such as 100,200,50; found {sizes!r}"
        ) from None
    if len(numbers) != classes:
        raise ConfigError(
            f"sizes has {len(numbers)} numbers and the dataset {classes} classes: give one for each"
        )
    if (numbers < 0).any() or not numbers.any():
        raise ConfigError(f"sizes are 0 or more, and not all 0; found {sizes}")
    return numbers


def sizes_of_classes(
    materials: Materials, voters: Vault, sizes: str, classes: int, stage: Stage | None
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Samples to make of each class, (classes,), and public facts about the private records.

    Releases the class sizes, unless the owner states them.
    """
    parts, facts = given_sizes(sizes, classes), {}
    if parts is None:
        # A record's cell is its class: one centre a class, whatever it is.
        counts = voters.release(Counts(Cells(np.zeros((classes, 1, 1)))), stage=planned(stage).name)
        parts = np.maximum(counts[:, 0], 0.0)
        if not materials.context.mixed_units(
            classes
        ):  # a unit of several classes counts more than once
            facts = {"noisy_rows": round(float(parts.sum()))}
    total = float(parts.sum())
    if total == 0:  # fewer records than noise: any class may be the largest
        parts = np.ones(classes)
    return materials.for_samples.class_sizes(parts, total), facts


@dataclass(frozen=True)
class FinalCandidates:
    """What is released."""

    population: Population
    names: Labels  # (classes, n): two of a class with the same name are the same candidate
    degree: float  # of variations that are made of them yet


def final_candidates(
    voted: Population, indices: Labels, variants: list[Population], release: str, degree: float
) -> FinalCandidates:
    """The voted of the last round, (classes, N) positions in it, the variants of them, or both."""
    if release == "voted":
        return FinalCandidates(voted, indices, degree)
    others = variants[0].extended(variants[1:])
    fresh = np.broadcast_to(np.arange(others.phrase_of.shape[1]), others.phrase_of.shape)
    if release == "variants":
        return FinalCandidates(others, fresh, degree)
    names = np.concatenate([indices, fresh + indices.max() + 1], axis=1)
    return FinalCandidates(voted.extended([others]), names, degree)


def release_candidates(
    materials: Materials,
    kind: CandidateKind,
    final: FinalCandidates,
    sizes: NDArray[np.int64],
    params: EvolutionParams,
    facts: dict[str, Any],
) -> Release:
    """The release: so many samples of each class, shuffled.

    Captions are rendered as often as they are drawn, each time anew, and released beside their
    images: what is made of noisy votes is public. An image stands for itself once; where more
    samples are wanted, variations follow. Of samples that are drawn anew all are variations, for
    the images are in the earlier release.
    """
    again, materials = materials.resampling is not None, materials.for_samples
    renderer = materials.context.renderer or generator_of(materials.context)
    labels, positions = _draw(materials, final, sizes)
    names = final.names[labels, positions]
    first = np.zeros(len(labels), dtype=np.bool_)
    first[np.unique(np.stack([labels, names]), axis=1, return_index=True)[1]] = not again
    images = _FinalImages(materials, kind, final, renderer)

    def batches() -> Iterator[SyntheticBatch]:
        for start in range(0, len(labels), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            yield images.batch(labels[part], positions[part], first[part], start)

    classes = materials.classes if params.conditional else UNLABELLED
    captioned = not isinstance(kind, ImageCandidates)
    shape = renderer.shape
    return Release("evolution", classes, len(labels), batches, None, shape, facts, captioned)


def _draw(
    materials: Materials, final: FinalCandidates, sizes: NDArray[np.int64]
) -> tuple[Labels, Labels]:
    """Class of each sample and its position in the population of the class, shuffled: (n,) each."""
    rng = materials.rng_of("final rows")
    size = final.names.shape[1]
    labels = np.repeat(np.arange(len(sizes)), sizes)
    positions = np.concatenate([spread_over(size, int(count), rng) for count in sizes])
    order = rng.permutation(len(labels))
    return labels[order], positions[order]


@dataclass(frozen=True)
class _FinalImages:
    materials: Materials
    kind: CandidateKind
    final: FinalCandidates
    renderer: Generator

    def batch(
        self, labels: Labels, positions: Labels, first: NDArray[np.bool_], start: int
    ) -> SyntheticBatch:
        """These samples: final images, and the captions that they were rendered from."""
        items = self.final.population.items[labels, positions]
        phrase_of = self.final.population.phrase_of[labels, positions]
        kind, materials = self.kind, self.materials

        def draw(samples: NDArray[np.int64], number: int, image: int) -> Images:
            """The first image of a sample, or another: a caption drawn anew, a variation."""
            other = number > 0 or image > 0
            name = f"final {start:06d}" + (f" round {number} image {image}" if other else "")
            seed, candidates = materials.seed_of(name), items[samples]
            if not isinstance(kind, ImageCandidates):
                return self.renderer.generate([str(text) for text in candidates], seed=seed)
            again = np.flatnonzero(~first[samples] | other)
            if len(again):
                phrases = phrase_of[samples[again]]
                candidates[again] = kind.vary(candidates[again], phrases, self.final.degree, seed)
            return np.asarray(candidates, dtype=np.uint8)

        images = materials.selected(len(labels), draw)
        captions = None if isinstance(kind, ImageCandidates) else [str(text) for text in items]
        return SyntheticBatch(labels, images=images, captions=captions)
