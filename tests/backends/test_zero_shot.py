from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from understudy.backends.hub.zero_shot import ZeroShotCaptioner
from understudy.backends.phrase_grammar import read_grammar
from understudy.core.ports import Captioner, TextEncoder
from understudy.core.types import Embeddings, Images

GRAMMAR: dict[str, Any] = {
    "prompts": ["{}", "a photo of {}"],
    "slots": {
        "target": {"dog": ["a dog"], "person": ["a person", "somebody"], "bottle": ["a bottle"]},
        "coat": {
            "values": {"brown": ["a brown {target}"], "orange": ["an orange {target}"]},
            "when": {"target": ["dog"]},
        },
        "status": [
            {
                "values": {"asleep": ["a {target} sleeping"], "eating": ["a {target} eating"]},
                "when": {"target": ["dog"]},
                "words": {"asleep": "sleeping"},
            },
            {
                "values": {"reading": ["a {target} reading"], "eating": ["a {target} eating"]},
                "when": {"target": ["person"]},
            },
        ],
    },
    "templates": [
        {"text": "a {coat} dog {status}", "when": {"target": ["dog"]}},
        {"text": "a {target} is {status}", "when": {"target": ["person"]}},
        "a {target}",
    ],
}


class WordEncoder:
    """Texts as counts of words, images as counts of the words their pixels number."""

    name, licence, norm_bound, ordered = "test:words", "none", 1.0, False

    def __init__(self, words: Sequence[str]) -> None:
        self.words = list(words)
        self.dim = len(words)
        self.asked: list[str] = []

    def encode(self, images: Images) -> Embeddings:
        counts = [np.bincount(row.ravel(), minlength=self.dim) for row in images]
        return self._unit(np.array(counts).reshape(-1, self.dim))

    def encode_text(self, texts: Sequence[str]) -> Embeddings:
        self.asked += texts
        return self._unit(np.array([[text.split().count(w) for w in self.words] for text in texts]))

    def picture(self, *words: str) -> Images:
        numbers = [self.words.index(word) for word in words]
        return np.array(numbers, dtype=np.uint8).reshape(1, 1, -1, 1)

    def _unit(self, counts: np.ndarray) -> Embeddings:
        norms = np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1e-9)
        return (counts / norms).astype(np.float32)


WORDS = ["dog", "person", "somebody", "bottle", "brown", "orange", "sleeping", "eating", "reading"]


@pytest.fixture
def encoder() -> WordEncoder:
    return WordEncoder(WORDS)


def test_it_picks_each_value_that_lies_closest_and_says_it(encoder: WordEncoder) -> None:
    captioner = ZeroShotCaptioner(encoder, read_grammar(GRAMMAR))
    assert isinstance(encoder, TextEncoder)
    assert isinstance(captioner, Captioner)
    images = np.concatenate(
        [
            encoder.picture("dog", "brown", "eating"),
            encoder.picture("somebody", "reading", "reading"),
            encoder.picture("bottle", "bottle", "orange"),
            encoder.picture("dog", "orange", "sleeping"),
        ]
    )
    assert captioner.attributes(images) == [
        {"target": "dog", "coat": "brown", "status": "eating"},
        {"target": "person", "status": "reading"},
        {"target": "bottle"},
        {"target": "dog", "coat": "orange", "status": "asleep"},
    ]
    assert captioner.caption(images) == [
        "a brown dog eating",
        "a person is reading",
        "a bottle",
        "an orange dog sleeping",
    ]
    assert captioner.caption(images[:0]) == []
    assert (captioner.name, captioner.licence) == ("test:words", "none")


def test_a_slot_is_asked_for_only_where_its_condition_holds(encoder: WordEncoder) -> None:
    captioner = ZeroShotCaptioner(encoder, read_grammar(GRAMMAR))
    # Nobody asks what the dog reads: among a dog's statuses the closest one is taken.
    (found,) = captioner.attributes(encoder.picture("dog", "dog", "reading", "eating"))
    assert found["status"] == "eating"
    assert not any("dog reading" in text for text in encoder.asked)
