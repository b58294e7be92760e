"""``--quality-share``: how good a release is, measured on the private records and published.

A part of the run's budget pays for one counted query. A classifier is trained on the release, which
is public; the query counts for each class how many private records it finds and misses. Its answer
goes through the vault as any other does: planned, charged, noisy, stored, in the receipt.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from understudy.backends.arrays import fit_images
from understudy.core.files import public_name
from understudy.core.independence import constantly
from understudy.core.ports import Encoder, Engine, Events, Source, Step
from understudy.core.types import Labels, Release
from understudy.metrics.labelled import match_classes
from understudy.metrics.recall_estimates import mean_interval, recall_intervals, softmax_weights
from understudy.metrics.subsets import some
from understudy.privacy.account import Account
from understudy.privacy.queries import RecallCounts
from understudy.privacy.rows import RECORDS_PER_CALL
from understudy.privacy.vault import PrivateVault
from understudy.release.outputs import NamedArrays, RunFolder, open_release, private_cache
from understudy.report import PublicQuality
from understudy.run.prepare import QUALITY, Prepared

_ROWS = 10_000  # samples that the classifier is trained on, at most
_NUMBERS = 1 << 26  # of their features together, at most
_BATCH = 512


def measured_quality(
    prepared: Prepared,
    written: Release,
    account: Account,
    folder: RunFolder,
    events: Events,
    engine: Engine,
) -> PublicQuality:
    """Train a classifier on a release, and count which private records it finds: one query."""
    private = prepared.source
    encoder = None if private.kind == "embeddings" else prepared.context.encoder

    def trained() -> NamedArrays:
        release = open_release(folder.draft, written.image_shape)
        features, labels = _features(release, private, encoder)
        return {"theta": softmax_weights(features, labels, len(private.classes))}

    def progress(name: str) -> Step:
        return events.step(name, len(private), owner_only=True)

    query = RecallCounts(folder.keep("quality classifier", trained)["theta"])
    with private_cache(folder.cache) as cache:
        vault = PrivateVault(private, account, engine, cache, progress)
        records = vault.embedded() if encoder is None else vault.map(encoder.encode)
        counts = records.release(query, stage=QUALITY).reshape(-1, 2)
        parts = recall_intervals(counts, records.noise_sd(query, stage=QUALITY))
        vault.close()
    space = "the embeddings" if encoder is None else f"embeddings by {public_name(encoder.name)}"
    mean = mean_interval(parts)
    return PublicQuality(
        f"softmax regression on {space}",
        (mean.value, mean.low, mean.high),
        {
            name: (part.value, part.low, part.high)
            for name, part in zip(private.classes, parts, strict=True)
        },
    )


def _features(
    release: Source, private: Source, encoder: Encoder | None
) -> tuple[NDArray[Any], Labels]:
    """Samples of a release as the classifier takes them, with the private dataset's labels."""
    dim = release.shape[0] if encoder is None or release.kind == "embeddings" else encoder.dim
    sample = np.zeros(len(release), dtype=bool)
    sample[some(len(release), min(_ROWS, max(1, _NUMBERS // dim)))] = True
    features, labels, start = [], [], 0
    for batch in release.batches(_BATCH):
        some_of_batch = sample[start : start + len(batch.labels)]
        start += len(batch.labels)
        values = batch.values[some_of_batch]
        if encoder is not None and release.kind == "images" and len(values):
            images = fit_images(values, private.shape)
            values = constantly(encoder.encode, images, RECORDS_PER_CALL)
        if len(values):
            features.append(values)
            labels.append(batch.labels[some_of_batch])
    classes = match_classes(np.concatenate(labels), release.classes, private.classes)
    return np.concatenate(features), classes
