"""What an evaluation needs, opened, and whatever does not fit refused before anything is read."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from understudy.core.errors import ConfigError, MissingExtra, RunError
from understudy.core.ports import Encoder, PerceptualDistance, Source
from understudy.data import open_source
from understudy.data.captions import Captioned, open_captioned
from understudy.data.holdout import split
from understudy.data.names import UNLABELLED_NAME
from understudy.evaluation.features import Features, load_features
from understudy.evaluation.fidelity_adapter import NEIGHBOURS
from understudy.metrics.utility import Network
from understudy.run.held_out import read_hold_out
from understudy.run.models import encoder_name
from understudy.run.prepare import open_test, require_classes
from understudy.run.released import open_release, read_json

ROWS = 60_000
"""Rows of a side whose neighbours are looked for, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What of an evaluation was asked for.

    Attributes:
        features: An encoder; None: the default one.
        full: Train models, too.
        networks: Which models; naming one asks for training.
        seeds: Trainings to average over.
        epochs: Passes over the training set, where not the usual number.
        rows: Rows of a side whose neighbours are looked for, at most.
        attacks: Attack the release.
        encoder: What embeds real images, for a release of embeddings; None: the one it names.
        skip_bad: Pass over unreadable files.
        lpips: A TorchScript file of a perceptual distance.
        dp_sgd: Train by DP-SGD on the private rows, too.
        label: The column that holds the class; None: the one that the run was told.
    """

    features: str | None = None
    full: bool = False
    networks: Sequence[Network] | None = None
    seeds: int = 1
    epochs: int | None = None
    rows: int = ROWS
    attacks: bool = True
    encoder: str | None = None
    skip_bad: bool = False
    lpips: str | Path | None = None
    dp_sgd: bool = False
    label: str | None = None

    @property
    def trains(self) -> bool:
        """Whether models are trained."""
        return self.full or bool(self.networks)


@dataclass(frozen=True, slots=True)
class Opened:
    """Three sets of rows that compare, and what they are compared with.

    Attributes:
        release: The synthetic rows.
        captioned: Its images with their captions, where it has some.
        real: The private rows that the run used.
        test: Real rows that it did not.
        features: What they are compared in.
        encoder: Embeds real images where the release holds embeddings.
        metric: The perceptual distance, where one was named.
        promise: The release's epsilon and delta, where DP-SGD is to keep them.
        held_out: The random part of the private dataset that the run left out: non-members from
            the members' own pool. None where it left none out.
    """

    release: Source
    captioned: Captioned | None
    real: Source
    test: Source
    features: Features
    encoder: Encoder | None
    metric: PerceptualDistance | None
    promise: tuple[float, float] | None
    held_out: Source | None = None

    @classmethod
    def of(cls, place: Path, real: str, test: str | None, asked: Asked) -> Opened:
        """Open everything, and refuse what does not fit.

        Args:
            place: The release.
            real: The private dataset.
            test: The real test set; None: what the run held out.
            asked: What was asked for.

        Raises:
            InputError: As said.
        """
        facts = _facts(place)
        shape = tuple(facts["data"]["image_shape"] or ()) or None
        size = None if shape is None else (shape[0], shape[1])
        release = open_release(place, shape)
        captioned = None if shape is None else open_captioned(place)
        train, held_out, tests = _real(place, real, test, asked, _declared(facts, asked, size))
        require_classes(train.classes, tests)
        encoder = None
        if release.kind == "embeddings":
            encoder = _encoder(place, facts, asked.encoder, train)
            name = "of the release" if encoder is None else encoder.name
            features = Features(name, encoder)
            _require_no_features(asked)
        else:
            features = load_features(asked.features, release.shape)
        _require_one_shape(release, train, tests, encoder)
        if asked.trains:
            from understudy.evaluation.utility_adapter import require_trainable

            require_trainable(release, tests, asked.networks)
        if asked.rows < 2 * NEIGHBOURS:
            raise ConfigError(f"--rows must be {2 * NEIGHBOURS} or more, found {asked.rows}")
        metric = None if asked.lpips is None else _metric(asked.lpips, release)
        promise = _promise(place, facts, asked) if asked.dp_sgd else None
        return cls(release, captioned, train, tests, features, encoder, metric, promise, held_out)


def _declared(facts: dict[str, Any], asked: Asked, size: tuple[int, int] | None) -> dict[str, Any]:
    """How the private dataset is opened: as the owner declared it for the run."""
    premises = facts.get("premises", ())
    told = {one["name"]: one["value"] for one in premises if one["origin"] == "declared"}
    label = asked.label or told.get("label column")
    names = told.get("class names")
    classes = None if names == list(UNLABELLED_NAME) else names
    options = {"label": label, "classes": classes, "channels": told.get("colour channels")}
    return {**options, "size": size, "skip_bad": asked.skip_bad}


def _real(
    place: Path, real: str, test: str | None, asked: Asked, declared: dict[str, Any]
) -> tuple[Source, Source | None, Source]:
    """The members, what the run held out of the private dataset (or None), and the test set.

    Raises:
        ConfigError: There is neither a test set nor a held-out part.
    """
    owner = place.parent / "owner"
    hold_out = read_hold_out(owner) if place.name == "release" else None
    if test is None and hold_out is None:
        raise ConfigError(
            "say --test: real rows that were not in the private dataset. This run held none out "
            "(understudy synthesize --hold-out 5%)"
        )
    unit = None if hold_out is None else hold_out.unit
    members = open_source(real, split="train", unit=unit, **declared)
    held_out: Source | None = None
    if hold_out is not None:
        members, held_out = split(members, hold_out)
    tests = held_out if test is None else open_test(test, **declared)
    if tests is None:
        raise ConfigError("there is no test set")
    return members, held_out, tests


def _metric(path: str | Path, release: Source) -> PerceptualDistance:
    """The perceptual distance of a file, tried on an empty image.

    Raises:
        InputError: It is none, or does not take such images; or there are no images.
    """
    if release.kind != "images":
        raise ConfigError("the release holds embeddings, which have no looks: leave out --lpips")
    from understudy.backends.perceptual_network import ScriptedDistance

    metric = ScriptedDistance(path)
    empty = np.zeros((1, *release.shape), dtype=np.uint8)
    metric.distance(empty, empty)
    return metric


def _promise(place: Path, facts: dict[str, Any], asked: Asked) -> tuple[float, float]:
    """The release's epsilon and delta.

    Raises:
        ConfigError: No models are trained that DP-SGD could be compared with.
        RunError: The release promises nothing that DP-SGD could keep.
        MissingExtra: Opacus is not installed.
    """
    if not asked.trains:
        raise ConfigError("--dp-sgd is compared with trained models: add --full")
    found = facts.get("guarantee", {})
    epsilon, delta = (float(found.get(name) or math.nan) for name in ("epsilon", "delta"))
    if not (0 < epsilon < math.inf and 0 < delta < 1):
        raise RunError(
            f"{place / 'privacy.json'}: states no epsilon and delta that DP-SGD could keep (found "
            f"{found.get('epsilon')} and {found.get('delta')}): leave out --dp-sgd"
        )
    from understudy.backends.plugin import installed

    if not installed("opacus"):
        raise MissingExtra("DP-SGD on the private rows (--dp-sgd)", "bench")
    return epsilon, delta


def _require_no_features(asked: Asked) -> None:
    if asked.features is not None:
        raise ConfigError(
            "the release holds embeddings and is compared in them: leave out --features"
        )


def _require_one_shape(
    release: Source, real: Source, test: Source, encoder: Encoder | None
) -> None:
    """Refuse rows that do not compare with those of the release.

    Raises:
        ConfigError: As said.
    """
    for source in (real, test):
        shape = source.shape
        if source.kind == "images" and encoder is not None:
            shape = (encoder.dim,)
        if shape != release.shape:
            raise ConfigError(
                f"the release has rows of shape {release.shape}, {source.name} of {shape}: "
                "evaluate it with data as it was made from"
            )


def _facts(place: Path) -> dict[str, Any]:
    facts = read_json(place / "privacy.json")
    if "image_shape" not in facts.get("data", {}):
        raise RunError(f"{place / 'privacy.json'}: does not say the shape of the images")
    return facts


def _encoder(place: Path, facts: dict[str, Any], name: str | None, real: Source) -> Encoder | None:
    """The release's encoder: as the owner's run named it, else as the release does."""
    if real.kind == "embeddings":
        return None
    known = [m["name"] for m in facts.get("models", ()) if m["role"] == "encoder"]
    owner = place.parent / "owner" / "run.json"
    if owner.is_file():
        known = [read_json(owner)["settings"].get("encoder"), *known]
    found = name or next((one for one in known if one), None)
    if found is None:
        raise RunError("the release names no encoder: say --encoder NAME to embed the real images")
    from understudy.backends.registry import load_encoder

    return load_encoder(encoder_name(found), shape=real.shape)
