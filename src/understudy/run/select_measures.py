"""What a selection without noise computes of its records: spaces, distances, penalties, attacks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from understudy.backends.plugin import installed
from understudy.backends.registry import load_encoder
from understudy.core.errors import ConfigError
from understudy.core.option import Option
from understudy.core.ports import Encoder, Events, Source
from understudy.core.results import Interval
from understudy.core.types import Embeddings, Images, Labels, Shape, Vector
from understudy.methods.selection.algorithm import Penalties
from understudy.methods.selection.base import ProxySettings, SelectionSettings
from understudy.methods.selection.penalties import (
    calibrated_distances,
    losses_after_training,
    membership_penalty,
    reconstruction_penalty,
)
from understudy.metrics.attacks import by_calibrated_distance, by_distance
from understudy.metrics.fingerprints import area_means
from understudy.metrics.roc import roc
from understudy.metrics.subsets import some
from understudy.metrics.utility import Labelled
from understudy.report import StatedAttack
from understudy.run.accuracy import collect
from understudy.run.models import encoder_name

PROXY_ENCODER = "embedded:dct"
_PENALTY_ENCODERS = "embedded:scattering", "embedded:dct"
_SIDE = 32  # pixels a side that scattering looks at: beyond, it takes minutes
_MOST = 20_000  # records of a side that are attacked
_LEAST = 5  # records of a side, below which rates mean nothing
_RATE = 0.01

ATTACKED = "all candidates", "this release"
"""What is attacked: before the selection and after it."""


@dataclass(frozen=True)
class SelectSettings(SelectionSettings):
    """Settings of a selection without differential privacy: ``--set NAME=VALUE``."""

    balanced: Annotated[bool, Option("whether classes of the reference count the same")] = False


@dataclass(frozen=True)
class SmallImages:
    """An encoder that looks at small images.

    Attributes:
        encoder: Of images of at most `_SIDE` pixels a side.
        name: As the encoder's, with the size.
    """

    encoder: Encoder
    name: str

    @property
    def licence(self) -> str:
        """The encoder's."""
        return self.encoder.licence

    def encode(self, images: Images) -> Embeddings:
        """(n, d) of the means over parts of (n, height, width, channels) uint8 images."""
        small: Images = np.rint(area_means(images, _SIDE, smaller=True)).astype(np.uint8)
        return self.encoder.encode(small)


@dataclass(frozen=True)
class Spaces:
    """The spaces that rows are compared in; None: rows are embeddings already.

    Attributes:
        proxy: The space of the proxy, before it is whitened.
        distance: The space of the distances to private images.
    """

    proxy: Encoder | None
    distance: Encoder | SmallImages | None

    @classmethod
    def load(
        cls, shape: Shape, encoder: str | None, penalty_encoder: str | None, *, penalised: bool
    ) -> Spaces:
        """The encoders of images of a shape.

        Args:
            shape: (height, width, channels) of the candidates, or (d,) of embeddings.
            encoder: The user's; None: the one that methods use.
            penalty_encoder: The user's; None: another one than the proxy's.
            penalised: Whether distances are taken at all.

        Raises:
            ConfigError: Encoders for rows that are embeddings.
            BackendError: There is no such encoder, or it does not take such images.
        """
        if len(shape) == 1:
            if encoder is not None or penalty_encoder is not None:
                raise ConfigError(
                    "the candidates are embeddings already: leave out --encoder and "
                    "--penalty-encoder"
                )
            return cls(None, None)
        proxy = load_encoder(encoder_name(encoder or PROXY_ENCODER), shape=shape)
        if not penalised:
            return cls(proxy, None)
        if penalty_encoder is not None:
            return cls(proxy, load_encoder(encoder_name(penalty_encoder), shape=shape))
        return cls(proxy, _other_encoder(encoder or PROXY_ENCODER, shape))


def _other_encoder(proxy: str, shape: Shape) -> SmallImages:
    """An embedded encoder that is not the proxy's.

    Raises:
        ConfigError: There is none on this machine.
    """
    small = (min(shape[0], _SIDE), min(shape[1], _SIDE), shape[2])
    for name in _PENALTY_ENCODERS:
        usable = name != "embedded:scattering" or (installed("torch") and min(small[:2]) >= 4)
        if usable and name != proxy.partition("?")[0]:
            encoder = load_encoder(encoder_name(name), shape=small)
            return SmallImages(encoder, f"{encoder.name} at {small[0]} x {small[1]} pixels")
    raise ConfigError(
        "distances to private images are taken in another space than the candidates are chosen "
        "in, and there is no second encoder: pip install 'understudy[torch]', name a "
        "--penalty-encoder, or leave the penalty out (--set reconstruction=0)"
    )


@dataclass(frozen=True)
class EmbeddedRows:
    """Records or candidates in the spaces.

    Attributes:
        proxy: (n, D) in the proxy's space, before it is whitened.
        distance: (n, d) in the space of the distances; the same where there is no other.
        labels: (n,) as the candidates' classes number them.
    """

    proxy: Embeddings
    distance: Embeddings
    labels: Labels

    def at(self, rows: NDArray[np.int64]) -> EmbeddedRows:
        """Some of them: (k,) indices."""
        return EmbeddedRows(self.proxy[rows], self.distance[rows], self.labels[rows])


def embedded_rows(
    source: Source, spaces: Spaces, classes: Sequence[str], events: Events
) -> EmbeddedRows:
    """All rows of a source.

    Args:
        source: Its images have the shape that the spaces were loaded for.
        spaces: What they are embedded in.
        classes: The candidates' classes, those of the source among them.
        events: Progress; the number of rows is for the owner alone.
    """
    rows = collect(source, spaces.proxy, events.step)
    order = np.array([classes.index(name) for name in source.classes], dtype=np.int64)
    distance = rows.values
    if spaces.distance is not None:
        distance = _encoded(source, spaces.distance, events).values
    return EmbeddedRows(rows.values, distance, order[rows.labels])


def _encoded(source: Source, encoder: Encoder | SmallImages, events: Events) -> Labelled:
    return collect(source, encoder, events.step)  # type: ignore[arg-type]  # only encode is used


def penalties_of(
    settings: SelectSettings,
    candidates: EmbeddedRows,
    private: EmbeddedRows,
    non_members: EmbeddedRows,
    classes: int,
    proxy: ProxySettings,
) -> tuple[Penalties, Vector]:
    """The penalties of the candidates, and their calibrated distances (M,).

    Args:
        settings: The weights.
        candidates: M of them.
        private: The private records.
        non_members: Records that are known not to be private.
        classes: C.
        proxy: How the models are trained that say what is known better.
    """
    to_private, to_others = (
        -by_distance(candidates.distance, rows.distance) for rows in (private, non_members)
    )
    reconstruction = settings.reconstruction or 0.0
    membership = None
    if settings.membership > 0:
        losses = (
            losses_after_training(
                (rows.proxy, rows.labels), (candidates.proxy, candidates.labels), classes, proxy
            )
            for rows in (private, non_members)
        )
        membership = membership_penalty(*losses)
    penalties = Penalties(
        reconstruction_penalty(to_private, to_others) if reconstruction else None,
        membership,
        reconstruction,
        settings.membership,
    )
    return penalties, calibrated_distances(to_private, to_others)


def attacks_on(
    candidates: EmbeddedRows,
    indices: NDArray[np.int64],
    members: EmbeddedRows,
    calibrating: EmbeddedRows,
    held_out: EmbeddedRows,
    encoder: str,
) -> tuple[StatedAttack, ...]:
    """What an attacker by the nearest sample gains, before the selection and after it.

    Args:
        candidates: All of them.
        indices: Those that are released.
        members: The private records that the selection used.
        calibrating: Records that are none of them, which the attacker has too.
        held_out: Others, which steered nothing and must be told from the members.
        encoder: The name of the space, for the words.

    Returns:
        () where there are too few records.
    """
    others, known = held_out.proxy, calibrating.proxy
    if min(map(len, (members.proxy, others, known))) < _LEAST:
        return ()
    asked = members.proxy[some(len(members.proxy), _MOST)]
    stated = []
    releases = candidates.proxy, candidates.proxy[indices]
    for subject, release in zip(ATTACKED, releases, strict=True):
        curve = roc(
            by_calibrated_distance(asked, release, known),
            by_calibrated_distance(others, release, known),
        )
        stated.append(
            StatedAttack(
                subject,
                "distance to the nearest sample, calibrated with records of the attacker's own",
                f"in the space of {encoder}, private records against held-out ones",
                _ends(curve.tpr_at[_RATE]),
                _ends(curve.auc),
            )
        )
    return tuple(stated)


def _ends(interval: Interval) -> tuple[float, float, float]:
    return interval.value, interval.low, interval.high
