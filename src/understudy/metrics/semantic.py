"""Semantic embedding similarity (SIM): what an image shows, rather than its pixels.

SpinML, section 3.4: the mean cosine of the embeddings of private and of synthetic images, over
all pairs, by a large vision model; and of private images and the prompts that went to the
server, by a model with both in one space, with an empty prompt as the baseline. Higher leaks more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.typing import NDArray

from understudy.core.errors import InputError
from understudy.core.ports import Encoder
from understudy.core.results import Interval, Metric
from understudy.core.types import Images, Masks, Vector

_GREY = 127


@dataclass(frozen=True, slots=True)
class PromptSimilarity:
    """SIM of prompts and private images (SpinML, table 4d).

    Attributes:
        prompts: Mean cosine over all pairs of a prompt and an image.
        empty: Mean cosine of the empty prompt and an image: what no information comes to.
        above: prompts - empty; near 0 where the prompts tell little.
    """

    prompts: Interval
    empty: Interval
    above: Interval


def semantic_similarity(private: NDArray[Any], synthetic: NDArray[Any]) -> Interval:
    """SIM (SpinML, Eq. 2): mean cosine over all pairs of a private and a synthetic embedding.

    The interval treats both sides as samples; where either has one row, it has no spread.

    Args:
        private: (n, d) embeddings of private images, or of their objects or backgrounds alone.
        synthetic: (m, d) of what was made or shared, by the same model.

    Raises:
        InputError: Embeddings that do not compare, or one of length zero.
    """
    one, two = _directions(private, synthetic)
    to_theirs, to_mine = one @ two.mean(axis=0), two @ one.mean(axis=0)
    return _interval(float(to_theirs.mean()), (to_theirs, to_mine))


def part_directions(images: Images, masks: Masks, encoder: Encoder) -> tuple[Vector, Vector]:
    """Mean embeddings of unit length: of objects alone, and of their surroundings alone.

    The product of those of two sets of images is their SIM (Eq. 2). Everything else is grey, and
    images without an object are left out.

    Args:
        images: (n, height, width, 3) uint8.
        masks: (n, height, width) bool: the pixels of the object.
        encoder: Embeds such images.

    Raises:
        InputError: The object is in none of them.
    """
    rows = np.flatnonzero(masks.any(axis=(1, 2)))
    alone = (
        np.where((masks[rows] == inside)[..., None], images[rows], np.uint8(_GREY))
        for inside in (True, False)
    )
    objects, surroundings = (_directions(encoder.encode(one))[0].mean(axis=0) for one in alone)
    return objects, surroundings


def _of_directed(private: NDArray[Any], rows: NDArray[Any]) -> Interval | None:
    """SIM without rows of zeros, such as features of an empty image; None: no others are left."""
    one, two = (side[np.any(side != 0, axis=1)] for side in (private, rows))
    return semantic_similarity(one, two) if len(one) and len(two) else None


SEMANTIC_SIMILARITY = Metric(
    key="semantic_similarity",
    group="leakage",
    name="semantic similarity (SIM)",
    explanation="Mean cosine of private and synthetic features, over all pairs. It is as high for "
    "good releases as for held-out records: only what is above those is a leak.",
    baseline="held-out real records",
    compares="features",
    full=True,
    function=_of_directed,
)


def prompt_similarity(
    private: NDArray[Any], prompts: NDArray[Any], empty: NDArray[Any]
) -> PromptSimilarity:
    """SIM of prompts and private images; the baseline is the empty prompt's.

    Args:
        private: (n, d) embeddings of private images (`TextEncoder.encode`).
        prompts: (m, d) embeddings of the prompts (`TextEncoder.encode_text`).
        empty: (1, d) embedding of the empty prompt.

    Raises:
        InputError: Embeddings that do not compare, or one of length zero; several empty prompts.
    """
    if len(empty) != 1:
        raise InputError(f"there is one empty prompt: (1, d), found {empty.shape}")
    images, texts, nothing = _directions(private, prompts, empty)
    more = texts - nothing  # differences image by image: what all prompts share drops out
    by_image, by_text = images @ more.mean(axis=0), more @ images.mean(axis=0)
    return PromptSimilarity(
        semantic_similarity(private, prompts),
        semantic_similarity(private, empty),
        _interval(float(by_image.mean()), (by_image, by_text)),
    )


def _interval(mean: float, sides: tuple[Vector, ...]) -> Interval:
    """Of a mean over all pairs of two samples, by each row's own mean (Hoeffding 1948)."""
    variance = sum(side.var(ddof=1) / len(side) for side in sides if len(side) > 1)
    half_width = float(scipy.stats.norm.ppf(0.975) * np.sqrt(variance))
    return Interval(mean, mean - half_width, mean + half_width)


def _directions(*sets: NDArray[Any]) -> tuple[Vector, ...]:
    """Embeddings scaled to unit norm."""
    directions = []
    for one in sets:
        if one.ndim != 2 or not len(one) or one.shape[1] != sets[0].shape[1]:
            raise InputError(
                "embeddings by one model, (n, d) with n at least 1, are compared: found "
                f"{one.shape} and {sets[0].shape}"
            )
        norms = np.linalg.norm(one.astype(np.float64), axis=1, keepdims=True)
        if not np.isfinite(norms).all() or not (norms > 0).all():
            raise InputError("an embedding is zero or not finite: it has no direction")
        directions.append(one / norms)
    return tuple(directions)
