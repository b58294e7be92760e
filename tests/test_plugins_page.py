"""The package of docs/plugins.md, built and installed by pip: listed, run, and conforming."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.processes import Commands, commands
from tests.plugin_packages import build, install, write_page
from tests.run.samples import class_folders
from understudy.data import open_source

pytestmark = pytest.mark.slow

POINTS = {"understudy.methods": {"class-means": "class_means:METHOD"}}


@pytest.fixture(scope="module")
def site(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what pip installs of the page's files, and the page's tests beside it."""
    pytest.importorskip("pip")
    source = tmp_path_factory.mktemp("page") / "source"
    write_page(repository / "docs" / "plugins.md", source)
    folder = tmp_path_factory.mktemp("site")
    build(source, folder)
    assert (folder / "understudy_tiles-1.0.dist-info" / "entry_points.txt").exists()
    assert not (folder / "test_tiles.py").exists()
    shutil.copy(source / "test_tiles.py", folder)
    return folder


@pytest.fixture(scope="module")
def path(site: Path) -> str:
    """The path of a process that has the package."""
    return os.pathsep.join([str(site), *(part for part in sys.path if part)])


@pytest.fixture(scope="module")
def understudy(path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", path)
        with commands(tmp_path_factory.mktemp("commands")) as started:
            yield started


def output(understudy: Commands, *arguments: object) -> str:
    """What a command prints that ends well."""
    done = understudy.run(*arguments)
    assert done.code == 0, done.err + done.out
    return done.out


def test_the_modules_of_the_page_have_about_forty_lines(site: Path) -> None:
    for module in ("tiles_backend.py", "class_means.py"):
        code = [line for line in (site / module).read_text().splitlines() if line.strip()]
        assert len(code) <= 48


def test_the_methods_and_the_backends_are_listed(understudy: Commands) -> None:
    methods = output(understudy, "methods")
    assert "class-means: a Gaussian of one width" in methods
    assert "clip_radius" in methods
    assert "clustering:" in methods
    backends = output(understudy, "backends")
    assert "tiles:SIDE" in backends
    assert "embedded:dct" in backends


def test_the_command_of_the_page_makes_a_release(understudy: Commands, tmp_path: Path) -> None:
    photos = class_folders(tmp_path / "photos", {"cat": 40, "dog": 40}, shape=(8, 8, 3))
    out, ledger = tmp_path / "out", f"--ledger={tmp_path / 'ledger.db'}"
    line = f"synthesize {photos} --method class-means --encoder tiles:4 --epsilon 1 --out {out}"
    output(understudy, *line.split(), ledger)
    release = open_source(out)
    assert (release.kind, release.shape) == ("embeddings", (48,))
    assert release.classes == ("cat", "dog")
    assert abs(len(release) - 80) < 60


def test_a_port_that_the_backend_has_not_is_refused_by_name(
    understudy: Commands, tmp_path: Path
) -> None:
    photos = class_folders(tmp_path / "photos", {"cat": 4, "dog": 4}, shape=(8, 8, 3))
    line = f"synthesize {photos} --encoder tiles:4 --decoder tiles:4 --epsilon 1 --out {tmp_path}/o"
    done = understudy.run(*line.split())
    assert done.code != 0
    assert "has no decoder" in " ".join(done.err.split())


def test_the_package_conforms(site: Path, path: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_tiles.py"],
        capture_output=True,
        text=True,
        check=False,
        cwd=site,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stdout
    assert re.search(r"\b2\d passed", done.stdout), done.stdout


def test_a_method_that_makes_no_release_is_named(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a traceback, after the charge."""
    code = (site / "class_means.py").read_text()
    broken = re.sub(r"    return Release\(.*\)\n", "    return None\n", code)
    install(tmp_path / "site", "broken", {"class_means": broken}, POINTS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path / "site"), *sys.path]))
    photos = class_folders(tmp_path / "photos", {"cat": 40, "dog": 40}, shape=(8, 8, 3))
    options = f"--epsilon 1 --yes --out {tmp_path / 'out'} --ledger={tmp_path / 'ledger.db'}"
    with commands(tmp_path) as started:
        done = started.run("synthesize", photos, "--method", "class-means", *options.split())
    assert done.code == 2
    assert "the method 'class-means' gave a NoneType, no Release" in done.err
    assert "epsilon 1 was charged before this" in done.err
