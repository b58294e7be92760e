"""A population, and how one generation of it comes from another. All of it is public."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from understudy.core.types import Embeddings, Labels, Vector
from understudy.methods.base import Arrays, Materials
from understudy.methods.evolution import arithmetic as steps
from understudy.methods.evolution.candidates import Alphabet, Items

_AT_ONCE = 128  # pictures that are drawn, embedded and kept before the next are


@dataclass(frozen=True)
class Population:
    """As many candidates of every class.

    Attributes:
        items: (classes, m, ...) captions or images.
        kinds: (classes, m) int64, which phrase each shows; its class, where there are classes.
    """

    items: Items
    kinds: Labels

    @property
    def flat(self) -> Items:
        """(classes * m, ...)."""
        return self.items.reshape(-1, *self.items.shape[2:])

    def chosen(self, places: Labels) -> Population:
        """The candidates at (classes, n) places of their class."""
        rows = np.arange(len(places))[:, None]
        return Population(self.items[rows, places], self.kinds[rows, places])

    def and_also(self, others: list[Population]) -> Population:
        """These, then the others of the same class."""
        whole = [self, *others]
        return Population(
            np.concatenate([one.items for one in whole], axis=1),
            np.concatenate([one.kinds for one in whole], axis=1),
        )


@dataclass(frozen=True)
class Nature:
    """What all rounds share.

    Attributes:
        materials: Seed, progress and what is kept.
        alphabet: RANDOM_API, VARIATION_API and the eyes of the voters.
        classes: Number of classes; 1 where none are looked at.
        size: N of a class.
        variations: L.
        lookahead: K.
    """

    materials: Materials
    alphabet: Alphabet
    classes: int
    size: int
    variations: int
    lookahead: int

    def first(self, phrases: int, degree: float) -> Population:
        """Line 1: C_0 <- RANDOM_API(N), and for L > 1 the L - 1 variations of each besides.

        Without them the first vote would choose the best N of N (their code:
        ``initial_variation_api_fold``). Where classes are not looked at, phrases take turns.
        """
        kinds = np.tile(np.arange(phrases), -(-self.size // phrases))[: self.size][None]
        if self.classes > 1:
            kinds = np.repeat(np.arange(self.classes)[:, None], self.size, axis=1)

        def make(part: slice, seed: int) -> Arrays:
            return {"items": self.alphabet.random(kinds.ravel()[part], seed)}

        words = "first population"
        found = self.in_parts("population 0", words, kinds.size, make)["items"]
        population = Population(found.reshape(*kinds.shape, *found.shape[1:]), kinds)
        if self.variations == 1:
            return population
        return population.and_also(self.variants(population, degree, "population 0", words))

    def looked_ahead(
        self, population: Population, degree: float, number: int, words: str
    ) -> Embeddings:
        """Lines 4 to 10: K variations of each candidate, as the voters see them: (n, K, d).

        With K = 0 the candidate itself: (n, 1, d).
        """
        items, kinds, ahead = population.flat, population.kinds.ravel(), max(self.lookahead, 1)

        def make(part: slice, seed: int) -> Arrays:
            shown = items[part]
            if self.lookahead:
                shown, its = np.repeat(shown, ahead, axis=0), np.repeat(kinds[part], ahead)
                shown = self.alphabet.vary(shown, its, degree, seed)
            seen = self.alphabet.seen(shown, seed + 1)
            return {"seen": seen.reshape(-1, ahead, seen.shape[1]).astype(np.float32)}

        name = f"round {number} seen"
        return self.in_parts(name, words, len(items), make, each=ahead)["seen"]

    def variants(
        self, population: Population, degree: float, name: str, words: str
    ) -> list[Population]:
        """Lines 22 and 26: one variation of each candidate, or L - 1 of them where L > 1."""
        items, kinds = population.flat, population.kinds.ravel()

        def make(part: slice, seed: int) -> Arrays:
            return {"items": self.alphabet.vary(items[part], kinds[part], degree, seed)}

        found = []
        for number in range(max(1, self.variations - 1)):
            made = self.in_parts(f"{name} variants {number}", words, len(items), make)["items"]
            shape = (*population.kinds.shape, *made.shape[1:])
            found.append(Population(made.reshape(shape), population.kinds))
        return found

    def elected(
        self, population: Population, votes: Vector, threshold: float, number: int
    ) -> tuple[Population, Labels]:
        """Lines 19 to 25: C'_g, resampled by votes where L = 1, else the top N of each class.

        Returns:
            Who goes on, and their places (classes, N) in the population.
        """
        if self.variations > 1:
            chosen = steps.ranked(votes, self.size)
        else:
            chances = steps.probabilities(votes, threshold)
            rng = self.materials.rng_of(f"round {number} resampled")
            chosen = steps.resampled(chances, self.size, rng)
        voted = population.chosen(chosen)
        # Not read again here: who looks into the run's folder sees each generation and its votes.
        arrays = {"votes": votes, "chosen": chosen, "items": voted.items, "kinds": voted.kinds}
        self.materials.keep(f"round {number} voted", lambda: arrays)
        return voted, chosen

    def in_parts(
        self,
        name: str,
        words: str,
        count: int,
        make: Callable[[slice, int], Arrays],
        each: int = 1,
    ) -> Arrays:
        """Rows made a few at a time, and kept: a resumed run makes no part of them again.

        Args:
            name: A name for these rows; another name gives other rows.
            words: For the progress bar.
            count: How many rows.
            make: A part of the rows and a seed to arrays with a row for each.
            each: Pictures that a row takes.
        """
        bar = self.materials.progress(words, count * each)
        found = []
        size = max(1, _AT_ONCE // each)
        for start in range(0, count, size):
            part = slice(start, min(start + size, count))
            label = f"{name} {start:06d}"
            seed = self.materials.seed_of(label)
            found.append(self.materials.keep(label, partial(make, part, seed)))
            bar((part.stop - part.start) * each)
        return {key: np.concatenate([one[key] for one in found]) for key in found[0]}
