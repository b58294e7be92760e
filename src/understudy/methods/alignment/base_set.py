"""The base set: public or synthetic rows of every class, which a method moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Embeddings, Labels
from understudy.methods.base import Context

AT_ONCE = 256
"""Rows that are drawn or read, embedded and kept before the next are."""


@dataclass(frozen=True)
class Base:
    """Rows that anybody may see.

    Attributes:
        rows: (n, d) float32 embeddings.
        labels: (n,) class; all 0 for a method that looks at no classes.
        prompts: (n,) index into ``words`` of what each row shows.
        words: The prompts.
        cues: (n, c) float32 embeddings by the encoder of the partition, where that is another.
    """

    rows: Embeddings
    labels: Labels
    prompts: Labels
    words: tuple[str, ...]
    cues: Embeddings | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def and_more(self, more: Base) -> Base:
        """These rows, then more of the same kind."""
        cues = None
        if self.cues is not None and more.cues is not None:
            cues = np.concatenate([self.cues, more.cues])
        return Base(
            np.concatenate([self.rows, more.rows]),
            np.concatenate([self.labels, more.labels]),
            np.concatenate([self.prompts, more.prompts]),
            self.words,
            cues,
        )


def embedded(context: Context, values: NDArray[Any]) -> dict[str, Embeddings]:
    """Images by the encoder, and by that of the partition where it is another.

    Embeddings stay what they are.
    """
    encoder, other = context.encoder, context.cluster_encoder
    found = {"rows": values if encoder is None else encoder.encode(values)}
    return found if other is None else found | {"cues": other.encode(values)}


def joined(
    context: Context, parts: list[dict[str, Embeddings]]
) -> tuple[Embeddings, Embeddings | None]:
    """What `embedded` gave of several parts: rows, and cues where there are any."""
    dim = context.shape[0] if context.encoder is None else context.encoder.dim
    rows = [np.zeros((0, dim), np.float32), *(part["rows"] for part in parts)]
    if context.cluster_encoder is None:
        return np.concatenate(rows), None
    none = np.zeros((0, context.cluster_encoder.dim), np.float32)
    return np.concatenate(rows), np.concatenate([none, *(part["cues"] for part in parts)])
