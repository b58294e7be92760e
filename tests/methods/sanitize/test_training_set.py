"""Sets of labelled images: bytes and back, splits, mixtures."""

import numpy as np

from understudy.methods.sanitize.training_set import LabelledSet, mixed_set, validation_split


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


def test_a_tenth_is_never_trained_on() -> None:
    rows, held_out = validation_split(numbered(90).labels, 1)
    assert (len(rows), len(held_out)) == (81, 9)
    assert not set(rows) & set(held_out)
