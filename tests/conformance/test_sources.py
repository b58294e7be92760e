"""The sources of this package that are opened by a prefix, and sources that break their word."""

from collections.abc import Iterator
from itertools import islice
from typing import Any

import numpy as np
import pytest

from understudy.core.entry_points import BUILT_IN, SOURCES
from understudy.core.types import Batch
from understudy.playhouse import PlayhouseSource, open_playhouse
from understudy.testing import SourceSuite
from understudy.testing.source_suite import sound_rows


class TestHomes(SourceSuite):
    name = "playhouse:pet-status?homes=3&per_home=4&size=32"
    unit = "home"


class TestWorld(SourceSuite):
    name = "playhouse:world?count=9&size=32"


class TestDrawings(SourceSuite):
    name = "procedural:leaves?count=9"


def test_every_built_in_source_is_listed_here() -> None:
    assert set(BUILT_IN[SOURCES]) == {"playhouse"}


HOMES = open_playhouse("playhouse:pet-status?homes=3&per_home=4&size=32", None)


class FewDigests(PlayhouseSource):
    """The ledger would not know its last record."""

    def digests(self, key: bytes) -> Iterator[bytes]:
        return islice(super().digests(key), len(self) - 1)


class OtherOrder(PlayhouseSource):
    """Its order goes by how much is read at once."""

    def batches(self, size: int) -> Iterator[Batch]:
        for batch in super().batches(size):
            order = slice(None, None, -1)
            yield Batch(batch.values[order], batch.labels[order], batch.units)


@pytest.mark.parametrize("kind", [FewDigests, OtherOrder])
def test_a_source_that_breaks_its_word_is_found(kind: type[PlayhouseSource]) -> None:
    source = kind(HOMES.name, "pet-status", HOMES._settings)
    with pytest.raises(AssertionError):
        sound_rows(source)


@pytest.mark.parametrize(
    ("labels", "units"),
    [
        ([0, 0, 0], None),
        (np.zeros(2, np.int64), None),
        (np.zeros(3, np.int64), ["a", "a", "b"]),
        (np.zeros(3, np.int64), np.arange(3)),
    ],
)
def test_a_batch_says_at_once_that_its_columns_are_none(labels: Any, units: Any) -> None:
    """Where they are read, another package would be blamed."""
    with pytest.raises(TypeError, match="units an array of n str"):
        Batch(np.zeros((3, 4, 4, 3), np.uint8), labels, units)
