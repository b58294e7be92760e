"""The parameters of evolution, and what each means."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from understudy.core.errors import ConfigError
from understudy.methods.base import require_at_least


@dataclass(frozen=True)
class EvolutionParams:
    """Parameters of evolution; ``None``: chosen by the alphabet and the classes (`settled`).

    Raises:
        ConfigError: A value out of range, or two that exclude each other.
    """

    alphabet: Literal["captions", "images"] = "captions"
    population: int | None = None
    rounds: int | None = None
    variations: int | None = None
    lookahead: int | None = None
    vote: Literal["image", "text"] = "image"
    distance: Literal["l2", "cosine"] = "l2"
    threshold: float = 1.0
    degree: float | None = None
    last_degree: float | None = None
    sizes: str = "count"
    release: Literal["voted", "variants", "both"] = "voted"
    template: str = "a photo of a {class}"
    conditional: bool = True

    def __post_init__(self) -> None:
        require_at_least(self, {"population": 1, "rounds": 1, "variations": 1, "lookahead": 0})
        if (self.rounds or 1) > 100:
            raise ConfigError(f"rounds must be 1 to 100, found {self.rounds}")
        if not 0 <= self.threshold < np.inf:
            raise ConfigError(f"threshold must be 0 or more, found {self.threshold}")
        for name in ("degree", "last_degree"):
            if (value := getattr(self, name)) is not None and not 0 <= value <= 1:
                raise ConfigError(f"{name} must lie in [0, 1], found {value}")
        if self.vote == "text" and self.alphabet == "images":
            raise ConfigError("vote=text compares captions: take alphabet=captions, or vote=image")


OPTIONS = {
    "alphabet": "what evolves: captions, rendered for the vote (SPTI), or images (PE)",
    "population": "candidates in all (N), as many a class; default 160 to 800 by L, K and mu",
    "rounds": "rounds of votes, 1 to 100 (G), that share the budget equally; default 5, images 6",
    "variations": "L: 1 resamples by votes (captions); more varies the top L - 1 times (images: 3)",
    "lookahead": "variations averaged for a vote (K); default 4, or none where mu >= 1 or L > 1",
    "vote": "image: private images vote for rendered captions; text: their captions for captions",
    "distance": "who is nearest: l2 or cosine",
    "threshold": "votes below so many standard deviations of the noise are noise (L = 1)",
    "degree": "how much a variation changes in the first round; default 0.4, images 0.7",
    "last_degree": "and in the last, linearly between; default 0.1, images 0.3",
    "sizes": "class sizes: count (DP), balanced, or public numbers such as 100,200,50",
    "release": "voted: who was voted for in the last round; variants: variations of them; both",
    "template": "prompt of the first images; {class} is the class (alphabet=images)",
    "conditional": "a population for each class; false: one for all, released without classes",
}
