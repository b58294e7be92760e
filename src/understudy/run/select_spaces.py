"""The spaces that a selection compares rows in, and the distances between rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from understudy.backends.plugin import installed
from understudy.backends.registry import load_encoder
from understudy.core.errors import ConfigError
from understudy.core.ports import Encoder, Events, PerceptualDistance, Source
from understudy.core.types import Embeddings, Images, Labels, Shape, Vector
from understudy.data.batches import batch_size, images_at
from understudy.methods.open_selection import LabelledEmbeddings
from understudy.metrics.attacks import by_distance
from understudy.metrics.fingerprints import area_means
from understudy.metrics.nearest_neighbours import clouds, nearest_rows
from understudy.metrics.perceptual_distance import nearest_pair_distances
from understudy.run.accuracy import collect
from understudy.run.models import encoder_name, load_perceptual
from understudy.run.select_config import SelectConfig

PROXY_ENCODER = "embedded:dct"
_PENALTY_ENCODERS = "embedded:scattering", "embedded:dct"
_SIDE = 32  # pixels a side that scattering looks at: beyond, it takes minutes
_COMPARED = 4  # records that a perceptual distance compares with each candidate


class SmallImages:
    """An encoder that looks at images of at most `_SIDE` pixels a side."""

    def __init__(self, encoder: Encoder, name: str) -> None:
        self.encoder, self.name, self.licence = encoder, name, encoder.licence
        self.dim, self.norm_bound, self.ordered = encoder.dim, encoder.norm_bound, encoder.ordered

    def encode(self, images: Images) -> Embeddings:
        """(n, d) of the means over parts of (n, height, width, channels) uint8 images."""
        small: Images = np.rint(area_means(images, _SIDE, smaller=True)).astype(np.uint8)
        return self.encoder.encode(small)


@dataclass(frozen=True)
class Spaces:
    """What rows are compared by; None: they are embeddings already.

    Attributes:
        proxy: The space of the proxy, before it is whitened.
        distance: The space of the distances to private images.
        perceptual: What measures those distances instead, between the nearest in that space.
    """

    proxy: Encoder | None
    distance: Encoder | None
    perceptual: PerceptualDistance | None = None

    @classmethod
    def load(cls, candidates: Source, config: SelectConfig, *, by_distance: bool) -> Spaces:
        """The encoders and the perceptual distance that are named, or their defaults.

        Args:
            candidates: Images, or embeddings, which are compared as they are.
            config: The names.
            by_distance: Whether distances are taken in a space of their own.

        Raises:
            ConfigError: Models for rows that are embeddings, or a distance that nothing asks for.
            BackendError: There is no such model, or it does not take such images.
        """
        shape, encoder = candidates.shape, config.run.models.roles.get("encoder")
        unpenalised, penalty_encoder = config.openly.unpenalised, config.penalty_encoder
        if config.lpips is not None and not by_distance:
            raise ConfigError(
                "--lpips measures what the penalty for closeness is taken of, and its weight is 0: "
                f"leave out --lpips, or {unpenalised}"
            )
        perceptual = None if config.lpips is None else load_perceptual(config.lpips, candidates)
        if candidates.kind == "embeddings":
            if encoder is not None or penalty_encoder is not None:
                raise ConfigError(
                    "the candidates are embeddings already: leave out --encoder and "
                    "--penalty-encoder"
                )
            return cls(None, None)
        proxy = load_encoder(encoder_name(encoder or PROXY_ENCODER), shape=shape)
        if not by_distance:
            return cls(proxy, None)
        if penalty_encoder is not None:
            return cls(proxy, load_encoder(encoder_name(penalty_encoder), shape=shape), perceptual)
        distance = _other_encoder(encoder or PROXY_ENCODER, shape, unpenalised)
        return cls(proxy, distance, perceptual)


def _other_encoder(proxy: str, shape: Shape, unpenalised: str) -> Encoder:
    """An embedded encoder that is not the proxy's; ConfigError where this machine has none."""
    small = (min(shape[0], _SIDE), min(shape[1], _SIDE), shape[2])
    for name in _PENALTY_ENCODERS:
        usable = name != "embedded:scattering" or (installed("torch") and min(small[:2]) >= 4)
        if usable and name != proxy.partition("?")[0]:
            encoder = load_encoder(encoder_name(name), shape=small)
            return SmallImages(encoder, f"{encoder.name} at {small[0]} x {small[1]} pixels")
    install = "" if installed("torch") else "pip install 'understudy[torch]', "
    raise ConfigError(
        "distances to private images are taken in another space than the candidates are chosen "
        f"in, and there is no second encoder of {small[0]} x {small[1]} pixels: {install}name a "
        f"--penalty-encoder, or leave the penalty out ({unpenalised})"
    )


@dataclass(frozen=True)
class EmbeddedRows:
    """Records or candidates in the spaces.

    Attributes:
        proxy: (n, D) in the proxy's space, before it is whitened.
        distance: (n, d) in the space of the distances; the same where there is no other.
        labels: (n,) as the candidates' classes number them.
        source: What they are read from.
        rows: (n,) int64, which of its rows they are.
    """

    proxy: Embeddings
    distance: Embeddings
    labels: Labels
    source: Source
    rows: NDArray[np.int64]

    @classmethod
    def read(
        cls, source: Source, spaces: Spaces, classes: Sequence[str], events: Events
    ) -> EmbeddedRows:
        """All rows of a source, whose classes are among ``classes``."""
        rows = collect(source, spaces.proxy, events.step)
        order = np.array([classes.index(name) for name in source.classes], dtype=np.int64)
        distance = rows.values
        if spaces.distance is not None:
            distance = collect(source, spaces.distance, events.step).values
        numbers = np.arange(len(rows.labels))
        return cls(rows.values, distance, order[rows.labels], source, numbers)

    @property
    def of_proxy(self) -> LabelledEmbeddings:
        """The rows in the proxy's space, and the class of each."""
        return self.proxy, self.labels

    def at(self, indices: NDArray[np.int64]) -> EmbeddedRows:
        """Some of them: (k,) indices."""
        parts = self.proxy[indices], self.distance[indices], self.labels[indices]
        return EmbeddedRows(*parts, self.source, self.rows[indices])


def nearest_distances(
    candidates: EmbeddedRows,
    records: EmbeddedRows,
    perceptual: PerceptualDistance | None,
    events: Events,
) -> Vector:
    """The distance of each candidate to the nearest record: (M,).

    A perceptual distance is too slow for all pairs: of each candidate the few records that are
    nearest in the space of the distances are compared, and the least counts. The images of the
    records that are compared are in memory at once; those of the candidates are read in turn.
    """
    if perceptual is None:
        return -by_distance(candidates.distance, records.distance)
    few = min(_COMPARED, len(records.labels))
    queries, references = clouds(candidates.distance, records.distance)
    nearest, _ = nearest_rows(queries, references, few)
    compared, positions = np.unique(nearest, return_inverse=True)
    positions = positions.reshape(-1, few)
    images = images_at(records.source, records.rows[compared])
    bar = events.step("comparing images", len(nearest))
    result, first = np.empty(len(nearest)), 0
    for batch in candidates.source.batches(batch_size(candidates.source)):
        part = slice(first, first := first + len(batch.labels))
        result[part] = nearest_pair_distances(
            perceptual.distance, batch.values, images, positions[part]
        )
        bar(len(batch.labels))
    bar.finish()
    return result
