"""The public and the private half of the benchmark ``satellite``, and what captions say of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.satellite_world import (
    NAMES,
    PRIVATE_LOOK,
    WORDINGS,
    attributes_of,
    grammar,
    private_rows,
    public_rows,
    tiles,
)
from PIL import Image

from understudy.backends.embedded.writer import described
from understudy.backends.phrase_grammar import read_phrases


@pytest.fixture
def eurosat(tmp_path: Path) -> Path:
    """Four tiles of each class, of one colour and a brighter corner."""
    rng = np.random.default_rng(0)
    for folder in WORDINGS:
        (tmp_path / folder).mkdir()
        for number in range(4):
            tile = np.zeros((64, 64, 3), np.uint8) + rng.integers(20, 200, 3).astype(np.uint8)
            tile[:32, :32] += 40
            Image.fromarray(tile).save(tmp_path / folder / f"{number:05d}.jpg", quality=95)
    return tmp_path


def test_the_halves_have_no_tile_in_common(eurosat: Path) -> None:
    public, private = (tiles(eurosat, odd=odd) for odd in (False, True))
    assert {tile.number for tile in public} == {0, 2}
    assert {tile.number for tile in private} == {1, 3}
    assert len(tiles(eurosat, odd=True, each=1)) == len(WORDINGS)


def test_every_caption_of_the_public_half_can_be_read_back(eurosat: Path) -> None:
    phrases = read_phrases(grammar())
    rows = list(public_rows(tiles(eurosat, odd=False)))
    read = [phrases.read(caption) for _, caption in rows]
    assert len(rows) == 4 * 20
    assert {values["target"] for values in read} == set(NAMES)
    assert sum("air" in values for values in read) > 20
    alone = [values for values in read if values.keys() == {"target", "name"}]
    assert len(alone) >= 20, "the class alone means a tile as it is"


@pytest.mark.parametrize("name", NAMES)
def test_whatever_is_said_is_read_and_varied_within_its_class(name: str) -> None:
    phrases, rng = read_phrases(grammar()), np.random.default_rng(0)
    for attribute, values in phrases.possible[name].items():
        for value in values:
            said = {"target": name, "name": name, attribute: value}
            assert phrases.read(described(phrases, said, rng)) == said


def test_the_private_half_is_the_same_every_time_and_looks_different(eurosat: Path) -> None:
    every = tiles(eurosat, odd=True)
    once, again = (np.stack([image for image, _ in private_rows(every)]) for _ in range(2))
    np.testing.assert_array_equal(once, again)
    assert not np.array_equal(once[0], every[0].read())
    assert attributes_of(once[0], PRIVATE_LOOK)["air"] == "light haze"
