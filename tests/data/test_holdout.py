"""A part of a dataset is held out by a coin for each unit, and by nothing else."""

from pathlib import Path

import numpy as np
import pytest
from tests.data.samples import class_folders, encode, picture

from understudy.core.errors import ConfigError
from understudy.core.ports import Source
from understudy.data import open_source
from understudy.data.holdout import HoldOut, split
from understudy.testing.source_suite import KEY, read_all, sound_rows

HOLD_OUT = HoldOut(bytes(range(32)), 0.3)


def rows_of(source: Source) -> set[bytes]:
    return set(source.digests(KEY))


def numbers(path: Path, rows: int, first: int = 0) -> Source:
    """Records that depend on their own number alone."""
    values = np.stack([np.random.default_rng(n).normal(size=3) for n in range(first, first + rows)])
    np.savez(path, embeddings=values, labels=np.arange(rows) % 2)
    return open_source(path)


def test_the_parts_are_sources_and_hold_every_record_once(tmp_path: Path) -> None:
    whole = open_source(class_folders(tmp_path / "a", rows=12))
    members, held_out = split(whole, HOLD_OUT)
    for part in (members, held_out):
        values, labels, _ = sound_rows(part)
        assert part.classes == whole.classes
        assert len(values) == len(labels) == len(part) > 0
    assert rows_of(members) | rows_of(held_out) == rows_of(whole)
    assert not rows_of(members) & rows_of(held_out)
    assert len(members) + len(held_out) == len(whole)


def test_labels_stay_with_their_records(tmp_path: Path) -> None:
    whole = open_source(class_folders(tmp_path / "a", rows=20))
    known = {values.tobytes(): label for values, label in zip(*read_all(whole)[:2], strict=True)}
    for part in split(whole, HOLD_OUT):
        values, labels, _ = read_all(part, size=7)
        assert [known[value.tobytes()] for value in values] == labels.tolist()


def test_no_record_changes_the_coin_of_another(tmp_path: Path) -> None:
    whole = numbers(tmp_path / "a.npz", 400)
    expected = rows_of(split(whole, HOLD_OUT).held_out)
    for first, rows in ((0, 399), (0, 401), (1, 399), (137, 200)):
        some = numbers(tmp_path / "b.npz", rows, first)
        part = split(some, HOLD_OUT)
        shared = rows_of(some) & rows_of(whole)
        assert rows_of(part.held_out) & shared == expected & shared


def test_the_share_is_a_probability_and_the_key_decides(tmp_path: Path) -> None:
    whole = numbers(tmp_path / "a.npz", 4000)
    drawn = [HoldOut.draw(0.05, None) for _ in range(3)]
    parts = [split(whole, one).held_out for one in drawn]
    # Six standard deviations of a binomial of 4000 and 0.05, which is 13.8.
    assert all(abs(len(part) - 200) < 83 for part in parts)
    assert len({frozenset(rows_of(part)) for part in parts}) == 3
    assert rows_of(split(whole, drawn[0]).held_out) == rows_of(parts[0])


def test_order_size_and_labels_do_not_matter(tmp_path: Path) -> None:
    lines = ["path,label,mood"]
    (tmp_path / "a").mkdir()
    for row in range(40):
        (tmp_path / "a" / f"{row}.png").write_bytes(encode(picture(row)))
        lines.append(f"{row}.png,{'ab'[row % 2]},{'xyz'[row % 3]}")
    (tmp_path / "a" / "manifest.csv").write_text("\n".join(lines))
    expected = rows_of(split(open_source(tmp_path / "a"), HOLD_OUT).held_out)
    other = open_source(tmp_path / "a", label="mood", size=9, channels=1)
    assert rows_of(split(other, HOLD_OUT).held_out) == expected
    (tmp_path / "a" / "manifest.csv").write_text("\n".join([lines[0], *reversed(lines[1:])]))
    assert rows_of(split(open_source(tmp_path / "a"), HOLD_OUT).held_out) == expected


def test_a_unit_is_never_parted(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(300, 3))
    units = np.arange(300) % 60
    np.savez(tmp_path / "a.npz", embeddings=values, units=units)
    hold_out = HoldOut(bytes(32), 0.3, "unit")
    members, held_out = split(open_source(tmp_path / "a.npz", unit="unit"), hold_out)
    mine, theirs = (set(read_all(part)[2].tolist()) for part in (members, held_out))  # type: ignore[union-attr]
    assert mine
    assert theirs
    assert not mine & theirs
    with pytest.raises(ConfigError, match="with its units"):
        split(open_source(tmp_path / "a.npz"), hold_out)


def test_the_key_is_not_printed() -> None:
    assert HOLD_OUT.key.hex() not in repr(HOLD_OUT)
    assert str(HOLD_OUT.key) not in repr(HOLD_OUT)
