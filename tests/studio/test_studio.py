import contextlib
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("aggdraw")
pytest.importorskip("diffusers")
pytest.importorskip("skimage")

from safetensors.torch import load_file  # noqa: E402
from tests.studio.tiny_studio import PLAN, train_tiny_studio  # noqa: E402

from understudy.backends.training_loop import Machine, Schedule  # noqa: E402
from understudy.core.errors import BackendError, ConfigError, RunError  # noqa: E402
from understudy.core.files import lock_of  # noqa: E402
from understudy.studio.corpus import CorpusRow, read_corpus, write_corpus  # noqa: E402
from understudy.studio.plan import STAGES  # noqa: E402
from understudy.studio.stages import save_network, train_stage  # noqa: E402
from understudy.studio.train import Order, make_studio  # noqa: E402


def rows(count: int, *, edges: bool = True) -> Iterator[CorpusRow]:
    rng = np.random.default_rng(0)
    for at in range(count):
        yield CorpusRow(
            image=rng.integers(0, 256, (8, 8, 3), dtype=np.uint8),
            captions=[f"number {at}", f"picture {at}"],
            edges=np.zeros((8, 8), dtype=np.uint8) if edges else None,
            attributes={"kind": str(at % 2)},
        )


def test_a_corpus_comes_back_as_it_was_written(tmp_path: Path) -> None:
    write_corpus(tmp_path, rows(5), 5, classes=("wall", "dog"), held_out=2)
    found = read_corpus(tmp_path)
    assert found is not None
    assert len(found) == 3
    assert found.classes == ("wall", "dog")
    assert found.captions[4] == ("number 4", "picture 4")
    assert [one["kind"] for one in found.attributes] == ["0", "1", "0", "1", "0"]
    assert all((found.images[at] == row.image).all() for at, row in enumerate(rows(5)))
    assert found.segments is None
    assert found.last(2).tolist() == [3, 4]


@pytest.mark.slow
def test_a_studio_learns_on_from_another(tiny_studio: Path, tmp_path: Path) -> None:
    out = tmp_path / "on"
    plan = replace(PLAN, schedules=nearly_still())
    stages = train_tiny_studio(out, plan, start=str(tiny_studio), stages=["unet", "inpainting"])
    assert stages == ("unet", "inpainting")
    file = "diffusion_pytorch_model.safetensors"
    for name in ("vae", "unet", "inpainting", "controlnet-pose"):
        before, after = load_file(tiny_studio / name / file), load_file(out / name / file)
        apart = max(float((before[key].float() - after[key].float()).abs().max()) for key in before)
        assert apart < 2e-3
        assert (apart == 0) == (name in ("vae", "controlnet-pose"))


def nearly_still() -> dict[str, Schedule]:
    """A step that hardly moves anything."""
    return {name: Schedule(steps=1, batch=4, rate=2e-4, warmup=1) for name in STAGES}


class Stopped(Exception):
    pass


class Line:
    """Learns y = 2 x, and is stopped after ``limit`` steps of this process."""

    name, rows = "line", 10

    def __init__(self, limit: int = 1000) -> None:
        torch.manual_seed(0)
        self.network = torch.nn.Linear(1, 1)
        self.seen: list[int] = []
        self.limit = limit

    def loss(self, rows: torch.Tensor, random: torch.Generator) -> dict[str, torch.Tensor]:
        if self.limit == 0:
            raise Stopped
        self.limit -= 1
        self.seen += rows.tolist()
        x = rows[:, None].float() + torch.rand((len(rows), 1), generator=random)
        return {"squares": (self.network(x) - 2 * x).square().mean()}

    def sheet(self) -> None:
        return None


def trained(folder: Path, *limits: int) -> Line:
    """A line trained for 30 steps, begun anew after each of so many."""
    for limit in (*limits, 1000):
        stage = Line(limit)
        with contextlib.suppress(Stopped):
            train_stage(
                stage,
                Schedule(30, 3, 0.01, warmup=2),
                Machine(precision="float32", save_every=-1.0),
                folder,
                lambda name, step, steps, losses: None,
                lambda sheet, step: None,
            )
    return stage


def test_a_training_that_was_stopped_ends_like_one_that_was_not(tmp_path: Path) -> None:
    whole, parts = trained(tmp_path / "whole"), trained(tmp_path / "parts", 7, 12)
    assert torch.equal(whole.network.weight, parts.network.weight)
    assert torch.equal(whole.network.bias, parts.network.bias)
    assert parts.seen == whole.seen[19 * 3 :]


def test_a_checkpoint_or_a_corpus_that_is_cut_off_says_what_to_remove(tmp_path: Path) -> None:
    """Both ended in a traceback."""
    trained(tmp_path / "work", 7)
    file = tmp_path / "work" / "checkpoint.safetensors"
    file.write_bytes(file.read_bytes()[:-5])
    with pytest.raises(BackendError, match=r"no whole checkpoint.*remove it"):
        trained(tmp_path / "work")
    for name in ("images.npy", "texts.jsonl"):
        write_corpus(tmp_path / name, rows(5), 5)
        part = tmp_path / name / name
        part.write_bytes(part.read_bytes()[:-5])
        with pytest.raises(ConfigError, match=r"is not whole.*remove it"):
            read_corpus(tmp_path / name)


def test_a_stage_that_is_killed_while_it_is_written_is_not_done(tmp_path: Path) -> None:
    """``config.json`` says that it is done, and the libraries write it before the weights."""

    class Killed(torch.nn.Linear):
        def save_pretrained(self, folder: Path, **_: object) -> None:
            Path(folder).mkdir()
            (Path(folder) / "config.json").write_text("{}")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_network(Killed(2, 2), tmp_path / "vae")
    assert not (tmp_path / "vae" / "config.json").exists()


def test_a_folder_that_learned_from_other_pictures_is_refused(
    tiny_studio: Path, tmp_path: Path
) -> None:
    """It said that all was trained, and nothing of them was read."""
    assert train_tiny_studio(tiny_studio)
    captions = tmp_path / "captions.csv"
    with pytest.raises(ConfigError, match=r"learns from the playhouse, .*captions\.csv is asked"):
        train_tiny_studio(tiny_studio, data=tmp_path, captions=captions)


def test_two_trainings_of_one_folder_are_not_at_work_at_once(tmp_path: Path) -> None:
    with lock_of(tmp_path), pytest.raises(RunError, match="another training is at work"):
        make_studio(Order(tmp_path, scale=0.001, count=64), progress="none")


def test_a_studio_is_made_in_the_hubs_formats(tiny_studio: Path) -> None:
    networks = set(STAGES) - {"decoder"}  # which is a part of vae
    for network in networks:
        assert json.loads((tiny_studio / network / "config.json").read_text())
        assert list((tiny_studio / network).glob("*.safetensors"))
    assert not list(tiny_studio.rglob("*.bin"))
    assert {path.name for path in tiny_studio.glob("*") if path.is_dir()} == {
        *networks,
        *("image_normalizer", "image_noising", "scheduler", "work"),
    }
