from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from understudy.core.errors import BackendError, ConfigError, RunError

pytest.importorskip("diffusers")
pytest.importorskip("aggdraw")
pytest.importorskip("skimage")


from understudy.run.sample import sample


@pytest.fixture
def model(tiny_studio: Path, one_thread: None) -> str:
    return f"embedded:studio?folder={tiny_studio}&steps=2"


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path))


def test_the_empty_folder_that_one_is_in_is_a_place(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    sample("a dog", out=Path(), count=1, model=model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.png", "sheet.png"]


def test_every_picture_has_a_file_and_a_place_on_the_sheet(model: str, tmp_path: Path) -> None:
    made = sample("a dog", out=tmp_path / "out", count=5, model=model)
    assert [path.name for path in made.image_paths] == [f"{at}.png" for at in range(1, 6)]
    pictures = [pixels(path) for path in made.image_paths]
    assert {picture.shape for picture in pictures} == {(32, 32, 3)}
    assert any((pictures[0] != other).any() for other in pictures[1:])
    sheet = pixels(made.sheet)
    assert (sheet[:32, :32, :3] == pictures[0]).all()


@pytest.mark.slow
def test_the_same_seed_draws_the_same_and_nothing_is_replaced(model: str, tmp_path: Path) -> None:
    first, again, other = (
        sample("a dog", out=tmp_path / name, count=count, model=model, seed=seed).image_paths
        for name, count, seed in (("first", 3, 0), ("again", 2, 0), ("other", 2, 1))
    )
    assert all((pixels(p) == pixels(f)).all() for p, f in zip(again, first, strict=False))
    assert (pixels(other[0]) != pixels(first[0])).any()
    with pytest.raises(RunError, match="is taken"):
        sample("a dog", out=tmp_path / "first", model=model)


@pytest.mark.parametrize(
    ("told", "error", "words"),
    [
        ({"prompt": "  "}, ConfigError, "say what to draw"),
        ({"prompt": "/"}, ConfigError, "understudy resample / --out FOLDER"),
        ({"count": 0}, ConfigError, "count is 1 to"),
        ({"model": "embedded:nothing"}, BackendError, "embedded:studio is a generator"),
    ],
)
def test_wrong_questions_write_nothing(
    tmp_path: Path, told: dict[str, object], error: type[Exception], words: str
) -> None:
    arguments = {"prompt": "a dog", "out": tmp_path / "out", **told}
    with pytest.raises(error, match=words):
        sample(**arguments)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()
