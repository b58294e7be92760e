"""How well the images of a release fit the captions that it keeps beside them.

Only the release is looked at, and no private row: these figures are covered by its guarantee, and
may be told as it may.
"""

from __future__ import annotations

import numpy as np

from understudy.core.ports import TextEncoder
from understudy.core.results import Figure
from understudy.core.types import Embeddings, Labels, Shape
from understudy.data.captions import Captioned
from understudy.evaluation.features import Features
from understudy.evaluation.part import Part
from understudy.metrics.fidelity import Estimate, clip_score
from understudy.metrics.subsets import some
from understudy.run.progress import Bars

ROWS = 5_000
"""Images that are looked at, at most; random ones where there are more."""

_BATCH = 64


def of_captions(release: Captioned, shape: Shape, features: Features, bars: Bars) -> Part:
    """The CLIP score of a release, and of the same images with captions of other rows.

    Args:
        release: Images with their captions.
        shape: (height, width, channels) of the images.
        features: What the release is compared in; says nothing of captions unless it reads texts.
        bars: Progress.
    """
    encoder = features.encoder
    if not isinstance(encoder, TextEncoder):
        words = (
            f"CLIP score of the captions: {features.name} reads no text; add --features with an "
            "encoder of images and texts, such as embedded:studio or "
            "hf:openai/clip-vit-base-patch32"
        )
        return Part(left_out=[words])
    rows = np.arange(len(release.texts))[some(len(release.texts), ROWS)]
    images = _seen(release, rows, shape, encoder, bars)
    texts, which = np.unique([release.texts[row] for row in rows], return_inverse=True)
    read = encoder.encode_text(texts.tolist())[which]
    # Which encoder it was is part of the name: no two encoders' scores compare.
    name = f"CLIP score ({encoder.name.partition('?')[0]})"
    found = [_figure(name, clip_score(images, read), features, better=True)]
    if len(rows) > 1:
        others = clip_score(images, read[shuffled(len(rows))])
        found.append(_figure(f"{name}, captions shuffled", others, features, better=False))
    return Part(found, settings={"rows_with_captions": len(rows)})


def shuffled(rows: int, seed: int = 0) -> Labels:
    """(rows,) for each row another one, each once: one cycle through all, in a random order."""
    order = np.random.default_rng(seed).permutation(rows)
    found = np.empty(rows, dtype=np.int64)
    found[order] = np.roll(order, 1)
    return found


def _seen(
    release: Captioned, rows: Labels, shape: Shape, encoder: TextEncoder, bars: Bars
) -> Embeddings:
    """The images of these rows as the encoder sees them: (k, d)."""
    bar, found = bars("captions", len(rows)), []
    for batch in release.images(rows, shape).batches(_BATCH):
        found.append(encoder.encode(batch.values))
        bar(len(batch.values))
    return np.concatenate(found)


def _figure(name: str, found: Estimate, features: Features, *, better: bool) -> Figure:
    return Figure(
        "fidelity",
        name,
        found.value,
        kind="dp",
        low=max(0.0, found.value - 1.96 * found.error),
        high=min(100.0, found.value + 1.96 * found.error),
        measured=features.measured,
        better="higher" if better else "",
    )
