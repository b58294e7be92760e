"""Captions from any image-text encoder and a grammar of phrases, without training.

For each slot of the grammar (the target, its colour, what it does, ...) the value is taken whose
phrases lie closest to the image, as CLIP classifies (arXiv 2103.00020, section 3.1.4: the mean of
several phrases' embeddings stands for a value). A slot may depend on others: a coat is asked for
where the target is a dog, and its phrases may name what was found before.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from understudy.backends.phrase_grammar import PhraseGrammar, Slot
from understudy.core.independence import product
from understudy.core.phrases import AttributeValues
from understudy.core.ports import TextEncoder
from understudy.core.types import Embeddings, Images, Vector


class ZeroShotCaptioner:
    """Images to captions by an encoder that knows texts and a grammar."""

    def __init__(
        self, encoder: TextEncoder, grammar: PhraseGrammar, *, name: str | None = None
    ) -> None:
        self.name = name or encoder.name
        self.licence = encoder.licence
        self._encoder = encoder
        self._grammar = grammar
        self._known: dict[tuple[str, ...], Vector] = {}

    def caption(self, images: Images) -> list[str]:
        """One caption an image."""
        return self.captions_of(self._encoder.encode(images))

    def captions_of(self, embeddings: Embeddings) -> list[str]:
        """The same for (n, d) embeddings of images by the captioner's encoder."""
        return [self._grammar.compose(attributes) for attributes in self.attributes_of(embeddings)]

    def attributes(self, images: Images) -> list[AttributeValues]:
        """The value of each slot that applies, for each image."""
        return self.attributes_of(self._encoder.encode(images))

    def attributes_of(self, embeddings: Embeddings) -> list[AttributeValues]:
        """The same for (n, d) embeddings of images by the captioner's encoder."""
        attributes: list[AttributeValues] = [{} for _ in range(len(embeddings))]
        for slot in self._grammar.slots:
            for rows in self._alike(slot, attributes):
                # Which records are asked the same depends on all of them: no score may.
                scores = product(embeddings[rows], self._values(slot, attributes[rows[0]]).T)
                values = list(slot.values)
                for row, best in zip(rows, scores.argmax(axis=1), strict=True):
                    attributes[row][slot.name] = values[best]
        return attributes

    def _alike(self, slot: Slot, captions: Sequence[AttributeValues]) -> list[list[int]]:
        """Rows that a slot is asked for, together where its phrases say the same."""
        needs = sorted(slot.needs)
        groups: dict[tuple[str, ...], list[int]] = defaultdict(list)
        for row, attributes in enumerate(captions):
            if self._grammar.asks(slot, attributes):
                groups[tuple(attributes[name] for name in needs)].append(row)
        return list(groups.values())

    def _values(self, slot: Slot, attributes: AttributeValues) -> Vector:
        """(values, d): the mean of the embeddings of each value's phrases, of unit norm."""
        sentences = [
            tuple(
                prompt.replace("{}", self._grammar.fill(phrase, attributes))
                for prompt in self._grammar.prompts
                for phrase in phrases
            )
            for phrases in slot.values.values()
        ]
        new = [texts for texts in dict.fromkeys(sentences) if texts not in self._known]
        if new:
            embedded = self._encoder.encode_text([text for texts in new for text in texts])
            ends = np.cumsum([len(texts) for texts in new])[:-1]
            for texts, rows in zip(new, np.split(embedded.astype(np.float64), ends), strict=True):
                mean = rows.mean(axis=0)
                self._known[texts] = mean / max(float(np.linalg.norm(mean)), 1e-12)
        return np.stack([self._known[texts] for texts in sentences])
