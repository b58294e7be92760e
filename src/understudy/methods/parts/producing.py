"""From a mixture to a release: sample, filter, decode."""

from __future__ import annotations

from understudy.core.types import Release
from understudy.methods.parts.drawing import Batches, Producer, fixed, stream
from understudy.methods.parts.entering import Entered
from understudy.methods.parts.filtering import Sieve, check_filter, filtered
from understudy.methods.parts.interface import UNLABELLED, Materials
from understudy.steps.mixture import Mixture


def produce(
    materials: Materials,
    place: Entered,
    mixture: Mixture,
    method: str,
    total: float,
    sieve: Sieve,
) -> Release:
    """Lines 9 to 17 of Algorithm 1.

    Args:
        materials: Decoder, seed, classes, count.
        place: The space of the mixture.
        mixture: What to sample from.
        method: The method's name.
        total: Noisy number of private rows, for the default count.
        sieve: What is kept of the samples.

    Raises:
        ConfigError: A filter of images without a decoder.
    """
    check_filter(sieve.keep, images=materials.decoder is not None)
    count = materials.count or max(1, round(total))
    producer = Producer(materials, place, mixture)
    facts = {"noisy_rows": round(total), "components": len(mixture.weights)}
    batches: Batches
    if sieve.keep == "none":
        batches = stream(producer, count)
    else:
        points, chosen = filtered(producer, count, sieve)
        facts |= {"candidates": count * sieve.oversample, "kept": len(points)}
        count = min(count, len(points))
        batches = fixed(producer, points[:count], chosen[:count])
    shape = None if materials.decoder is None else materials.decoder.shape
    dim = place.entry.total if shape is None else None
    classes = materials.classes if place.classes > 1 else UNLABELLED
    return Release(method, classes, count, batches, dim, shape, facts)
