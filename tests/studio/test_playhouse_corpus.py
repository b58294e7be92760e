import os
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("aggdraw")
pytest.importorskip("diffusers")
pytest.importorskip("skimage")


from understudy.playhouse import SEGMENT_CLASSES
from understudy.studio import playhouse_corpus
from understudy.studio.corpus import Corpus, read_corpus, write_corpus
from understudy.studio.playhouse_corpus import playhouse_rows

TARGETS = {"dog", "person", "bottle", "frame"}


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    folder = tmp_path_factory.mktemp("corpus")
    write_corpus(folder, playhouse_rows(32, 60), 60, classes=SEGMENT_CLASSES)
    result = read_corpus(folder)
    assert result is not None
    return result


def test_the_corpus_has_empty_rooms_that_are_no_target(corpus: Corpus) -> None:
    assert corpus.poses is not None
    assert corpus.segments is not None
    empty = [at for at, one in enumerate(corpus.attributes) if one["target"] == "empty"]
    assert 4 <= len(empty) <= 20
    assert not corpus.poses[empty].any()
    for at in empty:
        assert len(corpus.captions[at]) == 3
        shown = {SEGMENT_CLASSES[value] for value in np.unique(corpus.segments[at])}
        assert not shown & (TARGETS | {"prop"})


def test_every_row_says_what_its_room_is_without_the_target(corpus: Corpus) -> None:
    words = " ".join(text for texts in corpus.surroundings for text in texts)
    assert len(corpus.surroundings) == 60
    assert "empty" in words
    assert not TARGETS & set(words.replace(",", "").split())
    walls = [(one["wall"], corpus.surroundings[at]) for at, one in enumerate(corpus.attributes)]
    said = [(wall, text) for wall, texts in walls for text in texts if " wall" in text]
    assert said
    assert all(wall in text for wall, text in said)


def test_no_file_of_the_folder_that_one_is_in_is_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process is spawned by a module that such a file took the place of."""
    (tmp_path / "multiprocessing.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w').close()\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONSAFEPATH", "")
    monkeypatch.setattr(playhouse_corpus, "_FEWEST", 1)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    assert len(list(playhouse_rows(32, 2))) == 2
    assert not (tmp_path / "ran").exists()
