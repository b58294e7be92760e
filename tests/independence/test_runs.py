"""Whole runs: the release of D and of D plus a record is the same bits, given the same answers."""

import json
import shutil

import numpy as np
import pytest
from tests.backends.tiny_onnx import save as save_onnx
from tests.run.samples import class_folders, save

from understudy import synthesize
from understudy.core.errors import BackendError
from understudy.data import open_source
from understudy.planning.dry import dry_run
from understudy.run.config import make_config

SIZES = {"dog": 40, "person": 24}  # 64 records: one more begins another batch
METHODS = {
    "clustering": {"settings": {"clusters": 2, "components": 12}},
    "alignment": {
        "base": "base",
        "encoder": "embedded:dct",
        "decoder": "embedded:dct",
        "settings": {"clusters": 2, "partition": "matched", "second_moment": True},
    },
    "evolution": {
        "generator": "embedded:studio?steps=2",
        "settings": {"rounds": 2, "population": 8, "lookahead": 0},
    },
    "selection": {
        "candidates": "base",
        "candidates_public": True,
        "settings": {"rounds": 3, "steps": 20},
    },
}


def released(folder):
    return {
        path.relative_to(folder): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize(
    "method",
    ["clustering", "alignment", "selection", pytest.param("evolution", marks=pytest.mark.slow)],
)
def test_a_record_more_changes_nothing_but_through_the_noisy_answers(method, tmp_path):
    if method == "evolution":
        pytest.importorskip("diffusers")
    source = class_folders(tmp_path / "scans", SIZES, seed=1)
    class_folders(tmp_path / "base", {"dog": 50, "person": 50}, seed=2)
    options = {"epsilon": 4.0, "quality_share": "5%", "ledger": str(tmp_path / "ledger.db")}
    options |= METHODS[method]
    for role in {"base", "candidates"} & options.keys():
        options[role] = str(tmp_path / options[role])
    synthesize(source, out=tmp_path / "one", method=method, **options)
    # The run as it was killed before its release was written, with the answers it had paid for.
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    shutil.rmtree(tmp_path / "two" / "release")
    shutil.rmtree(tmp_path / "two" / "owner" / "kept", ignore_errors=True)
    (tmp_path / "two" / "owner" / "run.json").unlink()
    rng = np.random.default_rng(3)
    save(rng.integers(0, 256, (8, 8, 1), dtype=np.uint8), source / "dog" / "another.png")
    assert len(open_source(source)) == 65
    synthesize(source, out=tmp_path / "two", method=method, resume=True, **options)
    one, two = (released(tmp_path / name / "release") for name in ("one", "two"))
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


@pytest.mark.parametrize("kind", ["folder", "npz"])
def test_an_unlabelled_set_gives_nothing_away_but_by_its_answers(kind, tmp_path):
    """From the command's options to the files of the release: more images, the same bytes."""
    source = unlabelled(tmp_path / "scans", kind, 90)
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
    assert len(open_source(unlabelled(tmp_path / "scans", kind, 97))) == 97
    synthesize(source, out=tmp_path / "two", method="clustering", resume=True, **options)
    one, two = (released(tmp_path / name / "release") for name in ("one", "two"))
    assert one.keys() == two.keys()
    assert [name for name in one if one[name] != two[name]] == []


def unlabelled(path, kind, count):
    """Images without classes, the same ones first; beyond 90 they are white."""
    rng = np.random.default_rng(4)
    images = rng.integers(0, 256, (90, 8, 8, 1), dtype=np.uint8)
    images = np.concatenate([images, np.full((count - 90, 8, 8, 1), 255, np.uint8)])
    if kind == "npz":
        np.savez(path.with_suffix(".npz"), images=images)
        return path.with_suffix(".npz")
    path.mkdir(exist_ok=True)
    for number, image in enumerate(images):
        save(image, path / f"{number}.png")
    return path


def test_an_encoder_that_mixes_records_is_refused_before_anything_is_charged(tmp_path):
    source = class_folders(tmp_path / "scans", SIZES, (8, 8, 3))
    mixing = save_onnx(
        tmp_path / "mixing.onnx",
        [
            ("ReduceMean", ["images"], ["means"], {"axes": [2, 3], "keepdims": 0}),
            ("ReduceMean", ["means"], ["batch"], {"axes": [0], "keepdims": 1}),
            ("Sub", ["means", "batch"], ["centred"], {}),
        ],
        {"images": ["n", 3, "h", "w"]},
        {"centred": ["n", 3]},
    )
    ledger, out = tmp_path / "ledger.db", tmp_path / "out"
    options = {"encoder": f"onnx:{mixing}", "ledger": str(ledger), "epsilon": 1.0}
    with pytest.raises(BackendError, match=r"mixing\.onnx is refused.*Nothing was spent"):
        synthesize(source, out=out, **options)
    with pytest.raises(BackendError, match=r"mixing\.onnx is refused"):
        dry_run(make_config({"source": str(source), "out": out, **options}))
    assert not out.exists()
    assert not ledger.exists()
