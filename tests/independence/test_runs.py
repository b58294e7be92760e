"""A whole run without labels: the release of D and of more records is the same bits.

Those with labels are in tests/conformance/test_methods.py, for each method.
"""

import json
import shutil

import numpy as np
from tests.run.samples import save

from understudy import synthesize
from understudy.data import open_source


def released(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_an_unlabelled_set_gives_nothing_away_but_by_its_answers(tmp_path):
    """From the command's options to the files of the release: more images, the same bytes."""
    source = unlabelled(tmp_path / "scans", 90)
    options = {"epsilon": 4.0, "ledger": str(tmp_path / "ledger.db"), "label": "none"}
    result = synthesize(source, out=tmp_path / "one", method="clustering", **options)
    sizes = [stage for stage in result.receipt.stages if stage.size == 1]
    assert [stage.stage for stage in sizes] == ["class sizes"]
    (stored,) = (tmp_path / "one").rglob("class sizes.npz")
    with np.load(stored, allow_pickle=False) as archive:
        grid = json.loads(str(archive["note"]))["drawn"]["grid"]
        assert abs(float(archive["noisy"][0, 0]) * grid - 90) > 1e-6  # the noise is of about 8
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    shutil.rmtree(tmp_path / "two" / "release")
    (tmp_path / "two" / "owner" / "run.json").unlink()
    assert len(open_source(unlabelled(tmp_path / "scans", 97))) == 97
    synthesize(source, out=tmp_path / "two", method="clustering", resume=True, **options)
    one, two = (released(tmp_path / name / "release") for name in ("one", "two"))
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


def unlabelled(path, count):
    """Images without classes, the same ones first; beyond 90 they are white."""
    rng = np.random.default_rng(4)
    images = rng.integers(0, 256, (90, 8, 8, 1), dtype=np.uint8)
    images = np.concatenate([images, np.full((count - 90, 8, 8, 1), 255, np.uint8)])
    path.mkdir(exist_ok=True)
    for number, image in enumerate(images):
        save(image, path / f"{number}.png")
    return path
