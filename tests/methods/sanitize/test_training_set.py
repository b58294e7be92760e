"""Sets of labelled images: bytes and back, splits, mixtures."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from understudy.methods.sanitize.training_set import (
    LabelledSet,
    TrainedModel,
    mixed_set,
    train_model,
)


def numbered(count: int, start: int = 0) -> LabelledSet:
    """Images whose pixels are their number, in three classes."""
    images = np.arange(start, start + count, dtype=np.uint8)[:, None, None, None]
    return LabelledSet.of_classes(np.tile(images, (1, 4, 4, 3)), np.arange(count) % 3)


def test_a_mixture_is_as_large_as_one_set_and_has_a_share_of_each() -> None:
    first, second = numbered(30), numbered(30, 100)
    mixed = mixed_set([first, second], 4)
    assert np.bincount(mixed.labels).tolist() == [10, 10, 10]
    of_first = mixed.images[:, 0, 0, 0] < 100
    assert np.bincount(mixed.labels[of_first]).tolist() == [5, 5, 5]
    assert len(np.unique(mixed.images[:, 0, 0, 0])) == 30


class Recorder:
    """A training that says what it was given."""

    def train(
        self,
        kind: str,
        trained: LabelledSet,
        held_out: LabelledSet,
        classes: int,
        seed: int,
        beat: Callable[[], None],
    ) -> TrainedModel:
        beat()
        self.trained, self.held_out = trained, held_out
        return TrainedModel(b"state", 0.5)

    def export(self, kind: str, state: bytes, shape: tuple[int, ...], classes: int) -> bytes:
        return state


def test_a_tenth_is_never_trained_on() -> None:
    recorder = Recorder()
    train_model(recorder, "classifier", numbered(90), 3, 1)
    assert (len(recorder.trained), len(recorder.held_out)) == (81, 9)
    assert not set(recorder.trained.images.flat) & set(recorder.held_out.images.flat)
