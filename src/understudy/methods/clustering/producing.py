"""From a mixture to a release: sample, filter, decode."""

from __future__ import annotations

from typing import Any

from understudy.core.types import Release
from understudy.methods.base import UNLABELLED, Materials
from understudy.methods.clustering.embedding_space import Entered
from understudy.methods.clustering.sampling import Producer, stream
from understudy.methods.clustering.vote_filter import VoteFilter, filtered
from understudy.steps.mixture import Mixture


def produce(
    materials: Materials,
    place: Entered,
    mixture: Mixture,
    method: str,
    total: float,
    chosen: VoteFilter,
) -> Release:
    """Lines 9 to 17 of Algorithm 1.

    Args:
        materials: Decoder, seed, classes, count.
        place: The space of the mixture.
        mixture: What to sample from.
        method: The method's name.
        total: Noisy number of private records, for the default count.
        chosen: Which samples are released.
    """
    count = materials.count or max(1, round(total))
    producer = Producer(materials, place, mixture)
    facts: dict[str, Any] = {"noisy_rows": round(total), "components": len(mixture.weights)}
    if chosen.kind == "none":
        batches = stream(producer, count)
    else:
        batches, known = filtered(producer, count, total, chosen)
        facts |= known
    shape = None if materials.decoder is None else materials.decoder.shape
    dim = place.entry.total if shape is None else None
    classes = materials.classes if place.classes > 1 else UNLABELLED
    return Release(method, classes, count, batches, dim, shape, facts)
