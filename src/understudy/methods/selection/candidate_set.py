"""The candidates of a selection: read, embedded, and released as they were where selected."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.ports import CaptionedSource, Encoder, Source
from understudy.core.types import Batch, Embeddings, Images, Labels, Release, SyntheticBatch
from understudy.methods.base import Arrays, Materials

_AT_ONCE = 256  # that are read, embedded and stored before the next are


@dataclass(frozen=True)
class CandidateSet:
    """Samples of which some are selected.

    Attributes:
        source: Where they come from.
        embeddings: (M, D) float32.
        labels: (M,) class of each, as the private dataset numbers them.
        digest: Of their values and labels as they were read; empty where nobody asks.
    """

    source: Source
    embeddings: Embeddings
    labels: Labels
    digest: str = ""

    def release(
        self,
        classes: tuple[str, ...],
        indices: NDArray[np.int64],
        method: str,
        facts: Mapping[str, Any],
    ) -> Release:
        """The selected candidates in their order: images or embeddings, labels and captions.

        Args:
            classes: Class names of the release, as the labels number them.
            indices: (k,) ascending.
            method: Name of the method.
            facts: Public facts of it.
        """
        source, labels = self.source, self.labels
        captions = source.captions if isinstance(source, CaptionedSource) else None
        images = source.kind == "images"

        def batches() -> Iterator[SyntheticBatch]:
            for first, batch in numbered(source):
                rows = indices[(indices >= first) & (indices < first + len(batch.labels))]
                if len(rows) == 0:
                    continue
                values = batch.values[rows - first]
                yield SyntheticBatch(
                    labels[rows],
                    embeddings=None if images else values,
                    images=values if images else None,
                    captions=None if captions is None else [captions[row] for row in rows.tolist()],
                )

        return Release(
            method,
            classes,
            len(indices),
            batches,
            None if images else source.shape[0],
            source.shape if images else None,
            facts,
            captions is not None,
            source.licence if isinstance(source, CaptionedSource) else None,
        )


def numbered(source: Source) -> Iterator[tuple[int, Batch]]:
    """The batches of a source, each with the number of its first record."""
    first = 0
    for batch in source.batches(_AT_ONCE):
        yield first, batch
        first += len(batch.labels)


def read_candidates(materials: Materials) -> CandidateSet:
    """The candidates that the user named, embedded.

    Raises:
        ConfigError: None were named.
    """
    source = materials.candidates
    if source is None:
        raise ConfigError("there is nothing to select from: give --candidates")
    embeddings, own_labels, digest = embedded(materials, source, "candidates")
    order = {name: index for index, name in enumerate(materials.classes)}
    labels = np.array([order[name] for name in source.classes])[own_labels]
    return CandidateSet(source, embeddings, labels, digest)


def embedded(materials: Materials, source: Source, name: str) -> tuple[Embeddings, Labels, str]:
    """A public dataset by the encoder, (n, D) float32, its own labels, (n,), and its digest.

    Embeddings stay what they are. Those of images are stored with the run, a part at a time.

    Args:
        materials: The encoder.
        source: The dataset.
        name: What to call it.
    """
    encoder = materials.encoder
    bar = materials.progress(f"reading the {name}", len(source))
    parts: list[NDArray[np.float32]] = []
    labels, content = [], hashlib.blake2b(digest_size=16)
    for first, batch in numbered(source):
        content.update(batch.labels.tobytes() + batch.values.tobytes())
        if encoder is None:
            parts.append(np.asarray(batch.values, dtype=np.float32))
        else:
            images = materials.fit(batch.values)
            stored = materials.keep(f"{name} {first:08d}", partial(_encoded, encoder, images))
            parts.append(np.asarray(stored["embeddings"], dtype=np.float32))
        labels.append(batch.labels)
        bar(len(batch.labels))
    return np.concatenate(parts), np.concatenate(labels), content.hexdigest()


def _encoded(encoder: Encoder, images: Images) -> Arrays:
    return {"embeddings": encoder.encode(images)}
