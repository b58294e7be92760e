"""From the last generation to a release: how many rows of each class, and the final images."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.ports import Generator
from understudy.core.types import Images, Labels, Release, Stage, SyntheticBatch, Vector
from understudy.methods.base import UNLABELLED, planned
from understudy.methods.evolution.arithmetic import spread_over
from understudy.methods.evolution.candidates import Pictures, generator_of
from understudy.methods.evolution.population import Nature, Population
from understudy.privacy.cells import Cells
from understudy.privacy.queries import Counts
from understudy.privacy.vault import Vault
from understudy.steps.apportionment import apportion

COUNTED, BALANCED = "count", "balanced"

_AT_ONCE = 64  # final images that are made at a time: a handful is looked at first


def given_sizes(sizes: str, classes: int) -> Vector | None:
    """Class sizes that the owner states publicly; None where they are counted.

    Args:
        sizes: ``count``, ``balanced``, or numbers with commas.
        classes: Number of classes.

    Raises:
        ConfigError: None of these, or not a number for each class.
    """
    if sizes == COUNTED:
        return None
    if sizes == BALANCED:
        return np.ones(classes)
    try:
        found = np.array([int(word) for word in sizes.split(",")], dtype=np.float64)
    except ValueError:
        raise ConfigError(
            f"sizes is {COUNTED}, {BALANCED} or whole numbers with commas, such as 100,200,50; "
            f"found {sizes!r}"
        ) from None
    if len(found) != classes:
        raise ConfigError(
            f"sizes has {len(found)} numbers and the dataset {classes} classes: give one for each"
        )
    if (found < 0).any() or not found.any():
        raise ConfigError(f"sizes are 0 or more, and not all 0; found {sizes}")
    return found


def check_count(sizes: str, count: int | None) -> None:
    """Refuse classes of one size where nobody says which.

    Raises:
        ConfigError: As said; nothing was spent.
    """
    if sizes == BALANCED and count is None:
        raise ConfigError(f"with sizes={BALANCED} nothing says how many rows to make: give --count")


def class_sizes(
    voters: Vault, sizes: str, classes: int, count: int | None, stage: Stage | None
) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """Rows to make of each class, (classes,), and public facts about the private rows.

    Releases them, unless the owner states them.

    Args:
        voters: Embeddings.
        sizes: As `given_sizes`.
        classes: Number of classes.
        count: Rows wanted in all; None: as many as are known.
        stage: The release; None where the sizes are stated.
    """
    parts, facts = given_sizes(sizes, classes), {}
    if parts is None:
        # A row's cell is its class: one centre a class, whatever it is.
        counts = voters.release(Counts(Cells(np.zeros((classes, 1, 1)))), stage=planned(stage).name)
        parts = np.maximum(counts[:, 0], 0.0)
        facts = {"noisy_rows": round(float(parts.sum()))}
    total = float(parts.sum())
    if total == 0:  # fewer rows than noise: any class may be the largest
        parts = np.ones(classes)
    return apportion(count or max(1, round(total)), parts), facts


@dataclass(frozen=True)
class Last:
    """Who is released.

    Attributes:
        population: The candidates.
        names: (classes, n): two of a class with the same name are the same candidate.
        degree: Of variations that are made of them yet.
    """

    population: Population
    names: Labels
    degree: float


def last_of(
    voted: Population, chosen: Labels, variants: list[Population], release: str, degree: float
) -> Last:
    """The voted of the last round, the variants of them, or both.

    Args:
        voted: Who was voted for.
        chosen: (classes, N) their places in the generation before.
        variants: Variations of them.
        release: ``voted``, ``variants`` or ``both``.
        degree: Of the last round.
    """
    if release == "voted":
        return Last(voted, chosen, degree)
    others = variants[0].and_also(variants[1:])
    fresh = np.broadcast_to(np.arange(others.kinds.shape[1]), others.kinds.shape)
    if release == "variants":
        return Last(others, fresh, degree)
    names = np.concatenate([chosen, fresh + chosen.max() + 1], axis=1)
    return Last(voted.and_also([others]), names, degree)


def released(
    nature: Nature,
    last: Last,
    sizes: NDArray[np.int64],
    method: str,
    facts: dict[str, Any],
    *,
    conditional: bool,
) -> Release:
    """The release: so many rows of each class, shuffled.

    Captions are rendered as often as they are drawn, each time anew, by the renderer where there
    is one, and released beside their pictures: what is made of noisy votes is public. An image
    stands for itself once; where more rows are wanted than there are images, and where the votes
    took one more than once, variations follow.
    """
    materials = nature.materials
    renderer = materials.context.renderer or generator_of(materials.context)
    labels, places = _drawn(nature, last, sizes)
    names = last.names[labels, places]
    first = np.zeros(len(labels), dtype=np.bool_)
    first[np.unique(np.stack([labels, names]), axis=1, return_index=True)[1]] = True
    maker = _Maker(nature, last, renderer)

    def batches() -> Iterator[SyntheticBatch]:
        for start in range(0, len(labels), _AT_ONCE):
            part = slice(start, start + _AT_ONCE)
            yield maker.made(labels[part], places[part], first[part], start)

    classes, shape = materials.classes if conditional else UNLABELLED, renderer.shape
    captioned = not isinstance(nature.alphabet, Pictures)
    return Release(method, classes, len(labels), batches, None, shape, facts, captioned)


def _drawn(nature: Nature, last: Last, sizes: NDArray[np.int64]) -> tuple[Labels, Labels]:
    """Class of each row and its place in the population of the class, shuffled: (n,) each."""
    rng = nature.materials.rng_of("final rows")
    each = last.names.shape[1]
    labels = np.repeat(np.arange(len(sizes)), sizes)
    places = np.concatenate([spread_over(each, int(size), rng) for size in sizes])
    order = rng.permutation(len(labels))
    return labels[order], places[order]


@dataclass(frozen=True)
class _Maker:
    nature: Nature
    last: Last
    renderer: Generator

    def made(
        self, labels: Labels, places: Labels, first: NDArray[np.bool_], start: int
    ) -> SyntheticBatch:
        """These rows: final images, and the captions that they were rendered from."""
        items = self.last.population.items[labels, places]
        kinds = self.last.population.kinds[labels, places]
        alphabet = self.nature.alphabet
        materials = self.nature.materials

        def draw(samples: NDArray[np.int64], number: int, image: int) -> Images:
            """The first image of a sample, or another: a caption drawn anew, a variation."""
            other = number > 0 or image > 0
            name = f"final {start:06d}" + (f" round {number} image {image}" if other else "")
            seed, shown = materials.seed_of(name), items[samples]
            if not isinstance(alphabet, Pictures):
                return self.renderer.generate([str(text) for text in shown], seed=seed)
            again = np.flatnonzero(~first[samples] | other)
            if len(again):
                its = kinds[samples[again]]
                shown[again] = alphabet.vary(shown[again], its, self.last.degree, seed)
            return np.asarray(shown, dtype=np.uint8)

        images = materials.selected(len(labels), draw)
        captions = None if isinstance(alphabet, Pictures) else [str(text) for text in items]
        return SyntheticBatch(labels, images=images, captions=captions)
