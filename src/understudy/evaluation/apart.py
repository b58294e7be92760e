"""Whether a test set is apart: no row of it is a private record, or a row of the release."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from understudy.core.errors import ConfigError
from understudy.core.image_identity import same_looks
from understudy.core.ports import Source
from understudy.evaluation.embedding_pass import EmbeddedDataset
from understudy.metrics.fingerprints import Digests, copied, record_digests
from understudy.metrics.subsets import some
from understudy.run.shared_records import FEW, first_of_rows

_COMPARED = 2_000  # images of a test set, at most, whose looks are compared with the private ones


def require_apart_rows(
    private: EmbeddedDataset, release: EmbeddedDataset, test: EmbeddedDataset
) -> NDArray[np.bool_]:
    """Which rows of a test set are neither private nor in the release, value for value.

    Raises:
        ConfigError: Too many are; or the test set holds private images that were stored anew.
    """
    images = release.source.kind == "images"
    sides = {"private records": private, "rows of the release": release}
    shared = require_few_shared(
        _digests(test, images),
        {words: _digests(side, images) for words, side in sides.items()},
        test.source,
    )
    if private.looks is not None and test.looks is not None:
        compared = np.arange(len(test.looks))[some(len(test.looks), _COMPARED)]
        hits = compared[same_looks(test.looks.at(compared), private.looks)].tolist()
        if len(hits) > FEW * len(compared):
            raise ConfigError(
                f"{len(hits):,} of {len(compared):,} images of the test set ({test.source.name}) "
                f"are private images that were stored anew{first_of_rows(test.source, hits)}: "
                "encoded, resized or turned, they look the same. A test set is of other images: "
                "leave them out, or name another (--test)"
            )
    return ~shared


def require_few_shared(
    digests: Digests, sides: Mapping[str, Digests], test: Source
) -> NDArray[np.bool_]:
    """Which rows of a test set, by their digests, are among other rows (by what they are).

    Raises:
        ConfigError: More than one in a hundred is.
    """
    shared = np.zeros(len(digests), dtype=np.bool_)
    for words, others in sides.items():
        same = copied(digests, others)
        if same.mean() > FEW:
            rows = np.flatnonzero(same).tolist()
            raise ConfigError(
                f"{len(rows):,} of {len(same):,} rows of the test set ({test.name}) are {words}"
                f"{first_of_rows(test, rows)}: a test set is of real records that were in neither, "
                "or nothing that is measured on it means anything. Leave them out, or "
                "name another (--test)"
            )
        shared |= same
    return shared


def _digests(side: EmbeddedDataset, images: bool) -> Digests:
    """Of the pixels, or of what rows are embedded to where the release holds embeddings."""
    return side.digests if images else record_digests(side.features)
