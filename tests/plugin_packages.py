"""Packages from outside, put on a path as an installer would put them."""

import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

_FILE = re.compile(r"^`(\w+\.py)`:\n\n```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PROJECT = re.compile(r"^```toml\n(.*?)^```", re.MULTILINE | re.DOTALL)


def install(
    folder: Path,
    package: str,
    modules: Mapping[str, str],
    entry_points: Mapping[str, Mapping[str, str]],
) -> None:
    """Write a package's modules and its ``dist-info`` into a folder of the path.

    Args:
        folder: A folder of the path; made where it is missing.
        package: Name of the distribution.
        modules: Code by module name.
        entry_points: For each group, ``module:object`` by name.
    """
    information = folder / f"{package.replace('-', '_')}-1.0.dist-info"
    information.mkdir(parents=True)
    for module, code in modules.items():
        (folder / f"{module}.py").write_text(code, encoding="utf-8")
    metadata = f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n"
    (information / "METADATA").write_text(metadata, encoding="utf-8")
    lines = [
        line
        for group, points in entry_points.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (information / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    importlib.invalidate_caches()  # the folder may have been listed within the clock's last tick


def write_page(page: Path, folder: Path) -> None:
    """Write the files and the ``pyproject.toml`` of a page of the documents, as a reader does."""
    text = page.read_text(encoding="utf-8")
    (project,) = _PROJECT.findall(text)
    folder.mkdir(parents=True)
    for name, code in [("pyproject.toml", project), *_FILE.findall(text)]:
        (folder / name).write_text(code, encoding="utf-8")


def build(source: Path, target: Path) -> None:
    """Build a package by pip and install it into a folder, without a network."""
    quiet = ("--quiet", "--disable-pip-version-check", "--no-index", "--no-cache-dir")
    options = (*quiet, "--no-build-isolation", "--no-deps", "--target", str(target))
    done = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def install_page(page: Path, folder: Path) -> None:
    """Install the package whose files and ``pyproject.toml`` stand on a page of the documents."""
    text = page.read_text(encoding="utf-8")
    (project,) = (tomllib.loads(block)["project"] for block in _PROJECT.findall(text))
    modules = {name.removesuffix(".py"): code for name, code in _FILE.findall(text)}
    install(folder, project["name"], modules, project["entry-points"])
