"""No place leads out of the roots, whatever it is spelt like."""

import os
from pathlib import Path

import pytest
from tests.web.web_site import Site, draw_dataset

from understudy.core.errors import ConfigError
from understudy.web.confinement import FolderRoots, OutsideRoots


@pytest.fixture
def roots(tmp_path: Path) -> FolderRoots:
    (tmp_path / "root" / "inside").mkdir(parents=True)
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "a.png").write_bytes(b"private")
    (tmp_path / "root" / "leak").symlink_to(tmp_path / "secret")
    (tmp_path / "root" / "inside" / "leak.png").symlink_to(tmp_path / "secret" / "a.png")
    (tmp_path / "root" / "loop").symlink_to(tmp_path / "root" / "loop")
    (tmp_path / "root" / "near").symlink_to(tmp_path / "root" / "inside")
    (tmp_path / "root-too").mkdir()
    return FolderRoots([tmp_path / "root"])


OUTSIDE = (
    *(
        "",
        "/",
        "..",
        "root/..",
        "root/../secret",
        "root/inside/../../secret",
        "/etc",
        "/etc/passwd",
    ),
    *("root/leak", "root/leak/a.png", "root/inside/leak.png", "root/loop", "root-too", "root/./x"),
    *("root\\..\\secret", "root/\0", "root/" + "a" * 5000, "root/%2e%2e/secret", "~", "~root", "."),
    *("file:///etc/passwd", "root/inside/\ud800", "hf:fashion_mnist", "playhouse:world"),
)


@pytest.mark.parametrize("place", OUTSIDE)
def test_no_place_leads_out(roots: FolderRoots, place: str) -> None:
    with pytest.raises(OutsideRoots):
        roots.path(place)
    assert roots.path("root/near") == roots.folders["root"] / "inside"


def test_a_dataset_holds_no_link_that_leads_out(roots: FolderRoots, tmp_path: Path) -> None:
    with pytest.raises(OutsideRoots):
        roots.dataset("root/inside")
    (tmp_path / "root" / "inside" / "leak.png").unlink()
    (tmp_path / "root" / "inside" / "loop").symlink_to("loop")  # leads nowhere
    assert roots.dataset("root/inside") == tmp_path / "root" / "inside"
    (tmp_path / "root" / "inside" / "deep").mkdir()
    (tmp_path / "root" / "inside" / "deep" / "up").symlink_to("../../../secret")
    with pytest.raises(OutsideRoots):
        roots.dataset("root/inside")


def test_how_files_are_read_stands_after_a_dataset(roots: FolderRoots, tmp_path: Path) -> None:
    inside = tmp_path / "root" / "inside"
    (inside / "leak.png").unlink()
    assert roots.source("root/near") == (inside, str(inside))
    assert roots.source("root/near?window=9,8") == (inside, f"{inside}?window=9,8")
    assert roots.named("test", "root/near?folders=all") == f"{inside}?folders=all"
    with pytest.raises(ConfigError, match="unknown option 'folder'"):
        roots.source("root/near?folder=/etc")
    for place in ("root/../secret", "root/leak", "root/near/a.png?x=1/../../..", "/etc"):
        with pytest.raises(ConfigError):
            roots.source(f"{place}?folders=all")
    with pytest.raises(OutsideRoots):
        roots.source("root/near?folders=" + "a" * 300)
    (tmp_path / "root" / "what?").mkdir()  # a name of its own, with such a sign in it
    assert roots.source("root/what?")[1] == str(tmp_path / "root" / "what?")
    with pytest.raises(OutsideRoots):
        roots.source("root/what??folders=all")


def test_links_are_not_listed(roots: FolderRoots) -> None:
    assert [one.name for one in roots.entries("root")] == ["inside"]


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "a\\b", ".hidden", "a\n", "x" * 81, "a\0"])
def test_a_new_folder_has_a_plain_name(roots: FolderRoots, name: str) -> None:
    with pytest.raises(ConfigError):
        roots.new("root", name)
    assert roots.new("root", "run 2 (b)").parent == roots.folders["root"]


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("encoder", "onnx:/etc/passwd"),
        ("encoder", "onnx:root/leak/a.png"),
        ("encoder", "embedded:studio?folder=/etc"),
        ("encoder", "litert:root/inside?labels=/etc/passwd"),
        ("generator", "hf:somebody/model"),
        ("public", "/etc"),
        ("test", "root/../secret"),
        ("candidates", "hf:x"),
        ("quality", "niqe:/etc/passwd"),
        ("tune", "/etc/passwd"),
    ],
)
def test_no_option_of_a_run_names_a_file_elsewhere(
    roots: FolderRoots, option: str, value: str
) -> None:
    with pytest.raises(ConfigError):
        roots.named(option, value)


def test_models_of_the_package_and_files_of_the_roots_are_taken(roots: FolderRoots) -> None:
    inside = roots.folders["root"] / "inside"
    (inside / "leak.png").unlink()
    (inside / "a.onnx").touch()
    assert roots.named("encoder", "embedded:dct") == "embedded:dct"
    assert roots.named("encoder", "onnx:root/near/a.onnx") == f"onnx:{inside / 'a.onnx'}"
    assert roots.named("public", "root/near") == str(inside)
    assert roots.named("label", "finding") == "finding"
    assert roots.named("tune", "quick") == "quick"
    assert roots.named("tune", "root/near/a.onnx") == str(inside / "a.onnx")


def test_pages_refuse_what_lies_outside(site: Site) -> None:
    """Through every page that takes a place, by the name of its field."""
    token = site.enter()
    draw_dataset(site.root / "photos", each=2)
    os.symlink(site.folder, site.root / "up")
    for place in (
        "data/up",
        "data/up/ledger.db",
        "data/../ledger.db",
        str(site.folder),
        "/etc/passwd",
    ):
        for path, name in (
            *(("/data", "source"), ("/data/sheet", "source"), ("/plan", "source"), ("/", "place")),
            *(("/run", "run"), ("/result", "run"), ("/result/report", "run"), ("/verify", "file")),
            *(("/result/download", "run"), ("/result/public", "run"), ("/compare", "run")),
        ):
            answer = site.get(path, **{name: place})
            assert answer.status_code == 400, (path, place)
            assert "there is nothing of that name" in answer.text
        assert site.get("/plan", source="data/photos", test=place).status_code == 400
        sample = {"run": place, "label": 0, "number": 0}
        assert site.get("/result/sample", **sample).status_code == 400
        answer = site.post("/result/do", token, run=place, action="train")
        assert answer.status_code == 400
    assert not site.studio.jobs.all()
