"""A small class that the release has lost shows in every figure that stands beside a release."""

import numpy as np
import pytest

from understudy.evaluation.utility_adapter import measure_utility
from understudy.metrics import verdicts
from understudy.metrics.utility import CLASS_RECALL, Labelled
from understudy.report.tables import by_class
from understudy.run.accuracy import Accuracy, measure
from understudy.run.progress import SilentEvents

pytest.importorskip("torch", reason="pip install 'understudy[torch]'")

SIZES = {"common": 900, "middling": 80, "rare": 20}
"""Nine in ten rows are of one class: whoever misses the rare one is right of 98 %."""


def unbalanced(seed: int, *, lost: bool = False) -> Labelled:
    """A far cloud of embeddings for each class; of the rare class, where it is lost, noise."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(3), list(SIZES.values()))
    middles = 6.0 * np.eye(3, 8)
    if lost:
        middles[2] = middles[0]
    values = middles[labels] + rng.normal(size=(len(labels), 8))
    return Labelled(values.astype(np.float32), labels, tuple(SIZES))


class Held:
    """A source of rows in memory."""

    kind, name, skipped, unit = "embeddings", "held", 0, None

    def __init__(self, data: Labelled) -> None:
        self.data, self.classes, self.shape = data, data.classes, data.values.shape[1:]

    def __len__(self) -> int:
        return len(self.data.labels)

    def batches(self, size: int):  # type: ignore[no-untyped-def]
        yield self.data


@pytest.fixture(scope="module")
def accuracy() -> Accuracy:
    sides = (Held(unbalanced(0, lost=True)), Held(unbalanced(1)), Held(unbalanced(2)))
    (found,) = measure(*sides, None, SilentEvents().step, epochs=60)  # type: ignore[arg-type]
    return found


def test_what_a_run_states_is_balanced_accuracy_with_its_baselines(accuracy: Accuracy) -> None:
    score = accuracy.score
    assert score.accuracy == pytest.approx(0.98, abs=0.01)  # hides it
    assert score.synthetic == accuracy.synthetic == pytest.approx(2 / 3, abs=0.02)
    assert score.real == accuracy.real > 0.95
    assert (score.majority_balanced, score.majority) == (pytest.approx(1 / 3), 0.9)
    assert (score.recalls[0].label, score.recalls[0].synthetic) == ("rare", 0)
    assert score.recalls[0].real > 0.9


@pytest.mark.slow
def test_an_evaluation_goes_by_balanced_accuracy_and_holds_every_recall() -> None:
    options = {"networks": ["two-layer"], "seeds": 1, "epochs": 60, "both": False}
    found = measure_utility(
        unbalanced(0, lost=True),
        unbalanced(1),
        unbalanced(2),
        SilentEvents().step,
        **options,  # type: ignore[arg-type]
    )
    verdict = verdicts.judge_utility(found.values)
    assert verdict.grade == "poor"
    assert "finds least is rare: 0.0% of its records" in verdict.sentence
    assert "one class for all: 33.3%" in verdict.sentence
    recalls = {one.label: one.value for one in found.values if one.metric is CLASS_RECALL}
    assert set(recalls) == set(SIZES)
    (majority,) = [one for one in found.values if one.name.startswith("accuracy, the majority")]
    assert majority.value == 0.9
    table = by_class(found.values, baseline="trained on the private records")
    assert table is not None
    assert table.rows[0][0] == "rare"
    assert table.rows[0][1][0].best  # the worst of its column is marked
    assert table.names == (CLASS_RECALL.name, "trained on the private records")
