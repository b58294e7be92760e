"""The attacks on a release with the private records at hand. Everything here is owner only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from understudy.core.errors import ConfigError
from understudy.core.ports import Events, Source
from understudy.core.results import Evaluation, MetricValue
from understudy.evaluation.embedding_pass import EmbeddedDataset, FeatureExtractor, embed_dataset
from understudy.evaluation.evaluate import evaluate
from understudy.evaluation.inputs import SEARCHED_ROWS, EvaluationOptions, Inputs, evaluated_place
from understudy.evaluation.leakage_adapter import measure_reconstruction
from understudy.metrics.anonymity import LEAST_ROWS, AnonymityTest, infer, link_halves, single_out
from understudy.metrics.blind_attack import BLIND_AUC
from understudy.metrics.verdicts import DIFFERENT
from understudy.run.accuracy import collect
from understudy.run.progress import Bars

_DIFFERENT = (
    "The control differs from the private records by itself (see the verdict on attacks), and what "
    "leaks by these tests may be no more than that"
)


@dataclass(frozen=True, slots=True)
class MeasuredRisk:
    """What was measured of a release on private records, without a charge.

    Attributes:
        tests: Those of WP216.
        evaluation: Membership, copies and fidelity; see `understudy.evaluate`.
        reconstruction: Best matches in the release by pixels.
        notes: What was not measured, and why.
        space: What the tests compare in.
    """

    tests: tuple[AnonymityTest, ...]
    evaluation: Evaluation
    reconstruction: tuple[MetricValue, ...]
    notes: tuple[str, ...]
    space: str

    @property
    def values(self) -> tuple[MetricValue, ...]:
        """Membership, reconstruction and near-copies, of all rows."""
        near = (*self.evaluation.of("leakage"), *self.evaluation.of("attack"))
        return (*(one for one in near if not one.label), *self.reconstruction)

    @property
    def figures(self) -> dict[str, float]:
        """Every exact number by its name: none may stand in a shared part."""
        numbers: dict[str, float] = {}
        for value in (*self.evaluation.values, *self.reconstruction):
            if value.kind == "owner-only":
                ends = {"": value.value, " from": value.low, " to": value.high}
                name = f"{value.name} {value.label} {value.measured}"
                numbers |= {f"{name}{end}": one for end, one in ends.items() if one is not None}
                numbers |= {} if value.baseline is None else {f"{name} baseline": value.baseline}
        for test in self.tests:
            for part in ("main", "control", "naive", "risk"):
                interval = getattr(test, part)
                for end in ("value", "low", "high"):
                    numbers[f"{test.name} {part} {end}"] = getattr(interval, end)
        return numbers


def measure_risk(folder: Path, real: str, test: str | None, events: Events) -> MeasuredRisk:
    """Run every attack on a release.

    Args:
        folder: A run's folder or a release.
        real: The private dataset.
        test: Real rows that took no part; None: what the run held out.
        events: Progress.

    Raises:
        InputError: Something does not fit together; nothing was measured yet.
    """
    inputs = Inputs.open(evaluated_place(folder), real, test, EvaluationOptions())
    control = inputs.test if inputs.held_out is None else inputs.held_out
    fewest = min(len(inputs.real), len(inputs.release), len(control))
    if fewest < LEAST_ROWS:
        raise ConfigError(
            f"the attacks need {LEAST_ROWS} rows or more of each side, found {fewest}: give a "
            "larger --test, or leave out --real"
        )
    evaluation = evaluate(folder, real=real, test=test, progress=events)
    bars: Bars = partial(events.step, owner_only=True)
    same = set(inputs.release.classes) == set(inputs.real.classes)
    classes = inputs.real.classes if same else ()
    sides = [
        _embedded(source, inputs.features, classes, bars)
        for source in (inputs.real, inputs.release, control)
    ]
    features = [side.features for side in sides]
    tests = [single_out(*features), link_halves(*features)]
    blind = [one.low or 0.0 for one in evaluation.of("attack") if one.metric is BLIND_AUC]
    notes = [_DIFFERENT] if max(blind, default=0.0) > DIFFERENT else []
    if len(classes) > 1:
        tests.append(infer(*((side.features, side.labels) for side in sides)))
    else:
        notes.append("inference: the release has no classes, or others than the private records")
    values: list[MetricValue] = []
    if inputs.release.kind == "images":
        ours, synthetic, others = (
            collect(one, None, bars) for one in (inputs.real, inputs.release, control)
        )
        part = measure_reconstruction(ours, synthetic, others, bars)
        values, notes = part.values, notes + part.left_out
    else:
        notes.append("reconstruction by pixels: the release holds embeddings")
    return MeasuredRisk(
        tuple(tests), evaluation, tuple(values), tuple(notes), inputs.features.measured
    )


def _embedded(
    source: Source, features: FeatureExtractor, classes: tuple[str, ...], bars: Bars
) -> EmbeddedDataset:
    if source.kind == "embeddings":
        features = FeatureExtractor(features.name)
    return embed_dataset(
        source, features, classes, SEARCHED_ROWS, bars(f"embedding {source.name}", len(source))
    )
