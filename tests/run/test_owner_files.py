"""What the owner keeps is readable for the owner alone, and no folder of theirs is released."""

import os
import shutil
import stat

import pytest
from tests.backends.tiny_onnx import block_means
from tests.methods.shapes_world import file_of_stripes, folder_of_shapes
from tests.run.samples import QUICK, class_folders, embeddings, quick_run
from typer.testing import CliRunner

import understudy
from understudy.cli.main import app
from understudy.core.files import public_name
from understudy.run import report as reports
from understudy.run.resample import resample


@pytest.fixture
def umask():
    """A process that gives its files to everybody."""
    before = os.umask(0)
    yield
    os.umask(before)


def open_to_others(owner):
    """The files and folders that somebody else may read, write or enter."""
    return [
        path
        for path in (owner, *owner.rglob("*"))
        if stat.S_IMODE(path.stat().st_mode) != (0o700 if path.is_dir() else 0o600)
    ]


@pytest.mark.slow
def test_every_file_of_the_owner_is_for_the_owner_alone(umask, tmp_path):
    """Whichever command wrote it, and in a folder of an earlier version that is resumed."""
    scans, ledger = class_folders(tmp_path / "scans", shape=(16, 16, 1)), str(tmp_path / "l.db")
    options = {"epsilon": 4.0, "ledger": ledger, "settings": QUICK, "count": 12, "progress": "none"}
    more = {"hold_out": "20%", "watch": True, "quality": "piqe", "quality_threshold": 1.0}
    out = tmp_path / "out"
    understudy.synthesize(scans, out=out, **options, **more)
    assert len([path for path in (out / "owner").rglob("*") if path.is_file()]) > 8
    assert open_to_others(out / "owner") == []
    assert not any(path.stat().st_mode & 0o077 == 0 for path in (out / "release").rglob("*"))
    understudy.evaluate(out, real=scans, progress="none")
    assert (out / "owner" / "evaluation.json").is_file()
    assert open_to_others(out / "owner") == []
    understudy.report(out).write()
    assert open_to_others(out / "owner") == []
    # As an earlier version left it, killed before the release was whole.
    for path in (out / "owner").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    shutil.rmtree(out / "release")
    (out / "owner" / "run.json").unlink()
    understudy.synthesize(scans, out=out, resume=True, **options, **more)
    assert open_to_others(out / "owner") == []
    resample(out, count=9, out=tmp_path / "more", progress="none")
    assert open_to_others(tmp_path / "more" / "owner") == []


def test_a_selections_files_are_for_the_owner_alone(umask, tmp_path):
    private = embeddings(tmp_path / "private.npz", per_class=30)
    pool = embeddings(tmp_path / "pool.npz", per_class=30, seed=3)
    options = {"no_guarantee": True, "candidates_public": True, "keep": "50%", "progress": "none"}
    ledger = str(tmp_path / "ledger.db")
    understudy.select(pool, private=private, out=tmp_path / "out", ledger=ledger, **options)
    assert open_to_others(tmp_path / "out" / "owner") == []


def test_what_is_measured_on_private_records_is_written_for_the_owner_alone(umask, tmp_path):
    scans = class_folders(tmp_path / "scans", {"cat": 30, "dog": 30})
    outs = [quick_run(scans, tmp_path, out=tmp_path / name, epsilon=1.0).folder for name in "ab"]
    files = [tmp_path / name for name in ("t.csv", "page.html", "all.json")]
    reports.load(outs[0]).write_table(files[0])
    reports.write_comparison(outs, understudy.compare(outs), files[1])
    others = class_folders(tmp_path / "others", {"cat": 9, "dog": 9}, seed=5)
    command = ["evaluate", str(outs[0]), f"--real={scans}", f"--test={others}", "--no-attacks"]
    command.append(f"--json={files[2]}")
    assert CliRunner().invoke(app, [*command, "--progress=none"]).exit_code == 0
    assert [oct(stat.S_IMODE(file.stat().st_mode)) for file in files] == ["0o600"] * 3


@pytest.mark.parametrize(
    ("name", "public"),
    [
        ("embedded:studio?folder=/a/ann/mine&steps=2", "embedded:studio?folder=mine&steps=2"),
        ("embedded:studio?folder=%2Fa%2Fann%2Fmine", "embedded:studio?folder=mine"),
        ("embedded:/a/ann/mine", "embedded:mine"),
        ("litert:/a/ann/net.tflite", "litert:net.tflite"),
        ("litert:ward7/net.tflite", "litert:net.tflite"),
        ("hf:/a/ann/clip", "hf:clip"),
        ("hf:./ann/clip", "hf:clip"),
        ("hf:../ann/clip/", "hf:clip"),
        ("hf:~/ann/clip", "hf:clip"),
        ("hf:ann/models/clip", "hf:clip"),
        ("hf:openai/clip?revision=refs/pr/1", "hf:openai/clip?revision=refs/pr/1"),
        ("hf:x/y?revision=/a/ann", "hf:x/y?revision=ann"),
        ("inception:/a/ann/net.pt", "inception:net.pt"),
        ("onnx:C:\\a\\ann\\net.onnx", "onnx:net.onnx"),
        ("C:\\a\\ann\\photos", "photos"),
        ("mine:/a/ann/net?base=hf:/a/ann/sd", "mine:net?base=hf:sd"),
        ("mine:net?base=hf:org/sd", "mine:net?base=hf:org/sd"),
        ("file:///a/ann/photos", "file:photos"),
        ("/a/ann/x.npz?window=40,400", "x.npz?window=40,400"),
        ("openai:a?base_url=http://ann:8080/v1&dim=4", "openai:a?base_url=ann&dim=4"),
        ("openai:a?base_url=https%3A%2F%2Fme:pw@ann.org%2Fv1", "openai:a?base_url=ann.org"),
        ("openai:a?base_url=http://[::1]:80/v1", "openai:a?base_url=[::1]"),
    ],
)
def test_a_public_name_has_no_folder(name, public):
    assert public_name(name) == public
    assert public_name(public) == public


def test_a_relative_folder_that_exists_is_no_name_of_a_hub(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ward7" / "clip").mkdir(parents=True)
    assert public_name("hf:ward7/clip") == "hf:clip"
    assert public_name("hf:ward8/clip") == "hf:ward8/clip"


def released_bytes(folder):
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.parametrize("method", ["clustering", "alignment", "selection", "labelling"])
def test_no_folder_of_the_owner_is_in_a_release(method, tmp_path):
    ward = tmp_path / "ward7"
    scans = class_folders(ward / "scans", {"dog": 40, "person": 30}, (8, 8, 3), seed=1)
    other = str(class_folders(ward / "other", {"dog": 40, "person": 40}, (8, 8, 3), seed=2))
    given = {
        "clustering": {"public": other, "encoder": f"onnx:{block_means(ward / 'enc.onnx')}"},
        "alignment": {"base": other, "encoder": "embedded:dct", "decoder": "embedded:dct"},
        "selection": {"candidates": other, "candidates_public": True},
        "labelling": {"encoder": "embedded:dct?coefficients=60"},
    }[method]
    if method == "labelling":
        scans = folder_of_shapes(ward / "shapes", (70, 57), 1)
        given["public"] = str(folder_of_shapes(ward / "public", (80, 80), 2))
        given["contrast"] = str(file_of_stripes(ward / "contrast.npz"))
    ledger = str(tmp_path / "ledger.db")
    options = {"epsilon": 30.0, "ledger": ledger, "method": method, "progress": "none", **given}
    out = tmp_path / "out"
    understudy.synthesize(scans, out=out, **options)
    content = released_bytes(out / "release")
    assert b"ward7" not in content
    assert str(tmp_path).encode() not in content
