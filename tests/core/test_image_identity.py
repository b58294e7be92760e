"""What counts as the same record: the digests that ledgers already hold."""

import hashlib

import numpy as np
import pytest

from understudy.core.image_identity import embedding_digests, value_digest

KEY = b"k" * 32
RNG = np.random.default_rng(0)


def plain_digest(embedding):
    """The digest that ledgers hold, of one record by itself."""
    precision = np.float16 if len(embedding) >= 16 else np.float32
    values = np.add(embedding.astype(precision), precision(0))
    return hashlib.blake2b(
        repr(values.shape).encode() + values.tobytes(), digest_size=16, key=KEY
    ).digest()


@pytest.mark.parametrize("dim", [1, 15, 16, 17])
def test_embeddings_that_are_digested_together_have_the_digests_of_each(dim):
    rng = np.random.default_rng(0)
    embeddings = rng.standard_normal((600, dim)) * 10.0 ** rng.integers(-9, 6, (600, 1))
    special = [0.0, -0.0, 1e-8, -1e-8, 6e-8, -6e-8, 65504, -65504]
    embeddings[:, 0] = np.resize(special, 600)
    embeddings = embeddings.astype(np.float32)
    digests = list(embedding_digests(iter(embeddings), KEY))
    assert digests[:20] == [value_digest(embedding, KEY) for embedding in embeddings[:20]]
    largest = np.abs(embeddings).max(axis=1)
    for row in np.flatnonzero((dim < 16) | ((largest >= 2.0**-14) & (largest <= 65504))):
        assert digests[row] == plain_digest(embeddings[row])


@pytest.mark.parametrize("scale", [1e-40, 1e-9, 1e7, 1e37])
def test_embeddings_that_half_precision_does_not_hold_are_told_apart(scale):
    """Two datasets of such numbers were one, and drew on one budget."""
    embeddings = np.float32(scale) * RNG.uniform(1, 2, (50, 32)).astype(np.float32)
    assert len(set(embedding_digests(iter(embeddings), KEY))) == 50
