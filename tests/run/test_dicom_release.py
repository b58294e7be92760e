"""DICOM files of several modalities become a release, and no identifier comes out anywhere."""

import gzip
import json
import logging
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.data.dicom_files import CANARIES, hospital

import understudy
from understudy.planning.check import check_source
from understudy.run.config import make_config

PATIENTS = 16


def identifiers(folder: Path) -> list[str]:
    """The canaries in any file below a folder, and in any of their names."""
    needles = [canary.encode() for canary in CANARIES]
    needles += [canary.encode("utf-16-le") for canary in CANARIES]
    listed = []
    for path in [folder, *folder.rglob("*")]:
        content = path.read_bytes() if path.is_file() else b""
        if content[:2] == b"\x1f\x8b":
            content = gzip.decompress(content)
        content += str(path).encode()
        listed += [f"{path}: {needle!r}" for needle in needles if needle in content]
    return listed


def test_the_search_finds_what_it_looks_for(tmp_path: Path) -> None:
    files = [path for path in hospital(tmp_path, 1, 1).rglob("*") if path.is_file()]
    assert len(identifiers(tmp_path)) == len(files) * len(CANARIES)


@pytest.mark.slow
def test_three_modalities_become_a_release_without_an_identifier(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    source, out = hospital(tmp_path / "scans", PATIENTS), tmp_path / "work"
    options = {
        "source": str(source),
        "out": out / "out",
        "epsilon": 1.0,
        "unit": "PatientID",
        "unit_rows": 8,
        "hold_out": "50%",  # of 16 patients: 30 % of 10 held out none in one run of 36
        "ledger": str(out / "ledger.db"),
        "settings": {"clusters": 1, "components": 8},
        "count": 30,
    }
    out.mkdir()
    result = understudy.synthesize(**options, progress="plain")  # type: ignore[arg-type]
    checked = check_source(
        make_config({"source": str(source), "out": "x", "epsilon": 1.0, "unit": "PatientID"})
    )
    (out / "check.json").write_text(json.dumps(checked.as_dict()))
    (out / "said.txt").write_text(caplog.text + "".join(capfd.readouterr()))
    assert "may have text burnt into their pixels" in (out / "said.txt").read_text()
    assert len(list((result.release / "train").rglob("*.png"))) == 30
    assert identifiers(out) == []
    privacy = json.loads((result.release / "privacy.json").read_text())
    premises = {one["name"]: (one["value"], one["origin"]) for one in privacy["premises"]}
    assert premises["class names"] == (["ct", "mr", "us"], "inferred")
    assert premises["intensity window"] == ("that of each file", "inferred")
    assert privacy["guarantee"]["unit"] == "rows sharing 'PatientID'"


def test_a_declared_window_is_a_declared_premise(tmp_path: Path) -> None:
    from understudy.planning.dry import dry_run

    source = hospital(tmp_path / "scans", 4)
    names = {"source": f"{source}?window=40,400", "out": tmp_path / "out", "epsilon": 1.0}
    plan = dry_run(make_config({**names, "ledger": str(tmp_path / "ledger.db")}))
    (window,) = (one for one in plan.premises if one.name == "intensity window")
    assert (window.value, window.origin) == ([40.0, 400.0], "declared")


def test_an_evaluation_by_another_window_says_so(tmp_path: Path) -> None:
    """Images of another contrast were measured, and nobody said so."""
    values = np.random.default_rng(0).integers(0, 4096, (2, 2, 20, 8, 8), dtype=np.uint16)
    for (part, label, row), image in ((at, values[at]) for at in np.ndindex(2, 2, 20)):
        file = tmp_path / "ab"[part] / "xy"[label] / f"{row}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    source, test = f"{tmp_path / 'a'}?window=2048,4096", str(tmp_path / "b")
    options = {"epsilon": 50.0, "count": 40, "ledger": str(tmp_path / "l.db"), "progress": "none"}
    result = understudy.synthesize(source, out=tmp_path / "out", **options)  # type: ignore[arg-type]
    same = understudy.evaluate(result, real=source, test=test, progress="none")
    assert "note" not in same.settings
    other = understudy.evaluate(result, real=source, test=f"{test}?window=9,9", progress="none")
    assert "by window=2048,4096, and" in other.settings["note"]
    assert "b?window=9,9 is of another contrast" in other.settings["note"]
