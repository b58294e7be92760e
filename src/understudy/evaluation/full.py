"""What ``--full`` adds beside trained models: reconstruction, attribute inference, SIM."""

from __future__ import annotations

import math

import numpy as np

from understudy.core.results import Figure
from understudy.core.types import Embeddings, Labels
from understudy.evaluation.embedding_pass import Side
from understudy.evaluation.part import Part, with_ends
from understudy.metrics.attribute_inference import infer_attribute
from understudy.metrics.labelled import Labelled
from understudy.metrics.reconstruction import reconstruct
from understudy.metrics.semantic import semantic_similarity
from understudy.metrics.subsets import some
from understudy.run.progress import Bars

ROWS = 5_000
"""Private rows that are attacked one by one, at most, and as many held-out ones."""

_PRODUCTS = 5e11  # of two pixels, for each of the two sides: some ten seconds
_LEAST_SIDE = 11  # pixels that SSIM looks at


def reconstructed(private: Labelled, release: Labelled, test: Labelled, bars: Bars) -> Part:
    """Best matches over the release, of private and of held-out images, by their pixels.

    Where all of them would take too long, random rows of each.
    """
    shape = release.values.shape[1:]
    if min(shape[:2]) < _LEAST_SIDE:
        side = f"{_LEAST_SIDE} x {_LEAST_SIDE}"
        return Part(left_out=[f"reconstruction: images have fewer than {side} pixels"])
    asked, searched = affordable(math.prod(shape))
    ours, found, theirs = (
        one.at_most(rows).values
        for one, rows in ((private, asked), (release, searched), (test, asked))
    )
    bar = bars("reconstruction", len(ours) + len(theirs))
    best = reconstruct(ours, found, theirs, progress=bar)
    one, two, closer = best.private, best.held_out, best.closer
    figures = [
        _of_matches("PSNR of the best match in dB", one.psnr, two.psnr),
        _of_matches("SSIM of the best match", one.ssim, two.ssim),
        with_ends(
            "leakage",
            "reconstruction: matched better than 99 % of held-out rows are",
            closer,
            baseline=0.01,
            measured="pixels",
            better="lower",
            unit="%",
        ),
    ]
    rows = {"private": len(ours), "release": len(found), "held_out": len(theirs)}
    return Part(figures, settings={"rows_of_reconstruction": rows})


def affordable(numbers: int) -> tuple[int, int]:
    """Rows to reconstruct, and rows of the release to search, for images of so many numbers."""
    asked = max(1, min(ROWS, math.isqrt(int(_PRODUCTS / numbers))))
    return asked, max(1, int(_PRODUCTS / (numbers * asked)))


def _of_matches(name: str, private: np.ndarray, held_out: np.ndarray) -> Figure:
    return Figure(
        "leakage",
        f"reconstruction: {name}, median",
        float(np.median(private)),
        baseline=float(np.median(held_out)),
        measured="pixels",
        better="lower",
    )


def inferred(private: Side, release: Side, test: Side, measured: str) -> list[Figure]:
    """What who has a row's features learns of its class from the nearest synthetic row.

    Args:
        private: The private rows.
        release: The release; its labels index the same classes.
        test: Held-out real rows.
        measured: With what features, as a figure says it.
    """
    found = infer_attribute(_known(release, None), _known(private, ROWS), _known(test, ROWS))
    name = "attribute inference of the class"
    return [
        with_ends(
            "attack",
            f"{name}: private rows",
            found.private,
            baseline=found.held_out.value,
            measured=measured,
            better="lower",
            unit="%",
        ),
        with_ends(
            "attack",
            f"{name}: more than of held-out rows",
            found.leakage,
            baseline=0.0,
            measured=measured,
            better="lower",
            unit="%",
        ),
    ]


def _known(side: Side, most: int | None) -> tuple[Embeddings, Labels]:
    rows = some(len(side.features), most)
    return side.features[rows], side.labels[rows]


def similar(private: Side, release: Side, test: Side, measured: str) -> list[Figure]:
    """SIM of private and synthetic rows; empty where a side has no direction at all.

    It is as high for good releases as for held-out rows: only what is above those is a leak.
    """
    ours, found, theirs = (_directed(side.features) for side in (private, release, test))
    if not min(map(len, (ours, found, theirs))):
        return []
    one, two = (semantic_similarity(ours, each) for each in (found, theirs))
    return [
        with_ends(
            "leakage",
            "semantic similarity (SIM)",
            one,
            baseline=two.value,
            measured=measured,
        )
    ]


def _directed(rows: Embeddings) -> Embeddings:
    """Without rows of zeros, such as features of an empty image."""
    return np.asarray(rows[np.any(rows != 0, axis=1)])
