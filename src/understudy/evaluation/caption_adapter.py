"""How well the images of a release fit the captions that it keeps beside them.

Only the release is looked at, and no private record: these values are covered by its guarantee,
where it has one, and may be published as it may.
"""

from __future__ import annotations

import numpy as np

from understudy.core.ports import TextEncoder
from understudy.core.results import Metric, MetricValue
from understudy.core.types import Embeddings, Labels
from understudy.data.encoded_images import RecordSource
from understudy.evaluation import Part
from understudy.evaluation.embedding_pass import FeatureExtractor
from understudy.metrics.fidelity import CLIP_SCORE, CLIP_SCORE_SHUFFLED, clip_score
from understudy.metrics.subsets import some
from understudy.run.progress import Bars

CAPTIONED_ROWS = 5_000
"""Images that are looked at, at most; random ones where there are more."""

_BATCH = 64


def measure_captions(
    release: RecordSource, features: FeatureExtractor, bars: Bars, *, protected: bool
) -> Part:
    """The CLIP score of a release, and of the same images with captions of other rows.

    Of features whose encoder reads no texts nothing is said, and where the release is not
    ``protected``, values are the owner's.
    """
    encoder = features.encoder
    if not isinstance(encoder, TextEncoder):
        reason = (
            f"CLIP score of the captions: {features.name} reads no text; add --features with an "
            "encoder of images and texts, such as embedded:studio or "
            "hf:openai/clip-vit-base-patch32"
        )
        return Part(left_out=[reason])
    rows = np.arange(len(release))[some(len(release), CAPTIONED_ROWS)]
    bar, embeddings = bars("captions", len(rows)), []
    for start in range(0, len(rows), _BATCH):
        images = release.read(rows[start : start + _BATCH]).values
        embeddings.append(encoder.encode(images))
        bar(len(images))
    images = np.concatenate(embeddings)
    texts, index = np.unique([release.captions[row] for row in rows], return_inverse=True)
    captions = encoder.encode_text(texts.tolist())[index]

    def score(metric: Metric, captions: Embeddings) -> MetricValue:
        estimate = clip_score(images, captions)
        return metric.value(
            estimate.value,
            # Which encoder it was is part of the name: no two encoders' scores compare.
            subject=encoder.name.partition("?")[0],
            kind="dp" if protected else "owner-only",
            low=max(0.0, estimate.value - 1.96 * estimate.error),
            high=min(100.0, estimate.value + 1.96 * estimate.error),
            measured=features.measured,
        )

    values = [score(CLIP_SCORE, captions)]
    if len(rows) > 1:
        values.append(score(CLIP_SCORE_SHUFFLED, captions[shuffled(len(rows))]))
    return Part(values, settings={"rows_with_captions": len(rows)})


def shuffled(rows: int) -> Labels:
    """(rows,) for each row another one, each once: one cycle through all, in a random order."""
    order = np.random.default_rng(0).permutation(rows)
    others = np.empty(rows, dtype=np.int64)
    others[order] = np.roll(order, 1)
    return others
