"""``--watch``: how far the synthetic rows are from the private ones as a run goes on."""

from __future__ import annotations

import json
from functools import cached_property
from pathlib import Path

import numpy as np

from understudy.core.ports import Encoder, Events, Source
from understudy.core.types import Embeddings
from understudy.metrics.fidelity import frechet_distance
from understudy.metrics.moments import Moments


class Watch:
    """Compares with the private rows themselves, without noise: for the owner alone.

    Args:
        source: The private rows.
        encoder: Images to embeddings; None where the source holds embeddings.
        owner: The owner's folder; every comparison is added to ``watch.jsonl`` there.
        events: Where the distance is reported.
    """

    def __init__(
        self, source: Source, encoder: Encoder | None, owner: Path, events: Events
    ) -> None:
        self._source, self._encoder = source, encoder
        self._file, self._events = owner / "watch.jsonl", events

    def __call__(self, words: str, embeddings: Embeddings) -> None:
        """Note the Frechet distance of (n, d) synthetic embeddings to all private ones."""
        distance = frechet_distance(self._private, embeddings)
        self._events.notice(f"{words}: Frechet distance {distance:.4g}", owner_only=True)
        line = {"when": words, "frechet": distance, "rows": len(embeddings), "kind": "owner-only"}
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    @cached_property
    def _private(self) -> Moments:
        rows = []
        for batch in self._source.batches(256):
            values = batch.values
            rows.append(values if self._encoder is None else self._encoder.encode(values))
        return Moments.of(np.concatenate(rows))
