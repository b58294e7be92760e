"""``understudy evaluate``: how good is a release, measured on the real data. Owner-only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np

from understudy.core.errors import ConfigError, RunError
from understudy.core.files import close_to_others, folder_of, lock_of
from understudy.core.ports import CaptionedSource, Events, Source
from understudy.core.results import Evaluation, MetricValue, Pairs
from understudy.data.encoded_images import RecordSource
from understudy.data.holdout import PartSource
from understudy.evaluation import Part
from understudy.evaluation.apart import require_apart_rows
from understudy.evaluation.attack_adapter import attack_release, infer_classes
from understudy.evaluation.caption_adapter import measure_captions
from understudy.evaluation.comparisons import NearestPairs, compare_features
from understudy.evaluation.embedding_pass import (
    EmbeddedDataset,
    FeatureExtractor,
    embed_dataset,
    rows_of,
)
from understudy.evaluation.evaluate_model import evaluate_model
from understudy.evaluation.fidelity_adapter import FidelityAdapter, resamples
from understudy.evaluation.inputs import (
    SEARCHED_ROWS,
    EvaluationOptions,
    Inputs,
    evaluated_place,
    other_records,
    other_windows,
    single_images,
)
from understudy.evaluation.leakage_adapter import LeakageAdapter, measure_reconstruction
from understudy.evaluation.time_estimate import announced, estimated_seconds
from understudy.metrics import verdicts
from understudy.metrics.discriminant import DISCRIMINANT, EncodedClassifier
from understudy.metrics.nearest_neighbours import NEAREST_NEIGHBOURS
from understudy.metrics.utility import Network
from understudy.metrics.verdicts import HOLD_OUT, Attacks, Leakage
from understudy.release.outputs import RunPaths, write_arrays, write_json
from understudy.run.accuracy import collect, usual_networks
from understudy.run.config import source_name
from understudy.run.progress import Bars, ProgressMode, reporting, timed
from understudy.run.released_classifier import released_classifier
from understudy.run.report import refresh

_MANY = 1000
"""Held-out rows that say how near chance brings a row, where the test set has more."""

_Sides = tuple[EmbeddedDataset, EmbeddedDataset, EmbeddedDataset]
"""The private records, the release, held-out records."""


def evaluate(
    folder: str | PathLike[str] | None = None,
    *,
    real: str | Path,
    test: str | Path | None = None,
    model: str | Path | None = None,
    features: str | None = None,
    full: bool = False,
    networks: Sequence[Network] | None = None,
    seeds: int = 1,
    epochs: int | None = None,
    rows: int = SEARCHED_ROWS,
    attacks: bool = True,
    encoder: str | None = None,
    skip_bad: bool = False,
    lpips: str | Path | None = None,
    dp_sgd: bool = False,
    label: str | None = None,
    progress: ProgressMode | Events = "auto",
) -> Evaluation:
    """Measure a release against the private data and a held-out real test set.

    Reads the private data without noise, so what comes back is for the owner alone. Where the
    release lies in a run's folder, it is also written to ``owner/evaluation.json`` and
    ``owner/pairs.npz``, and the owner's report is made anew.

    Args:
        folder: A run's folder, or its release; or any other dataset, somebody else's, which is
            measured as it is. None: ``model`` is measured instead.
        real: The private dataset.
        test: The real test set, of rows that were not in the private dataset; None: the part of
            the private dataset that the run held out.
        model: A classifier in a file, ONNX or LiteRT, such as `understudy.train` writes: it is
            tested on the test set and attacked by its losses.
        features: An encoder, whose features are compared; None: the default one.
        full: Train models, too.
        networks: Which models; naming one asks for training.
        seeds: Trainings to average over.
        epochs: Passes over the training set, where not the usual number.
        rows: Rows of a side whose neighbours are looked for, at most.
        attacks: Attack the release.
        encoder: What embeds real images, for a release of embeddings; None: the one it names.
        skip_bad: Pass over unreadable files.
        lpips: A TorchScript file of a perceptual distance.
        dp_sgd: Train by DP-SGD on the private records, too.
        label: The column that holds the class; None: the one that the run was told.
        progress: Where events go, as for `understudy.synthesize`.

    Raises:
        InputError: Something is missing, or does not fit together; nothing was measured yet.
    """
    names = {option.name for option in fields(EvaluationOptions)}
    options = EvaluationOptions(**{name: one for name, one in locals().items() if name in names})
    if (folder is None) == (model is None):
        raise ConfigError("say what is evaluated: a run's folder, a release, or --model FILE")
    records = source_name("real", real)
    others = None if test is None else source_name("test", test)
    with reporting(progress) as events:
        if folder is None:
            return evaluate_model(cast(str | Path, model), records, others, options, events)
        release = evaluated_place(folder_of(folder))
        inputs = Inputs.open(release, records, others, options)
        seconds = estimated_seconds(inputs, options)
        notes = (
            other_records(release, records, inputs.real),
            other_windows(release, (inputs.real, inputs.test)),
            single_images(release),
            inputs.shared,
        )
        note = "; ".join(one for one in notes if one)
        for sentence in (note, announced(seconds)):
            if sentence:
                events.warning(sentence)
        evaluation, pairs = _Measurement(release, inputs, options, events).run()
    if note:
        evaluation = replace(evaluation, settings={**evaluation.settings, "note": note})
    _keep(release, evaluation, pairs)
    return evaluation


def _keep(release: Path, evaluation: Evaluation, pairs: Pairs | None) -> None:
    """Write the results into the owner's folder, where the release lies in a run's."""
    owner = release.parent / "owner"
    if release.name != "release" or not owner.is_dir():
        return
    with lock_of(RunPaths(release.parent).lock):  # another evaluation may end at the same time
        write_json(owner / "evaluation.json", evaluation.as_dict())
        if pairs is not None:
            names = ("synthetic", "real", "distances", "rows")
            arrays = {name: getattr(pairs, name) for name in names}
            write_arrays(owner / "pairs.npz", {**arrays, "how": np.array(pairs.how)})
        close_to_others(owner)
        if (owner / "run.json").is_file():
            refresh(release.parent)


@dataclass
class _Measurement:
    """One evaluation, every part of it known to fit."""

    release: Path
    inputs: Inputs
    options: EvaluationOptions
    events: Events
    seconds: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def bars(self) -> Bars:
        """Progress, of which all is for the owner alone."""
        return partial(self.events.step, owner_only=True)

    def run(self) -> tuple[Evaluation, Pairs | None]:
        """Read, measure, judge."""
        with timed(self.seconds, "read"):
            sides = self._apart(
                (
                    self._read(self.inputs.real, "private records"),
                    self._read(self.inputs.release, "the release"),
                    self._read(self.inputs.test, "test records"),
                )
            )
        features, whole = self.inputs.features, Part()
        with timed(self.seconds, "fidelity"):
            fidelity = FidelityAdapter(features, *sides, self._classes(), self.bars)
            whole.values += fidelity.values()
        release = self.inputs.release
        if isinstance(release, RecordSource) and isinstance(release, CaptionedSource):
            with timed(self.seconds, "captions"):
                protected = self.inputs.protected
                whole.add(measure_captions(release, features, self.bars, protected=protected))
        non_members = self._non_members(sides[2])
        # They say how often chance gives a near-copy, which few rows cannot.
        enough = non_members.count >= min(_MANY, sides[2].count)
        near_sides = (*sides[:2], non_members if enough else sides[2])
        with timed(self.seconds, "leakage"):
            adapter = LeakageAdapter(*near_sides, features.measured, self.bars)
            leakage = adapter.judge(adapter.distances())
            whole.values += adapter.values(leakage)
            pairs = adapter.pairs(leakage)
            whole.values += self._compared(near_sides, leakage)
        results = Attacks(left_out=not self.options.attacks)
        if self.options.attacks:
            with timed(self.seconds, "attacks"):
                part, results = self._attacked(sides, non_members)
                whole.add(part)
                if self.options.full and len(self._classes()) > 1:
                    whole.values += infer_classes(*near_sides, features.measured)
        if self.options.trains:
            whole.add(self._trained())
        judged = [
            verdicts.judge_fidelity(
                whole.values, min(len(side.indices) for side in sides), len(self._classes())
            ),
            verdicts.judge_utility(whole.values),
            verdicts.judge_leakage(leakage, results),
            verdicts.judge_attacks(results, leakage),
        ]
        whole.settings |= self._of_non_members(results)
        ordered = sorted(whole.values, key=lambda value: value.label != "")  # all rows first
        settings = self._settings(whole, sides)
        evaluation = Evaluation(
            tuple(ordered), tuple(whole.curves), tuple(judged), settings, self.seconds
        )
        return evaluation, pairs

    def _apart(self, sides: _Sides) -> _Sides:
        """The same sides, the test set without the few rows that are private or in the release."""
        if self.inputs.test is self.inputs.held_out:  # a part of the private dataset, by a coin
            return sides
        apart = require_apart_rows(*sides)
        if apart.all():
            return sides
        self.notes.append(
            f"{(~apart).sum():,} of {len(apart):,} test records, which are private records or in "
            "the release too"
        )
        source = PartSource(self.inputs.test, apart)
        self.inputs = replace(self.inputs, test=source)
        if len(sides[2].indices) == sides[2].count:
            return (*sides[:2], rows_of(sides[2], source, apart, self._classes()))
        return (*sides[:2], self._read(source, "test records that are apart"))

    def _read(self, source: Source, words: str) -> EmbeddedDataset:
        features = self.inputs.features
        if source.kind == "embeddings":
            features = FeatureExtractor(features.name)
        bar = self.bars(f"reading {words}", len(source))
        return embed_dataset(source, features, self._classes(), self.options.rows, bar)

    def _non_members(self, test: EmbeddedDataset) -> EmbeddedDataset:
        """What private records are told from: the part that the run held out, or the test set."""
        held_out = self.inputs.held_out
        if held_out is None or held_out is self.inputs.test:
            return test
        return self._read(held_out, "held-out records")

    def _attacked(self, sides: _Sides, non_members: EmbeddedDataset) -> tuple[Part, Attacks]:
        """The quick attacks; a test set that is not the non-members is the reference."""
        private, release, test = (side.features for side in sides)
        return attack_release(
            private,
            release,
            non_members.features,
            self.inputs.features.measured,
            self.bars,
            reference=None if non_members is sides[2] else test,
            held_out=self.inputs.held_out is not None,
        )

    def _of_non_members(self, results: Attacks) -> dict[str, str]:
        """What the non-members are, and what to do where they differ from the members."""
        if self.inputs.held_out is not None:
            words = "a random part of the private dataset, which the run held out"
            return {"non_members": words}
        settings = {"non_members": f"the test set, {self.inputs.test.name}"}
        if results.different:
            settings["advice"] = f"Private rows and the test set differ by themselves. {HOLD_OUT}"
        return settings

    def _classes(self) -> tuple[str, ...]:
        """The classes of all sides; empty where the release has none, or others."""
        ours, real = set(self.inputs.release.classes), self.inputs.real.classes
        return real if ours == set(real) else ()

    def _compared(self, sides: _Sides, leakage: Leakage) -> list[MetricValue]:
        """Metrics that name their function, and the perceptual distance where one was given."""
        full, distance = self.options.full, self.inputs.distance
        values = compare_features(*sides, self.inputs.features.measured, full=full)
        if "pixels" in leakage.distances and (full or distance is not None):
            nearest = NearestPairs.read(*sides, leakage.distances["pixels"])
            values += nearest.compare(full=full)
            values += [] if distance is None else [nearest.perceptual(distance)]
        return values

    def _trained(self) -> Part:
        """Models; and what looks at all rows at once, while they are in memory."""
        from understudy.evaluation.utility_adapter import (
            measure_by_size,
            measure_dp_sgd,
            measure_utility,
        )

        inputs, epochs = self.inputs, self.options.epochs
        networks = self.options.networks or usual_networks(inputs.release)
        released, reason = self._released(networks)
        with timed(self.seconds, "training"):
            release, private, test = (
                collect(one, inputs.encoder, self.bars)
                for one in (inputs.release, inputs.real, inputs.test)
            )
            part = measure_utility(
                release,
                private,
                test,
                self.bars,
                networks=networks,
                seeds=self.options.seeds,
                epochs=epochs,
                both=self.options.full,
                released=released,
                facts=inputs.facts,
            )
        part.left_out += reason
        if self.options.full:
            with timed(self.seconds, "accuracy by rows"):
                part.add(
                    measure_by_size(release, test, self.bars, networks=networks, epochs=epochs)
                )
            if inputs.release.kind == "images":
                with timed(self.seconds, "reconstruction"):
                    part.add(measure_reconstruction(private, release, test, self.bars))
        if inputs.guarantee is not None:
            with timed(self.seconds, "DP-SGD"):
                dp_sgd = measure_dp_sgd(
                    private,
                    test,
                    self.bars,
                    networks=networks,
                    guarantee=inputs.guarantee,
                    epochs=epochs,
                    without_noise=part.values,
                )
                part.add(dp_sgd)
        return part

    def _released(self, networks: Sequence[Network]) -> tuple[EncodedClassifier | None, list[str]]:
        """The classifier of the released statistics; or None, and why not."""
        if DISCRIMINANT not in networks:
            return None, []
        try:
            return released_classifier(self.release, self.events).classifier, []
        except (ConfigError, RunError) as error:
            return None, [f"the released classifier: {error}"]

    def _settings(self, whole: Part, sides: _Sides) -> dict[str, Any]:
        left_out = list(self.notes)
        if not self.options.trains:
            left_out.append("trained models: add --full")
        if not self.options.attacks:
            left_out.append("attacks: left out by you (--no-attacks)")
        if not self._classes():
            left_out.append("classes: the release has none, or other ones than the private records")
        if self.inputs.release.kind == "embeddings":
            left_out.append("copies in pixels and pairs: the release holds embeddings")
        names = ("private", "release", "held_out")
        counts = {name: side.count for name, side in zip(names, sides, strict=True)}
        compared = {name: len(side.indices) for name, side in zip(names, sides, strict=True)}
        return {
            "kind": "owner-only",
            "features": self.inputs.features.whole,
            "claim": self.inputs.claim,
            "real": self.inputs.real.name,
            "test": self.inputs.test.name,
            "rows": counts,
            "rows_with_neighbours": compared,
            "rows_of_precision_and_recall": min(compared.values()),
            "neighbours": NEAREST_NEIGHBOURS,
            "resamples": resamples(sides[0].features.shape[1]),
            "seeds": self.options.seeds,
            **whole.settings,
            "left_out": left_out + whole.left_out,
        }
