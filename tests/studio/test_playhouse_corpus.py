from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("aggdraw")
pytest.importorskip("diffusers")
pytest.importorskip("skimage")

from tests.studio.tiny_studio import PLAN  # noqa: E402

from understudy.backends.training_loop import Machine  # noqa: E402
from understudy.playhouse import SEGMENT_CLASSES  # noqa: E402
from understudy.studio.corpus import Corpus, read_corpus, write_corpus  # noqa: E402
from understudy.studio.diffusion import InpaintingStage  # noqa: E402
from understudy.studio.playhouse_corpus import playhouse_rows  # noqa: E402
from understudy.studio.stages import StudioTrainer  # noqa: E402

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


def test_a_bowl_belongs_to_the_dog_that_eats_from_it(corpus: Corpus) -> None:
    rows = np.arange(60)
    alone, together = corpus.targets(rows), corpus.targets(rows, belongings=True)
    assert corpus.segments is not None
    props = np.asarray(corpus.segments) == SEGMENT_CLASSES.index("prop")
    assert props.any()
    np.testing.assert_array_equal(together, alone | props)
    assert not (alone & props).any()


@pytest.mark.slow
def test_several_processes_draw_the_rows_that_one_draws() -> None:
    one, two = (list(playhouse_rows(32, 6, first=3, processes=n)) for n in (1, 2))
    assert [row.captions for row in one] == [row.captions for row in two]
    assert all((a.image == b.image).all() for a, b in zip(one, two, strict=True))


@pytest.fixture
def stage(corpus: Corpus, tiny_studio: Path, tmp_path: Path) -> InpaintingStage:
    for part in tiny_studio.iterdir():
        if part.name != "work":
            (tmp_path / part.name).symlink_to(part)
    (tmp_path / "work").mkdir()
    trainer = StudioTrainer(
        corpus,
        PLAN,
        Machine(precision="float32"),
        tmp_path,
        report=lambda stage, step, steps, losses: None,
        show=lambda stage, sheet, step: None,
    )
    result, _ = trainer._inpainting()
    assert isinstance(result, InpaintingStage)
    return result


def test_a_hole_about_a_target_is_mostly_said_to_be_an_empty_room(
    corpus: Corpus, stage: InpaintingStage
) -> None:
    """Of 100 holes 85 have a text; of 100 about a target 64 that of the room alone."""
    dogs = [at for at, one in enumerate(corpus.attributes) if one["target"] == "dog"]
    rows = torch.tensor(dogs * 100)
    random = torch.Generator().manual_seed(0)
    for around, low, high in ((True, 0.6, 0.68), (False, 0.0, 0.05)):
        asked = torch.full((len(rows),), around)
        tokens = stage.hole_tokens(rows, asked, random)
        rooms = (tokens[:, None] == stage.surroundings[rows]).all(dim=2).any(dim=1)
        assert low <= float(rooms.float().mean()) <= high
        assert float((tokens == stage.silence).all(dim=1).float().mean()) == pytest.approx(
            0.15, abs=0.03
        )
