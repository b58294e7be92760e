from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from understudy.core.errors import BackendError, ConfigError

pytest.importorskip("diffusers")
pytest.importorskip("aggdraw")
pytest.importorskip("skimage")


from understudy.run.sample import sample


@pytest.fixture
def model(tiny_studio: Path, one_thread: None) -> str:
    return f"embedded:studio?folder={tiny_studio}&steps=2"


def pixels(path: Path) -> np.ndarray:
    return np.asarray(Image.open(path))


def test_every_picture_has_a_file_and_a_place_on_the_sheet(model: str, tmp_path: Path) -> None:
    made = sample("a dog", out=tmp_path / "out", count=5, model=model)
    assert [path.name for path in made.image_paths] == [f"{at}.png" for at in range(1, 6)]
    pictures = [pixels(path) for path in made.image_paths]
    assert {picture.shape for picture in pictures} == {(32, 32, 3)}
    assert any((pictures[0] != other).any() for other in pictures[1:])
    sheet = pixels(made.sheet)
    assert (sheet[:32, :32, :3] == pictures[0]).all()


@pytest.mark.slow
def test_the_same_seed_draws_the_same_and_replaces_the_earlier_ones(
    model: str, tmp_path: Path
) -> None:
    first = [pixels(p) for p in sample("a dog", out=tmp_path, count=3, model=model).image_paths]
    again = sample("a dog", out=tmp_path, count=2, model=model)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.png", "2.png", "sheet.png"]
    assert all((pixels(p) == f).all() for p, f in zip(again.image_paths, first, strict=False))
    other = sample("a dog", out=tmp_path, count=2, model=model, seed=1)
    assert (pixels(other.image_paths[0]) != first[0]).any()


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
