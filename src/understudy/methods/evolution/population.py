"""How one generation of a population comes from another. All of it is public."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import numpy as np

from understudy.core.types import Embeddings, Labels, Vector
from understudy.methods.base import Arrays, Materials
from understudy.methods.evolution import arithmetic
from understudy.methods.evolution.candidates import CandidateKind, Population, renderings_of

_AT_ONCE = 128  # images that are drawn, embedded and stored before the next are


@dataclass(frozen=True)
class RoundSettings:
    """What all rounds share, and the steps of a round."""

    materials: Materials  # seed, progress and what is stored
    candidates: CandidateKind  # RANDOM_API, VARIATION_API and the embeddings that are voted on
    classes: int  # number of classes; 1 where none are looked at
    size: int  # N of a class
    variations: int  # L
    lookahead: int  # K

    def initial(self, phrases: int, degree: float) -> Population:
        """Line 1: C_0 <- RANDOM_API(N), and for L > 1 the L - 1 variations of each besides.

        Without them the first vote would choose the best N of N (their code:
        ``initial_variation_api_fold``). Where classes are not looked at, phrases take turns.
        """
        phrase_of = np.tile(np.arange(phrases), -(-self.size // phrases))[: self.size][None]
        if self.classes > 1:
            phrase_of = np.repeat(np.arange(self.classes)[:, None], self.size, axis=1)

        def make(part: slice, seed: int) -> Arrays:
            return {"items": self.candidates.random(phrase_of.ravel()[part], seed)}

        caption = "first population"
        items = self.in_parts("population 0", caption, phrase_of.size, make)["items"]
        population = Population(items.reshape(*phrase_of.shape, *items.shape[1:]), phrase_of)
        if self.variations == 1:
            return population
        return population.extended(self.variants(population, degree, "population 0", caption))

    def looked_ahead(
        self, population: Population, degree: float, number: int, caption: str
    ) -> Embeddings:
        """Lines 4 to 10: embeddings of K variations of each candidate, or of itself: (n, K, d)."""
        items, phrase_of = population.flat, population.phrase_of.ravel()
        ahead = max(self.lookahead, 1)

        def make(part: slice, seed: int) -> Arrays:
            batch = items[part]
            if self.lookahead:
                batch, phrases = np.repeat(batch, ahead, axis=0), np.repeat(phrase_of[part], ahead)
                batch = self.candidates.vary(batch, phrases, degree, seed)
            embeddings = self.candidates.embed(batch, seed + 1)
            shape = (-1, ahead, embeddings.shape[1])
            return {"embeddings": embeddings.reshape(shape).astype(np.float32)}

        name = f"round {number} seen"
        return self.in_parts(name, caption, len(items), make, images=ahead)["embeddings"]

    def variants(
        self, population: Population, degree: float, name: str, caption: str
    ) -> list[Population]:
        """Lines 22 and 26: one variation of each candidate, or L - 1 of them where L > 1."""
        items, phrase_of = population.flat, population.phrase_of.ravel()

        def make(part: slice, seed: int) -> Arrays:
            return {"items": self.candidates.vary(items[part], phrase_of[part], degree, seed)}

        populations = []
        for number in range(max(1, self.variations - 1)):
            variants = self.in_parts(f"{name} variants {number}", caption, len(items), make)[
                "items"
            ]
            shape = (*population.phrase_of.shape, *variants.shape[1:])
            populations.append(Population(variants.reshape(shape), population.phrase_of))
        return populations

    def selected(
        self, population: Population, votes: Vector, threshold: float, number: int
    ) -> tuple[Population, Labels]:
        """Lines 19 to 25: C'_g, resampled by votes where L = 1, else the top N of each class.

        Returns:
            The candidates that go on, and their positions (classes, N) in the population.
        """
        if self.variations > 1:
            indices = arithmetic.ranked(votes, self.size)
        else:
            chances = arithmetic.probabilities(votes, threshold)
            rng = self.materials.rng_of(f"round {number} resampled")
            indices = arithmetic.resampled(chances, self.size, rng)
        voted = population.subset(indices)
        # Not read again here: the run's folder shows each generation and its votes.
        arrays = {"votes": votes, "chosen": indices, "items": voted.items}
        arrays["phrases"] = voted.phrase_of
        self.materials.keep(f"round {number} voted", lambda: arrays)
        return voted, indices

    def show_owner(self, population: Population, number: int, *, vote: str) -> None:
        """Report how far a generation is from the private records, if that was asked for."""
        materials = self.materials
        if materials.watch is None:
            return
        # N of each class: the first generation has variants besides, and on more samples the
        # Frechet distance is smaller for that alone.
        items = Population(population.items[:, : self.size], population.phrase_of).flat
        # Text is in the space of the encoder, but nowhere near the images of that space.
        draw = renderings_of(materials) if vote == "text" else None

        def make(part: slice, seed: int) -> Arrays:
            if draw is not None:
                return {"embeddings": draw([str(text) for text in items[part]], seed)}
            return {"embeddings": self.candidates.embed(items[part], seed)}

        name = f"round {number} watched"
        embeddings = self.in_parts(name, "looking for the owner", len(items), make)["embeddings"]
        materials.watch(f"round {number}", embeddings.astype(np.float32))

    def in_parts(
        self,
        name: str,
        caption: str,
        count: int,
        make: Callable[[slice, int], Arrays],
        images: int = 1,
    ) -> Arrays:
        """Candidates made a few at a time, and stored: a resumed run makes none of them again.

        ``make``: a part of the ``count`` candidates and a seed, by ``name``, to arrays of that
        length. ``images``: that are drawn for each.
        """
        bar = self.materials.progress(caption, count * images)
        parts = []
        size = max(1, _AT_ONCE // images)
        for start in range(0, count, size):
            part = slice(start, min(start + size, count))
            label = f"{name} {start:06d}"
            seed = self.materials.seed_of(label)
            parts.append(self.materials.keep(label, partial(make, part, seed)))
            bar((part.stop - part.start) * images)
        return {key: np.concatenate([arrays[key] for arrays in parts]) for key in parts[0]}
