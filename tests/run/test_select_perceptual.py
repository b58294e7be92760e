"""``understudy select --lpips FILE``: distances to private images by a network from a file."""

import csv
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.run.samples import class_folders, embeddings

from understudy.core.errors import ConfigError, InputError
from understudy.data import open_source
from understudy.release.outputs import read_json
from understudy.report import read_record
from understudy.run.select import TABLE, select
from understudy.run.select_config import make_select_config

torch = pytest.importorskip("torch")
SHAPE = (8, 8, 3)


class TinyLpips(torch.nn.Module):
    """LPIPS with one layer of four channels: squared differences of unit features (Eq. 1)."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = torch.nn.Conv2d(3, 4, 3, stride=2)

    def forward(self, a: Any, b: Any) -> Any:
        one, two = (self.layer(each) for each in (a, b))
        one, two = (each / (each.norm(dim=1, keepdim=True) + 1e-10) for each in (one, two))
        return ((one - two) ** 2).sum(1).mean((1, 2))


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("network") / "tiny.pt"
    example = torch.rand(1, 3, *SHAPE[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.trace(TinyLpips().eval(), (example, example)).save(str(file))
    return file


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """Candidates, four private images and four that are not: so few that all are compared."""
    for seed, (name, size) in enumerate({"candidates": 12, "private": 2, "others": 2}.items()):
        class_folders(tmp_path / name, {"cat": size, "dog": size}, SHAPE, seed)
    return tmp_path


def choose(site: Path, kind: str = "", **options: Any) -> Any:
    usual: dict[str, Any] = {
        "private": site / f"private{kind}",
        "reference": site / f"others{kind}",
        "out": site / "out",
        "keep": 8,
        "no_guarantee": True,
        "ledger": str(site / "ledger.db"),
        "progress": "none",
    }
    return select(site / f"candidates{kind}", **{**usual, **options})


def images(folder: Path) -> NDArray[np.uint8]:
    return np.concatenate([batch.values for batch in open_source(folder).batches(99)])


def nearest(candidates: NDArray[np.uint8], records: NDArray[np.uint8]) -> NDArray[np.float64]:
    """The least distance of each candidate to a record, every pair by the network itself."""
    one, two = (
        torch.from_numpy(each).permute(0, 3, 1, 2).float() / 127.5 - 1
        for each in (candidates, records)
    )
    with torch.no_grad():
        pairs = [TinyLpips()(one, each.expand_as(one)) for each in two]
    return torch.stack(pairs).double().numpy().min(0)


def test_distances_to_private_images_are_those_of_the_network(site: Path, network: Path) -> None:
    result = choose(site, lpips=network)
    with (site / "out" / "owner" / TABLE).open(encoding="utf-8", newline="") as file:
        distances = [float(line["distance"]) for line in csv.DictReader(file)]
    candidates = images(site / "candidates")
    to_private, to_others = (nearest(candidates, images(site / it)) for it in ("private", "others"))
    assert distances == pytest.approx(np.log(to_private) - np.log(to_others), abs=1e-4)
    record = read_record(read_json(result.release / "privacy.json"))
    names = {model.role: model.name for model in record.models}
    assert names["perceptual distance"] == "torchscript:tiny.pt"
    assert set(names) == {"encoder", "penalty encoder", "perceptual distance"}


def test_what_it_cannot_be_asked_for_is_refused(site: Path, network: Path) -> None:
    lpips = {"candidates": "c", "out": "o", "keep": "50%", "lpips": str(network)}
    with pytest.raises(ConfigError, match="--lpips is about private images"):
        make_select_config(lpips)
    with pytest.raises(ConfigError, match="leave out --lpips: a penalty is a distance"):
        make_select_config({**lpips, "private": "p", "epsilon": 1.0})
    with pytest.raises(ConfigError, match="its weight is 0"):
        choose(site, lpips=network, settings={"reconstruction": 0})
    with pytest.raises(InputError, match="no such file"):
        choose(site, lpips=site / "none.pt")
    for seed, name in enumerate(("private", "candidates", "others")):
        embeddings(site / f"{name}.npz", seed=seed)
    with pytest.raises(ConfigError, match="no looks: leave out --lpips"):
        choose(site, ".npz", keep=9, out=site / "vectors", lpips=network)
    assert not (site / "ledger.db").exists()
