"""What is subtracted from a candidate's score: how near it comes to the private images.

Both penalties are calibrated against records that are not in the private dataset, so that an image
that is near to everything (a plain one, a typical one) is not taken for a copy. Neither is ever
negative: a bonus for what is unlike private images would select the odd ones, at a cost in utility.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from understudy.core.errors import ConfigError
from understudy.core.types import Vector
from understudy.methods.open_selection import LabelledEmbeddings
from understudy.methods.selection.arithmetic import robust_scores
from understudy.methods.selection.base import ProxySettings, SteeredSettings
from understudy.methods.selection.linear_proxy import LinearProxy, cross_entropies

_TINY = 1e-12
_LEAST = 1e-6  # of the median distance: an exact copy has no distance, and no logarithm


@dataclass(frozen=True)
class Penalties:
    """What is subtracted from the scores, in their standard deviations: Eq. 22's last two terms.

    (The paper's alpha_1 stands at L_pix in Eq. 22 and means membership in Table 4; here the two
    have names.)

    Attributes:
        reconstruction: (M,) L_pix, rising with closeness to a private image; None without.
        membership: (M,) L_mem; None without.
        reconstruction_weight: Of the first.
        membership_weight: Of the second.
    """

    reconstruction: Vector | None = None
    membership: Vector | None = None
    reconstruction_weight: float = 1.0
    membership_weight: float = 0.0

    def total(self, count: int) -> Vector:
        """Their weighted sum: (count,)."""
        result = np.zeros(count)
        if self.reconstruction is not None:
            result += self.reconstruction_weight * self.reconstruction
        if self.membership is not None:
            result += self.membership_weight * self.membership
        return result


def calibrated_distances(to_private: Vector, to_non_members: Vector) -> Vector:
    """Log of the distance to the nearest private image over that to the nearest non-member: (M,).

    Distances are taken in an encoder of their own, not in the proxy's. Low: nearer to a private
    image than chance explains.

    Args:
        to_private: (M,) distance of each candidate to the nearest private image.
        to_non_members: (M,) to the nearest image that is known not to be private.

    Raises:
        ConfigError: Distances that are negative or not finite.
    """
    for distances in (to_private, to_non_members):
        if not (np.isfinite(distances).all() and (distances >= 0).all()):
            raise ConfigError("distances must be finite and 0 or more: check the encoder")
    typical = float(np.median(np.concatenate([to_private, to_non_members])))
    least = _LEAST * typical if typical > 0 else 1.0
    return np.asarray(
        np.log(np.maximum(to_private, least)) - np.log(np.maximum(to_non_members, least))
    )


def reconstruction_penalty(to_private: Vector, to_non_members: Vector) -> Vector:
    """L_pix of Eq. 22: closeness beyond the median, in robust standard deviations: (M,) in [0, 4].

    Args:
        to_private: (M,) distance of each candidate to the nearest private image.
        to_non_members: (M,) to the nearest image that is known not to be private.
    """
    return _excess(robust_scores(-calibrated_distances(to_private, to_non_members)))


def membership_penalty(private_losses: Vector, non_member_losses: Vector) -> Vector:
    """L_mem of Eq. 22: how much better a private model knows a candidate: (M,) in [0, 4].

    In robust standard deviations beyond the median.

    Args:
        private_losses: (M,) loss of each candidate under a model trained on the private images.
        non_member_losses: (M,) under one trained on as many others.
    """
    return _excess(robust_scores(non_member_losses - private_losses))


def penalties_of(
    settings: SteeredSettings,
    candidates: LabelledEmbeddings,
    private: LabelledEmbeddings,
    non_members: LabelledEmbeddings,
    classes: int,
    distances: tuple[Vector, Vector],
) -> Penalties:
    """The penalties of M candidates.

    Args:
        settings: The weights, and how the models are trained that say what is known better.
        candidates: In the proxy's space, as the others are.
        private: The private records.
        non_members: Records that are known not to be private.
        classes: C.
        distances: (M,) of each candidate to the nearest private record, and (M,) to the nearest
            non-member.
    """
    reconstruction, membership = settings.reconstruction or 0.0, None
    if settings.membership > 0:
        losses = (
            losses_after_training(records, candidates, classes, settings.proxy)
            for records in (private, non_members)
        )
        membership = membership_penalty(*losses)
    closeness = reconstruction_penalty(*distances) if reconstruction else None
    return Penalties(closeness, membership, reconstruction, settings.membership)


def losses_after_training(
    records: LabelledEmbeddings,
    candidates: LabelledEmbeddings,
    classes: int,
    settings: ProxySettings,
) -> Vector:
    """The loss of each candidate under a softmax regression that was trained on records: (M,).

    Args:
        records: What it is trained on; all are scaled by their one mean and deviation.
        candidates: M of them.
        classes: C.
        settings: Of the training.
    """
    values, labels = records
    centre, scale = values.mean(axis=0), float(values.std()) + _TINY
    model = LinearProxy((values - centre) / scale, labels, classes, float(len(labels)), settings)
    state = model.final_state(np.ones(len(labels)))
    return cross_entropies((candidates[0] - centre) / scale, candidates[1], state)


def _excess(scores: Vector) -> Vector:
    return np.asarray(np.maximum(scores, 0.0))
