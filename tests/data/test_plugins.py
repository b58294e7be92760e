"""Datasets of other packages, found by their prefix."""

import sys
from types import ModuleType

import numpy as np
import pytest
from tests.plugin_packages import install

from understudy.core.entry_points import SOURCES
from understudy.core.errors import ConfigError, SourceError
from understudy.core.types import Batch
from understudy.data import open_source
from understudy.testing.source_suite import sound_rows


class Stripes:
    """A whole dataset of four images."""

    kind = "images"
    classes = ("all",)
    has_units = False
    skipped = 0

    def __init__(self, name, size, split):
        self.name, self.split = name, split
        self.shape = (*(size or (4, 4)), 3)

    def __len__(self):
        return 4

    def batches(self, size):
        for start in range(0, 4, size):
            rows = range(start, min(start + size, 4))
            values = np.stack([np.full(self.shape, row, dtype=np.uint8) for row in rows])
            yield Batch(values, np.zeros(len(rows), dtype=np.int64))

    def digests(self, key):
        return (key[:15] + bytes([row]) for row in range(4))


def open_stripes(name, size, *, split, unit):
    if "refuse" in name:
        raise ConfigError(f"{name}: no")
    if "break" in name:
        raise ZeroDivisionError("oh")
    return None if "nothing" in name else Stripes(name, size, split)


@pytest.fixture
def register(tmp_path, monkeypatch):
    """Install a package that registers a source."""

    def of(value, prefix="stripes"):
        install(tmp_path, "somebody", {}, {SOURCES: {prefix: value}})
        monkeypatch.syspath_prepend(tmp_path)

    return of


def test_an_installed_prefix_opens(register, monkeypatch):
    register(f"{__name__}:open_stripes")
    module = ModuleType(__name__)
    module.open_stripes = open_stripes
    monkeypatch.setitem(sys.modules, __name__, module)
    source = open_source("stripes:some?many=4", split="test", size=(3, 5))
    assert source.split == "test"
    assert sound_rows(source)[0].shape == (4, 3, 5, 3)
    with pytest.raises(ConfigError, match="no"):
        open_source("stripes:refuse")
    with pytest.raises(SourceError, match="ZeroDivisionError: oh"):
        open_source("stripes:break")
    with pytest.raises(SourceError, match="NoneType, no dataset"):
        open_source("stripes:nothing")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("kind", "sounds"),
        ("shape", None),
        ("shape", (4, 4)),
        ("classes", "ab"),
        ("classes", ("a", "a")),
        ("classes", (0, 1)),
        ("classes", ()),
        ("has_units", None),
        ("skipped", None),
    ],
)
def test_a_dataset_that_misstates_itself_is_refused_as_it_is_opened(
    register, monkeypatch, key, value
):
    """Four of these were charged for, and could then neither be written nor resumed."""

    def opener(name, size, *, split, unit):
        source = Stripes(name, size, split)
        setattr(source, key, value)
        return source

    register(f"{__name__}:opener")
    module = ModuleType(__name__)
    module.opener = opener
    monkeypatch.setitem(sys.modules, __name__, module)
    with pytest.raises(SourceError, match=rf"opener gave a dataset with .* as its {key}"):
        open_source("stripes:some")


def test_a_batch_without_labels_is_its_readers_fault():
    with pytest.raises(TypeError, match="labels of a batch"):
        Batch(np.zeros((2, 3)), None)


def test_a_plugin_that_does_not_import_is_named(register):
    register("other.no_such_module:opener")
    with pytest.raises(SourceError, match=r"other\.no_such_module.*cannot be loaded"):
        open_source("stripes:some")


def test_a_prefix_has_one_owner(register):
    register("somebody.else:opener", prefix="playhouse")
    with pytest.raises(SourceError, match=r"by somebody \(somebody\.else:opener\) and understudy"):
        open_source("playhouse:world")
