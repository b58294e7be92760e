"""Whether the models know the domain: said before anything is spent, and after the first votes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from understudy.core.types import Fit, Labels, Vector
from understudy.methods.base import Materials
from understudy.steps import fit as steps

INSTEAD = (
    "Consider --method clustering, which needs no generator; --method alignment with public images "
    "of the classes (--base FOLDER); or models that know them, such as --generator hf:MODEL"
)
"""What to do where a generator or an encoder does not know the classes."""

_MOST = 0.5  # images that are nearer to another class than to their own are then the most
_SURE = 0.05  # chance of votes as uneven as these, above which they say nothing
_NAMED = 5  # classes that a message names


def separation_fit(rows: NDArray[np.floating], labels: Labels, names: Sequence[str]) -> Fit | None:
    """How well the encoder tells public images of the classes apart.

    Args:
        rows: (n, d) embeddings of images that were drawn, or given, for the classes.
        labels: (n,) what each is of.
        names: Of the classes; none where all are drawn from the same prompt.

    Returns:
        None where there are fewer than two classes, or two images of one.
    """
    if len(names) < 2 or np.bincount(labels, minlength=len(names)).min() < 2:
        return None
    found = steps.separation(rows, labels, len(names), np.random.default_rng(0))
    warning = None
    if not found.significant or found.accuracy < _MOST:
        order = np.argsort(found.recalls, kind="stable")
        worst = [names[i] for i in order if found.recalls[i] <= _MOST] or [names[order[0]]]
        warning = (
            f"the encoder sees {found.accuracy:.0%} of the images that stand for a class nearest "
            f"to that class ({found.chance:.0%} would be chance), fewest of {listed(worst)}: they "
            f"show the classes alike, or the encoder does not know what sets them apart. {INSTEAD}"
        )
    return Fit(
        "images of the classes nearest to their own class, as the encoder sees them",
        round(found.accuracy, 4),
        round(found.chance, 4),
        "public",
        warning,
    )


def report_separation(
    materials: Materials, rows: NDArray[np.floating], labels: Labels, names: Sequence[str]
) -> None:
    """Tell the owner how well the images that a method starts from are told apart."""
    found = separation_fit(rows, labels, names)
    if found is not None:
        materials.report_fit(found)


def report_votes(materials: Materials, votes: Vector, sd: float) -> None:
    """Tell the owner what the first noisy votes say of the candidates. Post-processing: free.

    Args:
        materials: Whom to tell.
        votes: (classes, m) noisy.
        sd: Standard deviation of the noise in each.
    """
    found, size = steps.vote_spread(votes, sd), votes.shape[1]
    warning = None
    if found.chance > _SURE:
        warning = (
            f"the votes of round 1 cannot be told from votes that fall anywhere, under noise of "
            f"{sd:.3g} votes on each of {votes.size} candidates: all candidates are as far from "
            "the private images, or there are too many of them for this budget. Consider a smaller "
            f"population and fewer rounds, or more epsilon. {INSTEAD}"
        )
    materials.report_fit(
        Fit(
            f"effective number of candidates of a class, of {size}, by the votes of round 1",
            round(found.effective, 2),
            float(size),
            "DP",
            warning,
        )
    )


def listed(names: Sequence[str]) -> str:
    """``"a, b and 3 more"``."""
    shown, more = list(names[:_NAMED]), len(names) - _NAMED
    return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
