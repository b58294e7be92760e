"""What counts as the same record: the digests that ledgers already hold."""

import hashlib

import numpy as np
import pytest

from understudy.core.image_identity import embedding_digests, value_digest

KEY = b"k" * 32


def plain_digest(embedding):
    """The digest that ledgers hold, of one record by itself."""
    precision = np.float16 if len(embedding) >= 16 else np.float32
    with np.errstate(over="ignore"):
        values = np.add(embedding.astype(precision), precision(0))
    return hashlib.blake2b(
        repr(values.shape).encode() + values.tobytes(), digest_size=16, key=KEY
    ).digest()


@pytest.mark.parametrize("dim", [1, 15, 16, 17])
def test_embeddings_that_are_digested_together_have_the_digests_of_each(dim):
    rng = np.random.default_rng(0)
    embeddings = rng.standard_normal((600, dim)) * 10.0 ** rng.integers(-9, 6, (600, 1))
    special = [0.0, -0.0, 1e-8, -1e-8, 6e-8, -6e-8, 65519, 65520, -70000]
    embeddings[:, 0] = np.resize(special, 600)
    embeddings = embeddings.astype(np.float32)
    digests = list(embedding_digests(iter(embeddings), KEY))
    assert digests == [plain_digest(embedding) for embedding in embeddings]
    assert digests[:20] == [value_digest(embedding, KEY) for embedding in embeddings[:20]]
