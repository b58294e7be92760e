"""What every source must do: the same rows each time, in any portions, and a digest of each."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from understudy.core.ports import Source
from understudy.data import open_source

KEY = b"a key of the ledger, 32 bytes ..."[:32]

Rows = tuple[NDArray[Any], NDArray[np.int64], NDArray[np.str_] | None]


def read_all(source: Source, size: int = 4) -> Rows:
    """Every row: (values, labels, units)."""
    parts = list(source.batches(size))
    return (
        np.concatenate([part.values for part in parts]),
        np.concatenate([part.labels for part in parts]),
        np.concatenate([part.units for part in parts if part.units is not None])
        if source.has_units
        else None,
    )


def sound_rows(source: Source) -> Rows:
    """What every source must hold to; gives its rows."""
    assert isinstance(source, Source)
    values, labels, units = read_all(source)
    assert values.shape == (len(source), *source.shape)
    assert values.dtype == (np.uint8 if source.kind == "images" else np.float32)
    assert labels.shape == (len(source),)
    assert labels.dtype == np.int64
    assert labels.min() >= 0
    assert labels.max() < len(source.classes)
    assert len(set(source.classes)) == len(source.classes)
    if units is not None:
        assert units.shape == (len(source),)
        assert units.dtype.kind == "U"
    for size in (1, 5, 1000):
        parts = list(source.batches(size))
        assert all((part.units is not None) == source.has_units for part in parts)
        sizes = [len(part.labels) for part in parts]
        assert sum(sizes) == len(source)
        assert all(n == size for n in sizes[:-1])
        again, again_labels, _ = read_all(source, size)
        np.testing.assert_array_equal(again, values)
        np.testing.assert_array_equal(again_labels, labels)
    digests = list(source.digests(KEY))
    assert len(digests) == len(source)
    assert all(len(digest) == 16 for digest in digests)
    assert list(source.digests(b"another key")) != digests
    return values, labels, units


class SourceSuite:
    """What every source must do. A subclass states ``name``.

    Attributes:
        name: What the dataset is opened by, with its prefix; a hundred records are enough.
        unit: The column that names units; None: it has none.
    """

    name: ClassVar[str]
    unit: ClassVar[str | None] = None

    @pytest.fixture
    def source(self) -> Source:
        """The source under test."""
        return open_source(self.name, unit=self.unit)

    def test_a_source_keeps_its_word(self, source: Source) -> None:
        """Its rows are as many, of the shape and the classes that it states, however it is read."""
        _, _, units = sound_rows(source)
        assert units is not None or self.unit is None
        assert units is None or all(unit.strip() for unit in units.tolist())

    def test_a_source_that_is_opened_anew_has_the_same_records(self, source: Source) -> None:
        """The ledger knows a dataset by the digests of its records."""
        again = open_source(self.name, unit=self.unit)
        np.testing.assert_array_equal(read_all(again)[0], read_all(source)[0])
        assert list(again.digests(KEY)) == list(source.digests(KEY))

    def test_a_source_resizes_its_images(self, source: Source) -> None:
        """To the (height, width) that it is opened with."""
        if source.kind != "images":
            pytest.skip("no images")
        resized = open_source(self.name, unit=self.unit, size=(12, 20))
        assert resized.shape == (12, 20, source.shape[2])
        assert next(resized.batches(3)).values.shape[1:] == resized.shape
